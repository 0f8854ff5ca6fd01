/*
 * rlimit.c - limits of the process: descriptors, sizes of files, memory and
 * threads. An answer that names the limit's victim; no signal; and once the
 * limit is raised everything works.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "frame.h"

static void set_limit(int which, rlim_t n)
{
    struct rlimit limit;

    must(getrlimit(which, &limit) == 0, "getrlimit: %m");
    limit.rlim_cur = n < limit.rlim_max ? n : limit.rlim_max;
    must(setrlimit(which, &limit) == 0, "setrlimit: %m");
}

/* --- descriptors --- */

static void open_with_descriptors(void *arg)
{
    rlim_t n = *(rlim_t *)arg;
    unsigned before = entries_of("/proc/self/fd");
    struct enq_grant g;
    struct enq *e;
    int rc;

    set_limit(RLIMIT_NOFILE, n);
    rc = enq_open(&e, test_space(), NULL);
    must(rc == ENQ_OK || rc == -EMFILE, "%d descriptors: %s (%s)", (int)n,
        enq_result_name(rc), enq_why());
    must(rc == ENQ_OK || strstr(enq_why(), "/") != NULL, "\"%s\"", enq_why());
    if (rc == ENQ_OK)
        enq_close(e);
    set_limit(RLIMIT_NOFILE, RLIM_INFINITY);
    must(entries_of("/proc/self/fd") == before, "a descriptor is left");
    want(ENQ_OK, enq_open(&e, test_space(), NULL));
    want(ENQ_OK, lock_x(e, "n", &g));
    enq_close(e);
}

static void descriptors(void)
{
    for (rlim_t n = 0; n < 20; n++) {
        apart(open_with_descriptors, &n); /* a new space */
        apart(open_with_descriptors, &n); /* what is there */
        want(ENQ_OK, enq_unlink(test_space()));
    }
}

/* An open space needs no descriptor more. */
static void without_descriptors(void)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq *e = open_small(test_space(), 30000);
    struct enq_info infos[4];
    char report[512], key[16];
    struct enq_grant g;
    size_t total;

    set_limit(RLIMIT_NOFILE, 0);
    for (int i = 0; i < 20000; i++) {
        snprintf(key, sizeof(key), "%d", i);
        want(ENQ_OK,
            enq_lock(e, ENQ_REQ(.name = "n", .key = {key}, .mode = ENQ_MODE_X),
                &g));
    }
    want(ENQ_OK, enq_list(e, NULL, NULL, infos, 4, &total));
    want(ENQ_OK, enq_stat(e, &stats));
    want(0, enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report)));
    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"1"}, .mode = ENQ_MODE_X,
                .owner = "other", .wait_ms = 20),
            &g));
    enq_close(e);
}

/* --- sizes of files --- */

static void open_with_file_size(void *arg)
{
    struct enq *e;

    set_limit(RLIMIT_FSIZE, *(rlim_t *)arg);
    want_why(-EFBIG, enq_open(&e, test_space(), NULL), "RLIMIT_FSIZE");
    must(entries_of(test_dir()) == 0, "a file is left");
    set_limit(RLIMIT_FSIZE, RLIM_INFINITY);
    want(ENQ_OK, enq_open(&e, test_space(), NULL));
    enq_close(e);
    want(ENQ_OK, enq_unlink(test_space()));
}

static void grow_with_file_size(void *arg)
{
    struct enq *e;
    struct enq_grant g;
    char key[16];

    set_limit(RLIMIT_FSIZE, *(rlim_t *)arg);
    want(ENQ_OK, enq_open(&e, test_space(), NULL));
    for (int i = 0; i < 12000; i++) {
        snprintf(key, sizeof(key), "%d", i);
        want(ENQ_OK,
            enq_lock(e, ENQ_REQ(.name = "n", .key = {key}, .mode = ENQ_MODE_X),
                &g));
    }
    enq_close(e);
}

static void file_sizes(void)
{
    struct stat st;
    rlim_t sizes[] = {0, 1, 4096, 1 << 20, 0};

    enq_close(open_small(test_space(), 0));
    must(stat(test_space(), &st) == 0, "%m");
    want(ENQ_OK, enq_unlink(test_space()));
    sizes[4] = (rlim_t)st.st_size - 1;
    for (size_t i = 0; i < LENGTH(sizes); i++)
        apart(open_with_file_size, &sizes[i]);
    enq_close(open_small(test_space(), 100000));
    for (size_t i = 0; i < LENGTH(sizes); i++)
        apart(grow_with_file_size, &sizes[i]);
}

/* --- memory --- */

static rlim_t in_use(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "re");

    must(f != NULL && fscanf(f, "%lu", &pages) == 1, "statm: %m");
    fclose(f);
    return pages * 4096;
}

static bool is_about_memory(int rc)
{
    return rc == -ENOMEM ||
        (rc == -EAGAIN && strstr(enq_why(), "thread") != NULL);
}

struct memory {
    int which;
    rlim_t more;
    bool opened, listed;
};

static void with_memory(void *arg)
{
    struct memory *m = arg;
    struct enq *e;
    struct enq_grant g;
    size_t total;
    int rc;

    set_limit(m->which, in_use() + m->more);
    rc = enq_open(&e, test_space(), NULL);
    m->opened = rc == ENQ_OK;
    must(rc == ENQ_OK || is_about_memory(rc), "%s (%s)", enq_result_name(rc),
        enq_why());
    if (rc != ENQ_OK) {
        set_limit(m->which, RLIM_INFINITY);
        want(ENQ_OK, enq_open(&e, test_space(), NULL));
    }
    rc = lock_x(e, "n", &g);
    must(rc == ENQ_OK || rc == -ENOMEM, "%s (%s)", enq_result_name(rc),
        enq_why());
    rc = enq_list(e, NULL, NULL, NULL, 0, &total);
    m->listed = rc == ENQ_OK;
    must(rc == ENQ_OK || rc == -ENOMEM, "%s (%s)", enq_result_name(rc),
        enq_why());
    enq_close(e);
}

/* Each amount from none to enough for the mapping and more. */
static void memory_of(int which, rlim_t step, rlim_t most)
{
    struct memory *m = shared_memory(sizeof(*m));
    unsigned opened = 0, refused = 0;

    enq_close(open_small(test_space(), 30000));
    for (rlim_t more = 0; more <= most; more += step) {
        *m = (struct memory){.which = which, .more = more};
        apart(with_memory, m);
        opened += m->opened;
        refused += !m->opened;
    }
    must(opened > 0, "it never opened");
    must(refused > 0 || which != RLIMIT_AS, "it was never refused");
}

static void address_space(void)
{
    memory_of(RLIMIT_AS, 128 * 1024, 24 << 20);
}

static void data(void)
{
    memory_of(RLIMIT_DATA, 16 * 1024, 1 << 20);
}

static void locked_memory(void)
{
    struct enq *e;
    struct enq_grant g;

    set_limit(RLIMIT_MEMLOCK, 0);
    e = open_at(test_space());
    want(ENQ_OK, lock_x(e, "n", &g));
    enq_close(e);
}

/* --- threads --- */

static void without_threads(void *arg)
{
    struct enq *e;

    (void)arg;
    must(setgroups(0, NULL) == 0 && setresgid(54321, 54321, 54321) == 0 &&
            setresuid(54321, 54321, 54321) == 0,
        "setresuid: %m");
    set_limit(RLIMIT_NPROC, 1);
    for (int i = 0; i < 3; i++)
        want_why(-EAGAIN, enq_open(&e, test_space(), NULL), "helper thread");
    set_limit(RLIMIT_NPROC, RLIM_INFINITY);
    want(ENQ_OK, enq_open(&e, test_space(), NULL));
    must_be_healthy(e);
    enq_close(e);
}

static void processes(void)
{
    needs_root();
    must(chmod(test_dir(), 0777) == 0, "chmod: %m");
    apart(without_threads, NULL);
}

const struct test rlimit_tests[] = {
    {"RLIMIT_NOFILE of 0 to 19 is -EMFILE or works", descriptors},
    {"who has a space open needs no descriptor more", without_descriptors},
    {"RLIMIT_FSIZE is -EFBIG for who creates, and nothing to others",
        file_sizes},
    {"RLIMIT_AS is -ENOMEM or works", address_space},
    {"RLIMIT_DATA is -ENOMEM or works", data},
    {"RLIMIT_MEMLOCK is of no importance", locked_memory},
    {"RLIMIT_NPROC is -EAGAIN, and names the helper thread", processes},
    {NULL, NULL},
};
