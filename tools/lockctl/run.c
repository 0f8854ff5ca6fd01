/*
 * run.c - lockctl run: a program under a lock.
 *
 * The lock ends with the last process that the program has started, and these
 * end with the lock: the guardian (front.h) sleeps until a signal, or an event
 * of the lock. Whatever happens to lockctl, none of them goes on unlocked.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ask.h"
#include "child.h"
#include "commands.h"
#include "front.h"
#include "values.h"

struct run {
    const struct cli *cli;
    struct ask ask;
    struct signals signals;
    struct child child;
    struct front front;
    bool orphaned; /* the front is dead */
    bool told;     /* that something is left */
};

/* What is left is said to a person, once, if it does not end by itself. */
#define NOTICE_AFTER_MS 300

static int pause_ms(const struct run *run)
{
    bool is_seen = run->cli->verbose || isatty(STDERR_FILENO);

    return run->child.reaped && is_seen && !run->told ? NOTICE_AFTER_MS : -1;
}

static void tell_of_rest(struct run *run)
{
    char text[512];

    run->told = true;
    say("%s ended with %d; what it started runs on, under %s", run->child.name,
        run->child.status, ask_text(&run->ask, text, sizeof(text)));
}

/* The kernel has sent it, as the front is dead: killed. */
static void be_orphaned(struct run *run)
{
    if (run->orphaned || getppid() == run->front.pid)
        return;
    run->orphaned = true;
    child_kill(&run->child);
}

/* Is it time to end what runs still? */
static bool is_to_end(const struct run *run)
{
    return run->cli->kill && (run->child.reaped || run->orphaned);
}

/* Until all has ended (ENQ_OK) or the lock is lost (why). */
static int guard(struct run *run)
{
    for (;;) {
        int ms = pause_ms(run);
        struct signal_seen seen =
            signals_wait(&run->signals, run->ask.events_fd, ms);

        if (seen.number == SIGNAL_ORPHANED)
            be_orphaned(run);
        child_signal(&run->child, seen);
        child_look(&run->child);
        if (run->child.any_left && is_to_end(run))
            child_end(&run->child, run->cli->grace_ms, &run->signals);
        if (!run->child.any_left)
            return ENQ_OK;
        if (ms >= 0 && seen.number == 0)
            tell_of_rest(run);
        int rc = ask_events(&run->ask);
        if (rc != ENQ_OK)
            return rc;
    }
}

/* The end ----------------------------------------------------------------- */

static int lost_while_running(struct run *run)
{
    say("lost %s: %s; ending %s (pid %d)", run->ask.object[run->ask.at].spec,
        run->ask.why, run->child.name, (int)run->child.pid);
    child_end(&run->child, run->cli->grace_ms, &run->signals);
    return LOST;
}

/* The last look is the unlock itself: it says if the lock was lost between
   the look before and the program's end. */
static int ended(struct run *run)
{
    int rc = ask_unlock(&run->ask);
    char text[512];

    if (rc == ENQ_OK)
        return run->child.status;
    say("lost %s before %s ended with %d: %s",
        ask_text(&run->ask, text, sizeof(text)), run->child.name,
        run->child.status, enq_why());
    return rc > 0 ? LOST : status_of(rc);
}

/* The program ------------------------------------------------------------- */

/* As a list has them: there may be a newline in what the user wrote. */
static void tell_objects(const struct ask *ask)
{
    char *text = malloc(ask->n * (size_t)KEY_SPEC_BYTES), *at = text;

    if (text == NULL)
        return;
    for (unsigned i = 0; i < ask->n; i++) {
        key_spec(at, &ask->object[i].key);
        at += strlen(at);
        *at++ = i + 1 < ask->n ? '\n' : '\0';
    }
    setenv("ENQ_OBJECT", text, 1);
    free(text);
}

/* Of a set: a line for each lock, in the order of the command line. */
static void tell_program(const struct ask *ask)
{
    static char ids[ENQ_SET_MAX * 40], tokens[ENQ_SET_MAX * 24];
    char *id = ids, *token = tokens;

    for (unsigned i = 0; i < ask->n; i++) {
        const char *end = i + 1 < ask->n ? "\n" : "";

        id += sprintf(id, "%s%s", ask->id[i], end);
        token += sprintf(token, "%" PRIu64 "%s", ask->grant[i].token, end);
    }
    setenv("ENQ_LOCK_ID", ids, 1);
    setenv("ENQ_TOKEN", tokens, 1);
    tell_objects(ask);
}

/* A bridge's session goes on for its grace period by itself. */
static bool share_life(struct run *run)
{
    int fd = enq_life_fd(run->ask.e);

    if (fd < 0 && fd != -EOPNOTSUPP) {
        say("cannot keep the lock for what %s starts: %s", run->cli->operand[1],
            enq_why());
        return false;
    }
    run->child.life_fd = fd < 0 ? -1 : fd;
    front_give(&run->front, run->child.life_fd);
    return true;
}

/* In a group of its own a program could not read from the terminal. */
static int run_program(struct run *run)
{
    struct child *child = &run->child;

    child->own_group = !run->cli->foreground && !isatty(STDIN_FILENO);
    tell_program(&run->ask);
    if (!share_life(run))
        return RUN_FAILED;
    if (!child_start(child, run->cli->operand + 1, &run->signals)) {
        say("cannot start a process for %s", run->cli->operand[1]);
        return RUN_FAILED;
    }
    front_leave_group();
    return guard(run) == ENQ_OK ? ended(run) : lost_while_running(run);
}

static int no_lock(const struct cli *cli, int rc)
{
    if (rc == NOT_OBTAINED)
        return cli->busy_status;
    return rc == FAILED ? RUN_FAILED : rc;
}

static int lock_and_run(struct run *run)
{
    int rc = ask_open(&run->ask, 0);

    if (rc == DONE)
        rc = ask_lock(&run->ask, &run->signals);
    if (rc != DONE)
        return no_lock(run->cli, rc);
    for (unsigned i = 0; run->cli->verbose && i < run->ask.n; i++)
        say("got %s: id %s", run->ask.object[i].spec, run->ask.id[i]);
    return run_program(run);
}

static int run_act(struct cli *cli)
{
    static struct object objects[ENQ_SET_MAX];
    static struct run run;
    int rc;

    run = (struct run){
        .cli = cli,
        .ask =
            {
                .cli = cli,
                .object = objects,
                .mode = cli->mode,
                .on_death = ENQ_DEATH_RELEASE,
                .wait_ms = cli->wait_ms,
            },
    };
    rc = object_parse_set(cli, objects, &run.ask.n);
    if (rc == DONE)
        rc = ask_lease(&run.ask, ENQ_FOREVER, true);
    if (rc != DONE)
        return rc;
    if (!signals_take(&run.signals)) {
        say("no descriptor left");
        return RUN_FAILED;
    }
    switch (front_fork(&run.front)) {
    case 0:
        rc = lock_and_run(&run);
        ask_end(&run.ask);
        return rc;
    case -1:
        say("cannot start a process for %s", cli->operand[1]);
        return RUN_FAILED;
    default:
        return front_stay(&run.front, &run.signals, cli->operand[1]);
    }
}

static const struct opt run_opts[] = {
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
    OPT('E', "exit-code", "N", "exit code when not obtained, instead of 75",
        set_busy_status),
    OPT('t', "ttl", "TTL", "a ttl, renewed while CMD runs (none by default)",
        set_ttl),
    OPT(0, "heartbeat", "SEC",
        "renew every SEC (default: a third of the ttl), or: none",
        set_heartbeat),
    OPT('g', "grace", "SEC", "from TERM to KILL when CMD is ended (5)",
        set_grace),
    OPT_AS_IS('k', "kill", NULL,
        "kill what CMD leaves running instead of waiting for it", kill),
    OPT_AS_IS('F', "foreground", NULL, "no process group of its own for CMD",
        foreground),
    OPT_END,
};

const struct command run_command = {
    .name = "run",
    .operands = "OBJ[/KEY...] [--] CMD...",
    .what = "Runs a program while holding a lock.",
    .more =
        "The lock ends with the last process that CMD has started, even if "
        "lockctl is\nkilled. The exit code is the program's, 128+n after "
        "signal n; 75 the lock was\nnot obtained, 76 for a deadlock, 79 it "
        "was lost, 125 lockctl failed, 126 CMD\ncannot be run, 127 CMD is "
        "not found. CMD finds ENQ_LOCK_ID, ENQ_TOKEN and\nENQ_OBJECT in its "
        "environment; of several locks (--also) a line for each.",
    .opts = run_opts,
    .least = 2,
    .most = -1,
    .starts_program = true,
    .act = run_act,
};
