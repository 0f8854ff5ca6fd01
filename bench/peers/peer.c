/*
 * peer.c - what the peers share: see peer.h.
 */
#include "peers/peer.h"

#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

void peer_key_init(struct peer_key *k, uint32_t number)
{
    snprintf(k->text, sizeof(k->text), PEER_KEY_FIXED "aaaaaaaa");
    peer_key_set(k, number);
}

const char *peer_missing(void)
{
    return SUBJECT_MISSING;
}

/* --- a worker's part --- */

void *peer_mine_new(struct seat *s, size_t bytes)
{
    s->mine = calloc(1, bytes);
    if (s->mine == NULL)
        seat_fail(s, "out of memory");
    return s->mine;
}

void peer_mine_free(struct seat *s)
{
    free(s->mine);
    s->mine = NULL;
}

int peer_failed(struct seat *s, const char *call)
{
    return seat_fail(s, "%s: %s", call, strerror(errno));
}

int peer_hold(struct seat *s, uint32_t first,
    void (*choose)(struct seat *s, uint32_t key), int (*take)(struct seat *s))
{
    for (uint32_t key = first; key < s->trial->held; key++) {
        choose(s, key);
        if (take(s) != 0)
            return -1;
    }
    return 0;
}

int peer_hold_victim(struct seat *s,
    void (*choose)(struct seat *s, uint32_t key), int (*take)(struct seat *s))
{
    if (peer_hold(s, 1, choose, take) != 0)
        return -1;
    choose(s, 0);
    return take(s);
}

/* --- when we are killed --- */

enum { LAST_NS = 50000000, REMOVE_TRIES = 100, DEPTH_MAX = 16 };

static _Noreturn void janitor_run(pid_t parent, void (*clean)(void *arg),
    void *arg)
{
    struct timespec last = {.tv_nsec = LAST_NS};
    sigset_t all;
    int sig = 0;

    setpgid(0, 0); /* ^C is for the others */
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    prctl(PR_SET_PDEATHSIG, SIGUSR1);
    if (getppid() == parent)
        while (sigwait(&all, &sig) != 0 || sig != SIGUSR1)
            continue;
    nanosleep(&last, NULL); /* the others are being killed, too */
    clean(arg);
    _exit(0);
}

pid_t peer_safe(void (*clean)(void *arg), void *arg)
{
    pid_t parent = getpid(), janitor = fork();

    if (janitor == 0)
        janitor_run(parent, clean, arg);
    return janitor > 0 ? janitor : 0;
}

void peer_safe_end(pid_t janitor)
{
    if (janitor <= 0)
        return;
    kill(janitor, SIGKILL);
    while (waitpid(janitor, NULL, 0) < 0 && errno == EINTR)
        continue;
}

/* --- a directory --- */

/* There are no directories in it. Returns the sum of what @f returns. */
static uint64_t each_file(const char *path,
    uint64_t (*f)(int dir, const char *name))
{
    uint64_t sum = 0;
    DIR *d = opendir(path);

    if (d == NULL)
        return 0;
    for (struct dirent *e = readdir(d); e != NULL; e = readdir(d))
        if (e->d_name[0] != '.')
            sum += f(dirfd(d), e->d_name);
    closedir(d);
    return sum;
}

static int remove_one(const char *path, const struct stat *st, int type,
    struct FTW *at)
{
    (void)st;
    (void)type;
    (void)at;
    remove(path);
    return 0;
}

/* A server that is about to end may still write into it. */
static void remove_dir(void *path)
{
    const struct timespec pause = {.tv_nsec = LAST_NS};

    for (int tries = 0; tries < REMOVE_TRIES; tries++) {
        if (nftw(path, remove_one, DEPTH_MAX, FTW_DEPTH | FTW_PHYS) != 0)
            return; /* it is gone */
        nanosleep(&pause, NULL);
    }
}

int peer_dir_new(struct peer_dir *d, const char *parent, const char *peer)
{
    snprintf(d->path, sizeof(d->path), "%s/enq-bench-%d-%s-XXXXXX", parent,
        (int)getpid(), peer);
    if (mkdtemp(d->path) == NULL)
        return errno;
    d->janitor = peer_safe(remove_dir, d->path);
    return 0;
}

void peer_dir_remove(struct peer_dir *d)
{
    peer_safe_end(d->janitor);
    remove_dir(d->path);
}

static uint64_t file_bytes(int dir, const char *name)
{
    struct stat st;

    return fstatat(dir, name, &st, 0) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

int peer_dir_open(void **arena, const char *parent, const char *peer)
{
    struct peer_dir *d = calloc(1, sizeof(*d));

    if (d == NULL)
        return ENOMEM;
    int rc = peer_dir_new(d, parent, peer);
    if (rc == 0)
        *arena = d;
    else
        free(d);
    return rc;
}

void peer_dir_close(const struct trial *t, void *arena)
{
    (void)t;
    peer_dir_remove(arena);
    free(arena);
}

int peer_server_open(const struct trial *t, void **arena, size_t bytes,
    const char *peer, int (*begin)(void *arena, const struct trial *t))
{
    struct peer_server *own = calloc(1, bytes);

    if (own == NULL)
        return ENOMEM;
    int rc = peer_dir_new(&own->dir, "/tmp", peer);
    if (rc != 0) {
        free(own);
        return rc;
    }
    rc = begin(own, t);
    if (rc == 0)
        *arena = own;
    else
        peer_server_close(t, own);
    return rc;
}

void peer_server_close(const struct trial *t, void *arena)
{
    struct peer_server *own = arena;

    (void)t;
    server_end(&own->server);
    peer_dir_remove(&own->dir);
    free(own);
}

uint64_t peer_dir_bytes(const struct peer_dir *d)
{
    return each_file(d->path, file_bytes);
}

/* --- attaching --- */

enum { ATTACHMENTS = 50 };

/* The slot is shared: what it says there, the worker has. */
static _Noreturn void attach_once(struct seat s, int (*attach)(struct seat *),
    void (*detach)(struct seat *))
{
    s.mine = NULL;
    uint64_t begin = now_ns();
    if (attach(&s) != 0)
        _exit(EXIT_FAILED);
    hist_add(&s.slot->hist, now_ns() - begin);
    detach(&s);
    _exit(0);
}

int peer_time_attach(struct seat *s, int (*attach)(struct seat *),
    void (*detach)(struct seat *))
{
    for (int i = 0; i < ATTACHMENTS; i++) {
        int status = -1;
        pid_t pid = fork();
        if (pid == 0)
            attach_once(*s, attach, detach);
        if (pid < 0 || waitpid(pid, &status, 0) != pid)
            return seat_fail(s, "no process to attach: %s", strerror(errno));
        if (status != 0)
            return -1;
    }
    return 0;
}
