/*
 * check_recover.c - what is derived is scribbled over: the check finds it, the
 * doctor makes it anew, and every lock is still there. (What is true:
 * check_damage.c.)
 */
#include "recovery/recover.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/latches.h"
#include "sync/latch.h"
#include "ward.h"

/* --- scribbling over what is derived --- */

static struct gate *gate(const struct ward *w)
{
    return &w->map->gates[gate_of_hash(ward_entry(w, 0)->name_hash)];
}

/* What is true of it stays: its latch and its newest token. */
static void forget(struct bucket *bucket)
{
    bucket->more = 0;
    memset(bucket->ref, 0, sizeof(bucket->ref));
    memset(bucket->tag, 0, sizeof(bucket->tag));
}

static void zero_all_buckets(struct ward *w)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        for (uint32_t k = 0; k < BUCKETS_FIRST; k++)
            forget(at_bucket(w->map, i, k));
}

static void zero_the_ids(struct ward *w)
{
    for (uint32_t i = SHARDS; i < SHARDS_ALL; i++)
        memset(at_bucket(w->map, i, 0), 0,
            BUCKETS_FIRST * sizeof(struct bucket));
}

static void fill_buckets_with_rubbish(struct ward *w)
{
    uint64_t dice = unit_seed();

    for (uint32_t i = 0; i < SHARDS; i++)
        for (uint32_t k = 0; k < 4; k++)
            at_bucket(w->map, i, k)->ref[k] = (ref_t)unit_random(&dice);
}

static void change_a_tag(struct ward *w)
{
    uint32_t number = shard_of_hash(ward_entry(w, 0)->hash);

    for (uint32_t i = 0; i < w->map->shards[number].n_buckets; i++)
        for (unsigned k = 0; k < BUCKET_SLOTS; k++)
            if (at_bucket(w->map, number, i)->ref[k] != 0)
                at_bucket(w->map, number, i)->tag[k] ^= 0x5555;
}

static void lead_twice_to_an_object(struct ward *w)
{
    struct entry *e = ward_entry(w, 3);
    struct bucket *bucket = bucket_of_entry(w->map, e);
    unsigned free = (unsigned)__builtin_ctz(bucket_slots(bucket, 0));

    bucket->ref[free] = map_ref(w->map, e);
    bucket->tag[free] = spot_tag(e->name_hash, e->hash);
}

static void put_an_object_into_another_bucket(struct ward *w)
{
    struct entry *e = ward_entry(w, 3);
    struct bucket *bucket = bucket_of_entry(w->map, e);
    struct bucket *other = at_bucket(w->map, shard_of_hash(e->hash), 0);

    other = other == bucket ? other + 1 : other;
    other->tag[BUCKET_SLOTS - 1] = spot_tag(e->name_hash, e->hash);
    other->ref[BUCKET_SLOTS - 1] = map_ref(w->map, e);
    forget(bucket);
}

static void count_waiting_wrong_at_all_gates(struct ward *w)
{
    for (uint32_t i = 0; i < GATES; i++)
        w->map->gates[i].n_waiting += 3;
}

static void raise_all_gates(struct ward *w)
{
    for (uint32_t i = 0; i < GATES; i++)
        w->map->gates[i].raised += 1;
}

static void lower_the_gate(struct ward *w)
{
    gate(w)->raised = 1;
}

static void forget_the_gates_ring(struct ward *w)
{
    gate(w)->head = 0;
}

static void forget_the_digests(struct ward *w)
{
    struct entry *first = at_entry(w->map, gate(w)->head), *e = first;

    do
        e->hash = 0x8001;
    while ((e = at_entry(w->map, e->next)) != first);
}

static void break_a_ring(struct ward *w)
{
    ward_entry(w, WARD_CONCRETE)->next = ward_entry(w, WARD_CONCRETE)->prev;
}

static void lead_a_ring_astray(struct ward *w)
{
    ward_entry(w, 5)->next = ward_entry(w, 6)->next;
}

static void lead_a_ring_outside(struct ward *w)
{
    ward_entry(w, 5)->next = ward_entry(w, 5)->prev = UINT32_MAX;
}

static const struct {
    void (*scribble)(struct ward *w);
    const char *finding;
} derived[] = {
    {zero_all_buckets, "I1"},
    {zero_the_ids, "I3"},
    {fill_buckets_with_rubbish, "I3"},
    {change_a_tag, "is not found by its key"},
    {lead_twice_to_an_object, "twice"},
    {put_an_object_into_another_bucket, "is not found by its key"},
    {count_waiting_wrong_at_all_gates, "I4"},
    {raise_all_gates, "I4"},
    {lower_the_gate, "I4"},
    {forget_the_gates_ring, "I1"},
    {forget_the_digests, "has not its key's digest"},
    {break_a_ring, "I2"},
    {lead_a_ring_astray, "I2"},
    {lead_a_ring_outside, "I2"},
};

static void all_are_there(struct ward *w)
{
    char id[16];
    enq_handle h;
    size_t total;

    for (int i = 0; i < WARD_HELD; i++) {
        snprintf(id, sizeof(id), "id-%d", i);
        want(ENQ_OK, enq_valid(w->e, w->g[i].handle));
        if (i % 3 != 0)
            continue;
        want(ENQ_OK, enq_find(w->e, id, &h));
        ck_assert_uint_eq(h, w->g[i].handle);
    }
    want(ENQ_OK, enq_list(w->e, "n", "me", NULL, 0, &total));
    ck_assert_uint_eq(total, WARD_HELD);
}

static void all_can_go(struct ward *w)
{
    struct enq_grant g;

    want(ENQ_BUSY,
        enq_lock(w->e,
            ENQ_REQ(.name = "n", .key = {"9", "x"}, .mode = ENQ_MODE_X), &g));
    for (int i = 0; i < WARD_HELD; i++)
        want(ENQ_OK, enq_unlock(w->e, w->g[i].handle, w->g[i].token));
    want(ENQ_OK,
        enq_lock(w->e,
            ENQ_REQ(.name = "n", .key = {"@", "@"}, .mode = ENQ_MODE_X), &g));
    unit_healthy(w->e);
}

TEST(what_is_derived_is_checked_and_made_anew)
{
    char report[8192];
    struct ward w = ward_fill();

    derived[_i].scribble(&w);
    ck_assert_int_gt(ward_look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, derived[_i].finding) != NULL, "%s", report);
    ck_assert_msg(ward_look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    ck_assert_msg(ward_look(&w, 0, report) == 0, "%s", report);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* Not looked at by the check, but made anew as well. */
TEST(the_counts_of_pages_are_made_anew)
{
    char report[8192];
    struct ward w = ward_fill();
    struct seg_header was = *w.map->h;

    w.map->h->slab_pages = 12345;
    w.map->h->pages_used = 1;
    w.map->h->orphans[0].pages = 77;
    ck_assert_int_eq(ward_look(&w, ENQ_DOCTOR_FIX, report), 0);
    ck_assert_uint_eq(w.map->h->slab_pages, was.slab_pages);
    ck_assert_uint_eq(w.map->h->pages_used, was.pages_used);
    ck_assert_uint_eq(w.map->h->orphans[0].pages, 0);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

TEST(a_healthy_table_is_not_changed_by_the_doctor)
{
    char report[8192];
    struct ward w = ward_fill();

    for (int i = 0; i < 3; i++)
        ck_assert_msg(ward_look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* --- the dead --- */

static bool is_free(void *context, uint32_t shard, struct bucket *bucket)
{
    (void)context;
    ck_assert_msg(shm_load(&bucket->latch) == 0, "a bucket of shard %u", shard);
    return true;
}

static void all_latches_are_free(const struct map *map)
{
    for (uint32_t i = 0; i < SHARDS; i++)
        map_each_bucket(map, i, is_free, NULL);
    for (uint32_t i = 0; i < SHARDS_ALL; i++)
        ck_assert_msg(shm_load(&map->shards[i].latch) == 0, "shard %u", i);
    for (unsigned i = 0; i < GATES; i++)
        ck_assert_msg(shm_load(&map->gates[i].latch) == 0, "gate %u", i);
    ck_assert_uint_eq(shm_load(&map->h->grow_latch), 0);
}

static int die_inside(void *has)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);

    for (int i = 0; i < 3; i++)
        latch_acquire(t, &e->map->gates[i * 7].latch, RANK_GATE);
    for (int i = 0; i < 3; i++)
        latch_acquire(t, &e->map->shards[i * 7].latch, RANK_SHARD);
    for (uint32_t i = 0; i < 3; i++)
        latch_acquire(t, &at_bucket(e->map, i * 7, i)->latch, RANK_BUCKET);
    latch_acquire(t, &e->map->h->grow_latch, RANK_GROW);
    zero_all_buckets(&(struct ward){.map = e->map});
    shm_store_release((uint32_t *)has, 1);
    kill(getpid(), SIGKILL);
    return 1;
}

/* Only what was held is made anew by a need; the doctor does the rest. */
TEST(who_died_inside_leaves_latches_that_are_freed)
{
    uint32_t *has = unit_shared(4);
    char report[8192];
    struct ward w = ward_fill();

    unit_killed(unit_fork(die_inside, has));
    ck_assert_uint_eq(*has, 1);
    ck_assert_msg(ward_look(&w, ENQ_DOCTOR_FIX, report) >= 0, "%s", report);
    unit_healthy(w.e);
    all_latches_are_free(w.map);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* Nobody writes that; somebody may have. */
TEST(a_latch_that_names_nobody_but_has_waiters_is_freed)
{
    struct ward w = ward_fill();

    for (uint32_t i = 0; i < SHARDS; i++)
        shm_store(&w.map->shards[i].latch, LATCH_WAITERS);
    latch_all_buckets(w.map, LATCH_WAITERS);
    ck_assert_int_eq(recover(w.map, thread_enter(w.map)), 0);
    all_latches_are_free(w.map);
    all_are_there(&w);
    all_can_go(&w);
    unit_healthy(w.e);
    enq_close(w.e);
}

/* A request may have been granted by a thread that died before it said so; no
   thread of its own is asleep on it. */
TEST(who_has_started_a_request_is_notified_by_who_recovers)
{
    struct ward w = ward_fill();
    struct enq *waiting = unit_open();
    const struct session_slot *slot =
        at_session(waiting->map, waiting->session.ref);
    struct enq_grant g;
    uint64_t ticket;
    uint32_t calls;

    want(ENQ_PENDING,
        enq_start(waiting,
            ENQ_REQ(.name = "n", .key = {"1", "x"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    calls = shm_load(&slot->notifications);
    latch_all_buckets(w.map, LATCH_WAITERS);
    ck_assert_int_eq(recover(w.map, thread_enter(w.map)), 0);
    ck_assert_uint_ne(shm_load(&slot->notifications), calls);
    enq_close(waiting);
    all_can_go(&w);
    enq_close(w.e);
}

/* --- what cannot be made anew --- */

static int die_in_a_bucket(void *arg)
{
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);

    (void)arg;
    latch_acquire(t, &at_bucket(e->map, 7, 0)->latch, RANK_BUCKET);
    kill(getpid(), SIGKILL);
    return 1;
}

static int lock_with_an_id(void *arg)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)arg;
    alarm(10);
    want(ENQ_ECORRUPT,
        enq_lock(e, ENQ_REQ(.name = "m", .mode = ENQ_MODE_S, .id = "mine"),
            &g));
    enq_close(e);
    return 0;
}

static void damage_one(struct ward *w)
{
    uint64_t state;

    entry_of_handle(w->map, w->g[3].handle, &state)->owner_bytes = 60000;
}

TEST(nobody_waits_for_the_latches_of_what_cannot_be_made_anew)
{
    struct ward w = ward_fill();

    damage_one(&w);
    unit_killed(unit_fork(die_in_a_bucket, NULL));
    ck_assert_int_eq(recover(w.map, thread_enter(w.map)), ENQ_ECORRUPT);
    unit_join(unit_fork(lock_with_an_id, NULL));
    enq_close(w.e);
}

/* Each of the locks is held already: none may be granted to another. */
TEST(the_doctor_leaves_no_half_of_a_table_that_passes_for_the_whole)
{
    struct ward w = ward_fill();
    char report[8192];
    struct enq_grant g;
    char field[16];

    damage_one(&w);
    want(ENQ_ECORRUPT, ward_look(&w, ENQ_DOCTOR_FIX, report));
    for (int i = 0; i < WARD_CONCRETE; i++) {
        snprintf(field, sizeof(field), "%d", i);
        ck_assert_int_ne(enq_lock(w.e,
                             ENQ_REQ(.name = "n", .key = {field, "x"},
                                 .mode = ENQ_MODE_X, .owner = "other"),
                             &g),
            ENQ_OK);
    }
    enq_close(w.e);
}

int main(void)
{
    unit_begin("recover");
    ADD_LOOP(what_is_derived_is_checked_and_made_anew, LENGTH(derived));
    ADD(the_counts_of_pages_are_made_anew);
    ADD(a_healthy_table_is_not_changed_by_the_doctor);
    ADD(who_died_inside_leaves_latches_that_are_freed);
    ADD(a_latch_that_names_nobody_but_has_waiters_is_freed);
    ADD(who_has_started_a_request_is_notified_by_who_recovers);
    ADD(nobody_waits_for_the_latches_of_what_cannot_be_made_anew);
    ADD(the_doctor_leaves_no_half_of_a_table_that_passes_for_the_whole);
    return unit_end();
}
