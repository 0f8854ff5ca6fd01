/*
 * kernel.c - the virtual kernel: clock, futex, liveness words, the registry
 * lock; and what else of the host must not leak into a schedule.
 *
 * The clock stands still but for STEP_NS a step, and jumps: to the next thing
 * that is due when nobody can run, and at times ahead, as if all had been off
 * the processor. What the kernel does to a liveness word is what it does when
 * it walks the list of a thread that ends: mark it dead, and wake a waiter
 * if somebody said so.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <stdarg.h>

#include "sim/sim.h"
#include "store/slab.h"
#include "sync/life.h"

#define COARSE_NS (4 * NS_PER_MS)
#define CPUS 2

/* Seen by the linker as the library's own: --wrap in build.mk. */
int __real_fcntl(int fd, int command, ...);
int __wrap_fcntl(int fd, int command, ...);
int __wrap_posix_fallocate(int fd, off_t at, off_t bytes);
int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex);
int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex);
int __wrap_sys_cpus(void);
uint8_t __wrap_sys_cpu(void);
void __wrap_id_random(uint8_t uuid[16]);
int __wrap_life_possible(void);
bool __wrap_sys_is_real(void);
int __wrap_map_links(const struct map *map);
int __wrap_map_check_whole(const struct map *map);

void kernel_point(void)
{
    if (sim.me == NULL)
        return;
    sim_edge();
    if (--sim.left <= 0)
        sched_leave();
}

/* --- clock --- */

int64_t kernel_now_ns(void)
{
    return sim.clock_ns + (int64_t)sim.steps * STEP_NS;
}

static mono_t now(void)
{
    return (mono_t){kernel_now_ns()};
}

static mono_t coarse(void)
{
    int64_t ns = kernel_now_ns();

    return (mono_t){ns - ns % COARSE_NS};
}

/* --- sleeping --- */

static void sleep_until(struct proc *p, int64_t ns)
{
    memory_drain(p);
    p->wake_ns = ns;
    p->state = PROC_ASLEEP;
    sched_leave();
}

void kernel_sleep(int64_t until_ns)
{
    sleep_until(sim.me, until_ns);
}

/* A waiter that wakes up looks anew, and so does a helper thread, which sleeps
   on a word of its process; a waiter for a latch goes on with what it
   knows. */
static bool is_waiter(const struct sys_watch *watch)
{
    return sim_offset(watch->word) >= sim.map->arena_at;
}

static bool differs(const struct sys_watch *watches, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (*(volatile const uint32_t *)watches[i].word != watches[i].value)
            return true;
    return false;
}

static void sleep_on(const struct sys_watch *watches, unsigned n, mono_t until)
{
    struct proc *p = sim.me;

    kernel_point();
    memory_drain(p);
    if (n > SYS_WATCHES_MAX)
        n = SYS_WATCHES_MAX;
    if (is_waiter(watches))
        p->began_ns = kernel_now_ns();
    if (differs(watches, n) || until.ns <= kernel_now_ns())
        return;
    for (unsigned i = 0; i < n; i++)
        p->watch[i] = watches[i];
    p->n_watches = n;
    sim_say("sleeps on %#zx and %u more until %.3f us",
        sim_offset(watches[0].word), n - 1,
        (double)(until.ns - 1000 * NS_PER_S) / 1e3);
    sleep_until(p, until.ns);
    if (is_waiter(watches))
        p->began_ns = kernel_now_ns();
}

static void wait_for(const struct sys_watch *watches, unsigned n, mono_t until)
{
    sleep_on(watches, n,
        mono_min(until, (mono_t){kernel_now_ns() + SYS_TICK_NS}));
}

void kernel_pause(int64_t ns)
{
    sim.me->n_watches = 0;
    sleep_until(sim.me, kernel_now_ns() + ns);
}

static bool sleeps_on(const struct proc *p, const uint32_t *word)
{
    if (p->state != PROC_ASLEEP ||
        (!sim_in_segment(word) && p->process != sim.me->process))
        return false;
    for (unsigned i = 0; i < p->n_watches; i++)
        if (p->watch[i].word == word)
            return true;
    return false;
}

static void wake_some(const uint32_t *word, int how_many)
{
    unsigned first = (unsigned)below(sim.n_procs);

    for (unsigned i = 0; i < sim.n_procs && how_many > 0; i++) {
        struct proc *p = &sim.procs[(first + i) % sim.n_procs];

        if (!sleeps_on(p, word))
            continue;
        sched_wake(p);
        how_many--;
    }
}

static void wake(const uint32_t *word, int how_many)
{
    if (sim.me == NULL)
        return;
    kernel_point();
    memory_drain(sim.me);
    sim_say("wakes %d on %#zx", how_many, sim_offset(word));
    if (sim.fault == FAULT_WAKES && chance(8))
        return;
    wake_some(word, how_many);
}

/* --- life and death --- */

static uint32_t tid_of(const struct proc *p)
{
    return 1000 + p->number;
}

int __wrap_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    struct proc *p = sim.me;

    if (p != NULL && p->process->threaded && !sim_in_segment(mutex))
        return threads_lock(mutex);
    /* what guards private memory has one thread only to guard it from */
    if (p == NULL || !sim_in_segment(mutex))
        return 0;
    if (p->n_lives == LIVES_MAX)
        return EAGAIN;
    before_taken(mutex);
    *(uint32_t *)mutex = tid_of(p);
    p->lives[p->n_lives++] = (const uint32_t *)mutex;
    return 0;
}

/* Of private memory only. */
int __wrap_pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    struct proc *p = sim.me;

    return p == NULL || !p->process->threaded ? 0 : threads_trylock(mutex);
}

int __wrap_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    struct proc *p = sim.me;
    unsigned i = 0;

    if (p != NULL && p->process->threaded && !sim_in_segment(mutex))
        return threads_unlock(mutex);
    if (p == NULL || !sim_in_segment(mutex))
        return 0;
    while (i < p->n_lives && p->lives[i] != (const uint32_t *)mutex)
        i++;
    if (i == p->n_lives)
        return EPERM;
    p->lives[i] = p->lives[--p->n_lives];
    memory_drain(p);
    before_given(mutex);
    *(uint32_t *)mutex = 0;
    wake_some((const uint32_t *)mutex, 1);
    return 0;
}

void kernel_died(struct proc *p)
{
    int64_t at = kernel_now_ns();

    if (p->loses)
        p->n_buffer = 0;
    memory_drain(p);
    for (unsigned i = 0; i < p->n_lives; i++) {
        unsigned other = i + (unsigned)below(p->n_lives - i);
        const uint32_t *word = p->lives[other];

        p->lives[other] = p->lives[i];
        p->lives[i] = word;
        if (!chance(4))
            at += (int64_t)log_below(200000);
        p->marks[i] = (struct mark){(uint32_t *)word, at};
    }
    p->n_marks = p->n_lives;
}

static void mark(const struct proc *p, uint32_t *word)
{
    bool waiters = (*word & FUTEX_WAITERS) != 0;

    if ((*word & FUTEX_TID_MASK) != tid_of(p) || sim.fault == FAULT_MARKS)
        return;
    sim_say("the kernel marks %#zx", sim_offset(word));
    before_marked(p, word);
    *word = (*word & FUTEX_WAITERS) | FUTEX_OWNER_DIED;
    if (waiters)
        wake_some(word, 1);
}

/* Of a thread, or of a session. */
static uintptr_t slot_of(const struct map *map, const struct process *who)
{
    uint64_t at = (uint64_t)((const char *)who - (const char *)map->h);
    uint64_t from = at < SEG_SESSIONS ? SEG_THREADS : SEG_SESSIONS;
    uint64_t bytes = at < SEG_SESSIONS ? sizeof(struct thread_slot)
                                       : sizeof(struct session_slot);

    return (uintptr_t)map->h + from + (at - from) / bytes * bytes;
}

/*
 * Whose slot is it? A slot begins with the life mutex. The kernel knows when
 * the last thread of a process can do nothing any more, whatever it has marked
 * by then.
 */
static bool ended(const struct map *map, const struct process *who)
{
    uintptr_t slot = slot_of(map, who);
    bool found = false;

    kernel_point();
    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *p = &sim.procs[i];

        for (unsigned k = 0; k < p->n_lives; k++) {
            if ((uintptr_t)p->lives[k] != slot)
                continue;
            if (!sched_process_is_dead(p))
                return false;
            before_ended(p);
            found = true;
        }
    }
    return found;
}

/* --- what is due --- */

static void marks_due(struct proc *p, int64_t ns)
{
    while (p->n_marks > 0 && p->marks[0].at_ns <= ns) {
        uint32_t *word = p->marks[0].word;

        p->n_marks--;
        for (unsigned i = 0; i < p->n_marks; i++)
            p->marks[i] = p->marks[i + 1];
        mark(p, word);
    }
    /* files are closed after that */
    if (sim.registry != NULL && sim.registry->process == p->process &&
        p->n_marks == 0 && sched_process_is_dead(p)) {
        before_marked(sim.registry, (const uint32_t *)sim.map->h);
        sim.registry = NULL;
    }
}

static void sleep_due(struct proc *p, int64_t ns)
{
    if (p->state == PROC_ASLEEP &&
        (p->wake_ns <= ns || (p->registry && sim.registry == NULL)))
        sched_wake(p);
    if (p->stopped_until <= ns)
        p->stopped_until = 0;
}

void kernel_due(void)
{
    int64_t ns = kernel_now_ns();

    for (unsigned i = 0; i < sim.n_procs; i++)
        marks_due(&sim.procs[i], ns);
    for (unsigned i = 0; i < sim.n_procs; i++)
        sleep_due(&sim.procs[i], ns);
}

static int64_t sooner(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t kernel_next_ns(void)
{
    int64_t next = INT64_MAX;

    for (unsigned i = 0; i < sim.n_procs; i++) {
        const struct proc *p = &sim.procs[i];

        if (p->state == PROC_ASLEEP)
            next = sooner(next, p->wake_ns);
        if (p->stopped_until > 0)
            next = sooner(next, p->stopped_until);
        if (p->n_marks > 0)
            next = sooner(next, p->marks[0].at_ns);
    }
    return next;
}

/* --- what else of the host --- */

/* The registry lock is the only one that the library asks for. */
static int registry_lock(struct proc *p)
{
    kernel_point();
    while (sim.registry != NULL && sim.registry != p) {
        p->registry = true;
        p->n_watches = 0;
        sleep_until(p, INT64_MAX);
        p->registry = false;
    }
    sim.registry = p;
    before_taken(sim.map->h);
    return 0;
}

int __wrap_fcntl(int fd, int command, ...)
{
    struct flock *lock;
    va_list args;
    void *arg;

    va_start(args, command);
    arg = va_arg(args, void *);
    va_end(args);
    lock = arg;
    if (command != F_SETLKW)
        return __real_fcntl(fd, command, arg);
    if (sim.me == NULL)
        return 0;
    if (lock->l_type != F_UNLCK)
        return registry_lock(sim.me);
    memory_drain(sim.me);
    if (sim.registry == sim.me) {
        before_given(sim.map->h);
        sim.registry = NULL;
    }
    kernel_point();
    return 0;
}

/* Memory comes at the first touch, and there is enough of it. */
int __wrap_posix_fallocate(int fd, off_t at, off_t bytes)
{
    (void)fd, (void)at, (void)bytes;
    return 0;
}

int __wrap_sys_cpus(void)
{
    return (int)(1 + sim.seed % CPUS);
}

uint8_t __wrap_sys_cpu(void)
{
    return (uint8_t)(1 + (sim.me == NULL ? 0 : sim.me->number) % CPUS);
}

int __wrap_life_possible(void)
{
    return 0;
}

bool __wrap_sys_is_real(void)
{
    return true; /* as far as the helper thread is concerned */
}

/* The file has its name, and all of its bytes. */
int __wrap_map_links(const struct map *map)
{
    (void)map;
    return 1;
}

int __wrap_map_check_whole(const struct map *map)
{
    (void)map;
    return 0;
}

void __wrap_id_random(uint8_t uuid[16])
{
    for (unsigned i = 0; i < 16; i++)
        uuid[i] = (uint8_t)dice();
}

void kernel_begin(void)
{
    sys = (struct sys_ops){now, coarse, wait_for, sleep_on, wake, ended};
    sys_coarse_lag_ns = COARSE_NS;
    sim.clock_ns = 1000 * NS_PER_S;
    sim.registry = NULL;
}
