/*
 * notice.h - wait: what a session that listens is to hear of its locks.
 *
 * The news stands in the entries: one that was taken away is kept as GONE, one
 * that somebody waits for is ASKED. A session that has heard of it sets TOLD,
 * or NEAR where its ttl is near its end. So nothing is lost when the listener
 * is late, and nothing is told twice: a call (call.h) only says where to look.
 */
#ifndef WAIT_NOTICE_H
#define WAIT_NOTICE_H

#include "store/watch.h"

enum notice_kind {
    NOTICE_NONE,
    NOTICE_GONE,  /* result says why; of a lock lost to a promotion, to whom */
    NOTICE_ASKED, /* somebody waits for it: who */
    NOTICE_NEAR,  /* the last quarter of its ttl, at most ten seconds */
};

struct notice {
    enum notice_kind kind;
    int result;
    enq_handle handle;
    uint64_t token;
    char owner[ENQ_OWNER_BYTES];
};

/* The session wants to hear of its held locks, from now until its end. */
void notice_listen(struct session *s);
void notice_unlisten(struct session *s);

/*
 * What is new about an entry in this use (generation) of it, if it is this
 * session's: marked as told. An own lock that has run out is taken out of the
 * table. Ask again until there is nothing more (NOTICE_NONE); then `*next` is
 * lowered to when there may be.
 */
void notice_take(struct session *s, struct thread *t, struct entry *e,
    uint32_t generation, struct notice *n, mono_t *next);

/* One that it had before it listened: is there anybody waiting for it? */
void notice_greet(struct session *s, struct thread *t, struct entry *e,
    uint64_t state);

/* When a lock with this deadline and ttl is to be looked at first. */
mono_t notice_near(int64_t deadline_ns, int64_t ttl_ms);

/* Shows each entry that may be this session's. */
void notice_each(struct session *s, slab_see_fn *see, void *context);

#endif
