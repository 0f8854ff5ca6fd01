/*
 * end.c - a process ends, in every way, while its threads are inside.
 */
#include <pthread.h>
#include <setjmp.h>
#include <sys/resource.h>
#include <sys/syscall.h>

#include "env.h"

static void end_by_exit(void)
{
    exit(0);
}

static void end_by_bare_exit_group(void)
{
    syscall(SYS_exit_group, 0);
}

static void end_by_quick_exit(void)
{
    quick_exit(0);
}

static int *volatile nowhere;

static void end_by_fault(void)
{
    *nowhere = 1;
}

static void end_by_term(void)
{
    kill(getpid(), SIGTERM);
    pause();
}

struct ending {
    void (*end)(void);
    uint32_t ready;
    bool in_thread;
    struct enq *e;
};

/* --- threads that are always inside --- */

static void *be_inside(void *arg)
{
    struct ending *end = arg;
    struct enq_grant g;

    env_reach(&end->ready);
    for (;;)
        if (env_take(end->e, "busy", 2000, &g) == ENQ_OK)
            enq_unlock(end->e, g.handle, g.token);
    return NULL;
}

static void *wait_for_ever(void *arg)
{
    struct ending *end = arg;
    struct enq_grant g;

    env_take(end->e, "taken", ENQ_FOREVER, &g);
    return NULL;
}

static void *end_it(void *arg)
{
    struct ending *end = arg;

    env_await(&end->ready);
    env_nap(1);
    end->end();
    return NULL;
}

static int run_and_end(void *arg)
{
    struct ending *end = arg;
    pthread_t thread;
    struct enq_grant g;

    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    end->e = env_open();
    want(ENQ_OK, env_take(end->e, "held", 2000, &g));
    pthread_create(&thread, NULL, be_inside, end);
    pthread_create(&thread, NULL, wait_for_ever, end);
    if (end->in_thread)
        pthread_create(&thread, NULL, end_it, end);
    else
        end_it(end);
    pause();
    return 1;
}

/* However it ended: its locks and requests are gone, and all can go on. */
static void ends_by(void (*how)(void))
{
    struct ending *end = env_shared(sizeof(*end));
    struct enq *e = env_open();
    struct enq_grant taken, g;

    want(ENQ_OK, env_take(e, "taken", 0, &taken));
    for (int i = 0; i < 12; i++) {
        end->end = how;
        end->ready = 0;
        end->in_thread = i % 2;
        env_status(env_child(run_and_end, end));
        want(ENQ_OK, env_take(e, "held", 1000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        want(ENQ_OK, env_take(e, "busy", 1000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    eventually(env_stat(e).waiting == 0);
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    want(ENQ_OK, enq_unlock(e, taken.handle, taken.token));
    env_healthy(e);
}

static void P11_exit_while_threads_are_inside_harms_nobody(void)
{
    ends_by(end_by_exit);
}

static void P11_a_bare_exit_group_while_threads_are_inside_harms_nobody(void)
{
    ends_by(end_by_bare_exit_group);
}

static void P11_quick_exit_while_threads_are_inside_harms_nobody(void)
{
    ends_by(end_by_quick_exit);
}

static void P11_abort_while_threads_are_inside_harms_nobody(void)
{
    ends_by(abort);
}

static void P11_a_signal_of_its_own_fault_while_threads_are_inside_harms_nobody(
    void)
{
    ends_by(end_by_fault);
}

static void P11_a_deadly_signal_while_threads_are_inside_harms_nobody(void)
{
    ends_by(end_by_term);
}

/* --- handlers of exit --- */

static struct enq *at_exit;

static void close_at_exit(void)
{
    struct enq_grant g;

    if (env_take(at_exit, "late", 0, &g) != ENQ_OK)
        _exit(3);
    enq_close(at_exit);
}

static int exit_with_handler(void *nothing)
{
    (void)nothing;
    at_exit = env_open();
    atexit(close_at_exit);
    exit(0);
}

static void P11_a_handler_of_exit_may_lock_and_close(void)
{
    struct enq *e = env_open();
    struct enq_grant g;

    env_join(env_child(exit_with_handler, NULL));
    must(env_stat(e).sessions == 1);
    want(ENQ_OK, env_take(e, "late", 0, &g));
    env_healthy(e);
}

static void *exit_in_thread(void *nothing)
{
    exit_with_handler(nothing);
    return NULL;
}

static int exit_with_handler_in_thread(void *nothing)
{
    pthread_t thread;

    pthread_create(&thread, NULL, exit_in_thread, nothing);
    pthread_join(thread, NULL);
    return 1;
}

static void P11_a_handler_of_exit_in_another_thread_may_lock_and_close(void)
{
    struct enq *e = env_open();

    env_join(env_child(exit_with_handler_in_thread, NULL));
    must(env_stat(e).sessions == 1 && env_stat(e).held == 0);
    env_healthy(e);
}

/* --- a signal handler that does not return --- */

static sigjmp_buf out;

static void jump_out(int number)
{
    siglongjmp(out, number);
}

/* It must return, says enq.h. A jump out of a wait all the same leaves a request
   behind that nobody waits for: it takes its turn, and ends with the
   attachment. */
static int leave_a_wait_by_longjmp(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    signal(SIGALRM, jump_out);
    if (sigsetjmp(out, 1) == 0) {
        alarm(1);
        env_take(e, "a", ENQ_FOREVER, &g);
        return 1;
    }
    must(env_stat(e).waiting == 1);
    want(ENQ_OK, env_take(e, "b", 0, &g));
    enq_close(e);
    return 0;
}

static void P11_a_request_left_by_longjmp_ends_with_its_attachment(void)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 0, &g));
    env_join(env_child(leave_a_wait_by_longjmp, NULL));
    must(env_stat(e).waiting == 0);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, env_take(e, "a", 1000, &g));
    env_healthy(e);
}

const struct env_case end_cases[] = {
    CASE(P11_exit_while_threads_are_inside_harms_nobody),
    CASE(P11_a_bare_exit_group_while_threads_are_inside_harms_nobody),
    CASE(P11_quick_exit_while_threads_are_inside_harms_nobody),
    CASE(P11_abort_while_threads_are_inside_harms_nobody),
    CASE(P11_a_signal_of_its_own_fault_while_threads_are_inside_harms_nobody),
    CASE(P11_a_deadly_signal_while_threads_are_inside_harms_nobody),
    CASE(P11_a_handler_of_exit_may_lock_and_close),
    CASE(P11_a_handler_of_exit_in_another_thread_may_lock_and_close),
    CASE(P11_a_request_left_by_longjmp_ends_with_its_attachment),
    {0},
};
