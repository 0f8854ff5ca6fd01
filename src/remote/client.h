/*
 * client.h - remote: an attachment to a bridge, and its two mutexes.
 *
 *	callers' threads                     the reader, one thread
 *	lock.c, hold.c, look.c               reader.c
 *	    |  await.c: a caller that waits     |  if no caller does
 *	    v  reads (leader.c), or sleeps      v
 *	pending.c --> window.c --> socket --> receive.c --> greet.c
 *	    ^                                   |  `---> held.c --> event.c
 *	    `------------- an answer -----------'
 *
 * A request is pending until it is answered, and keeps its bytes until then:
 * after a lost connection they are sent again, with the same reqUUID and in the
 * same order, and the bridge does nothing twice. So neither a lost request nor
 * a lost reply loses or doubles a lock.
 *
 * Two mutexes. `mutex` guards the pending requests, what is to be written, the
 * phase, and whose turn it is to read (leader.c); the socket is written to
 * under it, and read without it. `held.mutex` guards the held locks and their
 * events, and is taken last. Nobody sleeps with either.
 */
#ifndef REMOTE_CLIENT_H
#define REMOTE_CLIENT_H

#include <pthread.h>
#include <urcu/list.h>

#include "channel/address.h"
#include "channel/map.h"
#include "remote/held.h"
#include "remote/sure.h"
#include "wire/frame.h"
#include "wire/scan.h"
#include "wire/text.h"

enum link_phase {
    LINK_DOWN,
    LINK_GREETING, /* hello was sent */
    LINK_UP,
    LINK_OVER, /* it was closed, or never came to be */
};

struct remote {
    uint64_t life;
    struct address address;
    char name[320]; /* of the address, for texts */
    char owner[ENQ_OWNER_BYTES];
    char *secret; /* or NULL */
    int64_t grace_ms;
    struct cds_list_head all; /* of those of this process: see fork.c */
    pthread_t reader;

    pthread_mutex_t mutex;
    pthread_cond_t turn; /* of the phase */
    enum link_phase phase;
    int fd;       /* -1: none; changed by the reader only */
    bool reading; /* there is a leader */
    bool deaf;    /* the reader must be rung for when nobody reads */
    bool lost;    /* a leader has seen the end of the connection */
    uint32_t n_readings;
    struct cds_list_head sleepers; /* callers that wait and do not read */
    uint32_t n_links;              /* connections so far */
    uint64_t hello;                /* the number of its hello */
    mono_t greeted_at;             /* when that was sent */
    struct text out;
    size_t out_at;
    bool stuck;   /* the reader goes on writing when the socket can */
    bool leaving; /* no other connection */
    bool closing; /* nor this one */
    uint64_t n_requests;
    struct number_map pending; /* by number */
    struct cds_list_head unsent, sent;
    uint32_t n_window;
    int fault; /* why there is no connection, negative */
    char fault_why[160];
    char session[64]; /* "": none yet */
    int64_t keepalive_ms, request_bytes, list_entries;
    mono_t said_at; /* the last bytes that we sent */

    mono_t received_at; /* changed by the leader */

    struct sure sure;

    struct held_all held;

    /* the leader's: no mutex, as there is one leader at a time */
    struct text in;
    struct scan_value *values;
    size_t n_values;
    struct frame frame;

    /* the reader's own */
    int bell;
    uint32_t n_seen; /* of n_readings */
    mono_t pinged_at;
    uint64_t dice;
    int64_t pause_ms;
};

#endif
