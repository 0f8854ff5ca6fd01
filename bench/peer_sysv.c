/*
 * peer_sysv.c - System V semaphores with SEM_UNDO: one for each key, in sets
 * of as many as the kernel allows. The undo list gives a dead process's locks
 * back. Shared locks they do not have.
 */
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sem.h>

/* SEMMSL is 32,000 by default; the kernel's own limit of sets in a system
   (SEMMNI, 32,000) is far away. */
enum { SET_MAX = 32000, SETS_MAX = 64 };

struct arena {
    unsigned sets;
    int id[SETS_MAX];
    pid_t janitor; /* the kernel would keep the sets for ever */
};

struct mine {
    int id;
    unsigned short index;
};

union semun {
    int val;
    unsigned short *array;
};

/* The held and as many free ones, as in every subject. */
static uint64_t keys_of(const struct trial *t)
{
    if (t->held > 0)
        return 2 * t->held;
    return peer_one_key(t) ? 1 : t->procs;
}

static const char *declines(const struct trial *t)
{
    return keys_of(t) <= (uint64_t)SET_MAX * SETS_MAX
        ? NULL
        : "so many semaphores do not fit the usual limits";
}

static int set_new(struct arena *a, int n)
{
    static unsigned short ones[SET_MAX];

    int id = semget(IPC_PRIVATE, n, 0600);
    if (id < 0)
        return errno;
    a->id[a->sets++] = id;
    for (int i = 0; i < n; i++)
        ones[i] = 1;
    return semctl(id, 0, SETALL, (union semun){.array = ones}) == 0 ? 0 : errno;
}

static void sets_remove(void *arena)
{
    struct arena *a = arena;

    while (a->sets > 0)
        semctl(a->id[--a->sets], 0, IPC_RMID);
}

static int arena_open(const struct trial *t, void **arena)
{
    struct arena *a = calloc(1, sizeof(*a));
    int rc = 0;

    if (a == NULL)
        return ENOMEM;
    for (uint64_t left = keys_of(t); left > 0 && rc == 0;) {
        int n = left < SET_MAX ? (int)left : SET_MAX;
        rc = set_new(a, n);
        left -= (uint64_t)n;
    }
    if (rc != 0) {
        sets_remove(a);
        free(a);
        return rc;
    }
    a->janitor = peer_safe(sets_remove, a);
    *arena = a;
    return 0;
}

static void arena_close(const struct trial *t, void *arena)
{
    struct arena *a = arena;

    (void)t;
    peer_safe_end(a->janitor);
    sets_remove(a);
    free(a);
}

static void choose(struct seat *s, uint32_t key)
{
    const struct arena *a = s->arena;
    struct mine *m = s->mine;

    m->id = a->id[key / SET_MAX];
    m->index = (unsigned short)(key % SET_MAX);
}

static int attach(struct seat *s)
{
    s->mine = calloc(1, sizeof(struct mine));
    if (s->mine == NULL)
        return seat_fail(s, "out of memory");
    choose(s, peer_number(s));
    return 0;
}

static void detach(struct seat *s)
{
    free(s->mine);
    s->mine = NULL;
}

static int change(const struct seat *s, short by, short flags)
{
    const struct mine *m = s->mine;
    struct sembuf op = {
        .sem_num = m->index,
        .sem_op = by,
        .sem_flg = (short)(SEM_UNDO | flags),
    };

    return semop(m->id, &op, 1);
}

static int sem_failed(struct seat *s, const char *call)
{
    return seat_fail(s, "%s: %s", call, strerror(errno));
}

static int take(struct seat *s)
{
    return change(s, -1, 0) == 0 ? 0 : sem_failed(s, "semop to take");
}

static int give(struct seat *s)
{
    return change(s, 1, 0) == 0 ? 0 : sem_failed(s, "semop to give");
}

static int pair_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take, give);
}

static int take_guarded(struct seat *s)
{
    int rc = take(s);

    if (rc == 0)
        guard_visit(s, 0);
    return rc;
}

static int fight_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take_guarded, give);
}

static int refuse_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (change(s, -1, IPC_NOWAIT) == 0 || errno != EAGAIN)
            return sem_failed(s, "semop (to be refused)");
    return 0;
}

static int refuse_once(struct seat *s)
{
    return refuse_batch(s, 1);
}

static int hold_from(struct seat *s, uint32_t first)
{
    for (uint32_t key = first; key < s->trial->held; key++) {
        choose(s, key);
        if (take(s) != 0)
            return -1;
    }
    return 0;
}

static int hold_many(struct seat *s)
{
    return hold_from(s, 0);
}

static int hold(struct seat *s)
{
    if (hold_from(s, 1) != 0)
        return -1;
    choose(s, 0);
    return take(s);
}

static int take_random(struct seat *s)
{
    choose(s, peer_random(s));
    return take(s);
}

static int random_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take_random, give);
}

const struct subject subject_sysv = {
    .name = "sysv-sem",
    .what = "a System V semaphore with undo for each key",
    .declines = declines,
    .open = arena_open,
    .close = arena_close,
    .attach = attach,
    .detach = detach,
    .acts =
        {
            [WORK_PAIR] = {.batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_FIGHT] = {.batch = fight_batch,
                .acquire = take_guarded,
                .release = give},
            [WORK_REFUSE] = {.prepare = take,
                .batch = refuse_batch,
                .acquire = refuse_once},
            [WORK_RANDOM] = {.prepare = hold_many,
                .batch = random_batch,
                .acquire = take_random,
                .release = give},
            [WORK_DEATH] = {.acquire = take, .release = give, .hold = hold},
        },
};
