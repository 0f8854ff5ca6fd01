/*
 * check_mend.c - a thread dies under the latch of one bucket: what it has noted
 * is enough, and what it has not is found.
 *
 * There are no ticks: who is not told sleeps on.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/point.h"
#include "mend.h"

/* --- what is found --- */

static int die_without_a_note(void *nothing)
{
    struct thread *t;
    struct spot spot;

    (void)nothing;
    e = unit_open();
    t = thread_enter(e->map);
    first_of_a(&spot);
    latch_acquire(t, &bucket_of(e->map, &spot)->latch, RANK_BUCKET);
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(a_latch_that_no_note_leads_to_is_found)
{
    begin();
    unit_killed(unit_fork(die_without_a_note, NULL));
    all_are_there();
}

/* Between the first entry's leaving of the ring and the index. */
static int die_unlinking(void *which)
{
    struct entry *first;
    struct thread *t;
    struct spot spot;

    e = unit_open();
    t = thread_enter(e->map);
    first = first_of_a(&spot);
    spot.bucket = NULL;
    want(0, spot_latch(e->map, t, &spot));
    for (int i = 0; i < *(int *)which; i++)
        first = at_entry(e->map, first->next);
    thread_note_in_hand(t, map_ref(e->map, first));
    ring_remove(e->map, first, map_ref(e->map, first));
    kill(getpid(), SIGKILL);
    return 1;
}

/* The whole table is looked at where the links are not what they should be:
   then `remade` grows twice. */
TEST(whoever_was_leaving_a_ring_is_in_it_again)
{
    begin();
    unit_killed(unit_fork(die_unlinking, &(int){_i}));
    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    ck_assert_uint_eq(e->map->h->remade, remade + 1);
    all_are_there();
}

/* Two slots lead to one ring, which nobody does but a stranger: what is in it
   is met twice, and the entries alone tell what is there. */
static int die_with_a_slot_too_many(void *nothing)
{
    struct bucket *bucket;
    struct spot spot;
    unsigned i;

    (void)nothing;
    e = unit_open();
    first_of_a(&spot);
    spot.bucket = NULL;
    want(0, spot_latch(e->map, thread_enter(e->map), &spot));
    bucket = spot.bucket;
    i = (unsigned)__builtin_ctz(bucket_slots(bucket, 0));
    bucket->ref[i] = bucket->ref[__builtin_ctz(bucket_slots(bucket, spot.tag))];
    bucket->tag[i] = spot.tag;
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(what_is_met_twice_is_looked_for_in_the_whole_table)
{
    begin();
    unit_killed(unit_fork(die_with_a_slot_too_many, NULL));
    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    ck_assert_uint_eq(e->map->h->remade, remade + 2);
    all_are_there();
}

/* Its slot leads to the entry that it was bringing, and its session was reaped
   before its thread was known to be dead: that is another's by now, elsewhere. */
static int die_with_a_slot_of_another(void *nothing)
{
    struct entry *of_b;
    struct bucket *bucket;
    struct spot spot;
    unsigned i;

    (void)nothing;
    e = unit_open();
    of_b = first_of("b", &spot);
    first_of_a(&spot);
    spot.bucket = NULL;
    want(0, spot_latch(e->map, thread_enter(e->map), &spot));
    bucket = spot.bucket;
    i = (unsigned)__builtin_ctz(bucket_slots(bucket, 0));
    bucket->ref[i] = map_ref(e->map, of_b);
    bucket->tag[i] = spot.tag ^ 2;
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(what_has_become_anothers_in_another_bucket_is_left_alone)
{
    struct enq_grant b[2];
    struct spot of_a, of_b;

    begin();
    for (int i = 0; i < 2; i++)
        want(ENQ_OK, unit_lock(e, "n", "b", ENQ_MODE_S, &b[i]));
    first_of("b", &of_b);
    first_of_a(&of_a);
    ck_assert_ptr_ne(bucket_of(e->map, &of_a), bucket_of(e->map, &of_b));
    unit_killed(unit_fork(die_with_a_slot_of_another, NULL));
    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    ck_assert_uint_eq(e->map->h->remade, remade + 1);
    unit_healthy(e);
    for (int i = 0; i < 2; i++)
        want(ENQ_OK, enq_unlock(e, b[i].handle, b[i].token));
    all_are_there();
}

/* --- objects that found no slot --- */

#define CROWD (BUCKET_SLOTS + 4)

static char crowd[CROWD][16];

/* So many more in the bucket of "a". */
static struct bucket *begin_crowded(void)
{
    struct spot a, b;
    struct enq_grant g;

    begin();
    first_of_a(&a);
    for (unsigned i = 0, n = 0; n < CROWD; i++) {
        char bytes[KEY_BYTES_MAX];
        struct enq_req req = {
            .size = sizeof(req), .name = "n", .key = {crowd[n]}};
        struct key key;

        snprintf(crowd[n], sizeof(crowd[n]), "f%u", i);
        want(0, key_pack(&key, bytes, sizeof(bytes), &req, e->map->hash_seed));
        b = spot_of(key.name_hash, key.hash);
        if (b.shard != a.shard ||
            bucket_of(e->map, &b) != bucket_of(e->map, &a))
            continue;
        want(ENQ_OK, unit_lock(e, "n", crowd[n++], ENQ_MODE_X, &g));
    }
    ck_assert_uint_ne(bucket_of(e->map, &a)->more, 0);
    remade = e->map->h->remade;
    return bucket_of(e->map, &a);
}

static struct entry *last_of_chain(const struct bucket *bucket)
{
    struct entry *last = at_entry(e->map, bucket->more);

    while (last->spill != 0)
        last = at_entry(e->map, last->spill);
    return last;
}

static void crowd_is_there(unsigned times_remade)
{
    struct enq_grant g;

    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    ck_assert_uint_eq(e->map->h->remade, remade + times_remade);
    for (unsigned i = 0; i < CROWD; i++)
        want(ENQ_BUSY, unit_lock(e, "n", crowd[i], ENQ_MODE_X, &g));
    all_are_there();
}

TEST(what_found_no_slot_beside_whoever_was_leaving_is_there_again)
{
    begin_crowded();
    unit_killed(unit_fork(die_unlinking, &(int){0}));
    crowd_is_there(1);
}

/* The last leads to the first again, or the first to no entry. */
TEST(where_a_chain_is_damaged_the_whole_table_is_looked_at)
{
    struct bucket *bucket = begin_crowded();

    if (_i == 0)
        last_of_chain(bucket)->spill = bucket->more;
    else
        at_entry(e->map, bucket->more)->spill = UINT32_MAX;
    unit_killed(unit_fork(die_unlinking, &(int){0}));
    crowd_is_there(2);
}

/* The first of a chain moves into a slot that gets free, and its thread dies
   before it is out of the chain. */
TEST(what_was_moving_from_a_chain_to_a_slot_is_there_once)
{
    struct bucket *bucket = begin_crowded();
    struct entry *first = at_entry(e->map, bucket->more);
    struct entry *last = last_of_chain(bucket);
    struct spot spot = spot_of(first->name_hash, first->hash);
    unsigned i = 0;

    /* as if its slot had been of one that is gone: who has it joins the chain */
    while (at_entry(e->map, bucket->ref[i]) == first_of_a(&(struct spot){0}))
        i++;
    last->spill = bucket->ref[i];
    bucket->ref[i] = map_ref(e->map, first);
    bucket->tag[i] = spot.tag;
    unit_killed(unit_fork(die_unlinking, &(int){0}));
    crowd_is_there(1);
}

/* --- who was being granted --- */

static struct entry *granted;

/* A death here, or behind the next store: it waits, and has come now. */
static void is_in_no_window(const struct point *p)
{
    if (strcmp(p->name, "grant.clock") != 0)
        return;
    ck_assert(entry_is(granted, PHASE_WAITING));
    ck_assert_uint_eq(granted->window_ns, 0);
    point_hook = NULL;
}

TEST(a_waiters_window_has_ended_before_the_time_of_its_grant_is_stored)
{
    struct enq_grant g;
    uint64_t ticket;
    struct spot spot;

    begin();
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "waits", .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    granted = at_entry(e->map, first_of_a(&spot)->prev);
    shm_store(&granted->since_ns, 0); /* it has waited for long */
    point_hook = is_in_no_window;
    for (int i = 0; i < SHARED; i++)
        want(ENQ_OK, enq_unlock(e, held[i].handle, held[i].token));
    ck_assert_ptr_null(point_hook);
    enq_close(e);
}

int main(void)
{
    unit_begin("mend");
    ADD(a_latch_that_no_note_leads_to_is_found);
    ADD_LOOP(whoever_was_leaving_a_ring_is_in_it_again, SHARED);
    ADD(what_is_met_twice_is_looked_for_in_the_whole_table);
    ADD(what_has_become_anothers_in_another_bucket_is_left_alone);
    ADD(what_found_no_slot_beside_whoever_was_leaving_is_there_again);
    ADD_LOOP(where_a_chain_is_damaged_the_whole_table_is_looked_at, 2);
    ADD(what_was_moving_from_a_chain_to_a_slot_is_there_once);
    ADD(a_waiters_window_has_ended_before_the_time_of_its_grant_is_stored);
    return unit_end();
}
