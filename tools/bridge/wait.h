/*
 * wait.h - requests that wait: started ones, and what wants their results.
 */
#ifndef BRIDGE_WAIT_H
#define BRIDGE_WAIT_H

#include "bridge.h"

/* Memory for one before it is asked for; NULL: none. @n locks. */
struct wait *wait_make(unsigned n);
void wait_free(struct wait *w);

/* It is pending under this ticket. */
void wait_begin(struct bridge *b, struct wait *w, uint64_t ticket,
    struct conn *c);
/* Its result has come: it is the caller's, and leaves its client when that has
   been told. NULL: no such. (With several loops: route.h.) */
struct wait *wait_take(struct bridge *b, uint64_t ticket);
void wait_leave(struct wait *w);

/* The one that @c, or its session, waits for under this reqUUID; or NULL. */
struct wait *wait_of_request(struct bridge *b, const struct conn *c,
    const char *id);

/* Nobody wants it any more, or any of them. */
void wait_drop(struct bridge *b, struct wait *w);
void wait_drop_all(struct bridge *b, struct cds_list_head *waits);

/* Those whose turn did not come yet. */
void wait_drop_more(struct bridge *b);

/* Frees them, when the space is closed. */
void wait_forget_all(struct bridge *b);

#endif
