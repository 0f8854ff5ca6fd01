/*
 * listen.c - one that is notified: a living process, it listens to what becomes
 * of its locks, and has a request that no thread waits for.
 *
 * What it must have been told follows from the table: of a lock of its own that
 * is gone, that it is gone; of one that has a waiter, that it has one; of a
 * request that may go, its result. The thread that was to notify it may have
 * died before it did.
 */
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "crash.h"
#include "recovery/reap.h"

/* An event of a held lock, where the one that was to notify has died: a round of
   its helper thread, and a busy machine. Where all live, and of a request that
   may go: P3, as for waiting threads. */
#define EVENT_MS 1200
#define PROMPT_MS 200
/* An own event, when it is not waited for by name. */
#define NEXT_MS 1000

/* --- in the process that listens --- */

static struct sound *sound_of(struct ear *ear, const struct enq_event *event)
{
    for (unsigned i = 0; i < ear->n; i++) {
        struct sound *x = &ear->of[i];

        if (event->ticket != 0 ? x->ticket == event->ticket
                               : x->handle == event->grant.handle)
            return x;
    }
    return NULL;
}

static void note_event(struct box *box, const struct enq_event *event)
{
    struct sound *x = sound_of(&box->ear, event);
    uint32_t times = 1;

    if (x == NULL) {
        complain(box, "an event (%d) of a lock that was never had",
            event->kind);
        return;
    }
    switch (event->kind) {
    case ENQ_EVENT_RESULT:
        x->refused = event->result != ENQ_OK;
        times = bump(&x->results);
        break;
    case ENQ_EVENT_EXPIRED:
    case ENQ_EVENT_LOST:
        times = bump(&x->gone);
        break;
    case ENQ_EVENT_BLOCKING:
        times = bump(&x->asked);
        break;
    default:
        break;
    }
    if (times > 1)
        complain(box, "an event (%d) came twice", event->kind);
}

/* What it has, and what it waits for; under the handles of the table. */
static void note_locks(struct actor *a)
{
    static struct enq_info info[LENGTH(a->box->ear.of)];
    struct ear *ear = &a->box->ear;
    size_t n = 0;

    enq_list(a->e, NULL, a->owner, info, LENGTH(info), &n);
    for (size_t i = 0; i < n && i < LENGTH(info); i++)
        ear->of[i] = (struct sound){.handle = info[i].handle,
            .ticket = info[i].waiting && i == 0 ? a->ticket : 0,
            .part = info[i].waiting && i > 0};
    ear->n = (uint32_t)n;
    store(&ear->ready, 1);
    box_ring(a->box);
}

int hear(struct actor *a)
{
    struct pollfd fd = {.fd = enq_fd(a->e), .events = POLLIN};
    struct enq_event event;

    note_locks(a);
    for (;;) {
        poll(&fd, 1, -1);
        while (enq_next(a->e, &event) == ENQ_OK) {
            note_event(a->box, &event);
            box_ring(a->box);
        }
    }
}

/* The next event of one's own, if one comes soon. */
int hear_next(struct actor *a)
{
    int64_t end = now_ns() + NEXT_MS * INT64_C(1000000);
    struct enq_event event;

    while (enq_next(a->e, &event) != ENQ_OK && now_ns() < end)
        nanosleep(&(struct timespec){0, 300000}, NULL);
    return ENQ_OK;
}

/* --- on the teller's side --- */

/* A session that has just begun to listen looks at all of its locks again soon,
   and would be told without a notification. Not each time: that takes a while. */
static void let_it_settle(const struct plan *plan)
{
    if (plan->k[0] % 8 == 0 && plan->name == NULL)
        nanosleep(&(struct timespec){0, 70000000}, NULL);
}

bool listener_start(struct scene *s, const struct plan *plan)
{
    struct box *box = s->box;
    struct victim *v = &box->victims[LISTENER];

    memset(&box->ear, 0, sizeof(box->ear));
    if (plan->state->listens[0] == '\0')
        return true;
    v->k = 0;
    v->name = NULL;
    v->owner = "l";
    v->all_threads = v->stays = false;
    if (!victim_start(box, LISTENER, plan->state->listens, "H", false))
        return false;
    victim_go(box, LISTENER);
    while (!load(&box->ear.ready) && box->complaint[0] == '\0') {
        uint32_t event = load(&box->event);

        if (!load(&box->ear.ready))
            word_wait(&box->event, event, 20000000);
    }
    let_it_settle(plan);
    return box->complaint[0] == '\0';
}

static const struct enq_info *find(const struct look *l, enq_handle handle)
{
    for (size_t i = 0; i < l->n; i++)
        if (l->info[i].handle == handle)
            return &l->info[i];
    return NULL;
}

/* What it ought to hear; or NULL. Of a set, its first hears for all. */
static const char *unheard(const struct look *l, const struct ear *ear,
    const struct sound *x, int64_t *most_ms)
{
    const struct enq_info *info = find(l, x->handle);
    const struct sound *first = x->part ? &ear->of[0] : x;

    if (load(&first->refused) || (x->part && !load(&first->results)))
        return NULL;
    if (x->ticket != 0 && !load(&x->results)) {
        *most_ms = PROMPT_MS;
        return info == NULL || !info->waiting || may_go(l, info)
            ? "the result of its request"
            : NULL;
    }
    if (info == NULL)
        return load(&x->gone) ? NULL : "that its lock is gone";
    return !load(&x->asked) && is_asked_for(l, info) ? "that it is asked for"
                                                     : NULL;
}

/* Heard before we looked, and there nevertheless. */
static void check_false_alarm(struct scene *s, const struct look *l,
    const uint32_t *gone)
{
    for (unsigned i = 0; i < s->box->ear.n; i++)
        if (gone[i] && find(l, s->box->ear.of[i].handle) != NULL)
            complain(s->box,
                "one is told that its lock is gone, and it is not");
}

static const char *first_unheard(struct scene *s, struct patience *p)
{
    static struct look l;
    struct ear *ear = &s->box->ear;
    uint32_t gone[LENGTH(ear->of)];
    const char *what = NULL;
    int64_t most_ms;
    bool death = s->box->victims[0].at != NULL;

    for (unsigned i = 0; i < ear->n; i++)
        gone[i] = load(&ear->of[i].gone);
    if (!look_around(s, &l, false))
        return NULL;
    check_false_alarm(s, &l, gone);
    for (unsigned i = 0; i < ear->n && what == NULL; i++) {
        most_ms = death ? EVENT_MS : PROMPT_MS;
        what = unheard(&l, ear, &ear->of[i], &most_ms);
        if (what != NULL && patience_is_over(p, most_ms))
            complain_of(s->box, FAULT_STUCK,
                "a listener does not hear %s, for %lld ms", what,
                (long long)(p->ns / 1000000));
    }
    return what;
}

/* Until it has heard all that there is to hear. */
bool listener_heard(struct scene *s)
{
    struct patience p = patience_begin();

    for (;;) {
        uint32_t event = load(&s->box->event);

        if (first_unheard(s, &p) == NULL || s->box->complaint[0] != '\0')
            break;
        patience_pause(&p, s->box, event);
    }
    return s->box->complaint[0] == '\0';
}

void listener_end(struct scene *s)
{
    struct enq *e = s->teller.e;

    if (s->box->victims[LISTENER].pid == 0)
        return;
    victim_kill(s->box, LISTENER);
    reap_dead(&e->session, thread_enter(e->map));
}
