/*
 * session.h - remote sessions: whose locks are theirs, and for how long.
 *
 * A session outlives its connection by its grace period, and this bridge by
 * whatever its locks do: each of them bears in the table, as the peer for whom
 * it is held (enq_req.peer),
 *
 *	10.1.2.3#NAME.GRACE.DEATH.MEMBER.REQUEST
 *
 * so that another bridge, which takes them over (left.h), finds the sessions
 * again, and knows which request each lock was the answer to. In the
 * table all are LEASE, or KEEP where that was asked for: the death of a bridge
 * ends no lock. What is RELEASE to the client the bridge gives back, when the
 * session ends.
 *
 * What a session has adopted was made by others, and has a number in place of
 * that (tag_heir).
 *
 * Without a session: 10.1.2.3, and #wMS where the request said how long it
 * would wait, which enqueue-server's list tells.
 */
#ifndef BRIDGE_SESSION_H
#define BRIDGE_SESSION_H

#include "bridge.h"

struct joined {
    char id[SESSION_BYTES]; /* for its client, and nobody else */
    bool resumed;           /* it is the one named */
};

/* @ask: of hello. Joins @c to a session: the one named, or a new one. NULL, or
   why not: there are too many, no memory, no room in the table. */
const char *session_join(struct bridge *b, struct conn *c,
    const struct ask *ask, struct joined *joined);
/* Its connection is gone: the grace period begins. */
void session_leave(struct bridge *b, struct session *s);
/* It is over (over.h), and has nothing any more. */
void session_forget(struct bridge *b, struct session *s);

/* One that a bridge had which is gone, without a connection; also beyond the
   limit, as its locks are there. NULL: no memory. */
struct tag_found;
struct session *session_inherit(struct bridge *b, const struct tag_found *tag,
    int64_t grace_ms);
int64_t session_grace(const struct bridge *b, int64_t grace_ms);

/* Frees them; their locks stay. */
void session_forget_all(struct bridge *b);
/* Sessions and connections whose time is over. */
void session_tick(struct bridge *b);

/* --- locks --- */

struct held *held_find(struct bridge *b, enq_handle handle);
/* Before locks are asked for: is there memory for so many more? A lock that is
   granted can always be noted then, and nobody is told of one that is not. */
bool held_room(struct bridge *b, unsigned n);
extern const char held_no_room[]; /* in words */
/* There is room for it. */
void held_add(struct bridge *b, struct session *s, const struct held *what);
void held_remove(struct bridge *b, struct held *h);

/* By whatever client, of whatever loop's session, if any: another mode, with
   another token (0: the same); given back; how is it? */
void held_change(struct bridge *b, enq_handle handle, uint64_t token,
    uint8_t mode);
void held_gone(struct bridge *b, enq_handle handle);
bool held_look(struct bridge *b, enq_handle handle, uint64_t *token,
    uint8_t *mode);
/* Whose is it, as far as this bridge knows? */
enum held_by { HELD_BY_NO_SESSION, HELD_BY_THIS, HELD_BY_ANOTHER };
enum held_by held_by(struct bridge *b, const struct session *s,
    enq_handle handle);

/* The locks that a request has got: of one asked again. How many. */
unsigned held_of_request(struct bridge *b, const struct session *s,
    uint64_t request, struct enq_grant *grants, unsigned most);

/* --- what has been done --- */

struct done {
    uint64_t request, token;
    enq_handle handle;
    int result;
    uint8_t op;
};

void done_note(struct session *s, const struct done *what);
const struct done *done_find(const struct session *s, uint64_t request,
    enum op op);

#endif
