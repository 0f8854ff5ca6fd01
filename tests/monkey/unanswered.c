/*
 * unanswered.c - the part of a worker that does not wait: requests that were
 * started, and events.
 */
#include <poll.h>

#include "player.h"
#include "starved.h"

/* --- starting --- */

/* Nobody waits for its result in a call: it may take as long as it likes. */
int64_t unanswered_patience_ms(void)
{
    switch (player_below(4)) {
    case 0:
        return 1 + (int64_t)player_below(15);
    case 1:
        return player_below(4) == 0 ? 0 : 20 + (int64_t)player_below(40);
    default:
        return ENQ_FOREVER;
    }
}

static void note_missing(struct op *op, uint64_t seq, int64_t ns)
{
    for (unsigned i = 0; i < op_members(op); i++) {
        op[i].empty_seq = seq;
        op[i].empty_ns = ns;
    }
}

void unanswered_note(struct op *op)
{
    note_missing(op, op->begin_seq, op->begin_ns);
    me.pending[me.n_pending++] = op;
}

/* backend_op is for those that sleep. */
void unanswered_start(void)
{
    struct op want = player_request(), *op;
    int rc;

    want.started = true;
    want.wait_ms = unanswered_patience_ms();
    op = player_begin(&want);
    if (op == NULL)
        return;
    backend_op = NULL;
    player_choose_id(op);
    rc = me.p.backend->start(op);
    if (rc == ENQ_PENDING && op->wait_ms != 0) {
        unanswered_note(op);
        return;
    }
    player_end(op, rc);
    if (rc == ENQ_OK)
        player_hold(op, op->handle);
}

static void cancel(const struct op *of)
{
    struct op what = player_about(of, OP_CANCEL), *op;

    what.ticket = of->ticket;
    op = player_begin(&what);
    if (op != NULL)
        player_end(op, me.p.backend->cancel(of->ticket));
}

void unanswered_cancel(unsigned i)
{
    cancel(me.pending[i]);
}

void unanswered_cancel_late(void)
{
    if (me.stale.ticket != 0)
        cancel(&me.stale);
}

void unanswered_listen(void)
{
    struct life *life = &me.p.book->lives[me.p.life];

    if (me.fd >= 0)
        return;
    me.fd = me.p.backend->listen();
    if (me.fd >= 0)
        life->listens_seq = seq_next();
}

/* --- events --- */

#define STARVED_NS (5 * NS_MS) /* looked at so often */

/* There was no event at that moment. */
static void note_empty(uint64_t seq, int64_t ns)
{
    if (ns - me.starved_at_ns > STARVED_NS) {
        me.p.book->lives[me.p.life].starved_ns = starved_ns();
        me.starved_at_ns = ns;
    }
    me.empty_seq = seq;
    me.empty_ns = ns;
    for (unsigned i = 0; i < me.n_pending; i++)
        note_missing(me.pending[i], seq, ns);
    if (me.fd >= 0)
        me.p.book->lives[me.p.life].empty_ns = ns;
}

static void take_result(unsigned i, const struct op *event)
{
    struct op *op = me.pending[i];

    me.pending[i] = me.pending[--me.n_pending];
    if (op->set != 0) {
        sets_take(op, event);
        return;
    }
    op->token = event->token;
    if (op->handle == 0)
        op->handle = event->handle; /* a bridge does not tell it before */
    player_end(op, event->result);
    me.stale = *op;
    if (event->result == ENQ_OK)
        player_hold(op, event->handle);
}

static void take_lock_event(const struct op *event)
{
    bool over =
        event->event == ENQ_EVENT_EXPIRED || event->event == ENQ_EVENT_LOST;

    for (unsigned i = 0; i < me.n; i++)
        if (me.held[i].handle == event->handle && over &&
            player_below(2) == 0) {
            player_forget(i); /* the others are told again, by a call */
            return;
        }
}

/* Of which request is it? The newest of our own requests with this handle. */
static void find_lock(struct op *event)
{
    const struct book *b = me.p.book;

    for (uint32_t i = b->n_ops[me.p.place]; i > 0; i--) {
        const struct op *op = &b->ops[me.p.place][i - 1];

        if (op->life != me.p.life)
            return;
        if ((op->kind != OP_LOCK && op->kind != OP_ADOPT) ||
            op->handle != event->handle)
            continue;
        event->ident = op->ident;
        event->key = op->key;
        event->mode = op->mode;
        event->owner = op->owner;
        return;
    }
}

static unsigned find_pending(const struct op *event)
{
    unsigned i = 0;

    if (event->event != ENQ_EVENT_RESULT)
        return me.n_pending;
    while (i < me.n_pending && me.pending[i]->ticket != event->ticket)
        i++;
    return i;
}

static void take_event(struct op *event)
{
    unsigned i = find_pending(event);
    struct op *op;

    event->empty_seq = me.empty_seq;
    event->empty_ns = me.empty_ns;
    if (i < me.n_pending)
        event->ident = me.pending[i]->ident;
    else if (event->event != ENQ_EVENT_RESULT)
        find_lock(event);
    op = player_begin(event);
    if (op == NULL)
        return;
    player_end(op, event->result);
    if (i < me.n_pending)
        take_result(i, op);
    else
        take_lock_event(op);
}

/* A listener asks the descriptor first: if it is silent, there is none. */
static bool is_silent(int wait_ms)
{
    struct pollfd fd = {.fd = me.fd, .events = POLLIN};

    return me.fd >= 0 && poll(&fd, 1, wait_ms) == 0;
}

/* It said that there was one. */
static void note_nothing(void)
{
    const struct op what = {.kind = OP_EVENT};
    struct op *op = player_begin(&what);

    if (op != NULL)
        player_end(op, ENQ_PENDING);
}

void unanswered_read(int wait_ms)
{
    int64_t now = now_ns();
    uint64_t seq = seq_next();
    bool any = false;
    int rc;

    if (is_silent(wait_ms)) {
        note_empty(seq, now);
        return;
    }
    for (;;) {
        struct op event = {.kind = OP_EVENT};

        now = now_ns();
        seq = seq_next();
        rc = me.p.backend->next(&event);
        if (rc != ENQ_OK)
            break;
        any = true;
        if (event.event != ENQ_EVENT_SESSION)
            take_event(&event);
    }
    note_empty(seq, now);
    if (!any && me.fd >= 0)
        note_nothing();
}

/* --- the end --- */

#define PATIENCE_NS NS_S

static void give_back_all(void)
{
    while (me.n > 0 && !me.full)
        player_unlock(me.n - 1);
}

static void wait_for_results(void)
{
    int64_t until = now_ns() + PATIENCE_NS;

    while (me.n_pending > 0 && !me.full && now_ns() < until) {
        unanswered_read(2);
        give_back_all();
        if (me.fd < 0)
            nap_us(200);
    }
}

/* The worker holds nothing meanwhile that others may wait for. A request that
   still has no result then is a matter for the checker. */
void unanswered_finish(void)
{
    give_back_all();
    if (player_below(2) == 0)
        wait_for_results();
    for (unsigned i = 0; i < me.n_pending; i++)
        unanswered_cancel(i);
    wait_for_results();
}
