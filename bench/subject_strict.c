/*
 * subject_strict.c - libenq in a strict space, where nobody ever overtakes a
 * waiter: what that order costs in a fight, beside the default.
 */
#include "seat_enq.h"

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
    .open = arena_open,
    .close = enq_arena_close,
    .attach = enq_attach,
    .detach = enq_detach,
    .acts =
        {
            [WORK_FIGHT] = {.prepare = enq_prepare_waiting,
                .batch = enq_fight_batch,
                .acquire = enq_take_guarded,
                .release = enq_give},
            [WORK_NEXT] = {.prepare = enq_prepare_events,
                .batch = enq_start_guarded_batch,
                .acquire = enq_start_guarded,
                .release = enq_give},
            [WORK_QUEUE] = {.arrange = enq_queue_fill, .aside = enq_queue_run},
        },
};
