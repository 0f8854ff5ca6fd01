/*
 * peer.h - what the peers share: the bytes of a key, directories of their own
 * for one trial, files without a name, and what a peer says that is not there.
 */
#ifndef BENCH_PEER_H
#define BENCH_PEER_H

#include "bench.h"

#include <string.h>
#include <sys/types.h>

#define PEER_MISSING "not installed (make bench-peers)"

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

/* A measured loop. Always inlined, so that the calls in it are direct. */
__attribute__((always_inline)) static inline int peer_pairs(struct seat *s,
    uint32_t n, int (*take)(struct seat *), int (*give)(struct seat *))
{
    for (uint32_t i = 0; i < n; i++)
        if (take(s) != 0 || give(s) != 0)
            return -1;
    return 0;
}

void peer_key_init(struct peer_key *k, uint32_t number);

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
void peer_dir_remove(struct peer_dir *d); /* with the files in it */

/* What the files in it take of the memory that they lie in. */
uint64_t peer_dir_bytes(const struct peer_dir *d);

/* Fills the slot's histogram with the times that @attach takes in processes
   that never did it. */
int peer_time_attach(struct seat *s, int (*attach)(struct seat *),
    void (*detach)(struct seat *));

/*
 * A file without a name, so that nothing of it stays whatever we die of; and
 * one more open file description of it, which is what owns flock and OFD
 * locks. Both return a descriptor, or -1 with errno.
 */
int peer_file_new(void);
int peer_file_again(int fd);

#endif
