/*
 * check_set.c - lock sets: several locks asked for as one are had as one.
 */
#include <errno.h>

#include "party.h"
#include "sync/sys.h"

/* --- all or none --- */

static mono_t stopped_at;
static pthread_t asker;
static unsigned early; /* so many looks at the clock are before a ttl ends */

/* For others it stands still. */
static mono_t passes_for_one(void)
{
    if (!pthread_equal(pthread_self(), asker) || early == 0)
        return mono_add_ns(stopped_at,
            pthread_equal(pthread_self(), asker) ? NS_PER_S : 0);
    early--;
    return stopped_at;
}

static mono_t stopped(void)
{
    return stopped_at;
}

/* What runs out is dropped by whichever member meets it first, and a waiter that
   came before the set has the key: whoever has looked already looks anew. Of the
   two the first wants more. */
TEST(a_waiter_that_gets_the_key_between_two_members_is_in_the_way_of_both)
{
    struct enq_open_opts sap = {.size = sizeof(sap), .compat = "sap"};
    struct enq *e = unit_open_with(&sap);
    struct enq_grant g;
    uint64_t ticket;
    struct party p;

    stopped_at = sys.now();
    sys.now = passes_for_one;
    sys.coarse = stopped;
    asker = pthread_self();
    early = UINT32_MAX;
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "B",
                .ttl_ms = 40),
            &g));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_S, .owner = "W",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    invite(&p, e, "A", ENQ_MODE_E, "a a", ENQ_FOREVER);
    p.req[1].mode = ENQ_MODE_O;
    early = (unsigned)_i;
    want(ENQ_PENDING, enq_start_set(e, p.reqs, p.n, p.g, &ticket));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_set_is_held_whole_and_each_of_it_is_a_lock_like_any)
{
    struct enq *e = unit_open();
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b c", 0);
    want(ENQ_OK, come(&p));
    for (size_t i = 0; i < p.n; i++) {
        want(ENQ_OK, enq_valid(e, p.g[i].handle));
        ck_assert_uint_ne(p.g[i].token, 0);
        ck_assert_str_eq(p.g[i].blocker.owner, "");
        want(ENQ_BUSY, tries(e, "B", p.req[i].key[0], ENQ_MODE_S));
    }
    frees(e, &p.g[1]);
    want(ENQ_OK, tries(e, "B", "b", ENQ_MODE_X));
    want(ENQ_OK, enq_demote(e, p.g[2].handle, p.g[2].token));
    want(ENQ_NOTHELD, enq_unlock_set(e, p.g, p.n)); /* b is gone already */
    ends(e);
}

TEST(where_one_cannot_be_had_none_is_and_the_answer_says_which)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_S);
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b c", 0);
    want(ENQ_BUSY, come(&p));
    ck_assert_str_eq(p.g[0].blocker.owner, "");
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    ck_assert_msg(strstr(p.why,
                      "lock 2 of the set: n/b is locked by B "
                      "(mode S, ") != NULL,
        "%s", p.why);
    ck_assert_uint_eq(count(e, false), 1);
    want(ENQ_OK, tries(e, "C", "a", ENQ_MODE_X));
    frees(e, &b);
    want(ENQ_OK, come(&p));
    goes(&p);
    ends(e);
}

TEST(a_set_may_have_sixty_four_locks_of_many_names_and_wide_ones)
{
    struct enq *e = unit_open();
    struct enq_req req[ENQ_SET_MAX + 1];
    const struct enq_req *reqs[ENQ_SET_MAX + 1];
    struct enq_grant g[ENQ_SET_MAX + 1];
    char name[ENQ_SET_MAX + 1][16];

    for (unsigned i = 0; i <= ENQ_SET_MAX; i++) {
        snprintf(name[i], sizeof(name[i]), "n%u", i / 2);
        req[i] = (struct enq_req){.size = sizeof(req[i]),
            .name = name[i],
            .key = {i % 2 == 0 ? "x" : "y", i % 8 == 0 ? "@" : "z"},
            .mode = ENQ_MODE_E};
        reqs[i] = &req[i];
    }
    want(ENQ_OK, enq_lock_set(e, reqs, ENQ_SET_MAX, g));
    ck_assert_uint_eq(count(e, false), ENQ_SET_MAX);
    unit_healthy(e);
    want(ENQ_OK, enq_unlock_set(e, g, ENQ_SET_MAX));
    want_why(-EINVAL, enq_lock_set(e, reqs, ENQ_SET_MAX + 1, g),
        "a set of 65 locks is not possible: 1 to 64");
    want(-EINVAL, enq_lock_set(e, reqs, 0, g));
    want(-EINVAL, enq_lock_set(e, NULL, 1, g));
    want(-EINVAL, enq_lock_set(e, reqs, 1, NULL));
    ends(e);
}

TEST(a_set_at_odds_with_itself_is_refused_and_says_with_what)
{
    struct enq *e = unit_open();
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b a", 0);
    want_why(-EINVAL, come(&p),
        "locks 1 and 3 of the set conflict with each other");
    invite(&p, e, "A", ENQ_MODE_X, "b @", 0);
    want_why(-EINVAL, come(&p),
        "locks 1 and 2 of the set conflict with each other");
    p.req[0].mode = p.req[1].mode = ENQ_MODE_E; /* cumulative */
    want(ENQ_OK, come(&p));
    goes(&p);
    p.req[0].owner = p.req[1].owner = ""; /* but nobody's cumulate not */
    want(-EINVAL, come(&p));
    invite(&p, e, "A", ENQ_MODE_S, "a a a", 0);
    want(ENQ_OK, come(&p));
    goes(&p);
    ends(e);
}

TEST(a_set_has_one_owner_and_one_patience)
{
    struct enq *e = unit_open();
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b", 0);
    p.req[1].owner = "B";
    want_why(-EINVAL, come(&p), "lock 2 of the set: its owner is \"B\"");
    p.req[1].owner = "A";
    p.req[1].wait_ms = 5;
    want_why(-EINVAL, come(&p), "a set waits as one");
    p.req[1].wait_ms = 0;
    p.reqs[1] = NULL;
    want_why(-EINVAL, come(&p), "lock 2 of the set: the request is NULL");
    p.reqs[1] = &p.req[1];
    p.req[1].mode = 9;
    want_why(-EINVAL, come(&p), "lock 2 of the set: unknown mode 9");
    ends(e);
}

TEST(a_test_of_a_set_takes_nothing)
{
    struct enq *e = unit_open();
    struct enq_grant b = holds(e, "B", "b", ENQ_MODE_X);
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b", 0);
    p.req[0].flags = p.req[1].flags = ENQ_TEST;
    want(ENQ_BUSY, come(&p));
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    want(ENQ_BUSY, enq_lock_set(e, p.reqs, p.n, NULL));
    frees(e, &b);
    want(ENQ_OK, come(&p));
    ends(e);
}

TEST(an_id_that_is_taken_refuses_the_whole_set)
{
    struct enq *e = unit_open();
    struct party p, q;

    invite(&q, e, "B", ENQ_MODE_X, "z", 0);
    q.req[0].id = "mine";
    want(ENQ_OK, come(&q));
    invite(&p, e, "A", ENQ_MODE_X, "a b c", 0);
    p.req[1].id = "mine";
    want(ENQ_EXISTS, come(&p));
    ck_assert_str_eq(p.g[1].blocker.owner, "B");
    ck_assert_uint_eq(count(e, false), 1);
    goes(&q);
    p.req[2].id = "mine"; /* twice in one set */
    want(ENQ_EXISTS, come(&p));
    ck_assert_uint_eq(count(e, false), 0);
    p.req[2].id = "other";
    want(ENQ_OK, come(&p));
    goes(&p);
    ends(e);
}

TEST(a_set_that_was_given_back_says_nothing_in_place_of_what_went_wrong_before)
{
    struct enq *e = unit_open();
    struct enq_grant none = {.handle = 1};
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b", 0);
    want(ENQ_OK, come(&p));
    want_why(-EINVAL, enq_unlock_set(e, NULL, 1), "the grants are NULL");
    want(ENQ_OK, enq_unlock_set(e, p.g, p.n));
    ck_assert_ptr_nonnull(strstr(enq_why(), "the grants are NULL"));
    want_why(ENQ_NOTHELD, enq_unlock_set(e, &none, 1), "cannot unlock all");
    ends(e);
}

int main(void)
{
    unit_begin("set");
    ADD(a_set_is_held_whole_and_each_of_it_is_a_lock_like_any);
    ADD(where_one_cannot_be_had_none_is_and_the_answer_says_which);
    ADD_LOOP(
        a_waiter_that_gets_the_key_between_two_members_is_in_the_way_of_both,
        12);
    ADD(a_set_may_have_sixty_four_locks_of_many_names_and_wide_ones);
    ADD(a_set_at_odds_with_itself_is_refused_and_says_with_what);
    ADD(a_set_has_one_owner_and_one_patience);
    ADD(a_test_of_a_set_takes_nothing);
    ADD(an_id_that_is_taken_refuses_the_whole_set);
    ADD(a_set_that_was_given_back_says_nothing_in_place_of_what_went_wrong_before);
    return unit_end();
}
