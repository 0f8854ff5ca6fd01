/*
 * check_file.c - addresses, and files that are refused: each with its own
 * result and words, and left as they were.
 */
#include "segment/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "refuse.h"
#include "unit.h"

/* --- addresses --- */

#define A50 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define A200 A50 A50 A50 A50

static const struct {
    const char *address, *path, *owner;
} good[] = {
    {"shm:enq", "/dev/shm/enq", NULL},
    {"shm:x", "/dev/shm/x", NULL},
    {"shm:A.b_c-9", "/dev/shm/A.b_c-9", NULL},
    {"shm:-", "/dev/shm/-", NULL},
    {"shm:" A200, "/dev/shm/" A200, NULL},
    {"/run/enq", "/run/enq", NULL},
    {"", "/dev/shm/enq", NULL},
    {NULL, "/dev/shm/enq", NULL},
    {"shm:x?owner=alice", "/dev/shm/x", "alice"},
    {"shm:x?owner=1000", "/dev/shm/x", "1000"},
    {"/run/enq/y?owner=a b", "/run/enq/y", "a b"},
};

TEST(an_address_is_a_path)
{
    char path[FILE_PATH_BYTES];
    const char *owner;

    want(0, file_path(good[_i].address, path, &owner));
    ck_assert_str_eq(path, good[_i].path);
    ck_assert_pstr_eq(owner, good[_i].owner);
}

static const struct {
    const char *address;
    int result;
    const char *words;
} bad[] = {
    {"shm:", -EINVAL, "letters"},
    {"shm:.x", -EINVAL, "dot"},
    {"shm:..", -EINVAL, "dot"},
    {"shm:a/b", -EINVAL, "a/b"},
    {"shm:../etc/passwd", -EINVAL, "etc"},
    {"shm:a b", -EINVAL, "a b"},
    {"shm:a\n", -EINVAL, "letters"},
    {"shm:\xc3\xb6", -EINVAL, "letters"},
    {"shm:" A200 "a", -EINVAL, "200"},
    {"relative", -EINVAL, "relative"},
    {"./relative", -EINVAL, "absolute"},
    {"SHM:x", -EINVAL, "SHM:x"},
    {"/" A200 A50 A50, -ENAMETOOLONG, "longer"},
    {"shm:x?", -EINVAL, "unknown option \"?\": ?owner=USER"},
    {"shm:x?owner=", -EINVAL, "?owner=USER"},
    {"shm:x?onwer=alice", -EINVAL, "unknown option \"?onwer\""},
    {"/run/x?y", -EINVAL, "unknown option \"?y\""},
    {"shm:?owner=root", -EINVAL, "letters"},
    {"shm:x?owner=no such user", -EINVAL, "unknown user \"no such user\""},
    {"shm:x?owner=4294967295", -EINVAL, "unknown user"},
    {"shm:x?owner=4294967296", -EINVAL, "unknown user"},
    {"shm:x?owner=12x", -EINVAL, "unknown user \"12x\""},
    {"shm:x?owner=-1", -EINVAL, "unknown user"},
};

TEST(what_is_no_address_is_refused_and_named)
{
    struct enq *e = NULL;

    want_why(bad[_i].result, enq_open(&e, bad[_i].address, NULL),
        bad[_i].words);
    ck_assert_ptr_null(e);
    want(bad[_i].result, enq_unlink(bad[_i].address));
}

TEST(a_space_is_not_removed_from_afar)
{
    want_why(-EOPNOTSUPP, enq_unlink("unix:/run/x"), "bridge");
    want_why(-EOPNOTSUPP, enq_unlink("tcp://host"), "bridge");
    want_why(-EOPNOTSUPP, enq_unlink("tls://host"), "bridge");
}

TEST(the_environment_gives_the_default)
{
    char path[FILE_PATH_BYTES];

    setenv("ENQ_SPACE", "shm:theirs", 1);
    want(0, file_path(NULL, path, &(const char *){NULL}));
    ck_assert_str_eq(path, "/dev/shm/theirs");
    setenv("ENQ_SPACE", "nonsense", 1);
    want_why(-EINVAL, file_path(NULL, path, &(const char *){NULL}), "nonsense");
    setenv("ENQ_SPACE", "", 1);
    want(0, file_path(NULL, path, &(const char *){NULL}));
    ck_assert_str_eq(path, "/dev/shm/enq");
}

TEST(a_path_may_be_255_bytes_long)
{
    char path[FILE_PATH_BYTES], address[FILE_PATH_BYTES + 2];

    memset(address, 'p', sizeof(address));
    address[0] = '/';
    for (size_t n = FILE_PATH_BYTES - 2; n <= FILE_PATH_BYTES; n++) {
        address[n] = '\0';
        want(n < FILE_PATH_BYTES ? 0 : -ENAMETOOLONG,
            file_path(address, path, &(const char *){NULL}));
        address[n] = 'p';
    }
    address[FILE_PATH_BYTES] = '\0';
    want_why(-ENAMETOOLONG, file_path(address, path, &(const char *){NULL}),
        "is longer than 255 bytes");
}

/* --- strange files --- */

static void write_file(const char *path, const void *bytes, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, bytes, n), (int)n);
    close(fd);
}

static void make_empty(const char *path)
{
    write_file(path, "", 0);
}

static void make_short(const char *path)
{
    write_file(path, "ENQLOCK1 but no more than this", 30);
}

static void make_garbage(const char *path)
{
    uint64_t dice = unit_seed(), bytes[2048];

    for (size_t i = 0; i < LENGTH(bytes); i++)
        bytes[i] = unit_random(&dice);
    write_file(path, bytes, sizeof(bytes));
}

static void make_zeros(const char *path)
{
    make_empty(path);
    ck_assert_int_eq(truncate(path, 1 << 20), 0);
}

static void make_space(const char *path)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 100};
    struct enq *e;

    want(ENQ_OK, enq_open(&e, path, &opts));
    enq_close(e);
}

static void make_truncated(const char *path)
{
    make_space(path);
    ck_assert_int_eq(truncate(path, 8192), 0);
}

static void make_lengthened(const char *path)
{
    struct stat st;

    make_space(path);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(truncate(path, st.st_size + 4096), 0);
}

static void make_cut_below_the_header(const char *path)
{
    make_space(path);
    ck_assert_int_eq(truncate(path, 100), 0);
}

static void make_foreign(const char *path)
{
    uint32_t version = 99;
    int fd;

    make_space(path);
    fd = open(path, O_WRONLY);
    ck_assert_int_eq((int)pwrite(fd, &version, 4,
                         offsetof(struct seg_header, layout_version)),
        4);
    close(fd);
}

static void make_directory(const char *path)
{
    ck_assert_int_eq(mkdir(path, 0700), 0);
}

static void make_symlink(const char *path)
{
    char target[256];

    make_space(unit_path("target", target));
    ck_assert_int_eq(symlink(target, path), 0);
}

static void make_dangling(const char *path)
{
    ck_assert_int_eq(symlink("/nowhere/at/all", path), 0);
}

static void make_fifo(const char *path)
{
    ck_assert_int_eq(mkfifo(path, 0600), 0);
}

static void make_socket(const char *path)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);

    snprintf(name.sun_path, sizeof(name.sun_path), "%s", path);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&name, sizeof(name)), 0);
    close(fd);
}

static void make_hard_link(const char *path)
{
    char other[256];

    make_space(unit_path("other", other));
    ck_assert_int_eq(link(other, path), 0);
}

static void make_open_to_all(const char *path)
{
    make_space(path);
    ck_assert_int_eq(chmod(path, 0666), 0);
}

static const struct {
    void (*make)(const char *path);
    int result;
    const char *words;
} strange[] = {
    {make_empty, ENQ_ECORRUPT, "0 bytes"},
    {make_short, ENQ_ECORRUPT, "30 bytes"},
    {make_garbage, ENQ_ECORRUPT, "not a lock space"},
    {make_zeros, ENQ_ECORRUPT, "not a lock space"},
    {make_truncated, ENQ_ECORRUPT, "8192 bytes"},
    {make_lengthened, ENQ_ECORRUPT, " bytes"},
    {make_cut_below_the_header, ENQ_ECORRUPT, "100 bytes"},
    {make_foreign, ENQ_EVERSION, "99"},
    {make_directory, -EISDIR, "directory"},
    {make_symlink, -ELOOP, "symbolic link"},
    {make_dangling, -ELOOP, "symbolic link"},
    {make_fifo, -EINVAL, "not a regular file"},
    {make_socket, -ENXIO, ""},
    {make_hard_link, -EPERM, "hard link"},
    {make_open_to_all, -EPERM, "everybody"},
};

static void same(const struct stat *a, const struct stat *b)
{
    ck_assert_uint_eq(a->st_ino, b->st_ino);
    ck_assert_int_eq(a->st_size, b->st_size);
    ck_assert_uint_eq(a->st_mode, b->st_mode);
    ck_assert_int_eq(a->st_mtim.tv_nsec, b->st_mtim.tv_nsec);
}

TEST(a_strange_file_is_refused_named_and_left_alone)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct stat before, after;
    struct enq *e = NULL;
    unsigned fds;

    strange[_i].make(unit_space());
    ck_assert_int_eq(lstat(unit_space(), &before), 0);
    fds = unit_count_dir("/proc/self/fd");
    want_why(strange[_i].result, enq_open(&e, unit_space(), NULL),
        strange[_i].words);
    ck_assert_ptr_nonnull(strstr(enq_why(), unit_space()));
    ck_assert_ptr_null(e);
    ck_assert_int_lt(enq_open(&e, unit_space(), &look), 0);
    ck_assert_uint_eq(unit_count_dir("/proc/self/fd"), fds);
    ck_assert_int_eq(lstat(unit_space(), &after), 0);
    same(&before, &after);
}

/* --- headers on the disk --- */

#define IMMUTABLE offsetof(struct seg_header, unlinked)

static void flip(int fd, size_t at)
{
    uint8_t byte;

    ck_assert_int_eq((int)pread(fd, &byte, 1, (off_t)at), 1);
    byte ^= 0xff;
    ck_assert_int_eq((int)pwrite(fd, &byte, 1, (off_t)at), 1);
}

TEST(a_file_with_any_byte_of_its_header_flipped_is_refused)
{
    struct enq *e = NULL;
    int fd;

    make_space(unit_space());
    fd = open(unit_space(), O_RDWR);
    for (size_t at = 0; at < IMMUTABLE; at++) {
        int rc;

        flip(fd, at);
        rc = enq_open(&e, unit_space(), NULL);
        ck_assert_msg(rc == ENQ_ECORRUPT || rc == ENQ_EVERSION, "byte %zu: %d",
            at, rc);
        ck_assert_ptr_null(e);
        flip(fd, at);
    }
    close(fd);
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    enq_close(e);
}

/* --- permissions and names --- */

TEST(a_new_segment_has_the_permissions_asked_for)
{
    static const uint32_t modes[] = {0, 0600, 0660, 0640};
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 10, .mode = modes[_i]};
    struct stat st;
    struct enq *e;

    umask(0077);
    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    enq_close(e);
    ck_assert_int_eq(stat(unit_space(), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, modes[_i] ? modes[_i] : 0600);
}

TEST(permissions_for_everybody_are_refused)
{
    static const uint32_t modes[] = {
        0666, 0602, 0604, 0601, 0400, 0200, 0060, 0700, 04600, 01600, ~0u};
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 10, .mode = modes[_i]};
    struct enq *e = NULL;

    want_why(-EINVAL, enq_open(&e, unit_space(), &opts), "permissions");
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
}

static int is_temporary(const struct dirent *d)
{
    return strstr(d->d_name, ".enq-new-") != NULL;
}

static void nothing_temporary_is_left(void)
{
    struct dirent **found;
    char dir[256];

    ck_assert_int_eq(scandir(unit_path("", dir), &found, is_temporary, NULL),
        0);
    free(found);
}

TEST(where_no_file_is_nameless_a_segment_comes_by_another_name)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 10, .mode = 0660};
    struct stat st;
    struct enq *e;

    ck_assert(refuse_to_open(O_TMPFILE));
    close(STDIN_FILENO); /* its descriptor may be 0 */
    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    ck_assert_int_eq(stat(unit_space(), &st), 0);
    ck_assert_uint_eq(st.st_mode & 07777, 0660);
    nothing_temporary_is_left();
    enq_close(e);
}

TEST(a_directory_that_is_not_there_is_named)
{
    char path[256];
    struct enq *e = NULL;

    unit_path("nowhere/space", path);
    want_why(-ENOENT, enq_open(&e, path, NULL), path);
}

TEST(a_file_is_no_directory)
{
    char path[256];
    struct enq *e = NULL;

    make_empty(unit_space());
    unit_path("space/space", path);
    want_why(-ENOTDIR, enq_open(&e, path, NULL), path);
}

TEST(what_does_not_exist_is_not_created_when_only_existing_is_asked_for)
{
    uint32_t flags[] = {ENQ_OPEN_EXISTING, ENQ_OPEN_READONLY};
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = flags[_i]};
    struct enq *e = NULL;

    want_why(-ENOENT, enq_open(&e, unit_space(), &opts), unit_space());
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
}

TEST(unlinking_what_is_not_there_says_so)
{
    want_why(-ENOENT, enq_unlink(unit_space()), unit_space());
}

TEST(unlinking_removes_a_space_and_what_is_left_of_one)
{
    make_space(unit_space());
    want(ENQ_OK, enq_unlink(unit_space()));
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
    make_space(unit_space());
    ck_assert_int_eq(truncate(unit_space(), 5000), 0);
    want(ENQ_OK, enq_unlink(unit_space()));
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
}

TEST(unlinking_refuses_what_is_no_space)
{
    make_garbage(unit_space());
    want_why(-EINVAL, enq_unlink(unit_space()), "not a lock space");
    ck_assert_int_eq(access(unit_space(), F_OK), 0);
    unlink(unit_space());
}

/* --- room, where signals come all the time --- */

static off_t most_at_once = INT64_MAX, reserved;

/* The kernel's: with more at once a signal is quicker, each time. */
int posix_fallocate(int fd, off_t at, off_t bytes)
{
    if (bytes > most_at_once)
        return EINTR;
    if (at == reserved)
        reserved = at + bytes;
    return fallocate(fd, 0, at, bytes) == 0 ? 0 : errno;
}

TEST(room_is_taken_in_smaller_pieces_where_signals_come_all_the_time)
{
    static const uint64_t sizes[] = {1, 4096, 12288, 81920, 2097152 + 17};
    uint64_t begin = 8192, bytes = sizes[_i];
    struct stat st;
    char path[256];
    int fd = open(unit_path("room", path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    most_at_once = 12288;
    reserved = (off_t)begin;
    ck_assert_int_eq(file_reserve(fd, begin, bytes), 0);
    ck_assert_int_eq(reserved, (off_t)(begin + bytes));
    ck_assert_int_eq(fstat(fd, &st), 0);
    ck_assert_int_eq(st.st_size, (off_t)(begin + bytes));
    close(fd);
    unlink(path);
}

int main(void)
{
    unit_begin("file");
    ADD_LOOP(an_address_is_a_path, LENGTH(good));
    ADD_LOOP(what_is_no_address_is_refused_and_named, LENGTH(bad));
    ADD(a_space_is_not_removed_from_afar);
    ADD_LOOP(room_is_taken_in_smaller_pieces_where_signals_come_all_the_time,
        5);
    ADD(the_environment_gives_the_default);
    ADD(a_path_may_be_255_bytes_long);
    ADD_LOOP(a_strange_file_is_refused_named_and_left_alone, LENGTH(strange));
    ADD(a_file_with_any_byte_of_its_header_flipped_is_refused);
    ADD_LOOP(a_new_segment_has_the_permissions_asked_for, 4);
    ADD_LOOP(permissions_for_everybody_are_refused, 11);
    ADD_IF(may_refuse(), "no seccomp",
        where_no_file_is_nameless_a_segment_comes_by_another_name);
    ADD(a_directory_that_is_not_there_is_named);
    ADD(a_file_is_no_directory);
    ADD_LOOP(what_does_not_exist_is_not_created_when_only_existing_is_asked_for,
        2);
    ADD(unlinking_what_is_not_there_says_so);
    ADD(unlinking_removes_a_space_and_what_is_left_of_one);
    ADD(unlinking_refuses_what_is_no_space);
    return unit_end();
}
