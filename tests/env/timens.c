/*
 * timens.c - time namespaces: a process of another clock is refused, and told.
 *
 * To a process a suspend looks like a boottime offset, too.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>

#include "env.h"

static void write_offset(const char *offset)
{
    int fd;

    must(unshare(CLONE_NEWTIME) == 0);
    fd = open("/proc/self/timens_offsets", O_WRONLY);
    must(fd >= 0);
    must(write(fd, offset, strlen(offset)) == (ssize_t)strlen(offset));
    close(fd);
}

static int open_refused(void *nothing)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct enq *e = NULL;

    (void)nothing;
    want_why(ENQ_ENAMESPACE, enq_open(&e, env_space(), NULL), "time namespace");
    want(ENQ_ENAMESPACE, enq_open(&e, env_space(), &look));
    must(e == NULL);
    return 0;
}

static int enter_and_fork(void *offset)
{
    write_offset(offset);
    env_join(env_child(open_refused, NULL));
    return 0;
}

static void a_child_with_another_clock_is_refused(void)
{
    static char later[] = "boottime 3600 0", other[] = "monotonic 77 0";
    struct enq *e = env_open();

    env_join(env_child(enter_and_fork, later));
    env_join(env_child(enter_and_fork, other));
    env_healthy(e);
}

static int enter_and_exec(void *role)
{
    write_offset("boottime 100 0");
    env_exec(role, "");
}

static void a_program_that_is_execed_into_another_clock_is_refused(void)
{
    static char role[] = "open-refused";
    struct enq *e = env_open();

    env_join(env_child(enter_and_exec, role));
    env_healthy(e);
}

/* --- setns --- */

struct inhabitant {
    uint32_t there, leave;
    pid_t pid;
};

static int live_there(void *arg)
{
    struct inhabitant *i = arg;

    i->pid = getpid();
    env_reach(&i->there);
    env_await(&i->leave);
    return 0;
}

static int settle(void *arg)
{
    write_offset("boottime 100 0");
    env_join(env_child(live_there, arg));
    return 0;
}

static int time_of(pid_t pid)
{
    char path[64];
    int fd;

    snprintf(path, sizeof(path), "/proc/%d/ns/time", (int)pid);
    fd = open(path, O_RDONLY | O_CLOEXEC);
    must(fd >= 0);
    return fd;
}

static int move_and_open(void *arg)
{
    struct inhabitant *i = arg;

    must(setns(time_of(i->pid), CLONE_NEWTIME) == 0);
    return open_refused(NULL);
}

static int attach_and_move(void *arg)
{
    struct inhabitant *i = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 0, &g));
    /* the kernel moves no process of several threads, and one is ours */
    must(setns(time_of(i->pid), CLONE_NEWTIME) != 0 && errno == EUSERS);
    want(ENQ_OK, enq_valid(e, g.handle));
    return 0;
}

static void who_moves_to_another_clock_is_refused_and_who_is_attached_cannot(
    void)
{
    struct inhabitant *i = env_shared(sizeof(*i));
    struct enq *e = env_open();
    pid_t pid = env_child(settle, i);

    env_await(&i->there);
    env_join(env_child(move_and_open, i));
    env_join(env_child(attach_and_move, i));
    env_reach(&i->leave);
    env_join(pid);
    env_healthy(e);
}

/* --- clone3 --- */

static int open_fine(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    enq_close(e);
    return 0;
}

/* What glibc's fork() does beside the system call, vfork and exec make up
   for: only a program of its own may use the library in such a child. */
static void a_clone_into_a_namespace_of_the_same_clock_is_accepted(void)
{
    struct {
        uint64_t flags, more[10];
    } args = {.flags = CLONE_NEWTIME};
    struct enq *e = env_open();
    pid_t pid;

    args.more[3] = SIGCHLD;
    pid = (pid_t)syscall(SYS_clone3, &args, 88);
    must(pid >= 0);
    if (pid == 0)
        env_exec("lock-fine", "a");
    env_join(pid);
    env_healthy(e);
}

static int unshare_and_open(void *nothing)
{
    (void)nothing;
    must(unshare(CLONE_NEWTIME) == 0);
    env_join(env_child(open_fine, NULL));
    return 0;
}

static void a_namespace_whose_clock_is_the_same_is_accepted(void)
{
    struct enq *e = env_open();

    env_join(env_child(unshare_and_open, NULL));
    env_healthy(e);
}

/* --- a process that is not where its children will be --- */

static int attach_unshare_go_on(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g, other;

    (void)nothing;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "a", .ttl_ms = 60000),
            &g));
    write_offset("boottime 100 0");
    env_nap(20);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_BUSY, env_take(e, "a", 0, &other));
    must(other.blocker.ttl_left_ms > 50000);
    env_join(env_child(open_refused, NULL));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void an_attached_process_keeps_its_clock_when_it_unshares(void)
{
    env_join(env_child(attach_unshare_go_on, NULL));
}

/* Whatever the answer, two that are in have one clock. */
static int child_of_another_clock(void *nothing)
{
    struct enq *e = NULL;
    struct enq_grant g;

    (void)nothing;
    env_nap(30);
    if (enq_open(&e, env_other_space(), NULL) != ENQ_OK)
        return 0;
    return env_take(e, "a", 0, &g) == ENQ_BUSY ? 0 : 1;
}

static int make_between_clocks(void *nothing)
{
    struct enq *attached = env_open(), *e = NULL;
    struct enq_grant g;

    (void)nothing;
    (void)attached; /* its helper runs: no thread can be made from now */
    write_offset("boottime 100 0");
    if (enq_open(&e, env_other_space(), NULL) != ENQ_OK)
        return 0;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "holder", .ttl_ms = 60000),
            &g));
    env_join(env_child(child_of_another_clock, NULL));
    return 0;
}

static void who_makes_a_space_between_two_clocks_lets_no_other_clock_in(void)
{
    env_join(env_child(make_between_clocks, NULL));
}

static void *open_when_alone(void *nothing)
{
    env_nap(50);
    open_refused(nothing);
    _exit(0);
}

static int leave_a_thread_behind(void *nothing)
{
    pthread_t thread;

    must(pthread_create(&thread, NULL, open_when_alone, nothing) == 0);
    pthread_exit(NULL);
}

static int enter_without_leader(void *nothing)
{
    write_offset("boottime 100 0");
    env_join(env_child(leave_a_thread_behind, nothing));
    return 0;
}

static void a_process_without_its_main_thread_is_judged_by_its_own_clock(void)
{
    struct enq *e = env_open();

    env_join(env_child(enter_without_leader, NULL));
    env_healthy(e);
}

const struct env_case timens_cases[] = {
    CASE(a_child_with_another_clock_is_refused),
    CASE(a_program_that_is_execed_into_another_clock_is_refused),
    CASE(who_moves_to_another_clock_is_refused_and_who_is_attached_cannot),
    CASE(a_clone_into_a_namespace_of_the_same_clock_is_accepted),
    CASE(a_namespace_whose_clock_is_the_same_is_accepted),
    CASE(an_attached_process_keeps_its_clock_when_it_unshares),
    CASE(who_makes_a_space_between_two_clocks_lets_no_other_clock_in),
    CASE(a_process_without_its_main_thread_is_judged_by_its_own_clock),
    {0},
};
