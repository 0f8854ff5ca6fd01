/*
 * pid.c - a pid comes again: a process with a dead one's numbers is another.
 *
 * Each case is played in a PID namespace of its own, where the next pid can be
 * chosen. The next after a killed process has its pid, and its threads have
 * the ids that the dead one's had: the helper's, and the application's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>

#include "env.h"

#define ROUNDS 30

struct life {
    uint32_t ready, go;
    pid_t pid;
    enum enq_death on_death;
    const char *point;
    uint64_t token;
    enq_handle handle;
};

/* --- numbers --- */

static void next_pid_is(pid_t pid)
{
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY);

    must(fd >= 0);
    must(dprintf(fd, "%d", (int)pid - 1) > 0);
    close(fd);
}

/* The first thread that a process makes is the one after it. */
static pid_t helper_tid(pid_t pid)
{
    return pid + 1;
}

static void note_numbers(struct life *l)
{
    l->pid = getpid();
    must(gettid() == l->pid);
    must(syscall(SYS_tgkill, l->pid, helper_tid(l->pid), 0) == 0);
}

static pid_t begin_as(pid_t pid, int (*f)(void *), struct life *l)
{
    pid_t got;

    l->ready = l->go = 0;
    next_pid_is(pid);
    got = env_child(f, l);
    must(got == pid);
    return got;
}

/* The frame of each: first of a namespace, alone in it with its children. */
static void in_own_pids(int (*f)(void *))
{
    env_join(env_child_in_pidns(f, NULL));
}

#define PID 77

/* --- sessions --- */

static int hold(void *arg)
{
    struct life *l = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    note_numbers(l);
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "first", .ttl_ms = ENQ_FOREVER,
                .on_death = l->on_death, .wait_ms = 5000),
            &g));
    l->token = g.token;
    l->handle = g.handle;
    env_reach(&l->ready);
    for (;;)
        pause();
    return 0;
}

/* The successor: attached, with the dead one's numbers. */
static int succeed(void *arg)
{
    struct life *l = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    note_numbers(l);
    want(ENQ_OK, env_take(e, "b", 0, &g));
    env_reach(&l->ready);
    env_await(&l->go);
    enq_close(e);
    return 0;
}

static pid_t kill_and_succeed(struct life *l, pid_t *first)
{
    pid_t second;

    *first = begin_as(PID, hold, l);
    env_await(&l->ready);
    env_kill(*first);
    second = begin_as(PID, succeed, l);
    env_await(&l->ready);
    return second;
}

static int release_locks_end(void *nothing)
{
    struct life *l = env_shared(sizeof(*l));
    struct enq *e = env_open();
    pid_t first, second;
    struct enq_grant g;

    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        second = kill_and_succeed(l, &first);
        must(first == second);
        want(ENQ_OK, env_take(e, "a", 2000, &g));
        must(g.token > l->token);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        env_reach(&l->go);
        env_join(second);
    }
    env_healthy(e);
    return 0;
}

static void the_locks_of_a_dead_process_end_though_its_pid_lives_again(void)
{
    in_own_pids(release_locks_end);
}

static int keep_locks_are_orphans(void *nothing)
{
    struct life *l = env_shared(sizeof(*l));
    struct enq *e = env_open();
    pid_t first, second;
    struct enq_info info;
    struct enq_grant g;
    size_t n;

    (void)nothing;
    l->on_death = ENQ_DEATH_KEEP;
    second = kill_and_succeed(l, &first);
    want(ENQ_BUSY, env_take(e, "a", 0, &g));
    must(g.blocker.pid == 0);
    want(ENQ_OK, enq_list(e, NULL, "first", &info, 1, &n));
    must(n == 1 && info.orphaned && info.pid == 0);
    want(ENQ_OK, enq_adopt(e, info.id, &g));
    must(g.token > l->token);
    env_reach(&l->go);
    env_join(second);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    env_healthy(e);
    return 0;
}

static void a_kept_lock_is_an_orphan_though_its_pid_lives_again(void)
{
    in_own_pids(keep_locks_are_orphans);
}

static int living_one_is_not_adopted(void *nothing)
{
    struct life *l = env_shared(2 * sizeof(*l));
    struct enq *e = env_open();
    char id[ENQ_ID_BYTES];
    struct enq_grant g;
    pid_t first = begin_as(PID, hold, l), second;

    (void)nothing;
    env_await(&l->ready);
    second = begin_as(PID + 100, succeed, l + 1);
    env_await(&l[1].ready);
    env_reach(&l[1].go);
    env_join(second);
    want(ENQ_OK, enq_id(e, l->handle, id));
    want(ENQ_REFUSED, enq_adopt(e, id, &g));
    env_kill(first);
    return 0;
}

static void the_death_of_one_does_not_orphan_anothers_locks(void)
{
    in_own_pids(living_one_is_not_adopted);
}

/* --- waiting requests --- */

static int wait_for_a(void *arg)
{
    struct life *l = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    note_numbers(l);
    env_reach(&l->ready);
    enq_lock(e,
        ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
            .owner = "dead waiter", .wait_ms = ENQ_FOREVER),
        &g);
    return 1;
}

static int dead_waiters_leave(void *nothing)
{
    struct life *l = env_shared(sizeof(*l));
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid;

    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        want(ENQ_OK, env_take(e, "a", 2000, &g));
        pid = begin_as(PID, wait_for_a, l);
        eventually(env_stat(e).waiting == 1);
        env_kill(pid);
        pid = begin_as(PID, succeed, l);
        env_await(&l->ready);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        want(ENQ_OK, env_take(e, "a", 2000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        env_reach(&l->go);
        env_join(pid);
    }
    eventually(env_stat(e).waiting == 0);
    env_healthy(e);
    return 0;
}

static void a_dead_waiter_leaves_the_queue_though_its_pid_lives_again(void)
{
    in_own_pids(dead_waiters_leave);
}

/* --- latchs, and thread slots --- */

static int die_inside(void *arg)
{
    struct life *l = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    note_numbers(l);
    env_at_point(l->point, SIGKILL);
    if (env_take(e, "a", 2000, &g) == ENQ_OK)
        enq_unlock(e, g.handle, g.token);
    return 1;
}

/* The word names the dead one's slot and generation. With its very pid and
   thread id, the successor finds a word that is not its own. */
static int take_what_the_dead_held(void *arg)
{
    struct life *l = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    note_numbers(l);
    want(ENQ_OK, env_take(e, "a", 2000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    env_healthy(e);
    enq_close(e);
    return 0;
}

static const char *const inside[] = {"lock.latched", "lock.linked",
    "lock.granted", "unlock.unlinked", "grant.before_wake"};

static int latches_are_recovered(void *nothing)
{
    struct life *l = env_shared(sizeof(*l));

    (void)nothing;
    for (size_t i = 0; i < 4 * LENGTH(inside); i++) {
        l->point = inside[i % LENGTH(inside)];
        env_killed(begin_as(PID, die_inside, l));
        env_join(begin_as(PID, take_what_the_dead_held, l));
    }
    return 0;
}

static void a_dead_threads_latches_are_recovered_by_one_with_its_very_numbers(
    void)
{
    in_own_pids(latches_are_recovered);
}

static int no_slot_is_left(void *nothing)
{
    struct life *l = env_shared(sizeof(*l));
    struct enq *e = env_open();
    pid_t first, second;

    (void)nothing;
    for (int i = 0; i < ROUNDS; i++) {
        second = kill_and_succeed(l, &first);
        env_reach(&l->go);
        env_join(second);
    }
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    return 0;
}

static void dead_threads_slots_are_free_again_though_their_ids_live_again(void)
{
    in_own_pids(no_slot_is_left);
}

/* --- an id chosen by the kernel's own call --- */

static pid_t clone_as(pid_t pid)
{
    struct {
        uint64_t flags, pidfd, child_tid, parent_tid, exit_signal, stack,
            stack_size, tls, set_tid, set_tid_size;
    } args = {
        .exit_signal = SIGCHLD, .set_tid = (uintptr_t)&pid, .set_tid_size = 1};

    return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
}

static int set_tid_again(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid;

    (void)nothing;
    for (int i = 0; i < 10; i++) {
        pid = clone_as(500);
        must(pid >= 0);
        if (pid == 0)
            env_exec(i % 2 == 0 ? "lock-and-die" : "lock-fine", "a");
        must(pid == 500);
        if (i % 2 == 0)
            env_killed(pid);
        else
            env_join(pid);
    }
    want(ENQ_OK, env_take(e, "a", 2000, &g));
    env_healthy(e);
    return 0;
}

static void programs_that_are_given_a_dead_ones_pid_are_not_taken_for_it(void)
{
    in_own_pids(set_tid_again);
}

const struct env_case pid_cases[] = {
    CASE(the_locks_of_a_dead_process_end_though_its_pid_lives_again),
    CASE(a_kept_lock_is_an_orphan_though_its_pid_lives_again),
    CASE(the_death_of_one_does_not_orphan_anothers_locks),
    CASE(a_dead_waiter_leaves_the_queue_though_its_pid_lives_again),
    CASE(a_dead_threads_latches_are_recovered_by_one_with_its_very_numbers),
    CASE(dead_threads_slots_are_free_again_though_their_ids_live_again),
    CASE(programs_that_are_given_a_dead_ones_pid_are_not_taken_for_it),
    {0},
};
