/*
 * thread.c - floor 3: thread slots, taken and given back (see thread.h).
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
#include "sync/life.h"
#include "sync/word.h"

__thread struct thread *thread_last;
static __thread struct thread *threads; /* one for each map */
void (*thread_drop_magazines)(struct thread *t);

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/*
 * Free first, then unlocked: whoever dies in between leaves a free slot. The
 * registry lock keeps others from claiming it meanwhile. Without that lock
 * (our descriptor was closed by the application) the mutex must be unlocked
 * first, as it may not be left in our robust list.
 */
static void slot_free(struct map *map, struct thread_slot *slot)
{
    for (unsigned i = 0; i < COUNTERS; i++) {
        shm_add(&map->h->retired[i], slot->counts[i]);
        shm_store(&slot->counts[i], 0);
    }
    if (map_registry_lock(map) != 0) {
        life_end(&slot->life);
        shm_store_release(&slot->ref, 0);
        return;
    }
    shm_store_release(&slot->ref, 0);
    life_end(&slot->life);
    map_registry_unlock(map);
}

/* Its map is still there: a thread counts as one of the map's users. */
static void thread_free(struct thread *t)
{
    bool fresh;

    if (process_is(t->life)) {
        shm_load (&thread_drop_magazines)(t);
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

static void make_key(void)
{
    pthread_key_create(&key, on_thread_exit);
}

/* Life first, reference last: nobody ever sees a slot in use whose life word
   says neither lives nor died. A claimer that dies in between leaves a slot
   that is still free. */
static bool slot_claim(struct thread_slot *slot, uint32_t i)
{
    uint32_t generation = (slot->generation + 1) % THREAD_GENERATIONS;

    if (shm_load(&slot->ref) != 0 || life_begin(&slot->life) != 0)
        return false;
    if (generation == 0)
        generation = 1;
    slot->generation = generation;
    shm_store_release(&slot->ref, generation << SLOT_BITS | i);
    return true;
}

/* Under the registry lock. Faults: -EAGAIN, those of map_reserve(). */
static int slot_find(struct map *map, struct thread_slot **slot)
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
        if (slot_claim(&map->threads[i], i)) {
            *slot = &map->threads[i];
            return 0;
        }
    }
    return -EAGAIN;
}

static int explain(const struct map *map, int rc)
{
    if (rc == -EAGAIN)
        return why(rc, "%s has room for %u threads at once, and for no more",
            map->path, THREADS_MAX);
    return why(rc, "no room for a thread in %s: %s", map->path, strerror(-rc));
}

static int take_slot(struct map *map, struct thread_slot **slot)
{
    int rc = map_registry_lock(map);

    if (rc != 0)
        return rc;
    rc = slot_find(map, slot);
    map->users += rc == 0;
    map_registry_unlock(map);
    return rc == 0 ? 0 : explain(map, rc);
}

static struct thread *thread_new(struct map *map)
{
    struct thread *t = calloc(1, sizeof(*t));

    if (t == NULL) {
        why(-ENOMEM, "out of memory");
        return NULL;
    }
    if (take_slot(map, &t->slot) != 0) {
        free(t);
        return NULL;
    }
    t->map = map;
    t->ref = t->slot->ref;
    t->life = shm_load(process_page);
    t->slot->pid = (uint32_t)getpid();
    CDS_INIT_LIST_HEAD(&t->magazines);
    return t;
}

struct thread *thread_enter_slow(struct map *map)
{
    struct thread *t;

    thread_leave_idle();
    t = threads;
    while (t != NULL && (t->map != map || !process_is(t->life)))
        t = t->next;
    if (t == NULL) {
        pthread_once(&once, make_key);
        t = thread_new(map);
        if (t == NULL)
            return NULL;
        t->next = threads;
        threads = t;
        pthread_setspecific(key, threads);
    }
    thread_last = t;
    return t;
}

static void thread_drop(struct thread **link)
{
    struct thread *t = *link;

    *link = t->next;
    thread_last = NULL;
    pthread_setspecific(key, threads);
    thread_free(t);
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
