/*
 * check_with.c - enq_with: a critical section, and what it says afterwards.
 */
#include <errno.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sync/sys.h"
#include "told.h"

/* What runs inside, and what it saw. */
struct inside {
    struct enq *e, *other;
    struct enq_grant grant;
    int runs, answer, section_ms;
};

static int plain(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    x->runs++;
    x->grant = *grant;
    want(ENQ_OK, enq_valid(x->e, grant->handle));
    return x->answer;
}

static void open_both(struct inside *x)
{
    x->e = unit_open();
    x->other = unit_open();
}

static void close_both(struct inside *x)
{
    unit_healthy(x->e);
    enq_close(x->e);
    enq_close(x->other);
}

static const struct enq_req *simple(void)
{
    static const struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {"a"},
        .mode = ENQ_MODE_X,
        .ttl_ms = 60000};

    return &req;
}

TEST(the_function_runs_once_under_the_lock_and_its_result_is_told)
{
    struct inside x = {.answer = -77};
    int result = 1;
    uint32_t retries = 9;

    open_both(&x);
    want(ENQ_OK, enq_with(x.e, simple(), plain, &x, &result, &retries));
    ck_assert_int_eq(x.runs, 1);
    ck_assert_int_eq(result, -77);
    ck_assert_uint_eq(retries, 0);
    ck_assert_uint_ne(x.grant.token, 0);
    want(ENQ_NOTHELD, enq_valid(x.e, x.grant.handle));
    ck_assert_uint_eq(told_count(x.e), 0);
    want(ENQ_OK, enq_with(x.e, simple(), plain, &x, NULL, NULL));
    ck_assert_int_eq(x.runs, 2);
    close_both(&x);
}

TEST(what_is_refused_does_not_run)
{
    struct inside x = {0};
    struct enq_grant held;
    int result = 42;

    open_both(&x);
    held = told_lock(x.other, "a", ENQ_MODE_X, 0);
    want_why(ENQ_BUSY, enq_with(x.e, simple(), plain, &x, &result, NULL),
        "locked by");
    want(ENQ_TIMEDOUT,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_S,
                .wait_ms = 20),
            plain, &x, &result, NULL));
    ck_assert_int_eq(x.runs, 0);
    ck_assert_int_eq(result, 42);
    told_unlock(x.other, &held);
    close_both(&x);
}

TEST(retries_are_counted)
{
    struct inside x = {0};
    struct enq_grant held;
    uint32_t retries = 0;

    open_both(&x);
    held = told_lock(x.other, "a", ENQ_MODE_X, 0);
    want(ENQ_BUSY,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .retries = 4,
                .retry_ms = 1),
            plain, &x, NULL, &retries));
    ck_assert_uint_eq(retries, 4);
    ck_assert_int_eq(x.runs, 0);
    told_unlock(x.other, &held);
    told_lock(x.other, "a", ENQ_MODE_X, 30);
    want(ENQ_OK,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .retries = 1000, .retry_ms = 2),
            plain, &x, NULL, &retries));
    ck_assert_uint_gt(retries, 0);
    ck_assert_uint_lt(retries, 1000);
    ck_assert_int_eq(x.runs, 1);
    close_both(&x);
}

/* --- lost in the middle --- */

static int outlive(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    x->runs++;
    (void)grant;
    usleep((useconds_t)x->section_ms * 1000);
    return 5;
}

TEST(a_section_that_takes_longer_than_the_ttl_is_told)
{
    struct inside x = {.section_ms = 60};
    int result = 0;

    open_both(&x);
    want(ENQ_EXPIRED,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .ttl_ms = 20),
            outlive, &x, &result, NULL));
    ck_assert_int_eq(result, 5);
    ck_assert_int_eq(x.runs, 1);
    close_both(&x);
}

TEST(a_heartbeat_holds_the_lock_for_as_long_as_the_section_takes)
{
    struct inside x = {.section_ms = 1500};
    int result = 0;

    open_both(&x);
    want(ENQ_OK,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .ttl_ms = 1000, .heartbeat_ms = 2),
            outlive, &x, &result, NULL));
    ck_assert_int_eq(result, 5);
    close_both(&x);
}

static int get_broken(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    told_break(x->other, grant->handle);
    want(ENQ_OK, unit_lock(x->other, "n", "a", ENQ_MODE_X, &x->grant));
    return 6;
}

TEST(a_section_whose_lock_was_broken_is_told_and_takes_nothing_away)
{
    struct inside x = {0};
    int result = 0;

    open_both(&x);
    want(ENQ_FORCED, enq_with(x.e, simple(), get_broken, &x, &result, NULL));
    ck_assert_int_eq(result, 6);
    want(ENQ_OK, enq_valid(x.other, x.grant.handle));
    told_unlock(x.other, &x.grant);
    close_both(&x);
}

static int get_overtaken(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    (void)grant;
    want(ENQ_OK, unit_lock(x->other, "n", "@", ENQ_MODE_O, &x->grant));
    want(ENQ_OK,
        enq_promote(x->other, x->grant.handle, x->grant.token, &x->grant));
    return 0;
}

TEST(an_optimistic_section_learns_that_another_was_promoted)
{
    struct inside x = {0};

    open_both(&x);
    want(ENQ_LOST,
        enq_with(x.e, ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O),
            get_overtaken, &x, NULL, NULL));
    close_both(&x);
}

static int promote_inside(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    return enq_promote(x->e, grant->handle, grant->token, &x->grant);
}

TEST(a_section_may_promote_its_own_lock)
{
    struct inside x = {0};
    int result = 1;

    open_both(&x);
    want(ENQ_OK,
        enq_with(x.e, ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O),
            promote_inside, &x, &result, NULL));
    want(ENQ_OK, result);
    ck_assert_uint_eq(told_count(x.e), 0);
    close_both(&x);
}

static int unlock_inside(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    told_unlock(x->e, grant);
    return 0;
}

TEST(a_section_that_gives_its_lock_back_is_told_that_it_had_none)
{
    struct inside x = {0};

    open_both(&x);
    want(ENQ_NOTHELD, enq_with(x.e, simple(), unlock_inside, &x, NULL, NULL));
    close_both(&x);
}

static int again(void *arg, const struct enq_grant *grant)
{
    struct inside *x = arg;

    (void)grant;
    if (++x->runs < 5)
        want(ENQ_OK,
            enq_with(x->e,
                ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_E), again,
                x, NULL, NULL));
    return 0;
}

TEST(sections_of_one_owner_nest)
{
    struct inside x = {0};

    open_both(&x);
    want(ENQ_OK,
        enq_with(x.e, ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_E),
            again, &x, NULL, NULL));
    ck_assert_int_eq(x.runs, 5);
    ck_assert_uint_eq(told_count(x.e), 0);
    close_both(&x);
}

/* --- the pauses between retries --- */

#define PAUSES 14
#define RUNS 100

static struct {
    unsigned n, run;
    int64_t ns[PAUSES + 1];
    bool wanted;
} pauses;

/* As the library calls it: nobody need wait. */
int clock_nanosleep(clockid_t id, int flags, const struct timespec *ts,
    struct timespec *left)
{
    if (!pauses.wanted)
        return (int)syscall(SYS_clock_nanosleep, id, flags, ts, left);
    ck_assert_int_eq(flags, 0);
    ck_assert_uint_le(pauses.n, PAUSES);
    pauses.ns[pauses.n++] = ts->tv_sec * INT64_C(1000000000) + ts->tv_nsec;
    return 0;
}

/* Of the pauses of many runs: none is longer than its step, and they are
   anywhere in it. */
static void spread(const int64_t *ns, int64_t step_ns)
{
    int64_t least = INT64_MAX, most = 0;

    for (unsigned run = 0; run < RUNS; run++) {
        least = ns[run] < least ? ns[run] : least;
        most = ns[run] > most ? ns[run] : most;
    }
    ck_assert_int_ge(least, 0);
    ck_assert_int_lt(least, step_ns / 4);
    ck_assert_int_gt(most, step_ns / 2);
    ck_assert_int_lt(most, step_ns);
}

/* Each asks a nanosecond after the one before, as the forked workers of one
   parent nearly do: the clock alone makes no jitter. */
static mono_t nearly_one_moment(void)
{
    return (mono_t){INT64_C(86400000000000) + pauses.run};
}

TEST(pauses_double_with_full_jitter_up_to_ten_seconds)
{
    static int64_t ns[PAUSES][RUNS];
    mono_t (*real_now)(void) = sys.now;
    struct inside x = {0};
    struct enq_grant held, g;
    int64_t step_ms = 5;

    open_both(&x);
    held = told_lock(x.other, "a", ENQ_MODE_X, 0);
    for (unsigned run = 0; run < RUNS; run++) {
        pauses.n = 0;
        pauses.run = run;
        pauses.wanted = true;
        sys.now = nearly_one_moment;
        want(ENQ_BUSY,
            enq_lock(x.e,
                ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                    .retries = PAUSES),
                &g));
        pauses.wanted = false;
        sys.now = real_now;
        ck_assert_uint_eq(pauses.n, PAUSES);
        for (unsigned i = 0; i < PAUSES; i++)
            ns[i][run] = pauses.ns[i];
    }
    for (unsigned i = 0; i < PAUSES; i++, step_ms *= 2)
        spread(ns[i], (step_ms < 10000 ? step_ms : 10000) * 1000000);
    told_unlock(x.other, &held);
    close_both(&x);
}

/* --- wrong use --- */

TEST(wrong_use_is_refused_with_a_reason)
{
    struct inside x = {0};
    uint32_t retries = 3;

    open_both(&x);
    want_why(-EINVAL, enq_with(x.e, simple(), NULL, &x, NULL, &retries),
        "function");
    ck_assert_uint_eq(retries, 0);
    want_why(-EINVAL,
        enq_with(x.e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .flags = ENQ_TEST), plain,
            &x, NULL, NULL),
        "ENQ_TEST takes no lock");
    want(-EINVAL, enq_with(x.e, NULL, plain, &x, NULL, NULL));
    want(-EINVAL, enq_with(NULL, simple(), plain, &x, NULL, NULL));
    want(-EINVAL, enq_with(x.e, ENQ_REQ(.name = "n"), plain, &x, NULL, NULL));
    ck_assert_int_eq(x.runs, 0);
    ck_assert_uint_eq(told_count(x.e), 0);
    close_both(&x);
}

int main(void)
{
    unit_begin("with");
    ADD(the_function_runs_once_under_the_lock_and_its_result_is_told);
    ADD(what_is_refused_does_not_run);
    ADD(retries_are_counted);
    ADD(a_section_that_takes_longer_than_the_ttl_is_told);
    ADD(a_heartbeat_holds_the_lock_for_as_long_as_the_section_takes);
    ADD(a_section_whose_lock_was_broken_is_told_and_takes_nothing_away);
    ADD(an_optimistic_section_learns_that_another_was_promoted);
    ADD(a_section_may_promote_its_own_lock);
    ADD(a_section_that_gives_its_lock_back_is_told_that_it_had_none);
    ADD(sections_of_one_owner_nest);
    ADD(pauses_double_with_full_jitter_up_to_ten_seconds);
    ADD(wrong_use_is_refused_with_a_reason);
    return unit_end();
}
