/*
 * check_lock.c - asking for a lock: every bad request, owners, times, retries.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sync/sys.h"
#include "unit.h"

#define GOOD                                                                   \
    {                                                                          \
        .size = sizeof(struct enq_req), .name = "product",                     \
        .key = {"Computer"}, .mode = ENQ_MODE_X,                               \
    }

/* --- bad requests --- */

static char long_text[5000];

static void no_name(struct enq_req *r)
{
    r->name = NULL;
}
static void empty_name(struct enq_req *r)
{
    r->name = "";
}
static void long_name(struct enq_req *r)
{
    r->name = long_text;
}
static void long_field(struct enq_req *r)
{
    r->key[0] = long_text;
}
static void long_second(struct enq_req *r)
{
    r->key[1] = long_text;
}
static void hole(struct enq_req *r)
{
    r->key[2] = "4711";
}
static void long_owner(struct enq_req *r)
{
    r->owner = long_text;
}
static void long_id(struct enq_req *r)
{
    r->id = long_text;
}
static void empty_id(struct enq_req *r)
{
    r->id = "";
}
static void no_mode(struct enq_req *r)
{
    r->mode = 0;
}
static void mode_5(struct enq_req *r)
{
    r->mode = 5;
}
static void mode_huge(struct enq_req *r)
{
    r->mode = (enum enq_mode) - 1;
}
static void death_3(struct enq_req *r)
{
    r->on_death = 3;
}
static void death_negative(struct enq_req *r)
{
    r->on_death = (enum enq_death) - 1;
}
static void flag_4(struct enq_req *r)
{
    r->flags = 4;
}
static void flags_all(struct enq_req *r)
{
    r->flags = ~0u;
}
static void wait_negative(struct enq_req *r)
{
    r->wait_ms = -2;
}
static void wait_least(struct enq_req *r)
{
    r->wait_ms = INT64_MIN;
}
static void ttl_negative(struct enq_req *r)
{
    r->ttl_ms = -2;
}
static void ttl_least(struct enq_req *r)
{
    r->ttl_ms = INT64_MIN;
}
static void retry_negative(struct enq_req *r)
{
    r->retry_ms = -1;
}
static void retry_and_wait(struct enq_req *r)
{
    r->retries = 1;
    r->wait_ms = 1;
}
static void heartbeat_negative(struct enq_req *r)
{
    r->heartbeat_ms = -1;
}
static void heartbeat_late(struct enq_req *r)
{
    r->heartbeat_ms = r->ttl_ms = 1000;
}
static void heartbeat_of_default(struct enq_req *r)
{
    r->heartbeat_ms = 15 * 60 * 1000;
}
static void heartbeat_without_ttl(struct enq_req *r)
{
    r->heartbeat_ms = 1000;
    r->ttl_ms = ENQ_FOREVER;
}
static void delay(struct enq_req *r)
{
    r->delay_ms = -1;
}
static void size_zero(struct enq_req *r)
{
    r->size = 0;
}
static void size_seven(struct enq_req *r)
{
    r->size = 7;
}
static void size_huge(struct enq_req *r)
{
    r->size = SIZE_MAX;
}

static const struct {
    void (*spoil)(struct enq_req *r);
    int result;
    const char *words;
} spoilt[] = {
    {no_name, -EINVAL, "name"},
    {empty_name, -EINVAL, "name"},
    {long_name, -ENAMETOOLONG, "name \"llll"},
    {long_field, -ENAMETOOLONG, "field 1"},
    {long_second, -ENAMETOOLONG, "field 2"},
    {hole, -EINVAL, "field 2 of the key"},
    {long_owner, -ENAMETOOLONG, "owner \"llll"},
    {long_id, -ENAMETOOLONG, "id \"llll"},
    {empty_id, -EINVAL, "id"},
    {no_mode, -EINVAL, "mode 0"},
    {mode_5, -EINVAL, "mode 5"},
    {mode_huge, -EINVAL, "mode -1"},
    {death_3, -EINVAL, "on_death 3"},
    {death_negative, -EINVAL, "on_death -1"},
    {flag_4, -EINVAL, "0x4"},
    {flags_all, -EINVAL, "flags"},
    {wait_negative, -EINVAL, "wait -2"},
    {wait_least, -EINVAL, "negative"},
    {ttl_negative, -EINVAL, "ttl -2"},
    {ttl_least, -EINVAL, "negative"},
    {retry_negative, -EINVAL, "retry -1"},
    {retry_and_wait, -EINVAL, "retries"},
    {heartbeat_negative, -EINVAL, "heartbeat of -1"},
    {heartbeat_late, -EINVAL, "too late"},
    {heartbeat_of_default, -EINVAL, "too late"},
    {heartbeat_without_ttl, -EINVAL, "ttl"},
    {delay, -EINVAL, "delay of -1"},
    {size_zero, -EINVAL, "size"},
    {size_seven, -EINVAL, "size"},
    {size_huge, -EINVAL, "size"},
};

TEST(a_bad_request_is_refused_named_and_leaves_no_trace)
{
    struct enq_req req = GOOD;
    struct enq *e = unit_open();
    struct enq_grant g;
    size_t total;

    memset(long_text, 'l', sizeof(long_text) - 1);
    spoilt[_i].spoil(&req);
    want_why(spoilt[_i].result, enq_lock(e, &req, &g), spoilt[_i].words);
    ck_assert_ptr_null(strchr(enq_why(), '\n'));
    req.flags |= ENQ_TEST;
    want(spoilt[_i].result, enq_lock(e, &req, &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    want(ENQ_OK, unit_lock(e, "product", "Computer", ENQ_MODE_X, &g));
    enq_close(e);
}

TEST(nothing_given_is_refused)
{
    struct enq_req req = GOOD;
    struct enq *e = unit_open();
    struct enq_grant g;

    want_why(-EINVAL, enq_lock(NULL, &req, &g), "attachment");
    want_why(-EINVAL, enq_lock(e, NULL, &g), "request");
    want_why(-EINVAL, enq_lock(e, &req, NULL), "grant");
    want_why(-EINVAL, enq_lock_spec(NULL, "n", "X", NULL, 0, 0, &g), "NULL");
    want(-EINVAL, enq_lock_spec(e, NULL, "X", NULL, 0, 0, &g));
    want_why(-EINVAL, enq_lock_spec(e, "n", NULL, NULL, 0, 0, &g), "mode");
    want_why(-EINVAL, enq_lock_spec(e, "n", "x", NULL, 0, 0, &g), "\"x\"");
    want_why(-EINVAL, enq_lock_spec(e, "n", "", NULL, 0, 0, &g), "mode");
    want(-EINVAL, enq_lock_spec(e, "n", "X", NULL, 0, 0, NULL));
    want(-EINVAL, enq_lock_spec(e, "n", "X", NULL, -2, 0, &g));
    enq_close(e);
}

TEST(every_call_refuses_no_attachment)
{
    struct enq_stats s = {.size = sizeof(s)};
    char text[ENQ_ID_BYTES];
    struct enq_grant g;
    enq_handle h;

    want(-EINVAL, enq_unlock(NULL, 1, 1));
    want(-EINVAL, enq_promote(NULL, 1, 1, &g));
    want(-EINVAL, enq_demote(NULL, 1, 1));
    want(-EINVAL, enq_renew(NULL, 1, 1, 1));
    want(-EINVAL, enq_valid(NULL, 1));
    want(-EINVAL, enq_find(NULL, "x", &h));
    want(-EINVAL, enq_id(NULL, 1, text));
    want(-EINVAL, enq_adopt(NULL, "x", &g));
    want(-EINVAL, enq_break(NULL, "x"));
    want(-EINVAL, enq_list(NULL, NULL, NULL, NULL, 0, NULL));
    want(-EINVAL, enq_stat(NULL, &s));
    want(-EINVAL, enq_doctor(NULL, 0, text, sizeof(text)));
    want(-EINVAL, enq_dump(NULL, 1));
}

/* --- requests of other headers --- */

struct newer_req {
    struct enq_req ours;
    char more[16];
};

TEST(a_newer_request_is_fine_while_its_new_part_is_zero)
{
    struct newer_req req = {.ours = GOOD};
    struct enq *e = unit_open();
    struct enq_grant g;

    req.ours.size = sizeof(req);
    want(ENQ_OK, enq_lock(e, &req.ours, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    req.more[15] = 1;
    want_why(-E2BIG, enq_lock(e, &req.ours, &g), "request");
    enq_close(e);
}

TEST(an_older_request_has_defaults_for_the_rest)
{
    struct enq_req req = GOOD;
    struct enq *e = unit_open();
    struct enq_grant g;
    struct enq_info info;

    req.size = offsetof(struct enq_req, owner);
    req.owner = "not looked at";
    req.ttl_ms = -77;
    want(ENQ_OK, enq_lock(e, &req, &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, NULL));
    ck_assert_str_eq(info.owner, "me");
    ck_assert_int_eq(info.ttl_ms, 15 * 60 * 1000);
    enq_close(e);
}

/* --- owners --- */

static int lock_e(struct enq *e, const char *owner, struct enq_grant *g)
{
    return enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_E, .owner = owner),
        g);
}

TEST(an_owner_cumulates_and_nobody_does_not)
{
    struct enq *e = unit_open(), *f = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_e(e, "A", &g));
    want(ENQ_OK, lock_e(f, "A", &g));
    want_why(ENQ_BUSY, lock_e(e, "B", &g), "locked by A (mode ");
    want(ENQ_BUSY, lock_e(e, "", &g));
    enq_close(e);
    enq_close(f);
    e = unit_open();
    want(ENQ_OK, lock_e(e, "", &g));
    want(ENQ_BUSY, lock_e(e, "", &g));
    enq_close(e);
}

TEST(an_owner_has_a_longest_length)
{
    char owner[ENQ_OWNER_BYTES + 1];
    struct enq *e = unit_open();
    struct enq_grant g;

    for (size_t n = ENQ_OWNER_BYTES - 2; n <= ENQ_OWNER_BYTES; n++) {
        memset(owner, 'o', n);
        owner[n] = '\0';
        if (n == ENQ_OWNER_BYTES)
            break;
        want(ENQ_OK, lock_e(e, owner, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    want(-ENAMETOOLONG, lock_e(e, owner, &g));
    enq_close(e);
}

TEST(a_refusal_names_the_blocker)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    char id[ENQ_ID_BYTES], text[80];

    want(ENQ_OK, unit_lock(e, "product", "Computer", ENQ_MODE_E, &a));
    want(ENQ_OK, enq_id(e, a.handle, id));
    ck_assert_str_eq(a.blocker.owner, "");
    memset(&b, 0xff, sizeof(b)); /* whatever it was, all of it is told */
    want_why(ENQ_BUSY, unit_lock(e, "product", "Computer", ENQ_MODE_S, &b),
        "product/Computer is locked by me (mode E, ");
    snprintf(text, sizeof(text), "s, pid %d, ttl 1", getpid());
    ck_assert_ptr_nonnull(strstr(enq_why(), text));
    ck_assert_str_eq(b.blocker.owner, "me");
    ck_assert_str_eq(b.blocker.id, id);
    ck_assert_int_eq(b.blocker.pid, getpid());
    ck_assert_uint_eq(b.blocker.mode, ENQ_MODE_E);
    ck_assert_uint_eq(b.blocker.waiting, 0);
    ck_assert_uint_eq(b.blocker.dying, 0);
    ck_assert_uint_eq(b.blocker.queue, 0);
    ck_assert_int_ge(b.blocker.age_ms, 0);
    ck_assert_int_gt(b.blocker.ttl_left_ms, 14 * 60 * 1000);
    enq_close(e);
}

/* --- time, turned by hand --- */

static int64_t later_ns;
static mono_t (*real_now)(void), (*real_coarse)(void);

static mono_t now_later(void)
{
    return mono_add_ns(real_now(), __atomic_load_n(&later_ns, 5));
}

static mono_t coarse_later(void)
{
    return mono_add_ns(real_coarse(), __atomic_load_n(&later_ns, 5));
}

static void pass_ms(int64_t ms)
{
    __atomic_add_fetch(&later_ns, ms * NS_PER_MS, 5);
}

static struct enq *open_with_a_clock(void)
{
    real_now = sys.now;
    real_coarse = sys.coarse;
    sys.now = now_later;
    sys.coarse = coarse_later;
    return unit_open();
}

static const int64_t ttls[] = {1, 1000, INT64_C(2147483647),
    INT64_C(2147483648), INT64_C(4294967296), INT64_C(9000000000)};

TEST(a_ttl_ends_at_its_time_and_not_before)
{
    struct enq *e = open_with_a_clock();
    struct enq_grant g, h;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = ttls[_i] + 1000),
            &g));
    pass_ms(ttls[_i]);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_BUSY, lock_e(e, "b", &h));
    pass_ms(2100); /* of a long one the coarse clock's lag is added */
    want(ENQ_EXPIRED, enq_valid(e, g.handle));
    want(ENQ_OK, lock_e(e, "b", &h));
    want(ENQ_EXPIRED, enq_renew(e, g.handle, g.token, 0));
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    want(ENQ_NOTHELD, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_valid(e, h.handle));
    enq_close(e);
}

TEST(a_ttl_beyond_all_time_never_ends)
{
    static const int64_t never[] = {
        ENQ_FOREVER, INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000};
    struct enq *e = open_with_a_clock();
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = never[_i]), &g));
    pass_ms(INT64_C(86400000) * 365 * 100);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 0));
    pass_ms(INT64_C(86400000) * 365 * 100);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

TEST(the_default_ttl_is_15_minutes)
{
    struct enq *e = open_with_a_clock();
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    pass_ms(15 * 60 * 1000 - 1000);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 0));
    pass_ms(15 * 60 * 1000 - 1000);
    want(ENQ_OK, enq_valid(e, g.handle));
    pass_ms(1100);
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

TEST(a_wait_lasts_its_time_and_not_less)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, unit_lock(e, "n", NULL, ENQ_MODE_X, &g));
    for (int ms = 1; ms < 60; ms += 19) {
        mono_t before = sys.now();

        want_why(ENQ_TIMEDOUT,
            enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = ms),
                &h),
            "locked by me (");
        ck_assert_int_ge(sys.now().ns - before.ns, ms * NS_PER_MS);
        ck_assert_str_eq(h.blocker.owner, "me");
    }
    enq_close(e);
}

/* --- waiting for ages, and retries --- */

static const int64_t waits[] = {ENQ_FOREVER, INT64_MAX, INT64_MAX - 1,
    INT64_C(2147483648), INT64_C(4294967296)};

struct waiter {
    struct enq *e;
    int64_t wait_ms;
};

static void *wait_for_it(void *arg)
{
    struct waiter *w = arg;
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(w->e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "waiter",
                .wait_ms = w->wait_ms),
            &g));
    return NULL;
}

TEST(a_very_long_wait_ends_with_the_grant)
{
    struct waiter w = {unit_open(), waits[_i]};
    struct enq_grant g;
    pthread_t thread;

    want(ENQ_OK, unit_lock(w.e, "n", NULL, ENQ_MODE_X, &g));
    pthread_create(&thread, NULL, wait_for_it, &w);
    eventually(unit_stats(w.e).waiting == 1);
    want(ENQ_OK, enq_unlock(w.e, g.handle, g.token));
    pthread_join(thread, NULL);
    enq_close(w.e);
}

TEST(retries_are_so_many_and_within_their_time)
{
    struct enq_stats s = {.size = sizeof(s)};
    struct enq *e = unit_open();
    struct enq_grant g, h;
    int64_t began;

    want(ENQ_OK, unit_lock(e, "n", NULL, ENQ_MODE_X, &g));
    began = unit_now_ms();
    want(ENQ_BUSY,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .retries = 4,
                .retry_ms = 2),
            &h));
    ck_assert_int_lt(unit_now_ms() - began, unit_patience_ms());
    want(ENQ_OK, enq_stat(e, &s));
    ck_assert_uint_eq(s.refusals, 5);
    ck_assert_uint_eq(s.waits, 0);
    ck_assert_str_eq(h.blocker.owner, "me");
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .retries = 4,
                .retry_ms = INT64_MAX),
            &h));
    enq_close(e);
}

TEST(a_retry_gets_what_came_free)
{
    struct waiter w = {unit_open(), 0};
    struct enq_grant g, h;

    want(ENQ_OK,
        enq_lock(w.e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = 30),
            &g));
    want(ENQ_OK,
        enq_lock(w.e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .retries = 1000,
                .retry_ms = 1),
            &h));
    ck_assert_uint_gt(h.token, g.token);
    enq_close(w.e);
}

TEST(a_test_takes_nothing_and_needs_no_grant)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    size_t total;

    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .flags = ENQ_TEST),
            NULL));
    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    want(ENQ_OK, unit_lock(e, "n", NULL, ENQ_MODE_X, &g));
    want(ENQ_BUSY,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .flags = ENQ_TEST),
            NULL));
    enq_close(e);
}

TEST(the_one_string_form_asks_for_the_same_lock)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, enq_lock_spec(e, "product/Computer", "X", "A", 0, 0, &g));
    want(ENQ_BUSY, unit_lock(e, "product", "Computer", ENQ_MODE_X, &h));
    want(ENQ_BUSY, enq_lock_spec(e, "product/@", "S", "A", 0, 0, &h));
    want(ENQ_OK, enq_lock_spec(e, "product/\\@", "S", "A", 0, 0, &h));
    want(ENQ_TIMEDOUT,
        enq_lock_spec(e, "product/Computer", "S", "B", 3, 0, &h));
    ck_assert_str_eq(h.blocker.owner, "A");
    enq_close(e);
}

int main(void)
{
    unit_begin("lock");
    ADD_LOOP(a_bad_request_is_refused_named_and_leaves_no_trace,
        LENGTH(spoilt));
    ADD(nothing_given_is_refused);
    ADD(every_call_refuses_no_attachment);
    ADD(a_newer_request_is_fine_while_its_new_part_is_zero);
    ADD(an_older_request_has_defaults_for_the_rest);
    ADD(an_owner_cumulates_and_nobody_does_not);
    ADD(an_owner_has_a_longest_length);
    ADD(a_refusal_names_the_blocker);
    ADD_LOOP(a_ttl_ends_at_its_time_and_not_before, LENGTH(ttls));
    ADD_LOOP(a_ttl_beyond_all_time_never_ends, 4);
    ADD(the_default_ttl_is_15_minutes);
    ADD(a_wait_lasts_its_time_and_not_less);
    ADD_LOOP(a_very_long_wait_ends_with_the_grant, LENGTH(waits));
    ADD(retries_are_so_many_and_within_their_time);
    ADD(a_retry_gets_what_came_free);
    ADD(a_test_takes_nothing_and_needs_no_grant);
    ADD(the_one_string_form_asks_for_the_same_lock);
    return unit_end();
}
