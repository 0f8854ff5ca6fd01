/*
 * graph.c - one more request, whose search for a cycle comes through N others
 * that wait. Those do not look for cycles themselves.
 */
#include "growth.h"

static int start(struct enq *e, const char *name, enum enq_mode mode,
    const char *owner, unsigned flags, uint64_t *ticket)
{
    struct enq_grant g;

    return enq_start(e,
        ENQ_REQ(.name = name, .key = {"key"}, .mode = mode, .owner = owner,
            .wait_ms = ENQ_FOREVER, .flags = flags),
        &g, ticket);
}

static int ask(struct beside *b, const char *name, enum enq_mode mode,
    const char *owner, unsigned flags)
{
    uint64_t ticket;

    return start(b->e, name, mode, owner, flags, &ticket);
}

static void come_and_go(struct enq *e, const char *name, const char *owner,
    unsigned flags)
{
    uint64_t ticket;

    if (start(e, name, ENQ_MODE_X, owner, flags, &ticket) != ENQ_PENDING)
        abort();
    must(enq_cancel(e, ticket));
}

static void hold_key(struct beside *b, const char *name, enum enq_mode mode,
    const char *owner)
{
    must(ask(b, name, mode, owner, 0));
}

static void wait_for(struct beside *b, const char *name, enum enq_mode mode,
    const char *owner)
{
    if (ask(b, name, mode, owner, ENQ_NO_DEADLOCK) != ENQ_PENDING)
        abort();
}

/* For whom nobody waits, it need not search. */
static void wait_for_a_lock_of(struct beside *b, const char *owner)
{
    hold_key(b, "wanted", ENQ_MODE_X, owner);
    wait_for(b, "wanted", ENQ_MODE_X, "somebody");
}

/* Nobody in the queue can be told to wait in vain before "busy", who waits, has
   been looked at. */
static void hold_and_wait(struct beside *b)
{
    wait_for_a_lock_of(b, "last");
    hold_key(b, "far", ENQ_MODE_X, "far");
    hold_key(b, "shared", ENQ_MODE_X, "busy");
    wait_for(b, "far", ENQ_MODE_X, "busy");
}

void queue_behind_one_who_waits(struct beside *b)
{
    hold_and_wait(b);
    for (unsigned i = 0; i < b->n; i++)
        wait_for(b, "shared", ENQ_MODE_X, name_of(i));
}

/* As of several threads of each process. */
void queue_by_owners_that_wait_twice(struct beside *b)
{
    hold_and_wait(b);
    for (unsigned i = 0; i < b->n; i++)
        wait_for(b, "shared", ENQ_MODE_X, name_of(i / 2));
}

void queue_of_readers_and_writers(struct beside *b)
{
    hold_and_wait(b);
    for (unsigned i = 0; i < b->n; i++)
        wait_for(b, "shared", i % 2 == 0 ? ENQ_MODE_S : ENQ_MODE_X, name_of(i));
}

/* The search comes to all of the other queue at once, by their locks. */
void hold_what_those_in_another_queue_want(struct beside *b)
{
    wait_for_a_lock_of(b, "last");
    hold_key(b, "far", ENQ_MODE_X, "far");
    for (unsigned i = 0; i < b->n; i++) {
        hold_key(b, "shared", ENQ_MODE_S, name_of(i));
        wait_for(b, "far", ENQ_MODE_X, name_of(i));
    }
}

/* What is held there is read once, for all of them. */
void hold_what_those_who_wait_for_many_want(struct beside *b)
{
    for (unsigned i = 0; i < b->n; i++)
        hold_key(b, "far", ENQ_MODE_S, name_of(b->n + i));
    wait_for_a_lock_of(b, "last");
    for (unsigned i = 0; i < b->n; i++) {
        hold_key(b, "shared", ENQ_MODE_S, name_of(i));
        wait_for(b, "far", ENQ_MODE_X, name_of(i));
    }
}

void look_for_a_cycle(struct beside *b, unsigned unused)
{
    (void)unused;
    if (ask(b, "shared", ENQ_MODE_X, "last", 0) != ENQ_PENDING)
        abort();
}

static const char *key_of(unsigned i)
{
    static char text[16];

    snprintf(text, sizeof(text), "key %u", i);
    return text;
}

/* What is held has no edges, and a session that has a request that waits may hold
   all of it: a bridge does. */
void hold_much_and_wait(struct beside *b)
{
    for (unsigned i = 0; i < b->n; i++)
        hold_key(b, key_of(i), ENQ_MODE_X, "holder");
    hold_and_wait(b);
}

/* Each had one that waited for it and has gone. */
void hold_what_was_waited_for(struct beside *b)
{
    hold_much_and_wait(b);
    for (unsigned i = 0; i < b->n; i++)
        come_and_go(b->other, key_of(i), "other", ENQ_NO_DEADLOCK);
    look_for_a_cycle(b, 0); /* that nobody waits there any more is seen once */
}

/* So each has a page of its own. */
void wait_in_many_sessions(struct beside *b)
{
    struct beside one = *b;

    hold_and_wait(b);
    b->more = calloc(b->n, sizeof(*b->more));
    for (; b->n_more < b->n; b->n_more++) {
        must(enq_open(&b->more[b->n_more], b->space, &b->opts));
        one.e = b->more[b->n_more];
        hold_key(&one, key_of(b->n_more), ENQ_MODE_X, "holder");
        wait_for(&one, key_of(b->n_more), ENQ_MODE_X, "waiter");
    }
}

static void wait_for_two(struct beside *b)
{
    struct enq_req shared = {.size = sizeof(shared),
        .name = "shared",
        .key = {"key"},
        .mode = ENQ_MODE_X,
        .owner = "both",
        .wait_ms = ENQ_FOREVER};
    struct enq_req too = shared;
    const struct enq_req *reqs[] = {&shared, &too};
    struct enq_grant grants[2];
    uint64_t ticket;

    too.name = "too";
    if (enq_start_set(b->other, reqs, 2, grants, &ticket) != ENQ_PENDING)
        abort();
}

/* Those wait for owners that wait for nobody; as does the set, behind which it
   is worth a search. */
void wait_elsewhere_and_as_a_set(struct beside *b)
{
    for (unsigned i = 0; i < b->n; i++) {
        hold_key(b, key_of(i), ENQ_MODE_X, "holder");
        wait_for(b, key_of(i), ENQ_MODE_X, "waiter");
    }
    wait_for_a_lock_of(b, "last");
    hold_key(b, "shared", ENQ_MODE_X, "far");
    hold_key(b, "too", ENQ_MODE_X, "far");
    wait_for_two(b);
}

void come_behind_a_set(struct beside *b, unsigned unused)
{
    (void)unused;
    come_and_go(b->e, "shared", "last", 0);
}

/* As often as it is wanted: nobody is left in the queue. */
void look_and_go(struct beside *b, unsigned unused)
{
    (void)unused;
    come_and_go(b->e, "shared", "last", 0);
}

/* Whom not all that is held is in the way of: the queue is read. */
void look_as_a_reader(struct beside *b, unsigned unused)
{
    (void)unused;
    if (ask(b, "shared", ENQ_MODE_S, "last", 0) != ENQ_PENDING)
        abort();
}

void come_behind_one_who_waits(struct beside *b, unsigned i)
{
    if (ask(b, "shared", ENQ_MODE_X, name_of(b->n + i), 0) != ENQ_PENDING)
        abort();
}

/* Readers that all want to write: whoever looks is in a cycle with each. */
void share_and_wait_for_more(struct beside *b)
{
    hold_key(b, "shared", ENQ_MODE_S, "last");
    for (unsigned i = 0; i < b->n; i++)
        hold_key(b, "shared", ENQ_MODE_S, name_of(i));
    for (unsigned i = 0; i < b->n; i++)
        wait_for(b, "shared", ENQ_MODE_X, name_of(i));
}

void find_a_cycle(struct beside *b, unsigned unused)
{
    (void)unused;
    if (ask(b, "shared", ENQ_MODE_X, "last", 0) != ENQ_DEADLOCK)
        abort();
}
