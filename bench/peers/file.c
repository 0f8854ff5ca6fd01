/*
 * file.c - what flock and OFD locks share: see file.h.
 */
#include "peers/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

struct arena {
    unsigned n;
    int fd[PROCS_MAX];
};

int file_new(void)
{
    return memfd_create("enq-bench", MFD_CLOEXEC);
}

void file_arena_close(const struct trial *t, void *arena)
{
    struct arena *a = arena;

    (void)t;
    while (a->n > 0)
        close(a->fd[--a->n]);
    free(a);
}

int file_arena_open(void **arena, unsigned n)
{
    struct arena *a = calloc(1, sizeof(*a));

    if (a == NULL)
        return ENOMEM;
    for (; a->n < n; a->n++) {
        a->fd[a->n] = file_new();
        if (a->fd[a->n] < 0) {
            int rc = errno;
            file_arena_close(NULL, a);
            return rc;
        }
    }
    *arena = a;
    return 0;
}

static int open_again(int fd)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    return open(path, O_RDWR | O_CLOEXEC);
}

int file_attach(struct seat *s, unsigned index, int shared, int exclusive)
{
    const struct arena *a = s->arena;
    struct file_mine *m = peer_mine_new(s, sizeof(*m));

    if (m == NULL)
        return -1;
    m->fd = open_again(a->fd[index]);
    m->holder = open_again(a->fd[index]);
    if (m->fd < 0 || m->holder < 0)
        return peer_failed(s, "open");
    m->mode = s->trial->scenario->mode[0] == 'S' ? shared : exclusive;
    m->key = peer_number(s);
    return 0;
}

void file_detach(struct seat *s)
{
    const struct file_mine *m = s->mine;

    if (m != NULL) {
        close(m->fd);
        close(m->holder);
    }
    peer_mine_free(s);
}
