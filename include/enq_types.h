/*
 * enq_types.h - libenq: results, requests, and what is told. Included by
 * enq.h, which has the calls: include that.
 */
#ifndef ENQ_TYPES_H
#define ENQ_TYPES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Results: 0 done; > 0 an ordinary outcome listed under "Returns:", to be
 * handled by the caller; < 0 a fault to pass up (-1..-4095 negated errno,
 * -5001.. libenq's own). One list gives value, name and text; values are
 * pinned for ever.
 */
#define ENQ_RESULT_MAP(X)                                                      \
    X(ENQ_OK, 0, "done")                                                       \
    X(ENQ_BUSY, 1, "held by a conflicting owner")                              \
    X(ENQ_TIMEDOUT, 2, "wait time over")                                       \
    X(ENQ_PENDING, 3, "request queued, its result comes as an event")          \
    X(ENQ_EXISTS, 4, "a lock with this id exists already")                     \
    X(ENQ_NOTHELD, 5, "no such lock")                                          \
    X(ENQ_EXPIRED, 6, "the lock reached its ttl")                              \
    X(ENQ_LOST, 7, "the lock was taken away by a promotion")                   \
    X(ENQ_REFUSED, 8, "promotion or demotion not possible")                    \
    X(ENQ_DEADLOCK, 9, "waiting would close a cycle of owners")                \
    X(ENQ_CANCELLED, 10, "request cancelled")                                  \
    X(ENQ_FORCED, 11, "the lock was broken by an operator")                    \
    X(ENQ_OWNERDIED, 12, "the lock ended with its holder's process")           \
    X(ENQ_EVERSION, -5001, "segment was made by another layout version")       \
    X(ENQ_ECORRUPT, -5002, "segment failed a consistency check")               \
    X(ENQ_EFULL, -5003, "lock table overflow")                                 \
    X(ENQ_EFORKED, -5004, "attachment used in a child of its opener")          \
    X(ENQ_ENAMESPACE, -5005, "segment belongs to another time namespace")      \
    X(ENQ_EGONE, -5006, "segment was removed under us")                        \
    X(ENQ_ELEASE, -5007, "this host's lease ran out")                          \
    X(ENQ_EDIFFERS, -5008, "the space was made otherwise than asked for")

enum enq_result {
#define X(name, value, text) name = (value),
    ENQ_RESULT_MAP(X)
#undef X
};

/*
 * Stored in shared memory and sent on the wire: never renumber.
 * S shared; E exclusive and cumulative for its owner; X exclusive; O
 * optimistic: shared with other O until one of them is promoted to E.
 */
enum enq_mode {
    ENQ_MODE_S = 1,
    ENQ_MODE_E = 2,
    ENQ_MODE_X = 3,
    ENQ_MODE_O = 4
};

/* What the death of the holder's process (or remote session) does. Once the
   death is noticed - at once where somebody waits, within a second where any
   process is attached - a KEEP lock has no ttl any more. Ask for
   ENQ_FOREVER to be sure where nobody else may be there. */
enum enq_death {
    ENQ_DEATH_RELEASE = 0, /* ends with the holder: with the last thread of its
                              process, also one that SIGKILL cannot stop yet */
    ENQ_DEATH_LEASE = 1,   /* stays until its ttl (fail open) */
    ENQ_DEATH_KEEP = 2,    /* stays until adopted or broken (fail closed) */
};

#define ENQ_NAME_BYTES 128 /* all sizes with the terminating zero */
#define ENQ_OWNER_BYTES 128
#define ENQ_ID_BYTES 128
#define ENQ_PEER_BYTES 128
#define ENQ_KEY_BYTES 512 /* all fields of a key, each with its zero */
#define ENQ_KEY_FIELDS_MAX 16
#define ENQ_SET_MAX 64       /* locks of one set */
#define ENQ_ORPHANS_LEAST 21 /* room for enq_orphans() */
#define ENQ_FOREVER INT64_C(-1)

struct enq;                  /* one attachment to a lock space */
typedef uint64_t enq_handle; /* slot and generation; 0 is never valid */

enum enq_req_flags {
    ENQ_TEST = 1u << 0,        /* answer only, take nothing */
    ENQ_NO_DEADLOCK = 1u << 1, /* do not look for cycles */
};

/* Zero means the documented default everywhere; `size` is set by ENQ_REQ. */
struct enq_req {
    size_t size;
    const char *name;                    /* required */
    const char *key[ENQ_KEY_FIELDS_MAX]; /* "@" = any. All that are behind the
                                            first NULL are NULL as well, or the
                                            request is -EINVAL; "" is empty */
    uint32_t literal;                    /* bit i: field i, an "@", is itself */
    uint32_t flags;                      /* enum enq_req_flags */
    enum enq_mode mode;                  /* required */
    enum enq_death on_death;
    const char *owner;    /* NULL = the attachment's default; "" = nobody */
    const char *id;       /* NULL = a new uuid */
    int64_t wait_ms;      /* 0 = do not wait; ENQ_FOREVER */
    int64_t ttl_ms;       /* 0 = 15 min; ENQ_FOREVER. Never ends early; one of
                             a minute or more up to a second late */
    int64_t heartbeat_ms; /* 0 = none; else the lock is renewed this often,
                             shorter than the ttl */
    int64_t delay_ms;     /* lock delay: how long no other owner gets the
                             lock after its ttl has ended or its holder has
                             died; 0 = none, at most a day */
    uint32_t retries;     /* instead of queueing: attempts after the first */
    int64_t retry_ms;     /* first pause (0 = 5), doubled with full jitter */
    const char *peer;     /* for whom this process asks, where that is another:
                             a host, an address. Shown in lists, so no secret;
                             nothing is decided by it. NULL or "" = none */
};
#ifndef __cplusplus
#define ENQ_REQ(...)                                                           \
    (&(const struct enq_req){.size = sizeof(struct enq_req), __VA_ARGS__})
#endif

/* Who stands in the way: a copy, made at the moment of the answer. */
struct enq_blocker {
    char owner[ENQ_OWNER_BYTES];
    char id[ENQ_ID_BYTES];
    int32_t pid; /* 0: its process is gone */
    uint8_t mode, waiting;
    uint8_t dying; /* its process was killed, and a thread of it is still in
                      the kernel: it has its locks until that has ended */
    int64_t age_ms, ttl_left_ms; /* ttl_left_ms: ENQ_FOREVER = no ttl */
    uint32_t queue;              /* requests waiting for this object */
};

struct enq_grant {
    enq_handle handle;
    uint64_t token;             /* fencing: grows with every grant */
    struct enq_blocker blocker; /* set on BUSY, TIMEDOUT, REFUSED, EXISTS;
                                   else owner[0] is 0 and the rest unset */
};

struct enq_open_opts {
    size_t size;        /* sizeof(struct enq_open_opts) */
    uint32_t slots;     /* most locks held + waiting in a new segment;
                           0 = 10,000,000; memory is taken as they come, by
                           pages of 21 (3, where name, key, owner and id take
                           more than 76 bytes) that belong to one session
                           each: slots is rounded up to whole pages */
    uint32_t mode;      /* permissions of a new segment; 0 = 0600 */
    const char *compat; /* mode table: "enqueue", "sap"; NULL = as the space
                           is, "enqueue" where it is new */
    uint32_t strict;    /* enum enq_strict; 0 = as the space is, ENQ_STRICT_NO
                           where it is new */
    const char *owner;  /* default owner; NULL = $ENQ_OWNER or user@host:pid */
    int64_t grace_ms;   /* bridge: how long the session outlives its
                           connection; 0 = 10 s. "?grace=0" means none */
    const char *token;  /* of a bridge: what shows who we are */
    const char *cafile, *certfile, *keyfile; /* of a bridge: refused yet */
    uint32_t flags;                          /* enum enq_open_flags */
    const char *space_owner; /* the user, by name or number, whose file is used
                                besides our own and root's; he makes it, as we
                                would not be believed. As "?owner=" in the
                                address. NULL = nobody else's */
};

enum enq_strict {
    ENQ_STRICT_YES = 1, /* nobody ever overtakes a waiter */
    ENQ_STRICT_NO = 2,  /* for a while (the bypass window) he may be */
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
    ENQ_EVENT_EXPIRING = 3, /* its ttl is near: the last quarter of it, at
                               most ten seconds. Once for each renewal */
    ENQ_EVENT_LOST = 4,     /* taken away: .result says why, and of ENQ_LOST
                               .grant.blocker.owner who has it. ENQ_NOTHELD:
                               another attachment has unlocked it */
    ENQ_EVENT_BLOCKING = 5, /* someone waits for this lock of ours:
                               .grant.blocker.owner. Once for each lock */
    ENQ_EVENT_SESSION = 6,  /* of a bridge: .result 0 connected again, and
                               our locks are ours unless told otherwise;
                               ENQ_ELEASE: it has not answered for so long
                               that RELEASE locks may be another's; else < 0
                               why there is no connection. Of several that
                               are unread the last is told */
};

struct enq_event {
    enum enq_event_kind kind;
    int result;
    uint64_t ticket;        /* 0: of a held lock */
    struct enq_grant grant; /* its .blocker is whole for a result; else only
                               .blocker.owner is set */
};

/* The table --------------------------------------------------------------- */

/* One entry, copied out. No user code runs under a mutex. */
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

/* A lock that is held by nobody who lives: see enq_orphans(). */
struct enq_orphan {
    enq_handle handle;
    uint64_t holder;           /* a number for the process that is gone */
    uint64_t heir;             /* for whom, as in enq_adopt_for(); or 0: */
    char peer[ENQ_PEER_BYTES]; /* as in enq_req */
};

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
    char overflow_owner[ENQ_OWNER_BYTES]; /* who filled it last */
    uint32_t unlinked;                    /* the name is gone: no new grants */
};

enum enq_doctor_flags {
    ENQ_DOCTOR_FIX = 1u << 0, /* rebuild what is derived, reap the dead */
};

#endif /* ENQ_TYPES_H */
