/*
 * events.c - probes of what comes about between processes: hand-overs,
 * deadlocks, deaths, heartbeats.
 */
#include "mixed/mixed.h"

#include <stdlib.h>
#include <unistd.h>

uint64_t run_delay_ns(void)
{
    unsigned long long on = 0, waited = 0;
    FILE *in = fopen("/proc/thread-self/schedstat", "r");

    if (in == NULL)
        return 0;
    if (fscanf(in, "%llu %llu", &on, &waited) != 2)
        waited = 0;
    fclose(in);
    return waited;
}

/* --- hand-overs --- */

/* From one process to the next, ns. */
static int hand_overs(struct actor *a, _Atomic uint32_t *go,
    _Atomic uint64_t *count)
{
    enum { WARM = 20, LEAST = 1000, LATE_MS = 3000 };
    uint64_t first = *count;

    *go = 1;
    for (unsigned ms = 0; *count < first + WARM && ms < LATE_MS; ms++)
        usleep(1000);
    uint64_t before = *count, begin = now_ns();
    for (unsigned ms = 0; *count < before + LEAST && ms < LATE_MS; ms++)
        usleep(1000);
    uint64_t after = *count, end = now_ns();
    *go = 0;
    if (after == before)
        return actor_failed(a, "hand-overs (there were none)", ENQ_TIMEDOUT);
    a->place->value[0] = (double)(end - begin) / (double)(after - before);
    return 0;
}

int probe_pass(struct actor *a)
{
    return hand_overs(a, &a->place->passing, &a->place->passed);
}

int probe_queue(struct actor *a)
{
    return hand_overs(a, &a->place->queueing, &a->place->queued);
}

/* --- deadlocks --- */

/* Its event is that it was cancelled. */
static int cancel(struct actor *a, uint64_t ticket)
{
    struct enq_event event = {0};
    int rc = enq_cancel(a->e, ticket);

    if (rc != ENQ_OK)
        return actor_failed(a, "enq_cancel", rc);
    do {
        rc = enq_next(a->e, &event);
        if (rc == ENQ_PENDING)
            usleep(100);
    } while (rc == ENQ_PENDING);
    return rc == ENQ_OK && event.result == ENQ_CANCELLED
        ? 0
        : actor_failed(a, "enq_next (of a cancelled request)", rc);
}

/* The wait that closes a cycle: it is refused, or found out while it waits. */
static int refused_for_a_cycle(struct actor *a, double *ns)
{
    struct enq_grant g;
    uint64_t delay = run_delay_ns(), begin = now_ns();

    a->req.wait_ms = 10000;
    int rc = enq_lock(a->e, &a->req, &g);
    a->req.wait_ms = 0;
    uint64_t took = now_ns() - begin;
    delay = run_delay_ns() - delay;
    *ns = took > delay ? (double)(took - delay) : 0;
    return rc == ENQ_DEADLOCK ? 0
                              : actor_failed(a, "enq_lock (in a cycle)", rc);
}

/* Of two owners, each with a lock, the first waits for the second. */
static void side(struct actor *a, unsigned owner, unsigned key)
{
    actor_name(a, "cycle %d", (int)getpid());
    actor_owner(a, "side %d %u", (int)getpid(), owner);
    actor_field(a, key);
    a->req.mode = ENQ_MODE_X;
}

int cycle_close(struct actor *a, double *ns)
{
    struct enq_grant held[2];
    uint64_t ticket;
    double unused;

    for (unsigned i = 0; i < 2; i++) {
        side(a, i, i);
        if (actor_take(a) != 0)
            return -1;
        held[i] = a->grant;
    }
    side(a, 0, 1);
    if (actor_start_wait(a, &ticket) != 0)
        return -1;
    side(a, 1, 0);
    int rc = refused_for_a_cycle(a, ns == NULL ? &unused : ns);
    if (rc != 0 || cancel(a, ticket) != 0)
        return -1;
    for (unsigned i = 0; i < 2; i++)
        enq_unlock(a->e, held[i].handle, held[i].token);
    actor_owner(a, "actor %d", (int)getpid());
    return 0;
}

int probe_cycle(struct actor *a)
{
    return actor_open(a) != 0 ? -1 : cycle_close(a, a->place->value);
}

/* The last of all that wait for "blocker" has what that one wants. */
int probe_graph(struct actor *a)
{
    struct place *p = a->place;

    if (actor_open(a) != 0)
        return -1;
    actor_owner(a, "of graph %llu", (unsigned long long)(p->in_graph - 1));
    actor_name(a, "wanted");
    actor_field(a, 0);
    if (actor_take(a) != 0)
        return -1;
    actor_owner(a, "blocker");
    if (refused_for_a_cycle(a, p->value) != 0)
        return -1;
    return actor_give(a);
}

/* --- deaths --- */

/* Holds a lock, and makes pairs of a key, or of all of a name. */
static int victim(struct actor *a, const char *field)
{
    actor_name(a, "dying");
    actor_field(a, 0);
    if (actor_open(a) != 0 || actor_take(a) != 0)
        return -1;
    actor_name(a, "pairs");
    snprintf(a->field, sizeof(a->field), "%s", field);
    a->place->taken = 1;
    for (;;)
        if (actor_pairs(a, 1) != 0)
            return -1;
}

static int victim_of_a_key(struct actor *a)
{
    return victim(a, "key");
}

static int victim_of_all(struct actor *a)
{
    return victim(a, "@");
}

/* It falls asleep over the victim's lock. */
static int heir(struct actor *a)
{
    actor_name(a, "dying");
    actor_field(a, 0);
    if (actor_open(a) != 0)
        return -1;
    a->req.wait_ms = ENQ_FOREVER;
    a->place->begun = 1;
    if (actor_take(a) != 0)
        return -1;
    a->place->done = now_ns();
    return 0;
}

static int recoveries(struct actor *a, uint64_t *n)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = enq_stat(a->e, &stats);

    *n = stats.recoveries;
    return rc == ENQ_OK ? 0 : actor_failed(a, "enq_stat", rc);
}

/* Until the waiter has the lock, and somebody else the key of the pairs. */
static int after_the_kill(struct actor *a, pid_t dying, pid_t waiting)
{
    uint64_t begin = now_ns();

    kill(dying, SIGKILL);
    actor_name(a, "pairs");
    snprintf(a->field, sizeof(a->field), "key");
    a->req.wait_ms = 10000;
    int rc = actor_pairs(a, 1);
    a->req.wait_ms = 0;
    uint64_t paired = now_ns();
    if (actor_end(a->place, waiting) != 0)
        rc = -1;
    uint64_t granted = a->place->done;
    a->place->value[0] =
        (double)((granted > paired ? granted : paired) - begin);
    return rc;
}

static int one_death(struct actor *a, actor_life *dies)
{
    struct place *p = a->place;

    p->taken = 0;
    p->begun = 0;
    p->done = 0;
    pid_t dying = actor_start(p, a->index + 1, dies);
    while (dying > 0 && !p->taken && !p->failed)
        usleep(100);
    pid_t waiting = actor_start(p, a->index, heir);
    while (waiting > 0 && !p->begun && !p->failed)
        usleep(100);
    if (dying < 0 || waiting < 0 || p->failed)
        return -1;
    usleep((useconds_t)(20000 + actor_random(a, 1000)));
    return after_the_kill(a, dying, waiting);
}

/* One that did die in a latch if there is one: how many did is told as well. */
static int deaths(struct actor *a, actor_life *dies)
{
    enum { DEATHS = 6 };
    double worst[2] = {0};
    uint64_t before, after;

    if (actor_open(a) != 0)
        return -1;
    for (unsigned i = 0; i < DEATHS; i++) {
        if (recoveries(a, &before) != 0 || one_death(a, dies) != 0 ||
            recoveries(a, &after) != 0)
            return -1;
        bool inside = after > before;
        a->place->deaths++;
        a->place->inside += inside;
        if (a->place->value[0] > worst[inside])
            worst[inside] = a->place->value[0];
    }
    a->place->value[0] = worst[worst[1] > 0];
    return 0;
}

int probe_death(struct actor *a)
{
    return deaths(a, victim_of_a_key);
}

int probe_death_in_any(struct actor *a)
{
    return deaths(a, victim_of_all);
}

/* --- heartbeats --- */

int probe_heartbeat(struct actor *a)
{
    struct place *p = a->place;

    p->late_ms = 0;
    usleep(3 * BEAT_MS * 1000);
    p->value[0] = (double)p->late_ms * 1e6;
    return 0;
}
