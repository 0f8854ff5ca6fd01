/*
 * crew.h - the shared control page: how the parent steers its workers.
 *
 * The parent writes `order`, then posts each worker's `go`; the workers run
 * until `stop` is set and post `done`. An anonymous shared mapping: it ends
 * with the processes, whatever they die of.
 */
#ifndef BENCH_HARNESS_CREW_H
#define BENCH_HARNESS_CREW_H

#include "harness/bench.h"

#include <semaphore.h>
#include <time.h>

struct page {
    sem_t go[PROCS_MAX];
    sem_t done;
    sem_t ready; /* the victim has taken what it takes along */
    struct order order;
    _Atomic uint32_t waiting; /* PASS_WAIT: acquire() comes next */
    _Alignas(128) _Atomic uint32_t stop;
    struct guard guard[SUBJECTS_MAX];
    struct slot slot[PROCS_MAX];
};

/* First thing in a child: dies with @parent, ignores ^C, is pinned. */
void crew_settle(unsigned index, int parent);
int crew_pause(double seconds); /* -1: a signal came */
uint64_t crew_cpu_ns(void);     /* of this process, all threads */
bool crew_ended(struct crew *c, unsigned worker, int pid); /* told if so */
struct timespec crew_in_ms(int64_t ms);
__attribute__((format(printf, 1, 2))) void crew_complain(const char *format,
    ...);

/* Its halves: what is due, and until all are done. */
void crew_order(struct crew *c, struct order o);
int crew_wait(struct crew *c, unsigned late_s);

struct seat seat_of(struct crew *c, unsigned subject, unsigned index);

/* A worker's whole life; does not return. */
_Noreturn void worker_run(struct crew *c, unsigned index);

#endif
