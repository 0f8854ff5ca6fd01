/*
 * event.h - api: the events of an attachment, in order.
 *
 * All of it under the desk's mutex.
 */
#ifndef API_EVENT_H
#define API_EVENT_H

#include "api/desk.h"
#include "wait/notice.h"

/* Adds at the end; makes the descriptor readable. */
void event_add(struct desk *d, struct event *event);

/* Is there memory for one more of a held lock, and are not too many unread?
   Then event_add_notice() cannot fail. */
bool event_has_room(struct desk *d);
void event_add_notice(struct desk *d, const struct notice *n);

void event_drop_all(struct desk *d);

#endif
