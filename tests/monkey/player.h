/*
 * player.h - what the parts of a worker share: calls that are written down,
 * and the locks that it holds.
 */
#ifndef MONKEY_PLAYER_H
#define MONKEY_PLAYER_H

#include "worker.h"

#define HELD_MAX 3    /* no more are asked for */
#define PENDING_MAX 5 /* but these may all be granted */
#define HELD_ROOM (HELD_MAX + SET_MOST * (PENDING_MAX + 1))
#define LOG_SPARE 200 /* records to end with what is under way */

struct player {
    struct part p;
    uint64_t dice;
    struct held held[HELD_ROOM];
    unsigned n;
    struct op *pending[PENDING_MAX];
    unsigned n_pending;
    struct op stale; /* a started request that has its result */
    int fd;          /* -1: it does not listen */
    uint64_t empty_seq;
    int64_t empty_ns, starved_at_ns;
    bool full; /* the log is */
    bool remote;
    bool patient; /* its session may outlive its bridge */
};

extern struct player me;

uint64_t player_below(uint64_t n);

/* The record of a call, begun; NULL: there is no room for it. */
struct op *player_begin(const struct op *what);
int player_end(struct op *op, int result);

/* A call about the lock that `of` got. */
struct op player_about(const struct op *of, enum op_kind kind);

struct op player_request(void);
/* It may bring its own id, or has to. */
void player_choose_id(struct op *op);
void player_hold(const struct op *op, enq_handle handle);
void player_forget(unsigned i);
void player_unlock(unsigned i);

/* --- several locks as one: sets.c --- */

void sets_lock(void);
void sets_test(void);
void sets_start(void);
/* Of some that are held, be they of one set or not. */
void sets_unlock(void);
/* A started one has its result: of all its members. */
void sets_take(struct op *first, const struct op *event);

/* --- without waiting: unanswered.c --- */

int64_t unanswered_patience_ms(void);
void unanswered_note(struct op *op);

void unanswered_start(void);
void unanswered_cancel(unsigned i);
/* Of one that has its result. */
void unanswered_cancel_late(void);
/* From now on it is told of its locks. */
void unanswered_listen(void);
/* Reads all events, if there are any; waits for the first so long. */
void unanswered_read(int wait_ms);
/* The end: until all have their results. */
void unanswered_finish(void);

#endif
