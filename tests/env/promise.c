/*
 * promise.c - P3, P4, P5 and P7 in figures.
 *
 * Each of these promises ends in a number of milliseconds "on an idle machine".
 * This one may be busy: two threads that do nothing but sleep measure how late
 * it wakes anybody up meanwhile, and that comes on top (env_lag_begin()).
 */
#include <pthread.h>

#include "env.h"

struct stage {
    uint32_t ready, go, done, back;
    double at_ms;
    uint64_t token;
    int64_t ttl_ms;
    uint32_t n;
    const char *point;
    enum enq_death on_death;
};

/* Nor are the 50 ms kept by ticks: one that hides a lost wake-up aborts, see
   sync/tick.h. */
static void judge_ticks(void)
{
    must(setenv("ENQ_TICK_FOUND", "3000", 1) == 0);
}

static int take(struct enq *e, const char *owner, int64_t ttl_ms,
    int64_t wait_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X, .owner = owner,
            .ttl_ms = ttl_ms, .wait_ms = wait_ms),
        g);
}

/* --- P3: no wake-up is lost --- */

#define ROUNDS 40

static void expect_soon(double took_ms, double most_ms)
{
    double lag_ms = env_lag_end_ms();

    if (took_ms > most_ms + lag_ms)
        env_fail(__FILE__, __LINE__, "%.1f ms, of %.0f (and %.1f of this box)",
            took_ms, most_ms, lag_ms);
}

/* Waits for the lock again and again; notes when it had it. */
static int wait_often(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    for (uint32_t i = 0; i < s->n; i++) {
        want(ENQ_OK, take(e, "waiter", ENQ_FOREVER, 20000, &g));
        s->at_ms = env_ms();
        shm_store_release(&s->done, i + 1);
        while (shm_load_acquire(&s->go) != i + 1)
            env_nap(0.2);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        while (shm_load_acquire(&s->back) != i + 1)
            env_nap(0.2);
    }
    return 0;
}

static double worst(double a, double b)
{
    if (b > 15000) /* never woken: not again and again */
        env_fail(__FILE__, __LINE__, "%.0f ms", b);
    return a > b ? a : b;
}

static void release_often(double most_ms)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    double released, late = 0;
    pid_t pid;

    s->n = ROUNDS;
    judge_ticks();
    want(ENQ_OK, take(e, "me", ENQ_FOREVER, 0, &g));
    pid = env_child(wait_often, s);
    env_lag_begin();
    for (uint32_t i = 0; i < s->n; i++) {
        within(8000, env_stat(e).waiting == 1);
        env_nap(i % 8);
        released = env_ms();
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        eventually(shm_load_acquire(&s->done) == i + 1);
        late = worst(late, s->at_ms - released);
        shm_store_release(&s->go, i + 1);
        want(ENQ_OK, take(e, "me", ENQ_FOREVER, 20000, &g));
        shm_store_release(&s->back, i + 1);
    }
    env_join(pid);
    expect_soon(late, most_ms);
}

static void P3_a_waiter_has_it_within_50_ms_of_the_release(void)
{
    release_often(50);
}

static int hold_and_die(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, take(e, "dies", ENQ_FOREVER, 20000, &g));
    s->token = g.token;
    env_reach(&s->ready);
    env_await(&s->go);
    s->at_ms = env_ms();
    if (s->point != NULL) {
        env_at_point(s->point, SIGKILL);
        enq_unlock(e, g.handle, g.token);
    }
    kill(getpid(), SIGKILL);
    return 1;
}

/* How long the waiter, this process, waited for the lock of one that died. */
static double wait_for_the_dead(struct enq *e, struct stage *s)
{
    struct enq_grant g;
    pid_t pid;
    double took;

    s->ready = s->go = 0;
    pid = env_child(hold_and_die, s);
    env_await(&s->ready);
    /* it dies when we are about to sleep, or asleep, or long since */
    env_reach(&s->go);
    want(ENQ_OK, take(e, "lives", ENQ_FOREVER, 20000, &g));
    took = env_ms() - s->at_ms;
    must(g.token > s->token);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    env_killed(pid);
    return took;
}

static void die_often(const char *point, double most_ms, int rounds)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    double late = 0;

    s->point = point;
    judge_ticks();
    env_lag_begin();
    for (int i = 0; i < rounds; i++)
        late = worst(late, wait_for_the_dead(e, s));
    if (getenv("ENQ_TICK_MS") == NULL) /* the dead are reaped by the clock */
        env_healthy(e);
    expect_soon(late, most_ms);
}

static void P3_P4_a_waiter_has_it_within_50_ms_of_the_holders_death(void)
{
    die_often(NULL, 50, 60);
}

static void
P3_a_waiter_has_it_within_50_ms_when_the_releaser_dies_before_waking(void)
{
    die_often("grant.before_wake", 50, 30);
}

static void P3_a_waiter_has_it_within_50_ms_when_the_releaser_dies_inside(void)
{
    die_often("unlock.unlinked", 50, 30);
}

static int wait_in_line(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    env_await(&s->go);
    want(ENQ_OK, take(e, "", ENQ_FOREVER, 20000, &g));
    shm_add(&s->done, 1);
    kill(getpid(), SIGKILL);
    return 1;
}

static void P3_a_line_of_waiters_is_served_whoever_dies_with_the_lock(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    double began;
    pid_t pids[16];

    judge_ticks();
    want(ENQ_OK, take(e, "me", ENQ_FOREVER, 0, &g));
    env_reach(&s->go);
    for (size_t i = 0; i < LENGTH(pids); i++)
        pids[i] = env_child(wait_in_line, s);
    eventually(env_stat(e).waiting == LENGTH(pids));
    env_lag_begin();
    began = env_ms();
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    eventually(shm_load(&s->done) == LENGTH(pids));
    expect_soon((env_ms() - began) / (double)LENGTH(pids), 50);
    for (size_t i = 0; i < LENGTH(pids); i++)
        env_killed(pids[i]);
    env_healthy(e);
}

/*
 * The ticks bound a wait by 40 ms even if no one wakes the waiter: so the
 * 50 ms above do not show that anybody did. Once more with the first tick a
 * minute away, which no machine is too slow for.
 */
#define TICK_MS "60000"
#define BEFORE_ANY_TICK_MS 15000

static void without_ticks(void)
{
    must(setenv("ENQ_TICK_MS", TICK_MS, 1) == 0);
}

static void P3_without_ticks_a_waiter_is_woken_by_the_release(void)
{
    without_ticks();
    release_often(BEFORE_ANY_TICK_MS);
}

static void P3_P4_without_ticks_a_waiter_is_woken_by_the_holders_death(void)
{
    without_ticks();
    die_often(NULL, BEFORE_ANY_TICK_MS, 60);
}

static void
P3_without_ticks_a_waiter_is_woken_when_the_releaser_dies_before_waking(void)
{
    without_ticks();
    die_often("grant.before_wake", BEFORE_ANY_TICK_MS, 30);
}

static void P3_without_ticks_a_waiter_is_woken_when_the_releaser_dies_inside(
    void)
{
    without_ticks();
    die_often("unlock.unlinked", BEFORE_ANY_TICK_MS, 30);
}

/* --- P4: what the dead have held --- */

static int hold_many_and_die(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;
    char field[16];

    for (uint32_t i = 0; i < s->n; i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "env", .key = {field}, .mode = ENQ_MODE_X,
                    .ttl_ms = s->ttl_ms, .on_death = s->on_death),
                &g));
    }
    kill(getpid(), SIGKILL);
    return 1;
}

static void P4_release_locks_are_gone_within_1_s_where_nobody_waits(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    double died, gone;

    s->n = 500;
    env_lag_begin();
    env_killed(env_child(hold_many_and_die, s));
    died = env_ms();
    eventually(env_stat(e).held == 0);
    gone = env_ms() - died;
    expect_soon(gone, 1000);
    eventually(env_stat(e).sessions == 1);
}

static void P4_release_locks_are_in_nobodys_way_at_the_next_touch(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e;
    struct enq_grant g;
    char field[16];

    s->n = 500;
    env_killed(env_child(hold_many_and_die, s));
    e = env_open(); /* nobody was there when it died */
    for (uint32_t i = 0; i < s->n; i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, env_take(e, field, 0, &g));
    }
}

static void expect_orphans(struct enq *e, size_t n, enum enq_death on_death)
{
    struct enq_info info[20];
    size_t total = 0;

    want(ENQ_OK, enq_list(e, "env", NULL, info, LENGTH(info), &total));
    must(total == n);
    for (size_t i = 0; i < n && i < LENGTH(info); i++) {
        must(info[i].orphaned && info[i].pid == 0);
        must(info[i].on_death == on_death);
        must(on_death != ENQ_DEATH_KEEP || info[i].ttl_left_ms == ENQ_FOREVER);
    }
}

static void P4_keep_locks_stay_and_are_listed_as_orphaned(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;

    s->n = 20;
    s->on_death = ENQ_DEATH_KEEP;
    env_killed(env_child(hold_many_and_die, s));
    want(ENQ_TIMEDOUT, env_take(e, "7", 1200, &g));
    expect_orphans(e, s->n, ENQ_DEATH_KEEP);
    must(env_stat(e).orphaned == s->n);
}

static void P4_lease_locks_stay_until_their_ttl_and_no_longer(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    double began = env_ms();
    struct enq_grant g;

    s->n = 5;
    s->ttl_ms = 400;
    s->on_death = ENQ_DEATH_LEASE;
    env_killed(env_child(hold_many_and_die, s));
    expect_orphans(e, s->n, ENQ_DEATH_LEASE);
    want(ENQ_OK, env_take(e, "3", 5000, &g));
    must(env_ms() - began >= 400);
    must(env_ms() - began < 2000);
}

/* --- P7: a ttl is never early, and not late where somebody waits --- */

static int hold_for_ttl(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    for (uint32_t i = 0; i < s->n; i++) {
        int64_t ttl_ms = 1 + i * 7 % 60;
        double before;

        while (shm_load_acquire(&s->go) != i)
            env_nap(0.1);
        before = env_ms();
        want(ENQ_OK, take(e, "holder", ttl_ms, 20000, &g));
        s->at_ms = before + (double)ttl_ms;
        shm_store_release(&s->done, i + 1);
    }
    while (shm_load_acquire(&s->go) != s->n)
        env_nap(0.1);
    return 0;
}

static void P7_a_ttl_is_never_early_and_at_most_20_ms_late_where_someone_waits(
    void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    double late = 0, now;
    pid_t pid;

    s->n = 60;
    pid = env_child(hold_for_ttl, s);
    env_lag_begin();
    for (uint32_t i = 0; i < s->n; i++) {
        eventually(shm_load_acquire(&s->done) == i + 1);
        want(ENQ_OK, take(e, "waiter", ENQ_FOREVER, 20000, &g));
        now = env_ms();
        must(now >= s->at_ms);
        late = worst(late, now - s->at_ms);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        shm_store_release(&s->go, i + 1);
    }
    env_join(pid);
    expect_soon(late, 20);
}

static void P7_a_ttl_is_never_early_for_who_asks_without_waiting(void)
{
    struct enq *e = env_open();
    struct enq_grant g, other;
    double before;
    int rc;

    for (int i = 0; i < 40; i++) {
        int64_t ttl_ms = 1 + i % 20;

        before = env_ms();
        want(ENQ_OK, take(e, "holder", ttl_ms, 0, &g));
        do
            rc = take(e, "other", ENQ_FOREVER, 0, &other);
        while (rc == ENQ_BUSY);
        want(ENQ_OK, rc);
        must(env_ms() - before >= (double)ttl_ms);
        must(enq_valid(e, g.handle) == ENQ_EXPIRED);
        want(ENQ_OK, enq_unlock(e, other.handle, other.token));
    }
}

static void P7_a_ttl_is_never_early_for_its_holder(void)
{
    struct enq *e = env_open();
    struct enq_grant g;
    double before, now;
    int rc;

    for (int i = 0; i < 30; i++) {
        int64_t ttl_ms = 2 + i;

        before = env_ms();
        want(ENQ_OK, take(e, "holder", ttl_ms, 0, &g));
        do {
            rc = enq_valid(e, g.handle);
            now = env_ms();
        } while (rc == ENQ_OK && now - before < 1000);
        want(ENQ_EXPIRED, rc);
        must(now - before >= (double)ttl_ms);
    }
}

const struct env_case promise_cases[] = {
    ALONE(P3_a_waiter_has_it_within_50_ms_of_the_release),
    ALONE(P3_P4_a_waiter_has_it_within_50_ms_of_the_holders_death),
    ALONE(P3_a_waiter_has_it_within_50_ms_when_the_releaser_dies_before_waking),
    ALONE(P3_a_waiter_has_it_within_50_ms_when_the_releaser_dies_inside),
    ALONE(P3_a_line_of_waiters_is_served_whoever_dies_with_the_lock),
    CASE(P3_without_ticks_a_waiter_is_woken_by_the_release),
    CASE(P3_P4_without_ticks_a_waiter_is_woken_by_the_holders_death),
    CASE(
        P3_without_ticks_a_waiter_is_woken_when_the_releaser_dies_before_waking),
    CASE(P3_without_ticks_a_waiter_is_woken_when_the_releaser_dies_inside),
    ALONE(P4_release_locks_are_gone_within_1_s_where_nobody_waits),
    CASE(P4_release_locks_are_in_nobodys_way_at_the_next_touch),
    CASE(P4_keep_locks_stay_and_are_listed_as_orphaned),
    CASE(P4_lease_locks_stay_until_their_ttl_and_no_longer),
    ALONE(P7_a_ttl_is_never_early_and_at_most_20_ms_late_where_someone_waits),
    CASE(P7_a_ttl_is_never_early_for_who_asks_without_waiting),
    CASE(P7_a_ttl_is_never_early_for_its_holder),
    {0},
};
