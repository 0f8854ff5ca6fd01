/*
 * model.h - the rules of locks once more, as plainly as they can be put.
 *
 * A list of locks, no index, no queues, no words: every question goes through
 * all of them. It shares no code and no table with
 * the library, and knows nothing of slots, shards or gates. Time is a number
 * that the test turns by hand.
 *
 * It leaves open what the rules leave open: when a waiter younger than the
 * bypass window is granted, and when somebody notices that a lock has run out.
 */
#ifndef MODEL_MODEL_H
#define MODEL_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "enq.h"

#define M_LOCKS 128
#define M_KEYS 48
#define M_SESSIONS 4
#define M_FIELDS 3
#define M_NEVER INT64_MAX
#define M_NEW UINT64_MAX /* arrival of one that has not waited */

struct m_key {
    char text[32]; /* "n/a/@"; a literal "@" is written "\@" */
    char name[8];
    char field[M_FIELDS][8];
    bool any[M_FIELDS];
    unsigned fields;
};

enum m_phase { M_FREE, M_WAITING, M_HELD, M_GONE };

struct m_lock {
    enum m_phase phase;
    unsigned key;
    char mode;
    const char *owner;
    char id[ENQ_ID_BYTES];
    bool own_id; /* brought by the caller */
    unsigned session, born;
    bool reaped; /* its session has been */
    bool passed; /* it was adopted: its page is of a dead session */
    enum enq_death on_death;
    int64_t ttl_ms; /* < 0: none */
    int64_t since_ns, deadline_ns;
    uint64_t arrival; /* one for a set */
    uint64_t set;     /* it waits, or was cancelled waiting, as one of that */
    uint64_t token;
    enq_handle handle;

    int64_t due_ns; /* M_WAITING: nobody may overtake it from then on */
    bool inside;    /* its caller has not been told how the wait ended */

    /* M_GONE: results that its handle may give, a bit each; and since when */
    unsigned answers;
    int64_t gone_ns;
    const char *taker;
};

struct m_session {
    bool open;
    unsigned born; /* of which life of this slot are we? */
};

struct model {
    int64_t slack_ms;            /* where time is real: that late is on time */
    int64_t (*starved_ms)(void); /* had no processor: that much later still, */
    int64_t starved_before_ms;   /* but for what it had not before it began */
    bool sap;
    bool strict;
    int64_t now_ns;
    struct m_key keys[M_KEYS];
    unsigned n_keys;
    bool overlap[M_KEYS][M_KEYS];
    uint64_t newest[M_KEYS]; /* token */
    struct m_session sessions[M_SESSIONS];
    struct m_lock locks[M_LOCKS];
    uint64_t arrivals;
};

/* Why a request may not be granted, or that it may. */
struct m_verdict {
    bool held;              /* by one that conflicts */
    int64_t since_ns;       /* the earliest of these */
    struct m_lock *in_line; /* else the waiter in the way */
    unsigned queue;
};

void m_key_parse(struct m_key *key, const char *text);
bool m_keys_overlap(const struct m_key *a, const struct m_key *b);

/* Does `asked` conflict with `held`? R1, and the mode tables. */
bool m_conflict(const struct model *m, const struct m_lock *held,
    const struct m_lock *asked);
bool m_overlap(const struct model *m, const struct m_lock *a,
    const struct m_lock *b);
bool m_same_owner(const struct m_lock *a, const struct m_lock *b);

bool m_session_lives(const struct model *m, const struct m_lock *l);
bool m_expired(const struct model *m, const struct m_lock *l);
/* Run out, or its session is dead and nothing keeps it. */
bool m_over(const struct model *m, const struct m_lock *l);
bool m_live(const struct model *m, const struct m_lock *l);
bool m_holds(const struct model *m, const struct m_lock *l);
bool m_waits(const struct model *m, const struct m_lock *l);
/* Is it so many ms old? Grants within one tick of the clock are a nanosecond
   apart each, which may make the last ms one less. */
/* What is left of a ttl, of which the model says `left`. */
bool m_left_fits(const struct model *m, int64_t left, int64_t real);
bool m_age_fits(const struct model *m, const struct m_lock *l, int64_t age_ms);
bool m_due(const struct model *m, const struct m_lock *l);
/* When a waiter that comes now will be. */
int64_t m_due_at(const struct model *m, const struct m_lock *ask);

/* R7's exception: what waits for the asker is not in its way. A set may wait
   for it at any other of its keys, too: a thread that serves another's request
   need not look there, but the asker's own does. */
enum m_sight { M_THIS_KEY, M_ALL_KEYS };

/* R2, R5 to R7. `ask` may be one of the waiting locks, or a new request. */
struct m_verdict m_judge(struct model *m, const struct m_lock *ask,
    enum m_sight sight);
bool m_may_go(struct model *m, const struct m_lock *ask, enum m_sight sight);
/* All of its set; of one that waits alone, the same. */
bool m_set_may_go(struct model *m, const struct m_lock *ask,
    enum m_sight sight);
/* One of its set was cancelled, or broken: the others have yet to go. */
bool m_set_is_broken(const struct model *m, const struct m_lock *l);
/* R12: is this the one to be named? */
bool m_names(const struct model *m, const struct m_lock *ask,
    const struct m_verdict *v, const struct m_lock *blocker);

/* Does it wait for ever, if nobody gives up? An owner lets go of no lock before
   it has all that it waits for. A request without an owner closes no cycle:
   without an owner nothing is held. */
bool m_in_cycle(struct model *m, const struct m_lock *waiting);

void m_grant(struct model *m, struct m_lock *l);
void m_start_ttl(struct model *m, struct m_lock *l, int64_t ttl_ms);
void m_end(struct model *m, struct m_lock *l, unsigned answers);

/* Room for one more; a lock long gone is forgotten for it. NULL: none. */
struct m_lock *m_room(struct model *m);

struct m_lock *m_find(struct model *m, enq_handle handle);
struct m_lock *m_find_id(struct model *m, const char *id); /* live */

#endif
