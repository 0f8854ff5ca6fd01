/*
 * lock_event.h - wait: events of held locks, for sessions that listen.
 *
 * The events stand in the entries: a lock that was taken away is kept as GONE,
 * one that somebody waits for is ASKED. A session that was told of it sets
 * TOLD, or NEAR where the ttl is near its end. So nothing is lost when the
 * listener is late, and nothing is told twice: a notification (notify.h) only
 * says where to look.
 */
#ifndef WAIT_LOCK_EVENT_H
#define WAIT_LOCK_EVENT_H

#include "store/walk.h"
#include "store/watch.h"

enum lock_event_kind {
    LOCK_EVENT_NONE,
    LOCK_EVENT_GONE,  /* result says why; owner: of the promotion it lost to */
    LOCK_EVENT_ASKED, /* a request waits for it: owner: of that */
    LOCK_EVENT_NEAR,  /* the last quarter of its ttl, at most ten seconds */
};

struct lock_event {
    enum lock_event_kind kind;
    int result;
    enq_handle handle;
    uint64_t token;
    char owner[ENQ_OWNER_BYTES];
};

/* The session wants to hear of its held locks, from now until its end. */
void lock_event_listen(struct session *s);
void lock_event_unlisten(struct session *s);

/*
 * What is new about an entry in this use (generation) of it, if it is this
 * session's: marked as told. An own lock that has run out is taken out of the
 * table. Ask again until there is nothing more (LOCK_EVENT_NONE); then `*next`
 * is lowered to when there may be.
 */
void lock_event_take(struct session *s, struct thread *t, struct entry *e,
    uint32_t generation, struct lock_event *n, mono_t *next);

/* One that it had before it listened: is there anybody waiting for it? */
void lock_event_greet(struct session *s, struct thread *t, struct entry *e,
    uint64_t state);

/* When a lock with this deadline and ttl is to be looked at first. */
mono_t lock_event_near(int64_t deadline_ns, int64_t ttl_ms);

/* Shows each entry that may be this session's. */
void lock_event_each(struct session *s, slab_see_fn *see, void *context);

#endif
