/*
 * mutex.c - the floor: a bare process-shared robust mutex for each
 * key. It has no names, owners, modes, fairness, ttl or tokens: no lock table
 * can be faster, and the ratio to it says what these cost.
 */
#include "peers/peer.h"

#include <errno.h>
#include <pthread.h>
#include <sys/mman.h>

struct cell {
    _Alignas(64) pthread_mutex_t mutex;
};

struct arena {
    uint64_t cells; /* keys; one worker's random pairs use them all */
    struct cell cell[];
};

/* ROBUST_LIST_LIMIT in the kernel, less some for the C library. */
enum { INHERITED_MAX = 2000 };

static uint64_t cells_of(const struct trial *t)
{
    uint64_t n = t->held > t->procs ? t->held : t->procs;

    if (t->scenario->work == WORK_DEATH)
        return n;
    if (t->scenario->work == WORK_POOL)
        return n * POOL_KEYS;
    return strcmp(t->scenario->keys, "one") == 0 ? 1 : n;
}

static int cell_init(struct cell *c, int type)
{
    pthread_mutexattr_t attr;

    int rc = pthread_mutexattr_init(&attr);
    if (rc == 0)
        rc = pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutexattr_settype(&attr, type);
    if (rc == 0)
        rc = pthread_mutex_init(&c->mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return rc;
}

static size_t arena_bytes(uint64_t cells)
{
    return sizeof(struct arena) + cells * sizeof(struct cell);
}

static int arena_open(const struct trial *t, void **arena)
{
    bool recursive = t->scenario->work == WORK_CUMULATE;
    uint64_t cells = cells_of(t);
    struct arena *a = mmap(NULL, arena_bytes(cells), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    if (a == MAP_FAILED)
        return errno;
    a->cells = cells;
    *arena = a;
    int rc = 0;
    for (uint64_t i = 0; i < cells && rc == 0; i++)
        rc = cell_init(&a->cell[i],
            recursive ? PTHREAD_MUTEX_RECURSIVE : PTHREAD_MUTEX_NORMAL);
    return rc;
}

static void arena_close(const struct trial *t, void *arena)
{
    (void)t;
    munmap(arena, arena_bytes(((struct arena *)arena)->cells));
}

static int attach(struct seat *s)
{
    struct arena *a = s->arena;

    s->mine = &a->cell[s->index % a->cells].mutex;
    return 0;
}

static void detach(struct seat *s)
{
    s->mine = NULL;
}

static int mutex_failed(struct seat *s, int rc)
{
    return seat_fail(s, "pthread_mutex: %s", strerror(rc));
}

static int take(struct seat *s)
{
    int rc = pthread_mutex_lock(s->mine);

    return rc == 0 ? 0 : mutex_failed(s, rc);
}

static int give(struct seat *s)
{
    int rc = pthread_mutex_unlock(s->mine);

    return rc == 0 ? 0 : mutex_failed(s, rc);
}

/* Of the dead: it has to be declared sound again. */
static int take_inherited(struct seat *s)
{
    int rc = pthread_mutex_lock(s->mine);

    if (rc == EOWNERDEAD)
        rc = pthread_mutex_consistent(s->mine);
    return rc == 0 ? 0 : mutex_failed(s, rc);
}

static int hold_victim(struct seat *s)
{
    struct arena *a = s->arena;

    for (uint64_t i = 0; i < s->trial->held; i++) {
        s->mine = &a->cell[i].mutex;
        if (take_inherited(s) != 0)
            return -1;
    }
    return 0;
}

static const char *declines(const struct trial *t)
{
    if (t->scenario->work == WORK_DEATH && t->held > INHERITED_MAX)
        return "the kernel hands on no more than 2,048 of a dead thread's";
    return NULL;
}

static int pair_batch(struct seat *s, uint32_t n)
{
    pthread_mutex_t *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = pthread_mutex_lock(m);
        if (rc == 0)
            rc = pthread_mutex_unlock(m);
        if (rc != 0)
            return mutex_failed(s, rc);
    }
    return 0;
}

PEER_GUARDED(take_guarded, take)

static int fight_batch(struct seat *s, uint32_t n)
{
    pthread_mutex_t *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = pthread_mutex_lock(m);
        if (rc != 0)
            return mutex_failed(s, rc);
        guard_visit(s, 0);
        rc = pthread_mutex_unlock(m);
        if (rc != 0)
            return mutex_failed(s, rc);
    }
    return 0;
}

static int refuse_batch(struct seat *s, uint32_t n)
{
    pthread_mutex_t *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        int rc = pthread_mutex_trylock(m);
        if (rc != EBUSY)
            return mutex_failed(s, rc);
    }
    return 0;
}

static int refuse_once(struct seat *s)
{
    return refuse_batch(s, 1);
}

static int take_random(struct seat *s)
{
    struct arena *a = s->arena;

    s->mine = &a->cell[seat_random(s) % a->cells].mutex;
    return take(s);
}

static int random_batch(struct seat *s, uint32_t n)
{
    struct arena *a = s->arena;

    for (uint32_t i = 0; i < n; i++) {
        pthread_mutex_t *m = &a->cell[seat_random(s) % a->cells].mutex;
        int rc = pthread_mutex_lock(m);
        if (rc == 0)
            rc = pthread_mutex_unlock(m);
        if (rc != 0)
            return mutex_failed(s, rc);
    }
    return 0;
}

static int take_own(struct seat *s)
{
    struct arena *a = s->arena;

    s->mine = &a->cell[seat_own_key(s)].mutex;
    return take(s);
}

PEER_LOOP(pool_batch, take_own, give)

const struct subject subject_mutex = {
    .name = "robust-mutex",
    .what = "a process-shared robust mutex for each key",
    .floor = true,
    .declines = declines,
    SUBJECT_CALLS(arena_open, arena_close, attach, detach),
    .acts =
        {
            PEER_ACT_PAIR,
            PEER_ACT_FIGHT,
            PEER_ACT_CUMULATE,
            [WORK_REFUSE] = {.prepare = take,
                ACT_PAIRS(refuse_batch, refuse_once, NULL)},
            [WORK_DEATH] = {.acquire = take_inherited,
                .release = give,
                .hold = hold_victim},
            [WORK_RANDOM] = {ACT_PAIRS(random_batch, take_random, give)},
            PEER_ACT_POOL,
        },
};
