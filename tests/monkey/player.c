/*
 * player.c - a worker's calls, written down, and the locks that it holds (see
 * player.h).
 */
#include "player.h"

struct op *player_begin(const struct op *what)
{
    struct op op = *what;

    op.life = me.p.life;
    backend_op = op_begin(me.p.book, me.p.place, &op);
    me.full = backend_op == NULL;
    return backend_op;
}

/* A bridge died meanwhile, and another was asked again: what the first one has
   done is not known. */
static bool is_vain(const struct op *op, int result)
{
    uint32_t deaths = __atomic_load_n(&me.p.book->n_deaths, __ATOMIC_ACQUIRE);

    return me.remote && result > ENQ_OK && op->kind != OP_EVENT &&
        deaths != op->deaths;
}

int player_end(struct op *op, int result)
{
    if (!is_vain(op, result))
        op_end(op, result);
    backend_op = NULL;
    return result;
}

void player_forget(unsigned i)
{
    me.held[i] = me.held[--me.n];
}

/* Of the lock itself: the call is another, the lock the same. */
struct op player_about(const struct op *of, enum op_kind kind)
{
    struct op op = *of;

    op.kind = (uint8_t)kind;
    op.token = op.ticket = 0;
    op.queued_seq = op.end_seq = op.empty_seq = 0;
    op.foreign = op.started = false;
    op.set = op.given = 0;
    op.set_n = op.set_at = 0;
    return op;
}

void player_hold(const struct op *op, enq_handle handle)
{
    me.held[me.n].op = *op;
    me.held[me.n++].handle = handle;
}
