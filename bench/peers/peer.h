/*
 * peer.h - what the peers share: a worker's part, the bytes of a key, loops,
 * and directories of their own for one trial.
 */
#ifndef BENCH_PEERS_PEER_H
#define BENCH_PEERS_PEER_H

#include "load/server.h"

#include <string.h>
#include <sys/types.h>

#define PEER_KEY_FIXED "product/Computer/"

/* Name and both fields, as libenq's scenarios have them: a peer has as many
   bytes to hash and to compare. */
enum {
    PEER_KEY_START = sizeof(PEER_KEY_FIXED) - 1,
    PEER_KEY_LEN = PEER_KEY_START + 8,
    PEER_DIR_BYTES = 64,
};

struct peer_key {
    char text[PEER_KEY_LEN + 1];
};

/* Eight letters in place: cheaper than a format in a measured loop. */
static inline void peer_key_set(struct peer_key *k, uint32_t number)
{
    char *digit = k->text + PEER_KEY_START;

    for (int i = 7; i >= 0; i--, number >>= 4)
        digit[i] = (char)('a' + (number & 15));
}

static inline bool peer_one_key(const struct trial *t)
{
    return t->scenario->work == WORK_DEATH ||
        strcmp(t->scenario->keys, "one") == 0;
}

/* Of the worker: where there is one key for all, it is number 0. */
static inline uint32_t peer_number(const struct seat *s)
{
    return peer_one_key(s->trial) ? 0 : s->index;
}

/* A free key; the free are as many as the held, and follow them. */
static inline uint32_t peer_random(struct seat *s)
{
    uint64_t n = s->trial->held > 0 ? s->trial->held : 1;

    return (uint32_t)(n + seat_random(s) % n);
}

/*
 * A peer's functions, made of its take(), give(), choose() and so on. Each peer
 * has a copy of its own: in a measured loop the calls are direct, or none, where
 * the loop is of one of them (flatten).
 */
#define PEER_LOOP(name, take, give)                                            \
    static int name(struct seat *s, uint32_t n)                                \
    {                                                                          \
        for (uint32_t i = 0; i < n; i++)                                       \
            if (take(s) != 0 || give(s) != 0)                                  \
                return -1;                                                     \
        return 0;                                                              \
    }

#define PEER_EACH(name, once)                                                  \
    __attribute__((flatten)) static int name(struct seat *s, uint32_t n)       \
    {                                                                          \
        for (uint32_t i = 0; i < n; i++)                                       \
            if (once(s) != 0)                                                  \
                return -1;                                                     \
        return 0;                                                              \
    }

#define PEER_GUARDED(name, take)                                               \
    static int name(struct seat *s)                                            \
    {                                                                          \
        int rc = take(s);                                                      \
                                                                               \
        if (rc == 0)                                                           \
            guard_visit(s, 0);                                                 \
        return rc;                                                             \
    }

#define PEER_RANDOM(name, choose, take)                                        \
    static int name(struct seat *s)                                            \
    {                                                                          \
        choose(s, peer_random(s));                                             \
        return take(s);                                                        \
    }

#define PEER_OWN(name, choose, take)                                           \
    static int name(struct seat *s)                                            \
    {                                                                          \
        choose(s, seat_own_key(s));                                            \
        return take(s);                                                        \
    }

/* A queue of threads: @calls are theirs, @take and @give the worker's. */
#define PEER_QUEUE(calls, take, give)                                          \
    static int queue_arrange(struct seat *s, bool base)                        \
    {                                                                          \
        (void)base;                                                            \
        if (take(s) != 0)                                                      \
            return -1;                                                         \
        return queue_fill(s, &calls, (unsigned)s->trial->count + 1);           \
    }                                                                          \
                                                                               \
    static int hand_over(struct seat *s)                                       \
    {                                                                          \
        return queue_run(s, give);                                             \
    }

/* A row of a peer's acts each, of functions that have these names. */
#define PEER_ACT_PAIR [WORK_PAIR] = {ACT_PAIRS(pair_batch, take, give)}
#define PEER_ACT_FIGHT                                                         \
    [WORK_FIGHT] = {ACT_PAIRS(fight_batch, take_guarded, give)}
#define PEER_ACT_CUMULATE                                                      \
    [WORK_CUMULATE] = {.prepare = take, ACT_PAIRS(pair_batch, take, give)}
#define PEER_ACT_SHARE [WORK_SHARE] = {ACT_PAIRS(pair_batch, take, give)}
#define PEER_ACT_REFUSE                                                        \
    [WORK_REFUSE] = {.prepare = prepare_refused,                               \
        ACT_PAIRS(refuse_batch, refuse_once, NULL)}
#define PEER_ACT_RANDOM                                                        \
    [WORK_RANDOM] = {                                                          \
        .prepare = hold_many, ACT_PAIRS(random_batch, take_random, give)}
#define PEER_ACT_POOL [WORK_POOL] = {ACT_PAIRS(pool_batch, take_own, give)}
#define PEER_ACT_DEATH                                                         \
    [WORK_DEATH] = {.acquire = take, .release = give, .hold = hold}
#define PEER_ACT_MEMORY                                                        \
    [WORK_WEIGH] = {.weigh = weigh}, [WORK_ATTACH] = {.weigh = weigh_empty}

#define PEER_ACT_QUEUE                                                         \
    [WORK_QUEUE] = {.arrange = queue_arrange, .aside = hand_over}

void peer_key_init(struct peer_key *k, uint32_t number);

/* Zeroed, and s->mine until peer_mine_free(); NULL after seat_fail(). */
void *peer_mine_new(struct seat *s, size_t bytes);
void peer_mine_free(struct seat *s);

/* seat_fail() with what errno says of @call. */
int peer_failed(struct seat *s, const char *call);

/* Takes the keys from @first up to trial->held; and as act.hold, key 0 last. */
int peer_hold(struct seat *s, uint32_t first,
    void (*choose)(struct seat *s, uint32_t key), int (*take)(struct seat *s));
int peer_hold_victim(struct seat *s,
    void (*choose)(struct seat *s, uint32_t key), int (*take)(struct seat *s));

/* subject.missing() of a peer that this program was built without. */
const char *peer_missing(void);

/*
 * A process that sleeps until its parent is killed, and then calls
 * clean(@arg): what a peer has outside of us has to go even then. peer_safe()
 * returns 0 if there can be none; peer_safe_end() ends it, without a call.
 */
pid_t peer_safe(void (*clean)(void *arg), void *arg);
void peer_safe_end(pid_t janitor);

/* A directory of a peer's own; it goes with us whatever we die of. */
struct peer_dir {
    char path[PEER_DIR_BYTES];
    pid_t janitor;
};

/* Returns 0 or an errno, with nothing to remove. */
int peer_dir_new(struct peer_dir *d, const char *parent, const char *peer);
void peer_dir_remove(struct peer_dir *d); /* with all that is in it */

/* The same as the whole arena of a subject. */
int peer_dir_open(void **arena, const char *parent, const char *peer);
void peer_dir_close(const struct trial *t, void *arena);

/* What an arena begins with that is a server in a directory of its own; @begin
   starts it, and returns 0 or an errno. */
struct peer_server {
    struct peer_dir dir;
    struct server server;
};
int peer_server_open(const struct trial *t, void **arena, size_t bytes,
    const char *peer, int (*begin)(void *arena, const struct trial *t));
void peer_server_close(const struct trial *t, void *arena);

/* What the files in it take of the memory that they lie in. */
uint64_t peer_dir_bytes(const struct peer_dir *d);

/* Fills the slot's histogram with the times that @attach takes in processes
   that never did it. */
int peer_time_attach(struct seat *s, int (*attach)(struct seat *),
    void (*detach)(struct seat *));

#endif
