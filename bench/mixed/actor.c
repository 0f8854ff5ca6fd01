/*
 * actor.c - a process in a place: how it starts and ends, and its request.
 */
#include "mixed/mixed.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* The first of a place to fail says why. */
int actor_failed(struct actor *a, const char *call, int rc)
{
    struct place *p = a->place;

    if (atomic_exchange(&p->failed, 1) == 0)
        snprintf(p->why, sizeof(p->why), "%s of %s %s by %s: %s (%s)", call,
            a->name, a->field, a->owner, enq_result_name(rc), enq_why());
    return -1;
}

pid_t actor_start(struct place *p, unsigned index, actor_life *life)
{
    pid_t parent = getpid(), pid;

    fflush(NULL);
    pid = fork();
    if (pid < 0)
        crew_complain("fork: %s", strerror(errno));
    if (pid != 0)
        return pid;
    crew_settle(index, parent);
    setpriority(PRIO_PROCESS, 0, -20); /* as root: before what else runs here */
    struct actor a = {.place = p, .index = index};
    a.random = (uint64_t)getpid() * UINT64_C(0x9e3779b97f4a7c15) | 1;
    a.req = (struct enq_req){.size = sizeof(a.req),
        .name = a.name,
        .key = {a.field},
        .mode = ENQ_MODE_X,
        .owner = a.owner,
        .ttl_ms = ENQ_FOREVER};
    actor_owner(&a, "actor %d", (int)getpid());
    int rc = life(&a);
    enq_close(a.e);
    if (rc == 0)
        p->ended_well = getpid();
    _exit(rc == 0 ? 0 : EXIT_FAILED);
}

/* Not by wait(): where many look at a dead process in /proc, the kernel may
   take seconds to give it back, and would let us wait for that. */
void actor_await_end(pid_t pid)
{
    while (kill(pid, 0) == 0 && bench_signal == 0)
        usleep(200);
}

int actor_end(struct place *p, pid_t pid)
{
    actor_await_end(pid);
    return p->ended_well == pid ? 0 : -1;
}

int actor_open(struct actor *a)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = a->place->slots};
    int rc = enq_open(&a->e, a->place->address, &opts);

    return rc == ENQ_OK ? 0 : actor_failed(a, "enq_open", rc);
}

uint64_t actor_random(struct actor *a, uint64_t below)
{
    a->random ^= a->random << 13;
    a->random ^= a->random >> 7;
    a->random ^= a->random << 17;
    return a->random % below;
}

void actor_name(struct actor *a, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(a->name, sizeof(a->name), format, args);
    va_end(args);
}

void actor_owner(struct actor *a, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(a->owner, sizeof(a->owner), format, args);
    va_end(args);
}

void actor_field(struct actor *a, uint64_t number)
{
    snprintf(a->field, sizeof(a->field), "%llu", (unsigned long long)number);
}

int actor_take(struct actor *a)
{
    int rc = enq_lock(a->e, &a->req, &a->grant);

    return rc == ENQ_OK ? 0 : actor_failed(a, "enq_lock", rc);
}

int actor_give(struct actor *a)
{
    int rc = enq_unlock(a->e, a->grant.handle, a->grant.token);

    return rc == ENQ_OK ? 0 : actor_failed(a, "enq_unlock", rc);
}

int actor_pairs(struct actor *a, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (actor_take(a) != 0 || actor_give(a) != 0)
            return -1;
    return 0;
}

uint64_t busy_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

int actor_start_wait(struct actor *a, uint64_t *ticket)
{
    struct enq_grant unused;

    a->req.wait_ms = ENQ_FOREVER;
    int rc = enq_start(a->e, &a->req, &unused, ticket);
    a->req.wait_ms = 0;
    return rc == ENQ_PENDING ? 0 : actor_failed(a, "enq_start", rc);
}
