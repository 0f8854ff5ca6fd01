/*
 * pairs.c - `enq-bench --pairs N`: exactly N uncontended pairs, or operations
 * of another scenario, in this one process, between two lines of output. What
 * a tracer or a profiler sees between them is that path and nothing else.
 */
#include "harness/bench.h"

#include <string.h>

enum { WARM_UP = 10000, CHUNK = 4096 };

static int run(struct seat *s, uint64_t n)
{
    const struct act *a = &subject_enq.acts[s->trial->scenario->work];

    while (n > 0 && bench_signal == 0) {
        uint32_t batch = n < CHUNK ? (uint32_t)n : CHUNK;
        if (a->batch(s, batch) != 0)
            return -1;
        n -= batch;
    }
    return bench_signal == 0 ? 0 : -1;
}

static int prepare(struct seat *s)
{
    const struct act *a = &subject_enq.acts[s->trial->scenario->work];

    if (subject_enq.attach(s) != 0)
        return -1;
    return a->prepare == NULL ? 0 : a->prepare(s);
}

static int measured(struct seat *s, uint64_t n)
{
    if (prepare(s) != 0 || run(s, WARM_UP) != 0)
        return -1;
    printf("warm after %d pairs\n", WARM_UP);
    fflush(stdout);
    uint64_t begin = now_ns();
    int rc = run(s, n);
    uint64_t end = now_ns();
    if (rc == 0)
        printf("%llu pairs, %.1f ns each\n", (unsigned long long)n,
            (double)(end - begin) / (double)n);
    fflush(stdout);
    return rc;
}

static const struct scenario *chosen(const struct options *o)
{
    for (unsigned i = 0; scenarios[i].name != NULL; i++)
        if (o->picked[i])
            return &scenarios[i];
    return scenario_find("pair");
}

int pairs_run(const struct options *o)
{
    static struct slot slot;
    static struct guard guard;
    static const _Atomic uint32_t stop;
    struct trial t = {.scenario = chosen(o), .procs = 1};
    struct seat s = {.trial = &t,
        .slot = &slot,
        .guard = &guard,
        .stop = &stop,
        .random = 1};

    t.held = o->n_held > 0 ? o->held[0] : t.scenario->held[0];
    t.count = o->n_count > 0 ? o->count[0] : t.scenario->count[0];
    subject_enq.open(&t, &s.arena);
    int rc = measured(&s, o->pairs);
    if (slot.why[0] != 0)
        fprintf(stderr, "enq-bench: %s\n", slot.why);
    subject_enq.detach(&s);
    subject_enq.close(&t, s.arena);
    return rc;
}
