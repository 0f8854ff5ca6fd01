/*
 * check_set_latches.c - the words of all keys of a set, held at once; and let
 * go of when one of them cannot be had.
 */
#include "wait/set_latches.h"

#include "api/attachment.h"
#include "party.h"
#include "recovery/recover.h"
#include "sync/hooks.h"

#define NOBODY 1u /* no thread has generation 0: a dead one's */

static int never_recovers(struct map *map, struct thread *t)
{
    (void)map;
    (void)t;
    return ENQ_ECORRUPT;
}

/* "n/@" and "m/@": the gates of both names are taken, one after the other. */
TEST(who_cannot_take_the_second_gate_gives_the_first_back)
{
    struct enq *e = unit_open();
    const char *const names[] = {"m", "n"};
    const struct enq_req *reqs[2];
    struct enq_req wide[2];
    struct enq_grant g[2];
    struct gate *gate[2];

    for (int i = 0; i < 2; i++) {
        wide[i] = (struct enq_req){.size = sizeof(wide[i]),
            .name = names[i],
            .key = {"@"},
            .mode = ENQ_MODE_X,
            .owner = "A"};
        reqs[i] = &wide[i];
        want(ENQ_OK, enq_lock(e, reqs[i], &g[i]));
        gate[i] = &e->map->gates[gate_of_hash(
            entry_of_handle(e->map, g[i].handle, &(uint64_t){0})->name_hash)];
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    }
    ck_assert_ptr_ne(gate[0], gate[1]);
    hooks.recover = never_recovers;
    for (int i = 0; i < 2; i++) { /* either of them is the second */
        gate[i]->latch = NOBODY;
        want(ENQ_ECORRUPT, enq_lock_set(e, reqs, 2, g));
        gate[i]->latch = 0;
        ck_assert_uint_eq(gate[0]->raised + gate[1]->raised, 0);
        ck_assert_uint_eq(gate[0]->latch | gate[1]->latch, 0);
    }
    hooks.recover = recover;
    want(ENQ_OK, enq_lock_set(e, reqs, 2, g));
    for (int i = 0; i < 2; i++)
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    ends(e);
}

static unsigned cramped(const struct map *map)
{
    unsigned n = 0;

    for (unsigned i = 0; i < SHARDS_ALL; i++)
        n += map->shards[i].cramped;
    return n;
}

/* Of two keys, perhaps one with an id; all shards from one on want more. */
TEST(the_keys_and_ids_of_a_set_get_the_buckets_that_their_shards_want)
{
    static const struct {
        const char *id;
        unsigned from, taken;
    } with[] = {{NULL, 0, 2}, {"i", SHARDS, 1}, {"i", 0, 3}};
    struct enq *e = unit_open();
    struct party p;

    invite(&p, e, "A", ENQ_MODE_X, "a b", 0);
    p.req[1].id = with[_i].id;
    for (unsigned i = with[_i].from; i < SHARDS_ALL; i++)
        e->map->shards[i].cramped = 1;
    want(ENQ_OK, come(&p));
    ck_assert_uint_eq(cramped(e->map),
        SHARDS_ALL - with[_i].from - with[_i].taken);
    for (size_t i = 0; i < p.n; i++)
        want(ENQ_OK, enq_unlock(e, p.g[i].handle, p.g[i].token));
    ends(e);
}

int main(void)
{
    unit_begin("set_latches");
    ADD(who_cannot_take_the_second_gate_gives_the_first_back);
    ADD_LOOP(the_keys_and_ids_of_a_set_get_the_buckets_that_their_shards_want,
        3);
    return unit_end();
}
