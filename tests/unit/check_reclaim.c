/*
 * check_reclaim.c - slots of the dead: taken by the next to come, also where
 * nobody is left to give them back; and kept while something needs them.
 */
#include "sync/reclaim.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/process.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "unit.h"

#define DEAD (FUTEX_OWNER_DIED | FUTEX_WAITERS)
#define FREE_BYTE (UINT64_C(1) << 62) /* of the file: its process has ended */

/* --- a space full of the dead --- */

static void die_as_thread(struct thread_slot *slot, uint32_t i)
{
    *(uint32_t *)&slot->life = DEAD;
    slot->generation = 1;
    slot->ref = 1u << THREAD_BITS | i;
}

static void die_as_session(struct session_slot *slot, uint32_t i)
{
    *(uint32_t *)&slot->life = DEAD;
    slot->generation = 1;
    slot->state = SESSION_LIVE;
    slot->process.lock_at = FREE_BYTE;
    slot->ref = 1u << SESSION_BITS | i;
}

/* Every slot but so many, which are free. */
static void fill_with_the_dead(uint32_t threads, uint32_t sessions)
{
    int fd = open(unit_space(), O_RDWR | O_CLOEXEC);
    char *base =
        mmap(NULL, SEG_FIXED_END, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    struct thread_slot *thread = (void *)(base + SEG_THREADS);
    struct session_slot *session = (void *)(base + SEG_SESSIONS);
    struct seg_header *h = (void *)base;

    ck_assert_ptr_ne(base, MAP_FAILED);
    for (uint32_t i = threads; i < THREADS_MAX; i++)
        if (thread[i].ref == 0)
            die_as_thread(&thread[i], i);
    for (uint32_t i = sessions; i < SESSIONS_MAX; i++)
        if (session[i].ref == 0)
            die_as_session(&session[i], i);
    h->threads_high = THREADS_MAX;
    h->sessions_high = SESSIONS_MAX;
    munmap(base, SEG_FIXED_END);
    close(fd);
}

static int leaves_a_lock(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "kept", .mode = ENQ_MODE_X, .ttl_ms = ENQ_FOREVER,
                .on_death = ENQ_DEATH_KEEP),
            &g));
    want(ENQ_OK, unit_lock(e, "gone", "f", ENQ_MODE_X, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

static const struct {
    uint32_t threads, sessions;
} left[] = {{0, 0}, {THREADS_MAX, 0}, {0, SESSIONS_MAX}, {1, 1}};

TEST(a_space_whose_slots_are_all_of_the_dead_can_be_used)
{
    struct enq_stats s = {.size = sizeof(s)};
    struct enq_grant g;
    struct enq *e;

    unit_killed(unit_fork(leaves_a_lock, NULL));
    fill_with_the_dead(left[_i].threads, left[_i].sessions);
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "gone", "f", ENQ_MODE_X, &g));
    want(ENQ_BUSY,
        enq_lock(e, ENQ_REQ(.name = "kept", .mode = ENQ_MODE_X), &g));
    do
        want(ENQ_OK, enq_stat(e, &s));
    while (s.sessions != 1 || s.threads != 2);
    unit_healthy(e);
    enq_close(e);
}

/* --- what is needed --- */

static struct map *map;

/* Without a helper thread, which would recover. */
static struct thread *attach(void)
{
    struct map_wish wish = {.existing = true};
    bool fresh;

    enq_close(unit_open());
    process_enter(&fresh);
    ck_assert_int_eq(map_attach(unit_space(), &wish, &map), 0);
    process_leave();
    map->attachments = 1;
    return thread_enter(map);
}

static void detach(void)
{
    bool fresh;

    thread_leave(map);
    process_enter(&fresh);
    map_put(map);
    process_leave();
}

static thread_ref_t one_dead(uint32_t i)
{
    die_as_thread(&map->threads[i], i);
    if (map->h->threads_high <= i)
        map->h->threads_high = i + 1;
    return map->threads[i].ref;
}

static bool is_free(uint32_t i)
{
    return map->threads[i].ref == 0;
}

TEST(who_lives_is_not_reclaimed)
{
    struct thread *me = attach();
    uint32_t mine = me->ref & THREAD_MASK;

    ck_assert_uint_eq(reclaim_threads(map), 0);
    ck_assert_uint_eq(map->threads[mine].ref, me->ref);
    for (uint32_t i = 10; i < 30; i++)
        one_dead(i);
    ck_assert_uint_eq(reclaim_threads(map), 20);
    ck_assert_uint_eq(map->threads[mine].ref, me->ref);
    for (uint32_t i = 10; i < 30; i++)
        ck_assert(is_free(i));
    detach();
}

/* Noted by the dead thread of that slot, as by any before it latches one. */
static uint32_t *bucket_latch(uint32_t slot, uint32_t shard, uint32_t number)
{
    map->threads[slot].inside = shard | (uint64_t)number << 8;
    return &at_bucket(map, shard, number)->latch;
}

TEST(whom_a_latch_names_is_kept_until_it_is_recovered)
{
    uint32_t *words[] = {NULL, NULL, NULL, NULL, NULL, NULL};

    attach();
    words[0] = &map->gates[GATES - 1].latch;
    words[1] = &map->shards[7].latch;
    words[2] = &map->shards[SHARDS_ALL - 1].latch;
    words[3] = &map->h->grow_latch;
    words[4] = &map->h->recovery_latch;
    for (uint32_t i = 0; i < LENGTH(words); i++)
        one_dead(10 + i);
    words[5] = bucket_latch(15, SHARDS - 1, BUCKETS_FIRST - 1);
    for (uint32_t i = 0; i < LENGTH(words); i++)
        *words[i] = map->threads[10 + i].ref | (i % 2 ? LATCH_WAITERS : 0);
    one_dead(9);
    *words[0] = 2u << THREAD_BITS | 10; /* another use of that slot */
    ck_assert_uint_eq(reclaim_threads(map), 2);
    ck_assert(is_free(9));
    ck_assert(is_free(10));
    for (uint32_t i = 1; i < LENGTH(words); i++) {
        ck_assert(!is_free(10 + i));
        *words[i] = 0;
        ck_assert_uint_eq(reclaim_threads(map), 1);
        ck_assert(is_free(10 + i));
    }
    detach();
}

TEST(who_has_not_noted_which_bucket_is_looked_for_in_all)
{
    uint32_t *latch;

    attach();
    latch = &at_bucket(map, 200, 3)->latch;
    *latch = one_dead(10);
    map->threads[10].inside = INSIDE_MANY;
    ck_assert_uint_eq(reclaim_threads(map), 0);
    *latch = 0;
    ck_assert_uint_eq(reclaim_threads(map), 1);
    detach();
}

TEST(who_was_splitting_a_bucket_is_kept_while_it_has_its_latch)
{
    uint32_t *latch;

    attach();
    latch = &at_bucket(map, 200, 3)->latch;
    *latch = one_dead(10);
    map->threads[10].inside = INSIDE_SPLIT(200);
    map->threads[10].splits = BUCKETS_FIRST + 3;
    ck_assert_uint_eq(reclaim_threads(map), 0);
    *latch = 0;
    ck_assert_uint_eq(reclaim_threads(map), 1);
    detach();
}

TEST(whose_journal_was_not_undone_is_kept)
{
    attach();
    one_dead(10);
    map->threads[10].set = 5;
    ck_assert_uint_eq(reclaim_threads(map), 0);
    map->threads[10].set = 0;
    ck_assert_uint_eq(reclaim_threads(map), 1);
    detach();
}

/* The second sign of a thread's death, see life.h. */
TEST(a_keeper_is_kept_while_one_is_left_that_it_kept)
{
    struct thread *me = attach();
    thread_ref_t keeper = one_dead(10);

    one_dead(11);
    one_dead(12);
    map->threads[11].keeper = keeper;
    map->threads[12].keeper = keeper;
    *bucket_latch(12, 3, 2) = map->threads[12].ref;
    ck_assert_uint_eq(reclaim_threads(map), 1);
    ck_assert(!is_free(10));
    ck_assert(is_free(11));
    ck_assert(!is_free(12));
    at_bucket(map, 3, 2)->latch = 0;
    ck_assert_uint_eq(reclaim_threads(map), 2);
    keeper = one_dead(10);
    me->slot->keeper = keeper; /* which lives on for a moment */
    ck_assert_uint_eq(reclaim_threads(map), 0);
    me->slot->keeper = 0;
    ck_assert_uint_eq(reclaim_threads(map), 1);
    detach();
}

/* What kept it for its last thread says nothing of the one that has it now. */
TEST(a_slot_that_is_used_again_is_not_kept_by_the_dead)
{
    struct thread *me = attach();
    thread_ref_t keeper = one_dead(10);
    struct thread_slot *slot = me->slot;

    thread_leave(map);
    ck_assert_uint_eq(slot->ref, 0);
    slot->keeper = keeper;
    slot->process.lock_at = FREE_BYTE;
    me = thread_enter(map);
    ck_assert_ptr_eq(me->slot, slot);
    ck_assert(!thread_is_dead(map, me->ref));
    ck_assert_uint_eq(slot->keeper, 0); /* this process has none */
    slot->keeper = keeper;              /* and if it had just died */
    ck_assert(!thread_is_dead(map, me->ref));
    detach();
}

/* --- two at once --- */

static thread_ref_t next_ref;

/* Another has given the slot up, and a third has it by now. */
static void another_is_quicker(const struct point *p)
{
    static unsigned passes;

    if (strcmp(p->name, "recover.slot_read") != 0 || ++passes != 3)
        return;
    point_hook = NULL;
    map->threads[10].ref = 0;
    map->threads[10].generation = 2;
    map->threads[10].ref = next_ref = 2u << THREAD_BITS | 10;
    *(uint32_t *)&map->threads[10].life = (uint32_t)gettid();
}

/* This thread's slot and the dead one's are read, then the dead one's again. */
TEST(a_slot_that_another_has_reclaimed_is_left_to_whoever_has_it_now)
{
    attach();
    one_dead(10);
    point_hook = another_is_quicker;
    ck_assert_uint_eq(reclaim_threads(map), 0);
    ck_assert_uint_ne(next_ref, 0);
    ck_assert_uint_eq(map->threads[10].ref, next_ref);
    detach();
}

int main(void)
{
    unit_begin("reclaim");
    if (!UNIT_TSAN)
        ADD_LOOP(a_space_whose_slots_are_all_of_the_dead_can_be_used,
            LENGTH(left));
    ADD(who_lives_is_not_reclaimed);
    ADD(whom_a_latch_names_is_kept_until_it_is_recovered);
    ADD(who_has_not_noted_which_bucket_is_looked_for_in_all);
    ADD(who_was_splitting_a_bucket_is_kept_while_it_has_its_latch);
    ADD(whose_journal_was_not_undone_is_kept);
    ADD(a_keeper_is_kept_while_one_is_left_that_it_kept);
    ADD(a_slot_that_is_used_again_is_not_kept_by_the_dead);
    ADD(a_slot_that_another_has_reclaimed_is_left_to_whoever_has_it_now);
    return unit_end();
}
