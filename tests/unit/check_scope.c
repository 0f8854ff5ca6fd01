/*
 * check_scope.c - gates: generic and concrete requests see each other, in
 * whatever order and from wherever they come; and the gate is down afterwards.
 */
#include "lock/scope.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "lib/latches.h"
#include "recovery/recover.h"
#include "sync/hooks.h"
#include "unit.h"

#define NOBODY 1u /* no thread has generation 0: a dead one's */

static unsigned raised(const struct enq *e)
{
    unsigned n = 0;

    for (unsigned i = 0; i < GATES; i++)
        n += e->map->gates[i].raised;
    return n;
}

TEST(a_gate_is_raised_while_there_are_generic_locks)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;

    ck_assert_uint_eq(raised(e), 0);
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &a));
    ck_assert_uint_eq(raised(e), 0);
    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &b));
    ck_assert_uint_eq(raised(e), 1);
    want(ENQ_BUSY, unit_lock(e, "n", "g", ENQ_MODE_X, &a));
    ck_assert_uint_eq(raised(e), 1);
    want(ENQ_OK, enq_unlock(e, b.handle, b.token));
    ck_assert_uint_eq(raised(e), 0);
    want(ENQ_OK, unit_lock(e, "n", "g", ENQ_MODE_X, &a));
    enq_close(e);
}

TEST(a_refused_generic_request_leaves_the_gate_down)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &a));
    want(ENQ_BUSY, unit_lock(e, "n", "@", ENQ_MODE_S, &b));
    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_S,
                .wait_ms = 5),
            &b));
    want(ENQ_BUSY,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_S,
                .flags = ENQ_TEST),
            NULL));
    ck_assert_uint_eq(raised(e), 0);
    unit_healthy(e);
    enq_close(e);
}

/* Among so many keys of other objects, in all shards. */
TEST(a_generic_request_sees_the_one_lock_in_its_way)
{
    struct enq *e = unit_open();
    struct enq_grant g, mine;
    char field[16];

    for (int i = 0; i < 3000; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, unit_lock(e, "other", field, ENQ_MODE_X, &g));
    }
    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_X, &mine));
    want(ENQ_OK, enq_unlock(e, mine.handle, mine.token));
    for (int i = 0; i < 200; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &mine));
        want(ENQ_BUSY, unit_lock(e, "n", "@", ENQ_MODE_S, &g));
        want(ENQ_OK, enq_unlock(e, mine.handle, mine.token));
    }
    enq_close(e);
}

/* The next name after `name` whose gate is that of "n". */
static void next_of_the_gate(const struct enq *e, unsigned *i, char name[16])
{
    struct enq_req req = {.size = sizeof(req), .name = "n"};
    char bytes[KEY_BYTES_MAX];
    struct key n, other;

    key_pack(&n, bytes, KEY_BYTES_MAX, &req, e->map->hash_seed);
    req.name = name;
    do {
        snprintf(name, 16, "n%u", ++*i);
        key_pack(&other, bytes, KEY_BYTES_MAX, &req, e->map->hash_seed);
    } while (gate_of_hash(other.name_hash) != gate_of_hash(n.name_hash));
}

TEST(names_that_share_a_gate_do_not_conflict)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;
    unsigned last = 0;
    char name[16];

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_X, &a));
    for (int i = 0; i < 20; i++) {
        next_of_the_gate(e, &last, name);
        want(ENQ_OK, unit_lock(e, name, i % 2 ? "@" : "f", ENQ_MODE_X, &b));
        want(ENQ_BUSY, unit_lock(e, name, i % 2 ? "f" : "@", ENQ_MODE_X, &b));
    }
    ck_assert_uint_eq(raised(e), 11);
    unit_healthy(e);
    enq_close(e);
}

/* Of sixteen fields the digest has three bits each: one in eight that differ in
   one field has the same. */
TEST(keys_with_the_same_digest_do_not_conflict)
{
    struct enq *e = unit_open();
    struct enq_req any = {.size = sizeof(any), .name = "n", .mode = ENQ_MODE_X};
    struct enq_req one = any;
    struct enq_grant g;
    char text[16];

    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++)
        any.key[i] = one.key[i] = "same";
    any.key[0] = "@";
    any.key[1] = one.key[1] = text;
    for (unsigned i = 0; i < 100; i++) {
        snprintf(text, sizeof(text), "%u", i);
        want(ENQ_OK, enq_lock(e, i % 2 ? &any : &one, &g));
        want(ENQ_BUSY, enq_lock(e, i % 2 ? &one : &any, &g));
    }
    unit_healthy(e);
    enq_close(e);
}

/* --- at once --- */

#define FIELDS 4
#define ROUNDS 400

struct shared {
    uint32_t has[FIELDS]; /* how many are inside each field */
    uint32_t granted;
};

struct worker {
    struct shared *shared;
    uint64_t seed;
};

static void be_inside(struct shared *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++)
        ck_assert_uint_eq(shm_add(&s->has[i], 1), 1);
    for (unsigned i = from; i < to; i++)
        shm_add(&s->has[i], -1);
    shm_add(&s->granted, 1);
}

static int work(void *arg)
{
    static const char *const fields[] = {"a", "b", "c", "d", "@"};
    struct worker *w = arg;
    uint64_t dice = w->seed;
    struct enq *e = unit_open();

    for (int i = 0; i < ROUNDS; i++) {
        unsigned f = (unsigned)(unit_random(&dice) % LENGTH(fields));
        struct enq_grant g;
        int rc = enq_lock(e,
            ENQ_REQ(.name = "n", .key = {fields[f]}, .mode = ENQ_MODE_X,
                .wait_ms = unit_random(&dice) % 2 ? ENQ_FOREVER : 0),
            &g);

        if (rc == ENQ_BUSY)
            continue;
        want(ENQ_OK, rc);
        be_inside(w->shared, f == FIELDS ? 0 : f, f == FIELDS ? f : f + 1);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    enq_close(e);
    return 0;
}

static struct gate *gate;

/* Frees the gate; but somebody dies in each bucket meanwhile, and of these
   nothing can be made anew. */
static int recovers_once(struct map *map, struct thread *t)
{
    (void)t;
    if (gate->latch != NOBODY)
        return ENQ_ECORRUPT;
    gate->latch = 0;
    latch_all_buckets(map, NOBODY);
    return 0;
}

/* Beside a generic lock a concrete one needs its bucket's latch, too. */
static const struct {
    enum enq_mode mode;
    int64_t wait_ms;
} guarded[] = {{ENQ_MODE_S, 0}, {ENQ_MODE_X, ENQ_FOREVER}};

static struct gate *gate_of(const struct enq *e, enq_handle handle)
{
    uint64_t state;

    return &e->map->gates[gate_of_hash(entry_of_handle(e->map, handle, &state)
                                           ->name_hash)];
}

TEST(whose_bucket_cannot_be_had_is_neither_granted_nor_in_the_queue)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq *e = unit_open();
    struct enq_grant wide, g;

    want(ENQ_OK, unit_lock(e, "n", "@", ENQ_MODE_S, &wide));
    gate = gate_of(e, wide.handle);
    gate->latch = NOBODY;
    hooks.recover = recovers_once;
    want(ENQ_ECORRUPT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = guarded[_i].mode,
                .owner = "other", .wait_ms = guarded[_i].wait_ms),
            &g));
    for (uint32_t i = 0; i < SHARDS; i++)
        ck_assert_uint_eq(at_bucket(e->map, i, 0)->latch, NOBODY);
    latch_all_buckets(e->map, 0);
    hooks.recover = recover;
    want(ENQ_OK, enq_stat(e, &stats));
    ck_assert_uint_eq(stats.held, 1);
    ck_assert_uint_eq(stats.waiting, 0);
    want(ENQ_OK, enq_unlock(e, wide.handle, wide.token));
    ck_assert_uint_eq(raised(e), 0);
    unit_healthy(e);
    enq_close(e);
}

/* --- whose words are held when something changes --- */

/* What is done to one concrete lock beside a generic one: what it passes. */
static const char *const changes[] = {"lock.linked", "lock.granted",
    "lock.queued", "grant.token", "grant.stored", "promote.token",
    "promote.stored", "demote.stored", "adopt.signed", "adopt.stored",
    "unlock.unlinked"};

static struct {
    uint32_t *word; /* of the concrete lock's shard */
    unsigned passed[LENGTH(changes)];
    const char *unguarded;
} change;

static void see_change(const struct point *p)
{
    for (size_t i = 0; i < LENGTH(changes); i++)
        if (strcmp(p->name, changes[i]) == 0) {
            change.passed[i]++;
            if (shm_load(change.word) == 0)
                change.unguarded = changes[i];
        }
}

static struct enq_grant lock_kept(struct enq *e)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_O,
                .owner = "one", .id = "it", .on_death = ENQ_DEATH_KEEP),
            &g));
    return g;
}

static void change_in_all_ways(struct enq *e, struct enq *before)
{
    struct enq_grant g = lock_kept(before), next;
    uint64_t ticket;

    enq_close(before);
    want(ENQ_OK, enq_adopt(e, "it", &g));
    want(ENQ_OK, enq_promote(e, g.handle, g.token, &g));
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_S,
                .owner = "two", .wait_ms = ENQ_FOREVER),
            &next, &ticket));
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
}

/* The gate, which it holds as well, keeps out those of its own name only. An
   owner's S is not in the way of its E ("sap"). */
TEST(beside_a_generic_lock_whatever_changes_one_holds_its_buckets_latch)
{
    struct enq_open_opts sap = {.size = sizeof(sap), .compat = "sap"};
    struct enq *e = unit_open_with(&sap);
    struct enq_grant wide, g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"@"}, .mode = ENQ_MODE_S,
                .owner = "one"),
            &wide));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &g));
    change.word = latch_of_handle(e->map, g.handle);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    point_hook = see_change;
    change_in_all_ways(e, unit_open_with(&sap));
    point_hook = NULL;
    ck_assert_msg(change.unguarded == NULL, "%s", change.unguarded);
    for (size_t i = 0; i < LENGTH(changes); i++)
        ck_assert_msg(change.passed[i] > 0, "%s", changes[i]);
    enq_close(e);
}

TEST(generic_and_concrete_locks_exclude_each_other_between_processes)
{
    struct worker w[6];
    struct enq *e = unit_open();
    uint64_t seed = unit_seed();

    w[0].shared = unit_shared(sizeof(*w[0].shared));
    for (size_t i = 0; i < LENGTH(w); i++) {
        w[i] = (struct worker){w[0].shared, seed + i};
        unit_fork(work, &w[i]);
    }
    unit_join_all(LENGTH(w));
    ck_assert_uint_gt(w[0].shared->granted, ROUNDS);
    ck_assert_uint_eq(raised(e), 0);
    unit_healthy(e);
    enq_close(e);
}

/* --- tokens --- */

TEST(tokens_grow_over_concrete_and_generic_grants)
{
    struct enq *e = unit_open();
    uint64_t newest = 0;
    struct enq_grant g;

    for (int i = 0; i < 300; i++) {
        want(ENQ_OK, unit_lock(e, "n", i % 3 == 1 ? "@" : "f", ENQ_MODE_X, &g));
        ck_assert_uint_gt(g.token, newest);
        newest = g.token;
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    enq_close(e);
}

int main(void)
{
    unit_begin("scope");
    ADD(a_gate_is_raised_while_there_are_generic_locks);
    ADD(a_refused_generic_request_leaves_the_gate_down);
    ADD(a_generic_request_sees_the_one_lock_in_its_way);
    ADD(names_that_share_a_gate_do_not_conflict);
    ADD(keys_with_the_same_digest_do_not_conflict);
    ADD_LOOP(whose_bucket_cannot_be_had_is_neither_granted_nor_in_the_queue,
        LENGTH(guarded));
    ADD(beside_a_generic_lock_whatever_changes_one_holds_its_buckets_latch);
    ADD(generic_and_concrete_locks_exclude_each_other_between_processes);
    ADD(tokens_grow_over_concrete_and_generic_grants);
    return unit_end();
}
