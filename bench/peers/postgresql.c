/*
 * postgresql.c - PostgreSQL's advisory locks, over a unix socket: prepared
 * statements, a backend for each client. It searches for a deadlock when
 * somebody has waited for deadlock_timeout: who is to be refused for one waits
 * for 1 ms, the least there is, and nobody else searches meanwhile.
 *
 * The server is our own, without a port, with its files in a directory of its
 * own. It refuses to run as root: then it runs as the user of Debian's package.
 */
#include "load/queue.h"
#include "peers/peer.h"

#if __has_include(<postgresql/libpq-fe.h>)

#include <glob.h>
#include <postgresql/libpq-fe.h>
#include <stdlib.h>

#define BINARIES "/usr/lib/postgresql/*/bin"

enum { SPARE = 20, BACKENDS_MOST = 1000, HELD_MOST = 1000 };

struct arena {
    struct peer_server own;
    char place[PEER_DIR_BYTES + 64];
};

struct mine {
    PGconn *link;
    char key[16];
    uint64_t answer; /* the number that came last */
};

/* --- the server --- */

/* SIGQUIT ends it at once, with nothing left; also when we are killed. */
static const char script[] =
    "as=; if [ $(id -u) = 0 ]; then chown postgres \"$1\" && "
    "as='--reuid postgres --regid postgres --clear-groups'; fi && cd \"$1\" && "
    "for d in " BINARIES "; do PATH=$PATH:$d; done && setpriv $as "
    "initdb -D . -U enq -A trust --no-sync --no-locale && "
    "exec setpriv $as --pdeathsig QUIT postgres -D \"$1\" -k . -N $2 -B 16MB "
    "-F "
    "-c listen_addresses= -c autovacuum=off -c deadlock_timeout=1h "
    "-c dynamic_shared_memory_type=mmap";

static const char *missing(void)
{
    glob_t found;
    int rc = glob(BINARIES "/initdb", 0, NULL, &found);

    globfree(&found);
    return rc == 0 && server_in_path("setpriv") ? NULL : SUBJECT_MISSING;
}

static const char *declines(const struct trial *t)
{
    if (t->count > BACKENDS_MOST || t->procs > BACKENDS_MOST)
        return "each that waits is a process of its server";
    return t->held > HELD_MOST ? "its table has room for some thousand" : NULL;
}

static bool answers(const void *arena)
{
    return PQping(((const struct arena *)arena)->place) == PQPING_OK;
}

static int begin(void *arena, const struct trial *t)
{
    struct arena *a = arena;
    char *dir = a->own.dir.path, most[16];
    char *argv[] = {"sh", "-c", (char *)script, "sh", dir, most, NULL};

    snprintf(a->place, sizeof(a->place), "host=%s user=enq dbname=postgres",
        dir);
    snprintf(most, sizeof(most), "%u", t->procs + (unsigned)t->count + SPARE);
    a->own.server.sig = SIGQUIT;
    return server_start(&a->own.server, argv, answers, a);
}

static int arena_open(const struct trial *t, void **arena)
{
    return peer_server_open(t, arena, sizeof(struct arena), "pg", begin);
}

/* --- a client --- */

enum { DEADLOCK = 1 };

/* Returns 0, DEADLOCK, or -1. */
static int finish(struct seat *s, const char *call, PGresult *r)
{
    struct mine *m = s->mine;
    const char *state = PQresultErrorField(r, PG_DIAG_SQLSTATE);
    int rc = state != NULL && strcmp(state, "40P01") == 0 ? DEADLOCK : 0;

    if (PQntuples(r) == 1)
        m->answer = strtoull(PQgetvalue(r, 0, 0), NULL, 10);
    else if (PQresultStatus(r) != PGRES_COMMAND_OK && rc != DEADLOCK)
        rc = seat_fail(s, "%s: %s", call, PQerrorMessage(m->link));
    PQclear(r);
    return rc;
}

static int say(struct seat *s, const char *sql)
{
    return finish(s, sql, PQexec(((struct mine *)s->mine)->link, sql));
}

/* What attach() has prepared. */
static int ask(struct seat *s, const char *what)
{
    const struct mine *m = s->mine;
    const char *key[] = {m->key};

    return finish(s, what,
        PQexecPrepared(m->link, what, 1, key, NULL, NULL, 0));
}

static void choose(struct seat *s, uint32_t key)
{
    snprintf(((struct mine *)s->mine)->key, 16, "%u", key);
}

static int attach(struct seat *s)
{
    struct mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    choose(s, peer_number(s));
    m->link = PQconnectdb(((const struct arena *)s->arena)->place);
    return say(s, "PREPARE take(int8) AS SELECT pg_advisory_lock($1)") ||
        say(s, "PREPARE try(int8) AS SELECT pg_try_advisory_lock($1)") ||
        say(s, "PREPARE give(int8) AS SELECT pg_advisory_unlock($1)");
}

static void detach(struct seat *s)
{
    PQfinish(s->mine == NULL ? NULL : ((struct mine *)s->mine)->link);
    peer_mine_free(s);
}

static int take(struct seat *s)
{
    return ask(s, "take");
}

static int give(struct seat *s)
{
    return ask(s, "give");
}

static int hold(struct seat *s)
{
    return peer_hold_victim(s, choose, take);
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)

/* --- a queue, a deadlock --- */

/* In a search the first has what the worker will ask for. */
static int join(struct seat *s)
{
    bool first = s->trial->scenario->work == WORK_SEARCH && s->index == 0;

    if (attach(s) != 0)
        return -1;
    choose(s, 1);
    int rc = first ? take(s) : 0;
    choose(s, 0);
    return rc;
}

static int waiting(struct seat *s, uint64_t *n)
{
    int rc = say(s,
        "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'advisory'");

    *n = ((struct mine *)s->mine)->answer;
    return rc;
}

static const struct queue_calls calls = {
    join, take_guarded, give, detach, waiting};

PEER_QUEUE(calls, take, give)

static int prepare_search(struct seat *s)
{
    if (take(s) != 0 || queue_fill(s, &calls, s->trial->count) != 0)
        return -1;
    choose(s, 1);
    return say(s, "SET deadlock_timeout = '1ms'");
}

static int search_once(struct seat *s)
{
    return ask(s, "take") == DEADLOCK ? 0 : seat_fail(s, "no deadlock");
}

static int refuse_once(struct seat *s)
{
    return ask(s, "try");
}

PEER_EACH(search_batch, search_once)
PEER_EACH(refuse_batch, refuse_once)

#endif

const struct subject subject_postgresql = {
    .name = "postgresql",
    .what = "PostgreSQL's advisory locks, over a unix socket",
#if __has_include(<postgresql/libpq-fe.h>)
    .missing = missing,
    .declines = declines,
    SUBJECT_CALLS(arena_open, peer_server_close, attach, detach),
    .acts = {PEER_ACT_PAIR, PEER_ACT_FIGHT, PEER_ACT_DEATH, PEER_ACT_QUEUE,
        [WORK_SEARCH] = {.prepare = prepare_search,
            ACT_PAIRS(search_batch, search_once, NULL),
            .base = refuse_batch}},
#else
    .missing = peer_missing,
#endif
};
