/*
 * peer_flock.c - flock(2): a file for each key. The kernel ends a lock with
 * the last descriptor of its open file description, so also with its process.
 *
 * Each seat opens the file anew: a description that a child inherits would
 * share the locks. Pairs among many held locks are left out, since each held
 * lock is a file of its own, and costs nothing but its descriptor.
 */
#include "peer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <unistd.h>

struct arena {
    unsigned files;
    int fd[PROCS_MAX];
};

struct mine {
    int fd, holder; /* two descriptions of the same file */
    int mode;
};

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

static void arena_close(const struct trial *t, void *arena)
{
    struct arena *a = arena;

    (void)t;
    while (a->files > 0)
        close(a->fd[--a->files]);
    free(a);
}

static int arena_open(const struct trial *t, void **arena)
{
    struct arena *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return ENOMEM;
    for (unsigned n = peer_one_key(t) ? 1 : t->procs; a->files < n;) {
        a->fd[a->files] = peer_file_new();
        if (a->fd[a->files] < 0) {
            int rc = errno;
            arena_close(t, a);
            return rc;
        }
        a->files++;
    }
    *arena = a;
    return 0;
}

static int flock_failed(struct seat *s, const char *call)
{
    return seat_fail(s, "%s: %s", call, strerror(errno));
}

static int attach(struct seat *s)
{
    const struct arena *a = s->arena;
    struct mine *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return seat_fail(s, "out of memory");
    s->mine = m;
    int file = a->fd[peer_number(s)];
    m->fd = peer_file_again(file);
    m->holder = peer_file_again(file);
    if (m->fd < 0 || m->holder < 0)
        return flock_failed(s, "open");
    m->mode = s->trial->scenario->mode[0] == 'S' ? LOCK_SH : LOCK_EX;
    return 0;
}

static void detach(struct seat *s)
{
    struct mine *m = s->mine;

    if (m == NULL)
        return;
    close(m->fd);
    close(m->holder);
    free(m);
    s->mine = NULL;
}

static int take(struct seat *s)
{
    const struct mine *m = s->mine;

    return flock(m->fd, m->mode) == 0 ? 0 : flock_failed(s, "flock");
}

static int give(struct seat *s)
{
    const struct mine *m = s->mine;

    return flock(m->fd, LOCK_UN) == 0 ? 0 : flock_failed(s, "flock");
}

static int pair_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take, give);
}

static int take_guarded(struct seat *s)
{
    int rc = take(s);

    if (rc == 0)
        guard_visit(s, 0);
    return rc;
}

static int fight_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take_guarded, give);
}

static int prepare_refused(struct seat *s)
{
    const struct mine *m = s->mine;

    return flock(m->holder, LOCK_EX) == 0 ? 0 : flock_failed(s, "flock");
}

static int refuse_batch(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++)
        if (flock(m->fd, m->mode | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return flock_failed(s, "flock (to be refused)");
    return 0;
}

static int refuse_once(struct seat *s)
{
    return refuse_batch(s, 1);
}

/* The descriptors are never closed: the victim's death does that. */
static int hold(struct seat *s)
{
    for (uint64_t i = 1; i < s->trial->held; i++) {
        int fd = peer_file_new();
        if (fd < 0 || flock(fd, LOCK_EX) != 0)
            return flock_failed(s, "flock of one more file");
    }
    return take(s);
}

const struct subject subject_flock = {
    .name = "flock",
    .what = "flock(2), a file for each key",
    .declines = declines,
    .open = arena_open,
    .close = arena_close,
    .attach = attach,
    .detach = detach,
    .acts =
        {
            [WORK_PAIR] = {.batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_FIGHT] = {.batch = fight_batch,
                .acquire = take_guarded,
                .release = give},
            [WORK_SHARE] = {.batch = pair_batch,
                .acquire = take,
                .release = give},
            [WORK_REFUSE] = {.prepare = prepare_refused,
                .batch = refuse_batch,
                .acquire = refuse_once},
            [WORK_DEATH] = {.acquire = take, .release = give, .hold = hold},
        },
};
