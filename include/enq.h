/*
 * enq.h - enqueue locks in shared memory: the public interface of libenq.
 *
 *	struct enq *e;
 *	struct enq_grant g;
 *
 *	if (enq_open(&e, NULL, NULL) != ENQ_OK)
 *		errx(1, "%s", enq_why());
 *	int rc = enq_lock(e, ENQ_REQ(.name = "product", .key = {"Computer"},
 *	                             .mode = ENQ_MODE_E, .owner = "B"), &g);
 *	if (rc == ENQ_OK) { ...; enq_unlock(e, g.handle, g.token); }
 *	else if (rc == ENQ_BUSY) printf("locked by %s\n", g.blocker.owner);
 *	enq_close(e);
 *
 * A lock is asked for by an object name and a key of several fields, in one
 * of four modes, for an owner: a string of yours (a user, a transaction).
 * Locks belong to owners, not to threads. The process that asked decides only
 * what happens when it dies (enum enq_death).
 *
 * Threads: an attachment may be used by any number of threads at once, but
 * for enq_close(), which must be the last call. Fork: an attachment is not
 * usable in a child (ENQ_EFORKED); the child opens its own. Signal handlers:
 * no function of this header may be called from one.
 *
 * Plain functions, no callbacks, no struct by value, no varargs: cheap to
 * call from Python, Node or Go. See enq_lock_spec() for a one-string form.
 */
#ifndef ENQ_H
#define ENQ_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ENQ_API __attribute__((visibility("default")))

/* The version of this header; enq_version() is the version of the library. */
#define ENQ_VERSION_MAJOR 0
#define ENQ_VERSION_MINOR 1
#define ENQ_VERSION_PATCH 0

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
    X(ENQ_ELEASE, -5007, "this host's lease ran out")

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
    ENQ_DEATH_RELEASE = 0, /* ends with the holder */
    ENQ_DEATH_LEASE = 1,   /* stays until its ttl (fail open) */
    ENQ_DEATH_KEEP = 2,    /* stays until adopted or broken (fail closed) */
};

#define ENQ_NAME_BYTES 128 /* all sizes with the terminating zero */
#define ENQ_OWNER_BYTES 128
#define ENQ_ID_BYTES 128
#define ENQ_KEY_BYTES 512 /* all fields of a key, each with its zero */
#define ENQ_KEY_FIELDS_MAX 16
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
    const char *key[ENQ_KEY_FIELDS_MAX]; /* first NULL ends; "@" = any */
    uint32_t literal;                    /* bit i: field i is not generic */
    uint32_t flags;                      /* enum enq_req_flags */
    enum enq_mode mode;                  /* required */
    enum enq_death on_death;
    const char *owner;    /* NULL = the attachment's default; "" = nobody */
    const char *id;       /* NULL = a new uuid */
    int64_t wait_ms;      /* 0 = do not wait; ENQ_FOREVER */
    int64_t ttl_ms;       /* 0 = 15 min; ENQ_FOREVER */
    int64_t heartbeat_ms; /* 0 = none; else refused: -EOPNOTSUPP */
    int64_t delay_ms;     /* 0 = none; else refused: -EOPNOTSUPP */
    uint32_t retries;     /* instead of queueing: attempts after the first */
    int64_t retry_ms;     /* first pause (0 = 5), doubled with full jitter */
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
    size_t size;    /* sizeof(struct enq_open_opts) */
    uint32_t slots; /* most locks held + waiting in a new segment;
                       0 = 10,000,000; memory is taken as they come, by
                       pages of 21 (3, where name, key, owner and id take
                       more than 76 bytes) that belong to one session
                       each: slots is rounded up to whole pages */
    uint32_t mode;  /* permissions of a new segment; 0 = 0600 */
    const char
        *compat;     /* mode table of a new segment: NULL = "enqueue", "sap" */
    uint32_t strict; /* a new segment: nobody ever overtakes a waiter */
    const char *owner; /* default owner; NULL = $ENQ_OWNER or user@host:pid */
    int64_t grace_ms;  /* remote */
    const char *token, *cafile, *certfile, *keyfile; /* remote */
    uint32_t flags;                                  /* enum enq_open_flags */
};

enum enq_open_flags {
    ENQ_OPEN_READONLY = 1u << 0, /* list, find, stat and check only; the
                                    mapping cannot be written, no session */
    ENQ_OPEN_EXISTING = 1u << 1, /* do not create: -ENOENT */
};

/* Life of an attachment --------------------------------------------------- */

/*
 * enq_open - attach this process to a lock space, creating it if need be.
 *
 * @out      set on ENQ_OK only; the caller owns it, ends it by enq_close().
 * @address  NULL = $ENQ_SPACE or "shm:enq"; "shm:NAME" (1..200 bytes of
 *           A-Z a-z 0-9 . _ -, not starting with a dot); an absolute path on
 *           a tmpfs. ("unix:", "tcp://" and "tls://" are refused with
 *           -EOPNOTSUPP.)
 * @opts     NULL for all defaults. What concerns "a new segment" is ignored
 *           when the segment exists.
 *
 * Returns: ENQ_OK.
 * Faults:  -EINVAL, -E2BIG (options of a newer header), -ENOENT, -EACCES,
 *          -EPERM, -EROFS, -ENOSPC, -ENOMEM, -EFBIG, -ENFILE, -EMFILE,
 *          -EAGAIN (too many sessions or threads); ENQ_EVERSION,
 *          ENQ_ECORRUPT, ENQ_ENAMESPACE. enq_why() names the thing.
 * Blocks:  for the creation of a segment (a few ms) at most.
 * Threads: the first attachment starts the library's one helper thread of
 *          this process (all signals blocked, asleep until needed).
 */
ENQ_API int enq_open(struct enq **out, const char *address,
    const struct enq_open_opts *opts);

/*
 * enq_close - end the attachment: RELEASE locks are released, its waiting
 * requests cancelled; LEASE and KEEP locks stay. NULL is fine. In a child of
 * the opener only the child's memory is freed.
 */
ENQ_API void enq_close(struct enq *e);

/*
 * enq_unlink - remove the name of a space; attached processes notice
 * (ENQ_EGONE for new requests; unlock and list go on working).
 *
 * Returns: ENQ_OK. Faults: -ENOENT, -EACCES, -EPERM, -EINVAL.
 */
ENQ_API int enq_unlink(const char *address);

/* Locks ------------------------------------------------------------------- */

/*
 * enq_lock - ask for a lock, waiting for it if asked to.
 *
 * @req    copied; see struct enq_req. ENQ_TEST answers what would happen
 *         and leaves no trace.
 * @grant  handle and token on ENQ_OK; the blocker on BUSY, TIMEDOUT, EXISTS.
 *         May be NULL when the answer alone is wanted together with ENQ_TEST.
 *
 * Returns: ENQ_OK, ENQ_BUSY (wait_ms 0), ENQ_TIMEDOUT, ENQ_EXISTS,
 *          ENQ_CANCELLED (somebody unlocked or broke the waiting request).
 * Faults:  -EINVAL, -ENAMETOOLONG (a field over its limit), -E2BIG,
 *          -EOPNOTSUPP, -EAGAIN (too many threads), -EROFS (read-only
 *          attachment), ENQ_EFULL, ENQ_EFORKED, ENQ_EGONE, ENQ_ECORRUPT.
 * Blocks:  up to wait_ms, never less; never for another process's death.
 * Source:  enqueue-server's lock (seed), SEMANTICS R1-R14.
 */
ENQ_API int enq_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant);

/*
 * enq_lock_spec - enq_lock() for other languages: one string, no structs.
 *
 * @spec  "product/Computer/@": name and fields, separated by '/'. A '\'
 *        takes the next byte literally: "\/" a slash, "\\" a backslash,
 *        "\@" as a whole field a literal "@". "product/" has one, empty,
 *        field; "product" has none.
 * @mode  "S", "E", "X" or "O".
 * @owner, @wait_ms, @ttl_ms as in struct enq_req.
 */
ENQ_API int enq_lock_spec(struct enq *e, const char *spec, const char *mode,
    const char *owner, int64_t wait_ms, int64_t ttl_ms,
    struct enq_grant *grant);

/*
 * enq_spec_parse - the same spec form into a request of your own.
 *
 * @req   name, key and literal are set; they point into @buf.
 * @buf   ENQ_NAME_BYTES + ENQ_KEY_BYTES bytes are always enough.
 *
 * Returns: ENQ_OK. Faults: -EINVAL, -ENAMETOOLONG.
 */
ENQ_API int enq_spec_parse(const char *spec, struct enq_req *req, char *buf,
    size_t n);

/*
 * enq_unlock - give a lock back, or cancel a waiting request (its waiter
 * then gets ENQ_CANCELLED). Any attachment to the space may do so.
 *
 * @token  0 = do not compare; else the lock goes only if it is still the
 *         one with this token.
 *
 * Returns: ENQ_OK; ENQ_NOTHELD (never held, unlocked before, other token),
 *          ENQ_EXPIRED, ENQ_LOST, ENQ_FORCED, ENQ_OWNERDIED: why it is gone;
 *          ENQ_CANCELLED: it was cancelled while it waited.
 * Faults:  ENQ_EFORKED, ENQ_ECORRUPT, -EROFS.
 * Blocks:  never.
 */
ENQ_API int enq_unlock(struct enq *e, enq_handle handle, uint64_t token);

/*
 * enq_promote - turn a granted optimistic lock into an exclusive one (E).
 * Of several that try, one wins; all other granted O locks that overlap are
 * lost to it, also those of the same owner. Never waits.
 *
 * @grant  the new token on ENQ_OK; the blocker on ENQ_REFUSED and ENQ_LOST.
 *         May be NULL.
 *
 * Returns: ENQ_OK; ENQ_REFUSED (not a granted O, or a conflicting lock
 *          overlaps); as enq_unlock() when it is gone.
 */
ENQ_API int enq_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant);

/* enq_demote - turn a granted E or X into S; waiters that can go, go.
   Returns: ENQ_OK, ENQ_REFUSED (not a granted E or X), as enq_unlock(). */
ENQ_API int enq_demote(struct enq *e, enq_handle handle, uint64_t token);

/*
 * enq_renew - the ttl counts from now again.
 *
 * @ttl_ms  0 = the lock's own ttl as asked for; ENQ_FOREVER = none.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone: an expired lock is never
 *          revived. ENQ_REFUSED while the request waits.
 */
ENQ_API int enq_renew(struct enq *e, enq_handle handle, uint64_t token,
    int64_t ttl_ms);

/*
 * enq_valid - is this lock still ours? Cheap enough for every write.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone.
 */
ENQ_API int enq_valid(struct enq *e, enq_handle handle);

/*
 * enq_find - from an id (or the text of a derived uuid) to a handle.
 *
 * Returns: ENQ_OK; as enq_unlock() when it is gone, as far as that is
 *          remembered (ids that callers brought: ENQ_NOTHELD). Faults:
 *          -EINVAL, -ENAMETOOLONG.
 */
ENQ_API int enq_find(struct enq *e, const char *id, enq_handle *handle);

/*
 * enq_id - from a handle to its id, as text.
 *
 * @id  ENQ_ID_BYTES bytes.
 *
 * Returns: ENQ_OK, ENQ_NOTHELD.
 */
ENQ_API int enq_id(struct enq *e, enq_handle handle, char *id);

/*
 * enq_adopt - take over a KEEP or LEASE lock whose process is gone: same id,
 * owner and key; ttl from now; a new token; it is this session's from now.
 *
 * Returns: ENQ_OK, ENQ_REFUSED (its session lives, or it waits); as
 *          enq_find() when it is gone.
 */
ENQ_API int enq_adopt(struct enq *e, const char *id, struct enq_grant *grant);

/* enq_break - operator: remove a lock or waiting request whatever its state.
   Its holder is told ENQ_FORCED. Returns: ENQ_OK; as enq_find() when it is
   gone. */
ENQ_API int enq_break(struct enq *e, const char *id);

/* Looking at the table ---------------------------------------------------- */

/* One entry, copied out. No user code runs under a mutex. */
struct enq_info {
    enq_handle handle;
    uint64_t token;
    int64_t granted_ms; /* wall clock, ms since 1970; 0 while waiting */
    int64_t age_ms, ttl_ms, ttl_left_ms; /* ttl: ENQ_FOREVER = none */
    int32_t pid; /* as its own PID namespace numbers it; 0 = gone */
    uint8_t mode, waiting, orphaned, on_death, fields;
    uint32_t literal;
    char owner[ENQ_OWNER_BYTES], name[ENQ_NAME_BYTES];
    char key[ENQ_KEY_BYTES]; /* the fields, each ended by a zero byte */
    char id[ENQ_ID_BYTES];
};

/*
 * enq_list - holders first, then waiters, each by arrival.
 *
 * @name, @owner  exact; NULL or "" = all.
 * @out, @n       room for n entries; NULL and 0 to count only.
 * @total         how many matched; may be more than n. May be NULL.
 *
 * Returns: ENQ_OK. Faults: -ENOMEM, ENQ_EFORKED, ENQ_ECORRUPT.
 * Blocks:  never stops the table. Each entry is consistent in itself; with
 *          a @name (and a writable attachment) all entries of that name are
 *          of one moment, and requests for that name wait meanwhile.
 */
ENQ_API int enq_list(struct enq *e, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total);

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

/*
 * enq_stat - counters and sizes. Walks the table without stopping it.
 *
 * @out  its size is set by the caller; what a newer header has is zeroed.
 *
 * Returns: ENQ_OK. Faults: -EINVAL, ENQ_EFORKED.
 */
ENQ_API int enq_stat(struct enq *e, struct enq_stats *out);

enum enq_doctor_flags {
    ENQ_DOCTOR_FIX = 1u << 0, /* rebuild what is derived, reap the dead */
};

/*
 * enq_doctor - recompute everything derived from what is true and compare;
 * look for dead sessions, for an unlinked or nearly full segment.
 *
 * @report  text, a line per finding, always ended by a zero.
 *
 * Returns: the number of findings (0 = healthy). Faults: ENQ_ECORRUPT
 *          (with its findings in @report), ENQ_EFORKED.
 * Blocks:  each part of the table for some ms at most.
 */
ENQ_API int enq_doctor(struct enq *e, uint32_t flags, char *report, size_t n);

/* enq_dump - the segment in readable form, for a bug report, written to a
   descriptor. Returns: ENQ_OK. Faults: of write(2). */
ENQ_API int enq_dump(struct enq *e, int fd);

/* Texts ------------------------------------------------------------------- */

ENQ_API int enq_version(void); /* major * 10000 + minor * 100 + patch */
ENQ_API const char *enq_strerror(int result);    /* never NULL */
ENQ_API const char *enq_result_name(int result); /* never NULL */

/*
 * enq_why - what exactly went wrong in the last call of this thread that did
 * not return ENQ_OK: a sentence that names the thing and what to do. Never
 * NULL, without a newline; valid until this thread's next call.
 */
ENQ_API const char *enq_why(void);

#ifdef __cplusplus
}
#endif
#endif /* ENQ_H */
