/*
 * crew.h - the shared control page: how the parent steers its workers.
 *
 * The parent writes `order`, then posts each worker's `go`; the workers run
 * until `stop` is set and post `done`. An anonymous shared mapping: it ends
 * with the processes, whatever they die of.
 */
#ifndef BENCH_CREW_H
#define BENCH_CREW_H

#include "bench.h"

#include <semaphore.h>

struct page {
    sem_t go[PROCS_MAX];
    sem_t done;
    struct order order;
    _Alignas(128) _Atomic uint32_t stop;
    struct guard guard[SUBJECTS_MAX];
    struct slot slot[PROCS_MAX];
};

/* A worker's whole life; does not return. */
_Noreturn void worker_run(struct crew *c, unsigned index);

#endif
