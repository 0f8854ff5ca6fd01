/*
 * check_cycle.c - owners that wait for each other in a cycle are told so at
 * once; others are not.
 */
#include "wait/cycle.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

/* --- a request in a thread of its own --- */

struct asker {
    struct enq *e;
    const char *owner, *field;
    enum enq_mode mode;
    uint32_t flags;
    int64_t wait_ms;
    pthread_t thread;
    struct enq_grant g;
    char why[512];
    int rc;
};

static int ask(struct asker *a)
{
    a->rc = enq_lock(a->e,
        ENQ_REQ(.name = "n", .key = {a->field}, .mode = a->mode,
            .owner = a->owner, .wait_ms = a->wait_ms, .flags = a->flags),
        &a->g);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return a->rc;
}

static void *ask_in_thread(void *asker)
{
    ask(asker);
    return NULL;
}

static struct asker asker(struct enq *e, const char *owner, const char *field)
{
    return (struct asker){.e = e,
        .owner = owner,
        .field = field,
        .mode = ENQ_MODE_X,
        .wait_ms = ENQ_FOREVER};
}

static struct enq_grant holds(struct enq *e, const char *owner,
    const char *field, enum enq_mode mode)
{
    struct asker a = asker(e, owner, field);

    a.mode = mode;
    a.wait_ms = 0;
    want(ENQ_OK, ask(&a));
    return a.g;
}

static void begins_to_wait(struct asker *a)
{
    uint64_t before = unit_stats(a->e).waiting;

    pthread_create(&a->thread, NULL, ask_in_thread, a);
    eventually(unit_stats(a->e).waiting == before + 1);
    usleep(5000); /* and has looked for cycles */
}

static void frees(struct enq *e, const struct enq_grant *g)
{
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
}

/* --- cycles --- */

TEST(of_two_who_wait_for_each_other_the_second_is_refused_at_once)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct asker first = asker(e, "A", "b"), second = asker(e, "B", "a");
    int64_t begin;

    begins_to_wait(&first);
    begin = unit_now_ms();
    want(ENQ_DEADLOCK, ask(&second));
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 500 : 30) + test_starved_ms());
    ck_assert_str_eq(second.why,
        "deadlock: B waits for n/a; A has that and waits for n/b; the "
        "first one has that");
    ck_assert_str_eq(second.g.blocker.owner, "A");
    frees(e, &b);
    pthread_join(first.thread, NULL);
    want(ENQ_OK, first.rc);
    frees(e, &a);
    frees(e, &first.g);
    unit_healthy(e);
    enq_close(e);
}

TEST(a_cycle_may_be_long)
{
    static const char *const owners[] = {"A", "B", "C", "D", "E", "F"};
    static const char *const fields[] = {"a", "b", "c", "d", "e", "f"};
    struct enq *e = unit_open();
    struct enq_grant held[LENGTH(owners)];
    struct asker askers[LENGTH(owners)], last;

    for (unsigned i = 0; i < LENGTH(owners); i++)
        held[i] = holds(e, owners[i], fields[i], ENQ_MODE_X);
    for (unsigned i = 0; i + 1 < LENGTH(owners); i++) {
        askers[i] = asker(e, owners[i], fields[i + 1]);
        begins_to_wait(&askers[i]);
    }
    last = asker(e, "F", "a");
    want(ENQ_DEADLOCK, ask(&last));
    for (unsigned i = LENGTH(owners); i-- > 0;) {
        frees(e, &held[i]);
        if (i == 0)
            break;
        pthread_join(askers[i - 1].thread, NULL);
        want(ENQ_OK, askers[i - 1].rc);
        frees(e, &askers[i - 1].g);
    }
    unit_healthy(e);
    enq_close(e);
}

/* N holds its number's field, and waits for the next one's; the last of @n waits
   for the first one's. */
static void is_refused_for_a_cycle_of(struct enq *e, unsigned n,
    const char *words)
{
    char owner[80][32], field[80][32];
    struct enq_grant g;
    uint64_t ticket;
    int rc = ENQ_PENDING;

    for (unsigned i = 0; i <= n; i++) {
        snprintf(owner[i], sizeof(owner[i]), "o%u", i % n);
        snprintf(field[i], sizeof(field[i]), "%u-%u", n, i % n);
        if (i < n)
            holds(e, owner[i], field[i], ENQ_MODE_X);
    }
    for (unsigned i = 0; i < n && rc == ENQ_PENDING; i++)
        rc = enq_start(e,
            ENQ_REQ(.name = "n", .key = {field[i + 1]}, .mode = ENQ_MODE_X,
                .owner = owner[i], .wait_ms = ENQ_FOREVER),
            &g, &ticket);
    want_why(ENQ_DEADLOCK, rc, words);
}

TEST(a_cycle_is_told_unless_it_has_more_owners_than_people_read)
{
    struct enq *e = unit_open();

    is_refused_for_a_cycle_of(e, 64, "deadlock: o63 waits for n/64-0; o0 ");
    is_refused_for_a_cycle_of(e, 65,
        "deadlock: a cycle of many owners; the first one has that");
    enq_close(e);
}

TEST(a_cycle_through_generic_and_shared_locks_is_seen)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_S);
    struct enq_grant c = holds(e, "C", "a", ENQ_MODE_S);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct asker first = asker(e, "A", "b"), second = asker(e, "B", "@");

    begins_to_wait(&first);
    want(ENQ_DEADLOCK, ask(&second));
    frees(e, &b);
    pthread_join(first.thread, NULL);
    frees(e, &first.g);
    frees(e, &a);
    frees(e, &c);
    unit_healthy(e);
    enq_close(e);
}

/* Waiters look again by themselves each second. */
#define AT_ONCE_MS (UNIT_SANITIZED ? 300 : 50)

/* B is behind A's request for c, and A waits for what B has: once A has got c,
   neither will go on. */
TEST(a_cycle_that_a_grant_closes_is_seen_at_once)
{
    int64_t begin, starved;
    struct enq *e = unit_open();
    struct enq_grant c = holds(e, "C", "c", ENQ_MODE_S);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct asker first = asker(e, "A", "c"), other = asker(e, "A", "b");
    struct asker second = asker(e, "B", "c");

    begins_to_wait(&first);
    begins_to_wait(&other);
    begins_to_wait(&second);
    starved = test_starved_ms();
    begin = unit_now_ms();
    frees(e, &c);
    pthread_join(first.thread, NULL);
    want(ENQ_OK, first.rc);
    eventually(unit_stats(e).waiting == 1);
    ck_assert_int_le(unit_now_ms() - begin,
        AT_ONCE_MS + test_starved_ms() - starved);
    frees(e, &first.g);
    pthread_join(second.thread, NULL); /* refused, or granted now */
    if (second.rc == ENQ_OK)
        frees(e, &second.g);
    frees(e, &b);
    pthread_join(other.thread, NULL);
    ck_assert_int_eq((second.rc == ENQ_DEADLOCK) + (other.rc == ENQ_DEADLOCK),
        1);
    if (other.rc == ENQ_OK)
        frees(e, &other.g);
    unit_healthy(e);
    enq_close(e);
}

/* Threads of one owner and another one, all after the same. */
TEST(an_owner_on_both_sides_of_another_in_one_queue_is_no_cycle)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct asker one = asker(e, "B", "a"), two = asker(e, "C", "a");
    struct asker three = asker(e, "B", "a");

    begins_to_wait(&one);
    begins_to_wait(&two);
    three.wait_ms = 60;
    want(ENQ_TIMEDOUT, ask(&three));
    frees(e, &a);
    pthread_join(one.thread, NULL);
    frees(e, &one.g);
    pthread_join(two.thread, NULL);
    frees(e, &two.g);
    enq_close(e);
}

TEST(a_started_request_that_closes_a_cycle_is_refused_at_once)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X), g;
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_event event;
    uint64_t ticket;

    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X, .owner = "A",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    want(ENQ_DEADLOCK,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "B",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    ck_assert_uint_eq(ticket, 0);
    ck_assert_ptr_nonnull(strstr(enq_why(), "A has that"));
    frees(e, &b);
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_OK, event.result);
    frees(e, &a);
    frees(e, &event.grant);
    unit_healthy(e);
    enq_close(e);
}

/* --- no cycles --- */

TEST(who_waits_for_one_who_waits_for_a_third_is_not_refused)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct enq_grant c = holds(e, "C", "c", ENQ_MODE_X);
    struct asker first = asker(e, "B", "c"), second = asker(e, "A", "b");

    begins_to_wait(&first);
    second.wait_ms = 60;
    want(ENQ_TIMEDOUT, ask(&second));
    frees(e, &c);
    pthread_join(first.thread, NULL);
    frees(e, &first.g);
    frees(e, &b);
    enq_close(e);
}

TEST(an_owner_that_waits_for_itself_is_no_cycle)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X);
    struct asker again = asker(e, "A", "a");

    again.wait_ms = 60;
    want(ENQ_TIMEDOUT, ask(&again));
    frees(e, &a);
    enq_close(e);
}

/* A cycle by its locks, but for one thing. */
static void waits_out(const char *owner, uint32_t flags)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, owner, "a", ENQ_MODE_X);
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct asker first = asker(e, owner, "b"), second = asker(e, "B", "a");

    begins_to_wait(&first);
    second.flags = flags;
    second.wait_ms = 60;
    want(ENQ_TIMEDOUT, ask(&second));
    frees(e, &b);
    pthread_join(first.thread, NULL);
    frees(e, &first.g);
    frees(e, &a);
    enq_close(e);
}

TEST(nobodys_requests_close_no_cycle)
{
    waits_out("", 0);
}

TEST(who_asks_not_to_look_waits)
{
    waits_out("A", ENQ_NO_DEADLOCK);
}

/* --- the graph --- */

TEST(the_graph_shows_who_waits_for_whom)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_S);
    struct enq_grant c = holds(e, "C", "a", ENQ_MODE_S);
    struct asker first = asker(e, "B", "a"), second = asker(e, "D", "@");
    struct enq_edge edges[8];
    size_t total;

    want(ENQ_OK, enq_graph(e, NULL, 0, &total));
    want_why(-EINVAL, enq_graph(e, NULL, 1, &total), "NULL");
    ck_assert_uint_eq(total, 0);
    begins_to_wait(&first);
    begins_to_wait(&second);
    want(ENQ_OK, enq_graph(e, edges, LENGTH(edges), &total));
    ck_assert_uint_eq(total, 2 + 3);
    for (size_t i = 0; i < total; i++) {
        const struct enq_info *w = &edges[i].waiter, *b = &edges[i].blocker;

        ck_assert(w->waiting);
        ck_assert_str_eq(w->key, strcmp(w->owner, "B") == 0 ? "a" : "@");
        ck_assert_int_eq(b->waiting, strcmp(b->owner, "B") == 0);
    }
    want(-EINVAL, enq_graph(e, NULL, 1, NULL));
    frees(e, &a);
    frees(e, &c);
    pthread_join(first.thread, NULL);
    frees(e, &first.g);
    pthread_join(second.thread, NULL);
    frees(e, &second.g);
    want(ENQ_OK, enq_graph(e, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    enq_close(e);
}

/* --- at once --- */

struct dancer {
    struct enq *e;
    const char *owner, *mine, *others;
    pthread_barrier_t *barrier;
    unsigned refused, granted;
};

#define DANCES 300

static void *dance(void *arg)
{
    struct dancer *d = arg;

    for (int i = 0; i < DANCES; i++) {
        struct enq_grant mine = holds(d->e, d->owner, d->mine, ENQ_MODE_X);
        struct asker a = asker(d->e, d->owner, d->others);

        pthread_barrier_wait(d->barrier);
        ask(&a);
        d->refused += a.rc == ENQ_DEADLOCK;
        d->granted += a.rc == ENQ_OK;
        frees(d->e, &mine);
        if (a.rc == ENQ_OK)
            frees(d->e, &a.g);
        pthread_barrier_wait(d->barrier);
    }
    return NULL;
}

TEST(of_two_who_close_a_cycle_at_once_exactly_one_is_refused)
{
    struct enq *e = unit_open();
    pthread_barrier_t barrier;
    struct dancer a = {e, "A", "a", "b", &barrier, 0, 0};
    struct dancer b = {e, "B", "b", "a", &barrier, 0, 0};
    pthread_t thread;

    pthread_barrier_init(&barrier, NULL, 2);
    pthread_create(&thread, NULL, dance, &a);
    dance(&b);
    pthread_join(thread, NULL);
    ck_assert_uint_eq(a.refused + b.refused, DANCES);
    ck_assert_uint_eq(a.granted + b.granted, DANCES);
    unit_healthy(e);
    enq_close(e);
}

static void gives_back(struct enq *e, struct asker *a)
{
    pthread_join(a->thread, NULL);
    if (a->rc == ENQ_OK)
        frees(e, &a->g);
}

TEST(a_cycle_that_a_grant_closes_is_seen_by_those_who_stand_behind_others)
{
    struct enq *e = unit_open();
    struct enq_grant k = holds(e, "Z", "k", ENQ_MODE_X);
    struct asker h = asker(e, "H", "k"), d = asker(e, "D", "k");
    struct asker b = asker(e, "B", "k"), c = asker(e, "C", "m");
    struct asker again = asker(e, "H", "m");
    struct enq_grant m = holds(e, "B", "m", ENQ_MODE_X);
    int64_t begin, starved;

    d.mode = b.mode = c.mode = again.mode = ENQ_MODE_S;
    b.wait_ms = again.wait_ms = 4000;
    begins_to_wait(&h);
    begins_to_wait(&d);
    begins_to_wait(&b);
    begins_to_wait(&c);
    begins_to_wait(&again);
    starved = test_starved_ms();
    begin = unit_now_ms();
    frees(e, &k); /* H has it: B waits for H, and H, again, for B */
    eventually(unit_stats(e).waiting <= 3);
    ck_assert_int_le(unit_now_ms() - begin,
        AT_ONCE_MS + test_starved_ms() - starved);
    gives_back(e, &h);
    gives_back(e, &d);
    gives_back(e, &b);
    frees(e, &m);
    gives_back(e, &c);
    gives_back(e, &again);
    ck_assert((b.rc == ENQ_DEADLOCK) != (again.rc == ENQ_DEADLOCK));
    enq_close(e);
}

/* The same among requests that no thread waits for. In a strict space, or B may
   overtake H and have both. */
TEST(a_cycle_that_a_grant_closes_among_started_requests_is_seen)
{
    struct enq_open_opts strict = {.size = sizeof(strict), .strict = 1};
    struct enq *e = unit_open_with(&strict);
    struct enq_grant k = holds(e, "Z", "k", ENQ_MODE_X), g;
    struct enq_event event;
    int64_t begin, starved;
    uint64_t ticket;

    holds(e, "B", "m", ENQ_MODE_X);
    for (int i = 0; i < 3; i++) /* H and B for k, H for m */
        want(ENQ_PENDING,
            enq_start(e,
                ENQ_REQ(.name = "n", .key = {i < 2 ? "k" : "m"},
                    .mode = ENQ_MODE_X, .owner = i == 1 ? "B" : "H",
                    .wait_ms = ENQ_FOREVER),
                &g, &ticket));
    starved = test_starved_ms();
    begin = unit_now_ms();
    frees(e, &k);
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_OK, event.result);
    eventually(enq_next(e, &event) == ENQ_OK);
    want(ENQ_DEADLOCK, event.result); /* one of the two, and not both */
    ck_assert_int_le(unit_now_ms() - begin,
        AT_ONCE_MS + test_starved_ms() - starved);
    want(ENQ_PENDING, enq_next(e, &event));
    enq_close(e);
}

/* Whoever closes a cycle, and is then not let run for 20 ms, leaves it to the
   other: on a busy machine that happens now and then. */
static bool is_refused_each_time(struct asker *closer)
{
    int64_t begin = unit_now_ms();

    while (unit_now_ms() - begin < 1500) /* the other looks each second */
        if (ask(closer) != ENQ_DEADLOCK)
            return false;
    return true;
}

TEST(who_waits_is_not_refused_for_one_who_closes_cycles_again_and_again)
{
    struct enq *e = unit_open();
    struct enq_grant a = holds(e, "A", "a", ENQ_MODE_X), g;
    struct asker closer = asker(e, "B", "a");
    struct enq_event event;
    uint64_t ticket;
    int plays = 0;

    holds(e, "B", "b", ENQ_MODE_X);
    closer.wait_ms = 500;
    do {
        ck_assert_int_lt(plays++, 20);
        while (enq_next(e, &event) == ENQ_OK)
            ck_assert_int_eq(event.result, ENQ_DEADLOCK);
        want(ENQ_PENDING,
            enq_start(e,
                ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X,
                    .owner = "A", .wait_ms = ENQ_FOREVER),
                &g, &ticket));
    } while (!is_refused_each_time(&closer));
    want(ENQ_PENDING, enq_next(e, &event));
    frees(e, &a);
    enq_close(e);
}

/* It keeps others out for a while yet, but nobody has it to give back: B waits
   for time alone. Of the two, either waits first. */
TEST(a_lock_that_is_only_delayed_closes_no_cycle)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    struct asker c = asker(e, "C", "b"), d = asker(e, "B", "a");

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "C",
                .ttl_ms = 20, .delay_ms = 300),
            &a));
    b = holds(e, "B", "b", ENQ_MODE_X);
    usleep(50000);
    begins_to_wait(_i == 0 ? &c : &d);
    begins_to_wait(_i == 0 ? &d : &c);
    pthread_join(d.thread, NULL);
    want(ENQ_OK, d.rc);
    frees(e, &d.g);
    frees(e, &b);
    pthread_join(c.thread, NULL);
    want(ENQ_OK, c.rc);
    frees(e, &c.g);
    enq_close(e);
}

int main(void)
{
    unit_begin("cycle");
    ADD(of_two_who_wait_for_each_other_the_second_is_refused_at_once);
    ADD(a_cycle_may_be_long);
    ADD(a_cycle_is_told_unless_it_has_more_owners_than_people_read);
    ADD(a_cycle_through_generic_and_shared_locks_is_seen);
    ADD(a_cycle_that_a_grant_closes_is_seen_at_once);
    ADD(an_owner_on_both_sides_of_another_in_one_queue_is_no_cycle);
    ADD(a_started_request_that_closes_a_cycle_is_refused_at_once);
    ADD(who_waits_for_one_who_waits_for_a_third_is_not_refused);
    ADD(an_owner_that_waits_for_itself_is_no_cycle);
    ADD(nobodys_requests_close_no_cycle);
    ADD(who_asks_not_to_look_waits);
    ADD(the_graph_shows_who_waits_for_whom);
    ADD(of_two_who_close_a_cycle_at_once_exactly_one_is_refused);
    ADD(a_cycle_that_a_grant_closes_is_seen_by_those_who_stand_behind_others);
    ADD(a_cycle_that_a_grant_closes_among_started_requests_is_seen);
    ADD(who_waits_is_not_refused_for_one_who_closes_cycles_again_and_again);
    ADD_LOOP(a_lock_that_is_only_delayed_closes_no_cycle, 2);
    return unit_end();
}
