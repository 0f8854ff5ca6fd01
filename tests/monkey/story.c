/*
 * story.c - from what was called to what was held (see story.h).
 */
#include "story.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "events.h"
#include "remote.h"
#include "result.h"
#include "whole.h"

const char *const fault_names[FAULTS] = {
    [FAULT_EXCLUSION] = "held at once what excludes each other",
    [FAULT_TOKEN] = "tokens do not grow",
    [FAULT_TWICE] = "one request, two grants or releases",
    [FAULT_LOST] = "a lock was lost for no reason",
    [FAULT_ENDED] = "a lock was said to have ended as it had not",
    [FAULT_REFUSED] = "refused, and nothing was in the way",
    [FAULT_EARLY] = "a wait ended before its time",
    [FAULT_RESULT] = "a result that cannot be",
    [FAULT_OVERTAKEN] = "a waiter was overtaken beyond the window",
    [FAULT_WINDOW] = "a waiter is due later than the window allows",
    [FAULT_ASLEEP] = "asleep though nothing was in the way",
    [FAULT_DEATH] = "asleep though what was in the way was dead",
    [FAULT_LEAK] = "left behind",
    [FAULT_KEPT] = "a lock that was to be kept is gone",
    [FAULT_STUCK] = "did not come to an end",
    [FAULT_CRASH] = "a process failed",
    [FAULT_TABLE] = "the table is not clean",
    [FAULT_TICKET] = "a result too many, or of nothing that was started",
    [FAULT_LATE] = "the result of a started request is missing",
    [FAULT_EVENT] = "an event that cannot be",
    [FAULT_ORDER] = "events of one lock out of order",
    [FAULT_SILENT] = "a lock has ended, and its listener was not told",
    [FAULT_DEADLOCK] = "refused for a cycle that cannot have been",
    [FAULT_DELAY] = "given to another within its lock delay",
    [FAULT_SET] = "some locks of a set, and not all of it",
};

bool story_fault(struct story *s, enum fault fault, const char *format, ...)
{
    va_list args;

    if (s->faults[fault]++ >= s->quiet)
        return false;
    printf("VIOLATION %s: ", fault_names[fault]);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
    fflush(stdout);
    return true;
}

/* --- small questions --- */

bool ops_overlap(const struct op *a, const struct op *b)
{
    return rule_overlap(a->key, b->key);
}

bool op_excludes(const struct story *s, const struct op *held, unsigned mode,
    const struct op *asked)
{
    return ops_overlap(held, asked) &&
        rule_conflict(s->b->compat, mode, asked->mode,
            rule_same_owner(held->owner, asked->owner));
}

int64_t op_over_ns(const struct story *s, const struct op *op)
{
    return op_ended(op) ? op->end_ns : s->over_ns[op->life];
}

uint64_t life_kill_seq(const struct story *s, uint32_t life)
{
    uint64_t seq = s->b->lives[life].kill_seq;

    return seq != 0 ? seq : SEQ_NEVER;
}

uint64_t life_end_seq(const struct story *s, uint32_t life)
{
    const struct op *close = s->closes[life];
    uint64_t kill = life_kill_seq(s, life);

    return close != NULL && close->begin_seq < kill ? close->begin_seq : kill;
}

int64_t life_end_ns(const struct story *s, uint32_t life)
{
    const struct op *close = s->closes[life];
    const struct life *l = &s->b->lives[life];
    int64_t end = l->kill_seq != 0 ? l->kill_ns : s->b->end_ns;

    return close != NULL && close->begin_ns < end ? close->begin_ns : end;
}

int64_t op_waits_ns(const struct story *s, const struct op *op)
{
    int64_t over = op_over_ns(s, op);

    return op->ticket != 0 && op->empty_ns < over ? op->empty_ns : over;
}

static int64_t add_ms(int64_t ns, int64_t ms)
{
    return ms < 0 || ns == NS_NEVER ? NS_NEVER : ns + ms * NS_MS;
}

static int64_t add_ns(int64_t ns, int64_t more)
{
    return ns == NS_NEVER ? NS_NEVER : ns + more;
}

static int64_t min_ns(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

static int64_t max_ns(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static uint64_t min_seq(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

static void spans_add(struct spans *spans, const struct span *span)
{
    if (spans->n == spans->room) {
        spans->room = spans->room == 0 ? 1024 : spans->room * 2;
        spans->at = realloc(spans->at, spans->room * sizeof(*span));
        if (spans->at == NULL)
            abort();
    }
    spans->at[spans->n++] = *span;
}

/* --- one lock --- */

/* What was promoted over a lock that is optimistic, if it was. */
static void cut_by_rivals(const struct story *s, const struct hold *h,
    struct span *sure, struct span *maybe)
{
    for (size_t i = 0; i < s->n_promotes; i++) {
        const struct op *p = s->promotes[i];

        if (!promote_may_take(p, h->op))
            continue;
        sure->to_seq = min_seq(sure->to_seq, p->begin_seq);
        sure->delay_to_seq = min_seq(sure->delay_to_seq, p->begin_seq);
        if (op_done(p) && sure->from_seq != 0 && sure->from_seq < p->begin_seq)
            maybe->to_ns = min_ns(maybe->to_ns, p->end_ns);
    }
}

/*
 * Of two that slept beside each other for a second each may have had the lock
 * without knowing it, and so have been in the way of the other. But either is
 * a fault of its own: a granted waiter is awake within ASLEEP_NS. So for the
 * question which slept for too long, a waiter has nothing before that. A
 * started one had nothing until its result was last looked for.
 */
static int64_t woken_ns(const struct story *s, const struct hold *h)
{
    int64_t over = op_waits_ns(s, h->op);

    if (h->op->kind != OP_LOCK || over == NS_NEVER)
        return h->op->kind == OP_LOCK ? over : h->maybe_ns;
    return max_ns(h->maybe_ns, over - ASLEEP_NS);
}

/* The earliest end of its delay, be it by its ttl or by a death. */
static int64_t delay_to_ns(const struct story *s, const struct hold *h)
{
    const struct life *life = &s->b->lives[h->op->life];
    const struct serve *last = remote_last(s, h);
    int64_t end = h->sure_deadline;

    if (h->delay_ms == 0)
        return 0;
    if (last != NULL)
        end = min_ns(end, last->to_ns);
    if (life->kill_seq != 0)
        end = min_ns(end, life->kill_ns);
    return add_ms(end, h->delay_ms);
}

/* The spans of what it has been so far. When it was gone for certain. */
static int64_t emit(struct story *s, struct hold *h)
{
    int64_t late = TTL_LATE_NS + h->delay_ms * NS_MS;
    const struct serve *last = remote_last(s, h);
    struct span sure = {
        .from_seq = h->sure_seq,
        .to_seq =
            min_seq(h->sure_to_seq, last != NULL ? last->to_seq : SEQ_NEVER),
        .from_ns = h->sure_ns,
        .to_ns = h->sure_deadline,
        .delay_to_ns = delay_to_ns(s, h),
        .delay_to_seq = h->called_to_seq,
        .op = h->op,
        .mode = h->mode,
    };
    struct span maybe = {
        .from_ns = h->maybe_ns,
        .to_ns = min_ns(h->maybe_to_ns, add_ns(h->maybe_deadline, late)),
        .op = h->op,
        .mode = h->maybe_mode,
        .woken_ns = woken_ns(s, h),
        .by_death = h->by_death,
    };

    if (h->mode == ENQ_MODE_O)
        cut_by_rivals(s, h, &sure, &maybe);
    if (sure.from_seq != 0 && sure.from_seq < sure.to_seq &&
        sure.from_ns < sure.to_ns)
        spans_add(&s->sure, &sure);
    if (maybe.from_ns < maybe.to_ns)
        spans_add(&s->maybe, &maybe);
    return maybe.to_ns;
}

/* What the end of its process means to a lock. */
static void end_of_life(const struct story *s, struct hold *h)
{
    const struct op *close = s->closes[h->op->life];
    bool remote = remote_is(s, h->op->life);
    int64_t gone = s->released_ns[h->op->life];

    remote_end_hold(s, h);
    if (h->op->on_death == ENQ_DEATH_KEEP &&
        (s->b->lives[h->op->life].gone_ns != 0 || close))
        h->maybe_deadline = NS_NEVER;
    if (close != NULL)
        h->called_to_seq = min_seq(h->called_to_seq, close->begin_seq);
    if (h->op->on_death != ENQ_DEATH_RELEASE)
        return;
    h->sure_to_seq = min_seq(h->sure_to_seq, life_end_seq(s, h->op->life));
    if (close != NULL && op_ended(close) && !remote)
        gone = min_ns(gone, close->end_ns);
    if (h->delay_ms > 0) /* which begins when it is reaped */
        gone = add_ns(gone, DEATH_NS + h->delay_ms * NS_MS);
    if (gone < h->maybe_to_ns) {
        h->maybe_to_ns = gone;
        h->by_death = h->delay_ms == 0 && !remote;
    }
}

static void close_hold(struct story *s, struct hold *h, const struct deeds *all)
{
    if (h->op == NULL)
        return;
    end_of_life(s, h);
    event_check_told(s, h, emit(s, h), all);
    result_check_kept(s, h);
    h->op = NULL;
}

static uint32_t delay_of(const struct deeds *all)
{
    for (size_t i = 0; i < all->n; i++)
        if (all->ops[i]->kind == OP_LOCK)
            return all->ops[i]->delay_ms;
    return 0;
}

/* A call that got the lock, or died in it; or that was cancelled: perhaps when
   it had the lock already, and did not know yet. */
static void open_hold(struct story *s, struct hold *h, const struct op *op,
    const struct deeds *all)
{
    int64_t over = op_over_ns(s, op);

    *h = (struct hold){
        .op = op,
        .delay_ms = delay_of(all),
        .mode = op->mode,
        .maybe_mode = op->mode,
        .maybe_ns = op->begin_ns,
        .sure_to_seq = SEQ_NEVER,
        .called_to_seq = SEQ_NEVER,
        .maybe_to_ns = NS_NEVER,
        .sure_deadline = add_ms(op->begin_ns, op->ttl_ms),
        .maybe_deadline = add_ms(over, op->ttl_ms),
    };
    h->earliest_deadline = h->sure_deadline;
    remote_begin_hold(s, h, all);
    if (op->heartbeat_ms > 0)
        h->maybe_deadline = add_ms(s->over_ns[op->life], op->ttl_ms);
    if (op_done(op)) {
        h->sure_seq = op->end_seq;
        h->sure_ns = op->end_ns;
    } else if (op_ended(op)) {
        h->maybe_to_ns = op->end_ns;
    } else {
        whole_was_granted(s, op, &h->sure_seq, &h->sure_ns);
    }
}

/* One with a lock delay that has ended goes on being in the way for a while,
   whichever caller is told so. */
static bool is_delayed(const struct hold *h, const struct op *op)
{
    return h->delay_ms > 0 && op_ended(op) &&
        (op->result == ENQ_EXPIRED || op->result == ENQ_OWNERDIED || op->vague);
}

static void note_release(const struct story *s, struct hold *h,
    const struct op *op)
{
    h->sure_to_seq = min_seq(h->sure_to_seq, op->begin_seq);
    if (!is_delayed(h, op) || op->vague)
        h->called_to_seq = min_seq(h->called_to_seq, op->begin_seq);
    if (op_ended(op) && !is_delayed(h, op) && !remote_is_again(s, h->op, op) &&
        !remote_proves_no_end(s, op))
        h->maybe_to_ns = min_ns(h->maybe_to_ns, op->end_ns);
}

static void note_renew(const struct story *s, struct hold *h,
    const struct op *op)
{
    int64_t least = add_ms(op->begin_ns, op->ttl_ms);
    int64_t most = add_ms(op_over_ns(s, op), op->ttl_ms);

    if (h->op->heartbeat_ms > 0)
        most = max_ns(most, h->maybe_deadline);
    if (op_done(op)) {
        h->earliest_deadline = min_ns(h->earliest_deadline, h->sure_deadline);
        h->renewed_ns = op->end_ns;
        h->sure_deadline = least;
        h->maybe_deadline = most;
    } else if (!op_ended(op)) {
        h->sure_deadline = min_ns(h->sure_deadline, least);
        h->maybe_deadline = max_ns(h->maybe_deadline, most);
    }
}

/*
 * It becomes another mode somewhere within `op`: a stronger one (promote), or
 * a weaker one. The weaker is not sure while it may be the stronger already:
 * of its own owner E stands beside E, and not beside O.
 */
static void note_mode(struct story *s, struct hold *h, const struct op *op,
    unsigned mode)
{
    bool stronger = op->kind == OP_PROMOTE, was_sure = h->sure_seq != 0;
    struct hold before = *h;

    if (!op_may_be_done(op))
        return;
    before.sure_to_seq = min_seq(h->sure_to_seq, op->begin_seq);
    before.called_to_seq = min_seq(h->called_to_seq, op->begin_seq);
    if (op_ended(op))
        before.maybe_to_ns = min_ns(h->maybe_to_ns, op->end_ns);
    if (stronger && !op_ended(op)) { /* either, and neither is sure */
        h->maybe_mode = (uint8_t)mode;
        h->sure_to_seq = before.sure_to_seq;
        before.sure_seq = 0;
        end_of_life(s, &before);
        emit(s, &before);
        return;
    }
    end_of_life(s, &before);
    emit(s, &before);
    h->mode = h->maybe_mode = (uint8_t)mode;
    h->maybe_ns = op->begin_ns;
    if (was_sure) {
        h->sure_seq = stronger ? op->end_seq : op->begin_seq;
        h->sure_ns = stronger ? op->end_ns : op->begin_ns;
    }
}

static void note(struct story *s, struct hold *h, const struct op *op)
{
    switch (op->kind) {
    case OP_UNLOCK:
    case OP_BREAK:
        note_release(s, h, op);
        break;
    case OP_RENEW:
        note_renew(s, h, op);
        break;
    case OP_PROMOTE:
        note_mode(s, h, op, ENQ_MODE_E);
        break;
    case OP_DEMOTE:
        note_mode(s, h, op, ENQ_MODE_S);
        break;
    default:
        break;
    }
    if (op_ended(op) && result_is_gone(op->result))
        note_release(s, h, op);
}

/* Taken over from the dead: the lock goes on under another process. */
static void note_adopt(struct story *s, struct hold *h, const struct op *op,
    const struct deeds *all)
{
    if (h->op != NULL && op_done(op)) {
        note_release(s, h, op);
        close_hold(s, h, all);
    } else if (h->op != NULL && !op_ended(op)) {
        /* its own ttl may be shorter than what it was renewed for */
        h->sure_deadline =
            min_ns(h->sure_deadline, add_ms(op->begin_ns, op->ttl_ms));
        h->maybe_deadline =
            max_ns(h->maybe_deadline, add_ms(op_over_ns(s, op), op->ttl_ms));
    }
    if (op_done(op))
        open_hold(s, h, op, all);
}

/* Was the call over, or its process gone? */
static bool was_over(const struct story *s, const struct op *op, uint64_t seq)
{
    uint64_t gone = s->b->lives[op->life].gone_seq;

    if (op_ended(op))
        return op->end_seq < seq;
    return gone != 0 && gone < seq && !remote_is(s, op->life);
}

/* A process that began before to do away with it may have done so after it
   was taken over, most of all if it was killed. */
static void note_late_releases(const struct story *s, struct hold *h,
    const struct op *const *before, const struct op *adopt)
{
    for (; *before != adopt; before++)
        if (((*before)->kind == OP_UNLOCK || (*before)->kind == OP_BREAK) &&
            op_may_be_done(*before) && !was_over(s, *before, adopt->begin_seq))
            note_release(s, h, *before);
}

/* All that was done about one lock, in order. */
static void tell_deed(struct story *s, struct hold *h, const struct op *op,
    const struct deeds *all)
{
    if (op->kind == OP_LOCK) {
        close_hold(s, h, all);
        if (op_may_be_done(op) || op->result == ENQ_CANCELLED)
            open_hold(s, h, op, all);
        event_check_started(s, op, all);
    } else if (op->kind == OP_ADOPT) {
        note_adopt(s, h, op, all);
        if (h->op == op)
            note_late_releases(s, h, all->ops, op);
        result_check_adopt(s, op, all);
    } else if (op->kind == OP_EVENT || op->kind == OP_CANCEL) {
        event_check(s, h, op, all);
        if (h->op != NULL && event_is_end(op) && !remote_is_anothers(s, h, op))
            note_release(s, h, op);
    } else if (h->op != NULL) {
        result_check(s, h, op, all);
        if (!remote_is_anothers(s, h, op))
            note(s, h, op);
    }
}

static void tell_lock(struct story *s, const struct op *const *ops, size_t n)
{
    const struct deeds all = {ops, n};
    struct hold h = {0};

    for (size_t i = 0; i < n; i++)
        tell_deed(s, &h, ops[i], &all);
    close_hold(s, &h, &all);
}

/* --- all of them --- */

static int by_begin(const void *a, const void *b)
{
    const struct op *p = *(const struct op *const *)a;
    const struct op *q = *(const struct op *const *)b;

    return p->begin_seq < q->begin_seq ? -1 : p->begin_seq > q->begin_seq;
}

static int by_lock(const void *a, const void *b)
{
    const struct op *p = *(const struct op *const *)a;
    const struct op *q = *(const struct op *const *)b;

    if (p->ident != q->ident)
        return p->ident < q->ident ? -1 : 1;
    return by_begin(a, b);
}

static void *room_for(size_t n, size_t size)
{
    void *p = calloc(n + 1, size);

    if (p == NULL)
        abort();
    return p;
}

static void gather(struct story *s)
{
    for (unsigned p = 0; p < PLACES; p++)
        for (uint32_t i = 0; i < s->b->n_ops[p]; i++)
            s->ops[s->n_ops++] = &s->b->ops[p][i];
    memcpy(s->about, s->ops, s->n_ops * sizeof(s->ops[0]));
    qsort(s->ops, s->n_ops, sizeof(s->ops[0]), by_begin);
    qsort(s->about, s->n_ops, sizeof(s->about[0]), by_lock);
    for (size_t i = 0; i < s->n_ops; i++) {
        if (s->ops[i]->kind == OP_PROMOTE && op_may_be_done(s->ops[i]))
            s->promotes[s->n_promotes++] = s->ops[i];
        if (s->ops[i]->kind == OP_CLOSE)
            s->closes[s->ops[i]->life] = s->ops[i];
    }
}

void story_begin(struct story *s, const struct book *b)
{
    size_t n = 0;

    for (unsigned p = 0; p < PLACES; p++)
        n += b->n_ops[p];
    *s = (struct story){.b = b, .quiet = 5};
    s->ops = room_for(n, sizeof(s->ops[0]));
    s->about = room_for(n, sizeof(s->about[0]));
    s->promotes = room_for(n, sizeof(s->promotes[0]));
    s->explained = room_for(n, sizeof(s->explained[0]));
    s->closes = room_for(b->n_lives, sizeof(s->closes[0]));
    s->over_ns = room_for(b->n_lives, sizeof(s->over_ns[0]));
    s->released_ns = room_for(b->n_lives, sizeof(s->released_ns[0]));
    remote_begin(s);
    gather(s);
    whole_begin(s);
}

void story_tell(struct story *s)
{
    size_t from = 0, to;

    for (; from < s->n_ops; from = to) {
        uint64_t ident = s->about[from]->ident;

        for (to = from + 1; to < s->n_ops; to++)
            if (ident == 0 || s->about[to]->ident != ident)
                break;
        tell_lock(s, s->about + from, to - from);
    }
}

void story_end(struct story *s)
{
    free(s->ops);
    free(s->about);
    free(s->promotes);
    free(s->closes);
    free(s->over_ns);
    free(s->released_ns);
    free(s->sure.at);
    free(s->maybe.at);
    free(s->sightings);
    free(s->explained);
}
