/*
 * check_witness.c - who waits for all of a name is kept back by one lock that is
 * noted, as long as that lock does; and by nothing else.
 *
 * There are no ticks: what grants is the call that makes way.
 */
#include <stdio.h>
#include <stdlib.h>

#include "api/attachment.h"
#include "store/entry.h"
#include "unit.h"

#define LOCKS 24

struct scene {
    struct enq *e, *other;
    enq_handle waiter;
};

static int take(struct enq *e, const char *name, const char *field,
    enum enq_mode mode, int64_t ttl_ms, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = name, .key = {field}, .mode = mode, .owner = "holds",
            .ttl_ms = ttl_ms),
        g);
}

static void give(struct enq *e, const struct enq_grant *g)
{
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
}

static struct scene begin(void)
{
    struct scene s = {0};

    setenv("ENQ_TICK_MS", "600000", 1);
    s.e = unit_open();
    s.other = unit_open();
    return s;
}

static void wait_for_all(struct scene *s, enum enq_mode mode)
{
    struct enq_info info;
    struct enq_grant g;
    uint64_t ticket;
    size_t total;

    want(ENQ_PENDING,
        enq_start(s->other,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = mode, .owner = "waits",
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    want(ENQ_OK, enq_list(s->e, "n", "waits", &info, 1, &total));
    s->waiter = info.handle;
}

static bool is_waiting(const struct scene *s)
{
    return unit_stats(s->e).waiting > 0;
}

static struct entry *entry_at(const struct scene *s, enq_handle handle)
{
    uint64_t state;

    return entry_of_handle(s->e->map, handle, &state);
}

static enq_handle witness_of(const struct scene *s)
{
    return shm_load(&entry_at(s, s->waiter)->witness);
}

/* A release beside what is in the waiter's way. */
static void pair(struct scene *s)
{
    struct enq_grant g;

    want(ENQ_OK, take(s->e, "n", "beside", ENQ_MODE_S, 0, &g));
    give(s->e, &g);
}

/* By one lock, which is noted. */
static void keep_back(struct scene *s, enum enq_mode mode, int64_t ttl_ms,
    struct enq_grant *g)
{
    want(ENQ_OK, take(s->e, "n", "1", mode, ttl_ms, g));
    wait_for_all(s, ENQ_MODE_S);
    pair(s);
    ck_assert_uint_eq(witness_of(s), g->handle);
}

static void end(struct scene *s)
{
    unit_healthy(s->e);
    enq_close(s->other);
    enq_close(s->e);
}

TEST(who_waits_for_all_is_granted_when_the_last_of_them_goes)
{
    struct scene s = begin();
    uint64_t dice = unit_seed();
    struct enq_grant g[LOCKS];
    char field[8];

    for (unsigned i = 0; i < LOCKS; i++) {
        snprintf(field, sizeof(field), "%u", i);
        want(ENQ_OK, take(s.e, "n", field, ENQ_MODE_X, 0, &g[i]));
    }
    wait_for_all(&s, ENQ_MODE_X);
    for (unsigned left = LOCKS; left > 0; left--) {
        unsigned i = (unsigned)(unit_random(&dice) % left);

        ck_assert(is_waiting(&s));
        give(s.e, &g[i]);
        g[i] = g[left - 1];
    }
    ck_assert(!is_waiting(&s));
    end(&s);
}

TEST(one_of_those_in_the_way_is_noted)
{
    struct scene s = begin();
    struct enq_grant x, beside;

    want(ENQ_OK, take(s.e, "n", "1", ENQ_MODE_S, 0, &beside));
    want(ENQ_OK, take(s.e, "n", "2", ENQ_MODE_X, 0, &x));
    wait_for_all(&s, ENQ_MODE_S);
    pair(&s);
    ck_assert_uint_eq(witness_of(&s), x.handle);
    give(s.e, &beside);
    ck_assert_uint_eq(witness_of(&s), x.handle);
    give(s.e, &x);
    ck_assert(!is_waiting(&s));
    end(&s);
}

TEST(a_lock_that_is_demoted_keeps_nobody_back)
{
    struct scene s = begin();
    struct enq_grant g;

    keep_back(&s, ENQ_MODE_E, 0, &g);
    want(ENQ_OK, enq_demote(s.e, g.handle, g.token));
    ck_assert(!is_waiting(&s));
    end(&s);
}

/* Its entry says so to its holder, who does not know yet. */
TEST(a_lock_that_was_broken_keeps_nobody_back)
{
    struct scene s = begin();
    char id[ENQ_ID_BYTES];
    struct enq_grant g;

    keep_back(&s, ENQ_MODE_X, 0, &g);
    want(ENQ_OK, enq_id(s.e, g.handle, id));
    want(ENQ_OK, enq_break(s.other, id));
    ck_assert(!is_waiting(&s));
    end(&s);
}

TEST(a_lock_that_has_run_out_keeps_nobody_back)
{
    struct scene s = begin();
    struct enq_grant g;

    keep_back(&s, ENQ_MODE_X, 300, &g);
    eventually(enq_valid(s.e, g.handle) == ENQ_EXPIRED);
    pair(&s);
    ck_assert(!is_waiting(&s));
    end(&s);
}

/* Whatever another process has left there. */
TEST(what_is_noted_is_not_believed)
{
    struct scene s = begin();
    struct enq_grant x, gone, stranger, longer, shared;
    enq_handle notes[7];

    want(ENQ_OK, take(s.e, "n", "gone", ENQ_MODE_X, 0, &gone));
    give(s.e, &gone);
    want(ENQ_OK, take(s.e, "m", "1", ENQ_MODE_X, 0, &stranger));
    want(ENQ_OK,
        enq_lock(s.e,
            ENQ_REQ(.name = "n", .key = {"1", "2"}, .mode = ENQ_MODE_X,
                .owner = "holds"),
            &longer));
    want(ENQ_OK, take(s.e, "n", "shared", ENQ_MODE_S, 0, &shared));
    want(ENQ_OK, take(s.e, "n", "1", ENQ_MODE_X, 0, &x));
    wait_for_all(&s, ENQ_MODE_S);
    notes[0] = gone.handle;
    notes[1] = stranger.handle;
    notes[2] = longer.handle;
    notes[3] = shared.handle;
    notes[4] = s.waiter;
    notes[5] = UINT64_MAX;
    notes[6] = 0;
    for (unsigned i = 0; i < LENGTH(notes); i++) {
        shm_store(&entry_at(&s, s.waiter)->witness, notes[i]);
        pair(&s);
        ck_assert(is_waiting(&s));
        ck_assert_uint_eq(witness_of(&s), x.handle);
    }
    shm_store(&entry_at(&s, s.waiter)->witness, notes[_i]);
    give(s.e, &x);
    ck_assert(!is_waiting(&s));
    end(&s);
}

/* A request that was never granted is told from a lost lock by that word. */
TEST(a_waiter_that_is_broken_was_never_granted)
{
    struct scene s = begin();
    char id[ENQ_ID_BYTES];
    struct enq_event event;
    struct enq_grant g;

    keep_back(&s, ENQ_MODE_X, 0, &g);
    want(ENQ_OK, enq_id(s.e, s.waiter, id));
    want(ENQ_OK, enq_break(s.e, id));
    eventually(enq_next(s.other, &event) == ENQ_OK);
    want(ENQ_CANCELLED, event.result);
    end(&s);
}

/* Where another waiter has its witness, one of a set has its link. */
TEST(one_of_a_set_keeps_its_link)
{
    struct scene s = begin();
    const struct enq_req all_n = {.size = sizeof(all_n),
        .name = "n",
        .key = {"@"},
        .mode = ENQ_MODE_X,
        .owner = "waits",
        .wait_ms = ENQ_FOREVER};
    struct enq_req all_m = all_n;
    const struct enq_req *both[2] = {&all_n, &all_m};
    struct enq_grant n, m, g[2];
    struct enq_info info, other;
    uint64_t ticket;
    size_t total;

    all_m.name = "m";
    want(ENQ_OK, take(s.e, "n", "1", ENQ_MODE_X, 0, &n));
    want(ENQ_OK, take(s.e, "m", "1", ENQ_MODE_X, 0, &m));
    want(ENQ_PENDING, enq_start_set(s.other, both, 2, g, &ticket));
    want(ENQ_OK, enq_list(s.e, "n", "waits", &info, 1, &total));
    want(ENQ_OK, enq_list(s.e, "m", "waits", &other, 1, &total));
    pair(&s);
    ck_assert_ptr_eq(entry_next_of_set(s.e->map, entry_at(&s, info.handle)),
        entry_at(&s, other.handle));
    give(s.e, &n);
    ck_assert(is_waiting(&s));
    give(s.e, &m);
    eventually(!is_waiting(&s));
    end(&s);
}

int main(void)
{
    unit_begin("witness");
    ADD(who_waits_for_all_is_granted_when_the_last_of_them_goes);
    ADD(one_of_those_in_the_way_is_noted);
    ADD(a_lock_that_is_demoted_keeps_nobody_back);
    ADD(a_lock_that_was_broken_keeps_nobody_back);
    ADD(a_lock_that_has_run_out_keeps_nobody_back);
    ADD_LOOP(what_is_noted_is_not_believed, 7);
    ADD(a_waiter_that_is_broken_was_never_granted);
    ADD(one_of_a_set_keeps_its_link);
    return unit_end();
}
