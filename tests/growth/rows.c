/*
 * rows.c - operations beside many locks that they do not touch.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/visit.h"
#include "growth.h"
#include "lib/mark.h"

#define BATCH 100
#define TIMES 1000

int lock(struct enq *e, const char *name, unsigned field, const char *id,
    struct enq_grant *g)
{
    char text[16];

    snprintf(text, sizeof(text), "%u", field);
    return enq_lock(e,
        ENQ_REQ(.name = name, .key = {text}, .mode = ENQ_MODE_X, .id = id), g);
}

int unlock(struct enq *e, const struct enq_grant *g)
{
    return enq_unlock(e, g->handle, g->token);
}

static void hold(struct beside *b, const char *name)
{
    b->held = calloc(b->n, sizeof(*b->held));
    for (unsigned i = 0; i < b->n; i++)
        must(lock(b->e, name, i, NULL, &b->held[i]));
}

static void hold_others(struct beside *b)
{
    hold(b, "held");
}

static void hold_with_ids(struct beside *b)
{
    b->held = calloc(b->n, sizeof(*b->held));
    for (unsigned i = 0; i < b->n; i++) {
        char id[32];

        snprintf(id, sizeof(id), "id-%u", i);
        must(lock(b->e, "held", i, id, &b->held[i]));
    }
}

/* --- what was looked at --- */

static uint64_t of_others; /* by threads that have ended */
uint64_t uncounted;

uint64_t seen(void)
{
    uint64_t all = of_others;

    for (unsigned i = 0; i < VISITS; i++)
        all += visits[i];
    return all;
}

/* Its thread ends with the attachment: in between it is there. */
static uint64_t seen_by_helper(void)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < VISITS; i++)
        all += visits_of_helper[i];
    return all;
}

/* --- operations --- */

void pair(struct beside *b, unsigned i)
{
    struct enq_grant g;

    must(lock(b->e, "own", i, NULL, &g));
    must(unlock(b->e, &g));
}

static void pair_with_id(struct beside *b, unsigned i)
{
    struct enq_grant g;
    char id[32];

    snprintf(id, sizeof(id), "own-%u", i);
    must(lock(b->e, "own", i, id, &g));
    must(unlock(b->e, &g));
}

/* The table grows, by slabs and by buckets: those of ids are few, and added to
   often. */
static void ten_more(struct beside *b, unsigned i)
{
    struct enq_grant g;
    char id[32];

    for (unsigned k = 10 * i; k < 10 * i + 10; k++) {
        snprintf(id, sizeof(id), "own-%u", k);
        must(lock(b->e, "own", k, id, &g));
    }
}

static void refused(struct beside *b, unsigned i)
{
    struct enq_grant g;
    char text[16];

    snprintf(text, sizeof(text), "%u", i % b->n);
    if (enq_lock(b->e,
            ENQ_REQ(.name = "held", .key = {text}, .mode = ENQ_MODE_X),
            &g) != ENQ_BUSY)
        abort();
}

/* More at once than a thread keeps entries for. */
static void lock_many(struct beside *b, struct enq_grant *g)
{
    for (unsigned k = 0; k < BATCH; k++)
        must(lock(b->e, "own", k, NULL, &g[k]));
}

static void unlock_many(struct enq *by, const struct enq_grant *g)
{
    for (unsigned k = 0; k < BATCH; k++)
        must(unlock(by, &g[k]));
}

static void batch(struct beside *b, unsigned i)
{
    struct enq_grant g[BATCH];

    (void)i;
    lock_many(b, g);
    unlock_many(b->e, g);
}

/* By another session: its own can only find out. */
static void given_back_by_others(struct beside *b, unsigned i)
{
    struct enq_grant g[BATCH];

    (void)i;
    lock_many(b, g);
    unlock_many(b->other, g);
}

static void one_given_back_by_others(struct beside *b, unsigned i)
{
    struct enq_grant g;

    must(lock(b->e, "own", i, NULL, &g));
    must(unlock(b->other, &g));
}

/* What outlived the session that took it. */
static void leave_behind(struct beside *b)
{
    struct enq *dead;
    struct enq_grant g;
    char text[16];

    must(enq_open(&dead, b->space, &b->opts));
    for (unsigned i = 0; i < b->n; i++) {
        snprintf(text, sizeof(text), "%u", i);
        must(enq_lock(dead,
            ENQ_REQ(.name = "held", .key = {text}, .mode = ENQ_MODE_X,
                .on_death = ENQ_DEATH_KEEP),
            &g));
    }
    enq_close(dead);
}

/* The session comes and goes uncounted. */
void first_pair(struct beside *b, unsigned i)
{
    uint64_t before = seen(), opened, paired;
    struct beside mine = *b;

    must(enq_open(&mine.e, b->space, &b->opts));
    opened = seen();
    pair(&mine, i);
    paired = seen();
    enq_close(mine.e);
    uncounted += seen() - paired + opened - before;
}

/* Of one name, beside others: counted is what it looks at while requests for
   that name wait. */
static void list_one(struct beside *b, unsigned i)
{
    uint64_t before = seen(), kept_waiting = visits[VISIT_AT_ONCE];
    struct enq_grant g;
    struct enq_info one;
    size_t total;

    must(lock(b->e, "own", i, NULL, &g));
    must(enq_list(b->e, "own", NULL, &one, 1, &total));
    must(unlock(b->e, &g));
    kept_waiting = visits[VISIT_AT_ONCE] - kept_waiting;
    uncounted += seen() - before - kept_waiting;
}

/* --- by two threads --- */

struct task {
    struct beside *b;
    struct enq_grant g[BATCH];
    unsigned i;
};

static void *give_back(void *context)
{
    struct task *task = context;

    unlock_many(task->b->e, task->g);
    of_others = seen(); /* its own were none when it began */
    return NULL;
}

static void *lock_once(void *context)
{
    struct task *task = context;

    pair(task->b, task->i);
    of_others = seen(); /* its own were none when it began */
    return NULL;
}

static void by_thread(void *(*run)(void *), struct task *task)
{
    pthread_t thread;

    if (pthread_create(&thread, NULL, run, task) != 0)
        abort();
    pthread_join(thread, NULL);
}

static void handed_over(struct beside *b, unsigned i)
{
    struct task task = {.b = b, .i = i};

    lock_many(b, task.g);
    by_thread(give_back, &task);
}

static void by_a_new_thread(struct beside *b, unsigned i)
{
    struct task task = {.b = b, .i = i};

    by_thread(lock_once, &task);
}

/* --- the helper --- */

/* The caller's own looks are another row's. */
static void helped_hand_over(struct beside *b, unsigned i)
{
    uint64_t own = seen(), helper = seen_by_helper();

    hand_over_x(b, i);
    uncounted += seen() - own;
    of_others += seen_by_helper() - helper;
}

static void wait_for_a_second(struct beside *b, unsigned unused)
{
    uint64_t helper = seen_by_helper();

    (void)b, (void)unused;
    sleep(1);
    of_others += seen_by_helper() - helper;
}

/* --- a full table --- */

/* A space that is no larger than that, instead. */
static void fill_a_table(struct beside *b)
{
    struct enq_grant g;
    unsigned i = 0;

    must(enq_unlink(b->space));
    enq_close(b->other);
    enq_close(b->e);
    b->opts.slots = b->n;
    must(enq_open(&b->e, b->space, &b->opts));
    must(enq_open(&b->other, b->space, &b->opts));
    while (lock(b->e, "held", i, NULL, &g) == ENQ_OK)
        i++;
}

static void find_it_full(struct beside *b, unsigned i)
{
    struct enq_grant g;

    if (lock(b->e, "own", i, NULL, &g) != ENQ_EFULL)
        abort();
}

/* --- rows ---
 *
 * What a single one takes is chance, as it may have to add buckets: up to ten
 * times the usual. A walk over 100,000 is far beyond.
 */

const struct row rows[] = {
    {"a pair beside held locks", hold_others, pair, 12, 1000, 0, 0},
    {"a pair with an id beside held ids", hold_with_ids, pair_with_id, 23, 1500,
        0, 0},
    {"ten more with ids beside held ids", hold_with_ids, ten_more, 250, 3000, 0,
        0},
    {"a refusal beside held locks", hold_others, refused, 7, 12, 0, 0},
    {"the first pair of a session beside what the dead left", leave_behind,
        first_pair, 200, 5000, 0, 0},
    {"a batch of 100 beside held locks", hold_others, batch, 420, 5000, 0, 0},
    {"100 given back by another session beside held locks", hold_others,
        given_back_by_others, 3200, 7000, 0, 0},
    {"one given back by another session beside held locks", hold_others,
        one_given_back_by_others, 100, 7000, 0, 0},
    {"100 unlocked by another thread beside held locks", hold_others,
        handed_over, 420, 5000, 0, 0},
    {"a thread that comes and goes beside held locks", hold_others,
        by_a_new_thread, 13, 1000, 0, 0},
    {"a list of one name beside others, while their requests wait", hold_others,
        list_one, 1, 10, 0, 0},
    {"a pair of S beside others", hold_shared, pair_of_shared, 11, 500, 0, 0},
    {"E again beside the owner's", hold_cumulated, cumulate, 11, 500, 0, 0},
    {"one that comes and gives up, behind a queue", hold_x_before_a_queue,
        come_and_give_up, 100, 500, 0, 0},
    {"a hand-over of X in a queue", hold_x_before_a_queue, hand_over_x, 100,
        500, 0, 0},
    {"a hand-over of X in a queue, beside '@' of other keys",
        hold_x_before_a_queue_beside_any, hand_over_x, 100, 500, 1000, 0},
    /* linear in those who wait there, as is the one who waits for all */
    {"a hand-over of X in a queue, while one waits for all of the name",
        hold_x_before_a_queue_and_any, hand_over_x, 80, 0, 10000, 3000},
    {"'@' given back, for which each of them waits",
        hold_all_of_a_name_before_others, give_back_all_of_a_name, 140, 0,
        10000, 3000},
    /* its owner is taken for one that waits in one run of some 200 */
    {"a hand-over of E in a queue", hold_e_before_a_queue, hand_over_e, 100,
        1e6, 1000, 0},
    /* of 3,000 owners that do not wait one is taken for one of 100,000 */
    {"a hand-over of E among owners that wait", hold_e_before_a_queue,
        hand_over_e, 3000, 1e6, 0, 0},
    {"what the helper looks at, in a hand-over of X in a queue",
        hold_x_before_a_queue, helped_hand_over, 400, 1e6, 10000, 0},
    {"what the helper looks at in a second, while they wait",
        hold_x_before_a_queue, wait_for_a_second, 5, 0, 1000, 500},
    {"the same, while events are left unread",
        leave_events_unread_before_a_queue, wait_for_a_second, 5, 0, 1000, 500},
    {"S again, past those who wait for it", hold_before_a_queue,
        lock_past_the_queue, 13, 0, 0, 0},
    {"an unlock that grants all who wait", listen_before_readers,
        unlock_the_key, 14, 0, 0, 0},
    {"a promotion over other O locks", hold_optimistic, promote_one, 13, 0, 0,
        0},
    {"a pair while one waits for all of the name", wait_for_one_of_a_name,
        pair_of_the_name, 48, 1000, 0, 0},
    {"all of a name given back, one after the other, while one waits for all",
        wait_for_all_of_a_name, give_back_all, 110, 0, 0, 3000},
    {"the same, the last first", wait_for_all_of_a_name,
        give_back_the_last_first, 100, 0, 0, 3000},
    {"a pair of all of a name", hold_some_of_a_name, pair_of_all_of_the_name,
        24, 0, 0, 3000},
    {"a refusal by a full table of them", fill_a_table, find_it_full, 5000, 3e6,
        0, 0},
    /* of 2,700 who come behind 100,000 others one is taken for one of them, and
       searches; more than three of the 1,000 that come here, in one run of 1,800 */
    {"one for whom nobody waits, behind a queue", queue_behind_one_who_waits,
        come_behind_one_who_waits, 400, 1e6, 0, 0},
    {"a search behind a set, beside others that wait",
        wait_elsewhere_and_as_a_set, come_behind_a_set, 400, 1e6, 0, 0},
    {"a search beside held locks", hold_much_and_wait, look_and_go, 700, 3000,
        0, 0},
    {"a search beside locks that were waited for", hold_what_was_waited_for,
        look_and_go, 250, 3000, 10000, 0},
    {"a search beside sessions that wait", wait_in_many_sessions,
        look_for_a_cycle, 30, 0, 200, 0},
    {"a search behind a queue", queue_behind_one_who_waits, look_for_a_cycle, 9,
        0, 0, 0},
    {"a search behind owners that wait twice", queue_by_owners_that_wait_twice,
        look_for_a_cycle, 9, 0, 0, 0},
    {"a search behind readers and writers", queue_of_readers_and_writers,
        look_for_a_cycle, 9, 0, 0, 0},
    {"a reader's search behind readers and writers",
        queue_of_readers_and_writers, look_as_a_reader, 16, 0, 0, 0},
    {"a search that comes to each of a queue by its lock",
        hold_what_those_in_another_queue_want, look_for_a_cycle, 26, 0, 0, 0},
    {"the same, where that queue waits for as many",
        hold_what_those_who_wait_for_many_want, look_for_a_cycle, 46, 0, 0, 0},
    {"a search among readers who want to write", share_and_wait_for_more,
        find_a_cycle, 55, 0, 0, 0},
#ifdef ENQ_POINTS
    /* who goes through the table, once in ten pairs, sees 10,000 of 100,000 */
    {"a pair after a death inside the bucket's latch", hold_others,
        lock_after_a_death_inside, 100, 2000, 0, 0},
    {"a pair after a death inside the gate's latch", hold_others,
        lock_after_a_death_inside_the_gate, 100, 2000, 0, 0},
    {"a pair after a death in a look of '@'", hold_others,
        lock_after_a_death_in_a_look, 200, 3000, 0, 0}, /* a shard of 256 */
    {"a pair after a death in a list", hold_others,
        lock_after_a_death_in_a_list, 200, 3000, 0, 0},
    {"a pair after a death amid a lock set", hold_others,
        lock_after_a_death_amid_a_set, 200, 3000, 0, 0}, /* two shards of 256 */
    {"a pair after a death in a split", hold_others,
        lock_after_a_death_in_a_split, 100, 2000, 0, 0},
    {"the first pair of a session after a death in a claim of a page",
        hold_others, lock_after_a_death_in_a_claim, 200, 5000, 0, 0},
#endif
    {.name = NULL},
};

static uint64_t measure(const struct row *row, struct beside *b, unsigned i)
{
    uint64_t before = seen() - uncounted;

    row->run(b, i);
    return seen() - uncounted - before;
}

void row_play(const struct row *row, unsigned n, struct sum *sum)
{
    struct beside b = {.n = n,
        .opts = {.size = sizeof(b.opts), .slots = 300000, .owner = "growth"}};
    unsigned times = row_runs_once(row) ? 1 : TIMES;
    uint64_t all = 0;

    snprintf(b.space, sizeof(b.space), "shm:enq-%sgrowth-%d", test_mark(),
        (int)getpid());
    must(enq_open(&b.e, b.space, &b.opts));
    must(enq_open(&b.other, b.space, &b.opts));
    row->prepare(&b);
    sum->most = 0;
    for (unsigned i = 0; i < times; i++) {
        uint64_t visited = measure(row, &b, i);

        all += visited;
        sum->most = visited > sum->most ? visited : sum->most;
    }
    sum->mean = (double)all / (row_runs_once(row) ? n : TIMES);
    enq_unlink(b.space);
    while (b.n_more > 0)
        enq_close(b.more[--b.n_more]);
    free(b.more);
    enq_close(b.other);
    enq_close(b.e);
    free(b.held);
}
