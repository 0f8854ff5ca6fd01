/*
 * check_mend_told.c - a thread dies before it has told of what it did: whoever
 * recovers tells, and tells nobody else.
 *
 * There are no ticks: who is not told sleeps on.
 */
#include <linux/futex.h>
#include <signal.h>
#include <string.h>

#include "base/point.h"
#include "mend.h"
#include "recovery/recover.h"
#include "sync/reclaim.h"

/* --- who is told --- */

static int die_inside(void *nothing)
{
    struct spot spot;

    (void)nothing;
    e = unit_open();
    first_of_a(&spot);
    spot.bucket = NULL;
    want(0, spot_latch(e->map, thread_enter(e->map), &spot));
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(who_waits_in_a_mended_bucket_is_told)
{
    const struct session_slot *slot;
    struct enq *waiting;
    struct enq_grant g;
    uint64_t ticket;
    uint32_t told;

    begin();
    waiting = unit_open();
    slot = at_session(waiting->map, waiting->session.ref);
    want(ENQ_PENDING,
        enq_start(waiting,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "waiting", .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    told = shm_load(&slot->notifications);
    unit_killed(unit_fork(die_inside, NULL));
    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    ck_assert_uint_ne(shm_load(&slot->notifications), told);
    enq_close(waiting);
    all_are_there();
}

struct in_gate {
    uint32_t name_hash;
    ref_t in_hand;
};

static int die_inside_the_gate(void *in_gate)
{
    const struct in_gate *in = in_gate;
    uint32_t gate = gate_of_hash(in->name_hash);
    struct thread *t;

    e = unit_open();
    t = thread_enter(e->map);
    latch_acquire(t, &e->map->gates[gate].latch, RANK_GATE);
    thread_note_in_hand(t, in->in_hand);
    kill(getpid(), SIGKILL);
    return 1;
}

static struct enq *waits_for(const char *name, bool listens)
{
    struct enq *waiting = unit_open();
    struct enq_grant g;
    uint64_t ticket;

    if (listens)
        ck_assert_int_ge(enq_fd(waiting), 0);
    want(ENQ_PENDING,
        enq_start(waiting,
            ENQ_REQ(.name = name, .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "waiting", .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    return waiting;
}

static uint32_t told_of(const struct enq *waiting)
{
    return shm_load(&at_session(waiting->map, waiting->session.ref)
                         ->notifications);
}

/* A hundred thousand that wait for other names need not look. */
TEST(who_waits_for_a_name_of_a_mended_gate_is_told_and_nobody_else)
{
    struct enq *of_gate, *of_another;
    struct enq_grant other, g;
    struct spot spot;
    struct in_gate in;
    uint32_t told[2];

    begin();
    want(ENQ_OK, unit_lock(e, "another name", "a", ENQ_MODE_X, &other));
    of_gate = waits_for("n", _i == 1);
    of_another = waits_for("another name", _i == 1);
    told[0] = told_of(of_gate);
    told[1] = told_of(of_another);
    in.name_hash = first_of_a(&spot)->name_hash;
    in.in_hand = map_ref(e->map, first_of_a(&spot));
    unit_killed(unit_fork(die_inside_the_gate, &in));
    want(ENQ_BUSY, unit_lock(e, "n", "@", ENQ_MODE_X, &g));
    ck_assert_uint_ne(told_of(of_gate), told[0]);
    ck_assert_uint_eq(told_of(of_another), told[1]);
    enq_close(of_gate);
    enq_close(of_another);
    all_are_there();
}

/* As nearly all do who ask for "@" of a large name. */
TEST(who_has_only_looked_under_a_gates_latch_leaves_nobody_to_be_told)
{
    struct enq *of_gate;
    struct enq_grant g;
    struct in_gate in = {0};
    struct spot spot;
    uint32_t told;

    begin();
    of_gate = waits_for("n", true);
    told = told_of(of_gate);
    in.name_hash = first_of_a(&spot)->name_hash;
    unit_killed(unit_fork(die_inside_the_gate, &in));
    want(ENQ_BUSY, unit_lock(e, "n", "@", ENQ_MODE_X, &g));
    ck_assert_uint_eq(told_of(of_gate), told);
    enq_close(of_gate);
    all_are_there();
}

/* --- who had yet to be told --- */

struct left_to_tell {
    ref_t of[TELLING_FEW + 1];
};

static int die_before_it_tells(void *left)
{
    const struct left_to_tell *telling = left;
    struct thread *t;

    e = unit_open();
    t = thread_enter(e->map);
    for (unsigned i = 0; i <= TELLING_FEW && telling->of[i] != 0; i++)
        thread_note_telling(t, telling->of[i]);
    kill(getpid(), SIGKILL);
    return 1;
}

/* Of two that wait for the same. */
static struct enq *two[2];
static ref_t entry_of[2];

static void two_wait(void)
{
    begin();
    for (int i = 0; i < 2; i++) {
        struct spot spot;

        two[i] = waits_for("n", true);
        entry_of[i] = first_of_a(&spot)->prev;
    }
}

static void two_are_there(void)
{
    enq_close(two[0]);
    enq_close(two[1]);
    all_are_there();
}

/* No latch was left: each has looked, and sleeps, and there are no ticks. */
TEST(whoever_died_before_it_told_is_spoken_for)
{
    struct left_to_tell left = {{0}};
    struct thread *t;
    uint32_t told[2];

    two_wait();
    t = thread_enter(e->map);
    left.of[0] = entry_of[0];
    told[0] = told_of(two[0]);
    told[1] = told_of(two[1]);
    unit_killed(unit_fork(die_before_it_tells, &left));
    want(0, recover_noted(e->map, t));
    ck_assert_uint_ne(told_of(two[0]), told[0]);
    ck_assert_uint_eq(told_of(two[1]), told[1]);
    told[0] = told_of(two[0]);
    want(0, recover_noted(e->map, t));
    ck_assert_uint_eq(told_of(two[0]), told[0]); /* once */
    two_are_there();
}

TEST(whoever_died_with_more_to_tell_than_it_has_noted_is_spoken_for)
{
    struct left_to_tell left = {{0}};
    uint32_t told;

    two_wait();
    for (unsigned i = 0; i <= TELLING_FEW; i++)
        left.of[i] = entry_of[0];
    told = told_of(two[1]);
    unit_killed(unit_fork(die_before_it_tells, &left));
    want(0, recover_noted(e->map, thread_enter(e->map)));
    ck_assert_uint_ne(told_of(two[1]), told);
    two_are_there();
}

static void die_there(const struct point *p)
{
    if (strcmp(p->name, "renew.stored") == 0)
        kill(getpid(), SIGKILL);
}

static int shorten_and_die(void *grant)
{
    const struct enq_grant *g = grant;

    e = unit_open();
    point_hook = die_there;
    return enq_renew(e, g->handle, g->token, 1000);
}

/* Of the entry only its deadline tells, which its session has read before. */
TEST(whose_ttl_was_shortened_by_one_that_died_is_told)
{
    struct enq_grant g;
    struct enq *other;
    uint32_t told;

    begin();
    other = unit_open();
    ck_assert_int_ge(enq_fd(other), 0);
    want(ENQ_OK, unit_lock(other, "other", "a", ENQ_MODE_X, &g));
    told = told_of(other);
    unit_killed(unit_fork(shorten_and_die, &g));
    want(0, recover_noted(e->map, thread_enter(e->map)));
    ck_assert_uint_ne(told_of(other), told);
    enq_close(other);
    all_are_there();
}

static int come_and_go(void *nothing)
{
    (void)nothing;
    e = unit_open();
    enq_close(e);
    return 0;
}

/* A slot of somebody who has left, as if he had died there: nobody notices. */
static struct thread_slot *dead_slot(ref_t telling)
{
    struct thread_slot *slot = e->map->threads;
    uint32_t i = 0;

    unit_join(unit_fork(come_and_go, NULL));
    while (slot[i].ref != 0)
        i++;
    ck_assert_uint_lt(i, map_threads(e->map));
    *(uint32_t *)&slot[i].life = FUTEX_OWNER_DIED;
    slot[i].telling[0] = telling;
    shm_store_release(&slot[i].ref, slot[i].generation << THREAD_BITS | i);
    return &slot[i];
}

/* Where all slots are taken those of the dead are given back, and nobody
   recovers. */
TEST(the_slot_of_whoever_had_yet_to_tell_is_kept_until_that_is_done)
{
    struct thread_slot *slot;
    uint32_t told;

    two_wait();
    told = told_of(two[0]);
    slot = dead_slot(entry_of[0]);
    ck_assert_uint_eq(reclaim_threads(e->map), 0);
    ck_assert_uint_ne(slot->ref, 0);
    want(0, recover_noted(e->map, thread_enter(e->map)));
    ck_assert_uint_ne(told_of(two[0]), told);
    ck_assert_uint_eq(slot->ref, 0);
    two_are_there();
}

/* --- who wants what is being recovered --- */

#define WAITS 100

static int recovers;
static uint32_t *wanted;
static unsigned waits;
static pthread_t waiter;
static void (*real_wait)(const struct sys_watch *watches, unsigned n,
    mono_t until);

/* The recovery latch is a living thread's, which takes its time. */
static void *recovers_elsewhere(void *nothing)
{
    want(RECOVER_BEGIN, recover_lock(e->map, thread_enter(e->map), NULL));
    unit_killed(unit_fork(die_inside, NULL));
    shm_store(&recovers, 1);
    eventually(shm_load(&recovers) == 0);
    thread_leave(e->map);
    return nothing;
}

/* It is to sleep, however often it has; at last what it wants is free. */
static void wait_for_long(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    if (!pthread_equal(pthread_self(), waiter)) {
        real_wait(watches, n, until);
        return;
    }
    ck_assert_int_gt(until.ns, sys.now().ns);
    if (++waits < WAITS)
        return;
    shm_store(wanted, 0);
    recover_unlock(e->map);
    shm_store(&recovers, 0);
}

TEST(who_waits_for_a_recovery_need_not_recover)
{
    pthread_t other;
    struct spot spot;

    begin();
    first_of_a(&spot);
    wanted = &bucket_of(e->map, &spot)->latch;
    waiter = pthread_self();
    real_wait = sys.wait;
    pthread_create(&other, NULL, recovers_elsewhere, NULL);
    eventually(shm_load(&recovers) == 1);
    sys.wait = wait_for_long;
    want(RECOVER_NEEDLESS, recover_lock(e->map, thread_enter(e->map), wanted));
    sys.wait = real_wait;
    ck_assert_uint_eq(waits, WAITS);
    pthread_join(other, NULL);
    all_are_there();
}

static struct thread_slot *my_slot;
static ref_t noted_at_change;

/* Before its state says so: a death right behind that must leave the note. */
static void note_what_is_told(const struct point *p)
{
    if (strcmp(p->name, "gate.lowered") == 0 ||
        strcmp(p->name, "grant.before_wake") == 0)
        noted_at_change = shm_load(&my_slot->telling[0]);
}

TEST(whom_a_grant_wakes_is_noted_until_it_is_woken)
{
    two_wait();
    my_slot = thread_enter(e->map)->slot;
    point_hook = note_what_is_told;
    for (int i = 0; i < SHARED; i++)
        want(ENQ_OK, enq_unlock(e, held[i].handle, held[i].token));
    point_hook = NULL;
    ck_assert_uint_ne(noted_at_change, 0);
    ck_assert_uint_eq(shm_load(&my_slot->telling[0]), 0);
    enq_close(two[0]);
    enq_close(two[1]);
    enq_close(e);
}

/* Of its members one is published. */
static int wait_for_a_set(void *nothing)
{
    struct enq_req n = {.size = sizeof(n),
        .name = "n",
        .key = {"a"},
        .mode = ENQ_MODE_X,
        .owner = "set",
        .wait_ms = ENQ_FOREVER};
    struct enq_req other = n;
    const struct enq_req *both[] = {&n, &other};
    struct enq_grant g[2];

    (void)nothing;
    other.name = "another name";
    e = unit_open();
    return enq_lock_set(e, both, 2, g) == ENQ_OK ? 0 : 1;
}

static bool sleeps(const struct entry *member)
{
    return entry_sleeps(member) == ASLEEP_THREAD ||
        entry_sleeps(member) == ASLEEP_BEHIND;
}

static bool anything_is_latched(struct entry *const members[2])
{
    bool any = shm_load(&e->map->h->recovery_latch) != 0;

    for (unsigned i = 0; i < GATES; i++)
        any |= shm_load(&e->map->gates[i].latch) != 0;
    for (unsigned i = 0; i < SHARDS_ALL; i++)
        any |= shm_load(&e->map->shards[i].latch) != 0;
    for (unsigned i = 0; i < 2; i++) {
        uint64_t hash = members[i]->hash;

        any |= shm_load(&bucket_of_hash(e->map, shard_of_hash(hash), hash)
                             ->latch) != 0;
    }
    return any;
}

/* Stopped with a latch it would stop us as well. */
static void stop_outside(pid_t pid, struct entry *const members[2])
{
    for (;;) {
        eventually(sleeps(members[0]) || sleeps(members[1]));
        unit_stop(pid);
        if (!anything_is_latched(members))
            return;
        kill(pid, SIGCONT);
        usleep(1000);
    }
}

/* One of the two is published, and the other's gate dies, once each. */
TEST(a_set_of_which_one_key_is_of_a_mended_gate_is_told)
{
    static const char *const names[] = {"n", "another name"};
    struct entry *members[2];
    struct enq_grant other, g;
    struct spot spot;
    pid_t pid;

    begin();
    want(ENQ_OK, unit_lock(e, names[1], "a", ENQ_MODE_X, &other));
    pid = unit_fork(wait_for_a_set, NULL);
    eventually(entry_is(at_entry(e->map, first_of_a(&spot)->prev),
                   PHASE_WAITING) &&
        entry_next_of_set(e->map, at_entry(e->map, first_of_a(&spot)->prev)));
    members[0] = at_entry(e->map, first_of_a(&spot)->prev);
    members[1] = entry_next_of_set(e->map, members[0]);
    stop_outside(pid, members);
    unit_killed(unit_fork(die_inside_the_gate,
        &(struct in_gate){
            members[_i]->name_hash, map_ref(e->map, first_of_a(&spot))}));
    want(ENQ_BUSY, unit_lock(e, names[_i], "@", ENQ_MODE_X, &g));
    ck_assert_uint_ne((shm_load(&members[0]->state) |
                          shm_load(&members[1]->state)) &
            STATE_SOONER,
        0);
    unit_kill(pid);
    enq_close(e);
}

int main(void)
{
    unit_begin("mend_told");
    ADD(who_waits_in_a_mended_bucket_is_told);
    ADD_LOOP(who_waits_for_a_name_of_a_mended_gate_is_told_and_nobody_else, 2);
    ADD(who_has_only_looked_under_a_gates_latch_leaves_nobody_to_be_told);
    ADD_LOOP(a_set_of_which_one_key_is_of_a_mended_gate_is_told, 2);
    ADD(whoever_died_before_it_told_is_spoken_for);
    ADD(whoever_died_with_more_to_tell_than_it_has_noted_is_spoken_for);
    ADD(whose_ttl_was_shortened_by_one_that_died_is_told);
    ADD(the_slot_of_whoever_had_yet_to_tell_is_kept_until_that_is_done);
    ADD(who_waits_for_a_recovery_need_not_recover);
    ADD(whom_a_grant_wakes_is_noted_until_it_is_woken);
    return unit_end();
}
