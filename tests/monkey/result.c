/*
 * result.c - is this a result that the call can have had? (see result.h)
 */
#include "result.h"

#include "check.h"
#include "remote.h"

bool result_is_gone(int result)
{
    return (result >= ENQ_NOTHELD && result <= ENQ_LOST) ||
        (result >= ENQ_CANCELLED && result <= ENQ_OWNERDIED);
}

bool promote_may_take(const struct op *promote, const struct op *op)
{
    if (promote->ident == op->ident || !ops_overlap(promote, op))
        return false;
    return !op_ended(promote) || promote->end_seq > op->begin_seq;
}

/* --- why a lock is gone --- */

/* Did somebody do away with it before `op` ended? */
static bool was_ended(const struct deeds *all, const struct op *op, bool broken)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];
        bool ends = deed->kind == OP_BREAK ||
            (!broken && deed->kind == OP_UNLOCK && deed != op);

        if (ends && op_may_be_done(deed) && deed->begin_seq < op->end_seq)
            return true;
    }
    return false;
}

static bool was_promoted_away(const struct story *s, const struct hold *h,
    const struct op *op)
{
    for (size_t i = 0; i < s->n_promotes; i++)
        if (promote_may_take(s->promotes[i], h->op) &&
            s->promotes[i]->begin_seq < op->end_seq)
            return true;
    return false;
}

/* With a heartbeat, and not shortened by a call: only if the process did not
   get to it in time. */
static bool may_have_run_out(const struct story *s, const struct hold *h,
    const struct op *op)
{
    int64_t spare = (h->op->ttl_ms - h->op->heartbeat_ms) * NS_MS;

    if (op->end_ns < h->sure_deadline)
        return false;
    if (h->op->heartbeat_ms == 0 || h->renewed_ns != 0 || h->is_remote)
        return true;
    return spare <= ASLEEP_NS + s->b->lives[op->life].starved_ns +
        check_stalled_ns(s, h->op, h->op->begin_ns, op->end_ns);
}

static enum fault fault_of_why(const struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    bool ended = was_ended(all, op, false);
    bool lost = h->mode == ENQ_MODE_O && was_promoted_away(s, h, op);
    bool over = may_have_run_out(s, h, op), fits = false;

    if (!ended && !lost && !over)
        return FAULT_LOST;
    switch (op->result) {
    case ENQ_EXPIRED:
        fits = over;
        break;
    case ENQ_LOST:
        fits = lost;
        break;
    case ENQ_FORCED:
        fits = was_ended(all, op, true);
        break;
    case ENQ_NOTHELD:
        fits = true; /* the reason is not remembered for ever */
        break;
    default:
        break;
    }
    return fits ? FAULTS : FAULT_ENDED;
}

/* Between two bridges a session's lock is an orphan, which anybody may adopt,
   though the session comes back in time. */
static bool was_adopted_meanwhile(const struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];

        if (deed->kind == OP_ADOPT && op_may_be_done(deed) &&
            deed->life != h->op->life && deed->begin_seq < op->end_seq &&
            deed->begin_seq > h->op->begin_seq)
            return remote_was_cut(s, h->op->life, h->op->begin_ns, op->end_ns);
    }
    return false;
}

void result_check_why(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    enum fault fault = fault_of_why(s, h, op, all);

    if (was_adopted_meanwhile(s, h, op, all))
        return;
    if (fault == FAULT_ENDED &&
        remote_was_cut(s, h->op->life, h->op->begin_ns, op->end_ns))
        return; /* how, was not seen: its session had nothing else */
    if (fault != FAULTS && !remote_may_be_over(s, h, op) &&
        story_fault(s, fault, "%s", op_text(op)))
        story_deeds(s, h->op->ident);
}

/* It fits one of those that were given back together: which one, the call does
   not say. */
static void check_vague(struct story *s, const struct hold *h,
    const struct op *op, const struct deeds *all)
{
    if (result_is_gone(op->result) &&
        (op->life != h->op->life || /* the one that has adopted it */
            fault_of_why(s, h, op, all) == FAULTS ||
            was_adopted_meanwhile(s, h, op, all) ||
            remote_may_be_over(s, h, op)))
        s->explained[s->n_explained++] = op->set;
}

/* Given back once, it cannot be given back again, or taken over. */
static void check_once(struct story *s, const struct op *op,
    const struct deeds *all)
{
    for (size_t i = 0; i < all->n; i++) {
        const struct op *deed = all->ops[i];

        if (op_done(deed) && deed->end_seq < op->begin_seq &&
            !remote_may_be_twice(s, all, deed) &&
            (deed->kind == OP_UNLOCK || deed->kind == OP_BREAK))
            story_fault(s, FAULT_TWICE, "%s after %s", op_text(op),
                op_text(deed));
    }
}

void result_check_adopt(struct story *s, const struct op *op,
    const struct deeds *all)
{
    if (op_done(op))
        check_once(s, op, all);
}

static bool ends_it(const struct op *op)
{
    return op->kind == OP_UNLOCK || op->kind == OP_BREAK;
}

static bool may_be_refused(const struct hold *h, const struct op *op)
{
    if (op->kind == OP_PROMOTE)
        return true; /* somebody else's lock may be in the way */
    if (op->kind == OP_DEMOTE)
        return h->mode != ENQ_MODE_E && h->mode != ENQ_MODE_X;
    return false;
}

void result_check(struct story *s, const struct hold *h, const struct op *op,
    const struct deeds *all)
{
    if (!op_ended(op))
        return;
    if (op->result == ENQ_OK && ends_it(op))
        check_once(s, op, all);
    if (op->result == ENQ_OK || op->foreign)
        return;
    if (op->vague) {
        check_vague(s, h, op, all);
        return;
    }
    if (result_is_gone(op->result)) {
        if (op->life == h->op->life)
            result_check_why(s, h, op, all);
    } else if (remote_may_not_know(s, op) || remote_had_nobody(s, op) ||
        remote_is_anothers(s, h, op)) {
        return; /* nobody could be asked; or it is about another lock */
    } else if ((op->result != ENQ_REFUSED || !may_be_refused(h, op)) &&
        story_fault(s, FAULT_RESULT, "%s", op_text(op))) {
        story_deeds(s, h->op->ident);
    }
}

/* --- asking --- */

/* Was anything in the way of this request while it was under way? */
static bool had_blocker(const struct story *s, const struct op *op,
    const struct op *member)
{
    for (size_t i = 0; i < s->maybe.n; i++) {
        const struct span *m = &s->maybe.at[i];

        if (m->op != member && m->from_ns <= op->end_ns &&
            m->to_ns >= op->begin_ns && op_excludes(s, m->op, m->mode, member))
            return true;
    }
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *w = s->ops[i];

        if (w->begin_seq > op->end_seq)
            break;
        if (w->kind == OP_LOCK && w->wait_ms != 0 && w != member &&
            op_over_ns(s, w) >= op->begin_ns &&
            op_excludes(s, w, w->mode, member))
            return true;
    }
    return false;
}

static bool had_any_blocker(const struct story *s, const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++) {
        const struct op *member = op_member(op, i);

        if (member != NULL && had_blocker(s, op, member))
            return true;
    }
    return false;
}

/* Did it speak of a lock of this request? A waiter that has not slept yet does
   not know its handle. */
static bool is_about(const struct story *s, const struct op *deed,
    const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++) {
        const struct op *member = op_member(op, i);

        if (member != NULL &&
            (deed->ident == member->ident ||
                (member->ident == 0 && deed->key == member->key &&
                    op_over_ns(s, deed) >= op->begin_ns)))
            return true;
    }
    return false;
}

static bool was_cancelled(const struct story *s, const struct op *op)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *deed = s->ops[i];

        if (deed->begin_seq > op->end_seq)
            break;
        if (deed->kind == OP_CANCEL ? deed->ticket != op->ticket
                                    : !deed->foreign || !ends_it(deed))
            continue;
        if ((op_may_be_done(deed) || remote_may_cancel(s, deed)) &&
            is_about(s, deed, op))
            return true;
    }
    return false;
}

static void tell_of_members(const struct story *s, const struct op *op)
{
    story_around(s, op);
    for (unsigned i = 0; i < op_members(op); i++)
        if (op_member(op, i) != NULL)
            story_deeds(s, op_member(op, i)->ident);
}

static void check_asking(struct story *s, const struct op *op)
{
    switch (op->result) {
    case ENQ_OK:
        return;
    case ENQ_TIMEDOUT:
        if (op->wait_ms <= 0 || op->end_ns - op->begin_ns < op->wait_ms * NS_MS)
            story_fault(s, FAULT_EARLY, "%s", op_text(op));
        /* fall through */
    case ENQ_DEADLOCK: /* for the cycle itself see cycle.c */
        if (op->result == ENQ_DEADLOCK && (op->wait_ms == 0 || op->no_cycles))
            story_fault(s, FAULT_RESULT, "%s", op_text(op));
        /* fall through */
    case ENQ_BUSY:
        if (op->result == ENQ_BUSY && op->wait_ms != 0)
            story_fault(s, FAULT_RESULT, "%s", op_text(op));
        if (!had_any_blocker(s, op))
            story_fault(s, FAULT_REFUSED, "%s", op_text(op));
        return;
    case ENQ_CANCELLED:
        if (!was_cancelled(s, op) &&
            story_fault(s, FAULT_ENDED, "%s", op_text(op)))
            tell_of_members(s, op);
        return;
    default:
        if (!remote_had_nobody(s, op))
            story_fault(s, FAULT_RESULT, "%s", op_text(op));
    }
}

void result_check_asking(struct story *s)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];

        bool asks = op->kind == OP_LOCK || op->kind == OP_TEST;

        if (!op_ended(op))
            continue;
        if (asks && op_leads(op))
            check_asking(s, op);
        else if (!asks && op->result < 0 && !remote_may_not_know(s, op) &&
            !remote_had_nobody(s, op))
            story_fault(s, FAULT_RESULT, "%s", op_text(op));
    }
}

/* --- at rest --- */

static bool is_there(const struct story *s, const struct op *op)
{
    for (uint32_t i = 0; i < s->b->n_rest; i++)
        if (s->b->rest[i].ident == op->ident)
            return true;
    return false;
}

void result_check_kept(struct story *s, const struct hold *h)
{
    bool sure = h->sure_seq != 0 && h->sure_to_seq == SEQ_NEVER &&
        h->sure_deadline > s->b->end_ns;

    if (!sure || h->op->on_death == ENQ_DEATH_RELEASE || h->is_session ||
        s->b->stuck)
        return;
    if (h->mode == ENQ_MODE_O || h->op->ident == 0)
        return; /* it may have lost to a promotion */
    if (!is_there(s, h->op) && story_fault(s, FAULT_KEPT, "%s", op_text(h->op)))
        story_deeds(s, h->op->ident);
}

/* What was asked for with this id, or got this handle. */
static const struct op *who_asked(const struct story *s, uint64_t ident)
{
    for (size_t i = 0; i < s->n_ops; i++)
        if (s->ops[i]->kind == OP_LOCK && s->ops[i]->ident == ident)
            return s->ops[i];
    return NULL;
}

/* Its holder was killed before it had noted the handle: a lock of the dead,
   that is delayed. */
static bool may_be_delayed(const struct story *s, const struct rest *r)
{
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->ops[i];

        if (op->kind == OP_LOCK && !op_ended(op) && op->ident == 0 &&
            op->delay_ms > 0 && op->key == r->key && op->owner == r->owner &&
            op->mode == r->mode && op->on_death == r->on_death)
            return true;
    }
    return false;
}

/* What ends with its client, or was adopted from a bridge that was killed: in
   the table nothing of a client's ends with its process. */
static bool ends_with_holder(const struct story *s, const struct op *op)
{
    if (op->on_death != ENQ_DEATH_RELEASE || op->delay_ms > 0)
        return false;
    for (size_t i = 0; remote_is(s, op->life) && i < s->n_ops; i++)
        if (s->ops[i]->kind == OP_ADOPT && s->ops[i]->ident == op->ident &&
            op_may_be_done(s->ops[i]))
            return false;
    return true;
}

static bool has_reason(const struct story *s, const struct op *op,
    const struct rest *r)
{
    if (op == NULL && !r->waiting)
        return may_be_delayed(s, r);
    if (op == NULL || r->waiting || ends_with_holder(s, op) ||
        r->key != op->key || r->owner != op->owner ||
        r->on_death != remote_death(s, op))
        return false;
    for (size_t i = 0; i < s->maybe.n; i++)
        if (s->maybe.at[i].op->ident == r->ident &&
            s->maybe.at[i].to_ns >= s->b->rest_ns &&
            (s->maybe.at[i].mode == r->mode || op->mode == r->mode))
            return true; /* its own mode: the promoter died over it */
    return false;
}

void result_check_rest(struct story *s)
{
    for (uint32_t i = 0; i < s->b->n_rest; i++) {
        const struct rest *r = &s->b->rest[i];
        const struct op *op = who_asked(s, r->ident);

        if (!has_reason(s, op, r) &&
            story_fault(s, FAULT_LEAK,
                "at rest: %c %s of \"%s\" death=%d%s ident %llx; %s",
                rule_letter(r->mode), rule_key_text(r->key % KEYS),
                rule_owners[r->owner % OWNERS], r->on_death,
                r->waiting ? " waiting" : "", (unsigned long long)r->ident,
                op == NULL ? "nobody asked for it" : op_text(op)))
            story_deeds(s, r->ident);
    }
}
