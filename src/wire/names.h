/*
 * names.h - wire: the names of PROTOCOL.md, each once, for both sides.
 *
 * The bridge reads what the client writes, and the other way round; nobody but
 * the two compares their spellings. So each takes them from here: a slip of the
 * pen in one of them does not compile, and all that deals with a member of the
 * protocol is found by its macro.
 *
 *	OP_LOCK        enum op: an operation; its word on the wire is in OP_MAP
 *	WIRE_waitTime  a member, or a word that is its value, spelt as on the wire:
 *	               HANDLE and handle, TOKEN and token are two names each
 *	STAT_MAP       the members of STAT, which are those of struct enq_stats
 *
 * They are literals: TEXT_PUT() takes their length at compile time, and so does
 * what compares a name. None of them changes, ever (PROTOCOL.md, Stability); a
 * new one goes to the end of its group. Tests spell them for themselves, as
 * clients in other languages do.
 */
#ifndef WIRE_NAMES_H
#define WIRE_NAMES_H

/* --- operations ------------------------------------------------------------ */

/* OP. The first four as enqueue-server numbers them (part 1), the others are
   words (part 2). */
#define OP_MAP(X)                                                              \
    X(LOCK, "1")                                                               \
    X(UNLOCK, "2")                                                             \
    X(PROMOTE, "3")                                                            \
    X(LIST, "4")                                                               \
    X(SET, "set")                                                              \
    X(UNSET, "unset")                                                          \
    X(DEMOTE, "demote")                                                        \
    X(RENEW, "renew")                                                          \
    X(VALID, "valid")                                                          \
    X(FIND, "find")                                                            \
    X(ID, "id")                                                                \
    X(ADOPT, "adopt")                                                          \
    X(BREAK, "break")                                                          \
    X(CHECK, "check")                                                          \
    X(CANCEL, "cancel")                                                        \
    X(GRAPH, "graph")                                                          \
    X(STAT, "stat")                                                            \
    X(DOCTOR, "doctor")                                                        \
    X(HELLO, "hello")                                                          \
    X(PING, "ping")                                                            \
    X(GOODBYE, "goodbye")

enum op {
    OP_NONE,
#define X(name, text) OP_##name,
    OP_MAP(X)
#undef X
};

/* --- members, and words that are values ------------------------------------ */

/* A member's name as it stands before its value: "name": */
#define WIRE_KEY(name) "\"" name "\":"

/* Part 1, as enqueue-server has them. A request: */
#define WIRE_OP "OP"
#define WIRE_reqUUID "reqUUID"
#define WIRE_eleLock "eleLock"
#define WIRE_lockUUID "lockUUID"
#define WIRE_lockName "lockName"
#define WIRE_lockOwner "lockOwner"

/* a lock: eleLock, one of locks, an entry of a list; */
#define WIRE_name "name"
#define WIRE_argument "argument"
#define WIRE_mode "mode"
#define WIRE_owner "owner"
#define WIRE_waitTime "waitTime"
#define WIRE_timeout "timeout"
#define WIRE_uuid "uuid"
#define WIRE_timestamp "timestamp"

/* a reply. */
#define WIRE_RC "RC"
#define WIRE_OWNER "OWNER"
#define WIRE_MSG "MSG"

/* Part 2. Beside the lock, or in place of its id; HANDLE, TOKEN and GRANTS are
   members of replies, too: */
#define WIRE_HANDLE "HANDLE"
#define WIRE_TOKEN "TOKEN"
#define WIRE_GRANTS "GRANTS"
#define WIRE_locks "locks"
#define WIRE_test "test"
#define WIRE_noDeadlock "noDeadlock"
#define WIRE_start "start"
#define WIRE_ticket "ticket"
#define WIRE_limit "limit"

/* of a lock, beyond part 1; */
#define WIRE_literal "literal"
#define WIRE_onDeath "onDeath"
#define WIRE_delay "delay"

/* the words of waitTime, timeout and onDeath (by enum enq_death); */
#define WIRE_forever "forever"
#define WIRE_none "none"
#define WIRE_release "release"
#define WIRE_lease "lease"
#define WIRE_keep "keep"
#define WIRE_DEATHS                                                            \
    {                                                                          \
        WIRE_release, WIRE_lease, WIRE_keep                                    \
    }

/* of hello (token is a member of entries, too). */
#define WIRE_version "version"
#define WIRE_token "token"
#define WIRE_grace "grace"
#define WIRE_session "session"

/* A reply: */
#define WIRE_RESULT "RESULT"
#define WIRE_BLOCKER "BLOCKER"
#define WIRE_INDEX "INDEX"
#define WIRE_MODE "MODE"
#define WIRE_TOTAL "TOTAL"
#define WIRE_LOCKS "LOCKS"
#define WIRE_EDGES "EDGES"
#define WIRE_STAT "STAT"
#define WIRE_FINDINGS "FINDINGS"
#define WIRE_REPORT "REPORT"

/* to hello; the limits are in tools/bridge/options.h, and the client asks for
   these two; */
#define WIRE_SESSION "SESSION"
#define WIRE_VERSION "VERSION"
#define WIRE_GRACE "GRACE"
#define WIRE_KEEPALIVE "KEEPALIVE"
#define WIRE_RESUMED "RESUMED"
#define WIRE_LIMITS "LIMITS"
#define WIRE_window "window"
#define WIRE_max_request "max-request"
#define WIRE_list_max "list-max"

/* an entry of LOCKS, which has of a lock's members as well; BLOCKER; EDGES. */
#define WIRE_handle "handle"
#define WIRE_id "id"
#define WIRE_waiting "waiting"
#define WIRE_orphaned "orphaned"
#define WIRE_dying "dying"
#define WIRE_pid "pid"
#define WIRE_peer "peer"
#define WIRE_granted "granted"
#define WIRE_age "age"
#define WIRE_left "left"
#define WIRE_ttl "ttl"
#define WIRE_queue "queue"
#define WIRE_waiter "waiter"
#define WIRE_blocker "blocker"

/* The list of part 1 has one more, with these words and those above. */
#define WIRE_state "state"
#define WIRE_held "held"

/* An event, and its kinds. */
#define WIRE_EVENT "EVENT"
#define WIRE_TICKET "TICKET"
#define WIRE_result "result"
#define WIRE_expired "expired"
#define WIRE_expiring "expiring"
#define WIRE_lost "lost"
#define WIRE_blocking "blocking"

/* --- counters -------------------------------------------------------------- */

/* STAT: members of struct enq_stats, by their names and in the order in which
   they are said: its first, texts, numbers (and of how many bits). */
#define WIRE_space "space"
#define STAT_MAP(TEXT, NUMBER)                                                 \
    TEXT(uuid)                                                                 \
    TEXT(compat)                                                               \
    TEXT(overflow_owner)                                                       \
    NUMBER(U32, layout)                                                        \
    NUMBER(U32, strict)                                                        \
    NUMBER(I64, created_ms)                                                    \
    NUMBER(U64, slots_max)                                                     \
    NUMBER(U64, held)                                                          \
    NUMBER(U64, waiting)                                                       \
    NUMBER(U64, orphaned)                                                      \
    NUMBER(U64, expired)                                                       \
    NUMBER(U64, sessions)                                                      \
    NUMBER(U64, sessions_max)                                                  \
    NUMBER(U64, threads)                                                       \
    NUMBER(U64, threads_max)                                                   \
    NUMBER(U64, bytes_max)                                                     \
    NUMBER(U64, bytes_used)                                                    \
    NUMBER(U64, grants)                                                        \
    NUMBER(U64, refusals)                                                      \
    NUMBER(U64, waits)                                                         \
    NUMBER(U64, wait_grants)                                                   \
    NUMBER(U64, timeouts)                                                      \
    NUMBER(U64, cancels)                                                       \
    NUMBER(U64, releases)                                                      \
    NUMBER(U64, expiries)                                                      \
    NUMBER(U64, promotes)                                                      \
    NUMBER(U64, promotes_refused)                                              \
    NUMBER(U64, lost)                                                          \
    NUMBER(U64, forced)                                                        \
    NUMBER(U64, overflows)                                                     \
    NUMBER(U64, owner_deaths)                                                  \
    NUMBER(U64, recoveries)                                                    \
    NUMBER(U64, contended)                                                     \
    NUMBER(U32, unlinked)

#endif
