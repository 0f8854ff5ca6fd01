/*
 * futex.c - the floor of a queue: a lock that is nothing but one. Who comes
 * draws a ticket and sleeps on a word of its own; who goes wakes the next. No
 * names, owners, deaths, deadlocks or ends of a wait: what this takes for a
 * hand-over, the kernel takes, and the caches that a thread finds cold when it
 * wakes up among so many.
 */
#include "load/queue.h"
#include "peers/peer.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

/* More than threads that wait: a power of two, so that tickets may wrap. */
enum { WORDS = 1 << 17 };
_Static_assert(WORDS > COUNT_MAX + 2, "a word for each that waits");

struct word {
    _Alignas(64) _Atomic uint32_t turn; /* the ticket whose turn it is */
};

/* Shared as a lock table is: a private futex would be cheaper. */
struct arena {
    _Alignas(64) _Atomic uint32_t drawn;
    _Alignas(64) uint32_t holder; /* its ticket; under the lock */
    struct word word[WORDS];
};

static int arena_open(const struct trial *t, void **arena)
{
    (void)t;
    *arena = mmap(NULL, sizeof(struct arena), PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return *arena == MAP_FAILED ? errno : 0;
}

static void arena_close(const struct trial *t, void *arena)
{
    (void)t;
    munmap(arena, sizeof(struct arena));
}

/* A seat has nothing but what is in the arena. */
static int attach(struct seat *s)
{
    (void)s;
    return 0;
}

static void detach(struct seat *s)
{
    (void)s;
}

static int take(struct seat *s)
{
    struct arena *a = s->arena;
    uint32_t mine = atomic_fetch_add(&a->drawn, 1), turn;
    _Atomic uint32_t *word = &a->word[mine % WORDS].turn;

    while ((turn = atomic_load(word)) != mine)
        if (syscall(SYS_futex, word, FUTEX_WAIT, turn, NULL, NULL, 0) != 0 &&
            errno != EAGAIN && errno != EINTR)
            return peer_failed(s, "futex");
    a->holder = mine;
    return 0;
}

static int give(struct seat *s)
{
    struct arena *a = s->arena;
    uint32_t next = a->holder + 1;
    _Atomic uint32_t *word = &a->word[next % WORDS].turn;

    atomic_store(word, next);
    if (syscall(SYS_futex, word, FUTEX_WAKE, 1, NULL, NULL, 0) < 0)
        return peer_failed(s, "futex");
    return 0;
}

PEER_GUARDED(take_guarded, take)

/* The worker has the lock. */
static int waiting(struct seat *s, uint64_t *n)
{
    struct arena *a = s->arena;

    *n = atomic_load(&a->drawn) - a->holder - 1;
    return 0;
}

static const struct queue_calls calls = {
    .join = attach,
    .take = take_guarded,
    .give = give,
    .leave = detach,
    .waiting = waiting,
};

PEER_QUEUE(calls, take, give)

const struct subject subject_futex = {
    .name = "futex-queue",
    .what = "a bare queue: each sleeps on a futex of its own",
    .floor = true,
    SUBJECT_CALLS(arena_open, arena_close, attach, detach),
    .acts = {PEER_ACT_QUEUE},
};
