/*
 * registry.h - whose locks and whose pending requests are at which loop.
 *
 * Requests may name any lock, also one of a session of another loop, and events
 * comes to the first loop only. So with several loops each held lock and each
 * wait stands here as well. With one loop there is no registry.
 *
 * A struct held is its loop's. But its token and mode change with the lock,
 * whichever client changes that, and before the client is told; its end is
 * marked, and then written to its loop, which removes it. A part's mutex guards
 * that it stays while it is changed.
 */
#ifndef BRIDGE_REGISTRY_H
#define BRIDGE_REGISTRY_H

#include "bridge.h"

/* NULL: no memory. */
struct registry *registry_make(void);
void registry_free(struct registry *registry);

/* --- held locks --- */

void registry_add(struct bridge *b, struct held *h);
void registry_remove(struct bridge *b, struct held *h);
/* Whose it is; NULL: no session's, or it has not come to be one's yet. */
struct bridge *registry_find(struct registry *registry, enq_handle handle);

/* A lock of another loop's: if it is one. */
void registry_change(struct registry *registry, enq_handle handle,
    uint64_t token, uint8_t mode);
void registry_gone(struct registry *registry, enq_handle handle);
bool registry_look(struct registry *registry, enq_handle handle,
    uint64_t *token, uint8_t *mode);

/* --- waits --- */

/* A request is pending under this ticket. Its result may have come already,
   before it could be known whose it is: that is given back. Else NULL. */
struct table_node *registry_wait(struct registry *registry, struct wait *w,
    uint64_t ticket);
/* Whose result it is, which waits no longer. NULL: not known yet, and @early is
   kept until it is. */
struct wait *registry_result(struct registry *registry, uint64_t ticket,
    struct table_node *early);

/* When all is over, one after the other; NULL: no more. */
struct wait *registry_any_wait(struct registry *registry);
struct table_node *registry_any_early(struct registry *registry);

#endif
