/*
 * pairs.c - `enq-bench --pairs N`: exactly N uncontended pairs in this one
 * process, between two lines of output. What a tracer or a profiler sees
 * between them is the uncontended path and nothing else.
 */
#include "bench.h"

#include <string.h>

enum { WARM_UP = 10000, CHUNK = 4096 };

static int run(struct seat *s, uint64_t n)
{
    const struct act *a = &subject_enq.acts[WORK_PAIR];

    while (n > 0 && bench_signal == 0) {
        uint32_t batch = n < CHUNK ? (uint32_t)n : CHUNK;
        if (a->batch(s, batch) != 0)
            return -1;
        n -= batch;
    }
    return bench_signal == 0 ? 0 : -1;
}

static int measured(struct seat *s, uint64_t n)
{
    if (subject_enq.attach(s) != 0 || run(s, WARM_UP) != 0)
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

int pairs_run(uint64_t n)
{
    static struct slot slot;
    struct trial t = {.scenario = scenario_find("pair"), .procs = 1};
    struct seat s = {.trial = &t, .slot = &slot};

    subject_enq.open(&t, &s.arena);
    int rc = measured(&s, n);
    if (slot.why[0] != 0)
        fprintf(stderr, "enq-bench: %s\n", slot.why);
    subject_enq.detach(&s);
    subject_enq.close(&t, s.arena);
    return rc;
}
