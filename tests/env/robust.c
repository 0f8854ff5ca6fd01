/*
 * robust.c - applications that have robust mutexes of their own.
 *
 * The kernel walks the robust list of a thread that dies, the newest element
 * first, and gives up after 2,048 of them, or at one that it cannot read. What
 * the library has on that list, the thread's life mutex, is older.
 */
#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "env.h"

#define LIMIT 2048

struct stage {
    uint32_t ready, go;
    int before, after; /* mutexes locked before and after the first call */
    bool unmapped;
    const char *point;
    enum enq_death on_death;
};

static pthread_mutex_t *lock_own(int n)
{
    pthread_mutexattr_t attr;
    pthread_mutex_t *m;

    if (n == 0)
        return NULL;
    m = env_shared((size_t)n * sizeof(*m));
    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < n; i++) {
        must(pthread_mutex_init(&m[i], &attr) == 0);
        must(pthread_mutex_lock(&m[i]) == 0);
    }
    return m;
}

static int hold_mutexes_and_die(void *arg)
{
    struct stage *s = arg;
    struct enq *e;
    struct enq_grant g;
    pthread_mutex_t *m;

    lock_own(s->before);
    e = env_open();
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "env", .key = {"a"}, .mode = ENQ_MODE_X,
                .on_death = s->on_death),
            &g));
    m = lock_own(s->after);
    if (s->unmapped)
        munmap(m, (size_t)s->after * sizeof(*m));
    env_at_point(s->point, SIGKILL);
    env_take(e, "b", 0, &g);
    kill(getpid(), SIGKILL);
    return 1;
}

/* Whatever it held of its own: its locks end at once, its words are recovered,
   and no slot is lost. The last two may need the second sign of death, the
   end of its whole process, which is looked for when its helper has died. */
static void expect_noticed(const struct stage *s)
{
    struct enq *e = env_open();
    struct stage copy = *s;
    struct enq_grant g;
    double began;

    alarm(15); /* a word that nobody recovers is waited for without end */
    env_killed(env_child(hold_mutexes_and_die, &copy));
    began = env_ms();
    want(ENQ_OK, env_take(e, "a", 1000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, env_take(e, "b", 1000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    must(env_ms() - began < 2500);
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
    enq_close(e);
}

static void locks_of_who_holds_2048_mutexes_more_end_with_him(void)
{
    expect_noticed(&(struct stage){.after = LIMIT - 1});
    expect_noticed(&(struct stage){.after = LIMIT});
    expect_noticed(&(struct stage){.after = LIMIT + 1});
    expect_noticed(&(struct stage){.after = 3 * LIMIT});
}

static void locks_of_who_held_2048_mutexes_before_end_with_him(void)
{
    expect_noticed(&(struct stage){.before = LIMIT});
    expect_noticed(&(struct stage){.before = LIMIT, .after = LIMIT - 1});
    expect_noticed(&(struct stage){.before = LIMIT, .after = LIMIT});
}

static void a_latch_of_who_holds_fewer_than_2048_mutexes_is_recovered(void)
{
    expect_noticed(&(struct stage){.after = LIMIT - 2, .point = "lock.linked"});
}

static void a_latch_of_who_holds_2048_mutexes_is_recovered(void)
{
    expect_noticed(&(struct stage){.after = LIMIT, .point = "lock.linked"});
}

static void a_latch_of_who_holds_5000_mutexes_is_recovered(void)
{
    expect_noticed(&(struct stage){.after = 5000, .point = "lock.granted"});
    expect_noticed(&(struct stage){.after = 5000, .point = "lock.latched"});
}

static void locks_of_who_unmapped_a_locked_mutex_end_with_him(void)
{
    expect_noticed(&(struct stage){.after = 3, .unmapped = true});
}

static void a_latch_of_who_unmapped_a_locked_mutex_is_recovered(void)
{
    expect_noticed(&(struct stage){
        .after = 3, .unmapped = true, .point = "lock.linked"});
}

/* --- a list of the application's own, in place of the C library's --- */

static int replace_list_and_die(void *arg)
{
    static struct robust_list_head own = {.list = {&own.list}};
    struct stage *s = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(syscall(SYS_set_robust_list, &own, sizeof(own)) == 0);
    env_at_point(s->point, SIGKILL);
    env_take(e, "b", 0, &g);
    kill(getpid(), SIGKILL);
    return 1;
}

static void locks_of_a_thread_that_replaced_its_robust_list_end_with_it(void)
{
    static const char *const points[] = {NULL, "lock.linked"};
    struct enq *e = env_open();
    struct stage s = {0};
    struct enq_grant g;

    alarm(15);
    for (size_t i = 0; i < LENGTH(points); i++) {
        s.point = points[i];
        env_killed(env_child(replace_list_and_die, &s));
        want(ENQ_OK, env_take(e, "a", 1000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        want(ENQ_OK, env_take(e, "b", 1000, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        eventually(env_stat(e).threads <= 2);
    }
    env_healthy(e);
}

/* --- the application's mutexes are left alone --- */

static int die_with_both(void *arg)
{
    pthread_mutex_t *m = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    must(pthread_mutex_lock(&m[0]) == 0);
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(pthread_mutex_lock(&m[1]) == 0);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    must(pthread_mutex_lock(&m[2]) == 0);
    kill(getpid(), SIGKILL);
    return 1;
}

static void the_applications_own_robust_mutexes_are_still_seen_to_die(void)
{
    pthread_mutex_t *m = lock_own(3);

    for (int i = 0; i < 3; i++)
        must(pthread_mutex_unlock(&m[i]) == 0);
    env_killed(env_child(die_with_both, m));
    for (int i = 0; i < 3; i++)
        must(pthread_mutex_trylock(&m[i]) == EOWNERDEAD);
}

/* --- the guard of a process that comes and goes --- */

static int attach_again_and_die(void *arg)
{
    struct stage *s = arg;
    struct enq *e;
    struct enq_grant g;

    for (int i = 0; i < 3; i++) { /* each time another helper thread */
        e = env_open();
        want(ENQ_OK, env_take(e, "a", 0, &g));
        if (i < 2)
            enq_close(e);
    }
    lock_own(s->after);
    env_at_point(s->point, SIGKILL);
    env_take(e, "b", 0, &g);
    kill(getpid(), SIGKILL);
    return 1;
}

static void a_latch_is_recovered_of_who_attached_before_and_holds_5000_mutexes(
    void)
{
    struct stage s = {.after = 5000, .point = "lock.linked"};
    struct enq *e = env_open();
    struct enq_grant g;

    alarm(15);
    env_killed(env_child(attach_again_and_die, &s));
    want(ENQ_OK, env_take(e, "b", 1000, &g));
    want(ENQ_OK, env_take(e, "a", 1000, &g));
    eventually(env_stat(e).threads <= 2);
    env_healthy(e);
}

const struct env_case robust_cases[] = {
    CASE(locks_of_who_holds_2048_mutexes_more_end_with_him),
    CASE(locks_of_who_held_2048_mutexes_before_end_with_him),
    CASE(a_latch_of_who_holds_fewer_than_2048_mutexes_is_recovered),
    CASE(a_latch_of_who_holds_2048_mutexes_is_recovered),
    CASE(a_latch_of_who_holds_5000_mutexes_is_recovered),
    CASE(locks_of_who_unmapped_a_locked_mutex_end_with_him),
    CASE(a_latch_of_who_unmapped_a_locked_mutex_is_recovered),
    CASE(locks_of_a_thread_that_replaced_its_robust_list_end_with_it),
    CASE(the_applications_own_robust_mutexes_are_still_seen_to_die),
    CASE(a_latch_is_recovered_of_who_attached_before_and_holds_5000_mutexes),
    {0},
};
