/*
 * file.c - what may happen to the file of a space: removed, cut off, replaced,
 * forbidden; or something else stands in its place.
 *
 * A process that comes gets an answer with the path in it, and leaves alone
 * what is not its own. One that is there already goes on with what can go on
 * (P8: attach, list and check answer, and do not crash).
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "frame.h"
#include "segment/layout.h"

static int open_as(const char *path, uint32_t flags)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 1000, .flags = flags};
    struct enq *e = NULL;
    int rc = enq_open(&e, path, &opts);

    enq_close(e);
    return rc;
}

/* --- the name is gone --- */

/* New locks are refused; holders keep theirs. */
static void goes_on_without_name(struct enq *e, struct enq_grant *g)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_grant other;
    struct enq_info info;
    char report[512];
    size_t total;

    eventually(lock_x(e, "other", &other) == ENQ_EGONE ||
        enq_unlock(e, other.handle, 0) != ENQ_OK);
    want_why(ENQ_EGONE, lock_x(e, "other", &other), test_space());
    want(ENQ_OK, enq_valid(e, g->handle));
    want(ENQ_OK, enq_renew(e, g->handle, g->token, 0));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    want(ENQ_OK, enq_stat(e, &stats));
    must(total == 1 && stats.unlinked, "it is not said to be unlinked");
    want(1, enq_doctor(e, 0, report, sizeof(report)));
    must(strstr(report, "lost its name") != NULL, "%s", report);
    want(ENQ_OK, enq_unlock(e, g->handle, g->token));
    enq_close(e);
}

static void removed(void)
{
    struct enq *e = open_at(test_space()), *new;
    struct enq_grant g, n;

    want(ENQ_OK, lock_x(e, "n", &g));
    must(unlink(test_space()) == 0, "%m");
    new = open_at(test_space());
    want(ENQ_OK, lock_x(new, "n", &n));
    must(n.token > g.token, "tokens do not grow");
    goes_on_without_name(e, &g);
    must_be_healthy(new);
    want(ENQ_OK, enq_unlock(new, n.handle, n.token));
    enq_close(new);
}

static void replaced(void)
{
    char other[256];
    struct enq *e = open_at(test_space());
    struct enq_grant g;

    want(ENQ_OK, lock_x(e, "n", &g));
    enq_close(open_at(test_path("other", other)));
    must(rename(other, test_space()) == 0, "%m");
    goes_on_without_name(e, &g);
    want(ENQ_OK, open_as(test_space(), ENQ_OPEN_EXISTING));
}

static void without_directory(void)
{
    char dir[256], space[280];
    struct enq *e;
    struct enq_grant g;

    must(mkdir(test_path("dir", dir), 0755) == 0, "%m");
    snprintf(space, sizeof(space), "%s/space", dir);
    e = open_at(space);
    want(ENQ_OK, lock_x(e, "n", &g));
    must(unlink(space) == 0 && rmdir(dir) == 0, "%m");
    want_why(-ENOENT, open_as(space, 0), space);
    want_why(-ENOENT, open_as(space, ENQ_OPEN_EXISTING), space);
    want_why(-ENOENT, open_as(space, ENQ_OPEN_READONLY), space);
    want_why(-ENOENT, enq_unlink(space), space);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

/* --- the file is too short --- */

static off_t whole_size(void)
{
    struct stat st;

    must(stat(test_space(), &st) == 0, "%m");
    return st.st_size;
}

static void cut_off_before(void)
{
    const off_t sizes[] = {0, 1, 63, 64, 4095, 4096, 4097, SEG_GATES,
        SEG_FIXED_END - 1, SEG_FIXED_END, 2 << 20};
    off_t whole;

    for (size_t i = 0; i < 2 * LENGTH(sizes); i++) {
        off_t size = sizes[i / 2];

        enq_close(open_at(test_space()));
        whole = whole_size();
        if (i % 2 == 1) /* from the end */
            size = i == 1 ? whole + 1 : whole - size;
        must(size >= 0 && truncate(test_space(), size) == 0, "%m");
        want_why(ENQ_ECORRUPT, open_as(test_space(), 0), test_space());
        want_why(ENQ_ECORRUPT, open_as(test_space(), ENQ_OPEN_READONLY),
            test_space());
        must(whole_size() == size, "it was changed");
        want(ENQ_OK, enq_unlink(test_space()));
    }
}

struct cut {
    off_t size;
    uint32_t flags;
    const char *call;
};

static int make_call(struct enq *e, const char *call)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_info infos[4];
    char report[512];
    size_t total;
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);

    if (strcmp(call, "list") == 0)
        return enq_list(e, NULL, NULL, infos, 4, &total);
    if (strcmp(call, "list of a name") == 0)
        return enq_list(e, "n", NULL, infos, 4, &total);
    if (strcmp(call, "stat") == 0)
        return enq_stat(e, &stats);
    if (strcmp(call, "dump") == 0)
        return enq_dump(e, fd);
    return enq_doctor(e, 0, report, sizeof(report));
}

#define NOT_OUR_CALL 99
#define TRIES 5

/* The helper thread looks at the file before each of its rounds, but the file
   may be cut off in the middle of one: that is not what is tested here. */
static void met_its_end(int number)
{
    if (gettid() != getpid())
        _exit(NOT_OUR_CALL);
    signal(number, SIG_DFL);
    raise(number);
}

/* The attachment was there before; the mapping now ends beyond the file. */
static void cut_off_under_us(void *arg)
{
    const struct cut *cut = arg;
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = cut->flags};
    struct enq *e;
    int rc;

    want(ENQ_OK, enq_open(&e, test_space(), &opts));
    signal(SIGBUS, met_its_end);
    must(truncate(test_space(), cut->size) == 0, "%m");
    rc = make_call(e, cut->call);
    must(rc == ENQ_ECORRUPT, "%s says %s (%s)", cut->call, enq_result_name(rc),
        enq_why());
    _exit(0); /* to close it is more than can be asked for */
}

static int cut_off_once(struct cut *cut)
{
    struct enq_grant g;
    struct enq *e = open_at(test_space());
    int status;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X,
                .on_death = ENQ_DEATH_KEEP),
            &g));
    enq_close(e);
    status = collect(spawn(cut_off_under_us, cut));
    want(ENQ_OK, enq_unlink(test_space()));
    return status;
}

static void cut_off_in_use(void)
{
    static const char *const calls[] = {
        "list", "list of a name", "stat", "doctor", "dump"};
    const off_t sizes[] = {0, 4096, SEG_GATES + 4096, SEG_FIXED_END};
    unsigned bad = 0;

    for (size_t i = 0; i < LENGTH(calls) * LENGTH(sizes) * 2; i++) {
        struct cut cut = {sizes[i / 2 % LENGTH(sizes)],
            i % 2 == 0 ? ENQ_OPEN_READONLY : 0, calls[i / 2 / LENGTH(sizes)]};
        int status = cut_off_once(&cut);

        for (int n = 1; n < TRIES && WIFEXITED(status) &&
             WEXITSTATUS(status) == NOT_OUR_CALL;
             n++)
            status = cut_off_once(&cut);
        if (status != 0 && bad++ == 0)
            printf("%s%s of a file cut to %lld bytes: status %#x%s\n", cut.call,
                cut.flags != 0 ? ", read-only," : "", (long long)cut.size,
                (unsigned)status,
                WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS ? ": SIGBUS"
                                                                  : "");
    }
    must(bad == 0, "%u of %zu calls do not answer", bad,
        LENGTH(calls) * LENGTH(sizes) * 2);
}

/* --- a half-made segment: the header is fine, and all else zero --- */

static void use_hollow(void *arg)
{
    uint32_t flags = *(uint32_t *)arg;
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = flags};
    struct enq_info infos[4];
    char report[512];
    struct enq_grant g;
    struct enq *e;
    size_t total;
    int rc = enq_open(&e, test_space(), &opts);

    alarm(60); /* it hangs */
    if (rc != ENQ_OK) {
        must(rc == ENQ_ECORRUPT && strstr(enq_why(), test_space()) != NULL,
            "opening says %s (%s)", enq_result_name(rc), enq_why());
        return;
    }
    rc = enq_doctor(e, 0, report, sizeof(report));
    must(rc > 0 || rc == ENQ_ECORRUPT, "the doctor says %s",
        enq_result_name(rc));
    enq_list(e, NULL, NULL, infos, 4, &total);
    if (flags == 0)
        lock_x(e, "n", &g);
    enq_close(e);
}

static void hollow(void)
{
    static uint32_t flags[] = {0, ENQ_OPEN_READONLY};
    char header[4096];
    off_t size;
    int fd;

    for (size_t i = 0; i < LENGTH(flags); i++) {
        enq_close(open_at(test_space()));
        size = whole_size();
        fd = open(test_space(), O_RDWR | O_CLOEXEC);
        must(pread(fd, header, sizeof(header), 0) == sizeof(header), "%m");
        must(ftruncate(fd, 0) == 0 && ftruncate(fd, size) == 0, "%m");
        must(pwrite(fd, header, sizeof(header), 0) == sizeof(header), "%m");
        close(fd);
        apart(use_hollow, &flags[i]);
        want(ENQ_OK, enq_unlink(test_space()));
    }
}

/* --- something else in its place --- */

static void make_fifo(const char *path)
{
    must(mkfifo(path, 0600) == 0, "%m");
}

static void make_directory(const char *path)
{
    must(mkdir(path, 0700) == 0, "%m");
}

static void make_socket(const char *path)
{
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    snprintf(at.sun_path, sizeof(at.sun_path), "%s", path);
    must(bind(fd, (struct sockaddr *)&at, sizeof(at)) == 0, "%m");
    close(fd);
}

static void make_device(const char *path)
{
    must(mknod(path, S_IFCHR | 0600, makedev(1, 3)) == 0, "%m");
}

static void make_link_to_space(const char *path)
{
    char other[256];

    enq_close(open_at(test_path("other", other)));
    must(symlink(other, path) == 0, "%m");
}

static void make_dangling_link(const char *path)
{
    char other[256];

    must(symlink(test_path("nowhere", other), path) == 0, "%m");
}

static void make_hard_link(const char *path)
{
    char other[256];

    enq_close(open_at(test_path("linked", other)));
    must(link(other, path) == 0, "%m");
}

static void make_file(const char *path, const void *bytes, size_t n, off_t size)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    must(pwrite(fd, bytes, n, 0) == (ssize_t)n && ftruncate(fd, size) == 0,
        "%m");
    close(fd);
}

static void make_empty(const char *path)
{
    make_file(path, "", 0, 0);
}

static void make_zeros(const char *path)
{
    make_file(path, "", 0, 50 << 20);
}

static void make_text(const char *path)
{
    make_file(path, "hello", 5, 10000);
}

static void make_magic_alone(const char *path)
{
    make_file(path, "ENQLOCK1", 8, 50 << 20);
}

static void make_open_to_all(const char *path)
{
    enq_close(open_at(path));
    must(chmod(path, 0602) == 0, "%m");
}

static void in_its_place(void)
{
    static const struct {
        void (*make)(const char *path);
        int answer;
    } others[] = {{make_fifo, -EINVAL}, {make_directory, -EISDIR},
        {make_socket, -ENXIO}, {make_device, -EINVAL},
        {make_link_to_space, -ELOOP}, {make_dangling_link, -ELOOP},
        {make_hard_link, -EPERM}, {make_empty, ENQ_ECORRUPT},
        {make_zeros, ENQ_ECORRUPT}, {make_text, ENQ_ECORRUPT},
        {make_magic_alone, ENQ_EVERSION}, {make_open_to_all, -EPERM}};
    char nowhere[256];

    needs_root();
    for (size_t i = 0; i < LENGTH(others); i++) {
        char path[256], name[16];
        struct stat before, after;

        snprintf(name, sizeof(name), "other-%zu", i);
        others[i].make(test_path(name, path));
        must(lstat(path, &before) == 0, "%m");
        want_why(others[i].answer, open_as(path, 0), path);
        want_why(others[i].answer, open_as(path, ENQ_OPEN_EXISTING), path);
        if (others[i].answer != -EISDIR) /* for reading, it can be opened */
            want_why(others[i].answer, open_as(path, ENQ_OPEN_READONLY), path);
        must(lstat(path, &after) == 0 && before.st_ino == after.st_ino &&
                before.st_size == after.st_size &&
                before.st_mode == after.st_mode,
            "%s was changed", path);
    }
    must(access(test_path("nowhere", nowhere), F_OK) != 0,
        "it was made behind the link");
}

/* --- forbidden --- */

static void as_nobody(void)
{
    must(setgroups(0, NULL) == 0 && setresgid(54321, 54321, 54321) == 0 &&
            setresuid(54321, 54321, 54321) == 0,
        "setresuid: %m");
}

static void not_permitted(void *nothing)
{
    (void)nothing;
    as_nobody();
    want_why(-EACCES, open_as(test_space(), 0), test_space());
    want_why(-EACCES, open_as(test_space(), ENQ_OPEN_READONLY), test_space());
    want_why(-EACCES, enq_unlink(test_space()), test_space());
}

static void in_a_forbidden_directory(void *nothing)
{
    char path[256];

    (void)nothing;
    as_nobody();
    want_why(-EACCES, open_as(test_path("new", path), 0), path);
}

static void permissions(void)
{
    struct enq *e;
    struct enq_grant g;

    needs_root();
    e = open_at(test_space());
    apart(not_permitted, NULL);
    apart(in_a_forbidden_directory, NULL);
    must(chmod(test_space(), 0) == 0, "%m");
    apart(not_permitted, NULL);
    want(ENQ_OK, lock_x(e, "n", &g)); /* it was in before, and stays in */
    must(chmod(test_space(), 0666) == 0, "%m");
    want_why(-EPERM, open_as(test_space(), 0), "chmod o-w");
    must(chmod(test_space(), 0600) == 0, "%m");
    want(ENQ_OK, open_as(test_space(), 0));
    enq_close(e);
}

/* A stranger has made it, so that we may read and write it. */
static void not_ours(void *nothing)
{
    (void)nothing;
    as_nobody();
    want_why(-EACCES, open_as(test_space(), ENQ_OPEN_READONLY),
        "belongs to user");
}

static void anothers(void)
{
    needs_root();
    must(chmod(test_dir(), 0777) == 0, "%m");
    enq_close(open_at(test_space()));
    must(chown(test_space(), 12345, 12345) == 0 &&
            chmod(test_space(), 0604) == 0,
        "%m");
    apart(not_ours, NULL);
    want_why(-EACCES, open_as(test_space(), 0), "?owner=12345");
}

/* --- a file system that is read-only --- */

static void read_only(void)
{
    char space[300], other[300];
    struct enq *e;
    const char *fs = own_tmpfs("size=16m");
    struct enq_info infos[4];
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY};
    struct enq_grant g;
    size_t total;

    snprintf(space, sizeof(space), "%s/space", fs);
    snprintf(other, sizeof(other), "%s/other", fs);
    e = open_at(space);
    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X,
                .on_death = ENQ_DEATH_KEEP),
            &g));
    enq_close(e);
    must(mount(NULL, fs, NULL, MS_REMOUNT | MS_RDONLY, NULL) == 0, "%m");
    want_why(-EROFS, open_as(other, 0), other);
    want_why(-EROFS, open_as(space, 0), space);
    want_why(-EROFS, enq_unlink(space), space);
    want(ENQ_OK, enq_open(&e, space, &opts));
    want(ENQ_OK, enq_list(e, NULL, NULL, infos, 4, &total));
    must(total == 1, "%zu are listed", total);
    must_be_healthy(e);
    enq_close(e);
}

const struct test file_tests[] = {
    {"a removed space gives no new locks and keeps the old ones", removed},
    {"so does one that was replaced", replaced},
    {"a space in a directory that is gone", without_directory},
    {"a file that was cut off is refused", cut_off_before},
    {"P8: a file that is cut off under us is an error, and no SIGBUS",
        cut_off_in_use},
    {"P8: a half-made segment is found out", hollow},
    {"what stands in its place is refused, named and left alone", in_its_place},
    {"what is not permitted is refused and named", permissions},
    {"another's file", anothers},
    {"a read-only file system can be looked at", read_only},
    {NULL, NULL},
};
