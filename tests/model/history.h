/*
 * history.h - one random history, run on the model and the real table.
 *
 * A history is a list of 64-bit words. Each is one step: what it does is drawn
 * from the word and from the state that it meets, so that any part of a
 * history is a history, and one that fails can be made shorter.
 */
#ifndef MODEL_HISTORY_H
#define MODEL_HISTORY_H

#include "config.h"
#include "model.h"
#include "space.h"
#include "wait/set.h"

#define LOG_LINES 20
#define LOG_BYTES 240

#define SET_MOST 4
#define SETS 32

/* A lock set that waits. */
struct asking {
    unsigned n; /* 0: none */
    uint64_t number;
    struct m_lock *lock[SET_MOST];
    struct set set;
    struct member member[SET_MOST];
    struct enq_blocker blocker;
    char id[SET_MOST][ENQ_ID_BYTES];
    bool told; /* woken, and it has not looked since */
};

/* A lock that a step was granted at once. */
struct own {
    unsigned key;
    const char *owner;
    uint64_t token;
};

/* The caller that waits for a lock of the model. */
struct caller {
    struct place place;
    struct ask ask;
    char bytes[KEY_BYTES_MAX];
    mono_t deadline;
    bool asleep, told;
    bool tried;   /* told once, which is enough until it is due ... */
    bool first;   /* ... or until nobody waits before it: told then, too */
    bool granted; /* before whatever came later */
};

struct history {
    const struct config *config;
    struct model m;
    struct space s;
    struct caller callers[M_LOCKS];
    struct asking sets[SETS];
    uint64_t n_sets; /* ever */
    uint64_t dice;

    /* in this step */
    bool was_there[M_LOCKS];     /* part of the real table */
    bool left[M_LOCKS];          /* part of it no more: others take its place */
    bool fresh[M_LOCKS];         /* has a new token */
    bool granted[M_LOCKS];       /* after it had waited */
    bool granted_set[M_LOCKS];   /* with all others of its set */
    const struct m_lock *winner; /* of a promote: R9 */
    const struct m_lock *cut;    /* its ttl was: its waiters look anew */
    bool roused;                 /* all waiters were told to look */
    bool died[M_LOCKS];       /* left as its session is over, and it waited */
    struct own own[SET_MOST]; /* granted at once, to the asker ... */
    unsigned n_own;
    bool entered;           /* ... and in the model */
    bool could_go[M_LOCKS]; /* before they were */
    uint64_t compared;
    uint64_t questions, cycles; /* asked, and found by both */
    uint64_t sets_held, sets_queued, sets_granted, sets_left;

    bool failed;
    const char *kind; /* of difference: its format */
    char fault[512];
    char log[LOG_LINES][LOG_BYTES];
    unsigned logged;
    bool talk; /* print each step */
};

/* Draws a number below n. */
unsigned draw(struct history *h, unsigned n);
bool chance(struct history *h, unsigned percent);

void say(struct history *h, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void fail(struct history *h, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A lock in words. */
const char *lock_text(struct history *h, const struct m_lock *l);
void show_both(struct history *h);

static inline struct caller *caller_of(struct history *h, struct m_lock *l)
{
    return &h->callers[l - h->m.locks];
}

/* Runs one step. False: the two differ. */
bool history_begin(struct history *h, const struct config *config);
bool history_step(struct history *h, uint64_t word);
void history_end(struct history *h);

/* One operation is over: compares. */
void step_done(struct history *h);

/* --- settle.c: what a step did --- */

/* Reads the real table, and notes what has left it. */
void observe(struct history *h);
/* Grants in the model whom the table has granted, as far as the rules allow. */
void adopt(struct history *h, enum m_sight sight);
/* The same, and nobody else must have been: R8, with those that left. */
void settle(struct history *h);
/* The whole state is the same. */
void compare(struct history *h);

/* R8 goes through the waiters once: a grant that comes later in the same pass
   may excuse or cumulate, but an earlier waiter has had its turn. */
bool had_its_turn(struct history *h, const struct m_lock *l);

/* The table has granted this at once: what it did before that is judged first,
   and what it did after, once all of them are entered. */
void own_begin(struct history *h, const struct m_lock *ask, uint64_t token);
void own_entered(struct history *h);

void new_token(struct history *h, struct m_lock *l, uint64_t token);

/* --- ask.c, sets.c, hold.c, come.c: steps --- */

void step_lock(struct history *h);
void step_test(struct history *h);
void step_wait(struct history *h);
void step_look(struct history *h);
void step_look_all(struct history *h);

void step_lock_set(struct history *h);
void step_wait_set(struct history *h);
/* One that waits looks; its answer. */
int look_set(struct history *h, struct asking *a);
bool set_is_inside(struct history *h, const struct asking *a);
/* Nobody is inside this session's calls any more. */
void leave_sets(struct history *h, unsigned session);
/* The set of which it is one, while that waits; NULL: it waits alone. */
struct asking *set_of(struct history *h, const struct m_lock *l);

void step_unlock(struct history *h);
void step_promote(struct history *h);
void step_demote(struct history *h);
void step_renew(struct history *h);
void step_valid(struct history *h);
void step_adopt(struct history *h);
void step_break(struct history *h);
void step_find(struct history *h);

void step_time(struct history *h);
void step_close(struct history *h);
void step_die(struct history *h);
void step_reap(struct history *h);
void step_open(struct history *h);
void step_recover(struct history *h);
void step_list(struct history *h);

/* What is asked for, at random; as the library takes it. */
void draw_ask(struct history *h, struct m_lock *ask);
void fill_req(struct history *h, const struct m_lock *ask, struct enq_req *req);
void fill_ask(struct history *h, struct ask *to, char *bytes,
    const struct enq_req *req, const char *owner);
void say_ask(struct history *h, const char *verb, const struct m_lock *ask);
/* Into the model, as held or waiting. */
struct m_lock *enter(struct history *h, const struct m_lock *ask,
    enum m_phase phase, enq_handle handle);
/* One is in its way, or not, according to how far one looks into a set that is
   broken: either will do. */
bool is_blurred(struct history *h, const struct m_lock *ask);
enum m_sight sight_at(struct history *h, mono_t deadline);
void ask_for_cycle(struct history *h, struct m_lock *l);

/* An open attachment. */
struct enq *any_session(struct history *h, unsigned *number);
/* The copy of the blocker is of one that blocks. `self` for m_judge. */
void check_blocker(struct history *h, const struct m_lock *self,
    const struct m_verdict *v, const struct enq_blocker *b);

#define ANSWER(rc) (1u << (rc))
/* One of these answers, a bit each. */
void expect(struct history *h, int rc, unsigned answers);

#endif
