/*
 * bridge.h - a loop, and all that it serves.
 *
 *	listen.c --> receive.c --> ask.c --> serve.c --> enq_lock, enq_start ...
 *	                                      |             |
 *	             conn.c <-- reply.c <-----+--- event.c <-' enq_next
 *
 * One thread runs a loop and owns everything here; another makes lists, so
 * that nobody waits for one (look.c). Nothing in the loop blocks: a request
 * that has to wait is a started one (enq_start), remembered as a struct wait.
 *
 * There may be several loops (--threads). They have in common the attachment
 * to the space, the listeners, and what struct share says; what else one is to
 * know of another it is written (mailbox.h). A connection is one loop's, a
 * session too: its id says whose, and the connection that resumes it is taken
 * there (handoff.h). The first loop hears the events of all, and hands them on
 * (route.h).
 *
 * Nothing is kept but what the table knows as well. Whose lock it is stands
 * with each lock in the table (session.h), so that a bridge may be killed at
 * any moment and the next one goes on.
 */
#ifndef BRIDGE_BRIDGE_H
#define BRIDGE_BRIDGE_H

#include <stdatomic.h>
#include <urcu/list.h>

#include "ask.h"
#include "mailbox.h"
#include "options.h"
#include "table.h"
#include "wire/frame.h"
#include "wire/text.h"
#include <enq.h>

#define PEER_BYTES 64    /* of an address, with its zero */
#define SESSION_BYTES 17 /* of its id, and of its name */
#define VALUES_MAX                                                             \
    4096 /* of a request: a set of 64 with all that can be said */

#define SPARE_OUTS 256u

struct farewell;
struct listener;
struct looks;
struct loose;
struct moving;
struct peer;
struct registry;

/* What all loops have. Counters of the whole process change when a client
   comes, goes or says hello, not with a request. */
struct share {
    struct bridge *loops;
    unsigned n;
    _Atomic uint32_t n_conns, n_surplus; /* within the limit, and beyond it */
    _Atomic uint32_t n_sessions;
    struct {
        pthread_mutex_t mutex; /* guards all of this (peer.h) */
        struct table by_name;
        struct table loose; /* locks of no session, by their handle */
        struct cds_list_head all_loose;
        struct loose *spare;
        _Atomic size_t n_loose;
    } peers;
    _Atomic size_t partial_bytes; /* of all conns' `in` */
    _Atomic uint32_t n_listening; /* loops */
    struct registry *registry;    /* NULL: there is one loop, which knows all */
};

/* What epoll tells of, apart from listeners and connections. */
struct source {
    int fd;
    void (*take)(struct bridge *b);
};

#define SOURCES 4

struct bridge {
    struct options options;
    struct share *share;
    unsigned index; /* 0: the first */
    pthread_t thread;
    struct source sources[SOURCES];
    struct mailbox mailbox;
    struct message pass, stop; /* from the first (loop.c, route.c) */
    struct enq *space;
    int epoll;
    const char *stopping; /* why; NULL: not */
    int64_t now_ns;       /* read once in a round */
    int64_t tick_ns;

    struct cds_list_head conns, dirty, partial, ending; /* of struct conn */
    struct cds_list_head unread, behind, hung;          /* as well */
    struct cds_list_head dropped; /* of struct wait: to be cancelled */
    int64_t late_ns;      /* when this round has had its time (receive.c) */
    bool is_late;         /* it has */
    bool is_flooded;      /* by ends: more of them are behind these (loop.c) */
    unsigned n_more;      /* requests behind which there was another */
    struct table serials; /* conns by their number */
    uint64_t n_serials;
    _Atomic uint32_t n_conns; /* also those that are on their way here */
    uint32_t silent; /* bits: listeners that are not watched for a while */
    int spare_fd;    /* given up to tell a client that there are none left */
    /* unread: of lists, and other replies; only we write them */
    _Atomic size_t list_bytes, reply_bytes;
    struct text spare_outs[SPARE_OUTS]; /* buffers without a connection */
    unsigned n_spare_outs;

    struct table sessions, held, waits; /* by name, handle, ticket */
    struct table requests, asked; /* held, waits: by who asked, with what id */
    struct cds_list_head broken;  /* sessions without a connection */
    struct cds_list_head joined;  /* and with one */
    struct cds_list_head over;    /* and that are over (over.h) */
    uint32_t n_sessions;
    struct cds_list_head spare; /* of struct held, free */
    uint32_t n_spare;

    struct {
        struct cds_list_head all; /* of struct left (left.c) */
        struct table by_heir;
        struct enq_orphan *found;
        uint64_t at; /* of enq_orphans() */
        uint32_t walk;
        int64_t due_ns;
        bool is_looking; /* a walk is under way */
    } left;

    struct looks *looks;
    char *scratch; /* a read */
    size_t scratch_bytes;
    struct scan_value *values;
    struct ask ask;
};

/* A connection. */
struct conn {
    int fd;
    uint64_t serial;
    struct table_node by_serial;
    struct cds_list_head node;    /* of bridge.conns */
    struct cds_list_head dirty;   /* of bridge.dirty, if it has a reply */
    struct cds_list_head partial; /* of bridge.partial: a request has begun; or
                                     of bridge.behind; or of bridge.ending */
    struct cds_list_head unread;  /* of bridge.unread, if is_unread */
    struct cds_list_head hung;    /* of bridge.hung, if is_hung */
    uint32_t hung_events;         /* for which it is there */
    struct cds_list_head waits;   /* without a session: its pending requests */
    struct cds_list_head looks;   /* asked for behind one that is being made */
    uint32_t n_waits, n_looks;
    int64_t begun_ns, heard_ns;
    int64_t idle_ns; /* when to look whether it is idle */
    char *in;        /* the begin of a request, if any */
    size_t in_n, in_room, lost_bytes;
    struct frame frame;
    struct text out;
    size_t out_at, replies_counted, lists_counted;
    size_t listed;               /* bytes of lists among what is unread */
    uint64_t sent;               /* bytes written to its socket */
    uint64_t taken;              /* how far that has come: see unread.c */
    int64_t moved_ns, judged_ns; /* when it came further; when we looked */
    bool is_dirty, is_partial, is_unread, is_hung;
    bool behind;  /* what is in `in` is to be served when others were */
    bool writing; /* epoll tells when it can go on */
    bool ending;  /* closed when its replies are written; what comes is lost */
    bool shut;    /* they are written */
    bool eof;     /* it has said all */
    bool surplus; /* one too many: its first request is refused */
    struct moving *moving;     /* it goes on at another loop */
    struct farewell *farewell; /* its session is over, but not all of that */
    struct peer *from;         /* NULL: it is not counted */
    struct session *session;
    char peer[PEER_BYTES];
};

/* A remote session. See session.h. */
struct session {
    struct table_node by_name;
    struct cds_list_head node; /* of bridge.broken, .joined or .over */
    struct conn *conn;         /* or NULL */
    struct peer *from;         /* NULL: nobody has come for it yet */
    int64_t grace_ms, ends_ns; /* without a connection: until then */
    struct cds_list_head held, waits;
    uint32_t n_held, n_waits;
    bool is_over;
    struct farewell *farewell; /* who waits for that; or NULL */
    struct done_ring *done;    /* NULL: nothing yet */
    uint32_t n_done;
    char name[SESSION_BYTES]; /* its id only its client knows (tag.h) */
    char peer[PEER_BYTES];
    char owner[ENQ_OWNER_BYTES];
};

/* A lock that a session holds. */
struct held {
    struct table_node by_handle, by_request;
    struct cds_list_head node; /* of session.held */
    struct session *session;
    enq_handle handle;
    _Atomic uint64_t token; /* this and the mode: also by others (registry.h) */
    uint64_t request;       /* hash of its reqUUID */
    uint16_t member;        /* of a set */
    uint8_t on_death;       /* as it was asked for */
    _Atomic uint8_t mode;
    bool delayed;      /* it has a lock delay */
    bool was_adopted;  /* at a bridge that is gone: its client may not know */
    _Atomic bool gone; /* another loop has given it back */
    struct table_node by_registry;
    struct bridge *loop;
};

/* A started request. Its client may be gone: then it is withdrawn, or waits for
   its session to come back. */
struct wait {
    struct table_node by_ticket, by_request;
    struct cds_list_head node; /* of conn.waits or session.waits, or dropped */
    struct conn *conn;         /* NULL: the session's, or nobody's */
    struct session *session;
    struct bridge *loop;
    struct peer *from; /* of whichever of the two */
    bool legacy, start, id_is_number;
    bool is_dropped; /* it is in bridge.dropped */
    bool nameless;   /* its client is told the id that it gets */
    char id[ASK_ID_BYTES];
    uint64_t request;
    unsigned n;
    struct wait_lock {
        uint8_t on_death, mode;
        bool delayed;
    } * locks;
    struct enq_grant *grants; /* of a set, which enq_next() fills */
    struct wait_lock one;
};

#endif
