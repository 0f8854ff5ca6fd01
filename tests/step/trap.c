/*
 * trap.c - the victim: it finds the stores that change the segment, and dies
 * right after one.
 *
 * The segment is made read-only. A store then faults; the page is opened, the
 * one instruction is single-stepped (trap flag), the page is compared with
 * what it was, and closed again. So a store costs 20 us and every other
 * instruction nothing, and all stores are seen: those of the C library, too,
 * and any form of instruction.
 *
 * To die after the nth change there is no need to see the others: only its
 * page is closed, and the changes of that page are counted.
 *
 * All is opened before the process kills itself. The kernel, when it marks the
 * liveness words, writes as the process would, and could not otherwise.
 *
 * This works in every thread of the process. The library's helper thread
 * blocks all signals, and a blocked fault is a death: so the mask that it sets
 * lets these two through. That, and the noting of system calls, is done by
 * functions here which the static library calls in place of libc's.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "step.h"

#define PAGE 4096u
#define SEGMENT_LEAST (1u << 20)
#define TRAP_FLAG 0x100
#define BARGE_TURNS 40 /* of the processor that the barger gets */

/* A store may lie across two pages. */
struct opened {
    char *page;
    char before[PAGE];
};

static struct {
    struct victim *v;
    char *base;
    size_t bytes;
    bool armed;
    uint32_t stepping; /* the thread that is at it; 0 = none */
    struct opened opened[2];
    unsigned n_opened;
    uint32_t in_page;
    uint32_t *sleeps;
    struct bell *told;
} trap;

static long raw(long n, const long a[6])
{
    register long r10 __asm__("r10");
    register long r8 __asm__("r8");
    register long r9 __asm__("r9");
    long rc;

    r10 = a[3];
    r8 = a[4];
    r9 = a[5];
    __asm__ volatile("syscall"
                     : "=a"(rc)
                     : "a"(n), "D"(a[0]), "S"(a[1]), "d"(a[2]), "r"(r10),
                     "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return rc;
}

static void protect(char *at, size_t bytes, int how)
{
    raw(SYS_mprotect, (long[6]){(long)at, (long)bytes, how});
}

/* One thread at a time opens and closes pages. */
static bool is_my_turn(void)
{
    return LOAD(trap.stepping) == (uint32_t)gettid();
}

static void take_turn(void)
{
    uint32_t me = (uint32_t)gettid(), nobody = 0;

    if (is_my_turn())
        return;
    while (!__atomic_compare_exchange_n(&trap.stepping, &nobody, me, false,
        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
        nobody = 0;
        sched_yield();
    }
}

/* In our turn, or another thread that is about to close its page would do so
   after this: and where that has liveness words, the process would be taken to
   live for ever. */
static void open_all(void)
{
    trap.armed = false;
    if (trap.base != NULL)
        protect(trap.base, trap.bytes, PROT_READ | PROT_WRITE);
}

/* --- death --- */

/* The barger gets the processor until it is done, or sleeps. */
static void let_barge(void)
{
    struct actor *b = &ctl->barger;
    int turns = BARGE_TURNS;

    actor_ask(b, TASK_BARGE, &b->want);
    while (turns-- > 0 && LOAD(b->answered) != LOAD(b->asked) &&
        LOAD(b->sleeps) == 0)
        sched_yield();
}

void trap_die(void)
{
    static uint32_t begun; /* by the first of two threads */

    if (ADD(begun, 1) != 0) {
        if (is_my_turn())
            STORE(trap.stepping, 0);
        for (;;)
            pause();
    }
    take_turn();
    open_all();
    if (trap.v->barge == BARGE_BEFORE)
        let_barge();
    STORE(trap.v->dying, 1);
    bell_ring(&ctl->bell);
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* --- stores --- */

static void give_up(uint64_t rip, const void *at)
{
    trap.v->trap.died = (struct spot){rip, (uint32_t)(uintptr_t)at};
    STORE(trap.v->crashed, 1);
    trap_die();
}

/* The offset of the first byte that changed, or 0 (the header's first bytes
   never do). */
static uint32_t changed_at(const struct opened *o)
{
    uint32_t i = 0;

    if (memcmp(o->before, o->page, PAGE) == 0)
        return 0;
    while (o->before[i] == o->page[i])
        i++;
    return (uint32_t)(o->page - trap.base) + i;
}

static void note_change(uint64_t rip, uint32_t at)
{
    struct trap_report *r = &trap.v->trap;
    const struct aim *aim = &trap.v->aim;

    if (r->changes < LOG_MAX && aim->kind == AIM_TRACE)
        r->log[r->changes] = (struct spot){rip, at};
    r->changes++;
    if (aim->kind == AIM_TRACE || r->changes != aim->nth_in_page)
        return;
    r->died = (struct spot){rip, at};
    trap_die();
}

static void close_page(const char *page)
{
    uint32_t number = (uint32_t)((page - trap.base) / PAGE);

    if (!trap.armed ||
        (trap.v->aim.kind == AIM_CHANGE && number != trap.v->aim.page))
        return;
    protect(trap.base + (size_t)number * PAGE, PAGE, PROT_READ);
}

/*
 * "rep stosb", as memset() clears more than 2 KiB with: the trap flag would
 * stop at each byte, for some seconds. Here it is done as the processor does
 * it, a byte after the other, as far as the page goes; each byte that changes
 * is a place to die.
 */
static bool is_rep_stosb(const ucontext_t *uc)
{
    // NOLINTNEXTLINE(performance-no-int-to-ptr)
    const unsigned char *code = (void *)uc->uc_mcontext.gregs[REG_RIP];

    return code[0] == 0xf3 && code[1] == 0xaa;
}

static void do_rep_stosb(ucontext_t *uc, char *at)
{
    greg_t *r = uc->uc_mcontext.gregs;
    char *page = at - (uintptr_t)at % PAGE, value = (char)r[REG_RAX];

    protect(page, PAGE, PROT_READ | PROT_WRITE);
    for (; r[REG_RCX] > 0 && at < page + PAGE; at++) {
        bool differs = *at != value;

        *(volatile char *)at = value;
        r[REG_RCX]--;
        r[REG_RDI]++;
        if (differs)
            note_change((uint64_t)r[REG_RIP], (uint32_t)(at - trap.base));
    }
    if (r[REG_RCX] == 0)
        r[REG_RIP] += 2;
    close_page(page);
    STORE(trap.stepping, 0);
}

static void open_page(ucontext_t *uc, char *at)
{
    struct opened *o;

    if (trap.n_opened == 2)
        give_up((uint64_t)uc->uc_mcontext.gregs[REG_RIP], at);
    o = &trap.opened[trap.n_opened++];
    o->page = at - (uintptr_t)at % PAGE;
    protect(o->page, PAGE, PROT_READ | PROT_WRITE);
    memcpy(o->before, o->page, PAGE);
    uc->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_fault(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    char *at = info->si_addr;

    (void)signal;
    if (trap.base == NULL || at < trap.base || at >= trap.base + trap.bytes)
        give_up((uint64_t)uc->uc_mcontext.gregs[REG_RIP], at);
    take_turn();
    if (trap.n_opened == 0 && is_rep_stosb(uc))
        do_rep_stosb(uc, at);
    else
        open_page(uc, at);
}

static void on_step(int signal, siginfo_t *info, void *context)
{
    ucontext_t *uc = context;
    uint32_t at = 0;

    (void)signal;
    (void)info;
    uc->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    if (!is_my_turn())
        return;
    for (unsigned i = 0; i < trap.n_opened; i++) {
        if (at == 0)
            at = changed_at(&trap.opened[i]);
        close_page(trap.opened[i].page);
    }
    trap.n_opened = 0;
    if (at != 0)
        note_change((uint64_t)uc->uc_mcontext.gregs[REG_RIP], at);
    STORE(trap.stepping, 0);
}

/* --- on and off --- */

static void close_all(void)
{
    const struct aim *aim = &trap.v->aim;
    size_t at = (size_t)aim->page * PAGE;

    if (trap.base == NULL || aim->kind == AIM_SYSCALL)
        return;
    if (aim->kind != AIM_CHANGE)
        protect(trap.base, trap.bytes, PROT_READ);
    else if (at < trap.bytes)
        protect(trap.base + at, PAGE, PROT_READ);
}

void trap_begin(struct victim *v)
{
    struct sigaction act = {.sa_flags = SA_SIGINFO | SA_NODEFER};

    trap.v = v;
    trap.base = NULL;
    act.sa_sigaction = on_fault;
    sigaction(SIGSEGV, &act, NULL);
    act.sa_sigaction = on_step;
    sigaction(SIGTRAP, &act, NULL);
}

void trap_arm(void)
{
    trap.armed = true;
    close_all();
}

void trap_disarm(void)
{
    take_turn();
    open_all();
    STORE(trap.stepping, 0);
}

void trap_count_sleeps(uint32_t *sleeps, struct bell *bell)
{
    trap.sleeps = sleeps;
    trap.told = bell;
}

/* --- what the library calls --- */

/* A system call has returned: one more place to die. */
static void note_syscall(void)
{
    struct victim *v = trap.v;

    if (v == NULL || !trap.armed)
        return;
    if (ADD(v->trap.syscalls, 1) + 1 != v->aim.n || v->aim.kind != AIM_SYSCALL)
        return;
    v->trap.died = (struct spot){(uintptr_t)__builtin_return_address(0), 0};
    trap_die();
}

static long result(long rc)
{
    if (rc >= -4095 && rc < 0) {
        errno = (int)-rc;
        return -1;
    }
    return rc;
}

static void note_sleep(void)
{
    ADD(*trap.sleeps, 1);
    if (trap.told != NULL)
        bell_ring(trap.told);
}

long syscall(long n, ...)
{
    long a[6], rc;
    va_list list;

    va_start(list, n);
    for (int i = 0; i < 6; i++)
        a[i] = va_arg(list, long);
    va_end(list);
    if (trap.sleeps != NULL && n == SYS_futex_waitv)
        note_sleep();
    rc = raw(n, a);
    note_syscall();
    return result(rc);
}

int fcntl(int fd, int command, ...)
{
    va_list list;
    long a[6] = {fd, command}, rc;

    va_start(list, command);
    a[2] = va_arg(list, long);
    va_end(list);
    rc = raw(SYS_fcntl, a);
    note_syscall();
    return (int)result(rc);
}

int posix_fallocate(int fd, off_t offset, off_t bytes)
{
    long rc = raw(SYS_fallocate, (long[6]){fd, 0, offset, bytes});

    note_syscall();
    return (int)-rc;
}

void *mmap(void *at, size_t bytes, int how, int flags, int fd, off_t offset)
{
    long rc =
        raw(SYS_mmap, (long[6]){(long)at, (long)bytes, how, flags, fd, offset});

    if (trap.v != NULL && rc > 0 && (flags & MAP_SHARED) && fd >= 0 &&
        bytes >= SEGMENT_LEAST) {
        trap.base = (char *)rc; // NOLINT(performance-no-int-to-ptr)
        trap.bytes = bytes;
        if (trap.armed)
            close_all();
    }
    note_syscall();
    return (void *)result(rc); // NOLINT(performance-no-int-to-ptr)
}

int munmap(void *at, size_t bytes)
{
    long rc;

    if (at == trap.base)
        trap.base = NULL;
    rc = raw(SYS_munmap, (long[6]){(long)at, (long)bytes});
    note_syscall();
    return (int)result(rc);
}

int pthread_sigmask(int how, const sigset_t *set, sigset_t *before)
{
    sigset_t ours;

    if (set != NULL) {
        ours = *set;
        sigdelset(&ours, SIGSEGV);
        sigdelset(&ours, SIGTRAP);
        set = &ours;
    }
    return sigprocmask(how, set, before) == 0 ? 0 : errno;
}
