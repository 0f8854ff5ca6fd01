/*
 * filter.c - system calls that a seccomp filter refuses.
 *
 * The filters here answer one call with an error, as containers' do. A filter
 * that is to concern the C library's own start is installed before an exec.
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <math.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "env.h"
#include "starved.h"

static void refuse(long number, int error)
{
    struct sock_filter program[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {LENGTH(program), program};

    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0);
}

/* --- set_robust_list: without it nobody notices a death --- */

static int noticed_at_open(const char *nothing)
{
    struct enq *e = NULL;

    (void)nothing;
    must(enq_open(&e, env_space(), NULL) < 0);
    must(e == NULL);
    must(strstr(enq_why(), "set_robust_list") != NULL);
    return 0;
}

static int refused_before_exec(void *error)
{
    refuse(SYS_set_robust_list, *(int *)error);
    env_exec("noticed-at-open", "");
}

static int both_refused_before_exec(void *error)
{
    refuse(SYS_set_robust_list, *(int *)error);
    refuse(SYS_get_robust_list, *(int *)error);
    env_exec("noticed-at-open", "");
}

static void noticed(int error, int (*f)(void *))
{
    struct enq *e = env_open();
    struct enq_grant g;

    env_join(env_child(f, &error));
    want(ENQ_OK, env_take(e, "a", 500, &g));
    must(env_stat(e).sessions == 1 && env_stat(e).held == 1);
    env_healthy(e);
}

static void set_robust_list_refused_with_EPERM_is_noticed_at_attach(void)
{
    noticed(EPERM, refused_before_exec);
}

static void set_robust_list_refused_with_ENOSYS_is_noticed_at_attach(void)
{
    noticed(ENOSYS, refused_before_exec);
}

static void set_robust_list_refused_is_noticed_though_get_is_refused_too(void)
{
    noticed(EPERM, both_refused_before_exec);
}

/* The main thread was in time; the helper thread comes after the filter. */
static int refused_before_threads(void *error)
{
    refuse(SYS_set_robust_list, *(int *)error);
    return noticed_at_open("");
}

static void set_robust_list_refused_after_main_began_is_noticed_too(void)
{
    noticed(EPERM, refused_before_threads);
}

static void *lock_in_thread(void *e)
{
    struct enq_grant g;

    must(env_take(e, "a", 0, &g) < 0);
    must(strstr(enq_why(), "set_robust_list") != NULL);
    return NULL;
}

static int refused_for_a_later_thread(void *error)
{
    struct enq *e = env_open();
    struct enq_grant g;
    pthread_t thread;

    refuse(SYS_set_robust_list, *(int *)error);
    must(pthread_create(&thread, NULL, lock_in_thread, e) == 0);
    pthread_join(thread, NULL);
    /* attachments from before are not concerned */
    want(ENQ_OK, env_take(e, "a", 0, &g));
    enq_close(e);
    return 0;
}

static void a_thread_without_a_robust_list_gets_an_error_and_others_go_on(void)
{
    noticed(EPERM, refused_for_a_later_thread);
}

static int die_with_lock(const char *field)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, field, 2000, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

static int get_refused_and_die(void *error)
{
    refuse(SYS_get_robust_list, *(int *)error);
    env_exec("die-with-lock", "a");
}

static void get_robust_list_refused_alone_harms_nothing(void)
{
    int error = EPERM;
    struct enq *e = env_open();
    struct enq_grant g;

    env_killed(env_child(get_refused_and_die, &error));
    want(ENQ_OK, env_take(e, "a", 200, &g));
    env_healthy(e);
}

/* --- futex_waitv: there is another way --- */

struct relay {
    uint32_t ready, has;
    int error;
    double at_ms, starved_ms; /* the waiter's */
    enum { RELEASED, KILLED, RUN_OUT, KILLED_INSIDE } how;
};

static int wait_with_filter(void *arg)
{
    struct relay *r = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    refuse(SYS_futex_waitv, r->error);
    env_reach(&r->ready);
    want(ENQ_OK, env_take(e, "a", 10000, &g));
    r->at_ms = env_ms();
    r->starved_ms = (double)test_starved_ms();
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static int hold_in_filter(void *arg)
{
    struct relay *r = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .ttl_ms = r->how == RUN_OUT ? 60 : ENQ_FOREVER),
            &g));
    env_reach(&r->has);
    for (;;)
        pause();
    return 0;
}

static double hand_over(struct enq *e, struct relay *r)
{
    struct enq_grant g;
    double released;
    pid_t waiter, holder = 0;

    r->ready = r->has = 0;
    if (r->how == RELEASED) {
        want(ENQ_OK, env_take(e, "a", 1000, &g));
    } else {
        holder = env_child(hold_in_filter, r);
        env_await(&r->has);
    }
    released = env_ms() + (r->how == RUN_OUT ? 60 : 0);
    waiter = env_child(wait_with_filter, r);
    env_await(&r->ready);
    if (r->how != RUN_OUT) {
        eventually(env_stat(e).waiting == 1);
        env_nap(8);
        released = env_ms();
    }
    if (r->how == RELEASED)
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    else if (r->how == KILLED)
        env_kill(holder);
    env_join(waiter);
    if (r->how == RUN_OUT)
        env_kill(holder);
    return r->at_ms - released - r->starved_ms;
}

static void without_waitv(int error, int how, double most_ms)
{
    struct relay *r = env_shared(sizeof(*r));
    struct enq *e = env_open();
    double late = 0, one;

    r->error = error;
    r->how = how;
    env_lag_begin();
    for (int i = 0; i < 12; i++) {
        one = hand_over(e, r);
        late = one > late ? one : late;
    }
    one = env_lag_end_ms();
    if (late > most_ms + one)
        env_fail(__FILE__, __LINE__, "%.1f ms, of %.0f (and %.1f of this box)",
            late, most_ms, one);
    env_healthy(e);
}

static void P3_without_futex_waitv_EPERM_a_release_is_heard_within_50_ms(void)
{
    without_waitv(EPERM, RELEASED, 50);
}

static void P3_without_futex_waitv_ENOSYS_a_release_is_heard_within_50_ms(void)
{
    without_waitv(ENOSYS, RELEASED, 50);
}

static void P3_without_futex_waitv_EPERM_a_death_is_heard_within_50_ms(void)
{
    without_waitv(EPERM, KILLED, 50);
}

static void P3_without_futex_waitv_ENOSYS_a_death_is_heard_within_50_ms(void)
{
    without_waitv(ENOSYS, KILLED, 50);
}

static void P7_without_futex_waitv_a_ttl_is_at_most_20_ms_late(void)
{
    without_waitv(EPERM, RUN_OUT, 20);
}

/* Words are looked at in slices of 20 ms then. The least of several: what this
   machine has to do besides comes to some of them. */
static int wait_for_less_than_a_slice(void *error)
{
    struct enq *e = env_open();
    struct enq_grant held, g;
    double least = INFINITY;

    refuse(SYS_futex_waitv, *(int *)error);
    want(ENQ_OK, env_take(e, "a", 0, &held));
    for (int i = 0; i < 20; i++) {
        double begun = env_ms();

        want(ENQ_TIMEDOUT,
            enq_lock(e,
                ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                    .owner = "another", .wait_ms = 3),
                &g));
        least = fmin(least, env_ms() - begun);
    }
    if (least < 3 || least > 13)
        env_fail(__FILE__, __LINE__, "%.1f ms, of 3", least);
    return 0;
}

static void without_futex_waitv_a_wait_ends_with_its_time_within_a_slice(void)
{
    int error = ENOSYS;

    env_join(env_child(wait_for_less_than_a_slice, &error));
}

static int die_inside_a_latch(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    env_at_point("lock.linked", SIGKILL);
    env_take(e, "a", 0, &g);
    return 1;
}

static int recover_with_filter(void *error)
{
    struct enq *e = env_open();
    struct enq_grant g;

    refuse(SYS_futex_waitv, *(int *)error);
    for (int i = 0; i < 5; i++) {
        env_killed(env_child(die_inside_a_latch, NULL));
        want(ENQ_OK, env_take(e, "a", 1000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    env_healthy(e);
    return 0;
}

static void without_futex_waitv_a_dead_ones_latch_is_recovered(void)
{
    int errors[] = {EPERM, ENOSYS};

    for (size_t i = 0; i < LENGTH(errors); i++)
        env_join(env_child(recover_with_filter, &errors[i]));
}

/* --- futex: the C library itself cannot do without --- */

static int use_without_futex(void *error)
{
    struct enq *e = NULL;
    struct enq_grant g;

    close(2); /* the C library says why it ends us */
    refuse(SYS_futex, *(int *)error);
    alarm(3);
    if (enq_open(&e, env_space(), NULL) == ENQ_OK)
        env_take(e, "a", 50, &g);
    _exit(0);
}

/* It ends that process, or is an error; it harms nobody else. */
static void futex_refused_concerns_only_the_process_that_is_refused(void)
{
    int errors[] = {EPERM, ENOSYS}, status;
    struct enq *e = env_open();
    struct enq_grant g;

    for (size_t i = 0; i < LENGTH(errors); i++) {
        status = env_status(env_child(use_without_futex, &errors[i]));
        must(!WIFSIGNALED(status) || WTERMSIG(status) == SIGABRT ||
            WTERMSIG(status) == SIGALRM);
        want(ENQ_OK, env_take(e, "a", 500, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    env_healthy(e);
}

/* --- any other call that the library makes --- */

static const struct {
    const char *name;
    long number;
} calls[] = {
#define CALL(name)                                                             \
    {                                                                          \
#name, SYS_##name                                                      \
    }
    CALL(openat),
    CALL(newfstatat),
    CALL(fstat),
    CALL(pread64),
    CALL(read),
    CALL(mmap),
    CALL(munmap),
    CALL(madvise),
    CALL(fcntl),
    CALL(ftruncate),
    CALL(fallocate),
    CALL(fchmod),
    CALL(linkat),
    CALL(unlink),
    CALL(rename),
    CALL(renameat2),
    CALL(flock),
    CALL(clone3),
    CALL(clone),
    CALL(mprotect),
    CALL(rt_sigprocmask),
    CALL(prctl),
    CALL(getrandom),
    CALL(getpid),
    CALL(gettid),
    CALL(uname),
    CALL(geteuid),
    CALL(getrlimit),
    CALL(prlimit64),
    CALL(sched_yield),
    CALL(sched_getaffinity),
    CALL(sysinfo),
    CALL(readlink),
    CALL(clock_nanosleep),
    CALL(clock_gettime),
    CALL(socket),
    CALL(connect),
    CALL(close),
    CALL(lseek),
    CALL(futex_waitv),
    CALL(get_robust_list),
    CALL(statx),
    CALL(getcpu),
    CALL(membarrier),
};

struct refusal {
    long number;
    int error;
    bool attached; /* the filter comes after enq_open() */
};

static void use(struct enq *e)
{
    struct enq_grant g;
    int rc = env_take(e, "a", 20, &g);

    if (rc == ENQ_OK)
        rc = enq_unlock(e, g.handle, g.token);
    must(rc <= 0);
    if (rc < 0)
        must(enq_why()[0] != '\0');
}

static int use_with_refusal(void *arg)
{
    struct refusal *r = arg;
    struct enq *e = NULL;
    int rc = ENQ_OK;

    alarm(5);
    if (r->attached)
        rc = enq_open(&e, env_space(), NULL);
    refuse(r->number, r->error);
    if (!r->attached)
        rc = enq_open(&e, env_space(), NULL);
    must(rc <= 0 && (rc == ENQ_OK) == (e != NULL));
    must(rc == ENQ_OK || enq_why()[0] != '\0');
    if (rc == ENQ_OK)
        use(e);
    enq_close(e);
    _exit(0);
}

/* Each of them, to a process that makes a space, opens one, or has one. */
static void each_refused(int error, bool attached, bool exists)
{
    struct refusal r = {0, error, attached};
    struct enq_grant g;
    struct enq *e;
    int status;

    for (size_t i = 0; i < LENGTH(calls); i++) {
        r.number = calls[i].number;
        if (exists)
            enq_close(env_open());
        status = env_status(env_child(use_with_refusal, &r));
        if (status != 0)
            env_fail(__FILE__, __LINE__, "%s refused (%s): status %#x",
                calls[i].name, strerrorname_np(error), (unsigned)status);
        e = env_open();
        want(ENQ_OK, env_take(e, "a", 500, &g));
        must(env_stat(e).held == 1);
        env_healthy(e);
        enq_close(e);
        want(ENQ_OK, enq_unlink(env_space()));
    }
}

static void any_call_refused_with_EPERM_to_who_makes_a_space_is_an_error(void)
{
    each_refused(EPERM, false, false);
}

static void any_call_refused_with_ENOSYS_to_who_makes_a_space_is_an_error(void)
{
    each_refused(ENOSYS, false, false);
}

static void any_call_refused_with_EPERM_to_who_attaches_is_an_error(void)
{
    each_refused(EPERM, false, true);
}

static void any_call_refused_with_ENOSYS_to_who_attaches_is_an_error(void)
{
    each_refused(ENOSYS, false, true);
}

static void any_call_refused_with_EPERM_to_who_is_attached_harms_nobody(void)
{
    each_refused(EPERM, true, true);
}

const struct env_role filter_roles[] = {
    {"noticed-at-open", noticed_at_open},
    {"die-with-lock", die_with_lock},
    {0},
};

const struct env_case filter_cases[] = {
    CASE(set_robust_list_refused_with_EPERM_is_noticed_at_attach),
    CASE(set_robust_list_refused_with_ENOSYS_is_noticed_at_attach),
    CASE(set_robust_list_refused_is_noticed_though_get_is_refused_too),
    CASE(set_robust_list_refused_after_main_began_is_noticed_too),
    CASE(a_thread_without_a_robust_list_gets_an_error_and_others_go_on),
    CASE(get_robust_list_refused_alone_harms_nothing),
    ALONE(P3_without_futex_waitv_EPERM_a_release_is_heard_within_50_ms),
    ALONE(P3_without_futex_waitv_ENOSYS_a_release_is_heard_within_50_ms),
    ALONE(P3_without_futex_waitv_EPERM_a_death_is_heard_within_50_ms),
    ALONE(P3_without_futex_waitv_ENOSYS_a_death_is_heard_within_50_ms),
    ALONE(P7_without_futex_waitv_a_ttl_is_at_most_20_ms_late),
    CASE(without_futex_waitv_a_wait_ends_with_its_time_within_a_slice),
    CASE(without_futex_waitv_a_dead_ones_latch_is_recovered),
    CASE(futex_refused_concerns_only_the_process_that_is_refused),
    CASE(any_call_refused_with_EPERM_to_who_makes_a_space_is_an_error),
    CASE(any_call_refused_with_ENOSYS_to_who_makes_a_space_is_an_error),
    CASE(any_call_refused_with_EPERM_to_who_attaches_is_an_error),
    CASE(any_call_refused_with_ENOSYS_to_who_attaches_is_an_error),
    CASE(any_call_refused_with_EPERM_to_who_is_attached_harms_nobody),
    {0},
};
