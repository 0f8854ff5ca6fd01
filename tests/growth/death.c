/*
 * death.c - a pair after a process has died inside a latch.
 */
#include "base/point.h"

#ifdef ENQ_POINTS
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "growth.h"
#include "store/index.h"

static const char *fatal;

static void die_there(const struct point *p)
{
    if (strcmp(p->name, fatal) == 0)
        kill(getpid(), SIGKILL);
}

typedef void dying_fn(struct enq *e, unsigned i);

static void die_inside(const struct beside *b, unsigned i, dying_fn *dying)
{
    struct enq *e;

    must(enq_open(&e, b->space, &b->opts));
    /* one thread dies inside, not two: its helper has looked round by then */
    while (!shm_load(&e->session.slot->asleep))
        usleep(100);
    dying(e, i);
    exit(1);
}

/* A hundred times: they are enough. */
static bool has_died(struct beside *b, unsigned i, dying_fn *dying)
{
    uint64_t before = seen();
    pid_t pid;
    int status;

    if (i % 10 != 0)
        return false;
    pid = fork();
    if (pid == 0)
        die_inside(b, i, dying);
    if (waitpid(pid, &status, 0) != pid || !WIFSIGNALED(status))
        abort();
    uncounted += seen() - before;
    return true;
}

static void pair_after_a_death(struct beside *b, unsigned i, dying_fn *dying)
{
    if (has_died(b, i, dying))
        pair(b, i);
}

static void die_unlocking(struct enq *e, unsigned i)
{
    struct enq_grant g;

    must(lock(e, "own", i, NULL, &g));
    fatal = "unlock.unlinked";
    point_hook = die_there;
    unlock(e, &g);
}

void lock_after_a_death_inside(struct beside *b, unsigned i)
{
    pair_after_a_death(b, i, die_unlocking);
}

static void die_unlocking_all(struct enq *e, unsigned i)
{
    struct enq_grant g;

    (void)i;
    must(enq_lock(e, ENQ_REQ(.name = "own", .key = {"@"}, .mode = ENQ_MODE_X),
        &g));
    fatal = "unlock.unlinked";
    point_hook = die_there;
    unlock(e, &g);
}

void lock_after_a_death_inside_the_gate(struct beside *b, unsigned i)
{
    pair_after_a_death(b, i, die_unlocking_all);
}

/* In the bucket of its own lock: others have none of that name. */
static void die_looking(struct enq *e, unsigned i)
{
    struct enq_grant g;

    must(lock(e, "own", i, NULL, &g));
    must(lock(e, "elsewhere", i, NULL, &g));
    fatal = "scope.bucket_latched";
    point_hook = die_there;
    enq_lock(e, ENQ_REQ(.name = "own", .key = {"@"}, .mode = ENQ_MODE_X), &g);
}

void lock_after_a_death_in_a_look(struct beside *b, unsigned i)
{
    pair_after_a_death(b, i, die_looking);
}

static void die_listing(struct enq *e, unsigned i)
{
    struct enq_grant g;
    struct enq_info info;
    size_t total;

    must(lock(e, "own", i, NULL, &g));
    must(lock(e, "elsewhere", i, NULL, &g));
    fatal = "list.bucket_latched";
    point_hook = die_there;
    enq_list(e, "own", NULL, &info, 1, &total);
}

void lock_after_a_death_in_a_list(struct beside *b, unsigned i)
{
    pair_after_a_death(b, i, die_listing);
}

static void die_amid_a_set(struct enq *e, unsigned i)
{
    char text[16];
    const struct enq_req *both[] = {
        ENQ_REQ(.name = "own", .key = {text}, .mode = ENQ_MODE_X),
        ENQ_REQ(.name = "own", .key = {text, "too"}, .mode = ENQ_MODE_X)};
    struct enq_grant g[2];

    snprintf(text, sizeof(text), "%u", i);
    fatal = "set.member_held";
    point_hook = die_there;
    enq_lock_set(e, both, 2, g);
}

void lock_after_a_death_amid_a_set(struct beside *b, unsigned i)
{
    pair_after_a_death(b, i, die_amid_a_set);
}

/* --- amid a split, and with a page half claimed --- */

static struct split splitting; /* by whoever is to die in it */
static unsigned *field;        /* of a key in the bucket that is being split */

static bool is_of_bucket(const struct map *map, unsigned i)
{
    char bytes[KEY_BYTES_MAX], text[16];
    const struct enq_req req = {
        .size = sizeof(req), .name = "own", .key = {text}};
    struct key key;
    struct spot spot;

    snprintf(text, sizeof(text), "%u", i);
    must(key_pack(&key, bytes, sizeof(bytes), &req, map->hash_seed));
    spot = spot_of(key.name_hash, key.hash);
    return spot.shard == splitting.shard &&
        bucket_of(map, &spot) == splitting.from;
}

static void die_in_a_split(const struct point *p)
{
    struct thread *t = thread_last;

    if (strcmp(p->name, "index.moved") != 0 ||
        !map_split_of(t->map, t->slot, &splitting) || splitting.shard >= SHARDS)
        return;
    point_hook = NULL;
    for (*field = 0; !is_of_bucket(t->map, *field); ++*field)
        continue;
    kill(getpid(), SIGKILL);
}

static void die_splitting(struct enq *e, unsigned i)
{
    struct enq_grant g;

    (void)i;
    point_hook = die_in_a_split;
    for (unsigned k = 0;; k++)
        must(lock(e, "more", k, NULL, &g));
}

void lock_after_a_death_in_a_split(struct beside *b, unsigned i)
{
    if (field == NULL)
        field = mmap(NULL, sizeof(*field), PROT_READ | PROT_WRITE,
            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (has_died(b, i, die_splitting))
        pair(b, *field);
}

static void die_claiming(struct enq *e, unsigned i)
{
    struct enq_grant g;

    (void)i;
    fatal = "slab.claimed";
    point_hook = die_there;
    for (unsigned k = 0;; k++)
        must(lock(e, "more", k, NULL, &g));
}

void lock_after_a_death_in_a_claim(struct beside *b, unsigned i)
{
    if (has_died(b, i, die_claiming))
        first_pair(b, i);
}
#endif
