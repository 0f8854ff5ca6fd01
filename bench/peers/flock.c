/*
 * flock.c - flock(2): a file for each key. Pairs among many held locks are left
 * out, since each held lock is a file of its own, and costs nothing but its
 * descriptor.
 */
#include "peers/file.h"

#include <errno.h>
#include <sys/file.h>
#include <sys/resource.h>

/* A victim has a descriptor for each lock, and they have to suffice. */
enum { FILES_APART = 100 };

static const char *declines(const struct trial *t)
{
    struct rlimit limit;

    if (t->scenario->work != WORK_DEATH || t->held <= 1)
        return NULL;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
        limit.rlim_cur >= t->held + FILES_APART)
        return NULL;
    return "each lock held takes a file and a descriptor";
}

static int arena_open(const struct trial *t, void **arena)
{
    return file_arena_open(arena, peer_one_key(t) ? 1 : t->procs);
}

static int attach(struct seat *s)
{
    return file_attach(s, peer_number(s), LOCK_SH, LOCK_EX);
}

static int take(struct seat *s)
{
    const struct file_mine *m = s->mine;

    return flock(m->fd, m->mode) == 0 ? 0 : peer_failed(s, "flock");
}

static int give(struct seat *s)
{
    const struct file_mine *m = s->mine;

    return flock(m->fd, LOCK_UN) == 0 ? 0 : peer_failed(s, "flock");
}

PEER_LOOP(pair_batch, take, give)
PEER_GUARDED(take_guarded, take)
PEER_LOOP(fight_batch, take_guarded, give)

static int prepare_refused(struct seat *s)
{
    const struct file_mine *m = s->mine;

    return flock(m->holder, LOCK_EX) == 0 ? 0 : peer_failed(s, "flock");
}

static int refuse_once(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (flock(m->fd, m->mode | LOCK_NB) != 0 && errno == EWOULDBLOCK)
        return 0;
    return peer_failed(s, "flock (to be refused)");
}

PEER_EACH(refuse_batch, refuse_once)

/* The descriptors are never closed: the victim's death does that. */
static int hold(struct seat *s)
{
    for (uint64_t i = 1; i < s->trial->held; i++) {
        int fd = file_new();
        if (fd < 0 || flock(fd, LOCK_EX) != 0)
            return peer_failed(s, "flock of one more file");
    }
    return take(s);
}

const struct subject subject_flock = {
    .name = "flock",
    .what = "flock(2), a file for each key",
    .declines = declines,
    SUBJECT_CALLS(arena_open, file_arena_close, attach, file_detach),
    .acts = {PEER_ACT_PAIR, PEER_ACT_FIGHT, PEER_ACT_SHARE, PEER_ACT_REFUSE,
        PEER_ACT_DEATH},
};
