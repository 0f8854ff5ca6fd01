/*
 * run.c - lockctl run: a program under a lock.
 *
 * The lock ends with the program, and the program ends with the lock: while
 * it runs lockctl looks every LOOK_MS whether the lock is still held. Whatever
 * happens to lockctl, the program does not go on unlocked.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ask.h"
#include "child.h"
#include "commands.h"
#include "system.h"
#include "values.h"

#define LOOK_MS 50

struct run {
    const struct cli *cli;
    struct ask ask;
    struct signals signals;
    struct child child;
    int64_t renew_at_ms; /* 0: no ttl */
};

/* Holding the lock -------------------------------------------------------- */

static void plan_renewal(struct run *run)
{
    if (run->ask.ttl_ms != ENQ_FOREVER)
        run->renew_at_ms = system_now_ms() + run->ask.ttl_ms / 3;
}

/* A failed renewal is tried again at the next look: there is time left. */
static void renew_if_due(struct run *run)
{
    const struct enq_grant *grant = &run->ask.grant;

    if (run->renew_at_ms == 0 || system_now_ms() < run->renew_at_ms)
        return;
    if (enq_renew(run->ask.e, grant->handle, grant->token, 0) == ENQ_OK)
        plan_renewal(run);
}

static int look_after_ms(const struct run *run)
{
    int64_t ms = LOOK_MS;

    if (run->renew_at_ms != 0 && run->ask.ttl_ms / 3 < ms)
        ms = run->ask.ttl_ms / 3;
    return ms > 0 ? (int)ms : 1;
}

/* Until the program ends (ENQ_OK) or the lock is lost (why). */
static int guard(struct run *run)
{
    for (;;) {
        child_signal(&run->child,
            signals_wait(&run->signals, -1, look_after_ms(run)));
        if (child_has_ended(&run->child))
            return ENQ_OK;
        renew_if_due(run);
        int rc = enq_valid(run->ask.e, run->ask.grant.handle);
        if (rc != ENQ_OK)
            return rc;
    }
}

/* The end ----------------------------------------------------------------- */

static int lost_while_running(struct run *run)
{
    say("lost %s: %s; ending %s (pid %d)", run->ask.object->spec, enq_why(),
        run->child.name, (int)run->child.pid);
    child_end(&run->child, run->cli->grace_ms, &run->signals);
    return LOST;
}

/* The last look is the unlock itself: it says if the lock was lost between
   the look before and the program's end. */
static int ended(struct run *run)
{
    const struct enq_grant *grant = &run->ask.grant;
    int rc = enq_unlock(run->ask.e, grant->handle, grant->token);

    if (rc == ENQ_OK)
        return run->child.status;
    say("lost %s before %s ended with %d: %s", run->ask.object->spec,
        run->child.name, run->child.status, enq_why());
    return rc > 0 ? LOST : status_of(rc);
}

/* The program ------------------------------------------------------------- */

static void tell_program(const struct ask *ask)
{
    char token[24];

    snprintf(token, sizeof(token), "%" PRIu64, ask->grant.token);
    setenv("ENQ_LOCK_ID", ask->id, 1);
    setenv("ENQ_TOKEN", token, 1);
    setenv("ENQ_OBJECT", ask->object->spec, 1);
}

/* In a group of its own a program could not read from the terminal. */
static int run_program(struct run *run)
{
    struct child *child = &run->child;

    child->own_group = !run->cli->foreground && !isatty(STDIN_FILENO);
    tell_program(&run->ask);
    if (!child_start(child, run->cli->operand + 1, &run->signals)) {
        say("cannot start a process for %s", run->cli->operand[1]);
        return RUN_FAILED;
    }
    plan_renewal(run);
    return guard(run) == ENQ_OK ? ended(run) : lost_while_running(run);
}

static int no_lock(const struct cli *cli, int rc)
{
    if (rc == NOT_OBTAINED)
        return cli->busy_status;
    return rc == FAILED ? RUN_FAILED : rc;
}

static int run_act(struct cli *cli)
{
    struct object object;
    struct run run = {
        .cli = cli,
        .ask =
            {
                .cli = cli,
                .object = &object,
                .on_death = ENQ_DEATH_RELEASE,
                .ttl_ms = cli->ttl_ms != 0 ? cli->ttl_ms : ENQ_FOREVER,
            },
    };

    int rc = object_parse(cli, cli->operand[0], &object);
    if (rc != DONE)
        return rc;
    if (!signals_take(&run.signals)) {
        say("no descriptor left");
        return RUN_FAILED;
    }
    rc = ask_lock(&run.ask, &run.signals);
    rc = rc == DONE ? run_program(&run) : no_lock(cli, rc);
    ask_end(&run.ask);
    return rc;
}

static const struct opt run_opts[] = {
    OPT('m', "mode", "MODE", "S, E (the default), X or O", set_mode),
    OPT_AS_IS('o', "owner", "OWNER",
        "who asks; else $ENQ_OWNER or user@host:pid", owner),
    OPT('n', "no-wait", NULL, "do not wait (the default)", set_no_wait),
    OPT('w', "wait", "SEC", "wait so long: 0.5, 10s, 2m, forever", set_wait),
    OPT('E', "exit-code", "N", "exit code when not obtained, instead of 75",
        set_busy_status),
    OPT('t', "ttl", "TTL", "a ttl, renewed at each third (none by default)",
        set_ttl),
    OPT('g', "grace", "SEC", "from TERM to KILL when the lock is lost (5)",
        set_grace),
    OPT_AS_IS('F', "foreground", NULL, "no process group of its own for CMD",
        foreground),
    OPT_END,
};

const struct command run_command = {
    .name = "run",
    .operands = "OBJ[/KEY...] [--] CMD...",
    .what = "Runs a program while holding a lock.",
    .more = "Its exit code is the program's, 128+n after signal n; 75 the lock "
            "was not\nobtained, 79 it was lost, 125 lockctl failed, 126 CMD "
            "cannot be run, 127 CMD\nis not found. CMD finds ENQ_LOCK_ID, "
            "ENQ_TOKEN and ENQ_OBJECT in its environment.",
    .opts = run_opts,
    .least = 2,
    .most = -1,
    .starts_program = true,
    .act = run_act,
};
