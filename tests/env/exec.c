/*
 * exec.c - another program in the same process, and the programs that cases
 * exec (their roles).
 */
#include <fcntl.h>
#include <pthread.h>

#include "env.h"

/* --- roles --- */

static int lock_fine(const char *field)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, field, 2000, &g));
    enq_close(e);
    return 0;
}

static int lock_and_die(const char *field)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, field, 2000, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

static int finds_taken(const char *field)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_BUSY, env_take(e, field, 0, &g));
    enq_close(e);
    return 0;
}

static int open_refused(const char *nothing)
{
    struct enq *e = NULL;

    (void)nothing;
    want_why(ENQ_ENAMESPACE, enq_open(&e, NULL, NULL), "time namespace");
    return 0;
}

/* Lives on, with whatever descriptors it was given. */
static int stay(const char *ms)
{
    env_nap(strtod(ms, NULL));
    return 0;
}

const struct env_role family_roles[] = {
    {"lock-fine", lock_fine},
    {"lock-and-die", lock_and_die},
    {"finds-taken", finds_taken},
    {"open-refused", open_refused},
    {"stay", stay},
    {0},
};

/* --- exec ends the session --- */

struct stage {
    uint32_t ready;
    bool keep_descriptors;
    enum enq_death on_death;
    const char *role, *argument;
};

static void keep_open_over_exec(void)
{
    for (int fd = 3; fd < 40; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            fcntl(fd, F_SETFD, 0);
}

static struct enq *lock_a(const struct stage *s)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .on_death = s->on_death),
            &g));
    return e;
}

static int lock_and_exec(void *arg)
{
    struct stage *s = arg;

    lock_a(s);
    if (s->keep_descriptors)
        keep_open_over_exec();
    env_reach(&s->ready);
    env_exec(s->role, s->argument);
}

static struct stage *new_stage(const char *role, const char *argument)
{
    struct stage *s = env_shared(sizeof(*s));

    s->role = role;
    s->argument = argument;
    return s;
}

static void expect_freed_while_it_lives(struct stage *s)
{
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid = env_child(lock_and_exec, s);

    env_await(&s->ready);
    want(ENQ_OK, env_take(e, "a", 400, &g));
    must(waitpid(pid, NULL, WNOHANG) == 0);
    env_kill(pid);
    env_healthy(e);
}

static void P11_exec_ends_the_session_and_its_locks_while_the_process_lives(
    void)
{
    expect_freed_while_it_lives(new_stage("stay", "5000"));
}

static void P11_exec_ends_the_session_though_its_descriptors_are_kept_open(void)
{
    struct stage *s = new_stage("stay", "5000");

    s->keep_descriptors = true;
    expect_freed_while_it_lives(s);
}

static void P11_the_program_after_an_exec_finds_its_former_locks_free(void)
{
    env_join(env_child(lock_and_exec, new_stage("lock-fine", "a")));
}

static void P11_the_program_after_an_exec_finds_its_former_kept_locks_taken(
    void)
{
    struct stage *s = new_stage("finds-taken", "a");
    struct enq *e = env_open();
    struct enq_info info;
    size_t n;

    s->on_death = ENQ_DEATH_KEEP;
    env_join(env_child(lock_and_exec, s));
    want(ENQ_OK, enq_list(e, "env", NULL, &info, 1, &n));
    must(n == 1 && info.orphaned && info.pid == 0);
}

static int fail_to_exec(void *nothing)
{
    struct stage s = {0};
    struct enq *e = lock_a(&s);
    struct enq_info info;
    size_t n;

    (void)nothing;
    must(execl("/nowhere", "nowhere", (char *)NULL) != 0);
    want(ENQ_OK, enq_list(e, "env", NULL, &info, 1, &n));
    want(ENQ_OK, enq_valid(e, info.handle));
    must(!info.orphaned);
    enq_close(e);
    return 0;
}

static void P11_an_exec_that_fails_ends_nothing(void)
{
    env_join(env_child(fail_to_exec, NULL));
}

/* --- exec among threads --- */

static void *exec_in_thread(void *arg)
{
    struct stage *s = arg;

    env_reach(&s->ready);
    env_exec(s->role, s->argument);
}

static int exec_from_a_thread(void *arg)
{
    pthread_t thread;

    lock_a(arg);
    must(pthread_create(&thread, NULL, exec_in_thread, arg) == 0);
    pthread_join(thread, NULL);
    return 1;
}

/* The thread that execs takes over the pid of the main thread. */
static void P11_an_exec_by_another_thread_ends_the_session_too(void)
{
    for (int i = 0; i < 5; i++)
        env_join(env_child(exec_from_a_thread, new_stage("lock-fine", "a")));
}

static void *be_busy(void *e)
{
    struct enq_grant g;

    for (;;)
        if (env_take(e, "busy", 1000, &g) == ENQ_OK)
            enq_unlock(e, g.handle, g.token);
    return NULL;
}

static int exec_among_busy_threads(void *arg)
{
    struct enq *e = lock_a(arg);
    pthread_t threads[3];
    struct stage *s = arg;

    for (size_t i = 0; i < LENGTH(threads); i++)
        must(pthread_create(&threads[i], NULL, be_busy, e) == 0);
    env_nap(3);
    env_exec(s->role, s->argument);
}

static void P11_an_exec_while_other_threads_are_inside_harms_nobody(void)
{
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid;

    for (int i = 0; i < 15; i++) {
        pid = env_child(exec_among_busy_threads,
            new_stage(i % 2 ? "lock-fine" : "lock-and-die", "busy"));
        if (i % 2)
            env_join(pid);
        else
            env_killed(pid);
        want(ENQ_OK, env_take(e, "busy", 2000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
}

const struct env_case exec_cases[] = {
    CASE(P11_exec_ends_the_session_and_its_locks_while_the_process_lives),
    CASE(P11_exec_ends_the_session_though_its_descriptors_are_kept_open),
    CASE(P11_the_program_after_an_exec_finds_its_former_locks_free),
    CASE(P11_the_program_after_an_exec_finds_its_former_kept_locks_taken),
    CASE(P11_an_exec_that_fails_ends_nothing),
    CASE(P11_an_exec_by_another_thread_ends_the_session_too),
    CASE(P11_an_exec_while_other_threads_are_inside_harms_nobody),
    {0},
};
