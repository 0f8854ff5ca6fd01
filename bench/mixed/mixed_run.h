/*
 * mixed_run.h - the parent of a mixed run: its options, and its crowds.
 */
#ifndef BENCH_MIXED_MIXED_RUN_H
#define BENCH_MIXED_MIXED_RUN_H

#include "mixed/mixed.h"

struct mixed_options {
    uint64_t seconds, waits, held, procs, names;
    const char *only; /* figures whose names contain it; NULL: all */
};

int mixed_options_parse(struct mixed_options *o, int argc, char **argv);

/* Whose processor time is told apart. */
enum kind { KIND_ATTACHED, KIND_PENDING, KIND_TRAFFIC, N_KINDS };

struct crowd {
    struct place *place; /* shared with its processes */
    pid_t *pids;
    enum kind *kinds;
    unsigned n;
};

int crowd_start(struct crowd *c, unsigned which, const struct mixed_options *o);
void crowd_end(struct crowd *c);
/* Someone failed: it is told. */
bool crowd_failed(const struct crowd *c);
uint64_t crowd_kind_cpu_ns(const struct crowd *c, enum kind kind);

#endif
