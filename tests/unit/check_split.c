/*
 * check_split.c - a thread dies while it splits a bucket: all that was in it is
 * the old bucket's again, whichever of the two it was in.
 *
 * There are no ticks: who is not told sleeps on.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/point.h"
#include "store/grow.h"
#include "unit.h"

/* Of one shard: those of its first bucket, which is split first, more than have a
   slot going to the new one; and others, so that two more buckets are called
   for. */
#define GO (BUCKET_SLOTS + 3)
#define STAY 6
#define ALL (BUCKETS_FIRST * BUCKET_LOAD + 12)

/* At least so many points there are to die at. */
#define LEAST (2 * GO)

static struct enq *e;
static char text[ALL][16]; /* a field, or an id */
static uint32_t remade;
static bool by_id;

static struct spot spot_of_text(const char *field)
{
    const struct enq_req req = {
        .size = sizeof(req), .name = "n", .key = {field}};
    char bytes[KEY_BYTES_MAX];
    struct key key;

    if (by_id)
        return spot_of_id(e->map, field, strlen(field) + 1);
    want(0, key_pack(&key, bytes, sizeof(bytes), &req, e->map->hash_seed));
    return spot_of(key.name_hash, key.hash);
}

static int ask(unsigned i, const char *owner, enum enq_mode mode)
{
    struct enq_grant g;
    char field[16];

    snprintf(field, sizeof(field), "of %u", i);
    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {by_id ? field : text[i]}, .mode = mode,
            .id = by_id ? text[i] : NULL, .owner = owner),
        &g);
}

/* By turns, at first. */
static bool is_wanted(const struct spot *spot, unsigned n)
{
    uint32_t half = bucket_number(spot->hash, BUCKETS_FIRST + 1);

    if (n >= GO + STAY)
        return half != 0 && half != BUCKETS_FIRST;
    return half == (n < 2 * STAY && n % 2 == 0 ? 0 : BUCKETS_FIRST);
}

/* Each key is shared by two: there are rings. */
static void fill(void)
{
    uint32_t shard = 0;
    unsigned n = 0;

    for (unsigned i = 0; n < ALL; i++) {
        struct spot spot;

        snprintf(text[n], sizeof(text[n]), "%u", i);
        spot = spot_of_text(text[n]);
        if ((n > 0 && spot.shard != shard) || !is_wanted(&spot, n))
            continue;
        shard = spot.shard;
        want(ENQ_OK, ask(n, "a", ENQ_MODE_S));
        if (!by_id)
            want(ENQ_OK, ask(n, "b", ENQ_MODE_S));
        n++;
    }
}

static void begin(bool ids)
{
    struct enq_grant g; /* the first page has memory for all of them */
    int fd;

    setenv("ENQ_TICK_MS", "600000", 1);
    alarm(60);
    e = unit_open();
    by_id = ids;
    want(ENQ_OK, unit_lock(e, "other", "a", ENQ_MODE_X, &g));
    fd = e->map->fd;
    e->map->fd = -1; /* there is no memory for more buckets yet */
    fill();
    e->map->fd = fd;
    e->map->buckets_barren_ns = 0;
    ck_assert_uint_ne(at_bucket(e->map, spot_of_text(text[0]).shard, 0)->more,
        0);
    remade = e->map->h->remade;
}

/* --- the death --- */

static unsigned points_left;

static void die_there(const struct point *p)
{
    if (strncmp(p->name, "index.", 6) == 0 && points_left-- == 0)
        kill(getpid(), SIGKILL);
}

static void grow(void)
{
    uint32_t shard = spot_of_text(text[0]).shard;

    e->map->shards[shard].cramped = 1;
    index_grow(e->map, thread_enter(e->map), shard);
}

/* Not that of a lock, which would be its end. */
static int die_splitting(void *points)
{
    points_left = *(const unsigned *)points;
    e = unit_open();
    thread_enter(e->map);
    point_hook = die_there;
    grow();
    return 0;
}

/* All are there, once, and found; nothing else was looked through. */
static void all_are_there(void)
{
    for (unsigned i = 0; i < ALL; i++)
        want(by_id ? ENQ_EXISTS : ENQ_BUSY, ask(i, "c", ENQ_MODE_X));
    ck_assert_uint_le(e->map->h->remade, remade + 1);
    unit_healthy(e);
}

/* Keys, and ids. */
TEST(whoever_dies_while_a_bucket_is_split_takes_nothing_along)
{
    int status = SIGKILL;

    for (unsigned points = 0; status != 0; points++) {
        pid_t pid;

        begin(_i == 1);
        pid = unit_fork(die_splitting, &points);
        ck_assert_int_eq(waitpid(pid, &status, 0), pid);
        ck_assert(status == 0 || status == SIGKILL);
        ck_assert(status == SIGKILL || points >= LEAST);
        all_are_there();
        grow();
        all_are_there();
        enq_unlink(unit_space());
        enq_close(e);
    }
}

int main(void)
{
    unit_begin("split");
    ADD_LOOP(whoever_dies_while_a_bucket_is_split_takes_nothing_along, 2);
    return unit_end();
}
