/*
 * redis.c - Redis as a lock server, over a unix socket: SET key token NX
 * PX, and a script that deletes the key if it still has our token (EVALSHA),
 * as its lock libraries do.
 *
 * A waiter polls, since Redis has no queue: it tries again each 100 ms,
 * the default of redis-py's Lock; the defaults of other libraries lie around
 * it. One that tries again at once gets the lock sooner, and costs the server a
 * request each time. Where many wait and each hand-over counts, the lock is the
 * one element of a list instead: BLPOP takes it, or waits in the order of
 * arrival, and RPUSH gives it back. Nothing ends it when its holder dies.
 *
 * The server is our own, on a socket in a directory of its own, without a
 * port and without persistence; it is not pinned, the scheduler knows better.
 * Its limits are those of one round trip for each of lock and unlock: threads
 * of the server or pipelining do not help a client that needs the answer.
 */
#include "load/load.h"
#include "load/queue.h"
#include "peers/peer.h"

#if __has_include(<hiredis/hiredis.h>)

#include <errno.h>
#include <hiredis/hiredis.h>
#include <inttypes.h>
#include <stdlib.h>
#include <time.h>

#define SERVER "redis-server"

enum {
    POLL_MS = 100,
    SLICE_MS = 5,
    CLIENTS = 10000, /* its own default; and those that wait */
    PIPELINE = 1000, /* requests under way while many locks are taken */
    TOKEN_BYTES = 24,
    SHA_BYTES = 41,
};

struct arena {
    struct peer_server own;
    char socket[PEER_DIR_BYTES + 8];
};

struct mine {
    redisContext *link;
    struct load *load;
    struct peer_key key;
    char token[TOKEN_BYTES], sha[SHA_BYTES];
    uint64_t grants;
};

/* --- the server --- */

static const char *missing(void)
{
    return server_in_path(SERVER) ? NULL : SUBJECT_MISSING;
}

static void pause_ms(int ms)
{
    struct timespec t = {.tv_nsec = ms * 1000000L};

    nanosleep(&t, NULL);
}

static bool answers(const void *arena)
{
    const struct arena *a = arena;
    redisContext *link = redisConnectUnix(a->socket);
    redisReply *reply = NULL;

    if (link != NULL && link->err == 0)
        reply = redisCommand(link, "PING");
    bool well = reply != NULL && reply->type == REDIS_REPLY_STATUS;
    if (reply != NULL)
        freeReplyObject(reply);
    if (link != NULL)
        redisFree(link);
    return well;
}

static int begin(void *arena, const struct trial *t)
{
    struct arena *a = arena;
    struct server *server = &a->own.server;
    char most[16];
    char *argv[] = {SERVER, "--port", server->port, "--bind", SERVER_HOST,
        "--unixsocket", a->socket, "--unixsocketperm", "700", "--dir",
        a->own.dir.path, "--save", "", "--appendonly", "no", "--daemonize",
        "no", "--maxclients", most, NULL};
    int rc = 0;

    snprintf(most, sizeof(most), "%u", CLIENTS + (unsigned)t->count);

    snprintf(a->socket, sizeof(a->socket), "%s/socket", a->own.dir.path);
    snprintf(server->path, sizeof(server->path), "%s", a->socket);
    strcpy(server->port, "0");
    if (t->scenario->work == WORK_REMOTE)
        rc = server_pick_port(server);
    return rc == 0 ? server_start(server, argv, answers, a) : rc;
}

static int arena_open(const struct trial *t, void **arena)
{
    return peer_server_open(t, arena, sizeof(struct arena), "redis", begin);
}

/* --- a client --- */

static int redis_failed(struct seat *s, const char *call, redisReply *reply)
{
    const struct mine *m = s->mine;
    const char *why = m->link == NULL ? "out of memory"
        : m->link->err != 0           ? m->link->errstr
        : reply == NULL               ? "no answer"
        : reply->str != NULL          ? reply->str
                                      : "an unexpected answer";

    seat_fail(s, "redis, %s: %s", call, why);
    if (reply != NULL)
        freeReplyObject(reply);
    return -1;
}

static redisReply *ask(struct seat *s, int argc, const char **argv)
{
    const struct mine *m = s->mine;

    return redisCommandArgv(m->link, argc, argv, NULL);
}

static int connect_server(struct seat *s)
{
    const struct arena *a = s->arena;
    struct mine *m = s->mine;

    m->link = redisConnectUnix(a->socket);
    while (m->link != NULL && m->link->err == REDIS_ERR_IO && errno == EAGAIN) {
        redisFree(m->link); /* too many come at once */
        pause_ms(1);
        m->link = redisConnectUnix(a->socket);
    }
    return m->link == NULL || m->link->err != 0
        ? redis_failed(s, "connect", NULL)
        : 0;
}

static int load_script(struct seat *s)
{
    static const char script[] = "if redis.call('get', KEYS[1]) == ARGV[1] "
                                 "then return redis.call('del', KEYS[1]) "
                                 "else return 0 end";
    const char *load[] = {"SCRIPT", "LOAD", script};
    struct mine *m = s->mine;
    redisReply *reply = ask(s, 3, load);

    if (reply == NULL || reply->type != REDIS_REPLY_STRING)
        return redis_failed(s, "SCRIPT LOAD", reply);
    snprintf(m->sha, sizeof(m->sha), "%s", reply->str);
    freeReplyObject(reply);
    return 0;
}

static int attach(struct seat *s)
{
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    peer_key_init(&m->key, peer_number(s));
    return connect_server(s) == 0 ? load_script(s) : -1;
}

static void detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m != NULL)
        load_free(m->load);
    if (m != NULL && m->link != NULL)
        redisFree(m->link);
    peer_mine_free(s);
}

/* --- lock and unlock --- */

/* A token of this grant alone. Libraries take a random one: this is cheaper,
   in favour of Redis. */
static void token_new(struct seat *s)
{
    struct mine *m = s->mine;

    snprintf(m->token, sizeof(m->token), "%u-%" PRIu64, s->index, ++m->grants);
}

#define LOCK_ARGS(m)                                                           \
    {                                                                          \
        "SET", (m)->key.text, (m)->token, "NX", "PX", "900000"                 \
    }

/* Returns 1: taken, 0: held by another, -1: failed. */
static int set_nx(struct seat *s)
{
    struct mine *m = s->mine;
    const char *argv[] = LOCK_ARGS(m);

    redisReply *reply = ask(s, 6, argv);
    if (reply == NULL ||
        (reply->type != REDIS_REPLY_STATUS && reply->type != REDIS_REPLY_NIL))
        return redis_failed(s, "SET NX PX", reply);
    int taken = reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return taken;
}

static int take(struct seat *s)
{
    token_new(s);
    for (;;) {
        int rc = set_nx(s);
        if (rc != 0)
            return rc == 1 ? 0 : -1;
        pause_ms(POLL_MS);
    }
}

static int give(struct seat *s)
{
    struct mine *m = s->mine;
    const char *argv[] = {"EVALSHA", m->sha, "1", m->key.text, m->token};

    redisReply *reply = ask(s, 5, argv);
    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER ||
        reply->integer != 1)
        return redis_failed(s, "EVALSHA to release", reply);
    freeReplyObject(reply);
    return 0;
}

static void choose(struct seat *s, uint32_t key)
{
    struct mine *m = s->mine;

    peer_key_set(&m->key, key);
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_RANDOM(take_random, choose, take)
PEER_LOOP(random_batch, take_random, give)

/* Sleeps until the next poll; in slices, to see the end of the pass. */
static bool pass_over(const struct seat *s)
{
    for (int ms = 0; ms < POLL_MS; ms += SLICE_MS) {
        if (atomic_load_explicit(s->stop, memory_order_relaxed) != 0)
            return true;
        pause_ms(SLICE_MS);
    }
    return false;
}

/* Returns 1, 0 when the pass was over first, or -1. */
static int take_in_pass(struct seat *s)
{
    int rc;

    token_new(s);
    do
        rc = set_nx(s);
    while (rc == 0 && !pass_over(s));
    return rc;
}

/* Those that still wait at the end of a pass give up: else the pass would last
   some sleeps longer, in which nobody else works, and the rate would suffer.
   The caller counts the whole batch: what was not made comes off again. */
static int fight_batch(struct seat *s, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        int rc = take_in_pass(s);
        if (rc == 0)
            s->slot->pairs -= n - i;
        if (rc != 1)
            return rc;
        guard_visit(s, 0);
        if (give(s) != 0)
            return -1;
    }
    return 0;
}

/* --- refused, valid --- */

static int prepare_refused(struct seat *s)
{
    if (take(s) != 0)
        return -1;
    token_new(s);
    return 0;
}

static int refuse_once(struct seat *s)
{
    int rc = set_nx(s);

    return rc == 1 ? seat_fail(s, "redis: the held key was free") : rc;
}

PEER_EACH(refuse_batch, refuse_once)

static int valid_once(struct seat *s)
{
    struct mine *m = s->mine;
    const char *argv[] = {"GET", m->key.text};

    redisReply *reply = ask(s, 2, argv);
    if (reply == NULL || reply->type != REDIS_REPLY_STRING ||
        strcmp(reply->str, m->token) != 0)
        return redis_failed(s, "GET of our token", reply);
    freeReplyObject(reply);
    return 0;
}

PEER_EACH(valid_batch, valid_once)

/* --- many held --- */

static int collect(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(m->link, (void **)&reply) != REDIS_OK ||
            reply->type != REDIS_REPLY_STATUS)
            return redis_failed(s, "SET of many", reply);
        freeReplyObject(reply);
    }
    return 0;
}

static int hold_many(struct seat *s)
{
    struct mine *m = s->mine;
    const char *argv[] = LOCK_ARGS(m);
    uint32_t asked = 0;

    for (uint64_t i = 0; i < s->trial->held; i++) {
        choose(s, (uint32_t)i);
        token_new(s);
        if (redisAppendCommandArgv(m->link, 6, argv, NULL) != REDIS_OK)
            return redis_failed(s, "SET of many", NULL);
        if (++asked < PIPELINE)
            continue;
        if (collect(s, asked) != 0)
            return -1;
        asked = 0;
    }
    return collect(s, asked);
}

/* A number of what the server says about itself. */
static int info(struct seat *s, const char *section, const char *name,
    uint64_t *value)
{
    const char *argv[] = {"INFO", section};
    redisReply *reply = ask(s, 2, argv);
    const char *line = NULL;

    if (reply != NULL && reply->type == REDIS_REPLY_STRING)
        line = strstr(reply->str, name);
    if (line == NULL)
        return redis_failed(s, "INFO", reply);
    *value = strtoull(line + strlen(name), NULL, 10);
    freeReplyObject(reply);
    return 0;
}

/* What its allocator has given out. */
static int used_memory(struct seat *s, uint64_t *bytes)
{
    return info(s, "memory", "used_memory:", bytes);
}

static int weigh(struct seat *s)
{
    uint64_t before = 0, after = 0, n = s->trial->held > 0 ? s->trial->held : 1;

    if (used_memory(s, &before) != 0 || hold_many(s) != 0 ||
        used_memory(s, &after) != 0)
        return -1;
    s->slot->bytes = (double)(after - before) / (double)n;
    return 0;
}

static int weigh_empty(struct seat *s)
{
    uint64_t bytes = 0;

    if (used_memory(s, &bytes) != 0)
        return -1;
    s->slot->bytes = (double)bytes;
    return peer_time_attach(s, attach, detach);
}

/* --- many connections --- */

static int prepare_remote(struct seat *s, struct load_dialect d)
{
    const struct arena *a = s->arena;
    struct mine *m = s->mine;

    m->load = load_new(s, &a->own.server, &d);
    return m->load == NULL ? -1 : 0;
}

static int prepare_safe(struct seat *s)
{
    const struct mine *m = s->mine;

    return prepare_remote(s, load_redis_safe(m->sha));
}

static int prepare_del(struct seat *s)
{
    return prepare_remote(s, load_redis_del());
}

static int remote_batch(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;

    (void)n;
    return load_run(s, m->load);
}

/* --- a queue --- */

static int token_push(struct seat *s)
{
    const struct mine *m = s->mine;
    const char *argv[] = {"RPUSH", m->key.text, "free"};
    redisReply *reply = ask(s, 3, argv);

    if (reply == NULL || reply->type != REDIS_REPLY_INTEGER)
        return redis_failed(s, "RPUSH", reply);
    freeReplyObject(reply);
    return 0;
}

static int token_pop(struct seat *s)
{
    const struct mine *m = s->mine;
    const char *argv[] = {"BLPOP", m->key.text, "0"};
    redisReply *reply = ask(s, 3, argv);

    if (reply == NULL || reply->type != REDIS_REPLY_ARRAY)
        return redis_failed(s, "BLPOP", reply);
    freeReplyObject(reply);
    return 0;
}

PEER_GUARDED(token_pop_guarded, token_pop)

static int queue_join(struct seat *s)
{
    const struct mine *of_all = s->mine;
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    m->key = of_all->key;
    return connect_server(s);
}

static int queue_waiting(struct seat *s, uint64_t *n)
{
    return info(s, "clients", "blocked_clients:", n);
}

static int queue_prepare(struct seat *s)
{
    server_raise_files();
    return token_push(s);
}

static const struct queue_calls calls = {
    .join = queue_join,
    .take = token_pop_guarded,
    .give = token_push,
    .leave = detach,
    .waiting = queue_waiting,
};

PEER_QUEUE(calls, token_pop, token_push)

static const char *declines(const struct trial *t)
{
    return t->scenario->work == WORK_QUEUE ? server_few_files(t->count) : NULL;
}

/* What both subjects have, there or not. */
#define BOTH                                                                   \
    .missing = missing, .open = arena_open, .close = peer_server_close,        \
    .attach = attach, .detach = detach

#else

#define BOTH .missing = peer_missing

#endif

const struct subject subject_redis_del = {
    .name = "redis-del",
    .what = "Redis, SET NX PX and DEL, whoever has the key by then, over TCP "
            "or a unix socket",
    BOTH,
#if __has_include(<hiredis/hiredis.h>)
    .acts = {[WORK_REMOTE] = {.prepare = prepare_del, .batch = remote_batch}},
#endif
};

const struct subject subject_redis = {
    .name = "redis",
    .what = "Redis, SET NX PX and a script to release, over a unix socket, or "
            "TCP; BLPOP of a token where many wait",
    BOTH,
#if __has_include(<hiredis/hiredis.h>)
    .declines = declines,
    .acts =
        {
            PEER_ACT_PAIR,
            PEER_ACT_FIGHT,
            PEER_ACT_REFUSE,
            [WORK_VALID] = {.prepare = take,
                ACT_PAIRS(valid_batch, valid_once, NULL)},
            PEER_ACT_RANDOM,
            PEER_ACT_MEMORY,
            [WORK_REMOTE] = {.prepare = prepare_safe, .batch = remote_batch},
            [WORK_QUEUE] = {.prepare = queue_prepare,
                .arrange = queue_arrange,
                .aside = hand_over},
        },
#endif
};
