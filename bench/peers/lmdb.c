/*
 * lmdb.c - LMDB: beginning a write transaction and aborting it, as the
 * lock that many programs use it for. It is one lock for all keys, without a
 * refusal and without readers that would wait for it; inside is a robust
 * mutex, so that a dead writer is followed by the next.
 *
 * As fast as it gets: no write is synced (MDB_NOSYNC), pages are written in
 * the map (MDB_WRITEMAP: no copies to allocate), and all lies in memory.
 */
#include "peers/peer.h"

#if __has_include(<lmdb.h>)

#include <lmdb.h>

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
    (void)t;
    return peer_dir_open(arena, "/dev/shm", "lmdb");
}

static int mdb_failed(struct seat *s, const char *call, int rc)
{
    return seat_fail(s, "%s: %s", call, mdb_strerror(rc));
}

static int attach(struct seat *s)
{
    const struct peer_dir *dir = s->arena;
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
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
    peer_mine_free(s);
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

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)

static int weigh_empty(struct seat *s)
{
    s->slot->bytes = (double)peer_dir_bytes(s->arena);
    return peer_time_attach(s, attach, detach);
}

#endif

const struct subject subject_lmdb = {
    .name = "lmdb",
    .what = "an LMDB write transaction, one lock for all keys",
#if __has_include(<lmdb.h>)
    .declines = declines,
    SUBJECT_CALLS(arena_open, peer_dir_close, attach, detach),
    .acts =
        {
            PEER_ACT_PAIR,
            PEER_ACT_FIGHT,
            [WORK_ATTACH] = {.weigh = weigh_empty},
            [WORK_DEATH] = {.acquire = take, .release = give, .hold = take},
        },
#else
    .missing = peer_missing,
#endif
};
