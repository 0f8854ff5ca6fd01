/*
 * check_recover.c - what is derived is scribbled over: the check finds it, the
 * doctor makes it anew, and every lock is still there. What is true is
 * scribbled over: it is found, and nobody crashes.
 */
#include "recovery/recover.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lib/latches.h"
#include "sync/latch.h"
#include "unit.h"

/* --- a table with everything in it --- */

#define CONCRETE 40
#define GENERIC 5
#define HELD (CONCRETE + GENERIC)

struct ward {
    struct enq *e;
    struct map *map;
    struct enq_grant g[HELD];
};

static int lock_at(struct ward *w, int i)
{
    char field[16], id[16];

    snprintf(field, sizeof(field), "%d", i);
    snprintf(id, sizeof(id), "id-%d", i);
    return enq_lock(w->e,
        ENQ_REQ(.name = "n", .key = {i < CONCRETE ? field : "@", "x"},
            .mode = ENQ_MODE_S, .id = i % 3 == 0 ? id : NULL),
        &w->g[i]);
}

static struct ward fill(void)
{
    struct ward w = {.e = unit_open()};

    w.map = w.e->map;
    for (int i = 0; i < HELD; i++)
        want(ENQ_OK, lock_at(&w, i));
    unit_healthy(w.e);
    return w;
}

static struct entry *entry(const struct ward *w, int i)
{
    uint64_t state;

    return entry_of_handle(w->map, w->g[i].handle, &state);
}

static struct gate *gate(const struct ward *w)
{
    return &w->map->gates[gate_of_hash(entry(w, 0)->name_hash)];
}

/* --- scribbling over what is derived --- */

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
    uint32_t number = shard_of_hash(entry(w, 0)->hash);

    for (uint32_t i = 0; i < w->map->shards[number].n_buckets; i++)
        for (unsigned k = 0; k < BUCKET_SLOTS; k++)
            if (at_bucket(w->map, number, i)->ref[k] != 0)
                at_bucket(w->map, number, i)->tag[k] ^= 0x5555;
}

static void lead_twice_to_an_object(struct ward *w)
{
    struct entry *e = entry(w, 3);
    struct bucket *bucket = bucket_of_entry(w->map, e);
    unsigned free = (unsigned)__builtin_ctz(bucket_slots(bucket, 0));

    bucket->ref[free] = map_ref(w->map, e);
    bucket->tag[free] = spot_tag(e->name_hash, e->hash);
}

static void put_an_object_into_another_bucket(struct ward *w)
{
    struct entry *e = entry(w, 3);
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
    entry(w, CONCRETE)->next = entry(w, CONCRETE)->prev;
}

static void lead_a_ring_astray(struct ward *w)
{
    entry(w, 5)->next = entry(w, 6)->next;
}

static void lead_a_ring_outside(struct ward *w)
{
    entry(w, 5)->next = entry(w, 5)->prev = UINT32_MAX;
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

static int look(struct ward *w, uint32_t flags, char report[8192])
{
    return enq_doctor(w->e, flags, report, 8192);
}

static void all_are_there(struct ward *w)
{
    char id[16];
    enq_handle h;
    size_t total;

    for (int i = 0; i < HELD; i++) {
        snprintf(id, sizeof(id), "id-%d", i);
        want(ENQ_OK, enq_valid(w->e, w->g[i].handle));
        if (i % 3 != 0)
            continue;
        want(ENQ_OK, enq_find(w->e, id, &h));
        ck_assert_uint_eq(h, w->g[i].handle);
    }
    want(ENQ_OK, enq_list(w->e, "n", "me", NULL, 0, &total));
    ck_assert_uint_eq(total, HELD);
}

static void all_can_go(struct ward *w)
{
    struct enq_grant g;

    want(ENQ_BUSY,
        enq_lock(w->e,
            ENQ_REQ(.name = "n", .key = {"9", "x"}, .mode = ENQ_MODE_X), &g));
    for (int i = 0; i < HELD; i++)
        want(ENQ_OK, enq_unlock(w->e, w->g[i].handle, w->g[i].token));
    want(ENQ_OK,
        enq_lock(w->e,
            ENQ_REQ(.name = "n", .key = {"@", "@"}, .mode = ENQ_MODE_X), &g));
    unit_healthy(w->e);
}

TEST(what_is_derived_is_checked_and_made_anew)
{
    char report[8192];
    struct ward w = fill();

    derived[_i].scribble(&w);
    ck_assert_int_gt(look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, derived[_i].finding) != NULL, "%s", report);
    ck_assert_msg(look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    ck_assert_msg(look(&w, 0, report) == 0, "%s", report);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* Not looked at by the check, but made anew as well. */
TEST(the_counts_of_pages_are_made_anew)
{
    char report[8192];
    struct ward w = fill();
    struct seg_header was = *w.map->h;

    w.map->h->slab_pages = 12345;
    w.map->h->pages_used = 1;
    w.map->h->orphans[0].pages = 77;
    ck_assert_int_eq(look(&w, ENQ_DOCTOR_FIX, report), 0);
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
    struct ward w = fill();

    for (int i = 0; i < 3; i++)
        ck_assert_msg(look(&w, ENQ_DOCTOR_FIX, report) == 0, "%s", report);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* --- what is true --- */

static void long_name(struct entry *e)
{
    e->name_bytes = 60000;
}

static void long_fields(struct entry *e)
{
    e->field_bytes = UINT16_MAX;
}

static void many_fields(struct entry *e)
{
    e->fields = 200;
}

static void no_owner(struct entry *e)
{
    e->owner_bytes = 0;
}

static void long_id(struct entry *e)
{
    e->id_bytes = 129;
}

static void no_zero_after_the_owner(struct entry *e)
{
    memset(e->payload + e->name_bytes + e->field_bytes, 'z', e->owner_bytes);
}

static void no_zero_after_the_name(struct entry *e)
{
    memset(e->payload, 'z', e->name_bytes);
}

static void unknown_mode(struct entry *e)
{
    e->state |= 0xf0;
}

static void (*const damages[])(struct entry *e) = {
    long_name,
    long_fields,
    many_fields,
    no_owner,
    long_id,
    no_zero_after_the_owner,
    no_zero_after_the_name,
    unknown_mode,
};

/* One of two, so that the damaged one is met; fewer than 16 audited calls. */
TEST(a_damaged_entry_is_found_and_crashes_nobody)
{
    struct enq *e = unit_open();
    char report[8192], id[ENQ_ID_BYTES];
    struct enq_grant a, b;
    struct enq_info info[4];
    struct ward w = {.e = e, .map = e->map};

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &a));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &b));
    w.g[0] = a;
    damages[_i](entry(&w, 0));
    ck_assert_int_ne(look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "damaged texts") != NULL, "%s", report);
    unit_lock(e, "n", "f", ENQ_MODE_X, &b);
    unit_lock(e, "n", "@", ENQ_MODE_X, &b);
    enq_list(e, NULL, NULL, info, 4, NULL);
    enq_id(e, a.handle, id);
    enq_promote(e, a.handle, 0, NULL);
    enq_unlock(e, a.handle, 0);
    look(&w, ENQ_DOCTOR_FIX, report);
}

/* Its key says which of the waiters are to be looked at: without it none of them
   is granted, and so it is not given up either. */
TEST(a_damaged_lock_that_others_wait_for_is_not_given_back)
{
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    struct enq_grant later;
    uint64_t ticket;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &w.g[0]));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &later, &ticket));
    no_zero_after_the_name(entry(&w, 0));
    want(ENQ_ECORRUPT, enq_unlock(e, w.g[0].handle, 0));
    want(ENQ_OK, enq_valid(e, w.g[0].handle));
    ck_assert_uint_eq(unit_stats(e).waiting, 1);
}

/* No request on another key meets it, and what it says of itself but for its
   key is looked at nowhere else. With _i by a session that only looks. */
TEST(the_texts_of_a_generic_lock_are_looked_at_as_well)
{
    struct enq_open_opts looks = {
        .size = sizeof(looks), .flags = ENQ_OPEN_READONLY};
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    char report[8192];

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &w.g[0]));
    no_zero_after_the_owner(entry(&w, 0));
    if (_i == 1)
        want(ENQ_OK, enq_open(&w.e, unit_space(), &looks));
    ck_assert_int_gt(look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "damaged texts") != NULL, "%s", report);
    if (_i == 1)
        enq_close(w.e);
}

TEST(a_token_above_all_is_found)
{
    char report[8192];
    struct ward w = fill();

    entry(&w, 3)->token = UINT64_MAX / 2;
    ck_assert_int_gt(look(&w, 0, report), 0);
    ck_assert_ptr_nonnull(strstr(report, "I7"));
}

/* Two owners' locks, of which one becomes X by itself: of one object, or one
   of them generic. */
TEST(locks_that_exclude_each_other_are_found)
{
    struct enq *e = unit_open();
    struct ward w = {.e = e, .map = e->map};
    char report[8192];

    for (int i = 0; i < 2; i++)
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {i == _i ? "@" : "f"},
                    .mode = ENQ_MODE_S, .owner = i ? "A" : "B"),
                &w.g[i]));
    unit_healthy(e);
    entry(&w, 0)->state ^= STATE(0, 0, ENQ_MODE_S ^ ENQ_MODE_X, 0);
    ck_assert_int_gt(look(&w, 0, report), 0);
    ck_assert_msg(strstr(report, "I5") != NULL, "%s", report);
}

TEST(a_page_of_an_unknown_kind_is_found)
{
    char report[8192];
    struct ward w = fill();

    w.map->pages[w.map->h->pages_used - 1].kind = 9;
    ck_assert_int_gt(look(&w, 0, report), 0);
    ck_assert_ptr_nonnull(strstr(report, "I6"));
}

/* --- the dead --- */

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
    struct ward w = fill();

    unit_killed(unit_fork(die_inside, has));
    ck_assert_uint_eq(*has, 1);
    ck_assert_msg(look(&w, ENQ_DOCTOR_FIX, report) >= 0, "%s", report);
    unit_healthy(w.e);
    ck_assert_uint_eq(w.map->h->grow_latch, 0);
    all_are_there(&w);
    all_can_go(&w);
    enq_close(w.e);
}

/* Nobody writes that; somebody may have. */
TEST(a_latch_that_names_nobody_but_has_waiters_is_freed)
{
    struct ward w = fill();

    for (uint32_t i = 0; i < SHARDS; i++)
        shm_store(&w.map->shards[i].latch, LATCH_WAITERS);
    latch_all_buckets(w.map, LATCH_WAITERS);
    ck_assert_int_eq(recover(w.map, thread_enter(w.map)), 0);
    all_are_there(&w);
    all_can_go(&w);
    unit_healthy(w.e);
    enq_close(w.e);
}

/* A request may have been granted by a thread that died before it said so; no
   thread of its own is asleep on it. */
TEST(who_has_started_a_request_is_notified_by_who_recovers)
{
    struct ward w = fill();
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
    struct ward w = fill();

    damage_one(&w);
    unit_killed(unit_fork(die_in_a_bucket, NULL));
    ck_assert_int_eq(recover(w.map, thread_enter(w.map)), ENQ_ECORRUPT);
    unit_join(unit_fork(lock_with_an_id, NULL));
    enq_close(w.e);
}

/* Each of the locks is held already: none may be granted to another. */
TEST(the_doctor_leaves_no_half_of_a_table_that_passes_for_the_whole)
{
    struct ward w = fill();
    char report[8192];
    struct enq_grant g;
    char field[16];

    damage_one(&w);
    want(ENQ_ECORRUPT, look(&w, ENQ_DOCTOR_FIX, report));
    for (int i = 0; i < CONCRETE; i++) {
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
    ADD_LOOP(a_damaged_entry_is_found_and_crashes_nobody, LENGTH(damages));
    ADD(a_damaged_lock_that_others_wait_for_is_not_given_back);
    ADD_LOOP(the_texts_of_a_generic_lock_are_looked_at_as_well, 2);
    ADD(a_token_above_all_is_found);
    ADD_LOOP(locks_that_exclude_each_other_are_found, 3);
    ADD(a_page_of_an_unknown_kind_is_found);
    ADD(who_died_inside_leaves_latches_that_are_freed);
    ADD(a_latch_that_names_nobody_but_has_waiters_is_freed);
    ADD(who_has_started_a_request_is_notified_by_who_recovers);
    ADD(nobody_waits_for_the_latches_of_what_cannot_be_made_anew);
    ADD(the_doctor_leaves_no_half_of_a_table_that_passes_for_the_whole);
    return unit_end();
}
