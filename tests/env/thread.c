/*
 * thread.c - threads come, go, are cancelled and interrupted.
 */
#include <pthread.h>
#include <sys/syscall.h>

#include "env.h"

struct work {
    struct enq *e;
    uint32_t ready, go;
    struct enq_grant g;
    const char *field;
    int64_t wait_ms;
    int rc;
    double took_ms;
};

static pthread_t begin(void *(*f)(void *), void *arg)
{
    pthread_t thread;

    must(pthread_create(&thread, NULL, f, arg) == 0);
    return thread;
}

static bool join_cancelled(pthread_t thread)
{
    void *result = NULL;

    must(pthread_join(thread, &result) == 0);
    return result == PTHREAD_CANCELED;
}

/* --- threads end --- */

static void *lock_it(void *arg)
{
    struct work *w = arg;
    double began = env_ms();

    env_reach(&w->ready);
    w->rc = env_take(w->e, w->field, w->wait_ms, &w->g);
    w->took_ms = env_ms() - began;
    return NULL;
}

static void P11_a_thread_that_ends_leaves_its_locks_to_the_process(void)
{
    struct work w = {.e = env_open(), .field = "a"};
    struct enq *other = env_open();
    struct enq_grant g;

    pthread_join(begin(lock_it, &w), NULL);
    want(ENQ_OK, w.rc);
    want(ENQ_TIMEDOUT, env_take(other, "a", 1200, &g)); /* over a round */
    want(ENQ_OK, enq_valid(w.e, w.g.handle));
    want(ENQ_OK, enq_unlock(w.e, w.g.handle, w.g.token));
    env_healthy(other);
}

static void *lock_and_unlock(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 5000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

static void P11_threads_that_come_and_go_use_up_nothing(void)
{
    struct enq *e = env_open();
    pthread_t threads[10];

    for (int i = 0; i < 60; i++) {
        for (size_t t = 0; t < LENGTH(threads); t++)
            threads[t] = begin(lock_and_unlock, e);
        for (size_t t = 0; t < LENGTH(threads); t++)
            pthread_join(threads[t], NULL);
    }
    must(env_stat(e).threads <= 3);
    must(env_stat(e).held == 0);
    env_healthy(e);
}

/* Neither destructors nor anything else of the C library is run. */
static void *end_by_bare_exit(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 1000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    syscall(SYS_exit, 0);
    return NULL;
}

static void P11_a_thread_that_ends_by_a_bare_exit_is_noticed(void)
{
    struct enq *e = env_open();

    for (int i = 0; i < 5; i++)
        begin(end_by_bare_exit, e);
    eventually(env_stat(e).threads <= 2);
    must(env_stat(e).sessions == 1);
    env_healthy(e);
}

/* --- the main thread ends --- */

static void *use_and_end(void *arg)
{
    struct work *w = arg;
    struct enq *more = NULL;
    struct enq_grant g;

    env_nap(50); /* the main thread has gone */
    want(ENQ_OK, enq_valid(w->e, w->g.handle));
    want(ENQ_OK, env_take(w->e, "b", 0, &g));
    want(ENQ_OK, enq_open(&more, env_space(), NULL));
    want(ENQ_BUSY, env_take(more, "a", 0, &g));
    want(ENQ_OK, enq_open(&more, env_other_space(), NULL));
    want(ENQ_OK, env_take(more, "a", 0, &g));
    env_healthy(more);
    env_reach(&w->ready);
    env_await(&w->go);
    _exit(0);
}

static int leave_main_thread(void *arg)
{
    struct work *w = arg;

    w->e = env_open();
    want(ENQ_OK, env_take(w->e, "a", 0, &w->g));
    begin(use_and_end, w);
    pthread_exit(NULL);
}

static void P11_a_process_whose_main_thread_has_ended_goes_on(void)
{
    struct work *w = env_shared(sizeof(*w));
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid = env_child(leave_main_thread, w);

    eventually(env_reached(&w->ready));
    want(ENQ_TIMEDOUT, env_take(e, "a", 1200, &g));
    env_reach(&w->go);
    want(ENQ_OK, env_take(e, "a", 2000, &g));
    env_join(pid);
    env_healthy(e);
}

/* --- cancellation --- */

static void P11_a_thread_cancelled_while_it_waits_goes_on_waiting(void)
{
    struct work w = {.e = env_open(), .field = "a", .wait_ms = 300};
    struct enq_grant g;
    pthread_t thread;

    want(ENQ_OK, env_take(w.e, "a", 0, &g));
    thread = begin(lock_it, &w);
    eventually(env_stat(w.e).waiting == 1);
    must(pthread_cancel(thread) == 0);
    join_cancelled(thread);
    want(ENQ_TIMEDOUT, w.rc);
    must(w.took_ms >= 300);
    must(env_stat(w.e).waiting == 0);
    env_healthy(w.e);
}

static void *lock_when_cancelled(void *arg)
{
    struct work *w = arg;

    pthread_cancel(pthread_self());
    w->rc = env_take(w->e, "a", 1000, &w->g);
    if (w->rc == ENQ_OK)
        enq_unlock(w->e, w->g.handle, w->g.token);
    env_reach(&w->ready);
    pthread_testcancel();
    return NULL;
}

static int lock_after_the_cancelled(void *nothing)
{
    struct work w = {.e = env_open()};
    pthread_t thread;

    (void)nothing;
    alarm(5);
    for (int i = 0; i < 20; i++) {
        w.ready = 0;
        must(join_cancelled(begin(lock_when_cancelled, &w)));
        thread = begin(lock_and_unlock, w.e);
        pthread_join(thread, NULL);
    }
    enq_close(w.e);
    return 0;
}

/* In its first call it registers, by a system call where it could end. */
static void P11_a_thread_cancelled_in_its_first_call_stops_no_other(void)
{
    struct enq *e = env_open();

    env_join(env_child(lock_after_the_cancelled, NULL));
    env_healthy(e);
}

static void *open_when_cancelled(void *arg)
{
    struct work *w = arg;
    struct enq *e = NULL;

    pthread_cancel(pthread_self());
    w->rc = enq_open(&e, env_space(), NULL);
    if (w->rc == ENQ_OK) {
        env_take(e, "a", 0, &w->g);
        enq_close(e);
    }
    env_reach(&w->ready);
    pthread_testcancel();
    return NULL;
}

static int open_after_the_cancelled(void *nothing)
{
    struct work w = {0};

    (void)nothing;
    alarm(5);
    setenv("ENQ_OWNER", "me", 1);
    for (int i = 0; i < 20; i++) {
        must(join_cancelled(begin(open_when_cancelled, &w)));
        lock_and_unlock(env_open());
    }
    return 0;
}

static void P11_a_thread_cancelled_in_open_or_close_stops_no_other(void)
{
    struct enq *e = env_open();

    env_join(env_child(open_after_the_cancelled, NULL));
    env_healthy(e);
}

/* Whatever the moment: nothing is left locked behind it. */
static void *open_and_lock_often(void *arg)
{
    struct work *w = arg;
    struct enq_grant g;
    struct enq *e;

    for (;;) {
        e = NULL;
        if (enq_open(&e, env_space(), NULL) != ENQ_OK)
            return w;
        if (env_take(e, "c", 2000, &g) == ENQ_OK)
            enq_unlock(e, g.handle, g.token);
        enq_close(e);
    }
    return NULL;
}

static int cancel_at_random(void *nothing)
{
    struct work w = {0};
    pthread_t thread;

    (void)nothing;
    alarm(10);
    for (int i = 0; i < 60; i++) {
        thread = begin(open_and_lock_often, &w);
        env_nap(i % 12 * 0.4);
        pthread_cancel(thread);
        /* it ends where the application has a cancellation point, or not */
        pthread_detach(thread);
        lock_and_unlock(env_open());
        if (i % 10 == 9)
            env_nap(5);
    }
    return 0;
}

static void P11_threads_cancelled_at_any_moment_stop_no_other(void)
{
    struct enq *e = env_open();

    env_join(env_child(cancel_at_random, NULL));
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
}

static void *retry_until_cancelled(void *arg)
{
    struct work *w = arg;

    env_reach(&w->ready);
    w->rc = enq_lock(w->e,
        ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
            .owner = "retries", .retries = 1000, .retry_ms = 100),
        &w->g);
    return NULL;
}

static void P11_a_thread_cancelled_between_retries_leaves_nothing(void)
{
    struct work w = {.e = env_open()};
    struct enq_grant g;
    pthread_t thread;

    want(ENQ_OK, env_take(w.e, "a", 0, &g));
    thread = begin(retry_until_cancelled, &w);
    env_await(&w.ready);
    env_nap(30);
    must(pthread_cancel(thread) == 0);
    must(join_cancelled(thread));
    must(env_stat(w.e).waiting == 0 && env_stat(w.e).held == 1);
    must(env_stat(w.e).threads <= 2);
    env_healthy(w.e);
}

/* --- signals --- */

static uint32_t signals;

static void count_signal(int number)
{
    (void)number;
    shm_add(&signals, 1);
}

static void P11_signals_do_not_shorten_a_wait(void)
{
    struct work w = {.e = env_open(), .field = "a", .wait_ms = 1000};
    struct sigaction restart = {.sa_handler = count_signal,
                         .sa_flags = SA_RESTART},
                     interrupt = {.sa_handler = count_signal};
    struct enq_grant g;
    pthread_t thread;

    sigaction(SIGUSR1, &restart, NULL);
    sigaction(SIGUSR2, &interrupt, NULL);
    want(ENQ_OK, env_take(w.e, "a", 0, &g));
    thread = begin(lock_it, &w);
    eventually(env_stat(w.e).waiting == 1);
    for (int i = 0; i < 200 && env_stat(w.e).waiting == 1; i++) {
        pthread_kill(thread, i % 2 ? SIGUSR1 : SIGUSR2);
        env_nap(1);
    }
    pthread_join(thread, NULL);
    want(ENQ_TIMEDOUT, w.rc);
    must(w.took_ms >= 1000 && w.took_ms < 3000);
    must(shm_load(&signals) > 5);
}

static void P11_signals_of_the_process_are_never_the_helper_threads(void)
{
    struct sigaction count = {.sa_handler = count_signal};
    struct enq *e = env_open();
    sigset_t all, before;

    sigaction(SIGUSR1, &count, NULL);
    sigfillset(&all);
    must(pthread_sigmask(SIG_BLOCK, &all, &before) == 0);
    must(kill(getpid(), SIGUSR1) == 0);
    env_nap(50);
    must(shm_load(&signals) == 0); /* pending: nobody took it */
    must(pthread_sigmask(SIG_SETMASK, &before, NULL) == 0);
    must(shm_load(&signals) == 1);
    enq_close(e);
}

const struct env_case thread_cases[] = {
    CASE(P11_a_thread_that_ends_leaves_its_locks_to_the_process),
    CASE(P11_threads_that_come_and_go_use_up_nothing),
    CASE(P11_a_thread_that_ends_by_a_bare_exit_is_noticed),
    CASE(P11_a_process_whose_main_thread_has_ended_goes_on),
    CASE(P11_a_thread_cancelled_while_it_waits_goes_on_waiting),
    CASE(P11_a_thread_cancelled_in_its_first_call_stops_no_other),
    CASE(P11_a_thread_cancelled_in_open_or_close_stops_no_other),
    CASE(P11_threads_cancelled_at_any_moment_stop_no_other),
    CASE(P11_a_thread_cancelled_between_retries_leaves_nothing),
    CASE(P11_signals_do_not_shorten_a_wait),
    CASE(P11_signals_of_the_process_are_never_the_helper_threads),
    {0},
};
