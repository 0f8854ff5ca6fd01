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

#define LOG_LINES 20
#define LOG_BYTES 240

/* The caller who waits for a lock of the model. */
struct caller {
    struct place place;
    struct ask ask;
    char bytes[KEY_BYTES_MAX];
    mono_t deadline;
    bool asleep, told;
    bool granted; /* before whatever came later */
};

struct history {
    const struct config *config;
    struct model m;
    struct space s;
    struct caller callers[M_LOCKS];
    uint64_t dice;

    /* in this step */
    bool was_there[M_LOCKS];     /* part of the real table */
    bool left[M_LOCKS];          /* part of it no more: others take its place */
    bool fresh[M_LOCKS];         /* has a new token */
    bool granted[M_LOCKS];       /* after it had waited */
    const struct m_lock *winner; /* of a promote: R9 */
    bool roused;                 /* everybody was told to look */
    uint64_t compared;

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
void adopt(struct history *h);
/* The same, and nobody else must have been: R8, with those that left. */
void settle(struct history *h);
/* The whole state is the same. */
void compare(struct history *h);

/* R8 goes through the waiters once: a grant that comes later in the same pass
   may excuse or cumulate, but an earlier waiter has had its turn. */
bool had_its_turn(struct history *h, const struct m_lock *l);

void new_token(struct history *h, struct m_lock *l, uint64_t token);

/* --- ask.c, hold.c, come.c: steps --- */

void step_lock(struct history *h);
void step_test(struct history *h);
void step_wait(struct history *h);
void step_look(struct history *h);
void step_look_all(struct history *h);

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
void step_bury(struct history *h);
void step_open(struct history *h);
void step_heal(struct history *h);
void step_list(struct history *h);

/* An open attachment. */
struct enq *any_session(struct history *h, unsigned *number);
/* The copy of who is in the way is of one who is. `self` for m_judge. */
void check_blocker(struct history *h, const struct m_lock *self,
    const struct m_verdict *v, const struct enq_blocker *b);

#define ANSWER(rc) (1u << (rc))
/* One of these answers, a bit each. */
void expect(struct history *h, int rc, unsigned answers);

#endif
