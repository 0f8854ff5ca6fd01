/*
 * bdb.c - Berkeley DB's lock subsystem: lock_get and lock_put in a
 * region that all processes map, a locker for each worker. The nearest thing
 * to libenq that exists: named objects, modes, no server.
 *
 * As an expert would set it up: the lock subsystem alone, its region in
 * memory (/dev/shm), handles of one thread each but where threads wait in a
 * queue, and room and hash buckets for all that will be held from the start.
 *
 * `bdb` has no deadlock detector that would run at each conflict, `bdb-detect`
 * has one, as libenq always searches. Who asks has the lowest priority in it,
 * and is the one that is rejected, as in libenq.
 */
#include "load/queue.h"
#include "peers/peer.h"

#if __has_include(<db.h>)

#include <db.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/statvfs.h>

/*
 * SPARE: locks beyond those that a trial wants held. Ten times the usual
 * number of partitions, and a cache line for each mutex, made two processes
 * on distinct keys 8 % faster on two processors, and no other case slower;
 * spinning longer (mutex_set_tas_spins) changed nothing.
 */
enum {
    SPARE = 1000,
    PARTITIONS = 200,
    MUTEX_ALIGN = 64,
    MUTEXES_EACH = 8, /* of a process */
    LOCK_BYTES_MAX = 500,
    FIXED_BYTES_MAX = 16 << 20,
    DETECT_MOST = 1000,
};

#define PLACE "/dev/shm"

struct mine {
    DB_ENV *env;
    u_int32_t locker;
    db_lockmode_t mode;
    DB_LOCK lock;
    uint64_t waited; /* requests, before those of the queue */
    struct peer_key key;
    DBT object;
};

/* Do threads wait, each a locker of its own, on one handle? */
static bool has_threads(const struct trial *t)
{
    return t->scenario->work == WORK_QUEUE || t->scenario->work == WORK_SEARCH;
}

static u_int32_t threads(const struct trial *t)
{
    return has_threads(t) ? (u_int32_t)t->count : 0;
}

/* A quarter more than is held, so that no partition has to ask another for
   more; where memory is measured, what is held and little more. */
static u_int32_t room(const struct trial *t)
{
    u_int32_t n = (u_int32_t)t->held + threads(t) + SPARE;

    return t->scenario->work == WORK_WEIGH ? n : n + n / 4;
}

/* A region that does not fit would end us by a SIGBUS. */
static const char *declines(const struct trial *t)
{
    struct statvfs fs;
    uint64_t need = (uint64_t)room(t) * LOCK_BYTES_MAX + FIXED_BYTES_MAX;

    if (statvfs(PLACE, &fs) == 0 && fs.f_bavail * fs.f_frsize < need)
        return "its region does not fit in " PLACE;
    return NULL;
}

/* 10,000 take minutes to leave the queue: a look at all for each. */
static const char *declines_detect(const struct trial *t)
{
    if (t->scenario->work == WORK_QUEUE && t->count > DETECT_MOST)
        return "its detector takes milliseconds for each hand-over";
    return declines(t);
}

/* Not in other trials: of which some weigh the region. */
static int make_room_for_many(DB_ENV *env, const struct trial *t)
{
    u_int32_t n = t->procs + threads(t);
    int rc = env->mutex_set_increment(env, MUTEXES_EACH * n);

    return rc == 0 ? env->set_memory_init(env, DB_MEM_LOCKER, n + SPARE) : rc;
}

static int configure(DB_ENV *env, const struct trial *t, u_int32_t detect)
{
    u_int32_t n = room(t);
    bool sparing = t->scenario->work == WORK_WEIGH;

    int rc = env->set_lk_partitions(env, PARTITIONS);
    if (rc == 0 && detect != DB_LOCK_NORUN)
        rc = env->set_lk_detect(env, detect);
    if (rc == 0)
        rc = env->mutex_set_align(env, MUTEX_ALIGN);
    if (rc == 0 && (t->scenario->work == WORK_POOL || has_threads(t)))
        rc = make_room_for_many(env, t);
    if (rc == 0)
        rc = env->set_lk_tablesize(env, sparing ? n : 2 * n);
    if (rc == 0)
        rc = env->set_memory_init(env, DB_MEM_LOCK, n);
    return rc == 0 ? env->set_memory_init(env, DB_MEM_LOCKOBJECT, n) : rc;
}

static int env_open(DB_ENV *env, const struct peer_dir *dir,
    const struct trial *t, u_int32_t flags)
{
    if (has_threads(t))
        flags |= DB_THREAD;
    return env->open(env, dir->path, flags, 0600);
}

/* A handle does not survive a fork: this one only makes the region. Berkeley
   DB's own results are negative, and are no errno. */
static int region_new(const struct peer_dir *dir, const struct trial *t,
    u_int32_t detect)
{
    DB_ENV *env;
    int rc = db_env_create(&env, 0);

    if (rc == 0) {
        rc = configure(env, t, detect);
        if (rc == 0)
            rc = env_open(env, dir, t, DB_CREATE | DB_INIT_LOCK);
        int closed = env->close(env, 0);
        rc = rc == 0 ? closed : rc;
    }
    return rc < 0 ? EIO : rc;
}

static int arena_new(const struct trial *t, void **arena, u_int32_t detect)
{
    int rc = peer_dir_open(arena, PLACE, "bdb");

    if (rc != 0)
        return rc;
    rc = region_new(*arena, t, detect);
    if (rc != 0)
        peer_dir_close(t, *arena);
    return rc;
}

static int arena_open(const struct trial *t, void **arena)
{
    return arena_new(t, arena, DB_LOCK_NORUN);
}

static int arena_open_detect(const struct trial *t, void **arena)
{
    bool later = t->scenario->work == WORK_SEARCH; /* when all wait */

    return arena_new(t, arena, later ? DB_LOCK_NORUN : DB_LOCK_DEFAULT);
}

static int db_failed(struct seat *s, const char *call, int rc)
{
    return seat_fail(s, "%s: %s", call, db_strerror(rc));
}

static int attach(struct seat *s)
{
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    int rc = db_env_create(&m->env, 0);
    if (rc == 0)
        rc = env_open(m->env, s->arena, s->trial, 0);
    if (rc == 0)
        rc = m->env->lock_id(m->env, &m->locker);
    if (rc != 0)
        return db_failed(s, "Berkeley DB's environment", rc);
    m->mode = s->trial->scenario->mode[0] == 'S' ? DB_LOCK_READ : DB_LOCK_WRITE;
    peer_key_init(&m->key, peer_number(s));
    m->object = (DBT){.data = m->key.text, .size = PEER_KEY_LEN};
    return 0;
}

/* What it still holds goes with the region. */
static void detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m != NULL && m->env != NULL)
        m->env->close(m->env, 0);
    peer_mine_free(s);
}

/* --- pairs --- */

static int take(struct seat *s)
{
    struct mine *m = s->mine;
    int rc =
        m->env->lock_get(m->env, m->locker, 0, &m->object, m->mode, &m->lock);

    return rc == 0 ? 0 : db_failed(s, "lock_get", rc);
}

static int give(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = m->env->lock_put(m->env, &m->lock);

    return rc == 0 ? 0 : db_failed(s, "lock_put", rc);
}

static void choose(struct seat *s, uint32_t key)
{
    struct mine *m = s->mine;

    peer_key_set(&m->key, key);
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)
PEER_OWN(take_own, choose, take)
PEER_LOOP(pool_batch, take_own, give)
PEER_RANDOM(take_random, choose, take)
PEER_LOOP(random_batch, take_random, give)

/* --- refused --- */

static int prepare_refused(struct seat *s)
{
    struct mine *m = s->mine;

    if (take(s) != 0)
        return -1;
    int rc = m->env->lock_id(m->env, &m->locker); /* somebody else */
    return rc == 0 ? 0 : db_failed(s, "lock_id", rc);
}

static int refuse_once(struct seat *s)
{
    struct mine *m = s->mine;
    int rc = m->env->lock_get(m->env, m->locker, DB_LOCK_NOWAIT, &m->object,
        m->mode, &m->lock);

    return rc == DB_LOCK_NOTGRANTED
        ? 0
        : db_failed(s, "lock_get (to be refused)", rc);
}

PEER_EACH(refuse_batch, refuse_once)

/* --- many held --- */

static int hold_many(struct seat *s)
{
    return peer_hold(s, 0, choose, take);
}

/* The whole region, with its hash table, for each lock that it has room for:
   only what is held is filled in, but all of it is allocated at the start. */
static int weigh(struct seat *s)
{
    if (hold_many(s) != 0)
        return -1;
    s->slot->bytes = (double)peer_dir_bytes(s->arena) / (double)room(s->trial);
    return 0;
}

static int weigh_empty(struct seat *s)
{
    s->slot->bytes = (double)peer_dir_bytes(s->arena);
    return peer_time_attach(s, attach, detach);
}

/* --- a queue --- */

static int queue_join(struct seat *s)
{
    const struct mine *of_all = s->mine;
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    *m = *of_all;
    m->object.data = m->key.text;
    int rc = m->env->lock_id(m->env, &m->locker);
    return rc == 0 ? 0 : db_failed(s, "lock_id", rc);
}

static void queue_leave(struct seat *s)
{
    struct mine *m = s->mine;

    m->env->lock_id_free(m->env, m->locker);
    peer_mine_free(s);
}

static int queue_waiting(struct seat *s, uint64_t *n)
{
    struct mine *m = s->mine;
    DB_LOCK_STAT *stat;
    int rc = m->env->lock_stat(m->env, &stat, 0);

    if (rc != 0)
        return db_failed(s, "lock_stat", rc);
    *n = stat->st_lock_wait - m->waited;
    free(stat);
    return 0;
}

static const struct queue_calls calls = {
    .join = queue_join,
    .take = take_guarded,
    .give = give,
    .leave = queue_leave,
    .waiting = queue_waiting,
};

/* Those that wait from now on are counted. */
static int take_first(struct seat *s)
{
    struct mine *m = s->mine;
    uint64_t waited;

    m->waited = 0;
    if (take(s) != 0 || queue_waiting(s, &waited) != 0)
        return -1;
    m->waited = waited;
    return 0;
}

PEER_QUEUE(calls, take_first, give)

/* --- a deadlock --- */

/* The first thread has what the worker will ask for. */
static int search_join(struct seat *s)
{
    if (queue_join(s) != 0)
        return -1;
    if (s->index > 0)
        return 0;
    choose(s, 1);
    int rc = take(s);
    choose(s, 0);
    return rc;
}

static int prepare_search(struct seat *s)
{
    static const struct queue_calls calls_search = {
        .join = search_join,
        .take = take_guarded,
        .give = give,
        .leave = queue_leave,
        .waiting = queue_waiting,
    };
    struct mine *m = s->mine;

    int rc = m->env->set_lk_priority(m->env, m->locker, 0);
    if (rc != 0)
        return db_failed(s, "set_lk_priority", rc);
    if (take(s) != 0 ||
        queue_fill(s, &calls_search, (unsigned)s->trial->count) != 0)
        return -1;
    choose(s, 1);
    rc = m->env->set_lk_detect(m->env, DB_LOCK_DEFAULT);
    return rc == 0 ? 0 : db_failed(s, "set_lk_detect", rc);
}

static int search_once(struct seat *s)
{
    struct mine *m = s->mine;
    DB_LOCK lock;
    int rc = m->env->lock_get(m->env, m->locker, 0, &m->object, m->mode, &lock);

    return rc == DB_LOCK_DEADLOCK
        ? 0
        : db_failed(s, "lock_get (that would deadlock)", rc);
}

PEER_EACH(search_batch, search_once)

#endif

const struct subject subject_bdb = {
    .name = "bdb",
    .what = "Berkeley DB's lock_get and lock_put in a shared region",
#if __has_include(<db.h>)
    .declines = declines,
    SUBJECT_CALLS(arena_open, peer_dir_close, attach, detach),
    .acts = {PEER_ACT_PAIR, PEER_ACT_FIGHT, PEER_ACT_CUMULATE, PEER_ACT_SHARE,
        PEER_ACT_REFUSE, PEER_ACT_RANDOM, PEER_ACT_MEMORY, PEER_ACT_POOL,
        PEER_ACT_QUEUE},
#else
    .missing = peer_missing,
#endif
};

const struct subject subject_bdb_detect = {
    .name = "bdb-detect",
    .what = "the same with its deadlock detector at each conflict",
#if __has_include(<db.h>)
    .declines = declines_detect,
    SUBJECT_CALLS(arena_open_detect, peer_dir_close, attach, detach),
    .acts = {PEER_ACT_QUEUE,
        [WORK_SEARCH] = {.prepare = prepare_search,
            ACT_PAIRS(search_batch, search_once, NULL),
            .base = refuse_batch}},
#else
    .missing = peer_missing,
#endif
};
