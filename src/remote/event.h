/*
 * event.h - remote: events for enq_next(). Under held.mutex.
 */
#ifndef REMOTE_EVENT_H
#define REMOTE_EVENT_H

#include <stdbool.h>
#include <stdint.h>
#include <urcu/list.h>

struct held_all;
struct remote;
struct remote_started;

enum remote_event_kind {
    REMOTE_EVENT_BLOCKING = 1,
    REMOTE_EVENT_EXPIRING = 2,
    REMOTE_EVENT_GONE = 4,
    REMOTE_EVENT_RESULT = 8,
    REMOTE_EVENT_SESSION = 16,
};

/* An event for enq_next(). It lies in the lock, request or session that it is
   about, so that none is lost for want of memory. Under held.mutex. */
struct remote_event {
    struct cds_list_head node; /* of held.events; or alone */
    uint32_t kinds;            /* several of a lock: told one by one */
    bool held_back;            /* until the result of its request is told */
};

void remote_event_add(struct held_all *all, struct remote_event *event,
    uint32_t kind);
void remote_event_show(struct held_all *all, struct remote_event *event);
void remote_event_drop(struct held_all *all, struct remote_event *event);
void remote_event_session(struct remote *r, int result);
/* The result of a request is told before what has happened to its locks. */
void remote_event_result(struct remote *r, struct remote_started *s);

/* enq_fd(): takes the mutex itself. */
int remote_fd(struct remote *r);

#endif
