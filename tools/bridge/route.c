/*
 * route.c - each event to the loop that it is for (see route.h).
 */
#include "route.h"

#include <stdlib.h>

#include "event.h"
#include "registry.h"
#include "say.h"
#include "wait.h"

#define LAPS 2u

#define RECENT_BITS 10

/* An event under way, to a loop or to be found one. */
struct told {
    struct message message;
    struct table_node early; /* of the registry */
    struct wait *wait;       /* whose result it is, or NULL */
    struct enq_event event;
};

/* The first loop's own: what has no receiver, by how many laps ago; and to whom
   grants went lately. A contended lock has events as soon as it is granted. */
static struct {
    struct cds_list_head doubts[LAPS + 1];
    _Atomic unsigned passing; /* loops that have the lap before them */
    struct recent {
        enq_handle handle;
        struct bridge *loop;
    } recent[1 << RECENT_BITS];
} route;

static void open_told(struct bridge *b, struct message *message)
{
    struct told *told = (struct told *)message;

    event_tell(b, told->wait, &told->event);
    free(told);
}

static void open_pass(struct bridge *b, struct message *message)
{
    (void)b;
    (void)message;
    route.passing--;
}

bool route_begin(struct share *share)
{
    for (unsigned i = 0; i <= LAPS; i++)
        CDS_INIT_LIST_HEAD(&route.doubts[i]);
    for (unsigned i = 0; i < share->n; i++)
        share->loops[i].pass.open = open_pass;
    if (share->n > 1)
        share->registry = registry_make();
    return share->n == 1 || share->registry != NULL;
}

static void forget(struct cds_list_head *doubts)
{
    struct told *told, *next;

    cds_list_for_each_entry_safe (told, next, doubts, message.node)
        free(told);
    CDS_INIT_LIST_HEAD(doubts);
}

void route_end(struct share *share)
{
    struct table_node *early;
    struct wait *w;

    for (unsigned i = 0; i <= LAPS; i++)
        forget(&route.doubts[i]);
    if (share->registry == NULL)
        return;
    while ((w = registry_any_wait(share->registry)) != NULL)
        wait_free(w);
    while ((early = registry_any_early(share->registry)) != NULL)
        free(TABLE_OF(early, struct told, early));
    registry_free(share->registry);
}

/* --- which loop is to be told --- */

static struct recent *recent_of(enq_handle handle)
{
    uint64_t hash = handle * UINT64_C(0x9e3779b97f4a7c15);

    return &route.recent[hash >> (64 - RECENT_BITS)];
}

static void note_grants(const struct wait *w, const struct enq_event *event)
{
    const struct enq_grant *grants =
        w->grants != NULL ? w->grants : &event->grant;

    for (unsigned i = 0; event->result == ENQ_OK && i < w->n; i++)
        *recent_of(grants[i].handle) =
            (struct recent){grants[i].handle, w->loop};
}

/* A loop with a grant under way finds it there before this. */
static struct bridge *receiver_of(struct bridge *b, enq_handle handle)
{
    struct bridge *loop = registry_find(b->share->registry, handle);
    const struct recent *recent = recent_of(handle);

    return loop == NULL && recent->handle == handle ? recent->loop : loop;
}

/* --- events --- */

void route_wait(struct bridge *b, struct wait *w, uint64_t ticket)
{
    struct table_node *early = registry_wait(b->share->registry, w, ticket);
    struct told *told;

    if (early == NULL)
        return;
    told = TABLE_OF(early, struct told, early);
    told->wait = w;
    mailbox_send(b, &told->message);
}

static void send(struct bridge *from, struct bridge *to, struct told *told)
{
    if (to == from)
        open_told(to, &told->message);
    else
        mailbox_send(to, &told->message);
}

static void route_result(struct bridge *b, struct told *told)
{
    struct wait *w =
        registry_result(b->share->registry, told->event.ticket, &told->early);

    if (w == NULL)
        return;
    told->wait = w;
    note_grants(w, &told->event);
    send(b, w->loop, told);
}

static void route_lock_event(struct bridge *b, struct told *told)
{
    struct bridge *to = receiver_of(b, told->event.grant.handle);

    if (to != NULL)
        send(b, to, told);
    else
        cds_list_add_tail(&told->message.node, &route.doubts[0]);
}

void route_event(struct bridge *b, const struct enq_event *event)
{
    struct told *told = calloc(1, sizeof(*told));

    if (told == NULL) {
        say("out of memory for events");
        return;
    }
    told->message.open = open_told;
    told->event = *event;
    if (event->kind == ENQ_EVENT_RESULT)
        route_result(b, told);
    else
        route_lock_event(b, told);
}

/* --- laps --- */

bool route_lap_is_over(const struct bridge *b)
{
    return b->share->n == 1 || route.passing == 0;
}

void route_lap_begin(struct bridge *b)
{
    struct share *share = b->share;

    route.passing = share->n - 1;
    for (unsigned i = 1; i < share->n; i++)
        mailbox_send(&share->loops[i], &share->loops[i].pass);
}

static void decide(struct bridge *b, struct cds_list_head *doubts)
{
    struct told *told, *next;

    cds_list_for_each_entry_safe (told, next, doubts, message.node) {
        struct bridge *to = receiver_of(b, told->event.grant.handle);

        cds_list_del(&told->message.node);
        if (to != NULL)
            send(b, to, told);
        else
            free(told);
    }
}

bool route_needs_ticks(const struct bridge *b)
{
    if (b->index != 0 || b->share->n == 1)
        return false;
    for (unsigned i = 0; i <= LAPS; i++)
        if (!cds_list_empty(&route.doubts[i]))
            return true;
    return false;
}

/* What the watchdog has begun is a lap as well; one that is under way is not
   counted for what came meanwhile. */
void route_tick(struct bridge *b)
{
    if (!route_needs_ticks(b) || !route_lap_is_over(b))
        return;
    decide(b, &route.doubts[LAPS]);
    for (unsigned i = LAPS; i > 0; i--) {
        cds_list_splice(&route.doubts[i - 1], &route.doubts[i]);
        CDS_INIT_LIST_HEAD(&route.doubts[i - 1]);
    }
    route_lap_begin(b);
}
