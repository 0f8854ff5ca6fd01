/*
 * start.c - the crowd of a place is started, step by step, and ended.
 */
#include "mixed/mixed_run.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { LATE_S = 600, END_S = 20, TRAFFIC = 3, MORE_MAX = 64 };

bool crowd_failed(const struct crowd *c)
{
    if (!c->place->failed)
        return false;
    crew_complain("%s", c->place->why);
    return true;
}

/* All that were started are where they belong. */
static int await_ready(struct crowd *c, unsigned n)
{
    uint64_t late = now_ns() + LATE_S * UINT64_C(1000000000);

    while (c->place->ready < n)
        if (crowd_failed(c) || crew_pause(0.001) != 0)
            return -1;
        else if (now_ns() > late) {
            crew_complain("the crowd is not ready after %d s", LATE_S);
            return -1;
        }
    return 0;
}

static int start(struct crowd *c, enum kind kind, actor_life *life, unsigned n)
{
    for (unsigned i = 0; i < n; i++) {
        pid_t pid = actor_start(c->place, i, life);
        if (pid < 0)
            return -1;
        c->kinds[c->n] = kind;
        c->pids[c->n++] = pid;
    }
    return 0;
}

/* Who asks for all of a name comes first, as each of these requests looks at all
   of the table; then who holds, and then who waits. */
static int start_all(struct crowd *c)
{
    struct place *p = c->place;

    if (start(c, KIND_PENDING, any_life, 1) != 0 || await_ready(c, c->n) != 0 ||
        start(c, KIND_ATTACHED, holder_life, p->holders) != 0 ||
        await_ready(c, c->n) != 0)
        return -1;
    pid_t dying = actor_start(p, 0, leave_orphans);
    if (dying < 0 || actor_end(p, dying) != 0 || crowd_failed(c))
        return -1;
    if (start(c, KIND_PENDING, passer_life, p->passers) != 0 ||
        start(c, KIND_PENDING, graph_life, 1) != 0 ||
        start(c, KIND_PENDING, waiter_life, p->waiters) != 0 ||
        await_ready(c, c->n) != 0 ||
        start(c, KIND_ATTACHED, queuer_life, p->queuers) != 0 ||
        start(c, KIND_ATTACHED, idler_life, p->idlers) != 0 ||
        start(c, KIND_TRAFFIC, watch_life, 1) != 0 || await_ready(c, c->n) != 0)
        return -1;
    p->stirred = 1;
    if (start(c, KIND_TRAFFIC, traffic_life, TRAFFIC) != 0)
        return -1;
    return start(c, KIND_TRAFFIC, reaper_life, 1);
}

static struct place *place_new(unsigned which, const struct mixed_options *o)
{
    struct place *p = mmap(NULL, sizeof(*p), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    bool all = which > 0;

    if (p == MAP_FAILED)
        return NULL;
    snprintf(p->address, sizeof(p->address), "%s-%u", crew_space(), which);
    p->waits = all ? o->waits : TEN;
    p->held = all ? o->held : TEN;
    p->procs = all ? (unsigned)o->procs : TEN;
    p->names = all ? (unsigned)o->names : TEN;
    place_share_out(p);
    return p;
}

int crowd_start(struct crowd *c, unsigned which, const struct mixed_options *o)
{
    struct place *p = place_new(which, o);
    size_t most = p == NULL ? 0 : p->procs + MORE_MAX;

    *c = (struct crowd){.place = p};
    c->pids = calloc(most, sizeof(*c->pids));
    c->kinds = calloc(most, sizeof(*c->kinds));
    if (p == NULL || c->pids == NULL || c->kinds == NULL) {
        crew_complain("out of memory");
        return -1;
    }
    return start_all(c);
}

/* All are killed before one is waited for, as those that live take the
   processors; its name goes first, so that nobody mends what is to end. */
void crowd_end(struct crowd *c)
{
    if (c->place == NULL)
        return;
    enq_unlink(c->place->address);
    for (unsigned i = 0; i < c->n; i++)
        kill(c->pids[i], SIGKILL);
    uint64_t late = now_ns() + END_S * UINT64_C(1000000000);
    for (unsigned i = 0; i < c->n; i++)
        while (kill(c->pids[i], 0) == 0 && now_ns() < late)
            usleep(200);
    free(c->pids);
    free(c->kinds);
    munmap(c->place, sizeof(*c->place));
    c->place = NULL;
}

uint64_t crowd_kind_cpu_ns(const struct crowd *c, enum kind kind)
{
    uint64_t all = 0;
    struct timespec t;
    clockid_t clock;

    for (unsigned i = 0; i < c->n; i++)
        if (c->kinds[i] == kind &&
            clock_getcpuclockid(c->pids[i], &clock) == 0 &&
            clock_gettime(clock, &t) == 0)
            all += (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
    return all;
}
