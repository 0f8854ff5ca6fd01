/*
 * story.h - from what was called to what was held, and when.
 *
 * A call has its effect somewhere between its begin and its end. So each lock
 * is known by two kinds of spans:
 *
 * - SURE: it was held all the time from the end of the call that got it to
 *   the begin of the first thing that may have ended it: an unlock, a break,
 *   a rival's promotion, the kill of its process, the earliest end of its ttl.
 *   Two sure spans that exclude each other and meet are a broken lock.
 * - MAYBE: it was not held before the call that got it began, nor after the
 *   end of the first thing that ended it for certain. Where there is no maybe
 *   span in the way, nothing was.
 *
 * A lock whose mode changes has a span for each mode.
 */
#ifndef MONKEY_STORY_H
#define MONKEY_STORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "log.h"
#include "rules.h"

/* How much later than its ttl a lock may still block: the clock's tick, which
   is added to each ttl, and what waking up takes (P7). */
#define TTL_LATE_NS (20 * NS_MS)

/* P3: what can go, goes within this time; P4: after a death within that. */
#define ASLEEP_NS (50 * NS_MS)
#define DEATH_NS (100 * NS_MS)

struct span {
    uint64_t from_seq, to_seq; /* of sure ones only */
    int64_t from_ns, to_ns;
    int64_t woken_ns; /* of maybe ones: from_ns, unless its waiter slept on */
    /* Of sure ones with a lock delay: until then no other owner gets it, if
       that is before the number at which it may have been ended by a call. */
    int64_t delay_to_ns;
    uint64_t delay_to_seq;
    const struct op *op; /* that got the lock */
    uint8_t mode;
    bool by_death; /* its end is that of its process */
};

struct spans {
    struct span *at;
    size_t n, room;
};

enum fault {
    FAULT_EXCLUSION,
    FAULT_TOKEN,
    FAULT_TWICE,   /* granted twice, or released twice */
    FAULT_LOST,    /* a lock was gone, and nothing had ended it */
    FAULT_ENDED,   /* it was said to have ended in a way that it had not */
    FAULT_REFUSED, /* nothing was in the way */
    FAULT_EARLY,   /* a wait ended before its time */
    FAULT_RESULT,  /* no result of this call */
    FAULT_OVERTAKEN,
    FAULT_WINDOW, /* due later than it may be */
    FAULT_ASLEEP, /* eligible, and not granted */
    FAULT_DEATH,  /* the same, after a death */
    FAULT_LEAK,
    FAULT_KEPT, /* a lock that was to be kept is gone */
    FAULT_STUCK,
    FAULT_CRASH,
    FAULT_TABLE,    /* the table itself is not clean */
    FAULT_TICKET,   /* a result too many, or of nothing that was started */
    FAULT_LATE,     /* a result that is missing */
    FAULT_EVENT,    /* an event that cannot be */
    FAULT_ORDER,    /* events of one lock out of order */
    FAULT_SILENT,   /* a lock has ended, and its listener was not told */
    FAULT_DEADLOCK, /* there was no cycle */
    FAULT_DELAY,    /* given to another before its lock delay was over */
    FAULT_SET,      /* some of a set, and not all of it */
    FAULTS
};

extern const char *const fault_names[FAULTS];

struct story {
    const struct book *b;
    const struct op **ops;   /* by begin */
    const struct op **about; /* by lock, then by begin */
    size_t n_ops;
    const struct op **promotes;
    size_t n_promotes;
    const struct op **closes;       /* of each life */
    int64_t *over_ns, *released_ns; /* the same: see remote.h */
    struct spans sure, maybe;
    struct sighting *sightings; /* by lock, then by list */
    size_t n_sightings;
    uint64_t *explained; /* results of giving several back */
    size_t n_explained;
    uint32_t faults[FAULTS];
    unsigned quiet; /* so many faults of a kind are told */
};

void story_begin(struct story *s, const struct book *b);
/* Finds the spans, and whatever is wrong about single locks. */
void story_tell(struct story *s);
void story_end(struct story *s);

/* True: it was told. */
bool story_fault(struct story *s, enum fault fault, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Prints all that was done about a lock. */
void story_deeds(const struct story *s, uint64_t ident);

/* And all that may have been held where this was granted. */
void story_around(const struct story *s, const struct op *op);

/* Of two requests: do they overlap; does `held` keep `asked` out? */
bool ops_overlap(const struct op *a, const struct op *b);
bool op_excludes(const struct story *s, const struct op *held, unsigned mode,
    const struct op *asked);

/* The last moment at which the call may still have been under way. */
int64_t op_over_ns(const struct story *s, const struct op *op);
/* Until when its process was not yet killed; SEQ_NEVER. */
uint64_t life_kill_seq(const struct story *s, uint32_t life);
/* Neither killed, nor about to close. */
uint64_t life_end_seq(const struct story *s, uint32_t life);
int64_t life_end_ns(const struct story *s, uint32_t life);
/* There for sure that it waits: until its result was looked for in vain. */
int64_t op_waits_ns(const struct story *s, const struct op *op);

#endif
