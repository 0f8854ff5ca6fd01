/*
 * check_glance.c - what the helper thread sleeps on, and what it glances at,
 * while started requests wait.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
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
    uint32_t ref;
    pid_t pid;
};

static int open_and_stay(void *stayer)
{
    struct stayer *s = stayer;
    struct enq *e = unit_open();

    if (s->key[0] != '\0')
        told_lock(e, s->key, ENQ_MODE_X, 0);
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

int main(void)
{
    unit_begin("glance");
    ADD(while_a_request_waits_its_holders_life_is_watched_and_no_bystanders);
    ADD(a_word_that_was_slept_on_before_is_slept_on_again);
    ADD_LOOP(
        whose_holder_dies_is_granted_though_all_other_processes_are_stopped, 2);
    return unit_end();
}
