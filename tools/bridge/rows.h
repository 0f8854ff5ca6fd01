/*
 * rows.h - what a list says: entries, edges and counters as JSON.
 */
#ifndef BRIDGE_ROWS_H
#define BRIDGE_ROWS_H

#include "bridge.h"
#include "reply.h"

struct rows_wish {
    char *name, *owner; /* NULL: all */
    size_t most;
    char peer[PEER_BYTES]; /* whose ids are told as it knows them; "" */
};

/* Copies both texts, of which either may be NULL. False: no memory. */
bool rows_wish(struct rows_wish *w, const char *name, const char *owner);
void rows_forget(struct rows_wish *w);

/* The reply to OP_LIST, OP_GRAPH, OP_STAT or OP_DOCTOR. By any thread. */
void rows_make(struct enq *space, const struct rows_wish *w,
    const struct reply *r);

#endif
