/*
 * actor.c - the survivors: one that waits for the victim's locks, and one that
 * takes them whenever it can.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "step.h"

#define ROUNDS 12

int want_lock(struct enq *e, const struct want *want, struct enq_grant *g)
{
    struct enq_req req = {.size = sizeof(req),
        .name = want->name,
        .mode = want->mode,
        .on_death = want->on_death,
        .owner = want->owner,
        .id = want->id[0] == '\0' ? NULL : want->id,
        .wait_ms = want->wait_ms,
        .ttl_ms = want->ttl_ms};

    for (unsigned i = 0; i < 2 && want->key[i][0] != '\0'; i++)
        req.key[i] = want->key[i];
    return enq_lock(e, &req, g);
}

bool want_is_of_key(const struct want *want)
{
    return strcmp(want->name, "n") == 0;
}

void actor_ask(struct actor *a, enum task task, const struct want *want)
{
    if (&a->want != want)
        a->want = *want;
    a->task = task;
    a->rc = ENQ_OK;
    a->token = 0;
    a->said[0] = '\0';
    STORE(a->sleeps, 0);
    ADD(a->asked, 1);
    bell_ring(&a->bell);
}

static void complain(struct actor *a, int rc, const char *what)
{
    if (a->said[0] != '\0')
        return;
    a->rc = rc;
    snprintf(a->said, sizeof(a->said), "%s: %s (%s)", what, enq_result_name(rc),
        enq_why());
}

/* While one of the survivors holds the key exclusively, no other does. */
static void be_inside(struct actor *a, int by)
{
    bool alone = a->want.mode == ENQ_MODE_X || a->want.mode == ENQ_MODE_E;

    if (!alone || !want_is_of_key(&a->want))
        return;
    if (ADD(ctl->inside, (uint32_t)by) != (by > 0 ? 0u : 1u))
        complain(a, ENQ_BUSY, "two hold it at once");
}

static void had(struct actor *a, struct enq *e, const struct enq_grant *g)
{
    int rc;

    if (g->token <= a->token)
        complain(a, ENQ_OK, "the token has not grown");
    a->token = g->token;
    be_inside(a, 1);
    sched_yield(); /* let the others try */
    be_inside(a, -1);
    rc = enq_unlock(e, g->handle, g->token);
    if (rc != ENQ_OK)
        complain(a, rc, "unlock");
}

static void do_wait(struct actor *a, struct enq *e)
{
    struct enq_grant g;
    int rc = want_lock(e, &a->want, &g);

    a->answered_us = now_us();
    if (rc == ENQ_OK)
        had(a, e, &g);
    else if (rc == ENQ_CANCELLED)
        a->rc = rc;
    else
        complain(a, rc, "the waiter's lock");
}

static void do_barge(struct actor *a, struct enq *e)
{
    struct enq_grant g;

    for (int i = 0; i < ROUNDS; i++) {
        int rc = want_lock(e, &a->want, &g);

        if (rc == ENQ_OK)
            had(a, e, &g);
        else if (rc != ENQ_BUSY)
            complain(a, rc, "the barger's lock");
    }
}

/* Registers this thread and takes a slab, so that what the controller counts
   is the same at all times. */
static bool settle_in(struct enq *e)
{
    struct enq_grant g;

    return enq_lock(e, ENQ_REQ(.name = "home", .mode = ENQ_MODE_S), &g) ==
        ENQ_OK &&
        enq_unlock(e, g.handle, g.token) == ENQ_OK;
}

void actor_main(struct actor *a, const char *space)
{
    uint32_t done = 0;
    struct enq *e;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    trap_count_sleeps(&a->sleeps, NULL);
    if (enq_open(&e, space, NULL) != ENQ_OK || !settle_in(e))
        _exit(1);
    for (;;) {
        STORE(a->answered, done);
        bell_ring(&ctl->bell);
        while (!bell_await(&a->bell, &a->asked, done + 1, 1000))
            continue;
        if (a->task == TASK_WAIT)
            do_wait(a, e);
        else if (a->task == TASK_BARGE)
            do_barge(a, e);
        else
            break;
        done++;
    }
    enq_close(e);
    _exit(0);
}
