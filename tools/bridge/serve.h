/*
 * serve.h - the requests of a connection, and what serve.c and the files of its
 * operations share.
 */
#ifndef BRIDGE_SERVE_H
#define BRIDGE_SERVE_H

#include "bridge.h"
#include "reply.h"

/* A request under way. */
struct serving {
    struct bridge *b;
    struct conn *c;
    struct ask *ask;
    struct reply reply;
    uint64_t request; /* hash of its reqUUID */
};

/* The handle that the request names, by itself or by an id. ENQ_OK, or why
   there is none. */
int serving_handle(const struct serving *s, enq_handle *handle);

/* The id under which the table knows what this client calls @uuid. @out:
   ENQ_ID_BYTES. NULL: too long. */
const char *serving_id(const struct serving *s, const char *uuid, char *out);

/* It has been done: what is asked again is answered so. */
void serving_done(const struct serving *s, int result,
    const struct enq_grant *grant);

/* A grant as the answer: remembered, and told. */
void serving_granted(const struct serving *s, const struct enq_grant *grants,
    unsigned n);

/* OP_LOCK and OP_SET. */
void serve_lock(struct serving *s);
void serve_set(struct serving *s);

/* For a wait whose result has come: what became its session's. False: it could
   not be kept. */
bool wait_granted(struct bridge *b, const struct wait *w,
    const struct enq_grant *grants);

/* A request that is whole: its values, and the bytes in which they lie. */
void serve(struct bridge *b, struct conn *c, struct scan_value *values,
    char *bytes);
/* One that lies in b->ask. */
void serve_asked(struct bridge *b, struct conn *c);

#endif
