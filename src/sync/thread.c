/*
 * thread.c - sync: thread slots, taken and given back (see thread.h).
 */
#include "sync/thread.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/process.h"
#include "base/why.h"
#include "segment/attach.h"
#include "sync/hooks.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "sync/reclaim.h"

__thread struct thread *thread_last;
__thread int thread_refusal;
static __thread struct thread *threads; /* one for each map */
struct hooks hooks;

static uint32_t key; /* the number of our pthread key, and one; 0: none yet */

/*
 * `ref` first, then the mutex: a death in between leaves a free slot, and the
 * registry lock keeps others from claiming it meanwhile. Without that lock
 * (the application has closed our descriptor) the mutex must be unlocked first:
 * once `ref` is 0 another thread may claim the slot and make the mutex anew,
 * which must not be in our robust list then. A death in between shows as an
 * unlocked mutex of a slot in use, which counts as dead (life.c: look).
 */
static void slot_free(struct map *map, struct thread_slot *slot)
{
    if (map_registry_lock(map) != 0) {
        life_end(&slot->life);
        shm_store_release(&slot->ref, 0);
        return;
    }
    shm_store_release(&slot->ref, 0);
    life_end(&slot->life);
    map_registry_unlock(map);
}

/* In this order: out of map->kept, so that thread_kept_by() does not write to a
   slot that is another's; the magazines, while we are still registered; the
   slot; and last the map, which was there so long as the thread was one of its
   users. In a child of fork all of that is the parent's. */
static void thread_free(struct thread *t)
{
    bool fresh;

    if (process_is(t->life)) {
        process_enter(&fresh); /* before the slot may be another's */
        cds_list_del(&t->of_map);
        process_leave();
        hooks.drop_magazines(t);
        slot_free(t->map, t->slot);
        process_enter(&fresh);
        map_put(t->map);
        process_leave();
    }
    free(t);
}

static void on_thread_exit(void *list)
{
    struct thread *t = list, *next;

    thread_last = NULL;
    threads = NULL;
    for (; t != NULL; t = next) {
        next = t->next;
        thread_free(t);
    }
}

/* Makes our pthread key once, by a swap. Not under a mutex, which the child of
   a fork might inherit locked; and not by pthread_once(): a key that could not
   be had now may be had later. */
static int have_key(void)
{
    uint32_t none = 0;
    pthread_key_t made;
    int rc;

    if (shm_load_acquire(&key) != 0)
        return 0;
    rc = pthread_key_create(&made, on_thread_exit);
    if (rc != 0)
        return why(-EAGAIN, "no key for thread-specific data is left: %s",
            strerror(rc));
    if (!shm_cas(&key, &none, made + 1))
        pthread_key_delete(made); /* another thread was quicker */
    return 0;
}

/* Adds up what the slot's last thread had counted. Here and not when that
   thread ends, as it may be killed. Under the registry lock: once only. */
static void retire_counts(struct map *map, struct thread_slot *slot)
{
    for (unsigned i = 0; i < COUNTERS; i++) {
        shm_add(&map->h->retired[i], slot->counts[i]);
        shm_store(&slot->counts[i], 0);
    }
}

/* The liveness mutex first, `ref` last (release; partners: look() in life.c,
   and all that read the slot's other fields): nobody ever sees a slot in use
   whose liveness word says neither lives nor died. A claimer that dies in
   between leaves a slot that is still free. */
static int slot_claim(struct map *map, uint32_t i)
{
    struct thread_slot *slot = &map->threads[i];
    uint32_t generation = (slot->generation + 1) % THREAD_GENERATIONS;
    int rc = life_begin(&slot->life);

    if (rc != 0)
        return rc;
    if (generation == 0)
        generation = 1;
    retire_counts(map, slot);
    shm_store(&slot->generation, generation);
    shm_store(&slot->keeper, shm_load(&map->keeper));
    life_of(map, &slot->process);
    shm_store(&slot->waiting, 0);
    shm_store(&slot->set, 0);
    shm_store(&slot->inside, INSIDE_NONE);
    shm_store(&slot->in_hand, 0);
    for (unsigned k = 0; k < TELLING_FEW; k++)
        shm_store(&slot->telling[k], 0);
    shm_store_release(&slot->ref, generation << THREAD_BITS | i);
    return 0;
}

/* Claims the first free slot, also one never used, which gets memory first.
   Faults: -EAGAIN: all are taken; those of map_reserve(). */
static int slot_find_free(struct map *map, struct thread_slot **slot)
{
    int rc;

    for (uint32_t i = 0; i < THREADS_MAX; i++) {
        uint64_t at = SEG_THREADS + i * sizeof(struct thread_slot);

        if (i >= map->h->threads_high) {
            rc = map_reserve(map, at, sizeof(struct thread_slot));
            if (rc != 0)
                return rc;
            shm_store_release(&map->h->threads_high, i + 1);
        }
        *slot = &map->threads[i];
        if (shm_load(&(*slot)->ref) == 0)
            return slot_claim(map, i);
    }
    return -EAGAIN;
}

/* Where all slots are taken, or there is no memory for one more, those of dead
   threads are freed first. No other thread may be left to do it; this thread
   cannot recover, as it has no slot for a latch. Under the registry lock. */
static int slot_find(struct map *map, struct thread_slot **slot)
{
    int rc = slot_find_free(map, slot);

    if (rc != 0 && reclaim_threads(map) > 0)
        rc = slot_find_free(map, slot);
    return rc;
}

static int explain(const struct map *map, int rc)
{
    if (rc == -EAGAIN)
        return why(rc, "%s is full: it has room for %u threads", map->path,
            THREADS_MAX);
    return why(rc, "no room for a thread in %s: %s", map->path, strerror(-rc));
}

/* With the slot comes one use of the map, in the same step: see map_put(). */
static int take_slot(struct map *map, struct thread *t)
{
    int rc = map_registry_lock(map);

    if (rc != 0)
        return rc;
    rc = slot_find(map, &t->slot);
    if (rc == 0) {
        t->ref = t->slot->ref;
        cds_list_add(&t->of_map, &map->kept);
        map->users++;
    }
    map_registry_unlock(map);
    return rc == 0 ? 0 : explain(map, rc);
}

static int thread_new(struct map *map, struct thread **out)
{
    struct thread *t = calloc(1, sizeof(*t));
    int rc;

    if (t == NULL)
        return why(-ENOMEM, "out of memory");
    rc = take_slot(map, t);
    if (rc != 0) {
        free(t);
        return rc;
    }
    t->map = map;
    t->life = process_life();
    CDS_INIT_LIST_HEAD(&t->magazines);
    *out = t;
    return 0;
}

static void thread_drop(struct thread **link)
{
    struct thread *t = *link;

    *link = t->next;
    thread_last = NULL;
    pthread_setspecific(shm_once(key) - 1, threads);
    thread_free(t);
}

/* Into this thread's list, which the key's destructor frees when the thread
   ends. */
static int thread_keep(struct thread *t)
{
    struct thread *before = threads;

    if (pthread_setspecific(shm_once(key) - 1, t) != 0) {
        thread_free(t);
        return why(-ENOMEM, "out of memory");
    }
    t->next = before;
    threads = t;
    return 0;
}

static int thread_make(struct map *map, struct thread **out)
{
    int rc = have_key();

    if (rc == 0)
        rc = life_possible();
    if (rc == 0)
        rc = thread_new(map, out);
    if (rc == 0)
        rc = thread_keep(*out);
    return rc;
}

/* Finds this thread in another map than the last, or registers it. Entries of
   another life are a parent's, seen in a child of fork. */
struct thread *thread_enter_slow(struct map *map)
{
    struct thread *t;

    thread_leave_idle();
    t = threads;
    while (t != NULL && (t->map != map || !process_is(t->life)))
        t = t->next;
    if (t == NULL) {
        thread_refusal = thread_make(map, &t);
        if (thread_refusal != 0)
            return NULL;
    }
    thread_last = t;
    return t;
}

void thread_kept_by(struct map *map, thread_ref_t keeper)
{
    struct thread *t;
    bool fresh;

    process_enter(&fresh);
    map->keeper = keeper;
    cds_list_for_each_entry (t, &map->kept, of_map)
        if (t->ref != keeper)
            shm_store(&t->slot->keeper, keeper);
    process_leave();
}

void thread_leave(struct map *map)
{
    struct thread **link = &threads;

    while (*link != NULL && ((*link)->map != map || !process_is((*link)->life)))
        link = &(*link)->next;
    if (*link != NULL)
        thread_drop(link);
}

void thread_leave_idle(void)
{
    struct thread **link = &threads;

    while (*link != NULL) {
        if (process_is((*link)->life) &&
            shm_load(&(*link)->map->attachments) == 0)
            thread_drop(link);
        else
            link = &(*link)->next;
    }
}
