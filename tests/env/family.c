/*
 * family.c - children of every kind: fork, vfork, clone, posix_spawn, daemon.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "env.h"

struct parent {
    struct enq *e;
    struct enq_grant g;
};

static struct parent *with_lock(void)
{
    static struct parent p;

    p.e = env_open();
    want(ENQ_OK, env_take(p.e, "a", 0, &p.g));
    return &p;
}

/* The parent's lock is as it was, and goes when the parent says so. */
static void expect_untouched(struct parent *p)
{
    want(ENQ_OK, enq_valid(p->e, p->g.handle));
    must(env_stat(p->e).held == 1);
    want(ENQ_OK, enq_unlock(p->e, p->g.handle, p->g.token));
    env_healthy(p->e);
    enq_close(p->e);
}

static int use_own(void *arg)
{
    struct parent *p = arg;
    struct enq *own;
    struct enq_grant g;

    want(ENQ_EFORKED, enq_valid(p->e, p->g.handle));
    own = env_open();
    want(ENQ_BUSY, env_take(own, "a", 0, &g));
    want(ENQ_OK, env_take(own, "child", 1000, &g));
    enq_close(own);
    enq_close(p->e);
    return 0;
}

/* --- fork --- */

static int use_and_exit(void *arg)
{
    use_own(arg);
    exit(0); /* with all that atexit() knows of */
}

static int use_and_crash(void *arg)
{
    use_own(arg);
    env_open();
    kill(getpid(), SIGKILL);
    return 1;
}

static void
P11_children_that_exit_return_or_crash_do_not_touch_the_parents_locks(void)
{
    struct parent *p = with_lock();

    for (int i = 0; i < 5; i++) {
        env_join(env_child(use_own, p));
        env_join(env_child(use_and_exit, p));
        env_killed(env_child(use_and_crash, p));
    }
    expect_untouched(p);
}

static int fork_twice(void *arg)
{
    struct parent *p = arg;

    if (fork() == 0) {
        use_own(p);
        _exit(0);
    }
    return 0;
}

static void P11_a_double_fork_leaves_a_grandchild_that_opens_its_own(void)
{
    struct parent *p = with_lock();

    for (int i = 0; i < 5; i++)
        env_join(env_child(fork_twice, p));
    while (waitpid(-1, NULL, 0) > 0)
        continue;
    must(errno == ECHILD);
    expect_untouched(p);
}

static int close_everything(void *arg)
{
    struct parent *p = arg;

    close_range(3, ~0u, 0);
    return enq_valid(p->e, p->g.handle) == ENQ_EFORKED ? 0 : 1;
}

static void P11_a_child_that_closes_every_descriptor_harms_nobody(void)
{
    struct parent *p = with_lock();
    struct enq_grant g;

    env_join(env_child(close_everything, p));
    want(ENQ_OK, env_take(p->e, "b", 0, &g));
    want(ENQ_OK, enq_unlock(p->e, g.handle, g.token));
    expect_untouched(p);
}

/* --- daemon(3) --- */

struct service {
    uint32_t ready, stop, refused;
    pid_t pid;
};

static int become_daemon(void *arg)
{
    struct service *s = arg;
    struct parent *p = with_lock();
    struct enq_grant g;
    struct enq *own;

    must(daemon(1, 1) == 0);
    if (enq_valid(p->e, p->g.handle) == ENQ_EFORKED)
        env_reach(&s->refused);
    own = env_open();
    want(ENQ_OK, env_take(own, "a", 2000, &g)); /* the parent's has ended */
    s->pid = getpid();
    env_reach(&s->ready);
    env_await(&s->stop);
    enq_close(own);
    return 0;
}

static void P11_a_daemon_has_lost_its_attachment_and_locks_and_opens_anew(void)
{
    struct service *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;

    env_join(env_child(become_daemon, s));
    eventually(env_reached(&s->ready));
    must(env_reached(&s->refused));
    want(ENQ_BUSY, env_take(e, "a", 0, &g));
    must(g.blocker.pid == s->pid);
    env_reach(&s->stop);
    want(ENQ_OK, env_take(e, "a", 5000, &g));
    env_healthy(e);
}

/* --- vfork, posix_spawn, system, popen --- */

static void P11_a_vforked_child_that_execs_harms_nothing(void)
{
    struct parent *p = with_lock();
    pid_t pid;

    for (int i = 0; i < 20; i++) {
        pid = vfork();
        if (pid == 0) {
            execl("/bin/true", "true", (char *)NULL);
            _exit(126);
        }
        env_join(pid);
    }
    expect_untouched(p);
}

static void P11_a_vforked_child_that_cannot_exec_harms_nothing(void)
{
    struct parent *p = with_lock();
    pid_t pid = vfork();

    if (pid == 0) {
        execl("/nowhere", "nowhere", (char *)NULL);
        _exit(0);
    }
    env_join(pid);
    expect_untouched(p);
}

static void P11_spawned_programs_live_beside_us_in_the_same_space(void)
{
    struct parent *p = with_lock();
    char *free_one[] = {"env-run", "--role", "lock-fine", "b", NULL},
         *taken[] = {"env-run", "--role", "finds-taken", "a", NULL};
    char space[160];
    char *env[] = {space, NULL};
    pid_t pid;

    snprintf(space, sizeof(space), "ENQ_SPACE=%s", env_space());
    for (int i = 0; i < 10; i++) {
        must(posix_spawn(&pid, "/proc/self/exe", NULL, NULL,
                 i % 2 ? free_one : taken, env) == 0);
        env_join(pid);
    }
    expect_untouched(p);
}

static void P11_system_and_popen_harm_nothing(void)
{
    struct parent *p = with_lock();
    char word[16] = "";
    FILE *f;

    for (int i = 0; i < 5; i++) {
        must(system("true") == 0);
        f = popen("echo word", "r");
        must(f != NULL && fscanf(f, "%15s", word) == 1);
        must(pclose(f) == 0 && strcmp(word, "word") == 0);
    }
    expect_untouched(p);
}

/* --- bare clone: the C library does not know of it --- */

/* Forked by hand, glibc takes the child's main thread for the parent's. An
   attachment opened there is refused, at the latest where that thread would
   come into the words of the segment. */
static int child_of_bare_clone(struct parent *p)
{
    struct enq *own = NULL;
    struct enq_grant g;
    int rc;

    if (enq_valid(p->e, p->g.handle) != ENQ_EFORKED)
        return 1;
    rc = enq_open(&own, env_space(), NULL);
    if (rc == ENQ_OK)
        rc = env_take(own, "b", 100, &g);
    if (rc >= 0)
        return 2;
    if (strstr(enq_why(), "clone") == NULL)
        return 3;
    enq_close(own);
    return 0;
}

static void P11_a_child_of_a_bare_clone_is_refused_with_a_word_about_it(void)
{
    struct parent *p = with_lock();
    pid_t pid;

    for (int i = 0; i < 5; i++) {
        pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
        if (pid == 0)
            _exit(child_of_bare_clone(p));
        env_join(pid);
    }
    expect_untouched(p);
}

static void P11_a_child_of_a_bare_clone3_is_refused_with_a_word_about_it(void)
{
    struct parent *p = with_lock();
    uint64_t args[11] = {[4] = SIGCHLD};
    pid_t pid = (pid_t)syscall(SYS_clone3, args, sizeof(args));

    if (pid == 0)
        _exit(child_of_bare_clone(p));
    env_join(pid);
    expect_untouched(p);
}

static void P11_a_child_of_a_bare_clone_may_exec(void)
{
    struct parent *p = with_lock();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0)
        env_exec("lock-fine", "b");
    env_join(pid);
    expect_untouched(p);
}

static int exec_at_once(void *nothing)
{
    (void)nothing;
    execl("/bin/true", "true", (char *)NULL);
    return 126;
}

static void P11_a_child_that_shares_our_memory_may_exec(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    struct parent *p = with_lock();

    for (int i = 0; i < 5; i++)
        env_join(clone(exec_at_once, stack + sizeof(stack),
            CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
    expect_untouched(p);
}

static int die_at_once(void *nothing)
{
    (void)nothing;
    kill((pid_t)syscall(SYS_getpid), SIGKILL);
    return 126;
}

static void P11_a_child_that_shares_our_memory_may_be_killed(void)
{
    static char stack[1 << 16] __attribute__((aligned(16)));
    struct parent *p = with_lock();

    for (int i = 0; i < 5; i++)
        env_killed(clone(die_at_once, stack + sizeof(stack),
            CLONE_VM | CLONE_VFORK | SIGCHLD, NULL));
    expect_untouched(p);
}

/* --- fork while this process waits --- */

static void *wait_for_b(void *arg)
{
    struct parent *p = arg;
    struct enq_grant g;
    int rc = env_take(p->e, "b", 10000, &g);

    return rc == ENQ_OK ? NULL : p;
}

static void P11_forking_while_a_thread_waits_forks_no_waiter(void)
{
    struct parent *p = with_lock();
    struct enq_grant b;
    struct enq *other = env_open();
    pthread_t thread;
    void *failed;

    want(ENQ_OK, env_take(other, "b", 0, &b));
    pthread_create(&thread, NULL, wait_for_b, p);
    eventually(env_stat(p->e).waiting == 1);
    for (int i = 0; i < 5; i++)
        env_join(env_child(use_own, p));
    must(env_stat(p->e).waiting == 1);
    want(ENQ_OK, enq_unlock(other, b.handle, b.token));
    pthread_join(thread, &failed);
    must(failed == NULL);
    enq_close(other);
    enq_close(p->e);
}

const struct env_case family_cases[] = {
    CASE(P11_children_that_exit_return_or_crash_do_not_touch_the_parents_locks),
    CASE(P11_a_double_fork_leaves_a_grandchild_that_opens_its_own),
    CASE(P11_a_child_that_closes_every_descriptor_harms_nobody),
    CASE(P11_a_daemon_has_lost_its_attachment_and_locks_and_opens_anew),
    CASE(P11_a_vforked_child_that_execs_harms_nothing),
    CASE(P11_a_vforked_child_that_cannot_exec_harms_nothing),
    CASE(P11_spawned_programs_live_beside_us_in_the_same_space),
    CASE(P11_system_and_popen_harm_nothing),
    CASE(P11_a_child_of_a_bare_clone_is_refused_with_a_word_about_it),
    CASE(P11_a_child_of_a_bare_clone3_is_refused_with_a_word_about_it),
    CASE(P11_a_child_of_a_bare_clone_may_exec),
    CASE(P11_a_child_that_shares_our_memory_may_exec),
    CASE(P11_a_child_that_shares_our_memory_may_be_killed),
    CASE(P11_forking_while_a_thread_waits_forks_no_waiter),
    {0},
};
