/*
 * check_guard.c - in a wide scope each step latches the bucket that it changes.
 * Where that cannot be had, as the shard's directory is damaged, it has not
 * begun: nothing is changed, and the fault is told.
 */
#include "lock/transition.h"

#include <string.h>

#include "api/attachment.h"
#include "unit.h"

enum of { HELD, WAITING, ENTRIES };

static int hold(struct scope *s, struct entry *e)
{
    struct ask ask = {.mode = ENQ_MODE_X, .key.hash = e->hash};

    return transition_hold(s, &ask, e);
}

static int queue(struct scope *s, struct entry *e)
{
    struct ask ask = {.mode = ENQ_MODE_X, .key.hash = e->hash};

    return transition_queue(s, &ask, e);
}

static int drop(struct scope *s, struct entry *e)
{
    return transition_drop(s, e, GONE_NOT);
}

static int expire(struct scope *s, struct entry *e)
{
    return transition_drop(s, e, GONE_EXPIRED);
}

static int promote(struct scope *s, struct entry *e)
{
    return transition_mode(s, e, ENQ_MODE_X, true);
}

static int adopt(struct scope *s, struct entry *e)
{
    return transition_session(s, e, true);
}

static const struct {
    const char *what;
    int (*step)(struct scope *, struct entry *);
    enum of of;
} steps[] = {
    {"hold", hold, HELD},
    {"queue", queue, HELD},
    {"grant", transition_grant, WAITING},
    {"drop", drop, HELD},
    {"drop of a waiter", drop, WAITING},
    {"expire", expire, HELD},
    {"promote", promote, HELD},
    {"adopt", adopt, HELD},
};

/* An S of the name as a whole, and of the name one lock that is held and one
   request that waits behind it: a scope for either of these is wide. */
static struct enq *open_with_a_gate_raised(struct entry *entry[ENTRIES])
{
    struct enq *e = unit_open();
    struct enq_grant g;
    uint64_t ticket, state;

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &g));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &g));
    entry[HELD] = entry_of_handle(e->map, g.handle, &state);
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .owner = "another", .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    entry[WAITING] = at_entry(e->map, entry[HELD]->next);
    ck_assert_ptr_ne(entry[WAITING], entry[HELD]);
    eventually(shm_load(&e->async.requests.n) == 1); /* it was looked at */
    return e;
}

static void step_in_a_damaged_shard(struct enq *e, size_t i, struct entry *of)
{
    struct thread *t = thread_enter(e->map);
    struct shard *shard = &e->map->shards[shard_of_hash(of->hash)];
    uint32_t n_buckets = shard->n_buckets;
    struct entry before;
    struct scope s;
    int rc;

    scope_begin(&s, &e->session, t);
    want(0, scope_enter_entry(&s, of));
    ck_assert(s.wide);
    before = *of;
    shard->n_buckets = 0;
    rc = steps[i].step(&s, of);
    shard->n_buckets = n_buckets;
    ck_assert_msg(rc == ENQ_ECORRUPT, "%s: %d", steps[i].what, rc);
    ck_assert_msg(memcmp(&before, of, sizeof(before)) == 0, "%s",
        steps[i].what);
    scope_leave(&s);
}

/* The helper thread stands meanwhile: it would come upon the damage as well. */
TEST(a_step_whose_latch_cannot_be_had_has_not_begun)
{
    struct entry *entry[ENTRIES];
    struct enq *e = open_with_a_gate_raised(entry);
    struct enq_stats before = unit_stats(e), after;

    pthread_mutex_lock(&e->async.mutex);
    for (size_t i = 0; i < LENGTH(steps); i++)
        step_in_a_damaged_shard(e, i, entry[steps[i].of]);
    pthread_mutex_unlock(&e->async.mutex);
    after = unit_stats(e);
    ck_assert_uint_eq(after.held, before.held);
    ck_assert_uint_eq(after.waiting, before.waiting);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("guard");
    ADD(a_step_whose_latch_cannot_be_had_has_not_begun);
    return unit_end();
}
