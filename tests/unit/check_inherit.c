/*
 * check_inherit.c - going on for a dead process that held locks for others.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "peer.h"
#include "told.h"

/* Of one that is gone by then: what it held, as it was told before. */
static struct enq_info leave(const struct enq_req *req)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;
    size_t total;

    want(ENQ_OK, enq_lock(e, req, &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    ck_assert_uint_eq(info.handle, g.handle);
    enq_close(e);
    return info;
}

static struct enq_info inherit_one(struct enq *e)
{
    struct enq_info infos[4];
    size_t got = 99;

    want(ENQ_OK, enq_inherit(e, infos, LENGTH(infos), &got));
    ck_assert_uint_eq(got, 1);
    return infos[0];
}

static void inherit_none(struct enq *e)
{
    struct enq_info infos[4];
    size_t got = 99;

    want(ENQ_OK, enq_inherit(e, infos, LENGTH(infos), &got));
    ck_assert_uint_eq(got, 0);
}

static void same_lock(const struct enq_info *a, const struct enq_info *b)
{
    ck_assert_uint_eq(a->handle, b->handle);
    ck_assert_uint_eq(a->token, b->token);
    ck_assert_int_eq(a->ttl_ms, b->ttl_ms);
    ck_assert_uint_eq(a->mode, b->mode);
    ck_assert_uint_eq(a->on_death, b->on_death);
    ck_assert_uint_eq(a->fields, b->fields);
    ck_assert_str_eq(a->owner, b->owner);
    ck_assert_str_eq(a->name, b->name);
    ck_assert_str_eq(a->key, b->key);
    ck_assert_str_eq(a->id, b->id);
    ck_assert_str_eq(a->peer, b->peer);
    ck_assert_int_le(llabs(a->granted_ms - b->granted_ms), 100);
}

/* --- what stays, and what changes --- */

/* With an id of its own, or a derived one. */
TEST(nothing_changes_but_the_process)
{
    struct enq_req req = leased("a", "10.1.2.3");
    struct enq *e = unit_open();
    struct enq_info before, after, now;
    enq_handle handle;

    req.id = _i ? "i" : NULL;
    before = leave(&req);
    after = inherit_one(e);
    same_lock(&after, &before);
    ck_assert_int_eq(after.pid, getpid());
    ck_assert_uint_eq(after.orphaned, 0);
    ck_assert_int_le(after.ttl_left_ms, before.ttl_left_ms);
    ck_assert_int_gt(after.ttl_left_ms, TTL_MS - 5000);
    now = listed(e);
    same_lock(&now, &after);
    ck_assert_int_eq(now.pid, getpid());
    want(ENQ_OK, enq_find(e, before.id, &handle));
    ck_assert_uint_eq(handle, before.handle);
    inherit_none(e);
    unit_healthy(e);
    enq_close(e);
}

TEST(the_new_process_renews_and_unlocks_it_by_its_old_handle_and_token)
{
    struct enq_req req = leased("a", "p");
    struct enq_info left = leave(&req);
    struct enq *e = unit_open();

    inherit_one(e);
    want(ENQ_OK, enq_valid(e, left.handle));
    want(ENQ_OK, enq_renew(e, left.handle, left.token, 2 * TTL_MS));
    ck_assert_int_gt(listed(e).ttl_left_ms, TTL_MS);
    want(ENQ_OK, enq_unlock(e, left.handle, left.token));
    ck_assert_uint_eq(told_count(e), 0);
    unit_healthy(e);
    enq_close(e);
}

TEST(the_new_process_promotes_it)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();
    struct enq_info left;
    struct enq_grant g, rival;

    req.mode = ENQ_MODE_O;
    left = leave(&req);
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_O, &rival));
    ck_assert_uint_eq(inherit_one(e).token, left.token);
    want(ENQ_OK, enq_promote(e, left.handle, left.token, &g));
    ck_assert_uint_gt(g.token, rival.token);
    want(ENQ_LOST, enq_valid(e, rival.handle));
    enq_close(e);
}

TEST(a_generic_one_is_inherited_as_any)
{
    struct enq_req req = leased("@", "p");
    struct enq_info left = leave(&req), after;
    struct enq *e = unit_open();
    struct enq_grant g;

    after = inherit_one(e);
    same_lock(&after, &left);
    want(ENQ_BUSY, unit_lock(e, "n", "a", ENQ_MODE_S, &g));
    want(ENQ_OK, enq_unlock(e, left.handle, left.token));
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_S, &g));
    unit_healthy(e);
    enq_close(e);
}

TEST(the_locks_of_a_set_are_inherited_each)
{
    struct enq_req a = leased("a", "p"), b = leased("b", "p");
    const struct enq_req *reqs[] = {&a, &b};
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_info infos[3];
    struct enq_grant g[2];
    size_t got;

    want(ENQ_OK, enq_lock_set(before, reqs, 2, g));
    enq_close(before);
    want(ENQ_OK, enq_inherit(e, infos, 3, &got));
    ck_assert_uint_eq(got, 2);
    want(ENQ_OK, enq_unlock_set(e, g, 2));
    ck_assert_uint_eq(told_count(e), 0);
    enq_close(e);
}

/* --- time --- */

TEST(a_lease_ends_when_it_would_have)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_info info;

    req.ttl_ms = 400;
    leave(&req);
    usleep(200000);
    info = inherit_one(e);
    ck_assert_int_le(info.ttl_left_ms, 210);
    while (enq_valid(e, info.handle) == ENQ_OK)
        usleep(1000);
    ck_assert_int_ge(unit_now_ms() - begin, 400);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 4000 : 1500) + test_starved_ms());
    want(ENQ_EXPIRED, enq_unlock(e, info.handle, info.token));
    enq_close(e);
}

TEST(a_kept_one_that_lost_its_ttl_has_its_own_from_now)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();
    struct enq_info info;

    req.on_death = ENQ_DEATH_KEEP;
    req.ttl_ms = 5000;
    leave(&req);
    ck_assert_int_eq(listed(e).ttl_left_ms, ENQ_FOREVER);
    usleep(50000);
    info = inherit_one(e);
    ck_assert_int_eq(info.ttl_ms, 5000);
    ck_assert_int_gt(info.ttl_left_ms, 4960);
    ck_assert_int_le(info.ttl_left_ms, 5000);
    enq_close(e);
}

TEST(a_kept_one_without_a_ttl_has_none)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();

    req.on_death = ENQ_DEATH_KEEP;
    req.ttl_ms = ENQ_FOREVER;
    leave(&req);
    ck_assert_int_eq(inherit_one(e).ttl_left_ms, ENQ_FOREVER);
    enq_close(e);
}

TEST(a_lease_that_was_renewed_for_ever_stays_so)
{
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_req req = leased("a", "p");
    struct enq_grant g;

    want(ENQ_OK, enq_lock(before, &req, &g));
    want(ENQ_OK, enq_renew(before, g.handle, g.token, ENQ_FOREVER));
    enq_close(before);
    ck_assert_int_eq(inherit_one(e).ttl_left_ms, ENQ_FOREVER);
    enq_close(e);
}

TEST(no_heartbeat_goes_on)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();
    struct enq_info info;

    req.ttl_ms = 300;
    req.heartbeat_ms = 20;
    leave(&req);
    info = inherit_one(e);
    eventually(enq_valid(e, info.handle) == ENQ_EXPIRED);
    enq_close(e);
}

/* --- what is not inherited --- */

TEST(locks_without_a_peer_are_left_alone)
{
    struct enq_req req = leased("a", "");
    struct enq *e = unit_open();

    leave(&req);
    inherit_none(e);
    ck_assert_uint_eq(listed(e).orphaned, 1);
    enq_close(e);
}

TEST(what_the_living_hold_is_theirs)
{
    struct enq *other = unit_open(), *e = unit_open();
    struct enq_req req = leased("a", "p");
    struct enq_grant g;

    want(ENQ_OK, enq_lock(other, &req, &g));
    inherit_none(e);
    inherit_none(other);
    want(ENQ_OK, enq_unlock(other, g.handle, g.token));
    enq_close(other);
    enq_close(e);
}

TEST(one_that_has_run_out_is_nobodys)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open();

    req.ttl_ms = 30;
    req.delay_ms = _i ? 5000 : 0;
    leave(&req);
    usleep(60000);
    inherit_none(e);
    unit_healthy(e);
    enq_close(e);
}

static int dies_with_all_kinds(void *unused)
{
    struct enq_req held = leased("a", "p"), req = leased("b", "p");
    struct enq *e = unit_open();
    uint64_t ticket;
    struct enq_grant g;

    (void)unused;
    want(ENQ_OK, enq_lock(e, &held, &g));
    req.on_death = ENQ_DEATH_RELEASE;
    want(ENQ_OK, enq_lock(e, &req, &g));
    req = leased("c", "p");
    req.on_death = ENQ_DEATH_RELEASE;
    req.delay_ms = 5000;
    want(ENQ_OK, enq_lock(e, &req, &g));
    req = leased("a", "p");
    req.owner = "other";
    req.wait_ms = ENQ_FOREVER;
    want(ENQ_PENDING, enq_start(e, &req, &g, &ticket));
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(what_ends_with_its_process_and_what_waits_is_not_inherited)
{
    struct enq *e;

    unit_killed(unit_fork(dies_with_all_kinds, NULL));
    e = unit_open();
    ck_assert_str_eq(inherit_one(e).key, "a");
    inherit_none(e);
    unit_healthy(e);
    enq_close(e);
}

/* --- several --- */

static void lock_many(struct enq *e, unsigned n)
{
    struct enq_grant g;
    char field[16];

    for (unsigned i = 0; i < n; i++) {
        struct enq_req req = leased(field, "p");

        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, enq_lock(e, &req, &g));
    }
}

TEST(who_has_little_room_calls_again)
{
    static const size_t parts[] = {3, 3, 3, 1, 0, 0};
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_info infos[3];
    bool seen[10] = {false};
    size_t got;

    lock_many(before, 10);
    enq_close(before);
    for (unsigned i = 0; i < LENGTH(parts); i++) {
        want(ENQ_OK, enq_inherit(e, infos, 3, &got));
        ck_assert_uint_eq(got, parts[i]);
        for (size_t k = 0; k < got; k++) {
            ck_assert(!seen[infos[k].key[0] - '0']);
            seen[infos[k].key[0] - '0'] = true;
        }
    }
    unit_healthy(e);
    enq_close(e);
}

#define MANY 500
#define HEIRS 3

struct heirs {
    uint32_t go, n[HEIRS], ready, done;
    enq_handle got[HEIRS][MANY];
};

static int inherits_in_parts(void *heirs)
{
    struct heirs *x = heirs;
    struct enq *e = unit_open();
    unsigned me = __atomic_fetch_add(&x->ready, 1, __ATOMIC_SEQ_CST);
    struct enq_info infos[7];
    size_t got;

    while (__atomic_load_n(&x->go, __ATOMIC_SEQ_CST) == 0)
        unit_nap();
    do {
        want(ENQ_OK, enq_inherit(e, infos, LENGTH(infos), &got));
        for (size_t i = 0; i < got; i++) {
            ck_assert_int_eq(infos[i].pid, getpid());
            x->got[me][x->n[me]++] = infos[i].handle;
        }
    } while (got > 0);
    __atomic_add_fetch(&x->done, 1, __ATOMIC_SEQ_CST);
    while (__atomic_load_n(&x->done, __ATOMIC_SEQ_CST) < HEIRS)
        unit_nap();
    for (uint32_t i = 0; i < x->n[me]; i++)
        want(ENQ_OK, enq_unlock(e, x->got[me][i], 0));
    enq_close(e);
    return 0;
}

static int dies_with_many(void *unused)
{
    (void)unused;
    lock_many(unit_open(), MANY);
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(of_several_who_inherit_each_lock_goes_to_one)
{
    struct heirs *x = unit_shared(sizeof(*x));
    unsigned sum = 0;
    struct enq *e;

    unit_killed(unit_fork(dies_with_many, NULL));
    for (unsigned i = 0; i < HEIRS; i++)
        unit_fork(inherits_in_parts, x);
    eventually(__atomic_load_n(&x->ready, __ATOMIC_SEQ_CST) == HEIRS);
    __atomic_store_n(&x->go, 1, __ATOMIC_SEQ_CST);
    unit_join_all(HEIRS); /* each could unlock what it got, and nobody else */
    for (unsigned i = 0; i < HEIRS; i++)
        sum += x->n[i];
    ck_assert_uint_eq(sum, MANY);
    e = unit_open();
    ck_assert_uint_eq(told_count(e), 0);
    unit_healthy(e);
    enq_close(e);
}

static int inherits_and_dies(void *unused)
{
    struct enq *e = unit_open();

    (void)unused;
    inherit_one(e);
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(of_an_heir_who_dies_the_next_one_inherits)
{
    struct enq_req req = leased("a", "p");
    struct enq_info left, info;
    struct enq *e;

    req.on_death = _i ? ENQ_DEATH_KEEP : ENQ_DEATH_LEASE;
    left = leave(&req);
    unit_killed(unit_fork(inherits_and_dies, NULL));
    e = unit_open();
    info = inherit_one(e);
    same_lock(&info, &left);
    ck_assert_int_eq(info.pid, getpid());
    unit_healthy(e);
    enq_close(e);
}

/* --- events --- */

TEST(an_heir_that_listens_is_told_of_it_as_of_its_own)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_req req = leased("a", "p");
    struct enq_info left;
    struct enq_grant g = {0};

    req.ttl_ms = 3000;
    told_nothing(e, 0);
    left = leave(&req);
    inherit_one(e);
    g.handle = left.handle;
    g.token = left.token;
    told_start(other, "a", ENQ_MODE_X, "waiter", ENQ_FOREVER);
    told_asker(e, &g, "waiter");
    told(e, ENQ_EVENT_EXPIRING, &g);
    told(e, ENQ_EVENT_EXPIRED, &g);
    told_nothing(e, 50);
    enq_close(other);
    enq_close(e);
}

TEST(the_heir_is_told_of_the_waiters)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_req req = leased("a", "p");
    struct enq_info left = leave(&req);
    struct enq_grant g = {.handle = left.handle, .token = left.token};
    uint64_t ticket;

    told_nothing(e, 0);
    ticket = told_start(other, "a", ENQ_MODE_X, "waiter", ENQ_FOREVER);
    inherit_one(e);
    ck_assert_str_eq(told(e, ENQ_EVENT_BLOCKING, &g).grant.blocker.owner,
        "waiter");
    told_unlock(e, &g);
    told_result(other, ticket, ENQ_OK);
    enq_close(other);
    enq_close(e);
}

TEST(who_waits_for_a_kept_one_gets_it_when_its_ttl_has_ended)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_req req = leased("a", "p");
    int64_t begin;
    uint64_t ticket;

    req.on_death = ENQ_DEATH_KEEP;
    req.ttl_ms = 300;
    leave(&req);
    ticket = told_start(other, "a", ENQ_MODE_X, "waiter", ENQ_FOREVER);
    usleep(400000);
    begin = unit_now_ms();
    inherit_one(e);
    told_result(other, ticket, ENQ_OK);
    ck_assert_int_ge(unit_now_ms() - begin, 300);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 3000 : 900) + test_starved_ms());
    enq_close(other);
    enq_close(e);
}

TEST(the_heirs_own_end_does_with_it_what_it_does_with_its_own)
{
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open(), *last;

    leave(&req);
    inherit_one(e);
    enq_close(e);
    last = unit_open();
    ck_assert_uint_eq(listed(last).orphaned, 1);
    inherit_one(last);
    enq_close(last);
}

/* --- refusals --- */

TEST(it_needs_room_and_more_than_a_look)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct enq_req req = leased("a", "p");
    struct enq *e = unit_open(), *looker = unit_open_with(&look);
    struct enq_info info;
    size_t got = 99, none = 99;

    leave(&req);
    want_why(-EINVAL, enq_inherit(e, NULL, 1, &got), "NULL or empty");
    want_why(-EINVAL, enq_inherit(e, &info, 0, &none), "NULL or empty");
    want_why(-EINVAL, enq_inherit(e, &info, 1, NULL), "NULL or empty");
    ck_assert_uint_eq(got + none, 0);
    got = 99;
    want(-EROFS, enq_inherit(looker, &info, 1, &got));
    ck_assert_uint_eq(got, 0);
    inherit_one(e);
    enq_close(looker);
    enq_close(e);
}

int main(void)
{
    unit_begin("inherit");
    ADD_LOOP(nothing_changes_but_the_process, 2);
    ADD(the_new_process_renews_and_unlocks_it_by_its_old_handle_and_token);
    ADD(the_new_process_promotes_it);
    ADD(a_generic_one_is_inherited_as_any);
    ADD(the_locks_of_a_set_are_inherited_each);
    ADD(a_lease_ends_when_it_would_have);
    ADD(a_kept_one_that_lost_its_ttl_has_its_own_from_now);
    ADD(a_kept_one_without_a_ttl_has_none);
    ADD(a_lease_that_was_renewed_for_ever_stays_so);
    ADD(no_heartbeat_goes_on);
    ADD(locks_without_a_peer_are_left_alone);
    ADD(what_the_living_hold_is_theirs);
    ADD_LOOP(one_that_has_run_out_is_nobodys, 2);
    ADD(what_ends_with_its_process_and_what_waits_is_not_inherited);
    ADD(who_has_little_room_calls_again);
    ADD(of_several_who_inherit_each_lock_goes_to_one);
    ADD_LOOP(of_an_heir_who_dies_the_next_one_inherits, 2);
    ADD(an_heir_that_listens_is_told_of_it_as_of_its_own);
    ADD(the_heir_is_told_of_the_waiters);
    ADD(who_waits_for_a_kept_one_gets_it_when_its_ttl_has_ended);
    ADD(the_heirs_own_end_does_with_it_what_it_does_with_its_own);
    ADD(it_needs_room_and_more_than_a_look);
    return unit_end();
}
