/*
 * lock.c - lockctl lock: a lock that outlives lockctl, until its ttl (LEASE)
 * or, with --keep, until somebody ends it (KEEP).
 */
#include <inttypes.h>
#include <stdio.h>

#include "ask.h"
#include "commands.h"
#include "json.h"
#include "rows.h"
#include "values.h"

static void print_json(const struct ask *ask)
{
    struct rows rows = {.info = NULL};
    const struct row *row = NULL;
    struct cli anyone = *ask->cli;

    anyone.owner = NULL;
    if (rows_fetch(&anyone, ask->e, ask->object->req.name, &rows) == DONE)
        row = rows_find(&rows, ask->grant.handle);
    json_open('{');
    json_key_string("result", enq_result_name(ENQ_OK));
    json_key_string("id", ask->id);
    json_key_token("token", ask->grant.token);
    json_key("lock");
    if (row != NULL)
        rows_json_row(row);
    else
        json_null(); /* its ttl is over already */
    json_close('}');
    json_end();
    rows_free(&rows);
}

static int lock_act(struct cli *cli)
{
    struct signals signals;
    struct object object;
    struct ask ask = {
        .cli = cli,
        .object = &object,
        .on_death = cli->keep ? ENQ_DEATH_KEEP : ENQ_DEATH_LEASE,
        .ttl_ms = cli->ttl_ms,
    };

    if (cli->keep && cli->ttl_ms == 0)
        ask.ttl_ms = ENQ_FOREVER;
    int rc = object_parse(cli, cli->operand[0], &object);
    if (rc != DONE)
        return rc;
    if (!signals_take(&signals)) {
        say("no descriptor left");
        return FAILED;
    }
    rc = ask_lock(&ask, &signals);
    if (rc == DONE && cli->json)
        print_json(&ask);
    else if (rc == DONE)
        printf("%s %" PRIu64 "\n", ask.id, ask.grant.token);
    ask_end(&ask);
    return rc;
}

static const struct opt lock_opts[] = {
    OPT('m', "mode", "MODE", "S, E (the default), X or O", set_mode),
    OPT_AS_IS('o', "owner", "OWNER",
        "who asks; else $ENQ_OWNER or user@host:pid", owner),
    OPT('n', "no-wait", NULL, "do not wait (the default)", set_no_wait),
    OPT('w', "wait", "SEC", "wait so long: 0.5, 10s, 2m, forever", set_wait),
    OPT('t', "ttl", "TTL", "ends after: 90, 10s, 15m (the default), 2h, none",
        set_ttl),
    OPT_AS_IS(0, "keep", NULL,
        "no ttl unless -t: stays until unlocked or broken", keep),
    OPT_END,
};

const struct command lock_command = {
    .name = "lock",
    .operands = "OBJ[/KEY...]",
    .what = "Takes a lock that stays; prints its id and its token.",
    .opts = lock_opts,
    .least = 1,
    .most = 1,
    .act = lock_act,
};
