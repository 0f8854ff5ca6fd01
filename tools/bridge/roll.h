/*
 * roll.h - whose locks and whose pending requests are at which loop.
 *
 * Requests may name any lock, also one of a session of another loop, and news
 * comes to the first loop only. So with several loops each held lock and each
 * wait stands here as well. With one loop there is no roll.
 *
 * A struct held is its loop's. But its token and mode change with the lock, by
 * whomever that is done, and before he is told; its end is marked, and then
 * written to its loop, which removes it. A part's mutex guards that it stays
 * while it is changed.
 */
#ifndef BRIDGE_ROLL_H
#define BRIDGE_ROLL_H

#include "bridge.h"

/* NULL: no memory. */
struct roll *roll_make(void);
void roll_free(struct roll *roll);

/* --- held locks --- */

void roll_add(struct bridge *b, struct held *h);
void roll_remove(struct bridge *b, struct held *h);
/* Whose it is; NULL: no session's, or it has not come to be one's yet. */
struct bridge *roll_find(struct roll *roll, enq_handle handle);

/* A lock of another loop's: if it is one. */
void roll_change(struct roll *roll, enq_handle handle, uint64_t token,
    uint8_t mode);
void roll_gone(struct roll *roll, enq_handle handle);
bool roll_look(struct roll *roll, enq_handle handle, uint64_t *token,
    uint8_t *mode);

/* --- waits --- */

/* A request is pending under this ticket. Its result may have come already,
   before it could be known whose it is: that is given back. Else NULL. */
struct table_node *roll_wait(struct roll *roll, struct wait *w,
    uint64_t ticket);
/* Whose result it is, who waits no longer. NULL: not known yet, and @early is
   kept until it is. */
struct wait *roll_result(struct roll *roll, uint64_t ticket,
    struct table_node *early);

/* When all is over, one after the other; NULL: no more. */
struct wait *roll_any_wait(struct roll *roll);
struct table_node *roll_any_early(struct roll *roll);

#endif
