/*
 * check_queue.c - the queue of an object: behind what is held, in order of
 * arrival, and counted.
 *
 * What a scan grants is looked at when the call that ran it returns: later a
 * waiter might have found it by itself. The space is strict, so that all that
 * wait are due at once.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "lock/grant_scan.h"
#include "lock/links.h"
#include "lock/queue.h"
#include "sync/life.h"
#include "told.h"

static struct enq *e;

static struct enq_req request(const char *field, enum enq_mode mode,
    const char *owner)
{
    return (struct enq_req){.size = sizeof(struct enq_req),
        .name = "n",
        .key = {field},
        .mode = mode,
        .owner = owner,
        .wait_ms = ENQ_FOREVER,
        .flags = ENQ_NO_DEADLOCK};
}

static struct enq_grant takes(const char *field, enum enq_mode mode,
    const char *owner)
{
    struct enq_req req = request(field, mode, owner);
    struct enq_grant g;

    req.wait_ms = 0;
    want(ENQ_OK, enq_lock(e, &req, &g));
    return g;
}

static void gives(const struct enq_grant *g)
{
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
}

static uint64_t waits(const char *field, enum enq_mode mode, const char *owner)
{
    struct enq_req req = request(field, mode, owner);
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_PENDING, enq_start(e, &req, &g, &ticket));
    return ticket;
}

/* A set of X on both keys. */
static uint64_t set_waits(const char *a, const char *b, const char *owner,
    struct enq_grant grants[2])
{
    struct enq_req first = request(a, ENQ_MODE_X, owner),
                   second = request(b, ENQ_MODE_X, owner);
    const struct enq_req *reqs[] = {&first, &second};
    uint64_t ticket;

    want(ENQ_PENDING, enq_start_set(e, reqs, 2, grants, &ticket));
    return ticket;
}

static struct entry *first_of_a(void)
{
    struct enq_info infos[24];
    struct entry *any = NULL;
    struct spot spot;
    struct key key;
    uint64_t state;
    size_t n;

    want(ENQ_OK, enq_list(e, "n", NULL, infos, LENGTH(infos), &n));
    for (size_t i = 0; i < n; i++)
        if (strcmp(infos[i].key, "a") == 0)
            any = entry_of_handle(e->map, infos[i].handle, &state);
    if (any == NULL)
        ck_abort_msg("nobody has or wants n/a");
    ck_assert(entry_key(e->map, any, &key));
    spot = spot_of(any->name_hash, any->hash);
    return index_find(e->map, &spot, &key);
}

/* The ring of n/a as it stands: "C:S C:E | B:X" */
static const char *ring_of_a(void)
{
    static char text[256];
    struct ring ring = ring_from(e->map, first_of_a());
    bool waiting = false;
    size_t used = 0;
    struct entry *at;
    struct ask ask;

    while ((at = ring_next(&ring)) != NULL) {
        bool waits = entry_is(at, PHASE_WAITING);

        ck_assert(entry_ask(e->map, at, &ask));
        used += (size_t)snprintf(text + used, sizeof(text) - used, "%s%s%s:%c",
            used == 0 ? "" : " ", waits && !waiting ? "| " : "", ask.owner,
            "?SEXO"[STATE_MODE(shm_load(&at->state)) % 5]);
        waiting |= waits;
    }
    ck_assert(!ring.damaged);
    return text;
}

static uint32_t said(void)
{
    struct entry *last = queue_last(e->map, first_of_a());

    return last == NULL ? 0 : shm_load(&last->queue);
}

static void begin_as(const char *compat)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .compat = compat, .strict = ENQ_STRICT_YES};

    e = unit_open_with(&opts);
}

static void begin(void)
{
    begin_as("enqueue");
}

static void end(void)
{
    unit_healthy(e);
    enq_close(e);
}

/* C has what B waits for, and passes it (R7). */
TEST(who_is_granted_past_others_stands_with_what_is_held)
{
    struct enq_grant a;

    begin_as("sap"); /* an owner's S is not in the way of its E */
    a = takes("a", ENQ_MODE_S, "A");
    takes("a", ENQ_MODE_S, "C");
    waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_E, "C");
    ck_assert_str_eq(ring_of_a(), "A:S C:S | B:X C:E");
    gives(&a);
    ck_assert_str_eq(ring_of_a(), "C:S C:E | B:X");
    end();
}

TEST(who_passes_the_queue_stands_with_what_is_held)
{
    struct enq_grant first, second;

    begin();
    first = takes("a", ENQ_MODE_S, "C");
    waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_X, "D");
    second = takes("a", ENQ_MODE_S, "C");
    ck_assert_str_eq(ring_of_a(), "C:S C:S | B:X D:X");
    gives(&first);
    ck_assert_str_eq(ring_of_a(), "C:S | B:X D:X");
    gives(&second);
    ck_assert_str_eq(ring_of_a(), "B:X | D:X");
    end();
}

/* A has n/a, and behind it waits a set of B's, which waits for C elsewhere. */
static struct enq_grant takes_before_a_set(struct enq_grant grants[2])
{
    struct enq_grant a;

    ck_assert_int_ge(enq_fd(e), 0);
    a = takes("a", ENQ_MODE_X, "A");
    takes("b", ENQ_MODE_X, "C");
    set_waits("a", "b", "B", grants);
    return a;
}

/* The set stays in the queue as it waits for C elsewhere: so C passes it, and
   begins the ring. */
TEST(who_passes_all_that_wait_begins_the_ring)
{
    struct enq_grant a, grants[2];

    begin();
    a = takes_before_a_set(grants);
    waits("a", ENQ_MODE_X, "C");
    ck_assert_str_eq(ring_of_a(), "A:X | B:X C:X");
    gives(&a);
    while (told_next(e).kind != ENQ_EVENT_RESULT)
        continue;
    ck_assert_str_eq(ring_of_a(), "C:X | B:X");
    end();
}

/* The set waits for C elsewhere: so C passes it, though ten others stand between,
   who wait behind the set and are not in C's way. */
TEST(who_waits_far_behind_a_set_that_waits_for_it_passes_it)
{
    struct enq_grant a, grants[2];

    begin();
    a = takes_before_a_set(grants);
    for (unsigned i = 0; i < 10; i++)
        waits("a", ENQ_MODE_S, "D");
    waits("a", ENQ_MODE_S, "C");
    gives(&a);
    while (told_next(e).kind != ENQ_EVENT_RESULT)
        continue;
    ck_assert_int_eq(strncmp(ring_of_a(), "C:S |", 5), 0);
    end();
}

/* Two requests of A, with another's between: the second has it with the
   first (R6). */
TEST(an_owner_that_waits_behind_others_has_it_with_its_own)
{
    struct enq_grant b;

    begin();
    b = takes("a", ENQ_MODE_S, "B");
    waits("a", ENQ_MODE_E, "A");
    waits("a", ENQ_MODE_E, "C");
    waits("a", ENQ_MODE_E, "A");
    gives(&b);
    ck_assert_str_eq(ring_of_a(), "A:E A:E | C:E");
    end();
}

static pid_t last_to_ask;

static int ask_last(void *nothing)
{
    (void)nothing;
    begin();
    waits("a", ENQ_MODE_X, "D");
    pause();
    return 1;
}

static uint32_t asked, to_ask;

/* The helper has no latch here. Stopped, so as not to find by itself what a scan
   does not grant. */
static void stop_when_asked(const struct point *p)
{
    if (strcmp(p->name, "async.looked") != 0)
        return;
    while (shm_load(&asked) < to_ask)
        unit_nap();
    raise(SIGSTOP);
}

static int ask_thrice(void *nothing)
{
    static const enum enq_mode modes[] = {ENQ_MODE_S, ENQ_MODE_X, ENQ_MODE_S};

    (void)nothing;
    begin();
    to_ask = 3;
    point_hook = stop_when_asked;
    for (; asked < to_ask; shm_add(&asked, 1))
        waits("a", modes[asked], modes[asked] == ENQ_MODE_S ? "C" : "B");
    pause();
    return 1;
}

/* Its end is proved by somebody else: the scan had found the last alive. */
static void last_dies(const struct point *p)
{
    if (strcmp(p->name, "grant.stored") != 0)
        return;
    point_hook = NULL;
    unit_kill(last_to_ask);
    session_prove_all(e->map);
}

/* C passes B, which waits for what C has just got. That D is dead is found as
   C's second is judged, and later D is dropped by the same scan: so nobody is
   left of whom a reaper would make way. */
TEST(who_is_judged_as_the_last_dies_is_granted_by_the_same_scan)
{
    struct enq_grant a;
    pid_t others;

    begin();
    a = takes("a", ENQ_MODE_X, "A");
    others = unit_fork(ask_thrice, NULL);
    ck_assert_int_eq(waitpid(others, NULL, WUNTRACED), others);
    last_to_ask = unit_fork(ask_last, NULL);
    eventually(said() == 4);
    point_hook = last_dies;
    gives(&a);
    ck_assert_ptr_null(point_hook);
    ck_assert_str_eq(ring_of_a(), "C:S C:S | B:X");
    unit_kill(others);
    end();
}

static int ask_many(void *n)
{
    begin();
    to_ask = *(uint32_t *)n;
    point_hook = stop_when_asked;
    for (; asked < to_ask; shm_add(&asked, 1)) {
        char field[16];

        snprintf(field, sizeof(field), "%u", asked);
        waits(field, ENQ_MODE_X, "B");
    }
    pause();
    return 1;
}

/* More than a scan notes at once. */
TEST(all_who_wait_for_an_at_lock_are_granted_when_it_goes)
{
    enum { MANY = NOTED_MOST + 100 };
    struct enq_info *infos = calloc(MANY, sizeof(*infos));
    unsigned held = 0;
    struct enq_grant any;
    pid_t others;
    size_t n;

    begin();
    any = takes("@", ENQ_MODE_X, "A");
    others = unit_fork(ask_many, &(uint32_t){MANY});
    ck_assert_int_eq(waitpid(others, NULL, WUNTRACED), others);
    gives(&any);
    want(ENQ_OK, enq_list(e, "n", NULL, infos, MANY, &n));
    ck_assert_uint_eq(n, MANY);
    for (unsigned i = 0; i < MANY; i++)
        held += !infos[i].waiting;
    ck_assert_uint_eq(held, MANY);
    free(infos);
    unit_kill(others);
    end();
}

TEST(the_last_tells_how_many_wait_whoever_leaves)
{
    struct enq_grant a;
    uint64_t b, d;

    begin();
    a = takes("a", ENQ_MODE_X, "A");
    ck_assert_uint_eq(said(), 0);
    b = waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_X, "C");
    d = waits("a", ENQ_MODE_X, "D");
    ck_assert_uint_eq(said(), 3);
    want(ENQ_OK, enq_cancel(e, b));
    ck_assert_uint_eq(said(), 2);
    want(ENQ_OK, enq_cancel(e, d));
    ck_assert_uint_eq(said(), 1);
    waits("a", ENQ_MODE_X, "F");
    ck_assert_uint_eq(said(), 2);
    gives(&a);
    ck_assert_str_eq(ring_of_a(), "C:X | F:X");
    ck_assert_uint_eq(said(), 1);
    end();
}

TEST(that_sets_wait_in_a_queue_is_said_until_it_is_empty)
{
    struct enq_grant grants[2];
    uint64_t set, d;

    begin();
    takes("a", ENQ_MODE_X, "A");
    set = set_waits("a", "b", "B", grants);
    ck_assert_uint_eq(said(), 1 | QUEUE_SETS);
    d = waits("a", ENQ_MODE_X, "D");
    ck_assert_uint_eq(said(), 2 | QUEUE_SETS);
    want(ENQ_OK, enq_cancel(e, set));
    ck_assert_uint_eq(said(), 1 | QUEUE_SETS);
    want(ENQ_OK, enq_cancel(e, d));
    waits("a", ENQ_MODE_X, "D");
    set_waits("a", "b", "B", grants);
    ck_assert_uint_eq(said(), 2 | QUEUE_SETS);
    end();
}

/* C's E stands before those that came earlier, and wait. */
TEST(recovery_makes_ring_and_count_anew)
{
    struct enq_grant a;
    char report[1024];

    begin_as("sap");
    a = takes("a", ENQ_MODE_S, "A");
    takes("a", ENQ_MODE_S, "C");
    waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_E, "C");
    waits("a", ENQ_MODE_X, "D");
    gives(&a);
    shm_store(&queue_last(e->map, first_of_a())->queue, 7);
    ck_assert_int_ge(enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report)), 0);
    ck_assert_ptr_nonnull(strchr(ring_of_a(), '|'));
    ck_assert_str_eq(strchr(ring_of_a(), '|'), "| B:X D:X");
    ck_assert_uint_eq(said(), 2);
    end();
}

static void die_moving(const struct point *p)
{
    if (strcmp(p->name, "queue.moving") == 0)
        kill(getpid(), SIGKILL);
}

static int give_and_die(void *a)
{
    begin_as("sap");
    point_hook = die_moving;
    gives(a);
    return 1;
}

/* In nobody's ring just then, but in hand (recovery/mend.h). */
TEST(whom_a_dying_thread_was_moving_up_is_in_the_queue_again)
{
    struct enq_req req = request("a", ENQ_MODE_X, "D");
    struct enq_grant a, g;

    begin_as("sap");
    ck_assert_int_ge(enq_fd(e), 0);
    a = takes("a", ENQ_MODE_S, "A");
    takes("a", ENQ_MODE_S, "C");
    waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_E, "C");
    unit_killed(unit_fork(give_and_die, &a));
    req.wait_ms = 0;
    want(ENQ_BUSY, enq_lock(e, &req, &g));
    unit_healthy(e);
    while (told_next(e).kind != ENQ_EVENT_RESULT)
        continue;
    ck_assert_str_eq(ring_of_a(), "C:S C:E | B:X");
    end();
}

/* --- the table check --- */

static void count_wrongly(void)
{
    shm_store(&queue_last(e->map, first_of_a())->queue, 3);
}

static void swap_phases(void)
{
    struct entry *first = first_of_a();
    struct entry *last = at_entry(e->map, first->prev);
    uint64_t held = shm_load(&first->state);

    shm_store(&first->state, shm_load(&last->state));
    shm_store(&last->state, held);
}

static const struct {
    void (*damage)(void);
    const char *found;
} wrong[] = {
    {count_wrongly, "3 waiting, counted 2"},
    {swap_phases, "is held behind a waiter"},
};

/* Meanwhile our helper must not look at the two requests, which it does once
   when they are new. */
TEST(the_table_check_finds_a_queue_that_is_out_of_order)
{
    char report[4096];

    begin();
    takes("a", ENQ_MODE_X, "A");
    waits("a", ENQ_MODE_X, "B");
    waits("a", ENQ_MODE_X, "D");
    pthread_mutex_lock(&e->async.mutex);
    wrong[_i].damage();
    ck_assert_int_gt(enq_doctor(e, 0, report, sizeof(report)), 0);
    ck_assert_msg(strstr(report, wrong[_i].found) != NULL, "%s", report);
    wrong[_i].damage();
    if (_i == 0)
        shm_store(&queue_last(e->map, first_of_a())->queue, 2);
    pthread_mutex_unlock(&e->async.mutex);
    end();
}

TEST(who_is_said_to_wait_no_longer_while_it_is_granted_is_damage)
{
    struct enq_grant g;
    struct entry *holder;
    struct scope s;
    uint64_t state;

    begin();
    g = takes("a", ENQ_MODE_X, "A");
    waits("a", ENQ_MODE_X, "B");
    holder = entry_of_handle(e->map, g.handle, &state);
    scope_begin(&s, &e->session, thread_enter(e->map));
    want(ENQ_OK, scope_enter_entry(&s, holder));
    want(ENQ_ECORRUPT, links_leave_queue(&s, holder));
    want(ENQ_ECORRUPT, links_grant(&s, holder));
    scope_leave(&s);
    ck_assert_str_eq(ring_of_a(), "A:X | B:X");
    end();
}

int main(void)
{
    unit_begin("queue");
    ADD(who_is_granted_past_others_stands_with_what_is_held);
    ADD(who_passes_the_queue_stands_with_what_is_held);
    ADD(who_passes_all_that_wait_begins_the_ring);
    ADD(who_waits_far_behind_a_set_that_waits_for_it_passes_it);
    ADD(an_owner_that_waits_behind_others_has_it_with_its_own);
    ADD(who_is_judged_as_the_last_dies_is_granted_by_the_same_scan);
    ADD(all_who_wait_for_an_at_lock_are_granted_when_it_goes);
    ADD(the_last_tells_how_many_wait_whoever_leaves);
    ADD(that_sets_wait_in_a_queue_is_said_until_it_is_empty);
    ADD(recovery_makes_ring_and_count_anew);
    ADD(whom_a_dying_thread_was_moving_up_is_in_the_queue_again);
    ADD(who_is_said_to_wait_no_longer_while_it_is_granted_is_damage);
    ADD_LOOP(the_table_check_finds_a_queue_that_is_out_of_order, LENGTH(wrong));
    return unit_end();
}
