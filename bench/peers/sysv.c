/*
 * sysv.c - System V semaphores with SEM_UNDO: one for each key, in sets
 * of as many as the kernel allows. The undo list gives a dead process's locks
 * back. Shared locks they do not have.
 */
#include "peers/peer.h"

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
    if (peer_mine_new(s, sizeof(struct mine)) == NULL)
        return -1;
    choose(s, peer_number(s));
    return 0;
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

static int take(struct seat *s)
{
    return change(s, -1, 0) == 0 ? 0 : peer_failed(s, "semop to take");
}

static int give(struct seat *s)
{
    return change(s, 1, 0) == 0 ? 0 : peer_failed(s, "semop to give");
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)
PEER_RANDOM(take_random, choose, take)
PEER_LOOP(random_batch, take_random, give)

static int refuse_once(struct seat *s)
{
    if (change(s, -1, IPC_NOWAIT) != 0 && errno == EAGAIN)
        return 0;
    return peer_failed(s, "semop (to be refused)");
}

PEER_EACH(refuse_batch, refuse_once)

static int hold_many(struct seat *s)
{
    return peer_hold(s, 0, choose, take);
}

static int hold(struct seat *s)
{
    return peer_hold_victim(s, choose, take);
}

const struct subject subject_sysv = {
    .name = "sysv-sem",
    .what = "a System V semaphore with undo for each key",
    .declines = declines,
    SUBJECT_CALLS(arena_open, arena_close, attach, peer_mine_free),
    .acts = {PEER_ACT_PAIR, PEER_ACT_FIGHT,
        [WORK_REFUSE] = {.prepare = take,
            ACT_PAIRS(refuse_batch, refuse_once, NULL)},
        PEER_ACT_RANDOM, PEER_ACT_DEATH},
};
