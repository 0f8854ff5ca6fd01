/*
 * held.h - remote: the locks that the bridge has granted to this attachment.
 */
#ifndef REMOTE_HELD_H
#define REMOTE_HELD_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/heap.h"
#include "base/time.h"
#include "channel/map.h"
#include "enq.h"
#include "remote/event.h"

struct remote;

struct held {
    struct map_node by_handle;
    struct cds_list_head node;  /* of held.locks or held.gone */
    struct cds_list_head doubt; /* of held.doubts; or alone */
    struct remote_event event;
    struct heap_node heartbeat; /* when to renew it next */
    int64_t heartbeat_ms;       /* 0: never */
    enq_handle handle;
    uint64_t token;
    mono_t ends;      /* end of its ttl by our clock: not after the bridge's */
    mono_t ends_late; /* the same: not before the bridge's */
    int64_t ttl_ms;
    uint8_t on_death;
    bool suspect; /* its session may have been over since it was asked for */
    bool leaving; /* it is being given back: that there is no such lock is then
                     for the answer to that to say */
    int result;   /* ENQ_OK: it is ours; else why not */
    char asker[ENQ_OWNER_BYTES]; /* owner that waits for it */
    char taker[ENQ_OWNER_BYTES]; /* its owner since we lost it */
};

struct held_all {
    pthread_mutex_t mutex;
    struct number_map by_handle;
    struct cds_list_head locks, gone, doubts, events;
    size_t n_gone, n_suspect;
    struct heap heartbeats;
    struct remote_event session; /* connected, disconnected */
    int session_result;
    int fd; /* of enq_fd(); -1: nobody listens */
};

/* What locks were asked with, and where the answer goes. */
struct want {
    int64_t ttl_ms, heartbeat_ms;
    uint8_t on_death;
    bool is_event; /* that it was granted is one */
};

struct order {
    size_t n;
    bool set;
    struct enq_grant *grants;
    struct want *want;
};

bool held_begin(struct held_all *all);
void held_end(struct held_all *all);

/* When a ttl began: not before `least`, and not after `most`. */
struct since {
    mono_t least, most;
};

void held_add(struct remote *r, const struct enq_grant *g,
    const struct want *want, struct since since);
/* It was given back, or the answer to a call said that it is gone: no event. */
void held_drop(struct remote *r, enq_handle handle, uint64_t token);
/* It is gone, and the caller has to hear of that: an event. */
void held_gone(struct remote *r, enq_handle handle, int result,
    const char *owner);
void held_told(struct remote *r, enq_handle handle, uint32_t kind,
    const char *owner);
void held_renewed(struct remote *r, enq_handle handle, mono_t since,
    int64_t ttl_ms);
/* The caller knows of its grant: from now on its events are shown. */
void held_show(struct held_all *all, enq_handle handle);
void held_promoted(struct remote *r, enq_handle handle, uint64_t token);
/*
 * Is it ours, by what we know? False: we know of no such lock. @result: ENQ_OK;
 * why it is gone; ENQ_ELEASE: another may have it; ENQ_PENDING: the bridge has
 * to be asked.
 */
bool held_look(struct remote *r, enq_handle handle, int *result);
bool held_has(struct remote *r, enq_handle handle, uint64_t token);
/* It is about to be given back; false: it was not, by what we know. */
void held_leave(struct remote *r, enq_handle handle, uint64_t token,
    bool leaves);
/* The bridge has said that it is ours. */
void held_confirm(struct remote *r, enq_handle handle);

/* After a new connection the bridge is to be asked for each lock. @suspect:
   until then each is suspect. held_session_over(): the session is over. */
void held_doubt_all(struct remote *r, bool suspect);
bool held_has_suspects(struct remote *r);
void held_session_over(struct remote *r);
enq_handle held_next_doubt(struct remote *r); /* 0: none */
/* The question could not be sent: it is put again. */
void held_doubt_again(struct remote *r, enq_handle handle);

enq_handle held_next_heartbeat(struct remote *r,
    mono_t now); /* 0: none is due */
mono_t held_first_heartbeat(struct remote *r);

#endif
