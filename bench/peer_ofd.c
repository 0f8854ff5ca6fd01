/*
 * peer_ofd.c - fcntl(2) locks of open file descriptions (F_OFD_SETLKW): a key
 * is one byte of one file, locked for reading or for writing. The kernel ends
 * them with their description, so also with their process.
 *
 * The kernel walks the list of all locks of the file for each request, so the
 * cost grows with every lock held: more than some thousand are not offered.
 */
#include "peer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

/* 10,000 take a second to set up, 100,000 would take minutes. */
enum { HELD_MAX = 10000 };

struct mine {
    int fd, holder; /* two descriptions of the file */
    short type;
    uint32_t key;
};

static const char *declines(const struct trial *t)
{
    return t->held <= HELD_MAX ? NULL
                               : "its cost grows with each lock that is held";
}

static int arena_open(const struct trial *t, void **arena)
{
    int *fd = malloc(sizeof(*fd));

    (void)t;
    if (fd == NULL)
        return ENOMEM;
    *fd = peer_file_new();
    if (*fd >= 0) {
        *arena = fd;
        return 0;
    }
    int rc = errno;
    free(fd);
    return rc;
}

static void arena_close(const struct trial *t, void *arena)
{
    int *fd = arena;

    (void)t;
    close(*fd);
    free(fd);
}

static int ofd_failed(struct seat *s, const char *call)
{
    return seat_fail(s, "%s: %s", call, strerror(errno));
}

static int attach(struct seat *s)
{
    const int *fd = s->arena;
    struct mine *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return seat_fail(s, "out of memory");
    s->mine = m;
    m->fd = peer_file_again(*fd);
    m->holder = peer_file_again(*fd);
    if (m->fd < 0 || m->holder < 0)
        return ofd_failed(s, "open");
    m->type = s->trial->scenario->mode[0] == 'S' ? F_RDLCK : F_WRLCK;
    m->key = peer_number(s);
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

/* Every other byte only: the kernel would join neighbours of one owner. */
static int set(int fd, int command, short type, uint32_t key)
{
    struct flock l = {
        .l_type = type,
        .l_whence = SEEK_SET,
        .l_start = (off_t)2 * key,
        .l_len = 1,
    };

    return fcntl(fd, command, &l);
}

static int take(struct seat *s)
{
    const struct mine *m = s->mine;

    if (set(m->fd, F_OFD_SETLKW, m->type, m->key) == 0)
        return 0;
    return ofd_failed(s, "F_OFD_SETLKW");
}

static int give(struct seat *s)
{
    const struct mine *m = s->mine;

    if (set(m->fd, F_OFD_SETLK, F_UNLCK, m->key) == 0)
        return 0;
    return ofd_failed(s, "F_OFD_SETLK to unlock");
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

    if (set(m->holder, F_OFD_SETLK, F_WRLCK, m->key) == 0)
        return 0;
    return ofd_failed(s, "F_OFD_SETLK of the holder");
}

static int refuse_batch(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;

    for (uint32_t i = 0; i < n; i++)
        if (set(m->fd, F_OFD_SETLK, m->type, m->key) == 0 || errno != EAGAIN)
            return ofd_failed(s, "F_OFD_SETLK (to be refused)");
    return 0;
}

static int refuse_once(struct seat *s)
{
    return refuse_batch(s, 1);
}

static int hold_from(struct seat *s, uint32_t first)
{
    const struct mine *m = s->mine;

    for (uint32_t key = first; key < s->trial->held; key++)
        if (set(m->fd, F_OFD_SETLKW, F_WRLCK, key) != 0)
            return ofd_failed(s, "F_OFD_SETLKW of many");
    return 0;
}

static int hold_many(struct seat *s)
{
    return hold_from(s, 0);
}

static int hold(struct seat *s)
{
    return hold_from(s, 1) == 0 ? take(s) : -1;
}

static int take_random(struct seat *s)
{
    struct mine *m = s->mine;

    m->key = peer_random(s);
    return take(s);
}

static int random_batch(struct seat *s, uint32_t n)
{
    return peer_pairs(s, n, take_random, give);
}

const struct subject subject_ofd = {
    .name = "ofd",
    .what = "fcntl OFD locks, a byte of one file for each key",
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
            [WORK_RANDOM] = {.prepare = hold_many,
                .batch = random_batch,
                .acquire = take_random,
                .release = give},
            [WORK_DEATH] = {.acquire = take, .release = give, .hold = hold},
        },
};
