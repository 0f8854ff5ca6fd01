/*
 * ofd.c - fcntl(2) locks of open file descriptions (F_OFD_SETLKW): a key
 * is one byte of one file, locked for reading or for writing.
 *
 * The kernel walks the list of all locks of the file for each request, so the
 * cost grows with every lock held: more than some thousand are not offered.
 */
#include "peers/file.h"

#include <errno.h>
#include <fcntl.h>

/* 10,000 take a second to set up, 100,000 would take minutes. */
enum { HELD_MAX = 10000 };

static const char *declines(const struct trial *t)
{
    return t->held <= HELD_MAX ? NULL
                               : "its cost grows with each lock that is held";
}

static int arena_open(const struct trial *t, void **arena)
{
    (void)t;
    return file_arena_open(arena, 1);
}

static int attach(struct seat *s)
{
    return file_attach(s, 0, F_RDLCK, F_WRLCK);
}

/* Every other byte only: the kernel would join neighbours of one owner. */
static int set(int fd, int command, int type, uint32_t key)
{
    struct flock l = {
        .l_type = (short)type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)2 * key,
        .l_len = 1,
    };

    return fcntl(fd, command, &l);
}

static int take(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (set(m->fd, F_OFD_SETLKW, m->mode, m->key) == 0)
        return 0;
    return peer_failed(s, "F_OFD_SETLKW");
}

static int give(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (set(m->fd, F_OFD_SETLK, F_UNLCK, m->key) == 0)
        return 0;
    return peer_failed(s, "F_OFD_SETLK to unlock");
}

static void choose(struct seat *s, uint32_t key)
{
    struct file_mine *m = s->mine;

    m->key = key;
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)
PEER_RANDOM(take_random, choose, take)
PEER_LOOP(random_batch, take_random, give)

static int prepare_refused(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (set(m->holder, F_OFD_SETLK, F_WRLCK, m->key) == 0)
        return 0;
    return peer_failed(s, "F_OFD_SETLK of the holder");
}

static int refuse_once(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (set(m->fd, F_OFD_SETLK, m->mode, m->key) != 0 && errno == EAGAIN)
        return 0;
    return peer_failed(s, "F_OFD_SETLK (to be refused)");
}

PEER_EACH(refuse_batch, refuse_once)

static int hold_many(struct seat *s)
{
    return peer_hold(s, 0, choose, take);
}

static int hold(struct seat *s)
{
    return peer_hold_victim(s, choose, take);
}

const struct subject subject_ofd = {
    .name = "ofd",
    .what = "fcntl OFD locks, a byte of one file for each key",
    .declines = declines,
    SUBJECT_CALLS(arena_open, file_arena_close, attach, file_detach),
    .acts = {PEER_ACT_PAIR, PEER_ACT_FIGHT, PEER_ACT_SHARE, PEER_ACT_REFUSE,
        PEER_ACT_RANDOM, PEER_ACT_DEATH},
};
