/*
 * events.c - events and results: can that be, and is it all? (see events.h)
 *
 * When an event happened is not known: only that there was none yet when the
 * process last looked (empty_seq), and that it had happened when it was read.
 */
#include "events.h"

#include <stdlib.h>

#include "check.h"
#include "remote.h"

bool event_is_end(const struct op *op)
{
    return op->kind == OP_EVENT &&
        (op->event == ENQ_EVENT_EXPIRED || op->event == ENQ_EVENT_LOST);
}

static bool is_of(const struct op *deed, const struct op *op)
{
    return deed->life == op->life;
}

/* With all that was done with this lock. */
static void report(struct story *s, enum fault fault, const struct op *op,
    const char *why)
{
    if (story_fault(s, fault, "%s%s", op_text(op), why))
        story_deeds(s, op->ident);
}

/* --- results of started requests --- */

static const struct op *started_by(const struct deeds *all, const struct op *op)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i]->kind == OP_LOCK && all->ops[i]->ticket != 0 &&
            all->ops[i]->ticket == op->ticket && is_of(all->ops[i], op))
            return all->ops[i];
    return NULL;
}

static bool had_result(const struct deeds *all, const struct op *op)
{
    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        if (all->ops[i]->kind == OP_EVENT &&
            all->ops[i]->event == ENQ_EVENT_RESULT &&
            all->ops[i]->ticket == op->ticket && is_of(all->ops[i], op))
            return true;
    return false;
}

static void check_result(struct story *s, const struct op *op,
    const struct deeds *all)
{
    const struct op *of = started_by(all, op);

    if (of == NULL || had_result(all, op))
        story_fault(s, FAULT_TICKET, "%s", op_text(op));
    else if (op->result == ENQ_OK && op->handle != of->handle)
        story_fault(s, FAULT_TICKET, "%s;\n    the lock of another than %s",
            op_text(op), op_text(of));
}

/* Its event comes with ENQ_CANCELLED; or it was too late for that. */
static void check_cancel(struct story *s, const struct op *op,
    const struct deeds *all)
{
    const struct op *of = started_by(all, op);

    if (!op_ended(op) || op->result == ENQ_NOTHELD || remote_had_nobody(s, op))
        return;
    if (op->result != ENQ_OK)
        story_fault(s, FAULT_RESULT, "%s", op_text(op));
    else if (of == NULL || (op_ended(of) && of->end_seq < op->begin_seq))
        story_fault(s, FAULT_TICKET, "%s; which was not pending", op_text(op));
    else if (op_ended(of) && of->result != ENQ_CANCELLED)
        story_fault(s, FAULT_ENDED, "%s;\n    after %s", op_text(of),
            op_text(op));
}

/* From then on it cannot be pending any more. */
static int64_t due_ns(const struct op *op, const struct deeds *all)
{
    int64_t due = NS_NEVER;

    if (op->wait_ms > 0)
        due = op->begin_ns + op->wait_ms * NS_MS;
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];
        bool ends = deed->kind == OP_CANCEL && op_ended(deed) &&
            deed->ticket == op->ticket && is_of(deed, op);

        ends |= deed->foreign && op_done(deed) &&
            (deed->kind == OP_UNLOCK || deed->kind == OP_BREAK);
        if (ends && deed->end_ns < due)
            due = deed->end_ns;
    }
    return due;
}

void event_check_started(struct story *s, const struct op *op,
    const struct deeds *all)
{
    int64_t due, most;

    if (op->ticket == 0)
        return;
    due = due_ns(op, all);
    if (due == NS_NEVER || op->empty_ns - due <= ASLEEP_NS ||
        remote_was_cut(s, op->life, due, op->empty_ns))
        return;
    most = ASLEEP_NS + (remote_is(s, op->life) ? REMOTE_LATE_NS : 0) +
        check_stalled_ns(s, op, due, op->empty_ns) +
        s->b->lives[op->life].starved_ns;
    if (op->empty_ns - due > most)
        story_fault(s, FAULT_LATE, "for %.1f ms (%.1f allowed): %s",
            (double)(op->empty_ns - due) / 1e6, (double)most / 1e6,
            op_text(op));
}

static int by_ticket(const void *a, const void *b)
{
    const struct op *p = *(const struct op *const *)a;
    const struct op *q = *(const struct op *const *)b;

    if (p->life != q->life)
        return p->life < q->life ? -1 : 1;
    return p->ticket < q->ticket ? -1 : p->ticket > q->ticket;
}

void event_check_tickets(struct story *s)
{
    const struct op **list = calloc(s->n_ops + 1, sizeof(*list));
    size_t n = 0;

    if (list == NULL)
        abort();
    for (size_t i = 0; i < s->n_ops; i++)
        if (s->ops[i]->kind == OP_LOCK && s->ops[i]->ticket != 0 &&
            op_leads(s->ops[i]))
            list[n++] = s->ops[i];
    qsort(list, n, sizeof(*list), by_ticket);
    for (size_t i = 1; i < n; i++)
        if (by_ticket(&list[i - 1], &list[i]) == 0)
            story_fault(s, FAULT_TICKET, "%s;\n    the same as %s",
                op_text(list[i]), op_text(list[i - 1]));
    free(list);
}

/* --- events of held locks --- */

/* The call by which this process got the lock; NULL: it never had it. */
static const struct op *got_by(const struct deeds *all, const struct op *op)
{
    const struct op *got = NULL;

    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        if ((all->ops[i]->kind == OP_LOCK || all->ops[i]->kind == OP_ADOPT) &&
            is_of(all->ops[i], op))
            got = all->ops[i];
    return got;
}

/* How many of that kind were told before. */
static unsigned told_before(const struct deeds *all, const struct op *op,
    unsigned kind)
{
    unsigned n = 0;

    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        n += all->ops[i]->kind == OP_EVENT && all->ops[i]->event == kind &&
            is_of(all->ops[i], op);
    return n;
}

static bool is_token_of(const struct deeds *all, const struct op *op)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i]->kind != OP_EVENT && all->ops[i]->token == op->token)
            return true;
    return false;
}

static const struct op *given_back(const struct deeds *all, const struct op *op)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i]->kind == OP_UNLOCK && op_done(all->ops[i]) &&
            is_of(all->ops[i], op))
            return all->ops[i];
    return NULL;
}

static bool is_taker(const struct story *s, const struct op *got,
    const struct op *op)
{
    for (size_t i = 0; i < s->n_promotes; i++)
        if (promote_may_take(s->promotes[i], got) &&
            s->promotes[i]->begin_seq < op->begin_seq &&
            s->promotes[i]->owner == op->other)
            return true;
    return false;
}

static bool was_unlocked_by_another(const struct deeds *all,
    const struct op *op)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i]->kind == OP_UNLOCK && op_may_be_done(all->ops[i]) &&
            all->ops[i]->begin_seq < op->begin_seq && !is_of(all->ops[i], op))
            return true;
    return false;
}

/* The first owner is nobody, whose name is also that of one not known. */
static void check_end(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    const struct op *unlock = given_back(all, op);

    if (unlock != NULL &&
        !remote_was_cut(s, op->life, h->op->begin_ns, op->end_ns))
        report(s, FAULT_EVENT, op, "; it was given back before");
    else if ((op->event == ENQ_EVENT_EXPIRED) != (op->result == ENQ_EXPIRED))
        report(s, FAULT_EVENT, op, "");
    else if (op->result == ENQ_LOST && op->other != 0 &&
        !is_taker(s, h->op, op))
        report(s, FAULT_EVENT, op, "; that one has not taken it");
    else if (op->result == ENQ_NOTHELD && !was_unlocked_by_another(all, op) &&
        !remote_was_cut(s, op->life, h->op->begin_ns, op->end_ns))
        report(s, FAULT_EVENT, op, "; nobody has unlocked it");
    else
        result_check_why(s, h, op, all);
}

/* The last quarter of its own ttl; of an earlier one, if it was renewed just
   then: the event may have been under way. Once for each renewal; and again by
   the bridge that has taken a KEEP lock over, which has its ttl anew then. */
static void check_expiring(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    int64_t near = h->sure_deadline, ttl_ms = h->op->ttl_ms;
    unsigned most = 1;

    if (h->renewed_ns != 0 && op->empty_ns - ASLEEP_NS < h->renewed_ns &&
        h->earliest_deadline < near)
        near = h->earliest_deadline;
    if (ttl_ms < 0 || op->end_ns < near - ttl_ms / 4 * NS_MS)
        report(s, FAULT_EVENT, op, "; which is too early");
    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        most += all->ops[i]->kind == OP_RENEW;
    if (h->op->heartbeat_ms == 0 && told_before(all, op, op->event) >= most &&
        !remote_was_cut(s, op->life, h->op->begin_ns, op->end_ns))
        report(s, FAULT_EVENT, op, "; once too often");
}

/* The modes that it has had by then: a bit for each. */
static unsigned modes_of(const struct hold *h, const struct op *op,
    const struct deeds *all)
{
    unsigned modes = 1u << h->op->mode | 1u << h->mode;

    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        if (all->ops[i]->kind == OP_PROMOTE && op_done(all->ops[i]))
            modes |= 1u << ENQ_MODE_E;
    return modes;
}

/* Does (or did) that request wait for this lock, in one of its modes? */
static bool is_waiter(const struct story *s, const struct hold *h,
    const struct op *w, unsigned modes)
{
    if (w->kind != OP_LOCK || w->wait_ms == 0 || w == h->op ||
        op_over_ns(s, w) < h->op->begin_ns)
        return false;
    for (unsigned mode = 1; mode <= ENQ_MODE_O; mode++)
        if ((modes >> mode & 1) != 0 && op_excludes(s, h->op, mode, w))
            return true;
    return false;
}

static void check_blocking(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    unsigned modes = modes_of(h, op, all);

    if (told_before(all, op, op->event) > 0 &&
        !remote_was_cut(s, op->life, h->op->begin_ns, op->end_ns))
        report(s, FAULT_EVENT, op, "; once too often");
    for (size_t i = check_begun_before(s, op->begin_seq); i > 0; i--) {
        const struct op *w = s->ops[i - 1];

        if ((op->other == 0 || w->owner == op->other) &&
            is_waiter(s, h, w, modes))
            return;
    }
    report(s, FAULT_EVENT, op, "; but nobody wants it");
}

/* After its result, if it was started; and before its end, which may have come
   once before it was adopted again. */
static bool is_in_order(const struct op *got, const struct op *op,
    const struct deeds *all)
{
    for (size_t i = 0; i < all->n && all->ops[i] != op; i++)
        if (event_is_end(all->ops[i]) && is_of(all->ops[i], op) &&
            all->ops[i]->begin_seq > got->begin_seq)
            return false;
    return op_ended(got) && got->end_seq < op->begin_seq;
}

static void check_lock_event(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    const struct op *got = got_by(all, op);

    if (got != NULL && h->op != got &&
        remote_was_cut(s, op->life, got->begin_ns, op->end_ns))
        return; /* another has adopted it, while it had no connection */
    if (got == NULL || h->op != got ||
        (op_ended(got) && got->result != ENQ_OK) ||
        s->b->lives[op->life].listens_seq == 0 || !is_token_of(all, op))
        report(s, FAULT_EVENT, op, "");
    else if (!is_in_order(got, op, all))
        report(s, FAULT_ORDER, op, "");
    else if (event_is_end(op))
        check_end(s, h, op, all);
    else if (op->event == ENQ_EVENT_EXPIRING)
        check_expiring(s, h, op, all);
    else if (op->event == ENQ_EVENT_BLOCKING)
        check_blocking(s, h, op, all);
    else
        report(s, FAULT_EVENT, op, "");
}

void event_check(struct story *s, const struct hold *h, const struct op *op,
    const struct deeds *all)
{
    if (op->kind == OP_CANCEL)
        check_cancel(s, op, all);
    else if (op->event == ENQ_EVENT_RESULT)
        check_result(s, op, all);
    else
        check_lock_event(s, h, op, all);
}

/* --- is that all? --- */

/* By an event, or by a call that said so; whose it was itself, needs none. */
static bool was_told(const struct deeds *all, const struct op *got)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];
        bool calls = deed->kind == OP_PROMOTE || deed->kind == OP_DEMOTE ||
            deed->kind == OP_RENEW;

        if (!is_of(deed, got))
            continue;
        if (event_is_end(deed) || deed->kind == OP_UNLOCK ||
            deed->kind == OP_BREAK ||
            (calls && op_ended(deed) && result_is_gone(deed->result)))
            return true;
    }
    return false;
}

void event_check_told(struct story *s, const struct hold *h, int64_t gone_ns,
    const struct deeds *all)
{
    const struct life *life = &s->b->lives[h->op->life];
    int64_t most;

    if (life->listens_seq == 0 || life->listens_seq > h->op->begin_seq ||
        !op_done(h->op) || life->empty_ns - ASLEEP_NS <= gone_ns ||
        was_told(all, h->op) ||
        remote_was_cut(s, h->op->life, h->op->begin_ns, life->empty_ns))
        return;
    most = ASLEEP_NS + (remote_is(s, h->op->life) ? REMOTE_LATE_NS : 0) +
        check_stalled_ns(s, h->op, gone_ns, life->empty_ns) + life->starved_ns;
    if (life->empty_ns - gone_ns > most)
        story_fault(s, FAULT_SILENT, "for %.1f ms (%.1f allowed): %s",
            (double)(life->empty_ns - gone_ns) / 1e6, (double)most / 1e6,
            op_text(h->op));
}
