/*
 * room.c - a tmpfs that is too small, fills up, and gets room again: an answer
 * (-ENOSPC), never a SIGBUS, and nothing lost.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>

#include "frame.h"

static char fs[256], space[300], filler[300];

static void make_fs(const char *mount_options)
{
    snprintf(fs, sizeof(fs), "%s", own_tmpfs(mount_options));
    snprintf(space, sizeof(space), "%s/space", fs);
    snprintf(filler, sizeof(filler), "%s/filler", fs);
}

static unsigned long free_pages(void)
{
    struct statvfs st;

    must(statvfs(fs, &st) == 0, "statvfs: %m");
    return st.f_bfree;
}

/* Takes all but so many pages. */
static void fill_but(unsigned long spared)
{
    int fd = open(filler, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    unsigned long n = free_pages();
    struct stat st;

    must(fd >= 0 && fstat(fd, &st) == 0, "%s: %m", filler);
    if (n > spared)
        must(posix_fallocate(fd, st.st_size, (off_t)(n - spared) * 4096) == 0,
            "the filler does not fit");
    close(fd);
}

static int try_open(struct enq **e, uint32_t flags)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 100000, .owner = "me", .flags = flags};

    return enq_open(e, space, &opts);
}

/* Until no more are granted: how many. */
static unsigned lock_all(struct enq *e, const char *name, int *rc)
{
    struct enq_grant g;
    char key[16];
    unsigned n = 0;

    do {
        snprintf(key, sizeof(key), "%u", n);
        *rc = enq_lock(e,
            ENQ_REQ(.name = name, .key = {key}, .mode = ENQ_MODE_S), &g);
        n += *rc == ENQ_OK;
    } while (*rc == ENQ_OK);
    return n;
}

/* All that needs no room. */
static void serves(struct enq *e, const struct enq_grant *g)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_info info;
    size_t total;

    want(ENQ_OK, enq_valid(e, g->handle));
    want(ENQ_OK, enq_renew(e, g->handle, g->token, 0));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    want(ENQ_OK, enq_list(e, "kept", NULL, &info, 1, &total));
    want(ENQ_OK, enq_stat(e, &stats));
    must_be_healthy(e);
}

/* --- tests --- */

static void too_small(void)
{
    struct enq *e;
    unsigned long before;

    make_fs("size=64k");
    before = free_pages();
    for (int i = 0; i < 10; i++) {
        want_why(-ENOSPC, try_open(&e, 0), "full");
        must(entries_of(fs) == 0 && free_pages() == before,
            "something is left in it");
    }
}

/* With each size there may be: -ENOSPC, or it works until it is full. */
static void use_what_there_is(void *arg)
{
    struct enq_grant g;
    struct enq *e;
    int rc = try_open(&e, 0);

    (void)arg;
    if (rc != ENQ_OK) {
        must(rc == -ENOSPC, "opening says %s (%s)", enq_result_name(rc),
            enq_why());
        must(strstr(enq_why(), space) != NULL, "\"%s\"", enq_why());
        return;
    }
    rc = lock_x(e, "kept", &g);
    if (rc == ENQ_OK) {
        lock_all(e, "n", &rc);
        serves(e, &g);
    }
    must(rc == -ENOSPC, "growing says %s (%s)", enq_result_name(rc), enq_why());
    must(strstr(enq_why(), space) != NULL, "\"%s\"", enq_why());
    enq_close(e);
}

static void every_size(void)
{
    make_fs("size=8m");
    for (unsigned long spared = 0; spared < 1100; spared += 1) {
        unlink(filler);
        fill_but(spared);
        apart(use_what_there_is, NULL);
        unlink(space);
        if (spared > 240)
            spared += 50;
    }
}

static void full_and_not(void)
{
    struct enq_grant g, more;
    struct enq *e;
    unsigned n = 0;
    int rc;

    make_fs("size=16m");
    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "kept", &g));
    for (int round = 0; round < 10; round++) {
        char name[16];

        snprintf(name, sizeof(name), "round-%d", round);
        fill_but(0);
        n = lock_all(e, name, &rc);
        must(rc == -ENOSPC, "a full file system is %s", enq_result_name(rc));
        must(strstr(enq_why(), space) != NULL, "\"%s\"", enq_why());
        serves(e, &g);
        unlink(filler);
        want(ENQ_OK, lock_x(e, name, &more));
        want(ENQ_OK, enq_unlock(e, more.handle, more.token));
    }
    must(n > 0, "there was no room made ready");
    enq_close(e);
}

/* Reading what was never written takes memory, too, on a tmpfs. */
static void look_when_full(void *arg)
{
    static const uint32_t how[] = {0, ENQ_OPEN_READONLY};
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_info infos[10];
    char report[512];
    struct enq *e;
    size_t total;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    (void)arg;
    for (size_t i = 0; i < LENGTH(how); i++) {
        want(ENQ_OK, try_open(&e, how[i]));
        want(ENQ_OK, enq_list(e, NULL, NULL, infos, 10, &total));
        want(ENQ_OK, enq_list(e, "kept", NULL, infos, 10, &total));
        want(ENQ_OK, enq_stat(e, &stats));
        must(enq_doctor(e, 0, report, sizeof(report)) >= 0, "%s", enq_why());
        want(ENQ_OK, enq_dump(e, fd));
        enq_close(e);
    }
}

static void looking(void)
{
    struct enq_grant g;
    struct enq *e;

    make_fs("size=16m");
    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "kept", &g));
    fill_but(0);
    apart(look_when_full, NULL);
    enq_close(e);
    apart(look_when_full, NULL);
}

static void fix_when_full(void)
{
    char report[512];
    struct enq_grant g;
    struct enq *e;
    int rc;

    make_fs("size=16m");
    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "kept", &g));
    lock_all(e, "n", &rc);
    fill_but(0);
    for (int i = 0; i < 5; i++)
        want(0, enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report)));
    serves(e, &g);
    enq_close(e);
}

static void no_inodes(void)
{
    struct enq *e;

    make_fs("size=16m,nr_inodes=1");
    want_why(-ENOSPC, try_open(&e, 0), "no room to make");
    must(entries_of(fs) == 0, "something is left in it");
    must(mount(NULL, fs, NULL, MS_REMOUNT, "size=16m,nr_inodes=10") == 0,
        "remount: %m");
    want(ENQ_OK, try_open(&e, 0));
    enq_close(e);
}

/* --- growing while somebody else takes and gives the room --- */

static void grow_and_shrink(void *arg)
{
    int64_t until = *(int64_t *)arg;
    unsigned full = 0;
    struct enq *e;
    int rc;

    while (now_ms() < until) {
        rc = try_open(&e, 0);
        if (rc == ENQ_OK) {
            lock_all(e, "grown", &rc);
            must_be_healthy(e);
            enq_close(e);
        }
        must(rc == -ENOSPC || rc == ENQ_EFULL, "%s (%s)", enq_result_name(rc),
            enq_why());
        full += rc == -ENOSPC;
    }
    must(full > 0, "it was never full");
}

static void take_and_give(int64_t until)
{
    while (now_ms() < until) {
        int fd = open(filler, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        unsigned long n = free_pages();

        (void)!fallocate(fd, 0, 0, (off_t)n * 4096);
        nap_us(300);
        (void)!ftruncate(fd, 0);
        close(fd);
        nap_us(300);
    }
}

static void grow_beside_others(void)
{
    int64_t until = now_ms() + 1000;
    struct enq_grant g;
    struct enq *e;
    pid_t pids[3];

    make_fs("size=6m");
    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "kept", &g));
    for (size_t i = 0; i < LENGTH(pids); i++)
        pids[i] = spawn(grow_and_shrink, &until);
    take_and_give(until);
    for (size_t i = 0; i < LENGTH(pids); i++)
        join(pids[i]);
    serves(e, &g);
    enq_close(e);
}

/* --- what has run out makes room --- */

static const char *long_or_short(unsigned i, bool large)
{
    static char text[300];

    snprintf(text, sizeof(text), "%0*u", large ? 200 : 1, i);
    return text;
}

/* Locks that run out at once, as many as there is room for; or that are kept
   by a process that lives on, and does nothing. */
static unsigned fill_for_a_moment(struct enq *e, bool large)
{
    struct enq_grant g;
    unsigned n = 0;
    int rc;

    do {
        rc = enq_lock(e,
            ENQ_REQ(.name = "over", .key = {long_or_short(n, large)},
                .mode = ENQ_MODE_X, .ttl_ms = 2000),
            &g);
        n += rc == ENQ_OK;
    } while (rc == ENQ_OK);
    must(rc == -ENOSPC, "a full file system is %s", enq_result_name(rc));
    must(n > 40, "there is room for %u", n);
    return n;
}

struct moment {
    bool large;
    uint32_t full, go_home;
};

static void be_full(void *arg)
{
    struct moment *m = arg;
    struct enq *e;

    want(ENQ_OK, try_open(&e, 0));
    fill_for_a_moment(e, m->large);
    __atomic_store_n(&m->full, 1, __ATOMIC_RELEASE);
    while (!__atomic_load_n(&m->go_home, __ATOMIC_RELAXED))
        nap_us(1000);
    enq_close(e);
}

/* Their holders are told so, but nobody is refused room for them. */
static void run_out(struct enq *e)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    do {
        nap_us(50000);
        want(ENQ_OK, enq_stat(e, &stats));
    } while (stats.held > 0);
}

static void start_one(struct enq *e, unsigned i, bool large)
{
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_OK,
        enq_start(e,
            ENQ_REQ(.name = "started", .key = {long_or_short(i, large)},
                .mode = ENQ_MODE_X, .wait_ms = 1000),
            &g, &ticket));
}

static void as_a_set(struct enq *e, unsigned i, bool large)
{
    char keys[8][300];
    struct enq_req reqs[8];
    const struct enq_req *all[8];
    struct enq_grant g[8];

    for (unsigned k = 0; k < 8; k++) {
        snprintf(keys[k], sizeof(keys[k]), "%s",
            long_or_short(i * 8 + k, large && k % 2));
        reqs[k] = *ENQ_REQ(.name = "set", .key = {keys[k]}, .mode = ENQ_MODE_X,
            .id = NULL);
        all[k] = &reqs[k];
    }
    want(ENQ_OK, enq_lock_set(e, all, 8, g));
}

static void with_an_id(struct enq *e, unsigned i, bool large)
{
    struct enq_grant g;
    char id[32];

    snprintf(id, sizeof(id), "id-%u", i);
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "id", .key = {long_or_short(i, large)},
                .mode = ENQ_MODE_X, .id = id),
            &g));
}

/* As long as there is anything over, nothing is refused. */
static void serves_all(struct enq *e, bool large)
{
    for (unsigned i = 0; i < 5; i++) {
        start_one(e, i, large);
        as_a_set(e, i, large);
        with_an_id(e, i, large);
    }
    must_be_healthy(e);
}

static void over(bool had, bool wanted)
{
    struct moment *m = shared_memory(sizeof(*m));
    struct enq *e;
    pid_t pid;

    make_fs("size=3m");
    m->large = had;
    pid = spawn(be_full, m);
    while (!__atomic_load_n(&m->full, __ATOMIC_ACQUIRE))
        nap_us(1000);
    want(ENQ_OK, try_open(&e, 0));
    run_out(e);
    serves_all(e, wanted);
    enq_close(e);
    want(ENQ_OK, try_open(&e, 0));
    serves_all(e, !wanted);
    m->go_home = 1;
    join(pid);
    must_be_healthy(e);
    enq_close(e);
}

static void own_over(void *large)
{
    struct enq *e;

    want(ENQ_OK, try_open(&e, 0));
    fill_for_a_moment(e, *(bool *)large);
    run_out(e);
    serves_all(e, *(bool *)large);
    enq_close(e);
    want(ENQ_OK, try_open(&e, 0));
    serves_all(e, !*(bool *)large);
    enq_close(e);
}

static void our_own_over(void)
{
    bool large = false;

    make_fs("size=3m");
    apart(own_over, &large);
    unlink(space);
    large = true;
    apart(own_over, &large);
}

static void over_in_each_size(void)
{
    over(false, true);
    over(true, false);
}

/* --- slots of the dead --- */

#define CREW 32 /* two pages of session slots, five of thread slots */

static void come_and_stay(void *arg)
{
    uint32_t *here = arg;
    struct enq_grant g;
    struct enq *e;

    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "there", &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    __atomic_add_fetch(here, 1, __ATOMIC_RELEASE);
    raise(SIGSTOP); /* so that none of them reaps another */
    enq_close(e);
}

static void come_after_them(void *nothing)
{
    struct enq_grant g;
    struct enq *e;

    (void)nothing;
    want(ENQ_OK, try_open(&e, 0));
    want(ENQ_OK, lock_x(e, "there", &g));
    must_be_healthy(e);
    enq_close(e);
}

static void slots_of_the_dead(void)
{
    uint32_t *here = shared_memory(sizeof(*here));
    pid_t pids[CREW];
    int status;

    make_fs("size=8m");
    for (uint32_t i = 0; i < CREW; i++) {
        pids[i] = spawn(come_and_stay, here);
        must(waitpid(pids[i], &status, WUNTRACED) == pids[i] &&
                WIFSTOPPED(status) &&
                __atomic_load_n(here, __ATOMIC_ACQUIRE) == i + 1,
            "process %u of them does not stop", i);
    }
    for (unsigned i = 0; i < CREW; i++)
        kill(pids[i], SIGKILL);
    for (unsigned i = 0; i < CREW; i++)
        must(waitpid(pids[i], &status, 0) == pids[i], "waitpid: %m");
    fill_but(0);
    apart(come_after_them, NULL);
}

const struct test room_tests[] = {
    {"processes that were killed at once leave their slots in a full tmpfs",
        slots_of_the_dead},
    {"locks of our own that ran out make room in a full tmpfs", our_own_over},
    {"locks of an idle process that ran out make room in a full tmpfs",
        over_in_each_size},
    {"a tmpfs of 64 KiB is too small, and nothing is left in it", too_small},
    {"with each amount of room it works until that is used up", every_size},
    {"a tmpfs that was full and has room again lets the table grow",
        full_and_not},
    {"a full tmpfs can be looked at", looking},
    {"a table is repaired though its tmpfs is full", fix_when_full},
    {"a tmpfs without inodes is full, and that is said", no_inodes},
    {"growing while others take and give the room", grow_beside_others},
    {NULL, NULL},
};
