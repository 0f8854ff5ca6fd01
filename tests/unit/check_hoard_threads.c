/*
 * check_hoard_threads.c - threads that lock and unlock while another takes what
 * lies in their magazines, and slabs with nothing in them: no entry is ever two
 * threads'. For the thread sanitizer as well.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "unit.h"

#define THREADS 4
#define ROUNDS 300
#define HELD 30

static struct {
    struct enq *e;
    uint32_t working, sheds;
    uint64_t seed;
} team;

/* Some are given back, as a stack or as a queue; then all are still there. */
static void *work(void *arg)
{
    unsigned number = (unsigned)(uintptr_t)arg;
    uint64_t dice = team.seed + number;
    struct enq_grant g[HELD];
    char name[16], key[16];

    snprintf(name, sizeof(name), "thread-%u", number);
    for (int round = 0; round < ROUNDS; round++) {
        unsigned n = 1 + (unsigned)(unit_random(&dice) % HELD);

        for (unsigned i = 0; i < n; i++) {
            snprintf(key, sizeof(key), "%u", i);
            want(ENQ_OK, unit_lock(team.e, name, key, ENQ_MODE_X, &g[i]));
        }
        for (unsigned i = 0; i < n; i++)
            want(ENQ_OK, enq_valid(team.e, g[i].handle));
        for (unsigned i = 0; i < n; i++) {
            const struct enq_grant *one = &g[round % 2 ? i : n - 1 - i];
            want(ENQ_OK, enq_unlock(team.e, one->handle, one->token));
        }
    }
    shm_add(&team.working, -1);
    return NULL;
}

TEST(what_is_taken_from_magazines_is_nobody_elses)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 2100};
    pthread_t threads[THREADS];

    team.e = unit_open_with(&opts);
    team.seed = unit_seed();
    team.working = THREADS;
    for (uintptr_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)i);
    while (shm_load(&team.working) > 0) {
        slab_shed(&team.e->session);
        team.sheds++;
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_gt(team.sheds, 0);
    slab_shed(&team.e->session);
    ck_assert_uint_eq(team.e->session.n_pages, 0);
    unit_healthy(team.e);
    enq_close(team.e);
}

int main(void)
{
    unit_begin("hoard_threads");
    ADD(what_is_taken_from_magazines_is_nobody_elses);
    return unit_end();
}
