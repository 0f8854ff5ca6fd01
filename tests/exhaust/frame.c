/*
 * frame.c - what the tests of this directory share (see frame.h).
 */
#include "frame.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

#include "lib/mark.h"
#include "recovery/check.h"

static char *fail_text;
static size_t fail_room;
static char fail_first[128];

void fail_note(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(fail_first, sizeof(fail_first), format, args);
    va_end(args);
}

void fail_into(char *text, size_t n)
{
    fail_text = text;
    fail_room = n;
}

void fail_at(const char *file, int line, const char *format, ...)
{
    char text[1024];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fflush(NULL);
    if (fail_text != NULL)
        snprintf(fail_text, fail_room, "%s:%d: %s", file, line, text);
    else
        dprintf(1, "%s%s:%d: %s\n", fail_first, file, line, text);
    _exit(1);
}

/* --- places --- */

static char directory[64];

const char *test_dir(void)
{
    if (directory[0] == '\0') {
        snprintf(directory, sizeof(directory), "/dev/shm/enq-%sexhaust-%d",
            test_mark(), (int)getpid());
        must(mkdir(directory, 0755) == 0 || errno == EEXIST, "mkdir %s: %m",
            directory);
    }
    return directory;
}

const char *test_path(const char *name, char path[256])
{
    snprintf(path, 256, "%s/%s", test_dir(), name);
    return path;
}

const char *test_space(void)
{
    static char path[256];

    return path[0] != '\0' ? path : test_path("space", path);
}

unsigned entries_of(const char *path)
{
    DIR *d = opendir(path);
    unsigned n = 0;

    must(d != NULL, "%s: %m", path);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

/* --- spaces --- */

struct enq *open_small(const char *path, uint32_t slots)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = slots, .owner = "me"};
    struct enq *e = NULL;

    want(ENQ_OK, enq_open(&e, path, &opts));
    return e;
}

struct enq *open_at(const char *path)
{
    return open_small(path, 1000);
}

int lock_x(struct enq *e, const char *name, struct enq_grant *g)
{
    return enq_lock(e, ENQ_REQ(.name = name, .mode = ENQ_MODE_X), g);
}

void must_be_healthy(struct enq *e)
{
    char report[2048] = "";
    int findings = enq_doctor(e, 0, report, sizeof(report));

    must(findings == 0, "the doctor says %d: %s", findings, report);
}

/* --- file systems --- */

void needs_root(void)
{
    if (geteuid() == 0)
        return;
    dprintf(1, "skipped: needs root\n");
    _exit(SKIPPED);
}

const char *own_tmpfs(const char *mount_options)
{
    static char path[256];

    needs_root();
    test_path("fs", path);
    must(mkdir(path, 0755) == 0 || errno == EEXIST, "%s: %m", path);
    must(unshare(CLONE_NEWNS) == 0, "no namespace of mounts: %m");
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "mount: %m");
    must(mount("enq", path, "tmpfs", 0, mount_options) == 0, "mount: %m");
    return path;
}

/* --- children --- */

pid_t spawn(void (*f)(void *), void *arg)
{
    pid_t pid;

    test_dir();
    fflush(NULL);
    pid = fork();
    must(pid >= 0, "fork: %m");
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    f(arg);
    _exit(0);
}

int collect(pid_t pid)
{
    int status = 0;
    pid_t got;

    do
        got = waitpid(pid, &status, 0);
    while (got < 0 && errno == EINTR);
    must(got == pid, "waitpid: %m");
    return status;
}

void join(pid_t pid)
{
    int status = collect(pid);

    must(WIFEXITED(status) && WEXITSTATUS(status) == 0,
        "a child ended with status %#x", (unsigned)status);
}

void apart(void (*f)(void *), void *arg)
{
    join(spawn(f, arg));
}

void *shared_memory(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
        MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    must(p != MAP_FAILED, "mmap: %m");
    return p;
}

/* --- time --- */

int64_t now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

void nap_us(int64_t us)
{
    nanosleep(&(struct timespec){us / 1000000, us % 1000000 * 1000}, NULL);
}
