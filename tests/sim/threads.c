/*
 * threads.c - processes of two threads: mutexes and conditions that are
 * private to them, the thread that the library makes, and a descriptor.
 *
 * Each of these calls is a place to be preempted at.
 */
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include "sim/sim.h"

#define FD_FIRST 100000 /* no file's */

/* Seen by the linker as the library's own: --wrap in build.mk. */
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_broadcast(pthread_cond_t *cond);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*start)(void *), void *context);
int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before);
int __wrap_prctl(int option, ...);
int __wrap_eventfd(unsigned count, int flags);
long __real_syscall(long number, ...);
long __wrap_syscall(long number, ...);

void threads_allow(void)
{
    sim.me->threaded = true;
}

/* --- mutexes --- */

static unsigned place_of(const struct proc *process, const void *mutex)
{
    unsigned i = 0;

    while (i < process->n_mutexes && process->mutexes[i].mutex != mutex)
        i++;
    return i;
}

static void wake_those_who_want(const void *what)
{
    for (unsigned i = 0; i < sim.n_procs; i++) {
        struct proc *p = &sim.procs[i];

        if (p->state == PROC_ASLEEP && p->wants == what &&
            p->process == sim.me->process)
            sched_wake(p);
    }
}

static void sleep_for(const void *what)
{
    sim.me->wants = what;
    sim.me->n_watches = 0;
    kernel_sleep(INT64_MAX);
    sim.me->wants = NULL;
}

static int take(const void *mutex)
{
    struct proc *process = sim.me->process;
    unsigned i;

    while ((i = place_of(process, mutex)) < process->n_mutexes) {
        if (process->mutexes[i].by == sim.me)
            sim_fail("a thread takes a mutex that it has");
        sleep_for(mutex);
    }
    if (i == MUTEXES_MAX)
        return EAGAIN;
    process->mutexes[i].mutex = mutex;
    process->mutexes[i].by = sim.me;
    process->n_mutexes++;
    before_taken(mutex);
    return 0;
}

static int give(const void *mutex)
{
    struct proc *process = sim.me->process;
    unsigned i = place_of(process, mutex);

    if (i == process->n_mutexes || process->mutexes[i].by != sim.me) {
        sim_fail("a thread gives back a mutex that it has not");
        return EPERM;
    }
    before_given(mutex);
    process->mutexes[i] = process->mutexes[--process->n_mutexes];
    wake_those_who_want(mutex);
    return 0;
}

int threads_lock(const void *mutex)
{
    kernel_point();
    memory_drain(sim.me);
    return take(mutex);
}

int threads_trylock(const void *mutex)
{
    struct proc *process = sim.me->process;

    kernel_point();
    memory_drain(sim.me);
    return place_of(process, mutex) < process->n_mutexes ? EBUSY : take(mutex);
}

int threads_unlock(const void *mutex)
{
    int rc;

    memory_drain(sim.me);
    rc = give(mutex);
    kernel_point();
    return rc;
}

/* --- conditions --- */

int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    give(mutex);
    sleep_for(cond);
    return take(mutex);
}

int __wrap_pthread_cond_broadcast(pthread_cond_t *cond)
{
    if (sim.me != NULL)
        wake_those_who_want(cond);
    return 0;
}

/* --- the thread that the library makes --- */

static void thread_body(struct proc *p)
{
    p->start(p->context);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr,
    void *(*start)(void *), void *context)
{
    struct proc *me = sim.me, *p = sched_spawn(thread_body);

    (void)thread, (void)attr;
    if (p == NULL)
        return EAGAIN;
    p->process = me->process;
    p->life = me->life;
    p->map = me->map;
    p->start = start;
    p->context = context;
    p->began_ns = kernel_now_ns();
    return 0;
}

int __wrap_pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    (void)how, (void)set, (void)before;
    return 0;
}

int __wrap_prctl(int option, ...)
{
    (void)option;
    return 0;
}

/* --- a descriptor --- */

int __wrap_eventfd(unsigned count, int flags)
{
    (void)flags;
    sim.me->process->readable = count;
    return FD_FIRST + (int)sim.me->number;
}

static long write_fd(const uint64_t *count)
{
    struct proc *process = sim.me->process;

    process->readable += *count;
    wake_those_who_want(&process->readable);
    kernel_point();
    return 8;
}

static long read_fd(uint64_t *count)
{
    struct proc *process = sim.me->process;

    kernel_point();
    *count = process->readable;
    process->readable = 0;
    if (*count != 0)
        return 8;
    errno = EAGAIN;
    return -1;
}

/* A full barrier in each thread of this process. */
static long everybody_drains(void)
{
    for (unsigned i = 0; i < sim.n_procs; i++)
        if (sim.procs[i].process == sim.me->process)
            memory_drain(&sim.procs[i]);
    return 0;
}

long __wrap_syscall(long number, ...)
{
    long arg[6];
    va_list args;

    va_start(args, number);
    for (unsigned i = 0; i < 6; i++)
        arg[i] = va_arg(args, long);
    va_end(args);
    if (number == SYS_membarrier)
        return everybody_drains();
    if (arg[0] < FD_FIRST || arg[0] >= FD_FIRST + PROCS_MAX)
        return __real_syscall(number, arg[0], arg[1], arg[2], arg[3], arg[4],
            arg[5]);
    if (number == SYS_write)
        return write_fd((const uint64_t *)arg[1]);
    return number == SYS_read ? read_fd((uint64_t *)arg[1]) : 0;
}

void threads_poll(int64_t ns)
{
    struct proc *p = sim.me;

    kernel_point();
    if (p->readable > 0)
        return;
    p->wants = &p->readable;
    p->n_watches = 0;
    kernel_sleep(kernel_now_ns() + ns);
    p->wants = NULL;
}
