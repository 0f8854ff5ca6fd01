/*
 * keeper.c - the bridge of a crew: killed and stopped like everybody else, and
 * started again, at the same address.
 *
 * Not as often as they are: its clients are to come back in between, and the
 * sessions of the dead are to end.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "crew.h"

#define READY_MS 10000
#define OVER_NS (5 * NS_S) /* all sessions */

static bool is_wanted(const struct crew *c)
{
    return c->plan.backend->bridged;
}

static struct serve *serve_now(struct crew *c)
{
    return &c->book->serves[c->book->n_serves - 1];
}

/* A round has less of them than there is room for. */
static bool has_room(const struct crew *c)
{
    return c->book->n_serves < SERVES_MAX - 1;
}

static void choose_next(struct crew *c)
{
    c->keeper.next_ns =
        now_ns() + (10 + (int64_t)dice_below(&c->dice, 190)) * NS_MS;
}

static void fail(struct crew *c, const char *what)
{
    printf("VIOLATION the bridge %s: %s\n", what, c->keeper.bridge.text);
    c->tally.crashes++;
}

static void launch(struct crew *c)
{
    const struct backend *b = c->plan.backend;

    c->keeper.ready = c->keeper.killed = false;
    c->keeper.stopped_until = 0;
    if (!bridge_launch(&c->keeper.bridge, b->space(), b->socket())) {
        perror("a bridge");
        exit(1);
    }
}

static void note_served(struct crew *c)
{
    c->book->serves[c->book->n_serves] = (struct serve){.from_ns = now_ns()};
    __atomic_store_n(&c->book->n_serves, c->book->n_serves + 1,
        __ATOMIC_RELEASE);
}

/* --- it comes --- */

static void see_ready(struct crew *c, int wait_ms)
{
    switch (bridge_wait(&c->keeper.bridge, wait_ms)) {
    case BRIDGE_READY:
        c->keeper.ready = true;
        note_served(c);
        choose_next(c);
        break;
    case BRIDGE_GONE:
        fail(c, "does not begin");
        bridge_reap(&c->keeper.bridge);
        launch(c);
        break;
    default:
        break;
    }
}

void keeper_begin(struct crew *c)
{
    if (!is_wanted(c))
        return;
    launch(c);
    see_ready(c, READY_MS);
}

/* --- it goes --- */

static void note_death(struct crew *c)
{
    struct serve *x = serve_now(c);

    if (x->to_ns != 0) { /* it was stopped, or not ready */
        note_served(c);
        x = serve_now(c);
    }
    x->died = true;
    x->to_ns = now_ns();
    __atomic_add_fetch(&c->book->n_deaths, 1, __ATOMIC_RELEASE);
    x->to_seq = seq_next();
}

static void kill_it(struct crew *c)
{
    if (c->keeper.killed || !has_room(c))
        return;
    note_death(c);
    c->keeper.killed = true;
    kill(c->keeper.bridge.pid, SIGKILL);
    c->tally.bridges++;
}

/* Its death is noted when it is seen: until then it may have done something. */
static void reap_it(struct crew *c)
{
    int status = bridge_reap(&c->keeper.bridge);

    serve_now(c)->gone_seq = seq_next();
    serve_now(c)->gone_ns = now_ns();
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail(c, "did not end by SIGKILL");
    launch(c);
}

static void stop_it(struct crew *c)
{
    if (!has_room(c))
        return;
    serve_now(c)->to_ns = now_ns();
    c->keeper.stopped_until =
        now_ns() + (1 + (int64_t)dice_below(&c->dice, 40)) * NS_MS;
    kill(c->keeper.bridge.pid, SIGSTOP);
    c->tally.stops++;
}

static void wake_it(struct crew *c)
{
    c->keeper.stopped_until = 0;
    kill(c->keeper.bridge.pid, SIGCONT);
    note_served(c);
    choose_next(c);
}

bool keeper_kill_recoverer(struct crew *c, pid_t pid)
{
    struct keeper *k = &c->keeper;

    if (!is_wanted(c) || pid == 0 || pid != k->bridge.pid || !k->ready ||
        k->killed || k->stopped_until != 0 || dice_below(&c->dice, 4) != 0)
        return false;
    kill_it(c);
    c->tally.recoverers++;
    return true;
}

/* Some are killed before they have begun. */
static bool is_due(struct crew *c)
{
    return now_ns() >= c->keeper.next_ns && c->stage->phase == ROUND_PLAY;
}

void keeper_tend(struct crew *c)
{
    struct keeper *k = &c->keeper;

    if (!is_wanted(c))
        return;
    if (k->killed)
        reap_it(c);
    else if (k->stopped_until != 0 && now_ns() >= k->stopped_until)
        wake_it(c);
    else if (!k->ready && is_due(c) && dice_below(&c->dice, 40) == 0)
        kill_it(c);
    else if (!k->ready)
        see_ready(c, 0);
    else if (k->stopped_until == 0 && is_due(c)) {
        if (dice_below(&c->dice, 5) == 0)
            stop_it(c);
        else
            kill_it(c);
    }
}

void keeper_spare(struct crew *c)
{
    if (is_wanted(c) && c->keeper.stopped_until != 0)
        wake_it(c);
}

/* What is left of a session by then is found by the janitor. */
static void wait_for_sessions(struct crew *c)
{
    int64_t until = now_ns() + OVER_NS;

    while (c->plan.backend->of_sessions() > 0 && now_ns() < until)
        nap_us(5000);
}

void keeper_end(struct crew *c)
{
    int status;

    if (!is_wanted(c))
        return;
    while (!c->keeper.ready || c->keeper.killed) {
        keeper_tend(c);
        nap_us(1000);
    }
    wait_for_sessions(c);
    kill(c->keeper.bridge.pid, SIGTERM);
    status = bridge_reap(&c->keeper.bridge);
    if (status != 0)
        fail(c, "did not end well");
}
