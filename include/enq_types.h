/*
 * enq_types.h - libenq: results, requests, and what is returned. Included by
 * enq.h, which has the calls: include that.
 *
 * All texts end with a zero byte, and all sizes count it. Times are
 * milliseconds. The texts that a request points to are the caller's, and are
 * needed until the call returns.
 */
#ifndef ENQ_TYPES_H
#define ENQ_TYPES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Results: 0 is done; > 0 is an ordinary outcome, listed under "Returns:",
 * which the caller handles; < 0 is a fault to pass up (-1 to -4095: a negated
 * errno; from -5001 down: libenq's own). This list gives value, name and text
 * of each; values are pinned for ever.
 */
#define ENQ_RESULT_MAP(X)                                                      \
    X(ENQ_OK, 0, "done")                                                       \
    X(ENQ_BUSY, 1, "a conflicting lock is held")                               \
    X(ENQ_TIMEDOUT, 2, "timed out")                                            \
    X(ENQ_PENDING, 3, "the request waits, its result is an event")             \
    X(ENQ_EXISTS, 4, "a lock with this id already exists")                     \
    X(ENQ_NOTHELD, 5, "no such lock")                                          \
    X(ENQ_EXPIRED, 6, "the lock reached its ttl")                              \
    X(ENQ_LOST, 7, "the lock was taken away by a promotion")                   \
    X(ENQ_REFUSED, 8, "not possible for this lock")                            \
    X(ENQ_DEADLOCK, 9, "waiting would close a cycle of owners")                \
    X(ENQ_CANCELLED, 10, "the request was cancelled")                          \
    X(ENQ_FORCED, 11, "the lock was broken by an operator")                    \
    X(ENQ_OWNERDIED, 12, "the lock ended with its holder's process")           \
    X(ENQ_EVERSION, -5001, "the space has another layout version")             \
    X(ENQ_ECORRUPT, -5002, "the space failed a consistency check")             \
    X(ENQ_EFULL, -5003, "lock table overflow")                                 \
    X(ENQ_EFORKED, -5004, "attachment used in a child of its opener")          \
    X(ENQ_ENAMESPACE, -5005, "the space has another time namespace")           \
    X(ENQ_EGONE, -5006, "the space was removed")                               \
    X(ENQ_ELEASE, -5007, "this host's lease ran out")                          \
    X(ENQ_EDIFFERS, -5008, "the space differs from what was asked for")

enum enq_result {
#define X(name, value, text) name = (value),
    ENQ_RESULT_MAP(X)
#undef X
};

/*
 * Lock modes. S: shared. E: exclusive, and cumulative: the same owner may be
 * granted it again. X: exclusive. O: optimistic, shared with other O until one
 * of them is promoted to E. Values are stored in shared memory and sent on the
 * wire: never renumber.
 */
enum enq_mode {
    ENQ_MODE_S = 1,
    ENQ_MODE_E = 2,
    ENQ_MODE_X = 3,
    ENQ_MODE_O = 4
};

/* What happens to a lock when its holder's process (or remote session) dies.
   Once the death is noticed, a KEEP lock has no ttl any more: it is noticed at
   once where a request waits, and within a second where any process is
   attached. Where no other process may be attached, ask for a ttl of
   ENQ_FOREVER. */
enum enq_death {
    ENQ_DEATH_RELEASE = 0, /* it ends with the last thread of the process, also
                              one that SIGKILL cannot stop yet */
    ENQ_DEATH_LEASE = 1,   /* it stays until its ttl ends (fail open) */
    ENQ_DEATH_KEEP = 2,    /* it stays until adopted or broken (fail closed) */
};

/* Sizes of texts, in bytes, with the terminating zero. */
#define ENQ_NAME_BYTES 128
#define ENQ_OWNER_BYTES 128
#define ENQ_ID_BYTES 128
#define ENQ_PEER_BYTES 128
#define ENQ_KEY_BYTES 512 /* all fields of a key, each with its zero */
#define ENQ_KEY_FIELDS_MAX 16
#define ENQ_SET_MAX 64          /* most locks of one set */
#define ENQ_ORPHANS_LEAST 21    /* least room for enq_orphans() */
#define ENQ_FOREVER INT64_C(-1) /* a time without end, wherever it is allowed */

struct enq;                  /* one attachment to a lock space */
typedef uint64_t enq_handle; /* names one lock or request; 0 is never valid. A
                                stale one is safe: it names nothing */

enum enq_req_flags {
    ENQ_TEST = 1u << 0,        /* answer only, take nothing */
    ENQ_NO_DEADLOCK = 1u << 1, /* do not look for deadlocks */
};

/* A request for a lock. Zero means the documented default everywhere; `size` is
   set by ENQ_REQ. */
struct enq_req {
    size_t size;
    const char *name;                    /* required, not empty */
    const char *key[ENQ_KEY_FIELDS_MAX]; /* the fields; "@" = any. NULL ends
                                            them: one behind it is -EINVAL; ""
                                            is an empty field */
    uint32_t literal;                    /* bit i: field i is a plain "@" */
    uint32_t flags;                      /* enum enq_req_flags */
    enum enq_mode mode;                  /* required */
    enum enq_death on_death;
    const char *owner;    /* NULL = the attachment's default; "" = nobody */
    const char *id;       /* NULL = a new uuid */
    int64_t wait_ms;      /* longest wait; 0 = do not wait; ENQ_FOREVER */
    int64_t ttl_ms;       /* 0 = 15 min; ENQ_FOREVER. Never ends early; one of
                             a minute or more may end up to a second late */
    int64_t heartbeat_ms; /* the lock is renewed this often, which is shorter
                             than the ttl; 0 = never */
    int64_t delay_ms;     /* lock delay: how long no other owner gets the lock
                             after its ttl has ended or its holder has died;
                             0 = none, at most a day */
    uint32_t retries;     /* instead of queueing: attempts after the first */
    int64_t retry_ms;     /* first pause (0 = 5), doubled with full jitter */
    const char *peer;     /* the host, connection or address in whose name this
                             process asks. Shown in lists, so no secret; decides
                             nothing. NULL or "" = none */
};
#ifndef __cplusplus
#define ENQ_REQ(...)                                                           \
    (&(const struct enq_req){.size = sizeof(struct enq_req), __VA_ARGS__})
#endif

/* The lock or request in the way: a copy, made at the moment of the answer. */
struct enq_blocker {
    char owner[ENQ_OWNER_BYTES];
    char id[ENQ_ID_BYTES];
    int32_t pid;           /* of its process; 0: that is gone */
    uint8_t mode, waiting; /* enum enq_mode; 1: it waits too */
    uint8_t dying; /* 1: its process was killed, but a thread of it is still in
                      the kernel; until that ends the lock is held */
    int64_t age_ms, ttl_left_ms; /* ttl_left_ms: ENQ_FOREVER = no ttl */
    uint32_t queue;              /* requests waiting for this object */
};

/* The answer to a request. */
struct enq_grant {
    enq_handle handle;
    uint64_t token; /* fencing: grows with every grant of an object */
    struct enq_blocker blocker; /* set on BUSY, TIMEDOUT, REFUSED, EXISTS;
                                   else owner[0] is 0 and the rest unset */
};

struct enq_open_opts {
    size_t size;        /* sizeof(struct enq_open_opts) */
    uint32_t slots;     /* most locks held + waiting in a new segment, rounded
                           up to whole pages; 0 = 10,000,000. Memory is taken as
                           they come, by pages of 21 entries (of 3, where name,
                           key, owner and id take more than 76 bytes); a page
                           belongs to one session */
    uint32_t mode;      /* permissions of a new segment; 0 = 0600 */
    const char *compat; /* mode table: "enqueue", "sap"; NULL = as the space
                           is, "enqueue" where it is new */
    uint32_t strict;    /* enum enq_strict; 0 = as the space is, ENQ_STRICT_NO
                           where it is new */
    const char *owner;  /* default owner; NULL = $ENQ_OWNER or user@host:pid */
    int64_t grace_ms;   /* bridge: how long the session outlives its
                           connection; 0 = 10 s. "?grace=0" means none */
    const char *token;  /* bridge: the secret that names this client */
    const char *cafile, *certfile, *keyfile; /* bridge: not supported yet */
    uint32_t flags;                          /* enum enq_open_flags */
    const char *space_owner; /* a user, by name or number, whose segment is
                                trusted besides our own and root's. That user
                                makes it: we do not. As "?owner=" in the
                                address. NULL = no other user's */
};

enum enq_strict {
    ENQ_STRICT_YES = 1, /* no request ever overtakes a waiter */
    ENQ_STRICT_NO = 2,  /* within its bypass window a waiter may be overtaken */
};

enum enq_open_flags {
    ENQ_OPEN_READONLY = 1u << 0, /* list, find, stat and check only; the
                                    mapping cannot be written, no session */
    ENQ_OPEN_EXISTING = 1u << 1, /* do not create: -ENOENT */
};

/* Events ------------------------------------------------------------------ */

enum enq_event_kind {
    ENQ_EVENT_RESULT = 1,   /* of enq_start(): .result, .ticket, .grant; of
                               enq_start_set() .grant is the first one's */
    ENQ_EVENT_EXPIRED = 2,  /* a lock of ours reached its ttl */
    ENQ_EVENT_EXPIRING = 3, /* its ttl ends soon: in its last quarter, and at
                               most ten seconds before. Once for each renewal */
    ENQ_EVENT_LOST = 4,     /* it was taken away: .result says why. ENQ_LOST:
                               .grant.blocker.owner has it now. ENQ_NOTHELD:
                               another attachment has unlocked it */
    ENQ_EVENT_BLOCKING = 5, /* .grant.blocker.owner waits for this lock of ours.
                               Once for each lock */
    ENQ_EVENT_SESSION = 6,  /* of a bridge: .result is 0 when it is connected
                               again: our locks are ours unless told otherwise.
                               ENQ_ELEASE: it has not answered for so long that
                               another owner may have our RELEASE locks. Else
                               < 0: why there is no connection. Only the last
                               one that is unread is returned */
};

/* What enq_next() fills in. */
struct enq_event {
    enum enq_event_kind kind;
    int result;             /* enum enq_result, or a negated errno */
    uint64_t ticket;        /* of enq_start(); 0: of a held lock */
    struct enq_grant grant; /* its .blocker is whole for a result; else only
                               .blocker.owner is set */
};

/* The table --------------------------------------------------------------- */

/* One lock or waiting request: a copy, made while others go on. */
struct enq_info {
    enq_handle handle;
    uint64_t token;
    int64_t granted_ms; /* wall clock, ms since 1970; 0 while waiting */
    int64_t age_ms, ttl_ms, ttl_left_ms; /* ttl: ENQ_FOREVER = none */
    int32_t pid; /* as its own PID namespace numbers it; 0 = gone */
    uint8_t mode, waiting, orphaned, on_death, fields;
    uint8_t dying; /* as in enq_blocker: it is held, and not orphaned yet */
    uint32_t literal;
    char owner[ENQ_OWNER_BYTES], name[ENQ_NAME_BYTES];
    char key[ENQ_KEY_BYTES]; /* the fields, each ended by a zero byte */
    char id[ENQ_ID_BYTES];
    char peer[ENQ_PEER_BYTES]; /* as in enq_req; "" = none */
    uint64_t heir;             /* as in enq_adopt_for(); 0 = none */
};

/* A lock that outlived its session, and has no living holder: see
   enq_orphans(). */
struct enq_orphan {
    enq_handle handle;
    uint64_t holder;           /* a number for the session that is gone */
    uint64_t heir;             /* as in enq_adopt_for(); 0: see `peer` */
    char peer[ENQ_PEER_BYTES]; /* as in enq_req */
};

/* An edge of the wait-for graph: what `waiter` waits for. */
struct enq_edge {
    struct enq_info waiter, blocker;
};

/* Counters since the segment was made, and sizes now. */
struct enq_stats {
    size_t size; /* set by the caller: sizeof(struct enq_stats) */
    char space[ENQ_NAME_BYTES + 128]; /* its file */
    char uuid[40];
    char compat[16];
    uint32_t layout, strict;
    int64_t created_ms; /* wall clock, ms since 1970 */
    uint64_t slots_max, held, waiting, orphaned, expired;
    uint64_t sessions, sessions_max, threads, threads_max;
    uint64_t bytes_max, bytes_used;
    uint64_t grants, refusals, waits, wait_grants, timeouts, cancels;
    uint64_t releases, expiries, promotes, promotes_refused, lost, forced;
    uint64_t overflows, owner_deaths, recoveries, contended;
    char overflow_owner[ENQ_OWNER_BYTES]; /* that met the full table last */
    uint32_t unlinked; /* 1: its name is gone; there are no new grants */
};

enum enq_doctor_flags {
    ENQ_DOCTOR_FIX = 1u << 0, /* rebuild what is derived, reap the dead */
};

#endif /* ENQ_TYPES_H */
