/*
 * hand.h - histories written by hand: what they are made of.
 *
 * Moments are in ms, and their numbers grow with them.
 */
#ifndef MONKEY_HAND_H
#define MONKEY_HAND_H

#include "story.h"

/* A history, and the one kind of fault that it has; FAULTS: none. */
struct hand_test {
    const char *name;
    void (*tell)(void);
    enum fault fault;
};
#define T(f, fault)                                                            \
    {                                                                          \
#f, f, fault                                                           \
    }
#define NONE FAULTS

/* Each ended by one without a name. */
extern const struct hand_test hand_more[], hand_started[], hand_events[],
    hand_sets[], hand_remote[];

extern struct book *hand_book;
extern uint64_t hand_token; /* the newest */

enum { A, B, AT, AX, AY, BX, A_AT, AT_X }; /* keys: see rules.c */
enum { NOBODY, ANN, BOB, CID };

#define S ENQ_MODE_S
#define E ENQ_MODE_E
#define X ENQ_MODE_X
#define O ENQ_MODE_O

#define AT_MS(ms) ((int64_t)((ms)*1e6) + 1)

static inline void set_times(struct op *op, double begin, double end)
{
    op->begin_ns = AT_MS(begin);
    op->begin_seq = (uint64_t)op->begin_ns;
    op->end_ns = end > 0 ? AT_MS(end) : 0;
    op->end_seq = (uint64_t)op->end_ns;
}

/* `end` 0: it has none. */
static inline struct op *call(unsigned place, enum op_kind kind, double begin,
    double end)
{
    struct op *op = &hand_book->ops[place][hand_book->n_ops[place]++];

    *op = (struct op){.kind = (uint8_t)kind,
        .place = (uint8_t)place,
        .life = place,
        .ttl_ms = ENQ_FOREVER};
    set_times(op, begin, end);
    return op;
}

static inline struct op *lock(unsigned place, unsigned mode, double begin,
    double end)
{
    struct op *op = call(place, OP_LOCK, begin, end);

    op->mode = (uint8_t)mode;
    op->key = A;
    op->owner = (uint8_t)(ANN + place);
    op->token = ++hand_token;
    op->ident = IDENT_OURS | op->begin_seq;
    return op;
}

/* A call about that lock. */
static inline struct op *about(const struct op *of, enum op_kind kind,
    double begin, double end)
{
    struct op *op = call(of->place, kind, begin, end);

    op->mode = of->mode;
    op->key = of->key;
    op->owner = of->owner;
    op->on_death = of->on_death;
    op->ident = of->ident;
    op->life = of->life;
    return op;
}

static inline struct op *foreign(unsigned place, const struct op *of,
    enum op_kind kind, double begin)
{
    struct op *op = about(of, kind, begin, begin + 1);

    op->foreign = true;
    op->life = place;
    return op;
}

static inline struct op *unlock(const struct op *of, double begin)
{
    return about(of, OP_UNLOCK, begin, begin + 1);
}

/* It waited, asleep from just after its begin. */
static inline struct op *waiter(unsigned place, unsigned mode, double begin,
    double end)
{
    struct op *op = lock(place, mode, begin, end);

    op->wait_ms = ENQ_FOREVER;
    op->queued_ns = op->begin_ns + 1000;
    op->queued_seq = op->begin_seq + 1000;
    op->due_ns = op->queued_ns;
    return op;
}

/* Started, and it had to wait; its result was looked for in vain until just
   before the end. */
static inline struct op *start(unsigned place, unsigned mode, double begin,
    double end)
{
    struct op *op = waiter(place, mode, begin, end);

    op->started = true;
    op->handle = ++hand_token;
    op->ticket = ++hand_token;
    op->empty_ns = (end > 0 ? op->end_ns : op->begin_ns) - 1000;
    op->empty_seq = (uint64_t)op->empty_ns;
    return op;
}

/* Read by the process that has the lock, or wants it. */
static inline struct op *event(const struct op *of, unsigned kind, double at)
{
    struct op *op = about(of, OP_EVENT, at, at + 0.01);

    op->event = (uint8_t)kind;
    op->ticket = kind == ENQ_EVENT_RESULT ? of->ticket : 0;
    op->handle = of->handle;
    op->token = of->token;
    op->result = kind == ENQ_EVENT_RESULT ? of->result : 0;
    op->empty_ns = AT_MS(at) - 1000;
    op->empty_seq = (uint64_t)op->empty_ns;
    hand_book->lives[of->life].listens_seq = 1;
    hand_book->lives[of->life].empty_ns = op->end_ns;
    return op;
}

static inline void die(unsigned place, double kill, double gone)
{
    hand_book->lives[place] = (struct life){
        .kill_seq = (uint64_t)AT_MS(kill),
        .kill_ns = AT_MS(kill),
        .gone_ns = AT_MS(gone),
        .gone_seq = (uint64_t)AT_MS(gone),
    };
}

static inline void left(const struct op *of)
{
    hand_book->rest[hand_book->n_rest++] = (struct rest){.ident = of->ident,
        .mode = of->mode,
        .key = of->key,
        .owner = of->owner,
        .on_death = of->on_death};
}

#endif
