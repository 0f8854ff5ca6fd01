/*
 * check_attach.c - getting a mapping: creators that race or die, segments of
 * an earlier boot, and the one mapping that all attachments share.
 */
#include "segment/attach.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/hash.h"
#include "base/point.h"
#include "refuse.h"
#include "unit.h"

/* --- racing --- */

#define RACERS 8
#define ROUNDS 25

struct race {
    uint32_t ready, go, done;
    uint8_t uuid[RACERS][16];
};

struct racer {
    struct race *race;
    unsigned number;
};

static void note_uuid(struct racer *r, struct enq *e)
{
    memcpy(r->race->uuid[r->number], e->map->h->uuid, 16);
    shm_add(&r->race->done, 1);
    eventually(shm_load(&r->race->done) == RACERS);
}

static int race_once(void *arg)
{
    struct racer *r = arg;
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 10000};
    struct enq *e;

    shm_add(&r->race->ready, 1);
    while (shm_load(&r->race->go) == 0)
        continue;
    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    note_uuid(r, e);
    enq_close(e);
    return 0;
}

static void all_have_the_same(const struct race *race)
{
    for (unsigned i = 1; i < RACERS; i++)
        ck_assert_int_eq(memcmp(race->uuid[0], race->uuid[i], 16), 0);
}

static void run_race(struct race *race)
{
    struct racer racers[RACERS];

    memset(race, 0, sizeof(*race));
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] = (struct racer){race, i};
        unit_fork(race_once, &racers[i]);
    }
    eventually(shm_load(&race->ready) == RACERS);
    shm_store(&race->go, 1);
    unit_join_all(RACERS);
    all_have_the_same(race);
}

TEST(of_racing_creators_all_get_the_same_segment)
{
    struct race *race = unit_shared(sizeof(*race));

    for (int round = 0; round < ROUNDS; round++) {
        run_race(race);
        want(ENQ_OK, enq_unlink(unit_space()));
    }
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 2);
}

/* --- stale segments --- */

static struct seg_header read_header(void)
{
    struct seg_header h;
    int fd = open(unit_space(), O_RDONLY);

    ck_assert_int_eq((int)pread(fd, &h, sizeof(h), 0), (int)sizeof(h));
    close(fd);
    return h;
}

static void write_header(struct seg_header *h)
{
    const char *from = (const char *)&h->layout_version;
    int fd = open(unit_space(), O_WRONLY);

    h->checksum = (uint32_t)hash_bytes(from,
        (size_t)((const char *)&h->checksum - from), LAYOUT_MAGIC);
    ck_assert_int_eq((int)pwrite(fd, h, sizeof(*h), 0), (int)sizeof(*h));
    close(fd);
}

/* As if it were of an earlier boot, whose tokens are `ahead` ns ahead. */
static struct seg_header make_stale(uint64_t ahead)
{
    struct seg_header h;

    enq_close(unit_open());
    h = read_header();
    memset(h.boot_id, 'x', 36);
    h.token_base += ahead;
    write_header(&h);
    return h;
}

/* With _i where no file is nameless. */
TEST(a_segment_of_an_earlier_boot_is_replaced)
{
    struct seg_header old = make_stale(0), now;
    struct enq_grant g;
    struct enq *e;

    if (_i == 1)
        ck_assert(refuse_to_open(O_TMPFILE));
    e = unit_open();
    now = read_header();
    ck_assert_int_ne(memcmp(old.uuid, now.uuid, 16), 0);
    ck_assert_uint_gt(now.token_base, old.token_base);
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    ck_assert_uint_gt(g.token, old.token_base);
    enq_close(e);
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 3);
}

/* The wall clock may have been set back meanwhile. */
TEST(tokens_are_above_those_of_the_boot_before_whatever_the_clock_says)
{
    struct seg_header old = make_stale(UINT64_C(86400000) * 1000000);
    struct enq_grant g;
    struct enq *e = unit_open();

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    ck_assert_uint_gt(g.token, old.token_base);
    enq_close(e);
}

TEST(a_stale_segment_does_not_exist_for_those_who_do_not_create)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_EXISTING};
    struct enq *e = NULL;

    make_stale(0);
    want_why(-ENOENT, enq_open(&e, unit_space(), &opts), "boot");
    opts.flags = ENQ_OPEN_READONLY;
    want_why(-ENOENT, enq_open(&e, unit_space(), &opts), "boot");
}

/* In a program that has closed its standard input, 0 is a descriptor as any. */
TEST(no_descriptor_is_left_of_what_is_replaced)
{
    unsigned before;

    enq_close(unit_open());
    close(0);
    make_stale(0);
    before = unit_count_dir("/proc/self/fd");
    for (int i = 0; i < 3; i++) {
        enq_close(unit_open());
        ck_assert_uint_eq(unit_count_dir("/proc/self/fd"), before);
        make_stale(0);
    }
}

TEST(of_racing_replacers_all_get_the_same_segment)
{
    struct race *race = unit_shared(sizeof(*race));

    for (int round = 0; round < ROUNDS; round++) {
        make_stale(0);
        run_race(race);
    }
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 3);
}

#ifdef ENQ_POINTS
#define POINTS 1
#else
#define POINTS 0
#endif

/* --- dying creators --- */

static int create_armed(void *point)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 10000};
    struct enq *e;

    point_arm(point);
    enq_open(&e, unit_space(), &opts);
    return 1;
}

static void open_after_death(const char *point)
{
    struct enq_grant g;
    struct enq *e;

    unit_killed(unit_fork(create_armed, (void *)(uintptr_t)point));
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_creator_killed_before_publishing_leaves_nothing)
{
    unit_killed(unit_fork(create_armed, "attach.created"));
    ck_assert_uint_eq(unit_count_dir(unit_dir()), 2);
    open_after_death("attach.created");
}

TEST(a_creator_killed_after_publishing_leaves_a_whole_segment)
{
    open_after_death("attach.published");
}

TEST(a_session_killed_while_it_registers_leaves_a_whole_segment)
{
    open_after_death("session.claimed");
    open_after_death("session.registered");
}

/* A leftover under a name of its own is no harm but to the eye. */
TEST(a_replacer_killed_half_way_leaves_the_name_as_it_was)
{
    struct seg_header old = make_stale(0), now;

    unit_killed(unit_fork(create_armed, "attach.created"));
    now = read_header();
    ck_assert_int_eq(memcmp(old.uuid, now.uuid, 16), 0);
    enq_close(unit_open());
    now = read_header();
    ck_assert_int_ne(memcmp(old.uuid, now.uuid, 16), 0);
}

/* --- the mapping --- */

TEST(attachments_of_a_process_share_one_mapping)
{
    struct enq *a = unit_open(), *b = unit_open();

    ck_assert_ptr_eq(a->map, b->map);
    enq_close(a);
    unit_healthy(b);
    enq_close(b);
}

TEST(another_name_of_the_same_file_is_the_same_mapping)
{
    char round_about[256];
    struct enq *a = unit_open(), *b;

    unit_path(".//./space", round_about);
    want(ENQ_OK, enq_open(&b, round_about, NULL));
    ck_assert_ptr_eq(a->map, b->map);
    enq_close(a);
    enq_close(b);
}

/* Of the space's file, as if by somebody else in this process. */
static void *map_it(int protection, int flags)
{
    int fd = open(unit_space(), O_RDWR | O_CLOEXEC);
    void *base = mmap(NULL, 4096, protection, flags, fd, 0);

    ck_assert_ptr_ne(base, MAP_FAILED);
    close(fd);
    return base;
}

/* What only reads it, or writes to a copy, is no other copy of the library. */
TEST(a_space_that_is_mapped_already_by_another_copy_of_the_library_is_refused)
{
    struct enq *e = NULL;
    void *theirs;
    unsigned before;

    enq_close(unit_open());
    theirs = map_it(PROT_READ | PROT_WRITE, MAP_SHARED);
    before = unit_count_dir("/proc/self/fd");
    want_why(-EBUSY, enq_open(&e, unit_space(), NULL), "another copy");
    ck_assert_uint_eq(unit_count_dir("/proc/self/fd"), before);
    munmap(theirs, 4096);
    map_it(PROT_READ, MAP_SHARED);
    map_it(PROT_READ | PROT_WRITE, MAP_PRIVATE);
    enq_close(unit_open());
}

/* --- how others can see that we have ended --- */

static bool no_locks, no_proc; /* are to be had */

int __real_fcntl(int fd, int cmd, void *arg);
int __wrap_fcntl(int fd, int cmd, ...);
int __real_fstatat(int dir, const char *path, struct stat *st, int flags);
int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags);

int __wrap_fcntl(int fd, int cmd, ...)
{
    va_list args;
    void *arg;

    va_start(args, cmd);
    arg = va_arg(args, void *);
    va_end(args);
    if (!no_locks || cmd != F_OFD_SETLK)
        return __real_fcntl(fd, cmd, arg);
    errno = EINVAL;
    return -1;
}

int __wrap_fstatat(int dir, const char *path, struct stat *st, int flags)
{
    if (!no_proc || strcmp(path, "/proc/self/ns/pid") != 0)
        return __real_fstatat(dir, path, st, flags);
    errno = ENOENT;
    return -1;
}

static int denied = -1; /* which of the next opens of the space */

int __real_open(const char *path, int flags, mode_t mode);
int __wrap_open(const char *path, int flags, ...);

int __wrap_open(const char *path, int flags, ...)
{
    mode_t mode = 0;
    va_list args;

    if (flags & O_CREAT) {
        va_start(args, flags);
        mode = va_arg(args, mode_t);
        va_end(args);
    }
    if (denied < 0 || strcmp(path, unit_space()) != 0 || denied-- > 0)
        return __real_open(path, flags, mode);
    errno = EACCES;
    return -1;
}

/* It is opened twice: that the second one fails is no sign that others remove
   it and make it again. */
TEST(a_space_that_cannot_be_opened_once_more_is_told_so)
{
    struct enq *e = NULL;
    int n;

    enq_close(unit_open());
    for (n = 0; n < 2; n++) {
        denied = n;
        want_why(-EACCES, enq_open(&e, unit_space(), NULL), unit_space());
    }
    denied = n;
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    enq_close(e);
}

/* A lock on the file that lasts as long as our memory, or /proc. */
TEST(one_sign_of_our_end_is_enough_and_without_any_a_space_is_refused)
{
    struct enq *e;

    no_locks = _i & 1;
    no_proc = _i & 2;
    if (_i == 3) {
        want_why(-EOPNOTSUPP, enq_open(&e, unit_space(), NULL), "/proc");
        return;
    }
    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    ck_assert_int_eq(e->map->self.lock_at == 0, no_locks);
    ck_assert_int_eq(e->map->self.pid_space == 0, no_proc);
    enq_close(e);
}

TEST(references_that_lead_outside_lead_nowhere)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    const struct map *map = e->map;
    ref_t first = (ref_t)(map->arena_at / UNIT_BYTES) + 1;
    uint64_t dice = unit_seed();

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    ck_assert_ptr_nonnull(at_entry(map, first));
    ck_assert_ptr_null(at_entry(map, 0));
    ck_assert_ptr_null(at_entry(map, first - 1));
    ck_assert_ptr_null(at_entry(map, first + 1));
    ck_assert_ptr_null(at_entry(map, UINT32_MAX));
    ck_assert_ptr_null(at_bucket(map, 0, UINT32_MAX));
    ck_assert_ptr_null(at_bucket(map, 0, BUCKETS_PER_SEGMENT));
    for (int i = 0; i < 100000; i++) {
        const struct entry *entry = at_entry(map, (ref_t)unit_random(&dice));
        ck_assert(entry == NULL ||
            ((const char *)(entry + 1) <= (const char *)map->h + map->bytes &&
                entry->state <= UINT64_MAX));
    }
    enq_close(e);
}

TEST(a_bucket_directory_that_points_astray_leads_nowhere)
{
    static const ref_t astray[] = {1, UINT32_MAX, 64, 0xfffffff0};
    struct enq *e = unit_open();
    struct shard_dir was = e->map->dirs[7];

    for (size_t i = 0; i < LENGTH(astray); i++) {
        e->map->dirs[7].segment[1] = astray[i];
        ck_assert_ptr_null(at_bucket(e->map, 7, BUCKETS_PER_SEGMENT));
    }
    e->map->dirs[7] = was;
    enq_close(e);
}

TEST(a_descriptor_closed_by_the_program_is_noticed)
{
    struct enq *e = unit_open();
    struct stat st;

    close(e->map->fd);
    want(-EBADF, map_reserve(e->map, 0, 4096));
    ck_assert_int_eq(open("/dev/null", O_RDONLY), e->map->fd);
    want(-EBADF, map_reserve(e->map, 0, 4096));
    ck_assert(map_links(e->map) != 0);
    want(-EBADF, map_registry_lock(e->map));
    ck_assert_int_eq(fstat(e->map->fd, &st), 0);
    close(e->map->fd);
}

struct files {
    const char *space, *theirs;
    uint32_t ready;
};

static int lock_first_byte(const char *path, int command)
{
    struct flock lock = {.l_type = F_WRLCK, .l_len = 1};
    int fd = open(path, O_RDWR | O_CREAT, 0600);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(fcntl(fd, command, &lock), 0);
    return fd;
}

/* One thread of it registers, so to speak, while another waits for a lock of
   the application. */
static int register_and_wait(void *arg)
{
    struct files *f = arg;

    lock_first_byte(f->space, F_SETLK);
    shm_store_release(&f->ready, 1);
    lock_first_byte(f->theirs, F_SETLKW);
    return 0;
}

static void *end_it_later(void *pid)
{
    usleep(300000);
    kill(*(pid_t *)pid, SIGKILL);
    return NULL;
}

TEST(a_cycle_of_processes_that_is_none_of_threads_is_waited_out)
{
    struct files *f = unit_shared(sizeof(*f));
    char path[256];
    pthread_t ender;
    struct enq *e;
    pid_t pid;
    int theirs;

    enq_close(unit_open());
    *f = (struct files){unit_space(), unit_path("theirs", path), 0};
    theirs = lock_first_byte(f->theirs, F_SETLK);
    pid = unit_fork(register_and_wait, f);
    eventually(shm_load_acquire(&f->ready));
    usleep(50000);
    pthread_create(&ender, NULL, end_it_later, &pid);
    e = unit_open(); /* -EDEADLK, as the kernel sees it */
    pthread_join(ender, NULL);
    unit_killed(pid);
    enq_close(e);
    close(theirs);
}

static int register_for_long(void *arg)
{
    struct files *f = arg;

    lock_first_byte(f->space, F_SETLK);
    unit_stay(&f->ready);
}

static struct {
    struct enq *e;
    int rc;
} newcomer;

static void *come(void *nothing)
{
    struct enq_grant g;

    newcomer.rc = unit_lock(newcomer.e, "n", "f", ENQ_MODE_X, &g);
    return nothing;
}

static uint32_t interrupted;

static void count(int number)
{
    (void)number;
    shm_store(&interrupted, interrupted + 1);
}

/* By a signal of the application, whose handler does not restart calls. */
TEST(a_thread_that_is_interrupted_while_it_is_registered_is_registered)
{
    struct sigaction action = {.sa_handler = count};
    struct files *f = unit_shared(sizeof(*f));
    pthread_t thread;
    pid_t pid;

    newcomer.e = unit_open();
    *f = (struct files){unit_space(), NULL, 0};
    pid = unit_fork(register_for_long, f);
    eventually(shm_load_acquire(&f->ready));
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, come, NULL);
    for (int i = 0; i < 500 && shm_load(&interrupted) < 50; i++, usleep(1000))
        pthread_kill(thread, SIGUSR1);
    unit_kill(pid);
    pthread_join(thread, NULL);
    want(ENQ_OK, newcomer.rc);
    enq_close(newcomer.e);
}

TEST(a_removed_name_is_noticed)
{
    struct enq *e = unit_open();

    ck_assert(map_links(e->map) != 0);
    unlink(unit_space());
    ck_assert(map_links(e->map) == 0);
    enq_close(e);
}

int main(void)
{
    unit_begin("attach");
    ADD(of_racing_creators_all_get_the_same_segment);
    ADD_LOOP(a_segment_of_an_earlier_boot_is_replaced, may_refuse() ? 2 : 1);
    ADD(tokens_are_above_those_of_the_boot_before_whatever_the_clock_says);
    ADD(a_stale_segment_does_not_exist_for_those_who_do_not_create);
    ADD(no_descriptor_is_left_of_what_is_replaced);
    ADD(of_racing_replacers_all_get_the_same_segment);
    ADD_IF(POINTS, "no crash points",
        a_creator_killed_before_publishing_leaves_nothing);
    ADD_IF(POINTS, "no crash points",
        a_creator_killed_after_publishing_leaves_a_whole_segment);
    ADD_IF(POINTS, "no crash points",
        a_session_killed_while_it_registers_leaves_a_whole_segment);
    ADD_IF(POINTS, "no crash points",
        a_replacer_killed_half_way_leaves_the_name_as_it_was);
    ADD(attachments_of_a_process_share_one_mapping);
    ADD(another_name_of_the_same_file_is_the_same_mapping);
    ADD(a_space_that_is_mapped_already_by_another_copy_of_the_library_is_refused);
    ADD_LOOP(one_sign_of_our_end_is_enough_and_without_any_a_space_is_refused,
        4);
    ADD(a_space_that_cannot_be_opened_once_more_is_told_so);
    ADD(references_that_lead_outside_lead_nowhere);
    ADD(a_bucket_directory_that_points_astray_leads_nowhere);
    ADD(a_descriptor_closed_by_the_program_is_noticed);
    ADD(a_removed_name_is_noticed);
    ADD(a_cycle_of_processes_that_is_none_of_threads_is_waited_out);
    ADD(a_thread_that_is_interrupted_while_it_is_registered_is_registered);
    return unit_end();
}
