/*
 * check_host.c - what the host does to us: full and read-only file systems,
 * limits of the process, namespaces.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "unit.h"

/* --- file systems --- */

static void remount(const char *how, unsigned long flags)
{
    ck_assert_msg(mount("tmpfs", unit_dir(), "tmpfs", flags, how) == 0,
        "mount %s: %s", how, strerror(errno));
}

/* In this test's process only. */
static void mount_own(const char *how, unsigned long flags)
{
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    unit_dir();
    remount(how, flags);
}

TEST(nothing_is_made_on_a_read_only_file_system)
{
    struct enq *e = NULL;

    mount_own("size=8m", MS_RDONLY);
    want_why(-EROFS, enq_open(&e, unit_space(), NULL), unit_space());
    want_why(-EROFS, enq_open(&e, unit_space(), NULL), "read-only");
}

TEST(nothing_is_made_in_a_read_only_dev_shm)
{
    struct enq *e = NULL;

    mount_own("size=8m", 0);
    ck_assert_int_eq(mount("tmpfs", "/dev/shm", "tmpfs", MS_RDONLY, ""), 0);
    want_why(-EROFS, enq_open(&e, "shm:enq-unit", NULL), "/dev/shm/enq-unit");
}

TEST(a_segment_that_became_read_only_may_be_looked_at)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct enq *e = NULL;

    mount_own("size=8m", 0);
    enq_close(unit_open());
    /* this thread's slot keeps the mapping, which forbids a remount: */
    ck_assert_int_eq(mount(unit_dir(), unit_dir(), NULL, MS_BIND, NULL), 0);
    ck_assert_int_eq(mount(NULL, unit_dir(), NULL,
                         MS_BIND | MS_REMOUNT | MS_RDONLY, NULL),
        0);
    want_why(-EROFS, enq_open(&e, unit_space(), NULL), unit_space());
    want(ENQ_OK, enq_open(&e, unit_space(), &look));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_file_system_without_room_for_a_segment_is_an_error)
{
    struct enq *e = NULL;

    mount_own("size=64k", 0);
    want_why(-ENOSPC, enq_open(&e, unit_space(), NULL), "full");
    want_why(-ENOSPC, enq_open(&e, unit_space(), NULL), unit_space());
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 2);
}

/* Takes locks until there is an error; how many. */
static unsigned fill(struct enq *e, unsigned from, int *rc)
{
    struct enq_grant g;
    char field[16];

    for (unsigned i = from;; i++) {
        snprintf(field, sizeof(field), "%u", i);
        *rc = unit_lock(e, "n", field, ENQ_MODE_X, &g);
        if (*rc != ENQ_OK)
            return i - from;
    }
}

TEST(a_file_system_that_fills_up_is_an_error_and_room_helps)
{
    unsigned n, more;
    struct enq *e;
    int rc;

    mount_own("size=2000k", 0);
    e = unit_open();
    n = fill(e, 0, &rc);
    ck_assert_int_eq(rc, -ENOSPC);
    ck_assert_ptr_nonnull(strstr(enq_why(), unit_space()));
    ck_assert_uint_gt(n, 1000);
    unit_healthy(e);
    remount("size=16m", MS_REMOUNT);
    more = fill(e, n, &rc);
    want(ENQ_EFULL, rc);
    ck_assert_uint_ge(n + more, 10000);
    enq_close(e);
}

TEST(a_file_system_that_fills_up_for_good_keeps_what_there_is)
{
    struct enq_grant g;
    struct enq *e;
    unsigned n;
    int rc;

    mount_own("size=1480k", 0);
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "first", "x", ENQ_MODE_X, &g));
    n = fill(e, 0, &rc);
    ck_assert_int_eq(rc, -ENOSPC);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, unit_lock(e, "first", "x", ENQ_MODE_X, &g));
    n += fill(e, n, &rc);
    ck_assert_int_eq(rc, -ENOSPC);
    ck_assert_uint_gt(n, 20);
    unit_healthy(e);
    enq_close(e);
}

static uint32_t threads_in;

/* Looking by id needs a thread slot, and no more. */
static void *look_and_stay(void *e)
{
    enq_handle handle;
    int rc = enq_find(e, "x", &handle);

    if (rc != ENQ_NOTHELD) {
        ck_assert_msg(strstr(enq_why(), "No space") != NULL, "%s", enq_why());
        return e;
    }
    shm_add(&threads_in, 1);
    while (shm_load(&threads_in) > 0)
        unit_nap();
    return NULL;
}

/* 16 thread slots share a page: one of 20 threads needs the next. */
TEST(a_thread_for_which_there_is_no_memory_is_told_so)
{
    pthread_t threads[20];
    void *refused = NULL;
    struct enq *e;
    size_t n = 0;
    int rc;

    mount_own("size=1480k", 0);
    e = unit_open();
    fill(e, 0, &rc);
    while (n < LENGTH(threads) && refused == NULL) {
        unsigned before = shm_load(&threads_in);

        pthread_create(&threads[n], NULL, look_and_stay, e);
        while (shm_load(&threads_in) == before && refused == NULL)
            if (pthread_tryjoin_np(threads[n], &refused) != 0)
                unit_nap();
        n += refused == NULL;
    }
    shm_store(&threads_in, 0);
    for (size_t i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
    ck_assert_ptr_nonnull(refused);
    enq_close(e);
}

static void limit(int what, rlim_t to)
{
    struct rlimit r = {to, to};

    ck_assert_int_eq(setrlimit(what, &r), 0);
}

/* --- no /proc --- */

/* Which boot this is cannot be read then: that does not make it another. */
TEST(a_process_without_proc_does_not_replace_a_segment)
{
    struct stat before, after;
    struct enq *e = NULL;

    enq_close(unit_open());
    ck_assert_int_eq(stat(unit_space(), &before), 0);
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    ck_assert_int_eq(mount("tmpfs", "/proc", "tmpfs", 0, ""), 0);
    want_why(-ENOENT, enq_open(&e, unit_space(), NULL), "boot_id");
    ck_assert_ptr_null(e);
    ck_assert_int_eq(stat(unit_space(), &after), 0);
    ck_assert_uint_eq(before.st_ino, after.st_ino);
}

/* One descriptor is left: enough for the segment, not to read the boot id. */
TEST(a_process_out_of_descriptors_does_not_take_a_segment_for_stale)
{
    struct enq *e = NULL;
    int last;

    enq_close(unit_open());
    last = dup(0);
    limit(RLIMIT_NOFILE, (rlim_t)last + 1);
    close(last);
    want_why(-EMFILE, enq_open(&e, unit_space(), NULL), "boot_id");
    ck_assert_ptr_null(e);
}

/* --- limits of the process --- */

TEST(a_limit_of_file_size_is_an_error_and_no_signal)
{
    struct enq *e = NULL;

    limit(RLIMIT_FSIZE, 1 << 20);
    want_why(-EFBIG, enq_open(&e, unit_space(), NULL), "RLIMIT_FSIZE");
    ck_assert_ptr_null(e);
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 2);
}

TEST(a_limit_of_address_space_is_an_error)
{
    struct enq_open_opts opts = {.size = sizeof(opts)};
    struct enq *e = NULL;

    limit(RLIMIT_AS, 1 << 29);
    want_why(-ENOMEM, enq_open(&e, unit_space(), &opts), "RLIMIT_AS");
    ck_assert_ptr_null(e);
}

TEST(a_limit_of_descriptors_is_an_error)
{
    struct enq *e = NULL;
    int one, two;

    enq_close(unit_open());
    one = dup(0);
    two = dup(0);
    limit(RLIMIT_NOFILE, (rlim_t)(one > two ? one : two) + 1);
    want_why(-EMFILE, enq_open(&e, unit_space(), NULL), unit_space());
    close(one);
    close(two);
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    enq_close(e);
}

/* --- time namespaces --- */

static int in_time_namespace(void *offset)
{
    FILE *f;

    ck_assert_int_eq(unshare(CLONE_NEWTIME), 0);
    f = fopen("/proc/self/timens_offsets", "w");
    ck_assert_ptr_nonnull(f);
    fprintf(f, "%s\n", (const char *)offset);
    ck_assert_int_eq(fclose(f), 0);
    return 0;
}

/* @words  how far its boot clock is from that of the space */
static int open_refused(void *words)
{
    struct enq *e = NULL;

    want_why(ENQ_ENAMESPACE, enq_open(&e, unit_space(), NULL), unit_space());
    ck_assert_msg(strstr(enq_why(), words) != NULL, "\"%s\"", enq_why());
    ck_assert_ptr_null(e);
    return 0;
}

static int open_fine(void *nothing)
{
    struct enq *e = NULL;

    (void)nothing;
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    enq_close(e);
    return 0;
}

/* A child of the one that unshares is the first inside. */
struct stranger {
    char *offset, *words;
};

static int refused_inside(void *stranger)
{
    struct stranger *s = stranger;

    in_time_namespace(s->offset);
    unit_join(unit_fork(open_refused, s->words));
    return 0;
}

static int fine_inside(void *offset)
{
    in_time_namespace(offset);
    unit_join(unit_fork(open_fine, NULL));
    unit_join(unit_fork(open_fine, NULL));
    return 0;
}

TEST(another_time_namespace_is_refused)
{
    struct stranger boottime = {"boottime 100 0", "differs by 100000 ms"},
                    monotonic = {"monotonic 9 9", "differs by 0 ms"};

    enq_close(unit_open());
    unit_join(unit_fork(refused_inside, &boottime));
    unit_join(unit_fork(refused_inside, &monotonic));
}

/* The space is of the namespace that it was made in. */
TEST(a_space_that_is_made_in_a_time_namespace_is_at_home_there)
{
    static char offset[] = "boottime 100 0", away[] = "differs by -100000 ms";

    unit_space();
    unit_join(unit_fork(fine_inside, offset));
    unit_join(unit_fork(open_refused, away));
}

TEST(a_time_namespace_with_the_same_clocks_is_fine)
{
    static char same[] = "boottime 0 0";

    enq_close(unit_open());
    unit_join(unit_fork(fine_inside, same));
}

/* --- PID namespaces --- */

struct pair {
    uint32_t first_has, second_refused, second_has;
    pid_t first, second;
};

static int first_holds(void *arg)
{
    struct pair *p = arg;
    struct enq_grant g;
    struct enq *e = unit_open();

    ck_assert_int_eq(getpid(), 1);
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    unit_stay(&p->first_has);
}

static int second_wants(void *arg)
{
    struct pair *p = arg;
    struct enq_grant g;
    struct enq *e = unit_open();
    struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {"f"},
        .mode = ENQ_MODE_X,
        .owner = "second",
        .wait_ms = ENQ_FOREVER};

    ck_assert_int_eq(getpid(), 1);
    want(ENQ_BUSY, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    ck_assert_str_eq(g.blocker.owner, "me");
    shm_store_release(&p->second_refused, 1);
    want(ENQ_OK, enq_lock(e, &req, &g));
    shm_store_release(&p->second_has, 1);
    enq_close(e);
    return 0;
}

static int first_namespace(void *arg)
{
    struct pair *p = arg;

    ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
    p->first = unit_fork(first_holds, p);
    unit_killed(p->first);
    return 0;
}

static int second_namespace(void *arg)
{
    ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
    unit_join(unit_fork(second_wants, arg));
    return 0;
}

TEST(processes_of_two_pid_namespaces_share_a_space)
{
    struct pair *p = unit_shared(sizeof(*p));
    struct enq *e = unit_open();

    unit_fork(first_namespace, p);
    eventually(shm_load_acquire(&p->first_has));
    unit_fork(second_namespace, p);
    eventually(shm_load_acquire(&p->second_refused));
    ck_assert_int_eq(kill(p->first, SIGKILL), 0);
    eventually(shm_load_acquire(&p->second_has));
    unit_join_all(2);
    unit_healthy(e);
    enq_close(e);
}

static int look_at_proc(void *own)
{
    struct enq *e;

    ck_assert_int_eq(getpid(), 1);
    ck_assert_int_eq(unshare(CLONE_NEWNS), 0);
    ck_assert_int_eq(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL), 0);
    if (own != NULL)
        ck_assert_int_eq(mount("proc", "/proc", "proc", 0, NULL), 0);
    e = unit_open();
    ck_assert_int_eq(e->map->proc != 0, own != NULL);
    enq_close(e);
    return 0;
}

static int look_inside(void *own)
{
    ck_assert_int_eq(unshare(CLONE_NEWPID), 0);
    unit_join(unit_fork(look_at_proc, own));
    return 0;
}

/* The numbers in another's are other processes'. */
TEST(a_proc_of_another_pid_namespace_is_not_believed)
{
    bool own = true;
    struct enq *e;

    unit_join(unit_fork(look_inside, NULL));
    unit_join(unit_fork(look_inside, &own));
    e = unit_open();
    ck_assert(e->map->proc != 0);
    enq_close(e);
}

int main(void)
{
    unit_begin("host");
    ADD_ROOT(nothing_is_made_on_a_read_only_file_system);
    ADD_ROOT(nothing_is_made_in_a_read_only_dev_shm);
    ADD_ROOT(a_segment_that_became_read_only_may_be_looked_at);
    ADD_ROOT(a_file_system_without_room_for_a_segment_is_an_error);
    ADD_ROOT(a_file_system_that_fills_up_is_an_error_and_room_helps);
    ADD_ROOT(a_file_system_that_fills_up_for_good_keeps_what_there_is);
    ADD_ROOT(a_thread_for_which_there_is_no_memory_is_told_so);
    ADD(a_limit_of_file_size_is_an_error_and_no_signal);
    /* the sanitizers' own run-time reads /proc, and takes all addresses */
    if (!UNIT_SANITIZED) {
        ADD_ROOT(a_process_without_proc_does_not_replace_a_segment);
        ADD(a_limit_of_address_space_is_an_error);
    }
    ADD(a_process_out_of_descriptors_does_not_take_a_segment_for_stale);
    ADD(a_limit_of_descriptors_is_an_error);
    ADD_ROOT(another_time_namespace_is_refused);
    ADD_ROOT(a_space_that_is_made_in_a_time_namespace_is_at_home_there);
    ADD_ROOT(a_time_namespace_with_the_same_clocks_is_fine);
    ADD_ROOT(processes_of_two_pid_namespaces_share_a_space);
    ADD_ROOT(a_proc_of_another_pid_namespace_is_not_believed);
    return unit_end();
}
