/*
 * check_set_faults.c - lock sets that others, the time or a death cut across.
 */
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>

#include "api/attachment.h"
#include "lib/latches.h"
#include "party.h"
#include "recovery/recover.h"
#include "sync/hooks.h"

/* --- one lock, waited for in a thread --- */

struct single {
    struct enq *e;
    struct enq_req req;
    struct enq_grant g;
    pthread_t thread;
    int rc;
    uint32_t done;
};

static void *ask_for_one(void *single)
{
    struct single *s = single;

    s->rc = enq_lock(s->e, &s->req, &s->g);
    shm_store_release(&s->done, 1);
    return NULL;
}

static void queues(struct single *s, struct enq *e, const char *owner,
    const char *field)
{
    size_t before = count(e, true);

    *s = (struct single){.e = e};
    s->req = (struct enq_req){.size = sizeof(s->req),
        .name = "n",
        .key = {field},
        .mode = ENQ_MODE_X,
        .owner = owner,
        .wait_ms = ENQ_FOREVER};
    pthread_create(&s->thread, NULL, ask_for_one, s);
    eventually(count(e, true) == before + 1);
    usleep(2000);
}

static void has_it(struct single *s)
{
    eventually(shm_load_acquire(&s->done));
    pthread_join(s->thread, NULL);
    want(ENQ_OK, s->rc);
}

/* --- passing a set that waits for oneself --- */

TEST(who_waits_behind_a_set_passes_it_when_the_lock_before_both_goes)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "C", "b", ENQ_MODE_X);
    struct single mine;
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    queues(&mine, e, "B", "b");
    usleep(100000);
    frees(e, &b);
    has_it(&mine);
    frees(e, &mine.g);
    frees(e, &a);
    has_come(&p);
    goes(&p);
    ends(e);
}

TEST(a_waiter_behind_a_set_passes_it_when_it_comes_to_wait_for_that_owner)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "C", "a", ENQ_MODE_X);
    struct single before, behind;
    struct party p;

    queues(&before, e, "B", "a");
    invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    queues(&behind, e, "B", "b");
    frees(e, &a);
    has_it(&before);
    has_it(&behind); /* the set waits for what this one has got now */
    frees(e, &behind.g);
    frees(e, &before.g);
    has_come(&p);
    goes(&p);
    ends(e);
}

TEST(so_does_one_who_waits_without_a_thread)
{
    struct enq *e = unit_open();
    struct enq_event event;
    struct single before;
    struct party p, mine;
    struct enq_grant a, g;
    uint64_t ticket;

    for (int set = 0; set <= 1; set++) {
        a = holds(e, "C", "a", ENQ_MODE_X);
        queues(&before, e, "B", "a");
        invite(&p, e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
        begins_to_wait(&p);
        invite(&mine, e, "B", ENQ_MODE_X, "b", ENQ_FOREVER);
        want(ENQ_PENDING,
            set ? enq_start_set(e, mine.reqs, 1, &g, &ticket)
                : enq_start(e, &mine.req[0], &g, &ticket));
        usleep(2000);
        frees(e, &a);
        has_it(&before);
        event = next_result(e);
        want(ENQ_OK, event.result);
        frees(e, &event.grant);
        frees(e, &before.g);
        has_come(&p);
        goes(&p);
    }
    ends(e);
}

#define MANY 12

/* A request that looked while its owner still had the lock may pass once more. */
static struct party *who_has_it(struct party *p, const struct enq_event *event)
{
    for (unsigned i = 0; i < MANY; i++)
        if (p[i].g[0].token == event->grant.token)
            return &p[i];
    ck_abort_msg("a grant of nobody's");
}

TEST(many_sets_that_wait_for_an_owner_are_none_in_its_way)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct party p[MANY];
    struct enq_event event;
    uint64_t ticket;

    for (unsigned i = 0; i < MANY; i++) {
        invite(&p[i], e, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
        want(ENQ_PENDING, enq_start_set(e, p[i].reqs, 2, p[i].g, &ticket));
        usleep(5000);
        want(ENQ_OK, tries(e, "B", "b", ENQ_MODE_X));
    }
    frees(e, &a);
    for (unsigned i = 0; i < MANY; i++) {
        event = next_result(e);
        want(ENQ_OK, event.result);
        goes(who_has_it(p, &event));
    }
    ends(e);
}

/* --- what a session is told --- */

static bool is_told(struct enq *e, enum enq_event_kind kind, int patience_ms)
{
    struct pollfd ready = {enq_fd(e), POLLIN, 0};
    struct enq_event event;

    while (poll(&ready, 1, patience_ms) == 1) {
        want(ENQ_OK, enq_next(e, &event));
        if (event.kind == kind)
            return true;
    }
    return false;
}

TEST(who_is_granted_a_set_that_others_wait_for_is_told_of_them)
{
    struct enq *e = unit_open(), *mine;
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct single next;
    struct party p;

    want(ENQ_OK, enq_open(&mine, unit_space(), NULL));
    ck_assert_int_ge(enq_fd(mine), 0);
    usleep(200000); /* it looks twice at what it holds already */
    invite(&p, mine, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    queues(&next, e, "C", "a");
    frees(e, &a);
    has_come(&p);
    ck_assert(is_told(mine, ENQ_EVENT_BLOCKING, 700));
    goes(&p);
    has_it(&next);
    frees(e, &next.g);
    enq_close(mine);
    ends(e);
}

/* --- a thread that stands at a point --- */

static struct {
    const char *point;
    uint32_t armed, there, go;
} stop;

static void stand(const struct point *p)
{
    uint32_t armed = 1;

    if (stop.point == NULL || strcmp(p->name, stop.point) != 0 ||
        !shm_cas(&stop.armed, &armed, 0))
        return;
    shm_store_release(&stop.there, 1);
    while (!shm_load_acquire(&stop.go))
        unit_nap();
}

static void stop_at(const char *point)
{
    stop.point = point;
    stop.armed = 1;
    stop.there = stop.go = 0;
    point_hook = stand;
}

TEST(a_member_that_was_never_granted_is_not_told_to_be_lost)
{
    struct enq *e = unit_open(), *mine;
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_info infos[8];
    struct party p;
    size_t n;

    want(ENQ_OK, enq_open(&mine, unit_space(), NULL));
    ck_assert_int_ge(enq_fd(mine), 0);
    invite(&p, mine, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    stop_at("wait.woken");
    want(ENQ_OK, enq_list(e, NULL, "A", infos, LENGTH(infos), &n));
    want(ENQ_OK, enq_break(e, infos[0].id));
    eventually(shm_load_acquire(&stop.there));
    ck_assert(!is_told(mine, ENQ_EVENT_LOST, 300));
    shm_store_release(&stop.go, 1);
    pthread_join(p.thread, NULL);
    want(ENQ_CANCELLED, p.rc);
    frees(e, &b);
    enq_close(mine);
    ends(e);
}

/* --- what runs out in the middle --- */

static mono_t (*true_now)(void);

static unsigned times_read;

static mono_t later_from_the_second_time_on(void)
{
    return mono_add_ns(true_now(), times_read++ == 0 ? 0 : NS_PER_S);
}

/* So short a ttl is judged by the exact clock, once for each member: it has not
   run out for the first and has for the second, so that what the first has seen
   is dropped by then. */
TEST(a_lock_that_runs_out_between_two_members_on_its_key_goes_for_both)
{
    struct enq *e = unit_open();
    struct party p;

    true_now = sys.now;
    invite(&p, e, "A", ENQ_MODE_S, "a a", 0);
    p.req[0].ttl_ms = p.req[1].ttl_ms = ENQ_FOREVER;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_S, .owner = "B",
                .ttl_ms = 40),
            &p.g[0]));
    sys.now = later_from_the_second_time_on;
    want(ENQ_OK, come(&p));
    ck_assert_uint_ge(times_read, 2);
    unit_healthy(e);
    goes(&p);
    sys.now = true_now;
    ends(e);
}

TEST(two_members_on_one_key_may_wait_and_the_table_is_sound)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X);
    struct party p;

    invite(&p, e, "A", ENQ_MODE_S, "a a", ENQ_FOREVER);
    begins_to_wait(&p);
    unit_healthy(e);
    frees(e, &a);
    has_come(&p);
    goes(&p);
    ends(e);
}

/* What a closing attachment says of itself first: all of it ends. */
TEST(a_set_that_waits_in_an_attachment_that_is_being_closed_is_cancelled)
{
    struct enq *e = unit_open(), *mine;
    struct party p;
    struct enq_grant b;

    want(ENQ_OK, enq_open(&mine, unit_space(), NULL));
    b = holds(mine, "B", "b", ENQ_MODE_X);
    invite(&p, mine, "A", ENQ_MODE_X, "a b", ENQ_FOREVER);
    begins_to_wait(&p);
    shm_store_release(&mine->session.slot->state, SESSION_ENDING);
    pthread_join(p.thread, NULL);
    want(ENQ_CANCELLED, p.rc);
    shm_store_release(&mine->session.slot->state, SESSION_LIVE);
    want(ENQ_OWNERDIED, enq_valid(mine, b.handle));
    unit_healthy(e);
    enq_close(mine);
    ends(e);
}

/* --- what is asked for --- */

TEST(one_whose_id_is_taken_is_named_though_another_is_busy)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X), z;
    struct party p;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"z"}, .mode = ENQ_MODE_X, .owner = "C",
                .id = "mine"),
            &z));
    for (int64_t wait_ms = 0; wait_ms <= 100; wait_ms += 100) {
        invite(&p, e, "A", ENQ_MODE_X, "a b", wait_ms);
        p.req[1].id = "mine";
        want(ENQ_EXISTS, come(&p));
        ck_assert_str_eq(p.g[0].blocker.owner, "");
        ck_assert_str_eq(p.g[1].blocker.owner, "C");
        ck_assert_msg(strstr(p.why, "id \"mine\" already exists") != NULL, "%s",
            p.why);
    }
    frees(e, &z);
    frees(e, &a);
    ends(e);
}

TEST(a_request_of_a_newer_header_refuses_the_set_and_no_heartbeat_goes_twice)
{
    static struct {
        struct enq_req req;
        uint64_t more;
    } newer;
    struct enq *e = unit_open();
    struct party p;

    for (int i = 0; i < 3; i++) {
        invite(&p, e, "A", ENQ_MODE_X, "a b", 0);
        p.req[0].heartbeat_ms = 1000;
        newer.req = p.req[1];
        newer.req.size = sizeof(newer);
        newer.more = 1;
        p.reqs[1] = &newer.req;
        want(-E2BIG, come(&p));
        ck_assert(cds_list_empty(&e->async.heartbeats));
    }
    ends(e);
}

static __attribute__((noinline)) void dirty_the_stack(void)
{
    volatile char bytes[64 * 1024];

    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)0xa5;
}

static int never_recovers(struct map *map, struct thread *me)
{
    (void)map, (void)me;
    return ENQ_ECORRUPT;
}

static uint32_t shard_of(struct enq *e, enq_handle handle)
{
    uint64_t state;

    return shard_of_hash(entry_of_handle(e->map, handle, &state)->hash);
}

#define NOBODY 1u /* no thread has generation 0: a dead one's */

TEST(a_latch_that_cannot_be_recovered_is_said_of_the_set)
{
    struct enq *e = unit_open();
    struct enq_grant g = holds(e, "A", "a", ENQ_MODE_X);
    uint32_t *word = latch_of_handle(e->map, g.handle);
    struct party p;

    frees(e, &g);
    invite(&p, e, "A", ENQ_MODE_X, "a", 0);
    hooks.recover = never_recovers;
    *word = NOBODY;
    dirty_the_stack();
    want(ENQ_ECORRUPT, come(&p));
    *word = 0;
    hooks.recover = recover;
    ends(e);
}

/* A lock whose heartbeat has the helper thread stand still, under the word of
   another bucket than those of a and b. */
static struct enq_grant halts_the_helper(struct enq *e,
    const uint32_t shards[2])
{
    struct enq_grant g;
    char field[8];

    for (unsigned i = 0;; i++) {
        snprintf(field, sizeof(field), "z%u", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
                    .owner = "A", .heartbeat_ms = 20),
                &g));
        if (shard_of(e, g.handle) != shards[0] &&
            shard_of(e, g.handle) != shards[1])
            return g;
        frees(e, &g);
    }
}

/* The helper thread's first look may come when the caller's texts are gone. */
TEST(a_started_set_does_not_look_at_its_callers_texts)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "B", "a", ENQ_MODE_X), z;
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    uint32_t shards[] = {shard_of(e, a.handle), shard_of(e, b.handle)};
    char *texts = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    struct party p;
    uint64_t ticket;

    stop_at("renew.stored");
    z = halts_the_helper(e, shards);
    eventually(shm_load_acquire(&stop.there));
    invite(&p, e, strcpy(texts, "A"), ENQ_MODE_X, "a b", ENQ_FOREVER);
    p.req[0].id = strcpy(texts + 64, "the caller's");
    want(ENQ_PENDING, enq_start_set(e, p.reqs, 2, p.g, &ticket));
    munmap(texts, 4096);
    want(ENQ_OK, enq_cancel(e, ticket));
    shm_store_release(&stop.go, 1);
    want(ENQ_CANCELLED, next_result(e).result);
    frees(e, &a);
    frees(e, &b);
    frees(e, &z);
    ends(e);
}

/* --- death in the middle --- */

static int left;

static void die_there(const struct point *p)
{
    if (strcmp(p->name, "set.member_held") == 0 && left-- == 0)
        raise(SIGKILL);
}

struct will {
    const char *fields;
    enum enq_death on_death;
    int64_t delay_ms;
};

static int dies_at_the_second(void *will)
{
    const struct will *w = will;
    struct enq *e = unit_open();
    struct party p;

    invite(&p, e, "A", ENQ_MODE_E, w->fields, 0);
    for (size_t i = 0; i < p.n; i++) {
        p.req[i].on_death = w->on_death;
        p.req[i].delay_ms = w->delay_ms;
    }
    left = 1;
    point_hook = die_there;
    come(&p);
    return 1;
}

static struct will wills[] = {
    {"a b c", ENQ_DEATH_LEASE, 0},
    {"a b @", ENQ_DEATH_LEASE, 0},
    {"a b c", ENQ_DEATH_RELEASE, 5000},
};

TEST(who_is_killed_in_the_middle_of_a_set_that_outlives_its_taker_leaves_none)
{
    struct enq *e = unit_open();
    struct party p;

    unit_killed(unit_fork(dies_at_the_second, &wills[_i]));
    invite(&p, e, "B", ENQ_MODE_X, "a b c", 500);
    want(ENQ_OK, come(&p));
    unit_healthy(e);
    goes(&p);
    ends(e);
}

/* --- death while another recovers --- */

static pid_t taker;
static uint32_t *taken; /* shared */

static void tell_and_stand(const struct point *p)
{
    if (strcmp(p->name, "set.member_held") != 0 || left-- != 0)
        return;
    shm_store_release(taken, 1);
    pause();
}

static int takes_in_part(void *unused)
{
    struct enq *e = unit_open();
    struct party p;

    (void)unused;
    invite(&p, e, "A", ENQ_MODE_X, "a b c", 0);
    for (size_t i = 0; i < p.n; i++)
        p.req[i].on_death = ENQ_DEATH_LEASE;
    left = 1;
    point_hook = tell_and_stand;
    come(&p);
    return 1;
}

static void kill_the_taker(const struct point *p)
{
    if (strcmp(p->name, "recover.slot_read") != 0 || taker == 0)
        return;
    unit_kill(taker);
    taker = 0;
}

/* What the thread had noted of its set was not undone, and its slot is free:
   or it is not, until it was. */
TEST(who_is_killed_in_the_middle_while_another_recovers_leaves_none)
{
    struct enq *e = unit_open();
    struct thread *me = thread_enter(e->map);
    struct party p;

    taken = unit_shared(sizeof(*taken));
    taker = unit_fork(takes_in_part, NULL);
    eventually(shm_load_acquire(taken));
    point_hook = kill_the_taker;
    ck_assert_int_eq(recover(e->map, me), 0);
    point_hook = NULL;
    ck_assert_int_eq(taker, 0);
    invite(&p, e, "B", ENQ_MODE_X, "a b c", 500);
    want(ENQ_OK, come(&p));
    unit_healthy(e);
    goes(&p);
    ends(e);
}

int main(void)
{
    unit_begin("set_faults");
    ADD(who_waits_behind_a_set_passes_it_when_the_lock_before_both_goes);
    ADD(a_waiter_behind_a_set_passes_it_when_it_comes_to_wait_for_that_owner);
    ADD(so_does_one_who_waits_without_a_thread);
    ADD(many_sets_that_wait_for_an_owner_are_none_in_its_way);
    ADD(who_is_granted_a_set_that_others_wait_for_is_told_of_them);
    ADD(a_member_that_was_never_granted_is_not_told_to_be_lost);
    ADD(a_lock_that_runs_out_between_two_members_on_its_key_goes_for_both);
    ADD(two_members_on_one_key_may_wait_and_the_table_is_sound);
    ADD(a_set_that_waits_in_an_attachment_that_is_being_closed_is_cancelled);
    ADD(one_whose_id_is_taken_is_named_though_another_is_busy);
    ADD(a_request_of_a_newer_header_refuses_the_set_and_no_heartbeat_goes_twice);
    ADD(a_latch_that_cannot_be_recovered_is_said_of_the_set);
    ADD(a_started_set_does_not_look_at_its_callers_texts);
    ADD_LOOP(
        who_is_killed_in_the_middle_of_a_set_that_outlives_its_taker_leaves_none,
        LENGTH(wills));
    ADD(who_is_killed_in_the_middle_while_another_recovers_leaves_none);
    return unit_end();
}
