/*
 * growth.h - the rows of growth-run.
 */
#ifndef GROWTH_H
#define GROWTH_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "enq.h"

#define must(rc)                                                               \
    do {                                                                       \
        if ((rc) != ENQ_OK) {                                                  \
            fprintf(stderr, "%s:%d: %s: %s\n", __func__, __LINE__,             \
                enq_result_name(rc), enq_why());                               \
            exit(1);                                                           \
        }                                                                      \
    } while (0)

/* A space with `n` locks in it that nobody waits for. */
struct beside {
    char space[64];
    struct enq_open_opts opts;
    struct enq *e, *other; /* another session, without locks */
    struct enq **more;     /* and `n_more` of them */
    unsigned n_more;
    unsigned n;
    struct enq_grant *held;
    struct enq_grant own; /* of one key that the others share, or wait for */
};

struct row {
    const char *name;
    void (*prepare)(struct beside *b);
    void (*run)(struct beside *b, unsigned i); /* the i-th time */
    double mean, most; /* visits: the budget; `most` 0: see row_runs_once() */
    unsigned largest;  /* so many at most; 0: any */
    /* and what all N take together, however few: where two threads have met by
       chance, all shards have more buckets, and who waits for all of a name
       looks at each, some times */
    double at_any_number;
};

/* For all N together; `mean` is of each of them. */
static inline bool row_runs_once(const struct row *row)
{
    return row->most == 0;
}

extern const struct row rows[]; /* the last has no name */

/* X of one field; by an id, or NULL. */
int lock(struct enq *e, const char *name, unsigned field, const char *id,
    struct enq_grant *g);
int unlock(struct enq *e, const struct enq_grant *g);
void pair(struct beside *b, unsigned i);
void first_pair(struct beside *b,
    unsigned i); /* of a session: a page is claimed */

/* What was looked at, and how much of it not by the operation itself. */
uint64_t seen(void);
extern uint64_t uncounted;

/* After a death inside a latch (death.c); where there are crash points. */
void lock_after_a_death_inside(struct beside *b, unsigned i);
void lock_after_a_death_inside_the_gate(struct beside *b, unsigned i);
void lock_after_a_death_in_a_look(struct beside *b, unsigned i);
void lock_after_a_death_in_a_list(struct beside *b, unsigned i);
void lock_after_a_death_amid_a_set(struct beside *b, unsigned i);
void lock_after_a_death_in_a_split(struct beside *b, unsigned i);
void lock_after_a_death_in_a_claim(struct beside *b, unsigned i);

/* Those of one key (key.c). */
const char *name_of(unsigned i); /* an owner; until the next call */
void hold_before_a_queue(struct beside *b);
void hold_x_before_a_queue(struct beside *b);
void leave_events_unread_before_a_queue(struct beside *b);
void hold_x_before_a_queue_beside_any(struct beside *b);
void hold_x_before_a_queue_and_any(struct beside *b);
void hold_e_before_a_queue(struct beside *b);
void come_and_give_up(struct beside *b, unsigned i);
void hand_over_x(struct beside *b, unsigned i);
void hand_over_e(struct beside *b, unsigned i);
void lock_past_the_queue(struct beside *b, unsigned i);
void listen_before_readers(struct beside *b);
void unlock_the_key(struct beside *b, unsigned i);
void hold_shared(struct beside *b);
void pair_of_shared(struct beside *b, unsigned i);
void hold_cumulated(struct beside *b);
void cumulate(struct beside *b, unsigned i);
void hold_optimistic(struct beside *b);
void promote_one(struct beside *b, unsigned i);

/* While one waits for "@" (any.c). */
void hold_some_of_a_name(struct beside *b);
void pair_of_all_of_the_name(struct beside *b, unsigned unused);
void wait_for_one_of_a_name(struct beside *b);
void pair_of_the_name(struct beside *b, unsigned i);
void wait_for_all_of_a_name(struct beside *b);
void hold_all_of_a_name_before_others(struct beside *b);
void give_back_all_of_a_name(struct beside *b, unsigned unused);
void give_back_all(struct beside *b, unsigned unused);
void give_back_the_last_first(struct beside *b, unsigned unused);

/* The search for a cycle (graph.c). */
void queue_behind_one_who_waits(struct beside *b);
void queue_by_owners_that_wait_twice(struct beside *b);
void queue_of_readers_and_writers(struct beside *b);
void hold_what_those_in_another_queue_want(struct beside *b);
void hold_what_those_who_wait_for_many_want(struct beside *b);
void hold_much_and_wait(struct beside *b);
void hold_what_was_waited_for(struct beside *b);
void wait_in_many_sessions(struct beside *b);
void look_for_a_cycle(struct beside *b, unsigned unused);
void look_and_go(struct beside *b, unsigned unused);
void look_as_a_reader(struct beside *b, unsigned unused);
void come_behind_one_who_waits(struct beside *b, unsigned i);
void wait_elsewhere_and_as_a_set(struct beside *b);
void come_behind_a_set(struct beside *b, unsigned unused);
void share_and_wait_for_more(struct beside *b);
void find_a_cycle(struct beside *b, unsigned unused);

struct sum {
    double mean;
    uint64_t most;
};

void row_play(const struct row *row, unsigned n, struct sum *sum);

#endif
