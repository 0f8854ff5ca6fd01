/*
 * check_token.c - enq_check: a third party that was told a token asks whether
 * its lock is held.
 */
#include <errno.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "told.h"

#define KEY(...) ((const char *const[]){__VA_ARGS__, NULL})

static int check(struct enq *e, const char *field, const struct enq_grant *g)
{
    return enq_check(e, "n", KEY(field), g->token);
}

TEST(the_token_of_a_held_lock_is_good_until_it_is_given_back)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0), next;

    want(ENQ_OK, check(e, "a", &g));
    want(ENQ_OK, check(other, "a", &g));
    want_why(ENQ_NOTHELD, enq_check(e, "n", KEY("a"), g.token + 1), "token");
    want_why(ENQ_LOST, enq_check(e, "n", KEY("a"), g.token - 1), "newest");
    told_unlock(e, &g);
    want(ENQ_NOTHELD, check(other, "a", &g));
    next = told_lock(other, "a", ENQ_MODE_X, 0);
    want(ENQ_LOST, check(e, "a", &g));
    want(ENQ_OK, check(e, "a", &next));
    told_unlock(other, &next);
    want(ENQ_NOTHELD, check(e, "a", &next));
    want(ENQ_NOTHELD, check(e, "a", &g));
    enq_close(e);
    enq_close(other);
}

/* As a space that is made anew, after a reboot, begins with the time: its tokens
   are to be above all that were given. */
TEST(tokens_of_all_and_of_one_in_turn_do_not_outrun_the_clock)
{
    struct enq *e = unit_open();
    struct enq_grant g = {0};
    struct timespec now;
    uint64_t before;

    for (unsigned i = 0; i < 2000; i++) {
        before = g.token;
        want(ENQ_OK, unit_lock(e, "n", i % 2 == 0 ? "a" : "@", ENQ_MODE_X, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        ck_assert_uint_gt(g.token, before);
    }
    clock_gettime(CLOCK_REALTIME, &now);
    ck_assert_uint_le(g.token,
        (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec);
    enq_close(e);
}

TEST(a_token_is_that_of_one_name_and_key)
{
    struct enq *e = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0), none;

    want(ENQ_NOTHELD, check(e, "b", &g));
    want(ENQ_NOTHELD, enq_check(e, "m", KEY("a"), g.token));
    want(ENQ_NOTHELD, enq_check(e, "n", KEY("a", "b"), g.token));
    want(ENQ_NOTHELD, enq_check(e, "n", NULL, g.token));
    none = told_lock_req(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X));
    want(ENQ_OK, enq_check(e, "n", NULL, none.token));
    ck_assert_uint_eq(told_count(e), 2);
    enq_close(e);
}

TEST(generic_keys_overlap_here_as_well)
{
    struct enq *e = unit_open();
    struct enq_grant a = told_lock(e, "a", ENQ_MODE_S, 0);
    struct enq_grant all = told_lock(e, "@", ENQ_MODE_S, 0);

    want(ENQ_OK, check(e, "@", &a));
    want(ENQ_OK, check(e, "b", &all));
    want(ENQ_OK, check(e, "@", &all));
    told_unlock(e, &all);
    want(ENQ_NOTHELD, check(e, "b", &all));
    want(ENQ_OK, check(e, "a", &a));
    told_unlock(e, &a);
    all = told_lock(e, "@", ENQ_MODE_X, 0);
    want(ENQ_LOST, check(e, "a", &a));
    unit_healthy(e);
    enq_close(e);
}

TEST(each_of_several_shared_holders_has_a_good_token)
{
    struct enq *e = unit_open();
    struct enq_grant g[5];

    for (int i = 0; i < 5; i++)
        g[i] = told_lock(e, "a", ENQ_MODE_S, 0);
    for (int i = 0; i < 5; i++)
        want(ENQ_OK, check(e, "a", &g[i]));
    told_unlock(e, &g[4]);
    want(ENQ_NOTHELD, check(e, "a", &g[4]));
    told_unlock(e, &g[0]);
    want(ENQ_LOST, check(e, "a", &g[0]));
    want(ENQ_OK, check(e, "a", &g[1]));
    enq_close(e);
}

TEST(a_promotion_makes_older_tokens_worthless)
{
    struct enq *e = unit_open();
    struct enq_grant winner = told_lock(e, "a", ENQ_MODE_O, 0);
    struct enq_grant loser = told_lock(e, "a", ENQ_MODE_O, 0), promoted;

    want(ENQ_OK, enq_promote(e, winner.handle, winner.token, &promoted));
    want(ENQ_OK, check(e, "a", &promoted));
    want(ENQ_LOST, check(e, "a", &winner));
    want(ENQ_LOST, check(e, "a", &loser));
    enq_close(e);
}

TEST(the_token_of_an_expired_lock_is_refused_at_its_end)
{
    struct enq *e = unit_open(), *other = unit_open();
    int64_t begin = unit_now_ms();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 60);

    while (check(other, "a", &g) == ENQ_OK)
        unit_nap();
    ck_assert_int_ge(unit_now_ms() - begin, 60);
    want(ENQ_NOTHELD, check(e, "a", &g));
    want(ENQ_EXPIRED, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    enq_close(other);
}

TEST(a_broken_lock_has_no_good_token)
{
    struct enq *e = unit_open(), *breaker = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    told_break(breaker, g.handle);
    want(ENQ_NOTHELD, check(breaker, "a", &g));
    want(ENQ_FORCED, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    enq_close(breaker);
}

TEST(adoption_gives_a_new_token)
{
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_grant old, new;

    old = told_lock_kept(before, "a", "i");
    enq_close(before);
    want(ENQ_OK, check(e, "a", &old));
    want(ENQ_OK, enq_adopt(e, "i", &new));
    want(ENQ_OK, check(e, "a", &new));
    want(ENQ_LOST, check(e, "a", &old));
    enq_close(e);
}

TEST(a_waiting_request_has_no_token)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = told_lock(e, "a", ENQ_MODE_X, 0);

    told_start(other, "a", ENQ_MODE_X, "other", ENQ_FOREVER);
    want(ENQ_LOST, enq_check(e, "n", KEY("a"), 0));
    told_unlock(e, &g);
    enq_close(other);
    want(ENQ_NOTHELD, enq_check(e, "n", KEY("a"), 0));
    enq_close(e);
}

TEST(wrong_use_is_refused_with_a_reason)
{
    const char *fields[ENQ_KEY_FIELDS_MAX + 2] = {NULL};
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY};
    struct enq *e = unit_open(), *reader = unit_open_with(&opts);
    char name[ENQ_NAME_BYTES + 1];

    memset(name, 'n', sizeof(name) - 1);
    name[ENQ_NAME_BYTES] = '\0';
    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++)
        fields[i] = "f";
    want(ENQ_NOTHELD, enq_check(e, "n", fields, 1));
    fields[ENQ_KEY_FIELDS_MAX] = "f";
    want_why(-EINVAL, enq_check(e, "n", fields, 1), "fields");
    want(-EINVAL, enq_check(e, NULL, NULL, 1));
    want(-EINVAL, enq_check(NULL, "n", NULL, 1));
    want(-ENAMETOOLONG, enq_check(e, name, NULL, 1));
    name[ENQ_NAME_BYTES - 1] = '\0';
    want(ENQ_NOTHELD, enq_check(e, name, NULL, 1));
    want(-EROFS, enq_check(reader, "n", NULL, 1));
    enq_close(reader);
    enq_close(e);
}

static int check_as_child(void *e)
{
    return enq_check(e, "n", NULL, 1) != ENQ_EFORKED;
}

TEST(a_child_of_fork_asks_for_itself)
{
    struct enq *e = unit_open();

    unit_join(unit_fork(check_as_child, e));
    enq_close(e);
}

int main(void)
{
    unit_begin("token");
    ADD(the_token_of_a_held_lock_is_good_until_it_is_given_back);
    ADD(tokens_of_all_and_of_one_in_turn_do_not_outrun_the_clock);
    ADD(a_token_is_that_of_one_name_and_key);
    ADD(generic_keys_overlap_here_as_well);
    ADD(each_of_several_shared_holders_has_a_good_token);
    ADD(a_promotion_makes_older_tokens_worthless);
    ADD(the_token_of_an_expired_lock_is_refused_at_its_end);
    ADD(a_broken_lock_has_no_good_token);
    ADD(adoption_gives_a_new_token);
    ADD(a_waiting_request_has_no_token);
    ADD(wrong_use_is_refused_with_a_reason);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        a_child_of_fork_asks_for_itself);
    return unit_end();
}
