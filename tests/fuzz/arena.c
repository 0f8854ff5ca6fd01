/*
 * arena.c - guarded segments, put back to what they were after each execution
 * (see fuzz.h).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/mark.h"
#include "populate.h"
#include "recovery/recover.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "sync/hooks.h"
#include "sync/latch.h"

/* A reference is 32 bits of 64-byte units: 256 GiB. */
#define FRONT_BYTES (UINT64_C(1) << 30)
#define BEHIND_BYTES (UINT64_C(1) << 39)

/* --- the machine --- */

int64_t arena_now_ns;
static struct arena *current;
static unsigned waits; /* in this execution */
static unsigned reads_left;
static struct feed edit_later;

/* Nobody waits for as long as this without somebody letting go. */
#define WAITS_PATIENT 6
#define WAITS_MOST 20000

static mono_t now(void)
{
    if (reads_left > 0 && --reads_left == 0)
        damage(current, &edit_later);
    /* it goes on while somebody spins */
    arena_now_ns += 1000;
    return (mono_t){arena_now_ns};
}

static bool is_in_bucket(const struct map *map, uint64_t at)
{
    uint64_t page = (at - map->arena_at) / PAGE_BYTES;

    if (at < map->arena_at)
        return at >= SEG_BUCKETS && at < SEG_FIXED_END;
    return page < map->pages_max &&
        shm_load(&map->pages[page].kind) == PAGE_BUCKETS;
}

static bool is_latch(const struct map *map, const uint32_t *word)
{
    uint64_t at = (uint64_t)((const char *)word - (const char *)map->h);

    if (word == &map->h->given) /* a number that whoever needs room watches */
        return false;
    return at < SEG_THREADS || (at >= SEG_GATES && at < SEG_OWNERS) ||
        is_in_bucket(map, at);
}

/* A living holder of a latch lets go some time. But a thread that waits for
   itself does so for ever. */
static void let_go(uint32_t *word)
{
    if ((*word & ~LATCH_WAITERS) == current->t->ref)
        fuzz_fail("a thread waits for a word that it holds itself");
    *word = 0;
}

static void wait_for(const struct sys_watch *watches, unsigned n, mono_t until)
{
    int64_t most = arena_now_ns + SYS_TICK_NS;

    (void)n;
    if (++waits > WAITS_MOST)
        fuzz_fail("waits without end");
    arena_now_ns = until.ns < arena_now_ns ? arena_now_ns + 1000
        : until.ns < most                  ? until.ns
                                           : most;
    if (waits % WAITS_PATIENT == 0 && is_latch(current->map, watches->word))
        let_go((uint32_t *)(uintptr_t)watches->word);
}

static void sleep_on(const struct sys_watch *watches, unsigned n, mono_t until)
{
    wait_for(watches, n, until);
}

static void wake(const uint32_t *word, int how_many)
{
    (void)word, (void)how_many;
}

/* Whose helper is dead by its word may be over, or linger for a while. */
static bool ended(const struct map *map, const struct process *who)
{
    (void)map, (void)who;
    return ++waits % 4 != 0;
}

void arena_machine(struct arena *a)
{
    sys = (struct sys_ops){now, now, wait_for, sleep_on, wake, ended};
    sys_coarse_lag_ns = 0;
    hooks.drop_magazines = slab_thread_ends;
    arena_now_ns = 1000 * NS_PER_S;
    current = a;
    waits = reads_left = 0;
}

void arena_damage_later(unsigned reads, const struct feed *edit)
{
    reads_left = reads;
    edit_later = *edit;
}

/* --- guards --- */

static char *reserve(void)
{
    void *at = mmap(NULL, FRONT_BYTES + BEHIND_BYTES, PROT_NONE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

    if (at == MAP_FAILED)
        fuzz_fail("no address space: %s", strerror(errno));
    return (char *)at + FRONT_BYTES;
}

static void close_off(char *at, uint64_t bytes)
{
    if (bytes > 0 &&
        mmap(at, bytes, PROT_NONE,
            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1,
            0) == MAP_FAILED)
        fuzz_fail("mmap: %s", strerror(errno));
}

static void rebase(struct map *map, char *to)
{
    const char *from = (const char *)map->h;

#define MOVE(p) (p) = (void *)(to + ((const char *)(p)-from))
    MOVE(map->threads);
    MOVE(map->sessions);
    MOVE(map->gates);
    MOVE(map->shards);
    MOVE(map->dirs);
    MOVE(map->owners);
    MOVE(map->listings);
    MOVE(map->buckets);
    MOVE(map->pages);
    MOVE(map->h);
#undef MOVE
}

static void move_to(struct map *map, char *to)
{
    if (mremap(map->h, map->bytes, map->bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
            to) == MAP_FAILED)
        fuzz_fail("mremap: %s", strerror(errno));
    rebase(map, to);
}

static char *one_place; /* for mappings that come and go */

void arena_guard(struct map *map)
{
    if (one_place == NULL)
        one_place = reserve();
    if (mmap(one_place, map->bytes,
            map->readonly ? PROT_READ : PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_FIXED, map->fd, 0) == MAP_FAILED)
        fuzz_fail("mmap: %s", strerror(errno));
    munmap(map->h, map->bytes);
    rebase(map, one_place);
}

void arena_unguard(struct map *map)
{
    uint64_t bytes = map->bytes;

    map_put(map);
    close_off(one_place, bytes);
}

/* --- making one --- */

#define HOT_PAGES 8 /* of the arena: all that honest use takes */

static const struct map_wish wishes[ARENAS] = {
    [ARENA_BUSY] = {.make = {.slots = 10000, .mode = 0600}},
    [ARENA_TINY] = {.make = {64, .compat = 1, .strict = 1, .mode = 0600}},
    [ARENA_GROWING] = {.make = {.slots = 10000, .mode = 0600}},
    [ARENA_CLEAN] = {.make = {.slots = 10000, .mode = 0600}},
    [ARENA_STRICT] = {.make = {64, .compat = 1, .strict = 1, .mode = 0600}},
};

static struct map *new_map(const struct map_wish *wish, uint64_t *life)
{
    static unsigned number;
    char path[FILE_PATH_BYTES];
    struct map *map;
    bool fresh;
    int rc;

    snprintf(path, sizeof(path), "/dev/shm/enq-%sfuzz-%d-%u", test_mark(),
        (int)getpid(), number++);
    *life = process_enter(&fresh);
    rc = map_attach(path, wish, &map);
    process_leave();
    unlink(path);
    if (rc != 0)
        fuzz_fail("%s", enq_why());
    hooks.recover = recover;
    map->attachments = 1;
    return map;
}

/* One bucket a shard, as if it had just begun to grow: a look at all shards is
   quick, and a few objects split buckets. To the table check that is damage. */
static void shorten(struct map *map)
{
    for (unsigned i = 0; i < SHARDS_ALL; i++)
        map->shards[i].n_buckets = 1;
}

static void begin_session(struct arena *a, unsigned i, uint64_t life)
{
    struct enq *e = &a->at[i].e;

    *e = (struct enq){.life = life, .owner = "me", .path = "a segment"};
    if (session_begin(&e->session, a->t, a->map) != 0)
        fuzz_fail("%s", enq_why());
    e->map = a->map;
    populate_touch(a, i);
    a->at[i].magazine = a->t->magazine;
}

/* From now on what is written is this process's alone. */
static void make_private(struct arena *a, bool grows)
{
    struct map *map = a->map;
    char *base = (char *)map->h;

    a->fd = map->fd;
    a->accessible = map->bytes;
    if (!grows) {
        a->accessible =
            map->arena_at + (uint64_t)map->h->pages_ready * PAGE_BYTES;
        map->fd = -1;
    }
    if (mmap(base, a->accessible, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_FIXED, a->fd, 0) == MAP_FAILED)
        fuzz_fail("mmap: %s", strerror(errno));
    close_off(base + a->accessible, map->bytes - a->accessible);
}

static void keep(struct arena *a)
{
    uint64_t bytes = a->map->arena_at + HOT_PAGES * PAGE_BYTES;

    a->image = malloc(bytes);
    if (a->image == NULL)
        fuzz_fail("out of memory");
    memcpy(a->image, a->map->h, bytes);
    a->thread = *a->t;
    a->handles_made = a->n_handles;
    for (unsigned i = 0; i < ARENA_SESSIONS; i++) {
        struct arena_session *s = &a->at[i];
        size_t size = s->e.session.n_pages * sizeof(*s->pages);

        s->session = s->e.session;
        s->kept = *s->magazine;
        s->pages = malloc(size);
        if (s->pages == NULL)
            fuzz_fail("out of memory");
        memcpy(s->pages, s->session.pages, size);
    }
}

static void arena_make(struct arena *a, enum arena_kind kind)
{
    uint64_t life;

    a->map = new_map(&wishes[kind], &life);
    arena_machine(a);
    move_to(a->map, reserve());
    if (kind < ARENA_CLEAN)
        shorten(a->map);
    a->watcher = (struct enq){.life = life, .map = a->map, .readonly = true};
    a->t = thread_enter(a->map);
    if (a->t == NULL)
        fuzz_fail("%s", enq_why());
    for (unsigned i = 0; i < ARENA_SESSIONS; i++)
        begin_session(a, i, life);
    if (kind < ARENA_CLEAN)
        populate(a);
    make_private(a, kind >= ARENA_GROWING);
    keep(a);
}

struct arena *arena_get(enum arena_kind kind)
{
    static struct arena arenas[ARENAS];
    struct arena *a = &arenas[kind];

    if (a->map == NULL)
        arena_make(a, kind);
    arena_machine(a);
    return a;
}

/* --- for one execution --- */

void arena_lift(struct arena *a)
{
    struct map *map = a->map;
    uint64_t had = (a->accessible - map->arena_at) / PAGE_BYTES;
    char *end = (char *)map->h + a->accessible;

    if (a->lifted || map->h->pages_ready <= had || had == map->pages_max)
        return;
    if (mmap(end, map->bytes - a->accessible, PROT_READ | PROT_WRITE,
            MAP_PRIVATE | MAP_FIXED, a->fd, (off_t)a->accessible) == MAP_FAILED)
        fuzz_fail("mmap: %s", strerror(errno));
    a->lifted = true;
}

static void restore_session(struct arena_session *s)
{
    struct session *session = &s->e.session;
    uint32_t *pages = session->pages, room = session->room_pages;

    *session = s->session;
    session->pages = pages;
    session->room_pages = room;
    memcpy(pages, s->pages, session->n_pages * sizeof(*pages));
    *s->magazine = s->kept;
}

/*
 * Most of what an execution writes lies in few places, which are copied back:
 * a page given up (MADV_DONTNEED) costs two faults the next time, ten times as
 * much. The index is half a megabyte, of which each shard uses one bucket
 * unless somebody has damaged it, or it has grown.
 */
struct part {
    uint64_t at, bytes;
};

static unsigned hot_parts(const struct arena *a, struct part parts[6])
{
    const struct part hot[] = {
        {0, PAGE_BYTES},
        {SEG_THREADS, PAGE_BYTES},
        {SEG_SESSIONS, PAGE_BYTES},
        {SEG_GATES / PAGE_BYTES * PAGE_BYTES,
            SEG_FIXED_END - SEG_GATES / PAGE_BYTES * PAGE_BYTES},
        {SEG_FIXED_END, PAGE_BYTES},
        {a->map->arena_at, HOT_PAGES * PAGE_BYTES},
    };

    memcpy(parts, hot, sizeof(hot));
    return LENGTH(hot);
}

static void copy_back(struct arena *a, uint64_t at, uint64_t bytes)
{
    memcpy(map_at(a->map, at), a->image + at, bytes);
}

static bool index_is_wild(const struct arena *a)
{
    for (unsigned i = 0; i < SHARDS_ALL; i++)
        if (a->map->shards[i].n_buckets != 1 ||
            a->map->shards[i].n_segments != 1)
            return true;
    return a->wild;
}

static void restore_index(struct arena *a)
{
    if (index_is_wild(a)) {
        copy_back(a, SEG_GATES, SEG_FIXED_END - SEG_GATES);
        return;
    }
    copy_back(a, SEG_GATES, SEG_OWNERS - SEG_GATES);
    for (unsigned i = 0; i < SHARDS_ALL; i++)
        copy_back(a, SEG_BUCKETS + i * BUCKETS_FIRST * sizeof(struct bucket),
            sizeof(struct bucket));
}

static void restore_segment(struct arena *a)
{
    struct part hot[6];
    unsigned n = hot_parts(a, hot);

    for (unsigned i = 0; i < n; i++) {
        uint64_t end = hot[i].at + hot[i].bytes;
        uint64_t next = i + 1 < n ? hot[i + 1].at : a->accessible;

        if (hot[i].at > SEG_SESSIONS && end == SEG_FIXED_END)
            restore_index(a);
        else
            copy_back(a, hot[i].at, hot[i].bytes);
        if (next > end)
            madvise(map_at(a->map, end), next - end, MADV_DONTNEED);
    }
}

void arena_restore(struct arena *a)
{
    char *base = (char *)a->map->h;

    reads_left = 0;
    if (a->lifted)
        close_off(base + a->accessible, a->map->bytes - a->accessible);
    restore_segment(a);
    a->lifted = a->wild = false;
    *a->t = a->thread;
    a->n_handles = a->handles_made;
    for (unsigned i = 0; i < ARENA_SESSIONS; i++)
        restore_session(&a->at[i]);
}
