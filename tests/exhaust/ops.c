/*
 * ops.c - the calls that are made to fail (see scene.h). Each act leaves the
 * scene such that it can be done again.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "api/attachment.h"
#include "base/hash.h"
#include "scene.h"

#define LONG_KEY                                                               \
    "a key that is long enough to need an entry of the larger size, as it "    \
    "has more than eighty bytes"

/* --- scenes --- */

/* In a process that dies with them: locks that stay. */
static void leave_locks(void *path)
{
    struct enq *e = open_small(path, 100000);
    struct enq_grant g;
    char id[16];

    for (int i = 0; i < 2 * SCENE_LEFT; i++) {
        snprintf(id, sizeof(id), "%s-%d", i % 2 == 0 ? "keep" : "spare", i / 2);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = id, .id = id, .mode = ENQ_MODE_X,
                    .owner = "dead", .ttl_ms = ENQ_FOREVER,
                    .on_death = ENQ_DEATH_KEEP),
                &g));
    }
}

static void with_file(struct scene *s)
{
    apart(leave_locks, s->path);
    s->left = true;
}

/* And reaps the sessions that died with them. */
static void reap_the_dead(void *path)
{
    struct enq *e = open_at(path);
    char report[1024];

    eventually(enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report)) == 0);
    enq_close(e);
}

static void with_attachment(struct scene *s)
{
    with_file(s);
    apart(reap_the_dead, s->path);
    s->open[0] = open_at(s->path);
    s->n_open = 1;
}

static void with_locks(struct scene *s)
{
    char name[16];

    with_attachment(s);
    for (int i = 0; i < SCENE_MINE; i++) {
        snprintf(name, sizeof(name), "mine-%d", i);
        want(ENQ_OK,
            enq_lock(s->open[0], ENQ_REQ(.name = name, .mode = ENQ_MODE_O),
                &s->mine[i]));
    }
}

static void with_readonly(struct scene *s)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY};

    with_file(s);
    apart(reap_the_dead, s->path);
    want(ENQ_OK, enq_open(&s->open[0], s->path, &opts));
    s->n_open = 1;
}

static void with_many(struct scene *s, unsigned n)
{
    struct enq_grant g;
    char key[16];

    with_locks(s);
    for (unsigned i = 0; i < n; i++) {
        snprintf(key, sizeof(key), "%u", i);
        want(ENQ_OK,
            enq_lock(s->open[0],
                ENQ_REQ(.name = "many", .key = {key}, .mode = ENQ_MODE_S), &g));
    }
}

static void with_10000(struct scene *s)
{
    with_many(s, 10000);
}

/* As if the segment were of an earlier boot: it is to be replaced. */
static void with_stale_file(struct scene *s)
{
    struct seg_header *h;
    const char *from;
    int fd;

    with_file(s);
    s->left = false;
    fd = open(s->path, O_RDWR | O_CLOEXEC);
    h = mmap(NULL, sizeof(*h), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    must(h != MAP_FAILED, "mmap: %m");
    h->boot_id[0] = 'x';
    from = (const char *)&h->layout_version;
    h->checksum = (uint32_t)hash_bytes(from,
        (size_t)((const char *)&h->checksum - from), LAYOUT_MAGIC);
    munmap(h, sizeof(*h));
    close(fd);
}

static void *obey(void *arg)
{
    struct scene *s = arg;

    for (;;) {
        sem_wait(&s->go);
        if (s->job == NULL)
            return NULL;
        s->job_result = s->job(s);
        snprintf(s->job_why, sizeof(s->job_why), "%s", enq_why());
        sem_post(&s->done);
    }
}

static void with_thread(struct scene *s)
{
    with_locks(s);
    sem_init(&s->go, 0, 0);
    sem_init(&s->done, 0, 0);
    must(pthread_create(&s->thread, NULL, obey, s) == 0, "no thread");
    s->has_thread = true;
}

static int in_thread(struct scene *s, int (*job)(struct scene *s))
{
    s->job = job;
    sem_post(&s->go);
    sem_wait(&s->done);
    return s->job_result;
}

static int renew_first(struct scene *s)
{
    return enq_renew(s->open[0], s->mine[0].handle, 0, 0);
}

/* One that is known to the space already. */
static void with_known_thread(struct scene *s)
{
    with_thread(s);
    want(ENQ_OK, in_thread(s, renew_first));
}

void scene_end(struct scene *s)
{
    for (unsigned i = 0; i < s->n_open; i++)
        enq_close(s->open[i]);
    if (!s->has_thread)
        return;
    s->job = NULL;
    sem_post(&s->go);
    pthread_join(s->thread, NULL);
}

/* --- opening --- */

static int open_with(struct scene *s, uint32_t flags)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 1000, .flags = flags};
    int rc = enq_open(&s->open[s->n_open], s->path, &opts);

    s->n_open += rc == ENQ_OK;
    return rc;
}

static int do_open(struct scene *s)
{
    return open_with(s, 0);
}

static int do_open_readonly(struct scene *s)
{
    return open_with(s, ENQ_OPEN_READONLY);
}

static int do_close(struct scene *s)
{
    enq_close(s->open[--s->n_open]);
    return ENQ_OK;
}

static void with_three(struct scene *s)
{
    struct enq_grant g;

    with_thread(s);
    for (int i = 1; i < 4; i++) {
        s->open[i] = open_at(s->path);
        s->n_open++;
        want(ENQ_OK, lock_x(s->open[i], i == 1 ? "a" : i == 2 ? "b" : "c", &g));
    }
}

static int do_close_elsewhere(struct scene *s)
{
    return in_thread(s, do_close);
}

/* --- locks --- */

static int lock_new(struct scene *s, const char *field, int64_t wait_ms)
{
    struct enq_grant g;
    char name[16];
    int rc;

    snprintf(name, sizeof(name), "new-%u", s->acts);
    rc = enq_lock(s->open[0],
        ENQ_REQ(.name = name, .key = {field}, .mode = ENQ_MODE_X,
            .wait_ms = wait_ms),
        &g);
    s->acts += rc == ENQ_OK;
    return rc;
}

static int do_lock(struct scene *s)
{
    return lock_new(s, "f", 0);
}

static int do_lock_long(struct scene *s)
{
    return lock_new(s, LONG_KEY, 0);
}

static int do_lock_elsewhere(struct scene *s)
{
    return in_thread(s, do_lock);
}

static int do_lock_generic(struct scene *s)
{
    struct enq_grant g;
    int rc = enq_lock(s->open[0],
        ENQ_REQ(.name = "generic", .key = {"@"}, .mode = ENQ_MODE_S), &g);

    return rc;
}

static int do_lock_with_id(struct scene *s)
{
    struct enq_grant g;
    char id[16];
    int rc;

    snprintf(id, sizeof(id), "id-%u", s->acts);
    rc = enq_lock(s->open[0], ENQ_REQ(.name = id, .id = id, .mode = ENQ_MODE_S),
        &g);
    s->acts += rc == ENQ_OK;
    return rc;
}

/* Until the table has grown by some, as many as are granted. */
static int grow(struct scene *s, const char *name, unsigned n)
{
    struct enq_grant g;
    char key[16];
    int rc = ENQ_OK;

    for (unsigned i = 0; i < n && rc == ENQ_OK; i++) {
        snprintf(key, sizeof(key), "%u/%u", s->acts, i);
        rc = enq_lock(s->open[0],
            ENQ_REQ(.name = name, .key = {key}, .mode = ENQ_MODE_S), &g);
    }
    s->acts++;
    return rc;
}

static int do_grow_table(struct scene *s)
{
    return grow(s, "grow", 12000);
}

/* Each shard of 256 has one page of buckets more than in the beginning, which is
   enough for 160 objects; with 5,000 more a few get a second one. */
static void with_full_index(struct scene *s)
{
    with_many(s, 30000);
}

static int do_grow_index(struct scene *s)
{
    return grow(s, "index", 5000);
}

static int do_wait_in_vain(struct scene *s)
{
    struct enq_grant g;

    return enq_lock(s->open[0],
        ENQ_REQ(.name = "keep-0", .mode = ENQ_MODE_X, .wait_ms = 12), &g);
}

static int unlock_soon(struct scene *s)
{
    nap_us(2000);
    return enq_unlock(s->open[0], s->mine[s->used].handle, 0);
}

static int do_wait_for_grant(struct scene *s)
{
    struct enq_grant g;
    char name[16];
    int rc;

    if (s->used == SCENE_MINE)
        return ENQ_OK;
    snprintf(name, sizeof(name), "mine-%u", s->used);
    s->job = unlock_soon;
    sem_post(&s->go);
    rc = enq_lock(s->open[0],
        ENQ_REQ(.name = name, .mode = ENQ_MODE_X, .owner = "waiter",
            .wait_ms = 3000),
        &g);
    sem_wait(&s->done);
    s->used += s->job_result == ENQ_OK;
    return rc < 0 ? rc : s->job_result;
}

static int do_test(struct scene *s)
{
    return enq_lock(s->open[0],
        ENQ_REQ(.name = "new", .mode = ENQ_MODE_X, .flags = ENQ_TEST), NULL);
}

static int do_unlock(struct scene *s)
{
    int rc = enq_unlock(s->open[0], s->mine[s->used].handle, 0);

    s->used += rc == ENQ_OK;
    return rc;
}

static int do_unlock_elsewhere(struct scene *s)
{
    return in_thread(s, do_unlock);
}

static int do_promote(struct scene *s)
{
    int rc = enq_promote(s->open[0], s->mine[s->used].handle, 0, NULL);

    if (rc == ENQ_OK)
        rc = enq_demote(s->open[0], s->mine[s->used].handle, 0);
    s->used += rc == ENQ_OK;
    return rc;
}

static int do_renew(struct scene *s)
{
    return enq_renew(s->open[0], s->mine[0].handle, 0, 5000);
}

static int do_find(struct scene *s)
{
    enq_handle handle;

    return enq_find(s->open[0], "keep-1", &handle);
}

/* Which have been adopted or broken, and not by us again. */
static int do_adopt(struct scene *s)
{
    struct enq_grant g;
    char id[16];
    int rc;

    snprintf(id, sizeof(id), "keep-%u", s->acts);
    rc = enq_adopt(s->open[0], id, &g);
    s->acts += rc == ENQ_OK;
    return rc;
}

static int do_inherit(struct scene *s)
{
    struct enq_info info;
    size_t got;

    return enq_inherit(s->open[0], &info, 1, &got);
}

static int do_look_for_orphans(struct scene *s)
{
    struct enq_orphan left[ENQ_ORPHANS_LEAST];
    uint64_t at = 0;
    size_t got;
    int rc = enq_orphans(s->open[0], &at, left, LENGTH(left), &got);

    return rc == ENQ_PENDING ? ENQ_OK : rc;
}

/* It ends with its process, and stays with it till then. */
static int do_abandon(struct scene *s)
{
    return enq_abandon(s->open[0], s->mine[0].handle, 0);
}

static int do_break(struct scene *s)
{
    char id[16];
    int rc;

    snprintf(id, sizeof(id), "spare-%u", s->acts);
    rc = enq_break(s->open[0], id);
    s->acts += rc == ENQ_OK;
    return rc;
}

/* --- looking --- */

static int list(struct scene *s, const char *name, size_t n)
{
    struct enq_info *infos = mmap(NULL, n * sizeof(*infos),
        PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    size_t total = 0;
    int rc;

    if (infos == MAP_FAILED)
        return ENQ_OK; /* that was ours, and says nothing */
    rc = enq_list(s->open[0], name, NULL, infos, n, &total);
    munmap(infos, n * sizeof(*infos));
    must(rc != ENQ_OK || total > 0, "the list is empty");
    return rc;
}

static int do_list(struct scene *s)
{
    return list(s, NULL, 16);
}

static int do_list_many(struct scene *s)
{
    return list(s, NULL, 10100);
}

static int do_list_name(struct scene *s)
{
    return list(s, "keep-0", 16);
}

static int do_list_many_of_name(struct scene *s)
{
    return list(s, "many", 10100);
}

static int do_stat(struct scene *s)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    return enq_stat(s->open[0], &stats);
}

static int doctor(struct scene *s, uint32_t flags)
{
    char report[1024] = "";
    int rc = enq_doctor(s->open[0], flags, report, sizeof(report));

    must(rc <= 0, "the doctor finds %s", report);
    return rc;
}

static int do_check(struct scene *s)
{
    return doctor(s, 0);
}

static int do_fix(struct scene *s)
{
    return doctor(s, ENQ_DOCTOR_FIX);
}

static int do_dump(struct scene *s)
{
    int fd = (int)syscall(SYS_openat, AT_FDCWD, "/dev/null", O_WRONLY);
    int rc = enq_dump(s->open[0], fd);

    close(fd);
    return rc;
}

static int do_unlink(struct scene *s)
{
    int rc = s->acts > 0 ? ENQ_OK : enq_unlink(s->path);

    s->acts += rc == ENQ_OK;
    s->left = rc != ENQ_OK && s->left;
    return rc;
}

static void with_nothing(struct scene *s)
{
    (void)s;
}

/* --- all of them --- */

const struct op ops[] = {
    {"opening a new space", "open", with_nothing, do_open, 0},
    {"opening what is there", "open", with_file, do_open, 0},
    {"opening it again", "open", with_locks, do_open, 0},
    {"opening to look", "open", with_file, do_open_readonly, 0},
    {"opening what is stale", "open", with_stale_file, do_open, 0},
    {"closing", "close", with_three, do_close, 0},
    {"closing in another thread", "close", with_three, do_close_elsewhere, 0},
    {"unlinking", "unlink", with_file, do_unlink, 0},
    {"the first lock", "lock", with_attachment, do_lock, 0},
    {"a lock more", "lock", with_locks, do_lock, 0},
    {"a lock with a long key", "lock", with_locks, do_lock_long, 0},
    {"a lock in a new thread", "lock", with_thread, do_lock_elsewhere, 0},
    {"a generic lock", "lock", with_locks, do_lock_generic, 0},
    {"a lock with an id", "lock", with_locks, do_lock_with_id, 0},
    {"growth of the table", "lock", with_attachment, do_grow_table, 0},
    {"growth of the index", "lock", with_full_index, do_grow_index, 0},
    {"waiting in vain", "lock", with_locks, do_wait_in_vain, ENQ_TIMEDOUT},
    {"waiting for a grant", "lock", with_known_thread, do_wait_for_grant, 0},
    {"testing", "lock", with_locks, do_test, 0},
    {"a set of 2", "lock_set", with_locks, do_lock_2, 0},
    {"a set of 8 with heartbeats", "lock_set", with_locks, do_lock_8, 0},
    {"a set of 20", "lock_set", with_locks, do_lock_20, 0},
    {"a set of 20 with heartbeats", "lock_set", with_locks,
        do_lock_20_with_heartbeats, 0},
    {"waiting for a set of 2", "lock_set", with_locks, do_wait_for_2,
        ENQ_TIMEDOUT},
    {"waiting for a set of 20", "lock_set", with_locks, do_wait_for_20,
        ENQ_TIMEDOUT},
    {"starting a set of 2", "start_set", with_locks, do_start_2, ENQ_TIMEDOUT},
    {"starting a set of 20", "start_set", with_locks, do_start_20,
        ENQ_TIMEDOUT},
    {"starting a set that is granted", "start_set", with_locks,
        do_start_20_granted, 0},
    {"unlocking a set", "unlock_set", with_locks, do_unlock_set, 0},
    {"unlocking", "unlock", with_locks, do_unlock, 0},
    {"unlocking in a new thread", "unlock", with_thread, do_unlock_elsewhere,
        0},
    {"promoting and demoting", "promote", with_locks, do_promote, 0},
    {"renewing", "renew", with_locks, do_renew, 0},
    {"finding", "find", with_locks, do_find, 0},
    {"adopting", "adopt", with_locks, do_adopt, 0},
    {"inheriting", "inherit", with_locks, do_inherit, 0},
    {"looking for orphans", "orphans", with_locks, do_look_for_orphans, 0},
    {"abandoning", "abandon", with_locks, do_abandon, ENQ_REFUSED},
    {"breaking", "break", with_locks, do_break, 0},
    {"listing", "list", with_locks, do_list, 0},
    {"listing 10,000", "list", with_10000, do_list_many, 0},
    {"listing a name", "list", with_locks, do_list_name, 0},
    {"listing a name of 10,000", "list", with_10000, do_list_many_of_name, 0},
    {"listing, read-only", "list", with_readonly, do_list, 0},
    {"statistics", "stat", with_locks, do_stat, 0},
    {"statistics, read-only", "stat", with_readonly, do_stat, 0},
    {"checking", "doctor", with_locks, do_check, 0},
    {"checking, read-only", "doctor", with_readonly, do_check, 0},
    {"fixing", "doctor", with_locks, do_fix, 0},
    {"dumping", "dump", with_locks, do_dump, 0},
    {NULL, NULL, NULL, NULL, 0},
};
