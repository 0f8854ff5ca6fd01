/*
 * deeds.c - all that was done about a lock, for the reader of a violation.
 */
#include <inttypes.h>
#include <stdio.h>

#include "story.h"

/* Which of them asked through a bridge, and when there was one. */
static void tell_bridges(const struct story *s, uint64_t ident)
{
    int64_t from = INT64_MAX, to = 0;

    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->about[i];

        if (op->ident != ident || !s->b->lives[op->life].remote)
            continue;
        from = op->begin_ns < from ? op->begin_ns : from;
        to = op->end_ns > to ? op->end_ns : to;
        printf("      life %u is remote, grace %lld ms\n", op->life,
            (long long)s->b->lives[op->life].grace_ms);
    }
    for (uint32_t i = 0; i < s->b->n_serves; i++) {
        const struct serve *x = &s->b->serves[i];

        if (x->from_ns <= to && (x->gone_ns == 0 || x->gone_ns >= from))
            printf("      a bridge from %.3f to %.3f ms, gone at %.3f (seq "
                   "%llu..%llu)%s\n",
                (double)x->from_ns / 1e6, (double)x->to_ns / 1e6,
                (double)x->gone_ns / 1e6, (unsigned long long)x->to_seq,
                (unsigned long long)x->gone_seq, x->died ? ", killed" : "");
    }
}

/* Told with the first few: a rare fault leaves nothing else to go by. */
void story_deeds(const struct story *s, uint64_t ident)
{
    tell_bridges(s, ident);
    for (size_t i = 0; i < s->n_ops; i++) {
        const struct op *op = s->about[i];
        const struct life *life = &s->b->lives[op->life];

        if (op->ident != ident)
            continue;
        printf("      %s\n", op_text(op));
        if (life->kill_seq != 0)
            printf("          killed at %.3f ms, seq %llu, gone at %.3f\n",
                (double)life->kill_ns / 1e6, (unsigned long long)life->kill_seq,
                (double)life->gone_ns / 1e6);
    }
    for (size_t i = 0; i < s->n_sightings; i++)
        if (s->sightings[i].ident == ident)
            printf("      seen in list %llu%s\n",
                (unsigned long long)s->sightings[i].list_seq,
                s->sightings[i].waiting ? ", waiting" : "");
    fflush(stdout);
}

/* What may have been held of these keys just before it was granted. */
#define AROUND_NS (200 * NS_MS)

void story_around(const struct story *s, const struct op *op)
{
    for (size_t i = 0; i < s->maybe.n; i++) {
        const struct span *m = &s->maybe.at[i];

        if (ops_overlap(m->op, op) && m->from_ns <= op->end_ns &&
            m->to_ns >= op->begin_ns - AROUND_NS)
            printf("      held at most from %.3f to %.3f ms%s: %s\n",
                (double)m->from_ns / 1e6, (double)m->to_ns / 1e6,
                m->by_death ? ", by a death" : "", op_text(m->op));
    }
    fflush(stdout);
}
