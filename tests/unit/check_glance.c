/*
 * check_glance.c - what the helper thread sleeps on, and what it glances at,
 * while started requests wait.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "async/glance.h"
#include "async/started.h"
#include "sync/life.h"
#include "sync/sys.h"
#include "told.h"

static struct {
    void (*real)(const struct sys_watch *watches, unsigned n, mono_t until);
    const uint32_t *holder, *bystander;
    uint32_t naps, n_holder, n_bystander;
} bed;

static void note_and_sleep(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    for (unsigned i = 0; i < n; i++) {
        bed.n_holder += watches[i].word == bed.holder;
        bed.n_bystander += watches[i].word == bed.bystander;
    }
    shm_add(&bed.naps, 1);
    bed.real(watches, n, until);
}

/* A process that has a lock, or none, until it is killed. */
struct stayer {
    char key[8]; /* "": none */
    int ttl_ms;
    uint32_t ref;
    pid_t pid;
};

static int open_and_stay(void *stayer)
{
    struct stayer *s = stayer;
    struct enq *e = unit_open();

    if (s->key[0] != '\0')
        told_lock(e, s->key, ENQ_MODE_X, s->ttl_ms);
    shm_store_release(&s->ref, e->session.ref);
    for (;;)
        pause();
    return 0;
}

static void stays(struct stayer *s, const char *key)
{
    snprintf(s->key, sizeof(s->key), "%s", key);
    s->pid = unit_fork(open_and_stay, s);
    eventually(shm_load_acquire(&s->ref) != 0);
}

static const uint32_t *life_word_of(struct enq *e, const struct stayer *s)
{
    return liveness_word(&at_session(e->map, s->ref)->life);
}

/* Hundreds may be attached: what a request that waits costs each tick does not
   depend on them. */
TEST(while_a_request_waits_its_holders_life_is_watched_and_no_bystanders)
{
    struct stayer *s = unit_shared(2 * sizeof(*s));
    struct enq *e;

    stays(&s[0], "a");
    stays(&s[1], "");
    e = unit_open();
    bed.holder = life_word_of(e, &s[0]);
    bed.bystander = life_word_of(e, &s[1]);
    bed.real = sys.sleep;
    sys.sleep = note_and_sleep;
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    eventually(shm_load(&bed.naps) >= 2);
    for (int i = 0; i < 3; i++) {
        want(ENQ_OK,
            enq_cancel(e, told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER)));
        want(ENQ_CANCELLED, told_without_descriptor(e).result);
    }
    enq_close(e); /* the helper thread has no more to wait for */
    ck_assert_uint_ge(bed.n_holder, 1);
    ck_assert_uint_eq(bed.n_bystander, 0);
    unit_kill(s[0].pid);
    unit_kill(s[1].pid);
}

/* What stands behind the words that it has put there is not its own: of an
   earlier sleep, mostly. */
TEST(a_word_that_was_slept_on_before_is_slept_on_again)
{
    struct sys_watch watches[SYS_WATCHES_MAX];
    struct stayer *s = unit_shared(sizeof(*s));
    struct enq *e;
    bool dead = false;

    stays(s, "a");
    e = unit_open();
    told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    memset(watches, 0, sizeof(watches));
    eventually(glance_watch_lives(e, watches, LENGTH(watches), &dead) == 1);
    ck_assert_ptr_eq(watches[0].word, life_word_of(e, s));
    ck_assert_uint_eq(glance_watch_lives(e, watches, LENGTH(watches), &dead),
        1);
    ck_assert(!dead);
    enq_close(e);
    unit_kill(s->pid);
}

static void signal_all(const struct stayer *s, int n, int signal)
{
    for (int i = 0; i < n; i++)
        kill(s[i].pid, signal);
    unit_nap();
}

/* In the midst of a round one would keep the latch of recovery. */
static void stop_all(struct enq *e, const struct stayer *s, int n)
{
    signal_all(s, n, SIGSTOP);
    while (shm_load(&e->map->h->recovery_latch) != 0) {
        signal_all(s, n, SIGCONT);
        signal_all(s, n, SIGSTOP);
    }
}

/* Nobody else can tell: each neighbour is stopped, as a whole group of processes
   may be, and ours dies last. Beyond the words that are slept on a tick
   tells. */
TEST(whose_holder_dies_is_granted_though_all_other_processes_are_stopped)
{
    enum { FEW = 8, MORE_THAN_ARE_WATCHED = 24 };
    struct stayer *s = unit_shared(MORE_THAN_ARE_WATCHED * sizeof(*s));
    int n = _i == 0 ? FEW : MORE_THAN_ARE_WATCHED;
    struct enq *e;
    char key[8];

    if (n > FEW)
        unit_with_ticks();
    for (int i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%d", i);
        stays(&s[i], key);
    }
    e = unit_open();
    stop_all(e, s, n);
    for (int i = 0; i < n; i++)
        told_start(e, s[i].key, ENQ_MODE_X, "me", ENQ_FOREVER);
    for (int i = 0; i < n; i++) {
        unit_kill(s[(2 * n - 2 - i) % n].pid);
        want(ENQ_OK, told_without_descriptor(e).result);
    }
    enq_close(e);
}

/* --- who has become the first --- */

static struct enq *open_without_ticks(void)
{
    setenv("ENQ_TICK_MS", "600000", 1);
    return unit_open();
}

/* Those ahead give up at once: whoever is the first by then looks when the
   holder's time is over. */
TEST(who_has_become_the_first_looks_when_its_holders_time_ends)
{
    enum { AHEAD = 30 };
    struct enq *e = open_without_ticks();
    struct stayer *s = unit_shared(sizeof(*s));
    struct enq_event event;
    uint64_t last;

    s->ttl_ms = 500;
    stays(s, "a");
    stop_all(e, s, 1);
    for (int i = 0; i < AHEAD; i++)
        told_start(e, "a", ENQ_MODE_X, "me", 100);
    last = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    do
        event = told_without_descriptor(e);
    while (event.ticket != last && event.result == ENQ_TIMEDOUT);
    ck_assert_uint_eq(event.ticket, last);
    want(ENQ_OK, event.result);
    enq_close(e);
    unit_kill(s->pid);
}

static void start_shared(struct enq *e, bool set)
{
    struct enq_req req[2];
    const struct enq_req *reqs[2] = {&req[0], &req[1]};
    static struct enq_grant g[2]; /* written when it is granted */
    uint64_t ticket;

    for (int i = 0; i < 2; i++)
        req[i] = (struct enq_req){.size = sizeof(req[i]),
            .name = "n",
            .key = {i == 0 ? "a" : "b"},
            .mode = ENQ_MODE_S,
            .owner = "another",
            .ttl_ms = 500,
            .wait_ms = ENQ_FOREVER};
    if (set)
        want(ENQ_PENDING, enq_start_set(e, reqs, 2, g, &ticket));
    else
        want(ENQ_PENDING, enq_start(e, reqs[0], g, &ticket));
}

/* One ahead gives up, so that the next, or a lock set, shares what is held; and
   tells nobody of the end of its ttl. */
static int share_and_stand_still(void *set)
{
    struct enq *e = unit_open();

    told_start(e, "a", ENQ_MODE_X, "other", 200);
    usleep(50000); /* nobody overtakes it any more */
    start_shared(e, *(bool *)set);
    want(ENQ_TIMEDOUT, told_without_descriptor(e).result);
    want(ENQ_OK, told_without_descriptor(e).result);
    raise(SIGSTOP);
    return 1;
}

/* A lock, and a lock set: when the last looked, another held it. */
TEST(who_is_the_first_behind_one_that_was_granted_looks_when_its_time_ends)
{
    struct enq *e = open_without_ticks(), *holder = unit_open();
    struct enq_grant g = told_lock(holder, "a", ENQ_MODE_S, 0);
    bool set = _i == 1;
    pid_t pid = unit_fork(share_and_stand_still, &set);
    int status;

    eventually(unit_stats(e).waiting >= (set ? 3 : 2));
    told_start(e, "a", ENQ_MODE_X, "late", ENQ_FOREVER);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(WIFSTOPPED(status));
    want(ENQ_OK, enq_unlock(holder, g.handle, g.token));
    want(ENQ_OK, told_without_descriptor(e).result);
    unit_kill(pid);
    enq_close(holder);
    enq_close(e);
}

/* In a session that does not listen; and where a delay keeps others out. */
TEST(those_of_one_session_get_the_lock_when_each_others_time_ends)
{
    struct enq *e = open_without_ticks(), *holder = unit_open();
    struct enq_grant g = told_lock(holder, "a", ENQ_MODE_X, 0);

    for (int i = 0; i < 5; i++)
        told_start_req(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .owner = "me", .ttl_ms = 200, .wait_ms = ENQ_FOREVER,
                .delay_ms = _i * 60000));
    want(ENQ_OK, enq_unlock(holder, g.handle, g.token));
    for (int i = 0; i < 5; i++)
        want(ENQ_OK, told_without_descriptor(e).result);
    enq_close(holder);
    enq_close(e);
}

static unsigned ticks_of(struct enq *e, uint64_t ticket)
{
    unsigned ticks;

    pthread_mutex_lock(&e->async.mutex);
    ticks = e->async.started[(uint32_t)ticket - 1]->plan.ticks;
    pthread_mutex_unlock(&e->async.mutex);
    return ticks;
}

/* Those ahead are another session's, and give up. */
TEST(who_has_become_the_first_is_glanced_at_each_tick)
{
    enum { AHEAD = 4 };
    struct enq *e = unit_open(), *other = unit_open();
    uint64_t ahead[AHEAD], last;

    told_lock(other, "a", ENQ_MODE_X, 0);
    for (int i = 0; i < AHEAD; i++)
        ahead[i] = told_start(other, "a", ENQ_MODE_X, "other", ENQ_FOREVER);
    last = told_start(e, "a", ENQ_MODE_X, "me", ENQ_FOREVER);
    eventually(ticks_of(e, last) == AHEAD);
    for (int i = 0; i < AHEAD; i++)
        want(ENQ_OK, enq_cancel(other, ahead[i]));
    eventually(ticks_of(e, last) == 1);
    enq_close(e);
    enq_close(other);
}

int main(void)
{
    unit_begin("glance");
    ADD(while_a_request_waits_its_holders_life_is_watched_and_no_bystanders);
    ADD(a_word_that_was_slept_on_before_is_slept_on_again);
    ADD_LOOP(
        whose_holder_dies_is_granted_though_all_other_processes_are_stopped, 2);
    ADD(who_has_become_the_first_looks_when_its_holders_time_ends);
    ADD_LOOP(
        who_is_the_first_behind_one_that_was_granted_looks_when_its_time_ends,
        2);
    ADD_LOOP(those_of_one_session_get_the_lock_when_each_others_time_ends, 2);
    ADD(who_has_become_the_first_is_glanced_at_each_tick);
    return unit_end();
}
