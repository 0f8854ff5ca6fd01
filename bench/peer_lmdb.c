/*
 * peer_lmdb.c - LMDB: beginning a write transaction and aborting it, as the
 * lock that many programs use it for. It is one lock for all keys, without a
 * refusal and without readers that would wait for it; inside is a robust
 * mutex, so that a dead writer is followed by the next.
 *
 * As fast as it gets: no write is synced (MDB_NOSYNC), pages are written in
 * the map (MDB_WRITEMAP: no copies to allocate), and all lies in memory.
 */
#include "peer.h"

#if __has_include(<lmdb.h>)

#include <errno.h>
#include <lmdb.h>
#include <stdlib.h>

struct mine {
    MDB_env *env;
    MDB_txn *txn;
};

static const char *declines(const struct trial *t)
{
    if (t->scenario->work == WORK_DEATH && t->held > 1)
        return "a process holds one lock at most";
    return NULL;
}

static int arena_open(const struct trial *t, void **arena)
{
    struct peer_dir *dir = calloc(1, sizeof(*dir));

    (void)t;
    if (dir == NULL)
        return ENOMEM;
    int rc = peer_dir_new(dir, "/dev/shm", "lmdb");
    if (rc == 0)
        *arena = dir;
    else
        free(dir);
    return rc;
}

static void arena_close(const struct trial *t, void *arena)
{
    (void)t;
    peer_dir_remove(arena);
    free(arena);
}

static int mdb_failed(struct seat *s, const char *call, int rc)
{
    return seat_fail(s, "%s: %s", call, mdb_strerror(rc));
}

static int attach(struct seat *s)
{
    const struct peer_dir *dir = s->arena;
    struct mine *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return seat_fail(s, "out of memory");
    s->mine = m;
    int rc = mdb_env_create(&m->env);
    if (rc == 0)
        rc = mdb_env_open(m->env, dir->path, MDB_NOSYNC | MDB_WRITEMAP, 0600);
    return rc == 0 ? 0 : mdb_failed(s, "mdb_env_open", rc);
}

static void detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m != NULL && m->env != NULL)
        mdb_env_close(m->env);
    free(m);
    s->mine = NULL;
}

static int take(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = mdb_txn_begin(m->env, NULL, 0, &m->txn);

    return rc == 0 ? 0 : mdb_failed(s, "mdb_txn_begin", rc);
}

static int give(struct seat *s)
{
    struct mine *m = s->mine;

    mdb_txn_abort(m->txn);
    return 0;
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

static int weigh_empty(struct seat *s)
{
    s->slot->bytes = (double)peer_dir_bytes(s->arena);
    return peer_time_attach(s, attach, detach);
}

const struct subject subject_lmdb = {
    .name = "lmdb",
    .what = "an LMDB write transaction, one lock for all keys",
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
            [WORK_ATTACH] = {.weigh = weigh_empty},
            [WORK_DEATH] = {.acquire = take, .release = give, .hold = take},
        },
};

#else

static const char *missing(void)
{
    return PEER_MISSING;
}

const struct subject subject_lmdb = {
    .name = "lmdb",
    .what = "an LMDB write transaction, one lock for all keys",
    .missing = missing,
};

#endif
