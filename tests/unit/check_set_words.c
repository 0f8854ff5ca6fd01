/*
 * check_set_words.c - the words of all keys of a set, held at once; and let go
 * of when one of them cannot be had.
 */
#include "wait/set_words.h"

#include "api/attachment.h"
#include "party.h"
#include "recovery/heal.h"

#define NOBODY 1u /* no thread has generation 0: a dead one's */

static int never_heals(struct map *map, struct thread *t)
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
    e->map->heal = never_heals;
    for (int i = 0; i < 2; i++) { /* either of them is the second */
        gate[i]->word = NOBODY;
        want(ENQ_ECORRUPT, enq_lock_set(e, reqs, 2, g));
        gate[i]->word = 0;
        ck_assert_uint_eq(gate[0]->raised + gate[1]->raised, 0);
        ck_assert_uint_eq(gate[0]->word | gate[1]->word, 0);
    }
    e->map->heal = heal;
    want(ENQ_OK, enq_lock_set(e, reqs, 2, g));
    for (int i = 0; i < 2; i++)
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    ends(e);
}

int main(void)
{
    unit_begin("set_words");
    ADD(who_cannot_take_the_second_gate_gives_the_first_back);
    return unit_end();
}
