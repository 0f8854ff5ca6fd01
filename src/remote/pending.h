/*
 * pending.h - remote: requests that wait for their answer.
 */
#ifndef REMOTE_PENDING_H
#define REMOTE_PENDING_H

#include <pthread.h>
#include <urcu/list.h>

#include "base/time.h"
#include "channel/map.h"
#include "remote/event.h"
#include "remote/held.h"
#include "wire/names.h"
#include "wire/text.h"

struct answer;
struct remote;

enum pending_phase {
    PENDING_UNSENT,
    PENDING_SENT,
    PENDING_STARTED, /* a started one: its result comes as an event */
    PENDING_TAKING,  /* its answer is being read, without the mutex */
    PENDING_DONE,
};

struct pending;
typedef void pending_take_fn(struct remote *r, struct pending *c,
    const struct answer *a);

struct pending {
    struct map_node by_number;
    struct cds_list_head node; /* of remote.unsent or .sent */
    enum pending_phase phase;
    struct text ask;
    uint64_t number;
    size_t wait_at;   /* where waitTime stands in `ask`; 0: none, or for ever */
    mono_t wait_ends; /* at the bridge */
    bool waits;       /* may be unanswered for long: outside the window */
    bool locks;       /* what it gets is given back when it is abandoned */
    bool started;     /* part of a struct remote_started */
    bool abandoned;   /* its caller has given up */
    bool posted;      /* it has no caller: freed when it is done */
    bool again;       /* it was sent more than once */
    bool cancelled;   /* the bridge has said so: not sent again */
    mono_t sent_at;   /* when first sent: its ttl begins no earlier */
    mono_t put_at;    /* when last sent */
    mono_t waited_at; /* it still waited then, on an earlier connection */
    enq_handle handle; /* of the lock that it is about */
    uint64_t token;
    int64_t ttl_ms;
    pending_take_fn *take; /* what is done with the answer; NULL: nothing */
    void *to;              /* for take */
    int result;
    char why[512];
    pthread_cond_t done;
    struct cds_list_head asleep; /* of remote.sleepers, while its caller is */
};

/* A request that was started: its result is an event. */
struct remote_started {
    struct pending request; /* the first */
    struct remote_event event;
    struct order order;         /* of memory of its own, behind this */
    struct enq_grant *callers;  /* of a set until its result is taken */
    bool is_pending;            /* its caller is to be told so */
    bool is_told;               /* it was: the result is an event from now on */
    struct enq_blocker blocker; /* of that moment */
    uint32_t index;             /* whose it is, of a set */
};

/* Begins the text of a request. */
void pending_begin(struct pending *c, enum op op);
/* One in memory of its own; NULL: out of memory. */
struct pending *pending_new(enum op op);

/* Sends a request for whose answer no caller waits: one of pending_new(), which
   is freed when it is done. */
void pending_post(struct remote *r, struct pending *c);

/* Posts an unlock for each lock in an answer that has no caller any more.
   Without the mutex. */
void pending_give_back(struct remote *r, const struct answer *a);

/* An answer has come: takes and leaves the mutex. By the leader. */
void pending_answered(struct remote *r, const struct answer *a);

#endif
