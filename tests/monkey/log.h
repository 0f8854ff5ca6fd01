/*
 * log.h - what happened: the histories that workers write, and that the
 * checker reads.
 *
 * Each worker's place has a log of its own in memory that all share. An
 * operation is one record: its first half is written before the call, its
 * second after it, `end_seq` last. A worker that is killed leaves a record
 * without an end: the call may have had its effect, or not.
 *
 * A request that was started is one record, too: it begins with enq_start()
 * and ends when its result was read as an event, which is a record as well.
 * Several at a place may be without an end at once.
 *
 * A call about several locks (a set) is a record for each, one after the
 * other, all of them begun before the call, and ended after it.
 *
 * `seq` is drawn from one counter, so that all moments that it names are in
 * order: what begins with a greater number began after the other had ended.
 * Times are of CLOCK_BOOTTIME, the clock that locks end by.
 */
#ifndef MONKEY_LOG_H
#define MONKEY_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define WORKERS 8
#define JANITOR WORKERS /* the place of the one that tidies up */
#define PLACES (WORKERS + 1)
#define OPS_MAX 16384
#define LIVES_MAX 8192
#define STOPS_MAX 1024
#define HEARTBEATS_MAX 4096
#define REST_MAX 512
#define SERVES_MAX 1024
#define SIGHTINGS_MAX 65536
#define SET_MOST 4 /* locks of one set */

#define NS_MS INT64_C(1000000)
#define NS_S INT64_C(1000000000)
#define NS_NEVER INT64_MAX
#define SEQ_NEVER UINT64_MAX

enum op_kind {
    OP_LOCK,
    OP_UNLOCK,
    OP_PROMOTE,
    OP_DEMOTE,
    OP_RENEW,
    OP_VALID,
    OP_BREAK,
    OP_ADOPT,
    OP_TEST,
    OP_LIST,
    OP_CLOSE,
    OP_CANCEL, /* of a started request */
    OP_EVENT,  /* was read; its result is the event's */
    OP_KINDS
};

/* A lock is known by the id that we gave it (with this bit), else by its
   handle. */
#define IDENT_OURS (UINT64_C(1) << 63)
#define IDENT_SET (UINT64_C(1) << 62) /* it was asked for in a set */

struct op {
    uint64_t begin_seq, end_seq; /* end_seq 0: no end */
    int64_t begin_ns, end_ns;
    uint64_t queued_seq; /* it was seen asleep in the queue; 0 = never */
    int64_t queued_ns;
    int64_t due_ns;     /* from when on nobody may overtake it */
    int64_t delayed_ns; /* slept on, beyond its timeouts */
    uint64_t ident;     /* the lock that it is about; 0 = not known */
    uint64_t handle;    /* of that, as far as it matters */
    uint64_t ticket;    /* of a started request; 0 = it did not have to wait */
    uint64_t token;     /* what it got */
    uint64_t
        empty_seq;    /* there was no event: of a started request its result */
    int64_t empty_ns; /* was not there, an event came later */
    int64_t ttl_ms, wait_ms;
    uint32_t deaths; /* of bridges, when it began */
    uint64_t set;    /* which its member is; 0 = it is about one lock alone */
    uint64_t given;  /* the lock that the result of a started set names */
    uint32_t delay_ms, heartbeat_ms;
    uint32_t life;
    int32_t result;
    uint8_t kind, mode, key, owner, on_death, place;
    uint8_t event;  /* its kind, of enum enq_event_kind */
    uint8_t other;  /* the owner that an event names; OWNERS: none known */
    bool foreign;   /* about a lock that somebody else holds or waits for */
    bool started;   /* by enq_start() */
    bool no_cycles; /* nobody is to look for one */
    bool was_held;  /* by a list just before, if it is foreign */
    bool whole;     /* of a list: all members of sets in it are written down */
    bool vague;     /* its result is that of one of its set */
    uint8_t set_n, set_at;
};

/* One process at one place, from its birth to its end. */
struct life {
    pid_t pid;
    uint64_t kill_seq; /* just before it was killed; 0 = it was not */
    int64_t kill_ns;
    int64_t gone_ns; /* it was seen to be gone; 0 = not yet */
    uint64_t gone_seq;
    uint64_t listens_seq; /* since then it is told of its locks; 0: never */
    int64_t empty_ns;     /* it had read all events that there were */
    int64_t starved_ns;   /* the library's thread had lacked the CPU so long */
    bool remote;          /* at the other end of a socket: see remote.h */
    int32_t grace_ms;     /* then its locks outlive it by so much, and more */
};

struct pause {
    int64_t from_ns, to_ns;
};

/* From when a bridge was ready, or went on, until it was killed or stopped; 0:
   it goes on. Of a death: when it was seen. */
struct serve {
    int64_t from_ns, to_ns, gone_ns;
    uint64_t to_seq, gone_seq;
    bool died;
};

/* An entry that was there when all was over. */
struct rest {
    uint64_t ident;
    uint8_t mode, key, owner, on_death, waiting, orphaned;
};

/* A member of a set in a list. */
struct sighting {
    uint64_t ident, list_seq; /* of that list's begin */
    bool waiting;
};

/* The history of one round. */
struct book {
    uint32_t compat, strict;
    uint32_t n_ops[PLACES], n_lives, n_stops, n_heartbeats, n_rest;
    uint32_t n_sightings, n_serves, n_deaths; /* of bridges */
    bool stuck; /* somebody did not come to an end */
    int64_t begin_ns;
    int64_t rest_ns, end_ns; /* before, and after, it was seen what is left */
    struct op ops[PLACES][OPS_MAX];
    struct life lives[LIVES_MAX];
    struct pause stops[STOPS_MAX];           /* somebody was stopped */
    struct pause heartbeats[HEARTBEATS_MAX]; /* the machine was late */
    struct rest rest[REST_MAX];
    struct serve serves[SERVES_MAX];
    struct sighting sightings[SIGHTINGS_MAX];
};

uint64_t seq_next(void);
int64_t now_ns(void);

/* By the killer, be it the process itself, just before. False: another one is
   about to kill it; its word counts, or a late one would say that it lived for
   longer. */
bool life_doom(struct life *life);

/* Memory that all children share. */
void *log_shared(size_t bytes);
/* Before the first fork. */
void log_init(void);

/* The next record at a place, begun; NULL when the log is full. */
struct op *op_begin(struct book *b, unsigned place, const struct op *what);
void op_end(struct op *op, int result);

static inline bool op_ended(const struct op *op)
{
    return op->end_seq != 0;
}

/* It has had its effect; or it may have had it. */
static inline bool op_done(const struct op *op)
{
    return op_ended(op) && op->result == 0;
}

static inline bool op_may_be_done(const struct op *op)
{
    return !op_ended(op) || op->result == 0 || op->vague;
}

/* Of how many locks was the call? */
static inline unsigned op_members(const struct op *op)
{
    return op->set != 0 ? op->set_n : 1;
}

/* One of them; NULL: its caller died before it was asked for. */
static inline const struct op *op_member(const struct op *op, unsigned i)
{
    const struct op *m = op - op->set_at + i;

    return op->set == 0 || m->set == op->set ? m : NULL;
}

static inline bool op_has_ident(const struct op *op, uint64_t ident)
{
    bool has = false;

    for (unsigned i = 0; i < op_members(op); i++)
        has |= op_member(op, i) != NULL && op_member(op, i)->ident == ident;
    return has;
}

/* Do both belong to one call? */
static inline bool op_same_set(const struct op *a, const struct op *b)
{
    return a == b || (a->set != 0 && a->set == b->set);
}

/* What is asked once for all of them, is asked of this one. */
static inline bool op_leads(const struct op *op)
{
    return op->set == 0 || op->set_at == 0;
}

const char *op_text(const struct op *op);

#endif
