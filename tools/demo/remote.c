/*
 * remote.c - a client that comes by TCP, as from another host: it shares the
 * table with the processes of this one, and its lock outlives the bridge.
 */
#include "demo.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READY_MS = 10000 };

static _Noreturn void become_bridge(const struct stage *st, int said)
{
    char at[40];

    snprintf(at, sizeof(at), "tcp:127.0.0.1:%u", st->port);
    dup2(said, STDERR_FILENO);
    execl(st->bridge, "enq-bridge", "-S", stage_space(), "-l", at, NULL);
    _exit(127);
}

/* It tells its port, and that it is ready. */
static int hear_ready(struct stage *st, int said)
{
    char text[2000] = "";
    size_t n = 0;
    const char *port;

    while (strstr(text, "enq-bridge: ready") == NULL) {
        struct pollfd p = {said, POLLIN, 0};
        ssize_t got = 0;

        if (poll(&p, 1, READY_MS) == 1)
            got = read(said, text + n, sizeof(text) - 1 - n);
        if (got <= 0) {
            say_alarm("enq-bridge is not ready: %s", text);
            return -1;
        }
        n += (size_t)got;
        text[n] = 0;
    }
    port = strstr(text, "tcp:127.0.0.1:");
    return port != NULL && sscanf(port, "tcp:127.0.0.1:%u", &st->port) == 1
        ? 0
        : -1;
}

int bridge_begin(struct stage *st)
{
    int said[2], rc;

    if (pipe2(said, O_CLOEXEC) != 0)
        return -1;
    st->bridge_pid = stage_fork();
    if (st->bridge_pid == 0)
        become_bridge(st, said[1]);
    close(said[1]);
    rc = st->bridge_pid > 0 ? hear_ready(st, said[0]) : -1;
    close(said[0]);
    return rc;
}

void bridge_end(struct stage *st, int sig)
{
    int status = 0;

    kill(st->bridge_pid, sig);
    while (waitpid(st->bridge_pid, &status, 0) < 0 && stage_signal() == 0)
        continue;
    st->bridge_pid = 0;
    if (sig == SIGTERM)
        expect(st->page, status == 0, "the bridge ends well (status %#x)",
            (unsigned)status);
}

static struct order lock_order(int64_t wait_ms)
{
    return (struct order){.verb = DO_LOCK,
        .name = "product",
        .key = "Computer",
        .mode = ENQ_MODE_E,
        .wait_ms = wait_ms};
}

static struct order unlock_order(const struct actor *a)
{
    return (struct order){.verb = DO_UNLOCK, .grant = a->answer.grant};
}

static bool refused_by(const struct actor *asker, const struct actor *holder)
{
    return asker->answer.rc == ENQ_BUSY &&
        strcmp(asker->answer.grant.blocker.owner, holder->owner) == 0;
}

/* A has it; R is told so, and waits for it. */
static int hand_over(struct stage *st, struct actor *a, struct actor *r)
{
    char took[24];
    struct order give;

    if (actor_do(a, lock_order(0)) != 0 || actor_do(r, lock_order(0)) != 0)
        return -1;
    expect(st->page, refused_by(r, a), "R is refused, and A is named");
    say("A locks product [Computer]. R, at tcp://127.0.0.1:%u, is told:",
        st->port);
    say_quote("The product Computer is now locked by %s",
        r->answer.grant.blocker.owner);
    give = unlock_order(a);
    actor_begin(r, lock_order(5000));
    if (stage_pause(0.05) != 0 || actor_do(a, give) != 0 || actor_end(r) != 0)
        return -1;
    expect(st->page, r->answer.rc == ENQ_OK, "R gets it when A is done");
    say("R waits, and has it %s after A unlocks.",
        show_ns(took, sizeof(took), r->answer.ended_ns - a->answer.began_ns));
    return 0;
}

/* The lock is in the table, not in the bridge. */
static int lose_the_bridge(struct stage *st, struct actor *a, struct actor *r)
{
    struct order give = unlock_order(r);
    int pid = (int)st->bridge_pid;

    bridge_end(st, SIGKILL);
    if (actor_do(a, lock_order(0)) != 0)
        return -1;
    expect(st->page, refused_by(a, r), "A is refused while there is no bridge");
    say("The bridge (process %d) is killed with SIGKILL: A is still told of "
        "%s.",
        pid, a->answer.grant.blocker.owner);
    if (bridge_begin(st) != 0 || actor_do(r, give) != 0)
        return -1;
    expect(st->page, r->answer.rc == ENQ_OK, "R gives its lock back (%s)",
        r->answer.why);
    if (actor_do(a, lock_order(0)) != 0)
        return -1;
    expect(st->page, a->answer.rc == ENQ_OK, "A gets what R gave back");
    say("Another bridge is started: R goes on where it was, and unlocks.");
    return actor_do(a, unlock_order(a));
}

int scene_remote(struct stage *st)
{
    struct actor *a = &st->page->actors[0], *r = &st->page->actors[REMOTE];

    say_scene("R works on another host");
    if (bridge_begin(st) != 0 || remote_begin(st) != 0 ||
        hand_over(st, a, r) != 0 || lose_the_bridge(st, a, r) != 0)
        return -1;
    actor_begin(r, (struct order){.verb = DO_LEAVE});
    while (waitpid(r->pid, NULL, 0) < 0 && stage_signal() == 0)
        continue;
    r->pid = 0;
    bridge_end(st, SIGTERM);
    return 0;
}
