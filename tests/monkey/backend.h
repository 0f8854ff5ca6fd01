/*
 * backend.h - what the monkey plays with.
 *
 * The library itself; a plain robust mutex, which is known to lose wake-ups;
 * and something that excludes nobody. The last two can lock and unlock only:
 * their other functions are NULL. All calls but make() and unmake() are of a
 * worker, for itself.
 */
#ifndef MONKEY_BACKEND_H
#define MONKEY_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "enq.h"
#include "log.h"

struct seen {
    struct rest rest;
    int64_t ttl_ms;
    enq_handle handle;
    uint64_t token;
    char id[ENQ_ID_BYTES];
};

struct held {
    struct op op; /* that got it, as it is now */
    enq_handle handle;
};

struct backend {
    const char *name;
    uint32_t compat, strict;
    unsigned keys; /* it knows the first so many */
    bool full;     /* it can do all that follows, too */
    bool (*make)(const struct backend *self);
    void (*unmake)(void);
    bool bridged; /* some of its processes are remote */
    bool (*enter)(const struct life *life);
    void (*leave)(void);
    /* Asks as op says; sets its ident, if that is 0, and its token. */
    int (*lock)(struct op *op, enq_handle *handle);
    int (*unlock)(const struct op *op, enq_handle handle, uint64_t token);

    /* Asks without waiting. ENQ_PENDING: op has its ticket, its handle, and
       its ident. */
    int (*start)(struct op *op);
    /* The same for as many as op's set has, which lie side by side. */
    int (*lock_set)(struct op *op);
    int (*start_set)(struct op *op);
    void (*take_set)(struct op *op); /* its result was read */
    int (*unlock_set)(const struct op *op, const struct held *held);
    int (*cancel)(uint64_t ticket);
    /* The next event, into `op`: all except the ident of its lock. */
    int (*next)(struct op *op);
    /* A descriptor that is readable while there are events. */
    int (*listen)(void);
    int (*promote)(struct op *op, enq_handle handle, uint64_t token);
    int (*demote)(enq_handle handle, uint64_t token);
    int (*renew)(const struct op *op, enq_handle handle, uint64_t token);
    int (*valid)(enq_handle handle);
    int (*force)(const char *id);
    int (*adopt)(struct op *op, const char *id, enq_handle *handle);
    int (*list)(struct seen *out, size_t room, size_t *n);
    /* The process that is recovery what the dead have left; 0 = nobody. */
    pid_t (*recoverer)(void);
    /* The address of the table, and where its bridge listens. */
    const char *(*space)(void);
    const char *(*socket)(void);
    /* How many locks there are that end with a remote session. */
    unsigned (*of_sessions)(void);
    /* When nobody else is left: breaks what is there, and tells in `report`
       what is not as it should be. The number of findings. */
    int (*clean)(char *report, size_t room);
};

extern const struct backend backend_enq, backend_strict, backend_sap;
extern const struct backend backend_bridge;
extern const struct backend backend_mutex, backend_none;

/* The call that this process is in; its time in the queue is noted there. */
extern struct op *backend_op;

#endif
