/*
 * sched.c - the scheduler: which process runs next, for how many steps, and
 * which dies.
 *
 * Three strategies, as each finds faults that the others take long for:
 *
 *	walk        anybody next, after a random number of steps
 *	priorities  the highest that can run, until a change: few, well placed
 *	            preemptions find what needs a certain order (PCT)
 *	preempt     the one that runs goes on until it sleeps, but for a few times
 *
 * Deaths are a process's own: at its n-th step from now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "store/slab.h"

#define STEPS_MAX UINT64_C(30000000) /* of one schedule: it is stuck */
#define QUANTUM_MAX 3000
#define PRIORITY_FIRST 1000000000u

/* --- coroutines --- */

static void proc_main(void)
{
    struct proc *p = sim.me;

    p->body(p);
    p->state = PROC_ENDED;
    sched_leave();
    abort(); /* it was resumed after its end */
}

struct proc *sched_spawn(void (*body)(struct proc *p))
{
    static uint64_t lives = 1000;
    struct proc *p;
    struct coro coro;

    if (sim.n_procs == PROCS_MAX)
        return NULL;
    p = &sim.procs[sim.n_procs];
    coro = p->coro;
    memset(p, 0, sizeof(*p));
    p->coro = coro;
    p->number = sim.n_procs++;
    p->process = p;
    p->map = sim.map;
    private_fresh(p);
    p->life = ++lives;
    p->state = PROC_READY;
    p->priority = PRIORITY_FIRST + (unsigned)below(1000);
    p->body = body;
    coro_begin(&p->coro, proc_main);
    before_spawned(p);
    return p;
}

void sched_leave(void)
{
    coro_switch(&sim.me->coro, &sim.root);
}

void sched_wake(struct proc *p)
{
    p->state = PROC_READY;
    p->n_watches = 0;
    /* the woken may be preferred to the waker */
    if (sim.strategy == PRIORITIES)
        sim.left = 1;
}

void sched_kill(struct proc *p)
{
    sim_say("%c dies", 'a' + (int)p->number);
    p->state = PROC_DEAD;
    p->stopped_until = 0;
    p->die_in = 0;
    sim.deaths++;
    kernel_died(p);
}

bool sched_process_is_dead(const struct proc *p)
{
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].process == p->process &&
            sim.procs[i].state != PROC_DEAD && sim.procs[i].state != PROC_ENDED)
            return false;
    return true;
}

static int64_t last_steps(void)
{
    return 1 + (int64_t)(chance(2) ? log_below(20000) : below(200));
}

static void kill_others(struct proc *p)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *other = &sim.procs[i];

        if (other->process != p->process || other == p)
            continue;
        other->stopped_until = 0;
        if (other->state == PROC_ASLEEP ||
            (other->state == PROC_READY && chance(2)))
            sched_kill(other);
        else if (other->state == PROC_READY)
            other->die_in = last_steps();
    }
}

/* A stop counts as a whole when it begins: if it is asked for during the stop,
   what is left of that is still to be lost. */
int64_t sched_lost_ns(void)
{
    int64_t left = 0, now = kernel_now_ns();

    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].stopped_until - now > left)
            left = sim.procs[i].stopped_until - now;
    return sim.lost_ns - left;
}

/* In the kernel: it cannot be ended before it has done what it is at. */
static void hang(struct proc *p)
{
    int64_t ns = (int64_t)log_below(50000000);

    if (p->state == PROC_ASLEEP)
        sched_wake(p);
    p->stopped_until = kernel_now_ns() + ns;
    p->die_in = 1;
    sim.lost_ns += ns;
    sim_say("%c hangs in the kernel", 'a' + (int)p->number);
}

/* A signal reaches the threads of a process one after the other: one that runs
   may run on for a moment, or for longer than others take to see the mark of
   the first: the helper thread, half of the times. */
void sched_kill_process(struct proc *p)
{
    bool before = p->process->doomed;

    p->process->doomed = true;
    if (!before && p->process == p && p->threaded && chance(2)) {
        if (p->state == PROC_ASLEEP || chance(2))
            hang(p);
        else
            p->die_in = last_steps();
        kill_others(p);
        return;
    }
    sched_kill(p);
    if (!before)
        kill_others(p);
}

/* Outside of any process: what the library does now is nobody's step. */
void sched_forget(void)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];

        *process_page = p->life;
        private_enter(p);
        if (p->session && p->threaded)
            async_end(&p->enq.async);
        if (p->session)
            slab_session_fini(&p->enq.session);
        thread_leave(p->map);
        p->session = false;
        private_leave(p);
    }
    thread_last = NULL;
}

static void fail(const char *format, va_list args)
{
    if (sim.failed)
        return;
    sim_say("FAILS");
    sim.failed = true;
    vsnprintf(sim.why, sizeof(sim.why), format, args);
    sim.left = 1;
}

void sim_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fail(format, args);
    va_end(args);
}

void sim_misled(const char *format, ...)
{
    va_list args;

    if (sim.me->process->doomed)
        return;
    va_start(args, format);
    fail(format, args);
    va_end(args);
}

void sim_say(const char *format, ...)
{
    va_list args;

    if (!sim.talks)
        return;
    printf("%9llu %14.3f us  %c  ", (unsigned long long)sim.steps,
        (double)(kernel_now_ns() - 1000 * NS_PER_S) / 1e3,
        sim.me == NULL ? '-' : 'a' + (int)sim.me->number);
    va_start(args, format);
    vprintf(format, args);
    va_end(args);
    printf("\n");
}

/* --- the next to run --- */

static bool can_run(const struct proc *p)
{
    return p->state == PROC_READY && p->stopped_until == 0 &&
        p->stalled_until <= sim.steps;
}

/* Nobody else can run. */
static bool end_stalls(void)
{
    bool any = false;

    for (unsigned i = 0; i < sim.n_procs; i++) {
        any |= sim.procs[i].stalled_until > sim.steps;
        sim.procs[i].stalled_until = 0;
    }
    return any;
}

static struct proc *any_ready(void)
{
    unsigned n = 0, which;

    for (unsigned i = 0; i < sim.n_procs; i++)
        n += can_run(&sim.procs[i]);
    if (n == 0)
        return NULL;
    which = (unsigned)below(n);
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (can_run(&sim.procs[i]) && which-- == 0)
            return &sim.procs[i];
    return NULL;
}

static struct proc *highest_ready(void)
{
    struct proc *best = NULL;

    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];

        if (can_run(p) && (best == NULL || p->priority > best->priority))
            best = p;
    }
    return best;
}

/* The one that ran goes last from now on. */
static void change_priorities(struct proc *last)
{
    if (last != NULL)
        last->priority = --sim.lowest;
    sim.next_change = sim.steps + 1 + below(2 * sim.gap);
}

static struct proc *pick(struct proc *last)
{
    bool change = sim.steps >= sim.next_change;

    switch (sim.strategy) {
    case PRIORITIES:
        if (change)
            change_priorities(last);
        return highest_ready();
    case PREEMPT:
        if (!change && last != NULL && can_run(last))
            return last;
        if (change)
            sim.next_change = sim.steps + 1 +
                (sim.preemptions-- > 0 ? below(2 * sim.gap) : STEPS_MAX);
        return any_ready();
    default:
        return any_ready();
    }
}

/* Steps until we are asked again, at the latest. */
static int64_t quantum_of(const struct proc *p)
{
    uint64_t most = QUANTUM_MAX;

    if (sim.strategy == WALK)
        most = 1 + below(2 * sim.quantum);
    else if (sim.next_change < sim.steps + most)
        most = sim.next_change - sim.steps;
    if (sim.next_chaos < sim.steps + most)
        most = sim.next_chaos - sim.steps;
    if (most < 1)
        most = 1;
    if (p->die_in > 0 && (uint64_t)p->die_in < most)
        most = (uint64_t)p->die_in;
    return (int64_t)most;
}

/* --- what the world does --- */

static struct proc *any_proc(void)
{
    return &sim.procs[below(sim.n_procs)];
}

static void stop_one(void)
{
    struct proc *p = any_proc();

    int64_t until = kernel_now_ns() + (int64_t)log_below(300000000);

    if (!sim.stops || p->process->doomed ||
        (p->state != PROC_READY && p->state != PROC_ASLEEP))
        return;
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].process == p->process &&
            (sim.procs[i].state == PROC_READY ||
                sim.procs[i].state == PROC_ASLEEP))
            sim.procs[i].stopped_until = until;
    sim.lost_ns += until - kernel_now_ns();
    sim_say("%c is stopped until %.3f us", 'a' + (int)p->number,
        (double)(until - 1000 * NS_PER_S) / 1e3);
}

static void jump(int64_t ns)
{
    sim.clock_ns += ns;
    sim.lost_ns += ns;
}

static void chaos(void)
{
    struct proc *p = any_proc();

    sim.next_chaos = sim.steps + 1 + below(4000);
    work_spawn();
    switch (below(16)) {
    case 0:
    case 1:
    case 2:
    case 3:
        if (p->state == PROC_ASLEEP && !p->registry && p->wants == NULL)
            sched_wake(p);
        break;
    case 4:
        stop_one();
        break;
    case 5:
        jump((int64_t)log_below(120000000));
        break;
    case 6:
    case 7:
        jump((int64_t)log_below(300000));
        break;
    default:
        break;
    }
}

/* Buffers drain when they like: with few steps a turn, more turns see them. */
static void drain_some(void)
{
    if (sim.fault == FAULT_FENCES)
        return;
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].n_buffer > 0 && chance(sim.drain) &&
            sim.steps >= sim.procs[i].linger)
            memory_drain_one(&sim.procs[i]);
}

/* Nobody can run. False: nor ever will. */
static bool idle(void)
{
    int64_t next = kernel_next_ns(), by;

    for (unsigned i = 0; i < sim.n_procs; i++)
        memory_drain(&sim.procs[i]);
    if (next == INT64_MAX)
        return false;
    by = next - kernel_now_ns();
    if (by > 0) {
        oracle_idle(by);
        whole_idle(by);
        async_all_idle(by);
        graph_idle(by);
        sim.clock_ns += by;
    }
    return true;
}

/* --- running --- */

static void resume(struct proc *p)
{
    int64_t most = quantum_of(p);

    sim.trace = sim.trace * 31 + p->number;
    sim.left = most;
    sim.me = p;
    *process_page = p->life;
    private_enter(p);
    memory_enter(p);
    sim.bytes = sim.map->bytes;
    coro_switch(&sim.root, &p->coro);
    sim.bytes = 0;
    memory_leave(p);
    private_leave(p);
    sim.me = NULL;
    if (p->state == PROC_ENDED) {
        memory_drain(p);
        return;
    }
    if (p->dies_next) {
        p->dies_next = false;
        sched_kill_process(p);
        return;
    }
    if (p->die_in > 0)
        p->die_in -= most - (sim.left > 0 ? sim.left : 0);
    else if (!p->process->doomed)
        return;
    /* a victim does not sleep first */
    if (p->die_in <= 0 || (p->process->doomed && p->state == PROC_ASLEEP))
        sched_kill_process(p);
}

void sched_begin(void)
{
    sim.n_procs = 0;
    sim.me = NULL;
    sim.steps = sim.trace = 0;
    sim.failed = false;
    sim.deaths = 0;
    sim.promoted = sim.broken = false;
    sim.lowest = PRIORITY_FIRST;
    sim.latest_ns = sim.lost_ns = 0;
    private_begin();
    sim.strategy = (enum strategy)(sim.seed / work_kinds() % STRATEGIES);
    sim.quantum = (unsigned)log_below(1024);
    sim.gap = (unsigned)log_below(4096);
    sim.preemptions = 1 + (unsigned)below(12);
    sim.next_change = below(2 * sim.gap);
    sim.next_chaos = below(8000);
    sim.buffers = !chance(4);
    sim.weak = sim.buffers && chance(2);
    sim.drain = (unsigned)log_below(64);
    sim.edges = chance(2) ? 0 : 4 + (unsigned)log_below(60);
    sim.stops = chance(3);
    if (sim.n_weakened > 0)
        sim.buffers = sim.weak = true;
    if (sim.pairs)
        sim.buffers = sim.weak = false;
    before_begin();
}

static bool all_over(void)
{
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].state == PROC_READY ||
            sim.procs[i].state == PROC_ASLEEP)
            return false;
    return true;
}

void sched_run(void)
{
    struct proc *last = NULL;

    while (!sim.failed && (!all_over() || work_goes_on())) {
        kernel_due();
        if (sim.steps >= sim.next_chaos)
            chaos();
        if (sim.buffers)
            drain_some();
        last = pick(last);
        if (last == NULL && end_stalls())
            continue;
        if (last != NULL)
            resume(last);
        else if (!idle())
            sim_fail("nobody can run, and nothing will change that");
        if (sim.steps > STEPS_MAX)
            sim_fail("no end after %llu steps", (unsigned long long)STEPS_MAX);
    }
}
