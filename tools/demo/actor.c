/*
 * actor.c - the people of the story: one process each, with one owner, that
 * does one thing at a time as ordered through the shared page. What an actor
 * answers is what its own call returned, with its own times.
 */
#include "demo.h"

#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PATIENCE_MS = 10000, TICK_MS = 50 };

static int act(struct enq *e, struct actor *a)
{
    const struct order *o = &a->order;
    struct answer *w = &a->answer;

    switch (o->verb) {
    case DO_LOCK:
        return enq_lock(e,
            ENQ_REQ(.name = o->name, .key = {o->key}, .mode = o->mode,
                .owner = a->owner, .wait_ms = o->wait_ms, .ttl_ms = o->ttl_ms),
            &w->grant);
    case DO_UNLOCK:
        return enq_unlock(e, o->grant.handle, o->grant.token);
    default:
        return enq_promote(e, o->grant.handle, o->grant.token, &w->grant);
    }
}

static void answer(struct enq *e, struct actor *a)
{
    struct answer *w = &a->answer;

    memset(w, 0, sizeof(*w));
    while (now_ns() < a->order.at_ns)
        continue; /* to race with another one, asleep would be late */
    w->began_ns = now_ns();
    w->rc = act(e, a);
    w->ended_ns = now_ns();
    snprintf(w->why, sizeof(w->why), "%s", w->rc == 0 ? "" : enq_why());
}

static _Noreturn void actor_run(struct actor *a)
{
    struct enq *e;

    a->answer.rc = enq_open(&e, a->space, NULL);
    if (a->answer.rc != ENQ_OK) {
        snprintf(a->answer.why, TEXT_BYTES, "%s", enq_why());
        sem_post(&a->done);
        _exit(EXIT_BROKEN);
    }
    for (;;) {
        sem_post(&a->done);
        while (sem_wait(&a->go) != 0)
            continue;
        if (a->order.verb == DO_LEAVE)
            break;
        answer(e, a);
    }
    enq_close(e);
    _exit(0);
}

void actor_begin(struct actor *a, struct order o)
{
    a->order = o;
    sem_post(&a->go);
}

static struct timespec in_ms(uint64_t ms)
{
    uint64_t until = now_ns() + ms * 1000000;

    return (struct timespec){
        .tv_sec = (time_t)(until / 1000000000u),
        .tv_nsec = (long)(until % 1000000000u),
    };
}

static bool has_ended(struct actor *a)
{
    if (waitpid(a->pid, NULL, WNOHANG) != a->pid)
        return false;
    say_alarm("%s (process %d) has ended before its time", a->owner,
        (int)a->pid);
    a->pid = 0;
    return true;
}

int actor_end(struct actor *a)
{
    for (int ms = 0; ms < PATIENCE_MS; ms += TICK_MS) {
        struct timespec tick = in_ms(TICK_MS);
        if (sem_clockwait(&a->done, CLOCK_MONOTONIC, &tick) == 0) {
            if (a->answer.rc >= 0)
                return 0;
            say_alarm("%s: %s: %s", a->owner, enq_result_name(a->answer.rc),
                a->answer.why);
            return -1;
        }
        if (stage_signal() != 0 || has_ended(a))
            return -1;
    }
    say_alarm("%s (process %d) gives no answer for %d s", a->owner, (int)a->pid,
        PATIENCE_MS / 1000);
    return -1;
}

int actor_do(struct actor *a, struct order o)
{
    actor_begin(a, o);
    return actor_end(a);
}

static int begin_as(struct actor *a, char owner)
{
    a->owner[0] = owner;
    sem_init(&a->go, 1, 0);
    sem_init(&a->done, 1, 0);
    pid_t pid = stage_fork();
    if (pid == 0)
        actor_run(a);
    a->pid = pid; /* the parent alone writes it: it will be killed */
    return pid < 0 ? -1 : actor_end(a);
}

int actors_begin(struct stage *st)
{
    for (unsigned i = 0; i < ACTORS; i++) {
        struct actor *a = &st->page->actors[i];
        snprintf(a->space, sizeof(a->space), "%s", stage_space());
        if (begin_as(a, (char)('A' + i)) != 0)
            return -1;
    }
    return 0;
}

int remote_begin(struct stage *st)
{
    struct actor *r = &st->page->actors[REMOTE];

    snprintf(r->space, sizeof(r->space), "tcp://127.0.0.1:%u", st->port);
    return begin_as(r, 'R');
}

void actors_end(struct stage *st)
{
    for (unsigned i = 0; i < ALL_ACTORS; i++) {
        struct actor *a = &st->page->actors[i];
        int status = 0;
        if (a->pid == 0)
            continue;
        actor_begin(a, (struct order){.verb = DO_LEAVE});
        while (waitpid(a->pid, &status, 0) < 0 && stage_signal() == 0)
            continue;
        if (stage_signal() != 0)
            return; /* stage_end() ends them */
        a->pid = 0;
        if (status != 0)
            broken(st->page, "%s did not end well (status %#x)", a->owner,
                (unsigned)status);
    }
}
