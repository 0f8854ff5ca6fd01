/*
 * check_set_threads.c - threads that share attachments and fight over
 * overlapping lock sets: for the thread sanitizer, too.
 */
#include <errno.h>
#include <stdlib.h>

#include "party.h"

#define WORKERS 4
#define KEYS 6
#define ROUNDS (UNIT_TSAN ? 150 : UNIT_SANITIZED ? 300 : 2000)

static struct enq *arena[2];
static uint32_t inside[KEYS];

struct worker {
    pthread_t thread;
    unsigned number;
    uint64_t dice;
    char owner[8];
    unsigned first, n; /* its keys, in a row */
    struct party p;
};

static unsigned roll(struct worker *w, unsigned n)
{
    return (unsigned)(unit_random(&w->dice) % n);
}

static void choose(struct worker *w, int64_t wait_ms)
{
    static const char *const keys[KEYS] = {"a", "b", "c", "d", "e", "f"};

    w->first = roll(w, KEYS);
    w->n = 1 + roll(w, 3);
    memset(&w->p, 0, sizeof(w->p));
    w->p.e = arena[w->number % 2];
    w->p.n = w->n;
    for (unsigned i = 0; i < w->n; i++) {
        w->p.req[i] = (struct enq_req){.size = sizeof(struct enq_req),
            .name = "n",
            .key = {keys[(w->first + i) % KEYS]},
            .mode = ENQ_MODE_X,
            .owner = w->owner,
            .wait_ms = wait_ms};
        w->p.reqs[i] = &w->p.req[i];
    }
}

static void enters(struct worker *w)
{
    for (unsigned i = 0; i < w->n; i++)
        ck_assert_uint_eq(shm_add(&inside[(w->first + i) % KEYS], 1), 1);
}

static void leaves(struct worker *w)
{
    for (unsigned i = 0; i < w->n; i++)
        shm_add(&inside[(w->first + i) % KEYS], -1);
    goes(&w->p);
}

static void visit(struct worker *w)
{
    enters(w);
    leaves(w);
}

/* One at a time in each attachment takes its events. */
static pthread_mutex_t async[2] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER};

static int result_of(struct worker *w, uint64_t ticket)
{
    struct pollfd ready = {enq_fd(w->p.e), POLLIN, 0};
    struct enq_event event;

    do {
        ck_assert_int_eq(poll(&ready, 1, (int)unit_patience_ms()), 1);
        if (enq_next(w->p.e, &event) != ENQ_OK)
            event.kind = 0;
    } while (event.kind != ENQ_EVENT_RESULT);
    ck_assert_uint_eq(event.ticket, ticket);
    return event.result;
}

static void start_one(struct worker *w)
{
    uint64_t ticket;
    int rc;

    choose(w, roll(w, 3) == 0 ? 1 : ENQ_FOREVER);
    pthread_mutex_lock(&async[w->number % 2]);
    rc = enq_start_set(w->p.e, w->p.reqs, w->n, w->p.g, &ticket);
    if (rc == ENQ_PENDING && roll(w, 4) == 0)
        enq_cancel(w->p.e, ticket);
    if (rc == ENQ_PENDING)
        rc = result_of(w, ticket);
    pthread_mutex_unlock(&async[w->number % 2]);
    ck_assert(rc == ENQ_OK || rc == ENQ_TIMEDOUT || rc == ENQ_CANCELLED);
    if (rc == ENQ_OK)
        visit(w);
}

static void lock_one(struct worker *w)
{
    int rc;

    choose(w, roll(w, 4) == 0 ? (int64_t)roll(w, 3) : ENQ_FOREVER);
    rc = come(&w->p);
    ck_assert(rc == ENQ_OK || rc == ENQ_TIMEDOUT || rc == ENQ_BUSY);
    if (rc == ENQ_OK)
        visit(w);
}

/* All keys: the wide way. */
static void lock_wide(struct worker *w)
{
    choose(w, ENQ_FOREVER);
    w->p.req[0].key[0] = "@";
    w->p.n = 1;
    want(ENQ_OK, come(&w->p));
    w->first = 0;
    w->n = KEYS;
    enters(w);
    leaves(w);
}

static void *work(void *worker)
{
    struct worker *w = worker;

    for (int i = 0; i < ROUNDS; i++) {
        unsigned what = roll(w, 40);

        if (what == 0)
            lock_wide(w);
        else if (what < 10)
            start_one(w);
        else
            lock_one(w);
    }
    return NULL;
}

TEST(many_who_fight_over_overlapping_sets_all_get_through)
{
    static struct worker workers[WORKERS];
    uint64_t seed = (uint64_t)unit_now_ms();

    printf("seed %llu\n", (unsigned long long)seed);
    fflush(stdout);
    arena[0] = unit_open();
    arena[1] = unit_open();
    for (unsigned i = 0; i < WORKERS; i++) {
        struct worker *w = &workers[i];

        w->number = i;
        w->dice = seed + i;
        snprintf(w->owner, sizeof(w->owner), "w%u", i);
        pthread_create(&w->thread, NULL, work, w);
    }
    for (unsigned i = 0; i < WORKERS; i++)
        pthread_join(workers[i].thread, NULL);
    enq_close(arena[1]);
    ends(arena[0]);
}

int main(void)
{
    unit_begin("set_threads");
    ADD(many_who_fight_over_overlapping_sets_all_get_through);
    return unit_end();
}
