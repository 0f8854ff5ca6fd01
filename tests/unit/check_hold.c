/*
 * check_hold.c - what can be done with a lock: unlock, promote, demote, renew,
 * adopt, break; and what is answered when it is no longer there.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "base/point.h"
#include "sync/life.h"
#include "sync/sys.h"
#include "unit.h"

static int lock_by(struct enq *e, const char *field, enum enq_mode mode,
    const char *owner, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner), g);
}

/* --- tokens and handles --- */

TEST(only_the_right_token_unlocks)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, NULL, &g));
    want_why(ENQ_NOTHELD, enq_unlock(e, g.handle, g.token + 1), "unlock");
    want(ENQ_NOTHELD, enq_unlock(e, g.handle, g.token - 1));
    want(ENQ_NOTHELD, enq_renew(e, g.handle, 1, 0));
    want(ENQ_NOTHELD, enq_demote(e, g.handle, 1));
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_NOTHELD, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, NULL, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, 0));
    enq_close(e);
}

static const enq_handle strange[] = {
    0, 1, UINT64_MAX, UINT64_C(1) << 63, 0x3fffffff, UINT64_C(1) << 30};

TEST(a_strange_handle_names_no_lock)
{
    struct enq *e = unit_open();
    char id[ENQ_ID_BYTES];
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_O, NULL, &g));
    want_why(ENQ_NOTHELD, enq_unlock(e, strange[_i], 0), "no such lock");
    want(ENQ_NOTHELD, enq_promote(e, strange[_i], 0, NULL));
    want(ENQ_NOTHELD, enq_demote(e, strange[_i], 0));
    want(ENQ_NOTHELD, enq_renew(e, strange[_i], 0, 0));
    want(ENQ_NOTHELD, enq_valid(e, strange[_i]));
    want(ENQ_NOTHELD, enq_id(e, strange[_i], id));
    want(ENQ_OK, enq_valid(e, g.handle));
    enq_close(e);
}

TEST(a_handle_of_another_space_names_no_lock)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 10000};
    struct enq *e = unit_open(), *other;
    struct enq_grant g, h;
    char path[256];

    want(ENQ_OK, enq_open(&other, unit_path("other", path), &opts));
    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, NULL, &g));
    want(ENQ_OK, lock_by(other, "f", ENQ_MODE_X, NULL, &h));
    ck_assert_uint_ne(g.handle, h.handle);
    want(ENQ_NOTHELD, enq_unlock(other, g.handle, 0));
    want(ENQ_NOTHELD, enq_unlock(e, h.handle, h.token));
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_valid(other, h.handle));
    enq_close(e);
    enq_close(other);
}

TEST(any_attachment_may_unlock)
{
    struct enq *e = unit_open(), *f = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, NULL, &g));
    want(ENQ_OK, enq_valid(f, g.handle));
    want(ENQ_OK, enq_unlock(f, g.handle, g.token));
    want(ENQ_NOTHELD, enq_valid(e, g.handle));
    enq_close(f);
    enq_close(e);
}

/* --- promote and demote --- */

TEST(a_promotion_gives_a_new_token_and_takes_from_the_others)
{
    struct enq *e = unit_open();
    struct enq_grant a, b, c, won;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_O, "A", &a));
    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_O, "B", &b));
    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_O, "A", &c));
    want(ENQ_OK, enq_promote(e, a.handle, a.token, &won));
    ck_assert_uint_gt(won.token, c.token);
    ck_assert_uint_eq(won.handle, a.handle);
    want_why(ENQ_LOST, enq_promote(e, b.handle, b.token, &won),
        ": A promoted first");
    ck_assert_str_eq(won.blocker.owner, "A");
    want(ENQ_LOST, enq_valid(e, c.handle));
    want(ENQ_LOST, enq_unlock(e, c.handle, 0));
    want(ENQ_NOTHELD, enq_unlock(e, a.handle, a.token));
    want(ENQ_OK, enq_unlock(e, a.handle, 0));
    unit_healthy(e);
    enq_close(e);
}

TEST(only_what_is_optimistic_is_promoted)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "f", (enum enq_mode)_i, NULL, &g));
    if (_i == ENQ_MODE_O)
        want(ENQ_OK, enq_promote(e, g.handle, g.token, NULL));
    else
        want_why(ENQ_REFUSED, enq_promote(e, g.handle, g.token, NULL),
            "promote");
    enq_close(e);
}

TEST(a_generic_lock_of_another_keeps_from_promoting)
{
    struct enq *e = unit_open();
    struct enq_grant a, b, c;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_O, "A", &a));
    want(ENQ_OK, lock_by(e, "@", ENQ_MODE_O, "B", &b));
    want(ENQ_OK, enq_promote(e, b.handle, b.token, &c));
    want(ENQ_LOST, enq_promote(e, a.handle, a.token, &c));
    unit_healthy(e);
    enq_close(e);
}

TEST(exclusive_locks_are_demoted_to_shared_and_others_are_not)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;

    want(ENQ_OK, lock_by(e, "f", (enum enq_mode)_i, "A", &g));
    if (_i == ENQ_MODE_E || _i == ENQ_MODE_X) {
        want(ENQ_OK, enq_demote(e, g.handle, g.token));
        want(ENQ_OK, lock_by(e, "f", ENQ_MODE_S, "B", &h));
        want(ENQ_REFUSED, enq_demote(e, g.handle, g.token));
    } else {
        want_why(ENQ_REFUSED, enq_demote(e, g.handle, g.token), "demote");
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(a_renewal_has_a_time_that_is_not_negative)
{
    static const int64_t bad[] = {-2, -1000, INT64_MIN};
    static const int64_t good[] = {ENQ_FOREVER, 0, 1000, INT64_MAX};
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, NULL, &g));
    for (size_t i = 0; i < LENGTH(bad); i++)
        want_why(-EINVAL, enq_renew(e, g.handle, g.token, bad[i]), "ttl");
    for (size_t i = 0; i < LENGTH(good); i++)
        want(ENQ_OK, enq_renew(e, g.handle, g.token, good[i]));
    enq_close(e);
}

/* --- adopt and break --- */

static int leave_locks(void *has)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    for (int i = 0; i < 3; i++) {
        char id[2] = {(char)('0' + i), '\0'};

        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {id}, .id = id, .mode = ENQ_MODE_X,
                    .on_death = i),
                &g));
    }
    unit_stay(has);
}

TEST(orphans_are_adopted_once_and_the_living_are_not)
{
    uint32_t *has = unit_shared(4);
    struct enq *e = unit_open();
    struct enq_grant g, h;
    struct enq_info info;
    pid_t pid = unit_fork(leave_locks, has);

    eventually(shm_load_acquire(has));
    want_why(ENQ_REFUSED, enq_adopt(e, "2", &g), "is alive");
    unit_kill(pid);
    ck_assert_int_gt(enq_adopt(e, "0", &g), 0);
    ck_assert_ptr_nonnull(strstr(enq_why(), "\"0\""));
    want(ENQ_OK, enq_list(e, "n", NULL, &info, 1, NULL));
    ck_assert_uint_eq(info.orphaned, 1);
    ck_assert_int_eq(info.pid, 0);
    want(ENQ_OK, enq_adopt(e, "1", &g));
    want(ENQ_OK, enq_adopt(e, "2", &h));
    ck_assert_uint_ne(g.handle, h.handle);
    want(ENQ_REFUSED, enq_adopt(e, "2", &g));
    want(ENQ_OK, enq_valid(e, h.handle));
    unit_healthy(e);
    want(ENQ_OK, enq_unlock(e, h.handle, h.token));
    enq_close(e);
}

TEST(a_broken_lock_is_told_so_to_its_holder)
{
    struct enq *e = unit_open();
    struct enq_grant g, h;
    char id[ENQ_ID_BYTES];

    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, "A", &g));
    want(ENQ_OK, enq_id(e, g.handle, id));
    want(ENQ_OK, enq_break(e, id));
    ck_assert_int_gt(enq_break(e, id), 0);
    ck_assert_ptr_nonnull(strstr(enq_why(), id));
    want(ENQ_OK, lock_by(e, "f", ENQ_MODE_X, "B", &h));
    want_why(ENQ_FORCED, enq_valid(e, g.handle), "operator");
    want(ENQ_FORCED, enq_renew(e, g.handle, g.token, 0));
    want(ENQ_FORCED, enq_promote(e, g.handle, g.token, NULL));
    want(ENQ_FORCED, enq_unlock(e, g.handle, g.token));
    want(ENQ_NOTHELD, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_valid(e, h.handle));
    unit_healthy(e);
    enq_close(e);
}

/* --- threads --- */

struct loan {
    struct enq *e;
    struct enq_grant g;
    int64_t back_ms;
    int rc;
};

static void *take_it(void *arg)
{
    struct loan *l = arg;

    l->rc = lock_by(l->e, "f", ENQ_MODE_X, NULL, &l->g);
    return NULL;
}

TEST(a_lock_stays_when_its_thread_ends)
{
    struct loan l = {.e = unit_open()};
    pthread_t thread;
    struct enq_grant g;

    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, take_it, &l);
        pthread_join(thread, NULL);
        want(ENQ_OK, l.rc);
        want(ENQ_OK, enq_valid(l.e, l.g.handle));
        want(ENQ_BUSY, lock_by(l.e, "f", ENQ_MODE_X, "other", &g));
        want(ENQ_OK, enq_unlock(l.e, l.g.handle, l.g.token));
    }
    unit_healthy(l.e);
    enq_close(l.e);
}

static void *wait_for_it(void *arg)
{
    struct loan *l = arg;

    l->rc = enq_lock(l->e,
        ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X, .id = "waiter",
            .wait_ms = ENQ_FOREVER),
        &l->g);
    l->back_ms = unit_now_ms();
    return NULL;
}

TEST(a_waiting_request_is_cancelled_by_unlocking_or_breaking_it)
{
    struct loan l = {.e = unit_open()};
    struct enq_grant g;
    pthread_t thread;
    enq_handle h;

    want(ENQ_OK, lock_by(l.e, "f", ENQ_MODE_X, NULL, &g));
    pthread_create(&thread, NULL, wait_for_it, &l);
    eventually(enq_find(l.e, "waiter", &h) == ENQ_OK);
    want(ENQ_REFUSED, enq_renew(l.e, h, 0, 0));
    want(ENQ_REFUSED, enq_promote(l.e, h, 0, NULL));
    want(ENQ_REFUSED, enq_demote(l.e, h, 0));
    want(ENQ_OK, _i == 0 ? enq_unlock(l.e, h, 0) : enq_break(l.e, "waiter"));
    pthread_join(thread, NULL);
    want(ENQ_CANCELLED, l.rc);
    want(ENQ_NOTHELD, enq_find(l.e, "waiter", &h));
    unit_healthy(l.e);
    enq_close(l.e);
}

/* Not valid any more before its ttl has passed since then: that is too early. */
static void valid_until(struct enq *e, enq_handle handle, mono_t granted,
    int64_t ttl_ms)
{
    int rc = enq_valid(e, handle);

    if (ttl_ms == 0 || mono_ms_between(granted, sys.now()) < ttl_ms)
        want(ENQ_OK, rc);
}

/* Nobody asks for the locks, and no clock is turned: the helper notices. */
TEST(a_lock_that_has_run_out_is_soon_not_valid)
{
    static const int64_t ttl_ms[] = {60, 20, 40, 0};
    struct enq *e = unit_open();
    struct enq_grant g[LENGTH(ttl_ms)];
    struct timespec nap = {0, 10 * NS_PER_MS};
    mono_t begin = sys.now();

    for (size_t i = 0; i < LENGTH(ttl_ms); i++) {
        char field[2] = {(char)('a' + i), '\0'};
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
                    .ttl_ms = ttl_ms[i]),
                &g[i]));
    }
    nanosleep(&nap, NULL);
    for (size_t i = 0; i < LENGTH(ttl_ms); i++)
        valid_until(e, g[i].handle, begin, ttl_ms[i]);
    eventually(enq_valid(e, g[1].handle) == ENQ_EXPIRED);
    eventually(enq_valid(e, g[2].handle) == ENQ_EXPIRED);
    eventually(enq_valid(e, g[0].handle) == ENQ_EXPIRED);
    /* and not only with its round, once a second */
    ck_assert_int_lt(mono_ms_between(begin, sys.now()), 700);
    want(ENQ_OK, enq_valid(e, g[3].handle));
    want(ENQ_OK, enq_renew(e, g[3].handle, g[3].token, 10));
    eventually(enq_valid(e, g[3].handle) == ENQ_EXPIRED);
    enq_close(e);
}

/* It sleeps for a tick of 40 ms: a waiter that is not woken comes back then. */
TEST(a_cancelled_waiter_is_woken_and_does_not_sleep_through_its_tick)
{
    struct loan l = {.e = unit_open()};
    struct enq_grant g;
    pthread_t thread;
    unsigned late = 0;

    want(ENQ_OK, lock_by(l.e, "f", ENQ_MODE_X, NULL, &g));
    for (int i = 0; i < 11; i++) {
        enq_handle h;
        int64_t then;

        pthread_create(&thread, NULL, wait_for_it, &l);
        eventually(enq_find(l.e, "waiter", &h) == ENQ_OK);
        usleep(5000);
        then = unit_now_ms();
        want(ENQ_OK, enq_break(l.e, "waiter"));
        pthread_join(thread, NULL);
        want(ENQ_CANCELLED, l.rc);
        late += l.back_ms - then > 15;
    }
    ck_assert_uint_le(late, 5);
    enq_close(l.e);
}

#define HOUR_MS 3600000

static const int64_t lease_ttls[][3] = {
    {1500, 3000, HOUR_MS},
    {HOUR_MS, 3000, 1500},
    {1500, HOUR_MS, 3000},
};

static int lease_and_die(void *arg)
{
    static const char *const keys[] = {"a", "b", "c"};
    const int64_t *ttls = arg;
    struct enq *e = unit_open();
    struct enq_grant g;

    for (int i = 0; i < 3; i++)
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {keys[i]}, .mode = ENQ_MODE_X,
                    .ttl_ms = ttls[i], .on_death = ENQ_DEATH_LEASE),
                &g));
    kill(getpid(), SIGKILL);
    return 1;
}

/* That take room, run out or not. */
static uint64_t locks_left(struct enq *e)
{
    struct enq_stats s = {.size = sizeof(s)};

    want(ENQ_OK, enq_stat(e, &s));
    return s.held + s.expired;
}

/* Each at its end, whichever was left behind first. */
TEST(leases_of_the_dead_that_nobody_asks_for_are_swept)
{
    struct enq *e = unit_open();

    unit_killed(unit_fork(lease_and_die, (void *)lease_ttls[_i]));
    eventually(locks_left(e) == 1);
    unit_healthy(e);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct {
    struct enq *e;
    struct enq_grant lost;
} swap;

/* Another thread of the holder gives the lock back, and its entry is a
   stranger's. */
static void give_to_a_stranger(const struct point *p)
{
    struct enq_grant g;

    if (strcmp(p->name, "taker.read") != 0)
        return;
    point_hook = NULL;
    want(ENQ_LOST, enq_unlock(swap.e, swap.lost.handle, 0));
    /* its text ends where the winner's name did, so it could pass for one */
    for (char last = '0'; last <= 'z'; last++) {
        char field[] = {'o', 't', 'h', 'e', last, '\0'};

        want(ENQ_OK, lock_by(swap.e, field, ENQ_MODE_X, "a stranger", &g));
    }
}

TEST(a_loser_is_told_of_the_winner_or_of_nobody)
{
    struct enq_grant g, won;

    swap.e = unit_open();
    want(ENQ_OK, lock_by(swap.e, "k", ENQ_MODE_O, "a", &swap.lost));
    want(ENQ_OK, lock_by(swap.e, "k", ENQ_MODE_O, "b", &g));
    want(ENQ_OK, enq_promote(swap.e, g.handle, 0, &won));
    point_hook = give_to_a_stranger;
    want(ENQ_LOST, enq_promote(swap.e, swap.lost.handle, 0, &g));
    ck_assert_ptr_null(point_hook);
    ck_assert_str_eq(g.blocker.owner, "");
    unit_healthy(swap.e);
    enq_close(swap.e);
}
#endif

static int keep_and_die(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .id = "kept",
                .on_death = ENQ_DEATH_KEEP),
            &g));
    kill(getpid(), SIGKILL);
    return 1;
}

/* Its death took its ttl, a renewal by another gives it one. */
TEST(a_kept_lock_that_is_renewed_after_a_death_is_swept_at_its_end)
{
    struct enq *e = unit_open();
    session_ref_t dead;
    uint64_t state;
    enq_handle h;

    unit_killed(unit_fork(keep_and_die, NULL));
    want(ENQ_OK, enq_find(e, "kept", &h));
    dead = entry_of_handle(e->map, h, &state)->session;
    eventually(shm_load(&at_session(e->map, dead)->ref) != dead); /* reaped */
    want(ENQ_OK, enq_renew(e, h, 0, 300));
    eventually(locks_left(e) == 0);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("hold");
    ADD(only_the_right_token_unlocks);
    ADD_LOOP(a_strange_handle_names_no_lock, LENGTH(strange));
    ADD(a_handle_of_another_space_names_no_lock);
    ADD(any_attachment_may_unlock);
    ADD(a_promotion_gives_a_new_token_and_takes_from_the_others);
    ADD_FROM_TO(only_what_is_optimistic_is_promoted, 1, 5);
    ADD(a_generic_lock_of_another_keeps_from_promoting);
    ADD_FROM_TO(exclusive_locks_are_demoted_to_shared_and_others_are_not, 1, 5);
    ADD(a_renewal_has_a_time_that_is_not_negative);
    ADD(orphans_are_adopted_once_and_the_living_are_not);
    ADD(a_broken_lock_is_told_so_to_its_holder);
    ADD(a_lock_stays_when_its_thread_ends);
    ADD_LOOP(a_waiting_request_is_cancelled_by_unlocking_or_breaking_it, 2);
    ADD(a_lock_that_has_run_out_is_soon_not_valid);
    ADD(a_cancelled_waiter_is_woken_and_does_not_sleep_through_its_tick);
    ADD_LOOP(leases_of_the_dead_that_nobody_asks_for_are_swept,
        LENGTH(lease_ttls));
#ifdef ENQ_POINTS
    ADD(a_loser_is_told_of_the_winner_or_of_nobody);
#endif
    ADD(a_kept_lock_that_is_renewed_after_a_death_is_swept_at_its_end);
    return unit_end();
}
