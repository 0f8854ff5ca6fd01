/*
 * wait.c - lockctl wait: until objects are free. It takes nothing that stays.
 *
 * A free object costs a question. For another lockctl stands in the queue, as
 * a request in the mode that was asked for, and gives its grant back at once:
 * no look is needed in between, and none that comes later is served first.
 */
#include <stdio.h>

#include "ask.h"
#include "commands.h"
#include "json.h"
#include "system.h"
#include "values.h"

/* Of the grant: should lockctl be stopped in that very moment. */
#define TTL_MS 1000

struct wait {
    const struct cli *cli;
    struct ask ask;
    struct signals signals;
    int64_t until_ms; /* ENQ_FOREVER: any time */
    bool asks_only;   /* not even a moment: -w 0 */
};

/* A wait of any length stands in the queue for a moment, however late it is by
   now: its time is over then, and not the object just "held". */
static int64_t time_left(const struct wait *w)
{
    if (w->until_ms == ENQ_FOREVER)
        return ENQ_FOREVER;
    int64_t left = w->until_ms - system_now_ms(), least = w->asks_only ? 0 : 1;
    return left > least ? left : least;
}

static void tell_free(const struct wait *w)
{
    if (w->cli->json) {
        json_open('{');
        json_key_string("result", enq_result_name(ENQ_OK));
        json_key_string("spec", w->ask.object->spec);
        json_close('}');
        json_end();
        fflush(stdout);
    }
    if (w->cli->verbose)
        say("%s can be granted", w->ask.object->spec);
}

static bool is_free(const struct wait *w)
{
    struct enq_req req = w->ask.object->req;

    req.mode = w->ask.mode;
    req.owner = w->cli->owner;
    req.flags = ENQ_TEST;
    return enq_lock(w->ask.e, &req, NULL) == ENQ_OK;
}

static int stand_in_queue(struct wait *w)
{
    struct ask *ask = &w->ask;

    ask->wait_ms = time_left(w);
    int rc = ask_lock(ask, &w->signals);
    if (rc == DONE)
        ask_unlock(ask);
    else if (ask->result == ENQ_TIMEDOUT || ask->result == ENQ_BUSY)
        rc = ask->signal > 0 ? rc : TIME_OVER;
    return rc;
}

static int wait_for(struct wait *w, const char *spec)
{
    struct object object;
    int rc = object_parse(w->cli, spec, &object);

    if (rc != DONE)
        return rc;
    w->ask.object = &object;
    w->ask.n = 1;
    if (!is_free(w))
        rc = stand_in_queue(w);
    if (rc == DONE)
        tell_free(w);
    return rc;
}

/* A typing error in the last of them is said before the first is waited for. */
static int check_objects(const struct cli *cli)
{
    struct object object;
    int rc = DONE;

    for (int i = 0; i < cli->n_operands && rc == DONE; i++)
        rc = object_parse(cli, cli->operand[i], &object);
    return rc;
}

static int wait_for_all(struct wait *w)
{
    int rc = ask_open(&w->ask, ENQ_OPEN_EXISTING);

    for (int i = 0; i < w->cli->n_operands && rc == DONE; i++)
        rc = wait_for(w, w->cli->operand[i]);
    ask_end(&w->ask);
    return rc;
}

static int wait_act(struct cli *cli)
{
    struct wait w = {
        .cli = cli,
        .ask =
            {
                .cli = cli,
                .mode = cli->mode != 0 ? cli->mode : ENQ_MODE_X,
                .ttl_ms = TTL_MS,
            },
        .until_ms = ENQ_FOREVER,
    };
    int rc = check_objects(cli);

    if (rc != DONE)
        return rc;
    if (cli->limited && cli->wait_ms != ENQ_FOREVER)
        w.until_ms = system_now_ms() + cli->wait_ms;
    w.asks_only = cli->limited && cli->wait_ms == 0;
    if (!signals_take(&w.signals)) {
        say("no descriptor left");
        return FAILED;
    }
    return wait_for_all(&w);
}

static const struct opt wait_opts[] = {
    OPT('m', "mode", "MODE",
        "until it could be granted in: S, E, X (the default) or O", set_mode),
    OPT_AS_IS('o', "owner", "OWNER",
        "the owner; default: $ENQ_OWNER, or user@host:pid", owner),
    OPT('w', "wait", "SEC", "wait at most: 0, 10s, 2m, forever (the default)",
        set_limit),
    OPT_END,
};

const struct command wait_command = {
    .name = "wait",
    .operands = "OBJ[/KEY...]...",
    .what = "Waits until an object is free, without locking it.",
    .more =
        "It queues as any request does. Of several objects each was free at "
        "some moment,\nnot all at once. Exit code 0: free; 124: timed out.",
    .opts = wait_opts,
    .least = 1,
    .most = -1,
    .act = wait_act,
};
