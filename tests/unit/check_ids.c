/*
 * check_ids.c - ids: brought and derived, unique, found, and told.
 */
#include "lock/ids.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sync/sys.h"
#include "unit.h"

static int lock_as(struct enq *e, const char *field, const char *id,
    int64_t ttl_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X, .id = id,
            .ttl_ms = ttl_ms),
        g);
}

TEST(an_id_leads_to_a_handle_and_back)
{
    struct enq *e = unit_open();
    struct enq_grant brought, derived;
    char id[ENQ_ID_BYTES];
    enq_handle h;

    want(ENQ_OK, lock_as(e, "a", "order 7", 0, &brought));
    want(ENQ_OK, lock_as(e, "b", NULL, 0, &derived));
    want(ENQ_OK, enq_id(e, brought.handle, id));
    ck_assert_str_eq(id, "order 7");
    want(ENQ_OK, enq_find(e, id, &h));
    ck_assert_uint_eq(h, brought.handle);
    want(ENQ_OK, enq_id(e, derived.handle, id));
    ck_assert_uint_eq(strlen(id), 36);
    want(ENQ_OK, enq_find(e, id, &h));
    ck_assert_uint_eq(h, derived.handle);
    enq_close(e);
}

TEST(a_second_lock_with_an_id_is_refused_and_told_whose_it_is)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;

    want(ENQ_OK, lock_as(e, "a", "same", 0, &a));
    want_why(ENQ_EXISTS, lock_as(e, "b", "same", 0, &b), "same");
    ck_assert_str_eq(b.blocker.owner, "me");
    ck_assert_str_eq(b.blocker.id, "same");
    want(ENQ_EXISTS, lock_as(e, "a", "same", 0, &b));
    want(ENQ_OK, enq_valid(e, a.handle));
    unit_healthy(e);
    want(ENQ_OK, enq_unlock(e, a.handle, a.token));
    want(ENQ_OK, lock_as(e, "b", "same", 0, &b));
    unit_healthy(e);
    enq_close(e);
}

/* In a table with room for 21: whatever was in the way, or nothing was. */
TEST(a_lock_that_is_refused_for_its_id_takes_no_room)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 21, .owner = "me"};
    char field[16];
    struct enq_grant a, b[2];
    uint64_t ticket;
    struct enq *e;

    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    want(ENQ_OK, lock_as(e, "a", "same", 0, &a));
    for (int i = 0; i < 100; i++) {
        const struct enq_req *one = ENQ_REQ(.name = "n", .key = {"free"},
            .mode = ENQ_MODE_X, .id = "same", .wait_ms = ENQ_FOREVER);
        const struct enq_req *set[] = {
            ENQ_REQ(.name = "n", .key = {"other"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            one};

        want(ENQ_EXISTS, lock_as(e, "free", "same", 0, b));
        want(ENQ_EXISTS, lock_as(e, "a", "same", 0, b));
        want(ENQ_EXISTS, lock_as(e, "@", "same", 0, b));
        want(ENQ_EXISTS, enq_lock(e, one, b));
        want(ENQ_EXISTS, enq_start(e, one, b, &ticket));
        want(ENQ_EXISTS, enq_lock_set(e, set, 2, b));
        want(ENQ_EXISTS, enq_start_set(e, set, 2, b, &ticket));
    }
    for (int i = 0; i < 20; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, lock_as(e, field, NULL, 0, b));
    }
    unit_healthy(e);
    enq_close(e);
}

TEST(the_id_of_an_expired_lock_is_free)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    enq_handle h;

    want(ENQ_OK, lock_as(e, "a", "same", 1, &a));
    /* in its last moments it may be told why */
    eventually(enq_find(e, "same", &h) != ENQ_OK);
    eventually(lock_as(e, "b", "same", 0, &b) == ENQ_OK);
    unit_healthy(e);
    want(ENQ_OK, enq_find(e, "same", &h));
    ck_assert_uint_eq(h, b.handle);
    want(ENQ_EXPIRED, enq_unlock(e, a.handle, a.token));
    want(ENQ_OK, enq_find(e, "same", &h));
    unit_healthy(e);
    enq_close(e);
}

static mono_t (*exact)(void);
static unsigned looks_left;

static mono_t an_hour_later_by_and_by(void)
{
    mono_t now = exact();

    if (looks_left == 0)
        return mono_add_ms(now, 3600000);
    looks_left--;
    return now;
}

/* It may have been taken when the lock was to be placed, and be free when it is
   asked whose it is: nobody is named then, and nobody has got anything. */
TEST(an_id_may_become_free_at_any_moment_of_a_request_for_it)
{
    unsigned refused = 0, granted = 0;
    struct enq *e = unit_open();
    struct enq_grant a, b;

    exact = sys.now;
    for (unsigned n = 0; n < 12; n++) {
        want(ENQ_OK, lock_as(e, "a", "same", 60000, &a));
        looks_left = n;
        sys.now = an_hour_later_by_and_by;
        /* without a ttl: the helper, which has the same clock, may drop "a"
           first, and then this is granted by the coarse one, an hour ago */
        if (lock_as(e, "b", "same", ENQ_FOREVER, &b) == ENQ_OK) {
            granted++;
            want(ENQ_OK, enq_valid(e, b.handle));
            want(ENQ_OK, enq_unlock(e, b.handle, b.token));
        } else {
            refused++;
        }
        sys.now = exact;
        enq_unlock(e, a.handle, a.token);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(granted, 0);
    unit_healthy(e);
    enq_close(e);
}

/* An id is the name of one lock, wherever it came from. */
TEST(a_derived_id_cannot_be_brought_by_another)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    char id[ENQ_ID_BYTES];

    want(ENQ_OK, lock_as(e, "a", NULL, 0, &a));
    want(ENQ_OK, enq_id(e, a.handle, id));
    want(ENQ_EXISTS, lock_as(e, "b", id, 0, &b));
    enq_close(e);
}

/* What another thread does at one of our looks at the clock. */
static struct {
    struct enq *e;
    struct enq_grant a, c;
    pthread_t by;
    unsigned looks_left;
} moment;

static void *give_a_back_and_take_c(void *unused)
{
    want(ENQ_OK, enq_unlock(moment.e, moment.a.handle, moment.a.token));
    want(ENQ_OK, lock_as(moment.e, "c", NULL, ENQ_FOREVER, &moment.c));
    return unused;
}

static mono_t while_another_moves(void)
{
    pthread_t thread;

    if (pthread_equal(pthread_self(), moment.by) && moment.looks_left-- == 0) {
        pthread_create(&thread, NULL, give_a_back_and_take_c, NULL);
        pthread_join(thread, NULL);
    }
    return exact();
}

static bool same_entry(enq_handle a, enq_handle b)
{
    return (a ^ b) << (64 - HANDLE_REF_BITS) == 0;
}

/* The entry that a derived id leads to may be another lock's at any moment: that
   has another id. */
TEST(a_lock_that_took_the_place_of_another_has_not_its_id)
{
    unsigned refused = 0, granted = 0;
    char id[ENQ_ID_BYTES];
    struct enq_grant b;

    moment.e = unit_open();
    moment.by = pthread_self();
    exact = sys.now;
    for (unsigned n = 0; n < 6; n++) {
        want(ENQ_OK, lock_as(moment.e, "a", NULL, ENQ_FOREVER, &moment.a));
        want(ENQ_OK, enq_id(moment.e, moment.a.handle, id));
        memset(&moment.c, 0, sizeof(moment.c));
        moment.looks_left = n;
        sys.now = while_another_moves;
        memset(&b, 'x', sizeof(b));
        if (lock_as(moment.e, "b", id, ENQ_FOREVER, &b) == ENQ_OK) {
            granted += same_entry(moment.a.handle, moment.c.handle);
            want(ENQ_OK, enq_unlock(moment.e, b.handle, b.token));
        } else {
            refused++;
            if (b.blocker.owner[0] != '\0')
                ck_assert_str_eq(b.blocker.id, id);
        }
        sys.now = exact;
        enq_unlock(moment.e, moment.a.handle, moment.a.token);
        enq_unlock(moment.e, moment.c.handle, moment.c.token);
    }
    ck_assert_uint_gt(refused, 0);
    ck_assert_uint_gt(granted, 0);
    unit_healthy(moment.e);
    enq_close(moment.e);
}

TEST(the_id_of_a_lock_that_is_gone_is_not_found)
{
    struct enq *e = unit_open();
    char id[ENQ_ID_BYTES], derived[ENQ_ID_BYTES];
    struct enq_grant g;
    enq_handle h;

    want(ENQ_OK, lock_as(e, "a", NULL, 0, &g));
    want(ENQ_OK, enq_id(e, g.handle, derived));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want_why(ENQ_NOTHELD, enq_find(e, derived, &h), derived);
    want(ENQ_NOTHELD, enq_id(e, g.handle, id));
    want(ENQ_NOTHELD, enq_break(e, derived));
    want(ENQ_OK, lock_as(e, "a", NULL, 0, &g));
    want(ENQ_OK, enq_id(e, g.handle, id));
    ck_assert_str_ne(id, derived);
    want(ENQ_NOTHELD, enq_find(e, derived, &h));
    enq_close(e);
}

TEST(ids_of_another_space_are_not_found)
{
    char path[256], id[ENQ_ID_BYTES];
    struct enq *a = unit_open(), *b;
    struct enq_grant g;
    enq_handle h;

    want(ENQ_OK, enq_open(&b, unit_path("other", path), NULL));
    want(ENQ_OK, lock_as(a, "a", NULL, 0, &g));
    want(ENQ_OK, enq_id(a, g.handle, id));
    want(ENQ_NOTHELD, enq_find(b, id, &h));
    want(ENQ_OK, lock_as(b, "a", NULL, 0, &g));
    want(ENQ_NOTHELD, enq_find(b, id, &h));
    enq_close(a);
    enq_close(b);
}

static const struct {
    int length, result;
} lengths[] = {{0, -EINVAL}, {1, ENQ_OK}, {ENQ_ID_BYTES - 2, ENQ_OK},
    {ENQ_ID_BYTES - 1, ENQ_OK}, {ENQ_ID_BYTES, -ENAMETOOLONG},
    {ENQ_ID_BYTES + 1, -ENAMETOOLONG}, {5000, -ENAMETOOLONG}};

TEST(an_id_has_a_longest_length)
{
    char text[5001], *id;
    struct enq *e = unit_open();
    struct enq_grant g;
    enq_handle h;
    size_t n = (size_t)lengths[_i].length;

    memset(text, 'i', n);
    text[n] = '\0';
    id = unit_at_edge(text, n + 1);
    want(lengths[_i].result, lock_as(e, "a", id, 0, &g));
    want(lengths[_i].result, enq_find(e, id, &h));
    if (lengths[_i].result != ENQ_OK) {
        want(lengths[_i].result, enq_break(e, id));
        want(lengths[_i].result, enq_adopt(e, id, &g));
    }
    enq_close(e);
}

TEST(nothing_given_is_refused)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    enq_handle h;

    want_why(-EINVAL, enq_find(e, NULL, &h), "id");
    want_why(-EINVAL, enq_find(e, "x", NULL), "handle");
    want_why(-EINVAL, enq_id(e, 1, NULL), "id");
    want_why(-EINVAL, enq_break(e, NULL), "id");
    want_why(-EINVAL, enq_adopt(e, NULL, &g), "id");
    want_why(-EINVAL, enq_adopt(e, "x", NULL), "grant");
    enq_close(e);
}

TEST(a_waiting_request_has_an_id_too)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    enq_handle h;

    want(ENQ_OK, lock_as(e, "a", "holder", 0, &a));
    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .id = "waiter", .wait_ms = 5),
            &b));
    want(ENQ_NOTHELD, enq_find(e, "waiter", &h));
    unit_healthy(e);
    enq_close(e);
}

/* --- racing for one id --- */

static int race(void *wins)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    char field[16] = "x";

    for (int i = 0; i < 300; i++) {
        int rc;

        field[1] = (char)('a' + getpid() % 20);
        rc = lock_as(e, field, "wanted", 0, &g);
        if (rc == ENQ_EXISTS)
            continue;
        want(ENQ_OK, rc);
        ck_assert_uint_eq(shm_add((uint32_t *)wins, 1), 1);
        shm_add((uint32_t *)wins, -1);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    enq_close(e);
    return 0;
}

TEST(of_many_processes_one_has_an_id)
{
    uint32_t *wins = unit_shared(4);
    struct enq *e = unit_open();

    for (int i = 0; i < 4; i++)
        unit_fork(race, wins);
    unit_join_all(4);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("ids");
    ADD(an_id_leads_to_a_handle_and_back);
    ADD(a_second_lock_with_an_id_is_refused_and_told_whose_it_is);
    ADD(a_lock_that_is_refused_for_its_id_takes_no_room);
    ADD(the_id_of_an_expired_lock_is_free);
    ADD(an_id_may_become_free_at_any_moment_of_a_request_for_it);
    ADD(a_derived_id_cannot_be_brought_by_another);
    ADD(a_lock_that_took_the_place_of_another_has_not_its_id);
    ADD(the_id_of_a_lock_that_is_gone_is_not_found);
    ADD(ids_of_another_space_are_not_found);
    ADD_LOOP(an_id_has_a_longest_length, LENGTH(lengths));
    ADD(nothing_given_is_refused);
    ADD(a_waiting_request_has_an_id_too);
    ADD(of_many_processes_one_has_an_id);
    return unit_end();
}
