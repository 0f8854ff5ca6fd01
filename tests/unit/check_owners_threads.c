/*
 * check_owners_threads.c - requests of few owners that come and go at once
 * (store/owners.h). For the thread sanitizer as well.
 */
#include <pthread.h>

#include "base/atomic.h"
#include "store/owners.h"
#include "unit.h"

#define THREADS 4
#define ROUNDS 100000
#define OWNERS 40u /* more than a line has words */

static struct seg_header header;
static uint32_t words[OWNER_WORDS];
static const struct map map = {.h = &header, .owners = words};
static uint32_t lost;

/* All of the same first line. */
static uint64_t owner(uint64_t number)
{
    return number << 48 | 0x0000111122223333;
}

/* Its own, while it waits, is found whatever the others do. */
static void *come_and_go(void *arg)
{
    uint64_t dice = *(const uint64_t *)arg;

    for (unsigned i = 0; i < ROUNDS; i++) {
        uint64_t mine = owner(unit_random(&dice) % (i % 2 == 0 ? OWNERS : 2));

        owners_count_in(&map, mine);
        if (!owners_wait(&map, mine, 0))
            shm_add(&lost, 1);
        owners_count_out(&map, mine);
    }
    return NULL;
}

TEST(whose_requests_come_and_go_at_once_is_found_and_forgotten)
{
    uint64_t seeds[THREADS], dice = unit_seed();
    pthread_t threads[THREADS];

    for (unsigned i = 0; i < OWNERS; i++)
        owners_count_in(&map, owner(i));
    for (unsigned i = 0; i < THREADS; i++) {
        seeds[i] = unit_random(&dice);
        pthread_create(&threads[i], NULL, come_and_go, &seeds[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(lost, 0);
    for (unsigned i = 0; i < OWNERS; i++)
        owners_count_out(&map, owner(i));
    ck_assert_uint_eq(header.owners_untold, 0);
    for (unsigned i = 0; i < OWNER_WORDS; i++)
        ck_assert_uint_eq(words[i], 0);
}

int main(void)
{
    unit_begin("owners-threads");
    ADD(whose_requests_come_and_go_at_once_is_found_and_forgotten);
    return unit_end();
}
