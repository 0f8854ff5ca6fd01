/*
 * clock.c - the wall clock is stepped, the machine sleeps: what a ttl, a wait
 * and an age make of it.
 *
 * All clocks that the library reads are those of env.c, which steps them for
 * the processes of one case only.
 */
#include <pthread.h>

#include "base/point.h"
#include "env.h"

#define NS_PER_MS INT64_C(1000000)
#define MINUTE_MS INT64_C(60000)
#define YEAR_NS (INT64_C(365) * 24 * 3600 * 1000 * NS_PER_MS)

static void step_wall(int64_t ns)
{
    shm_add(&env_clocks->wall_step_ns, ns);
}

static void sleep_machine(int64_t ms)
{
    shm_add(&env_clocks->suspended_ns, ms * NS_PER_MS);
}

static int take_for(struct enq *e, const char *field, int64_t ttl_ms,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {field}, .mode = ENQ_MODE_X,
            .owner = "holder", .ttl_ms = ttl_ms),
        g);
}

static int want_it(struct enq *e, const char *field, int64_t wait_ms,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {field}, .mode = ENQ_MODE_X,
            .owner = "other", .wait_ms = wait_ms),
        g);
}

static struct enq_info the_one(struct enq *e)
{
    struct enq_info info;
    size_t n;

    want(ENQ_OK, enq_list(e, "env", NULL, &info, 1, &n));
    must(n == 1);
    return info;
}

/* --- steps of the wall clock --- */

static void a_step_of_the_wall_clock_ends_no_lock_and_keeps_its_age(void)
{
    struct enq *e = env_open();
    struct enq_grant g, other;
    struct enq_info before, after;
    const int64_t steps[] = {YEAR_NS, -2 * YEAR_NS, YEAR_NS / 2};

    want(ENQ_OK, take_for(e, "a", MINUTE_MS, &g));
    for (size_t i = 0; i < LENGTH(steps); i++) {
        before = the_one(e);
        step_wall(steps[i]);
        after = the_one(e);
        must(after.age_ms - before.age_ms >= 0);
        must(after.age_ms - before.age_ms < 1000);
        must(before.ttl_left_ms - after.ttl_left_ms < 1000);
        must(after.ttl_left_ms <= before.ttl_left_ms);
        want(ENQ_OK, enq_valid(e, g.handle));
        want(ENQ_BUSY, want_it(e, "a", 0, &other));
        must(other.blocker.age_ms < 1000);
    }
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
}

static void a_list_tells_the_time_of_the_grant_by_the_wall_clock_of_now(void)
{
    struct enq *e = env_open();
    struct enq_grant g;
    int64_t before, moved;

    want(ENQ_OK, take_for(e, "a", MINUTE_MS, &g));
    before = the_one(e).granted_ms;
    step_wall(YEAR_NS);
    moved = the_one(e).granted_ms - before - YEAR_NS / NS_PER_MS;
    must(moved > -1000 && moved < 1000);
}

static void a_wall_clock_set_back_keeps_no_lock_beyond_its_ttl(void)
{
    struct enq *e = env_open();
    struct enq_grant g, other;
    double began = env_ms();

    want(ENQ_OK, take_for(e, "a", 300, &g));
    step_wall(-YEAR_NS);
    want(ENQ_OK, want_it(e, "a", 5000, &other));
    must(env_ms() - began >= 300);
    must(env_ms() - began < 1000);
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
}

static void *step_often(void *done)
{
    for (int64_t by = YEAR_NS; !env_reached(done); by = -by) {
        step_wall(by);
        env_nap(3);
    }
    return NULL;
}

static void a_wait_is_as_long_as_asked_for_however_the_wall_clock_steps(void)
{
    struct enq *e = env_open();
    struct enq_grant g, other;
    uint32_t done = 0;
    pthread_t thread;
    double began;

    want(ENQ_OK, take_for(e, "a", ENQ_FOREVER, &g));
    pthread_create(&thread, NULL, step_often, &done);
    began = env_ms();
    want(ENQ_TIMEDOUT, want_it(e, "a", 250, &other));
    must(env_ms() - began >= 250);
    must(env_ms() - began < 750);
    env_reach(&done);
    pthread_join(thread, NULL);
}

static void every_call(struct enq *e)
{
    struct enq_grant g, o, k;
    char id[ENQ_ID_BYTES];
    enq_handle h;

    want(ENQ_OK, take_for(e, "a", 50, &g));
    want(ENQ_BUSY, want_it(e, "a", 0, &o));
    want(ENQ_TIMEDOUT, want_it(e, "a", 5, &o));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 60));
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    want(ENQ_OK, want_it(e, "a", 3000, &o));
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_id(e, o.handle, id));
    want(ENQ_OK, enq_find(e, id, &h));
    want(ENQ_OK, enq_break(e, id));
    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "env", .key = {"@"}, .mode = ENQ_MODE_O),
            &k));
    want(ENQ_OK, enq_promote(e, k.handle, k.token, &k));
    want(ENQ_OK, enq_unlock(e, k.handle, k.token));
}

static void no_call_reads_the_wall_clock_but_for_the_first_token_of_a_part(void)
{
    struct enq *e = env_open();
    uint64_t before;

    for (int i = 0; i < 2; i++)
        every_call(e); /* tokens of a part start at the ns since 1970 */
    before = shm_load(&env_clocks->wall_readings);
    for (int i = 0; i < 5; i++)
        every_call(e);
    must(shm_load(&env_clocks->wall_readings) == before);
    enq_close(e);
}

static void tokens_grow_while_the_wall_clock_is_set_back(void)
{
    struct enq *e = env_open();
    struct enq_grant g;
    uint64_t last = 0;

    for (int i = 0; i < 50; i++) {
        want(ENQ_OK, take_for(e, "a", MINUTE_MS, &g));
        must(g.token > last);
        last = g.token;
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        step_wall(-YEAR_NS / 20);
    }
}

/* --- the machine sleeps: CLOCK_BOOTTIME goes on, the others do not --- */

struct sleeper {
    uint32_t waits, has;
    double has_ms;
    int result;
};

static struct sleeper *self;

/* It is counted among the waiters a moment before it reads the clock, which may
   be a long one: a suspend in between would not count. */
static void note_deadline(const struct point *p)
{
    if (strcmp(p->name, "wait.begun") == 0)
        env_reach(&self->waits);
}

static int wait_for_a(void *arg)
{
    struct sleeper *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    self = s;
    point_hook = note_deadline;
    s->result = want_it(e, "a", 20 * MINUTE_MS, &g);
    s->has_ms = env_ms();
    env_reach(&s->has);
    return 0;
}

static void P7_a_ttl_counts_suspend_and_the_waiter_has_it_soon_after(void)
{
    struct sleeper *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    double resumed;
    pid_t pid;

    want(ENQ_OK, take_for(e, "a", 10 * MINUTE_MS, &g));
    pid = env_child(wait_for_a, s);
    env_await(&s->waits);
    sleep_machine(9 * MINUTE_MS);
    env_nap(120);
    must(!env_reached(&s->has));
    env_lag_begin();
    resumed = env_ms();
    sleep_machine(2 * MINUTE_MS);
    env_join(pid);
    want(ENQ_OK, s->result);
    must(s->has_ms - resumed < 50 + env_lag_end_ms());
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
}

static void a_suspend_that_is_shorter_than_the_ttl_ends_nothing(void)
{
    struct enq *e = env_open();
    struct enq_grant g, other;

    want(ENQ_OK, take_for(e, "a", 10 * MINUTE_MS, &g));
    sleep_machine(9 * MINUTE_MS);
    env_nap(20);
    must(the_one(e).age_ms >= 9 * MINUTE_MS);
    /* a long ttl has a second on top */
    must(the_one(e).ttl_left_ms <= MINUTE_MS + 1000);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_BUSY, want_it(e, "a", 0, &other));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
}

/* Its helper thread sleeps by a clock that stood meanwhile. */
static void valid_says_within_a_second_after_a_suspend_that_the_ttl_is_over(
    void)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, take_for(e, "a", 10 * MINUTE_MS, &g));
    env_nap(30);
    sleep_machine(11 * MINUTE_MS);
    within(1300, enq_valid(e, g.handle) == ENQ_EXPIRED);
}

static int hold_a(void *arg)
{
    struct sleeper *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, take_for(e, "a", 10 * MINUTE_MS, &g));
    env_reach(&s->waits);
    env_await(&s->has);
    within(1300, enq_valid(e, g.handle) == ENQ_EXPIRED);
    return 0;
}

/* That one sleeps for half a minute, and is woken by the first. */
static void so_it_does_in_a_process_whose_helper_makes_no_rounds(void)
{
    struct sleeper *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    pid_t pid = env_child(hold_a, s);

    env_await(&s->waits);
    env_nap(200); /* its helper sleeps */
    sleep_machine(11 * MINUTE_MS);
    env_reach(&s->has);
    env_join(pid);
    (void)e;
}

static void nothing_but_valid_is_late_after_a_suspend(void)
{
    struct enq *e = env_open();
    struct enq_grant g, h;

    want(ENQ_OK, take_for(e, "a", 10 * MINUTE_MS, &g));
    want(ENQ_OK, take_for(e, "b", 10 * MINUTE_MS, &h));
    sleep_machine(11 * MINUTE_MS);
    env_nap(20);
    want(ENQ_EXPIRED, enq_renew(e, g.handle, g.token, MINUTE_MS));
    want(ENQ_EXPIRED, enq_unlock(e, h.handle, h.token));
    want(ENQ_OK, want_it(e, "a", 0, &g));
    want(ENQ_OK, enq_valid(e, g.handle));
}

static void a_wait_counts_suspend_as_well(void)
{
    struct sleeper *s = env_shared(sizeof(*s));
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid;

    want(ENQ_OK, take_for(e, "a", ENQ_FOREVER, &g));
    pid = env_child(wait_for_a, s);
    env_await(&s->waits);
    sleep_machine(21 * MINUTE_MS);
    env_join(pid);
    want(ENQ_TIMEDOUT, s->result);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
}

/* The last two of these sleep for longer than a tick. */
static void so_does_that_of_a_waiter_far_behind(void)
{
    struct sleeper *s[4];
    struct enq *e = env_open();
    struct enq_grant g;
    pid_t pid[4];

    want(ENQ_OK, take_for(e, "a", ENQ_FOREVER, &g));
    for (unsigned i = 0; i < 4; i++) {
        s[i] = env_shared(sizeof(*s[i]));
        pid[i] = env_child(wait_for_a, s[i]);
        env_await(&s[i]->waits);
    }
    env_nap(200);
    sleep_machine(21 * MINUTE_MS);
    within(2000, env_stat(e).waiting == 0);
    for (unsigned i = 0; i < 4; i++) {
        env_join(pid[i]);
        want(ENQ_TIMEDOUT, s[i]->result);
    }
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
}

const struct env_case clock_cases[] = {
    CASE(a_step_of_the_wall_clock_ends_no_lock_and_keeps_its_age),
    CASE(a_list_tells_the_time_of_the_grant_by_the_wall_clock_of_now),
    CASE(a_wall_clock_set_back_keeps_no_lock_beyond_its_ttl),
    CASE(a_wait_is_as_long_as_asked_for_however_the_wall_clock_steps),
    CASE(no_call_reads_the_wall_clock_but_for_the_first_token_of_a_part),
    CASE(tokens_grow_while_the_wall_clock_is_set_back),
    ALONE(P7_a_ttl_counts_suspend_and_the_waiter_has_it_soon_after),
    CASE(a_suspend_that_is_shorter_than_the_ttl_ends_nothing),
    CASE(valid_says_within_a_second_after_a_suspend_that_the_ttl_is_over),
    CASE(so_it_does_in_a_process_whose_helper_makes_no_rounds),
    CASE(nothing_but_valid_is_late_after_a_suspend),
    CASE(a_wait_counts_suspend_as_well),
    CASE(so_does_that_of_a_waiter_far_behind),
    {0},
};
