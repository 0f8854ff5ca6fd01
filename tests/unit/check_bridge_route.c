/*
 * check_bridge_route.c - which loop of a bridge is told of an event, and when.
 * What the loops have, and their mailboxes, are this program's.
 */
#include "bridge/route.h"

#include <stdlib.h>

#include "bridge/event.h"
#include "bridge/registry.h"
#include "bridge/say.h"
#include "bridge/wait.h"
#include "unit.h"

#define LOOPS 3
#define HANDLE 77

/* --- what it uses --- */

static struct bridge loops[LOOPS], *holder;
static struct share share = {.loops = loops, .n = LOOPS};
static unsigned told[LOOPS];

void event_tell(struct bridge *b, struct wait *w, const struct enq_event *event)
{
    ck_assert_ptr_null(w);
    ck_assert_uint_eq(event->grant.handle, HANDLE);
    told[b->index]++;
}

void mailbox_send(struct bridge *to, struct message *message)
{
    cds_list_add_tail(&message->node, &to->mailbox.messages);
}

struct registry *registry_make(void)
{
    return (struct registry *)&share;
}

void registry_free(struct registry *registry)
{
    ck_assert_ptr_eq(registry, &share);
}

struct bridge *registry_find(struct registry *registry, enq_handle handle)
{
    ck_assert_ptr_eq(registry, &share);
    return handle == HANDLE ? holder : NULL;
}

struct table_node *registry_wait(struct registry *registry, struct wait *w,
    uint64_t ticket)
{
    (void)registry;
    (void)w;
    (void)ticket;
    return NULL;
}

struct wait *registry_result(struct registry *registry, uint64_t ticket,
    struct table_node *early)
{
    (void)registry;
    (void)ticket;
    (void)early;
    return NULL;
}

struct wait *registry_any_wait(struct registry *registry)
{
    (void)registry;
    return NULL;
}

struct table_node *registry_any_early(struct registry *registry)
{
    (void)registry;
    return NULL;
}

void wait_free(struct wait *w)
{
    free(w);
}

void say(const char *format, ...)
{
    ck_abort_msg("%s", format);
}

/* --- the loops --- */

static void begin(void)
{
    for (unsigned i = 0; i < LOOPS; i++) {
        loops[i].share = &share;
        loops[i].index = i;
        CDS_INIT_LIST_HEAD(&loops[i].mailbox.messages);
    }
    ck_assert(route_begin(&share));
}

static void reads(unsigned i)
{
    struct cds_list_head *messages = &loops[i].mailbox.messages;

    while (!cds_list_empty(messages)) {
        struct message *first =
            cds_list_first_entry(messages, struct message, node);

        cds_list_del(&first->node);
        first->open(&loops[i], first);
    }
}

static void all_read(void)
{
    for (unsigned i = 0; i < LOOPS; i++)
        reads(i);
}

static void comes_an_event(void)
{
    const struct enq_event event = {
        .kind = ENQ_EVENT_BLOCKING, .grant = {.handle = HANDLE}};

    route_event(&loops[0], &event);
}

/* Loop @i, and no other, has been told so often. */
static void were_told(unsigned i, unsigned n)
{
    for (unsigned k = 0; k < LOOPS; k++)
        ck_assert_uint_eq(told[k], k == i ? n : 0);
}

TEST(an_event_goes_to_the_loop_that_has_the_lock)
{
    begin();
    holder = &loops[_i];
    comes_an_event();
    ck_assert(!route_needs_ticks(&loops[0]));
    all_read();
    were_told((unsigned)_i, 1);
    route_end(&share);
}

/* Its loop notes it late, though before it has read its messages twice. With _i
   another such event comes one lap after the other. */
TEST(an_event_that_comes_too_early_is_told_after_two_laps)
{
    unsigned events = (unsigned)_i + 1;

    begin();
    for (unsigned lap = 0; lap < 2; lap++) {
        if (lap < events)
            comes_an_event();
        ck_assert(route_needs_ticks(&loops[0]));
        route_tick(&loops[0]);
        all_read();
        ck_assert(route_lap_is_over(&loops[0]));
    }
    were_told(0, 0);
    holder = &loops[1];
    for (unsigned lap = 1; lap <= events; lap++) {
        ck_assert(route_needs_ticks(&loops[0]));
        route_tick(&loops[0]);
        all_read();
        were_told(1, lap);
    }
    ck_assert(!route_needs_ticks(&loops[0]));
    route_end(&share);
}

TEST(an_event_that_nobody_has_after_two_laps_is_dropped)
{
    begin();
    comes_an_event();
    for (unsigned lap = 0; lap < 3; lap++) {
        ck_assert(route_needs_ticks(&loops[0]));
        route_tick(&loops[0]);
        all_read();
    }
    ck_assert(!route_needs_ticks(&loops[0]));
    holder = &loops[1];
    route_tick(&loops[0]);
    all_read();
    were_told(0, 0);
    route_end(&share);
}

/* Nothing is decided however often it looks. */
TEST(a_lap_is_over_when_the_last_loop_has_read)
{
    begin();
    comes_an_event();
    for (unsigned lap = 0; lap < 2; lap++) {
        route_tick(&loops[0]);
        reads(1);
        for (unsigned i = 0; i < 5; i++) {
            ck_assert(!route_lap_is_over(&loops[0]));
            route_tick(&loops[0]);
        }
        ck_assert(route_needs_ticks(&loops[0]));
        reads(2);
    }
    holder = &loops[2];
    route_tick(&loops[0]);
    all_read();
    were_told(2, 1);
    route_end(&share);
}

TEST(what_is_in_doubt_at_the_end_is_freed)
{
    begin();
    for (unsigned lap = 0; lap < 3; lap++) {
        comes_an_event();
        if (lap < 2) {
            route_tick(&loops[0]);
            all_read();
        }
    }
    route_end(&share);
    ck_assert(!route_needs_ticks(&loops[0]));
    were_told(0, 0);
}

int main(void)
{
    unit_begin("bridge_route");
    ADD_LOOP(an_event_goes_to_the_loop_that_has_the_lock, LOOPS);
    ADD_LOOP(an_event_that_comes_too_early_is_told_after_two_laps, 2);
    ADD(an_event_that_nobody_has_after_two_laps_is_dropped);
    ADD(a_lap_is_over_when_the_last_loop_has_read);
    ADD(what_is_in_doubt_at_the_end_is_freed);
    return unit_end();
}
