/*
 * whole.c - of a set of locks all or none (see whole.h).
 *
 * That a member is there, though its taker was killed before it was told, is
 * known when another took it over, or away, after it was seen to be held; or
 * as it is there at rest. From then on all others are held for sure, which the
 * rules for any lock judge: exclusion, what is to be kept, and that it is in
 * each list.
 */
#include "whole.h"

#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "remote.h"
#include "result.h"

/* --- what is known of one lock --- */

static int by_lock(const void *a, const void *b)
{
    const struct sighting *p = a, *q = b;

    if (p->ident != q->ident)
        return p->ident < q->ident ? -1 : 1;
    return p->list_seq < q->list_seq ? -1 : p->list_seq > q->list_seq;
}

void whole_begin(struct story *s)
{
    uint32_t n = s->b->n_sightings;

    s->n_sightings = n < SIGHTINGS_MAX ? n : SIGHTINGS_MAX;
    s->sightings = calloc(s->n_sightings + 1, sizeof(s->sightings[0]));
    if (s->sightings == NULL)
        abort();
    memcpy(s->sightings, s->b->sightings,
        s->n_sightings * sizeof(s->sightings[0]));
    qsort(s->sightings, s->n_sightings, sizeof(s->sightings[0]), by_lock);
}

static struct deeds deeds_about(const struct story *s, uint64_t ident)
{
    size_t low = 0, high = s->n_ops, end;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (s->about[middle]->ident < ident)
            low = middle + 1;
        else
            high = middle;
    }
    for (end = low; end < s->n_ops && s->about[end]->ident == ident;)
        end++;
    return (struct deeds){s->about + low, end - low};
}

/* Somebody has got at it, under the words that the dead had; a list alone may
   be of the moment in between. */
static bool proves_held(const struct op *deed)
{
    if (!op_done(deed))
        return false;
    if (deed->kind == OP_LOCK || deed->kind == OP_ADOPT)
        return true;
    return deed->foreign && deed->was_held &&
        (deed->kind == OP_UNLOCK || deed->kind == OP_BREAK);
}

static bool is_held_at_rest(const struct story *s, uint64_t ident)
{
    for (uint32_t i = 0; i < s->b->n_rest; i++)
        if (s->b->rest[i].ident == ident && !s->b->rest[i].waiting)
            return true;
    return false;
}

static void note_proof(uint64_t *seq, int64_t *ns, uint64_t at_seq,
    int64_t at_ns)
{
    if (*seq != 0 && *seq <= at_seq)
        return;
    *seq = at_seq;
    *ns = at_ns;
}

static void find_proof(const struct story *s, const struct op *member,
    uint64_t *seq, int64_t *ns)
{
    struct deeds all = deeds_about(s, member->ident);

    for (size_t i = 0; i < all.n; i++)
        if (proves_held(all.ops[i]))
            note_proof(seq, ns, all.ops[i]->end_seq, all.ops[i]->end_ns);
    if (is_held_at_rest(s, member->ident))
        note_proof(seq, ns, SEQ_NEVER - 1, s->b->rest_ns);
}

void whole_was_granted(const struct story *s, const struct op *op,
    uint64_t *seq, int64_t *ns)
{
    if (op->set == 0 || op->on_death == ENQ_DEATH_RELEASE)
        return;
    for (unsigned i = 0; i < op_members(op); i++) {
        const struct op *member = op_member(op, i);

        if (member != NULL && member->ident != 0)
            find_proof(s, member, seq, ns);
    }
}

/* --- in each list --- */

static const struct sighting *sighting_of(const struct story *s, uint64_t ident,
    uint64_t list_seq)
{
    const struct sighting key = {ident, list_seq, false};

    return bsearch(&key, s->sightings, s->n_sightings, sizeof(key), by_lock);
}

static void check_listed(struct story *s, const struct span *span,
    const struct op *list)
{
    const struct sighting *seen;

    if (list->begin_seq < span->from_seq || list->end_seq >= span->to_seq ||
        list->end_ns >= span->to_ns)
        return;
    seen = sighting_of(s, span->op->ident, list->begin_seq);
    if ((seen == NULL || seen->waiting) &&
        story_fault(s, FAULT_SET, "%s;\n    %s %s", op_text(span->op),
            seen == NULL ? "not in" : "waits in", op_text(list)))
        story_deeds(s, span->op->ident);
}

static void check_lists(struct story *s, const struct span *span)
{
    for (size_t i = check_begun_before(s, span->from_seq);
         i < s->n_ops && s->ops[i]->begin_seq < span->to_seq; i++)
        if (s->ops[i]->kind == OP_LIST && s->ops[i]->whole &&
            op_ended(s->ops[i]))
            check_listed(s, span, s->ops[i]);
}

/* --- what waits, or was refused, holds nothing --- */

static const struct op *asked_with(const struct story *s, uint64_t ident)
{
    struct deeds all = deeds_about(s, ident);

    for (size_t i = 0; i < all.n; i++)
        if (all.ops[i]->kind == OP_LOCK)
            return all.ops[i];
    return NULL;
}

/* A process killed while it wrote a sighting down left it without a lock. Of
   one that was cancelled that may be: perhaps it was granted before. */
static bool never_held(const struct op *op)
{
    return op_ended(op) && op->result != ENQ_OK && op->result != ENQ_CANCELLED;
}

static void check_sightings(struct story *s)
{
    const struct op *op = NULL;

    for (size_t i = 0; i < s->n_sightings; i++) {
        const struct sighting *seen = &s->sightings[i];

        if (i == 0 || seen->ident != seen[-1].ident)
            op = asked_with(s, seen->ident);
        if (seen->ident != 0 && !seen->waiting && op != NULL && never_held(op))
            story_fault(s, FAULT_SET, "%s;\n    held in list %llu", op_text(op),
                (unsigned long long)seen->list_seq);
    }
}

/* --- a set that is cancelled at one of its locks, is --- */

static bool ends_wait(const struct op *deed)
{
    return op_done(deed) && deed->foreign &&
        (deed->kind == OP_UNLOCK || deed->kind == OP_BREAK);
}

static int64_t waits_until(const struct story *s, const struct op *op)
{
    if (op->ticket != 0)
        return op->empty_ns;
    return op_ended(op) ? op->end_ns : life_end_ns(s, op->life);
}

static void check_cancelled(struct story *s, const struct op *op,
    const struct op *deed)
{
    int64_t to = waits_until(s, op), most = ASLEEP_NS;

    if (!ends_wait(deed) || to - deed->end_ns <= most ||
        remote_was_cut(s, op->life, deed->end_ns, to))
        return;
    most +=
        check_stalled_ns(s, op, deed->end_ns, to) + check_unseen_ns(s, op, to);
    if (to - deed->end_ns > most)
        story_fault(s, FAULT_LATE, "for %.1f ms (%.1f allowed): %s;\n    %s",
            (double)(to - deed->end_ns) / 1e6, (double)most / 1e6, op_text(op),
            op_text(deed));
}

static void check_wait(struct story *s, const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++) {
        const struct op *member = op_member(op, i);
        struct deeds all;

        if (member == NULL || member->ident == 0)
            continue;
        all = deeds_about(s, member->ident);
        for (size_t k = 0; k < all.n; k++)
            check_cancelled(s, op, all.ops[k]);
    }
}

/* --- results --- */

static bool is_explained(const struct story *s, const struct op *op)
{
    for (size_t i = 0; i < s->n_explained; i++)
        if (s->explained[i] == op->set)
            return true;
    return false;
}

/* Given back together: one of them was gone, as was said. */
static void check_vague(struct story *s, const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++)
        if (op_member(op, i) == NULL || !op_ended(op_member(op, i)))
            return;
    if (op->vague && !is_explained(s, op) &&
        story_fault(s, FAULT_ENDED, "%s", op_text(op)))
        for (unsigned i = 0; i < op_members(op); i++)
            story_deeds(s, op_member(op, i)->ident);
}

static void check_result(struct story *s, const struct op *op)
{
    if (op->kind == OP_UNLOCK && op_leads(op))
        check_vague(s, op);
    if (op->kind != OP_LOCK)
        return;
    if (op_done(op) && op->ticket != 0 && op->given != op->handle)
        story_fault(s, FAULT_TICKET, "%s; given %llx", op_text(op),
            (unsigned long long)op->given);
    if (op->wait_ms != 0 && op_leads(op))
        check_wait(s, op);
}

void whole_check(struct story *s)
{
    for (size_t i = 0; i < s->sure.n; i++) {
        uint64_t ident = s->sure.at[i].op->ident;

        if ((ident & IDENT_OURS) != 0 && (ident & IDENT_SET) != 0)
            check_lists(s, &s->sure.at[i]);
    }
    check_sightings(s);
    for (size_t i = 0; i < s->n_ops; i++)
        if (s->ops[i]->set != 0)
            check_result(s, s->ops[i]);
}
