/*
 * stop.c - a process stands still (SIGSTOP) while its ttl goes on.
 */
#include <pthread.h>

#include "env.h"

struct stage {
    uint32_t holds, go_on, done;
    struct enq_grant g;
    double since_ms;
    int64_t ttl_ms;
    int unlock, renew, valid, promote, demote;
};

static int take(struct enq *e, const char *owner, enum enq_mode mode,
    int64_t ttl_ms, int64_t wait_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {"a"}, .mode = mode, .owner = owner,
            .ttl_ms = ttl_ms, .wait_ms = wait_ms),
        g);
}

/* --- the holder is stopped --- */

#define TTL_MS 250

static int hold_and_ask(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    s->since_ms = env_ms();
    want(ENQ_OK, take(e, "holder", ENQ_MODE_X, TTL_MS, 0, &s->g));
    env_reach(&s->holds);
    env_await(&s->go_on);
    s->valid = enq_valid(e, s->g.handle);
    s->renew = enq_renew(e, s->g.handle, s->g.token, 60000);
    s->promote = enq_promote(e, s->g.handle, s->g.token, &g);
    s->demote = enq_demote(e, s->g.handle, s->g.token);
    s->unlock = enq_unlock(e, s->g.handle, s->g.token);
    env_reach(&s->done);
    return 0;
}

static void stop_holder(struct stage *s, pid_t pid)
{
    env_await(&s->holds);
    env_stop(pid);
}

static void let_go_on(struct stage *s, pid_t pid)
{
    env_reach(&s->go_on);
    env_continue(pid);
}

static void expect_told(const struct stage *s)
{
    want(ENQ_EXPIRED, s->renew);
    want(ENQ_EXPIRED, s->promote);
    want(ENQ_EXPIRED, s->demote);
    want(ENQ_EXPIRED, s->unlock);
}

static void
a_stopped_holders_lock_goes_to_the_waiter_never_early_and_he_is_told(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    pid_t pid = env_child(hold_and_ask, s);
    struct enq_grant mine, other;

    stop_holder(s, pid);
    want(ENQ_OK, take(e, "next", ENQ_MODE_X, ENQ_FOREVER, 5000, &mine));
    must(env_ms() - s->since_ms >= TTL_MS);
    must(mine.token > s->g.token);
    let_go_on(s, pid);
    env_join(pid);
    expect_told(s);
    want(ENQ_EXPIRED, s->valid);
    want(ENQ_OK, enq_valid(e, mine.handle));
    want(ENQ_BUSY, take(e, "third", ENQ_MODE_S, 0, 0, &other));
    want(ENQ_OK, enq_unlock(e, mine.handle, mine.token));
}

/* valid() may say yes until its helper thread has run: some ms. */
static void a_stopped_holder_is_told_though_nobody_wanted_the_lock(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    pid_t pid = env_child(hold_and_ask, s);
    struct enq_grant g;

    stop_holder(s, pid);
    env_nap(TTL_MS + 50);
    let_go_on(s, pid);
    env_join(pid);
    expect_told(s);
    want(ENQ_OK, take(e, "next", ENQ_MODE_X, 0, 0, &g));
}

static int hold_for_ever(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();

    want(ENQ_OK, take(e, "holder", ENQ_MODE_X, ENQ_FOREVER, 0, &s->g));
    env_reach(&s->holds);
    env_await(&s->go_on);
    s->valid = enq_valid(e, s->g.handle);
    s->unlock = enq_unlock(e, s->g.handle, s->g.token);
    return 0;
}

static void a_stopped_holder_without_a_ttl_keeps_its_lock(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    pid_t pid = env_child(hold_for_ever, s);
    struct enq_grant g;

    stop_holder(s, pid);
    want(ENQ_TIMEDOUT, take(e, "next", ENQ_MODE_X, 0, 300, &g));
    must(g.blocker.pid == pid);
    let_go_on(s, pid);
    want(ENQ_OK, take(e, "next", ENQ_MODE_X, 0, 5000, &g));
    env_join(pid);
    want(ENQ_OK, s->valid);
    want(ENQ_OK, s->unlock);
}

static void a_stopped_holder_may_not_unlock_or_renew_what_is_anothers(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g[3];
    pid_t pid = env_child(hold_and_ask, s);

    stop_holder(s, pid);
    for (int i = 0; i < 3; i++) { /* it changes hands, again and again */
        want(ENQ_OK, take(e, "next", ENQ_MODE_X, ENQ_FOREVER, 5000, &g[i]));
        if (i < 2)
            want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    }
    let_go_on(s, pid);
    env_join(pid);
    must(s->renew != ENQ_OK && s->unlock != ENQ_OK && s->demote != ENQ_OK);
    want(ENQ_OK, enq_valid(e, g[2].handle));
    want(ENQ_OK, enq_unlock(e, g[2].handle, g[2].token));
}

static void a_stopped_holder_that_is_killed_makes_way_at_once(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    pid_t pid = env_child(hold_for_ever, s);
    struct enq_grant g;

    stop_holder(s, pid);
    must(kill(pid, SIGKILL) == 0);
    want(ENQ_OK, take(e, "next", ENQ_MODE_X, 0, 5000, &g));
    env_killed(pid);
}

/* --- the waiter is stopped --- */

static int wait_for_it(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();

    env_reach(&s->holds);
    s->unlock = take(e, "waiter", ENQ_MODE_X, s->ttl_ms, 60000, &s->g);
    s->valid = enq_valid(e, s->g.handle);
    s->renew = enq_renew(e, s->g.handle, s->g.token, 0);
    env_reach(&s->done);
    return 0;
}

static void start_waiter(struct stage *s, struct enq *e, int64_t ttl_ms,
    pid_t *pid)
{
    s->ttl_ms = ttl_ms;
    *pid = env_child(wait_for_it, s);
    eventually(env_stat(e).waiting == 1);
    env_nap(5); /* asleep, and not inside a word, that others would wait for */
    env_stop(*pid);
}

static void what_a_stopped_waiter_was_granted_runs_out_and_it_is_told(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    double granted;
    pid_t pid;

    want(ENQ_OK, take(e, "first", ENQ_MODE_X, 0, 0, &g));
    start_waiter(s, e, TTL_MS, &pid);
    env_nap(10); /* it is due: the lock is handed to it */
    granted = env_ms();
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, take(e, "third", ENQ_MODE_X, ENQ_FOREVER, 5000, &g));
    must(env_ms() - granted >= TTL_MS);
    env_continue(pid);
    env_join(pid);
    want(ENQ_OK, s->unlock);
    want(ENQ_EXPIRED, s->valid);
    want(ENQ_EXPIRED, s->renew);
    want(ENQ_OK, enq_valid(e, g.handle));
}

static void a_stopped_waiter_that_goes_on_in_time_has_the_lock(void)
{
    struct stage *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid;

    want(ENQ_OK, take(e, "first", ENQ_MODE_X, 0, 0, &g));
    start_waiter(s, e, ENQ_FOREVER, &pid);
    env_nap(300);
    env_continue(pid);
    env_nap(20);
    must(!env_reached(&s->done));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    env_join(pid);
    want(ENQ_OK, s->unlock);
    want(ENQ_OK, s->valid);
}

/* --- stopped inside a latch --- */

static int stop_inside(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();

    env_reach(&s->holds);
    env_at_point("lock.linked", SIGSTOP);
    s->unlock = take(e, "inside", ENQ_MODE_X, ENQ_FOREVER, 0, &s->g);
    env_reach(&s->done);
    env_await(&s->go_on);
    return 0;
}

static int ask_meanwhile(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    env_reach(&s->holds);
    s->unlock = take(e, "meanwhile", ENQ_MODE_X, 0, 0, &g);
    env_reach(&s->done);
    return 0;
}

/* The one thing that keeps a no-wait request waiting. */
static pid_t stopped_inside(struct stage *s)
{
    pid_t pid = env_child(stop_inside, s);
    int status;

    must(waitpid(pid, &status, WUNTRACED) == pid && WIFSTOPPED(status));
    return pid;
}

static void who_is_stopped_inside_a_latch_keeps_others_until_it_goes_on(void)
{
    struct stage *s = env_shared(2 * sizeof(*s));
    pid_t inside = stopped_inside(s), asks = env_child(ask_meanwhile, s + 1);

    env_await(&s[1].holds);
    env_nap(200);
    must(!env_reached(&s[1].done));
    env_continue(inside);
    within(2000, env_reached(&s[1].done));
    env_join(asks);
    want(ENQ_OK, s[0].unlock);
    want(ENQ_BUSY, s[1].unlock);
    env_reach(&s->go_on);
    env_join(inside);
}

static void who_is_killed_while_stopped_inside_a_latch_keeps_nobody(void)
{
    struct stage *s = env_shared(2 * sizeof(*s));
    struct enq *e = env_open();
    pid_t inside = stopped_inside(s), asks = env_child(ask_meanwhile, s + 1);
    double killed, took;

    env_lag_begin();
    env_await(&s[1].holds);
    env_nap(50);
    killed = env_ms();
    env_kill(inside);
    eventually(env_reached(&s[1].done));
    took = env_ms() - killed;
    must(took <= 500 + env_lag_end_ms());
    env_join(asks);
    want(ENQ_OK, s[1].unlock);
    env_healthy(e);
}

static int take_another(void *arg)
{
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;
    char field[16];

    snprintf(field, sizeof(field), "%d", (int)getpid());
    want(ENQ_OK, env_take(e, field, 0, &g));
    shm_add(&s->done, 1);
    return 0;
}

/* One word of 256 stands: now and then a key or two share it. */
static void other_keys_go_on_while_one_is_stopped_inside_a_latch(void)
{
    struct stage *s = env_shared(2 * sizeof(*s));
    pid_t inside = stopped_inside(s), pids[20];

    for (size_t i = 0; i < LENGTH(pids); i++)
        pids[i] = env_child(take_another, s + 1);
    within(3000, shm_load(&s[1].done) >= LENGTH(pids) - 3);
    env_kill(inside);
    for (size_t i = 0; i < LENGTH(pids); i++)
        env_join(pids[i]);
    must(shm_load(&s[1].done) == LENGTH(pids));
}

const struct env_case stop_cases[] = {
    CASE(a_stopped_holders_lock_goes_to_the_waiter_never_early_and_he_is_told),
    CASE(a_stopped_holder_is_told_though_nobody_wanted_the_lock),
    CASE(a_stopped_holder_without_a_ttl_keeps_its_lock),
    CASE(a_stopped_holder_may_not_unlock_or_renew_what_is_anothers),
    CASE(a_stopped_holder_that_is_killed_makes_way_at_once),
    CASE(what_a_stopped_waiter_was_granted_runs_out_and_it_is_told),
    CASE(a_stopped_waiter_that_goes_on_in_time_has_the_lock),
    CASE(who_is_stopped_inside_a_latch_keeps_others_until_it_goes_on),
    ALONE(who_is_killed_while_stopped_inside_a_latch_keeps_nobody),
    CASE(other_keys_go_on_while_one_is_stopped_inside_a_latch),
    {0},
};
