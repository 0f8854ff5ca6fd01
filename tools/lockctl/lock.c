/*
 * lock.c - lockctl lock: a lock that outlives lockctl, until its ttl (LEASE)
 * or, with --keep, until somebody ends it (KEEP). With --heartbeat lockctl
 * stays beside it and renews it.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "commands.h"
#include "json.h"
#include "rows.h"
#include "values.h"

static void put_lock(const struct ask *ask, unsigned i)
{
    struct rows rows = {.info = NULL};
    const struct row *row = NULL;
    struct cli anyone = *ask->cli;

    anyone.owner = NULL;
    if (rows_fetch(&anyone, ask->e, ask->object[i].req.name, &rows) == DONE)
        row = rows_find(&rows, ask->grant[i].handle);
    json_key_string("id", ask->id[i]);
    json_key_token("token", ask->grant[i].token);
    json_key("lock");
    if (row != NULL)
        rows_json_row(row);
    else
        json_null(); /* its ttl is over already */
    rows_free(&rows);
}

/* Of a set: "locks", a list. */
static void print_json(const struct ask *ask)
{
    json_open('{');
    json_key_string("result", enq_result_name(ENQ_OK));
    if (ask->n == 1) {
        put_lock(ask, 0);
    } else {
        json_key("locks");
        json_open('[');
        for (unsigned i = 0; i < ask->n; i++) {
            json_open('{');
            put_lock(ask, i);
            json_close('}');
        }
        json_close(']');
    }
    json_close('}');
    json_end();
}

static void print_text(const struct ask *ask)
{
    for (unsigned i = 0; i < ask->n; i++)
        printf("%s %" PRIu64 "\n", ask->id[i], ask->grant[i].token);
}

/* What the user gets first: the lock. A reader of the output may wait for it. A
   lock whose id nobody got to know is given back. */
static int print_lock(struct ask *ask)
{
    char text[512];

    for (unsigned i = 0; ask->cli->verbose && i < ask->n; i++)
        say("got %s: id %s", ask->object[i].spec, ask->id[i]);
    if (ask->cli->json)
        print_json(ask);
    else
        print_text(ask);
    if (fflush(stdout) == 0 && !ferror(stdout))
        return DONE;
    ask_unlock(ask);
    say("released %s: cannot write its id", ask_text(ask, text, sizeof(text)));
    return FAILED;
}

/* --heartbeat -------------------------------------------------------------- */

static int gone(struct ask *ask, int result)
{
    bool is_end = result == ENQ_NOTHELD;

    ask_unlock(ask); /* the rest of a set */

    if (!is_end || ask->cli->verbose)
        say("%s %s: %s", is_end ? "released" : "lost",
            ask->object[ask->at].spec, ask->why);
    if (is_end)
        return DONE;
    return result > 0 ? LOST : status_of(result);
}

/* Until a signal, that gives the lock back, or the lock's end. */
static int stay(struct ask *ask, const struct signals *signals)
{
    char text[512];

    for (;;) {
        struct signal_seen seen = signals_wait(signals, ask->events_fd, -1);
        int result = ask_events(ask);
        if (result != ENQ_OK)
            return gone(ask, result);
        if (!signal_ends(seen.number))
            continue;
        ask_unlock(ask);
        if (ask->cli->verbose)
            say("released %s: %s", ask_text(ask, text, sizeof(text)),
                strsignal(seen.number));
        return SIGNALLED + seen.number;
    }
}

static int take(struct ask *ask)
{
    struct signals signals;

    if (!signals_take(&signals)) {
        say("no descriptor left");
        return FAILED;
    }
    int rc = ask_open(ask, 0);
    if (rc == DONE)
        rc = ask_lock(ask, &signals);
    if (rc == DONE)
        rc = print_lock(ask);
    if (rc == DONE && ask->heartbeat_ms > 0)
        rc = stay(ask, &signals);
    ask_end(ask);
    return rc;
}

static int lock_act(struct cli *cli)
{
    static struct object objects[ENQ_SET_MAX];
    static struct ask ask;
    int rc;

    ask = (struct ask){
        .cli = cli,
        .object = objects,
        .mode = cli->mode,
        .on_death = cli->keep ? ENQ_DEATH_KEEP : ENQ_DEATH_LEASE,
        .wait_ms = cli->wait_ms,
    };
    rc = object_parse_set(cli, objects, &ask.n);
    if (rc == DONE)
        rc = ask_lease(&ask, cli->keep ? ENQ_FOREVER : 0, false);
    return rc == DONE ? take(&ask) : rc;
}

static const struct opt lock_opts[] = {
    OPT('a', "also", "OBJ", "lock this one too, all or none; may be repeated",
        set_also),
    OPT('m', "mode", "MODE", "S, E (the default), X or O", set_mode),
    OPT_AS_IS('o', "owner", "OWNER",
        "the owner; default: $ENQ_OWNER, or user@host:pid", owner),
    OPT('n', "no-wait", NULL, "do not wait (the default)", set_no_wait),
    OPT('w', "wait", "SEC", "wait at most this long: 0.5, 10s, 2m, forever",
        set_wait),
    OPT_AS_IS(0, "no-deadlock", NULL, "wait even if that closes a deadlock",
        no_deadlock),
    OPT('t', "ttl", "TTL", "ends after: 90, 10s, 15m (the default), 2h, none",
        set_ttl),
    OPT(0, "heartbeat", "SEC",
        "stay, and renew the ttl (3 SEC) every SEC seconds", set_heartbeat),
    OPT_AS_IS(0, "keep", NULL,
        "no ttl unless -t: stays until unlocked or broken", keep),
    OPT_END,
};

const struct command lock_command = {
    .name = "lock",
    .operands = "OBJ[/KEY...]",
    .what = "Takes a lock and leaves it held; prints its id and token.",
    .more = "With --also it takes several as one set, all or none; a line for "
            "each.\nWith --heartbeat it stays, and a signal releases the lock; "
            "exit code 0 when\nsomebody unlocks it, 79 when it is lost.",
    .opts = lock_opts,
    .least = 1,
    .most = 1,
    .act = lock_act,
};
