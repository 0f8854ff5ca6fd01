/*
 * check_sleeper.c - who is granted a lock that another thread gives back by its
 * id, before the waiter has looked: the entry is another's by then, and says
 * how that one sleeps. There are no ticks: who is not woken sleeps for ever.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/attachment.h"
#include "store/entry.h"
#include "sync/sys.h"
#include "told.h"

static struct enq *e, *other;
static struct enq_grant held; /* by `other`: what all of `e` wait for */

/* One that waits in `e`; or gives back the lock that is called so, and waits
   then, in the entry that it has given back. */
struct waiter {
    const char *id, *gives_back;
    pthread_t thread;
    pid_t tid;
    uint32_t stands, may_go, done; /* it stands still once, and goes on */
    struct enq_grant g;
    enq_handle given;
    int rc;
};

static _Thread_local struct waiter *self;
static bool before_sleep; /* that is where they stand; or behind their sleep */
static void (*real_wait)(const struct sys_watch *watches, unsigned n,
    mono_t until);

static void stand(void)
{
    if (self == NULL || shm_load(&self->stands))
        return;
    shm_store_release(&self->stands, 1);
    while (!shm_load_acquire(&self->may_go))
        unit_nap();
}

static void wait_and_stand(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    if (before_sleep)
        stand();
    real_wait(watches, n, until);
    stand();
}

static int ask(struct enq *of, const char *id, int64_t wait_ms,
    struct enq_grant *g)
{
    return enq_lock(of,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X, .id = id,
            .wait_ms = wait_ms),
        g);
}

static void other_takes_it(void)
{
    want(ENQ_OK, ask(other, NULL, 0, &held));
}

static void other_gives_it_back(void)
{
    want(ENQ_OK, enq_unlock(other, held.handle, held.token));
}

/* An entry that is given back is the next that is taken, once the thread has
   entries of its own. */
static enq_handle give_back(const char *id)
{
    struct enq_grant g;
    enq_handle handle;

    want(ENQ_OK, unit_lock(e, "n", id, ENQ_MODE_X, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_find(e, id, &handle));
    want(ENQ_OK, enq_unlock(e, handle, 0));
    other_takes_it();
    return handle;
}

static void *waits(void *waiter)
{
    struct waiter *w = waiter;

    self = w;
    w->tid = (pid_t)syscall(SYS_gettid);
    if (w->gives_back != NULL)
        w->given = give_back(w->gives_back);
    w->rc = ask(e, w->id, ENQ_FOREVER, &w->g);
    shm_store_release(&w->done, 1);
    return NULL;
}

static void begins(struct waiter *w)
{
    pthread_create(&w->thread, NULL, waits, w);
}

static void goes_on(struct waiter *w)
{
    shm_store_release(&w->may_go, 1);
}

static void ends(struct waiter *w, int rc)
{
    eventually(shm_load_acquire(&w->done));
    pthread_join(w->thread, NULL);
    want(rc, w->rc);
}

static ref_t ref_of(enq_handle handle)
{
    return (ref_t)(handle & ((1u << HANDLE_REF_BITS) - 1));
}

static bool is_asleep(const char *id)
{
    enq_handle handle;
    uint64_t state;
    struct entry *entry;

    if (enq_find(e, id, &handle) != ENQ_OK)
        return false;
    entry = entry_of_handle(e->map, handle, &state);
    return entry != NULL && STATE_PHASE(state) == PHASE_WAITING &&
        entry_sleeps(entry) == ASLEEP_THREAD;
}

/* In the kernel, and not in a nap of the test. */
static bool sleeps(const struct waiter *w)
{
    char path[64], line[16] = "";
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)w->tid);
    f = fopen(path, "r");
    if (f == NULL || fgets(line, sizeof(line), f) == NULL)
        line[0] = '\0';
    if (f != NULL)
        fclose(f);
    return atoi(line) == SYS_futex_waitv;
}

static void both_open(void)
{
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};

    setenv("ENQ_TICK_MS", "600000", 1);
    e = unit_open_with(&strict);
    other = unit_open_with(&strict);
    real_wait = sys.wait;
    sys.wait = wait_and_stand;
    other_takes_it();
}

static void both_close(void)
{
    sys.wait = real_wait;
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

TEST(who_wakes_up_late_does_not_say_that_the_next_is_awake)
{
    struct waiter first = {.id = "first"};
    struct waiter next = {.id = "next", .gives_back = "first", .may_go = 1};

    both_open();
    begins(&first);
    eventually(is_asleep("first"));
    other_gives_it_back();
    eventually(shm_load_acquire(&first.stands));
    begins(&next);
    eventually(is_asleep("next"));
    goes_on(&first);
    ends(&first, ENQ_CANCELLED);
    other_gives_it_back();
    ends(&next, ENQ_OK);
    ck_assert_uint_eq(ref_of(next.given), ref_of(next.g.handle));
    both_close();
}

/* Two on one word: it was given back between the first one's last look at it
   and the kernel's, which compares the half that has no generation. */
TEST(who_sleeps_on_the_word_of_the_next_takes_no_wake_up_from_it)
{
    struct waiter first = {.id = "first"};
    struct waiter next = {.id = "next", .gives_back = "first"};

    before_sleep = true;
    both_open();
    begins(&first);
    eventually(shm_load_acquire(&first.stands));
    other_gives_it_back();
    begins(&next);
    eventually(shm_load_acquire(&next.stands));
    goes_on(&first);
    eventually(sleeps(&first));
    goes_on(&next);
    eventually(sleeps(&next));
    other_gives_it_back();
    ends(&next, ENQ_OK);
    ends(&first, ENQ_CANCELLED);
    ck_assert_uint_eq(ref_of(next.given), ref_of(next.g.handle));
    both_close();
}

#ifdef ENQ_POINTS
static struct enq_grant started;
static uint64_t ticket;
static enq_handle given;

static void *gives_back_and_starts(void *nothing)
{
    other_gives_it_back();
    given = give_back("first");
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &started, &ticket));
    return nothing;
}

static void before_it_sleeps(const struct point *p)
{
    pthread_t another;

    if (self == NULL || strcmp(p->name, "wait.looked") != 0 ||
        shm_swap(&self->stands, 1) != 0)
        return;
    pthread_create(&another, NULL, gives_back_and_starts, NULL);
    pthread_join(another, NULL);
}

TEST(who_falls_asleep_late_does_not_say_that_a_started_request_is_its_own)
{
    struct waiter first = {.id = "first"};
    struct enq_event event;

    both_open();
    point_hook = before_it_sleeps;
    begins(&first);
    ends(&first, ENQ_CANCELLED);
    point_hook = NULL;
    other_gives_it_back();
    event = told_next(e);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_int_eq(event.result, ENQ_OK);
    ck_assert_uint_eq(ref_of(given), ref_of(event.grant.handle));
    both_close();
}

/* By hand: it is broken, told to another thread that asks, and taken anew. */
static uint32_t *said;
#define NEXT_ONE ASLEEP_BY(1234u, ASLEEP_BEHIND)

static void a_member_is_another_s(const struct point *p)
{
    struct entry *entry;
    enq_handle handle;
    uint64_t state;

    if (strcmp(p->name, "wait.looked") != 0 || said != NULL)
        return;
    want(ENQ_OK, enq_find(e, "member", &handle));
    entry = entry_of_handle(e->map, handle, &state);
    want(ENQ_OK, enq_break(other, "member"));
    want(ENQ_FORCED, enq_unlock(e, handle, 0));
    said = &entry->asleep;
    shm_store(said, NEXT_ONE);
}

TEST(a_set_does_not_say_how_the_next_waiter_for_a_member_sleeps)
{
    struct enq_grant g[2];
    const struct enq_req *both[] = {
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER),
        ENQ_REQ(.name = "n", .key = {"l"}, .mode = ENQ_MODE_X, .id = "member",
            .wait_ms = ENQ_FOREVER)};

    both_open();
    point_hook = a_member_is_another_s;
    want(ENQ_CANCELLED, enq_lock_set(e, both, 2, g));
    point_hook = NULL;
    ck_assert_uint_eq(shm_load(said), NEXT_ONE);
    both_close();
}
#endif

int main(void)
{
    unit_begin("sleeper");
    ADD(who_wakes_up_late_does_not_say_that_the_next_is_awake);
    ADD_IF(sys_has_waitv(), "needs futex_waitv",
        who_sleeps_on_the_word_of_the_next_takes_no_wake_up_from_it);
#ifdef ENQ_POINTS
    ADD(who_falls_asleep_late_does_not_say_that_a_started_request_is_its_own);
    ADD(a_set_does_not_say_how_the_next_waiter_for_a_member_sleeps);
#endif
    return unit_end();
}
