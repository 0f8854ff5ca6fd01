/*
 * strict.c - libenq in a strict space, where nobody ever overtakes a
 * waiter: what that order costs in a fight, beside the default.
 */
#include "enq/seat.h"

static int arena_open(const struct trial *t, void **arena)
{
    static struct space space = {.strict = 1};

    (void)t;
    snprintf(space.address, sizeof(space.address), "%s-strict", crew_space());
    *arena = &space;
    return 0;
}

const struct subject subject_strict = {
    .name = "enq-strict",
    .what = "libenq in a strict space: nobody overtakes a waiter",
    SUBJECT_CALLS(arena_open, enq_arena_close, enq_attach, enq_detach),
    .acts =
        {
            [WORK_FIGHT] = {.prepare = enq_prepare_waiting,
                ACT_PAIRS(enq_fight_batch, enq_take_guarded, enq_give)},
            [WORK_NEXT] = {.prepare = enq_prepare_events,
                ACT_PAIRS(enq_start_guarded_batch, enq_start_guarded,
                    enq_give)},
            [WORK_QUEUE] = {.arrange = enq_queue_fill, .aside = enq_queue_run},
        },
};
