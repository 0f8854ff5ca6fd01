/*
 * token.c - P5: tokens only grow, whatever becomes of processes and segment.
 */
#include <fcntl.h>

#include "env.h"

static const char *const fields[] = {"a", "b", "@"};

struct newest {
    uint64_t token[LENGTH(fields)];
    uint32_t kills;
    int mode;
    const char *point;
};

/* A token of an object is above all that an overlapping object has had. */
static void note(struct newest *n, size_t f, uint64_t token)
{
    bool generic = strcmp(fields[f], "@") == 0;

    for (size_t i = 0; i < LENGTH(fields); i++)
        if (i == f || generic || strcmp(fields[i], "@") == 0)
            must(token > n->token[i]);
    n->token[f] = token;
}

static void take_all(struct enq *e, struct newest *n)
{
    static const enum enq_mode modes[] = {
        ENQ_MODE_S, ENQ_MODE_E, ENQ_MODE_X, ENQ_MODE_O};
    struct enq_grant g;

    for (size_t f = 0; f < LENGTH(fields); f++) {
        enum enq_mode mode = modes[(unsigned)n->mode++ % LENGTH(modes)];

        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "env", .key = {fields[f]}, .mode = mode,
                    .wait_ms = 5000),
                &g));
        note(n, f, g.token);
        if (mode == ENQ_MODE_O) {
            want(ENQ_OK, enq_promote(e, g.handle, g.token, &g));
            note(n, f, g.token);
        }
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
}

static int take_all_and_die(void *arg)
{
    struct newest *n = arg;
    struct enq *e = env_open();
    struct enq_grant g;

    take_all(e, n);
    env_at_point(n->point, SIGKILL);
    if (env_take(e, "b", 5000, &g) == ENQ_OK)
        enq_unlock(e, g.handle, g.token);
    kill(getpid(), SIGKILL);
    return 1;
}

static const char *const points[] = {NULL, "lock.entry_taken", "lock.latched",
    "lock.linked", "lock.granted", "unlock.unlinked", "grant.before_wake"};

static void P5_tokens_grow_over_crashes_at_every_step_of_a_grant(void)
{
    struct newest *n = env_shared(sizeof(*n));
    struct enq *e = env_open();

    for (size_t i = 0; i < 3 * LENGTH(points); i++) {
        n->point = points[i % LENGTH(points)];
        env_killed(env_child(take_all_and_die, n));
        take_all(e, n);
    }
    env_healthy(e);
}

static void P5_tokens_grow_over_restarts_of_every_process(void)
{
    struct newest *n = env_shared(sizeof(*n));

    for (int i = 0; i < 20; i++) {
        n->point = points[(size_t)i % LENGTH(points)];
        env_killed(env_child(take_all_and_die, n));
    }
}

static int take_all_and_close(void *arg)
{
    struct enq *e = env_open();

    take_all(e, arg);
    enq_close(e);
    return 0;
}

static void P5_tokens_grow_when_the_segment_is_lost_and_made_again(void)
{
    struct newest *n = env_shared(sizeof(*n));

    for (int i = 0; i < 10; i++) {
        for (int j = 0; j < 3; j++)
            env_join(env_child(take_all_and_close, n));
        if (i % 2 == 0)
            want(ENQ_OK, enq_unlink(env_space()));
        else
            must(unlink(env_space_path()) == 0);
    }
}

/* Processes that still use the lost one cannot get new grants from it. */
static void P5_who_has_the_lost_segment_is_given_no_more_tokens(void)
{
    struct newest *n = env_shared(sizeof(*n));
    struct enq *old = env_open(), *e;
    struct enq_grant g, later;

    take_all(old, n);
    want(ENQ_OK, env_take(old, "a", 0, &g));
    note(n, 0, g.token);
    want(ENQ_OK, enq_unlink(env_space()));
    e = env_open();
    want(ENQ_EGONE, env_take(old, "b", 0, &later));
    take_all(e, n);
    want(ENQ_OK, enq_unlock(old, g.handle, g.token));
    enq_close(old);
    take_all(e, n);
}

/* Seen by the helper threads, as nobody told them. */
static void P5_a_segment_removed_by_hand_gives_no_more_tokens_after_a_second(
    void)
{
    struct enq *old = env_open();
    struct enq_grant g;

    must(unlink(env_space_path()) == 0);
    within(1500, env_take(old, "b", 0, &g) == ENQ_EGONE);
}

static void P5_tokens_of_a_busy_segment_are_below_those_of_the_next(void)
{
    struct newest *n = env_shared(sizeof(*n));
    struct enq *e = env_open();
    struct enq_grant g;

    for (int i = 0; i < 20000; i++) {
        want(ENQ_OK, env_take(e, "a", 0, &g));
        must(g.token > n->token[0]);
        n->token[0] = g.token;
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    enq_close(e);
    want(ENQ_OK, enq_unlink(env_space()));
    take_all(env_open(), n);
}

/* All processes end in between; the segment stays. */
static void P5_a_wall_clock_set_back_does_not_lower_tokens_of_what_lives(void)
{
    struct newest *n = env_shared(sizeof(*n));

    for (int i = 0; i < 5; i++) {
        env_join(env_child(take_all_and_close, n));
        shm_add(&env_clocks->wall_step_ns, -INT64_C(1000000000) * 86400);
    }
}

const struct env_case token_cases[] = {
    CASE(P5_tokens_grow_over_crashes_at_every_step_of_a_grant),
    CASE(P5_tokens_grow_over_restarts_of_every_process),
    CASE(P5_tokens_grow_when_the_segment_is_lost_and_made_again),
    CASE(P5_who_has_the_lost_segment_is_given_no_more_tokens),
    CASE(P5_a_segment_removed_by_hand_gives_no_more_tokens_after_a_second),
    CASE(P5_tokens_of_a_busy_segment_are_below_those_of_the_next),
    CASE(P5_a_wall_clock_set_back_does_not_lower_tokens_of_what_lives),
    {0},
};
