/*
 * check_thread.c - thread and session slots: taken, given back, taken over
 * from the dead; and nothing leaks.
 */
#include "sync/thread.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lib/slots.h"
#include "sync/latch.h"
#include "sync/life.h"
#include "unit.h"

static void *lock_once(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

static void in_thread(void *(*f)(void *), void *arg)
{
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, f, arg), 0);
    pthread_join(thread, NULL);
}

TEST(a_thread_that_ends_gives_its_slot_back)
{
    struct enq *e = unit_open();
    uint64_t before = unit_stats(e).threads;

    for (int i = 0; i < 300; i++)
        in_thread(lock_once, e);
    ck_assert_uint_eq(unit_stats(e).threads, before);
    ck_assert_uint_lt(e->map->h->threads_high, 10);
    enq_close(e);
}

TEST(what_a_thread_counted_stays_counted)
{
    struct enq *e = unit_open();

    for (int i = 0; i < 50; i++)
        in_thread(lock_once, e);
    ck_assert_uint_eq(unit_stats(e).grants, 50);
    ck_assert_uint_eq(unit_stats(e).releases, 50);
    enq_close(e);
}

static void *note_ref(void *out)
{
    struct enq *e = *(struct enq **)out;

    *(thread_ref_t *)((struct enq **)out + 1) = thread_enter(e->map)->ref;
    return NULL;
}

TEST(a_slot_used_again_has_another_reference)
{
    struct {
        struct enq *e;
        thread_ref_t ref;
    } a = {unit_open(), 0}, b = a;

    in_thread(note_ref, &a);
    in_thread(note_ref, &b);
    ck_assert_uint_eq(a.ref & THREAD_MASK, b.ref & THREAD_MASK);
    ck_assert_uint_ne(a.ref, b.ref);
    ck_assert(thread_is_dead(a.e->map, a.ref));
    ck_assert(thread_is_dead(a.e->map, b.ref));
    enq_close(a.e);
}

static int open_and_stay(void *has)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_S, &g));
    shm_add((uint32_t *)has, 1);
    for (;;)
        pause();
    return 0;
}

TEST(slots_of_the_dead_are_used_again)
{
    uint32_t *has = unit_shared(4);
    struct enq *e = unit_open();
    char report[4096];
    pid_t pid;

    for (uint32_t i = 1; i <= 20; i++) {
        pid = unit_fork(open_and_stay, has);
        eventually(shm_load(has) == i);
        unit_kill(pid);
        enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report));
    }
    ck_assert_uint_lt(e->map->h->threads_high, 12);
    ck_assert_uint_lt(e->map->h->sessions_high, 12);
    want(ENQ_OK, enq_doctor(e, 0, report, sizeof(report)));
    enq_close(e);
}

static unsigned fds(void)
{
    return unit_count_dir("/proc/self/fd");
}

static unsigned tasks(void)
{
    return unit_count_dir("/proc/self/task");
}

static void open_lock_close(void)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    enq_close(e);
}

TEST(a_thousand_times_open_and_close_leak_nothing)
{
    struct enq *e;
    /* the thread sanitizer has a thread of its own */
    unsigned fds_before, tasks_before = tasks() + UNIT_TSAN;

    open_lock_close();
    eventually(tasks() == tasks_before);
    fds_before = fds();
    for (int i = 0; i < 1000; i++)
        open_lock_close();
    ck_assert_uint_eq(fds(), fds_before);
    eventually(tasks() == tasks_before);
    e = unit_open();
    ck_assert_uint_le(unit_stats(e).threads, 2);
    ck_assert_uint_eq(unit_stats(e).sessions, 1);
    ck_assert_uint_eq(unit_stats(e).held, 0);
    ck_assert_uint_lt(e->map->h->slab_pages, 3);
    enq_close(e);
}

/* Each time another segment: the mapping ends with its last attachment,
   though this thread lives on. */
TEST(spaces_that_come_and_go_leak_no_descriptors)
{
    unsigned before;

    open_lock_close();
    want(ENQ_OK, enq_unlink(unit_space()));
    before = fds();
    for (int i = 0; i < 50; i++) {
        open_lock_close();
        want(ENQ_OK, enq_unlink(unit_space()));
    }
    ck_assert_uint_le(fds(), before + 2);
}

/* Of each thread but us. */
static unsigned long long blocked_signals(const char *task)
{
    char path[300], line[200];
    unsigned long long set = 0;
    FILE *f;

    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task);
    f = fopen(path, "re");
    while (f != NULL && fgets(line, sizeof(line), f) != NULL)
        sscanf(line, "SigBlk: %llx", &set);
    if (f != NULL)
        fclose(f);
    return set;
}

/* Blocked, a fault would end the process past the handler that it has. */
static void *open_and_close(void *space)
{
    struct enq *e;

    want(ENQ_OK, enq_open(&e, space, NULL));
    enq_close(e);
    return NULL;
}

/* It lives on for another, and would keep the file and the memory of this. */
TEST(the_helper_thread_leaves_a_space_with_its_last_attachment)
{
    struct enq *e = unit_open();
    unsigned before = fds();
    char second[256];

    unit_path("second", second);
    in_thread(open_and_close, second);
    ck_assert_uint_eq(fds(), before);
    enq_close(e);
}

TEST(a_thread_of_the_library_takes_no_signal_but_its_own_faults)
{
    static const int faults[] = {SIGBUS, SIGSEGV, SIGFPE, SIGILL};
    static const int others[] = {SIGTERM, SIGHUP, SIGALRM, SIGCHLD, SIGUSR1};
    struct enq *e = unit_open();
    DIR *dir = opendir("/proc/self/task");
    unsigned long long set;
    struct dirent *task;
    unsigned found = 0;

    while ((task = readdir(dir)) != NULL) {
        if (task->d_name[0] == '.' || atoi(task->d_name) == getpid())
            continue;
        set = blocked_signals(task->d_name);
        if ((set >> (SIGTERM - 1) & 1) == 0)
            continue; /* a sanitizer's */
        found++;
        for (unsigned i = 0; i < sizeof(faults) / sizeof(*faults); i++)
            ck_assert_uint_eq(set >> (faults[i] - 1) & 1, 0);
        for (unsigned i = 0; i < sizeof(others) / sizeof(*others); i++)
            ck_assert_uint_eq(set >> (others[i] - 1) & 1, 1);
    }
    closedir(dir);
    ck_assert_uint_eq(found, 1);
    enq_close(e);
}

TEST(a_thousand_refused_opens_leak_nothing)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = 1u << 30};
    struct enq *e = NULL;
    unsigned before = fds();

    for (int i = 0; i < 1000; i++) {
        want(-EINVAL, enq_open(&e, unit_space(), &opts));
        want(-EINVAL, enq_open(&e, "shm:/", NULL));
    }
    ck_assert_uint_eq(fds(), before);
}

/* All other slots are written full: 8,191 living processes would take long. */
TEST(there_is_room_for_so_many_sessions_and_no_more)
{
    struct enq *e = unit_open(), *other = NULL;
    struct map *map = e->map;

    for (uint32_t i = 0; i < SESSIONS_MAX; i++)
        if (shm_load(&map->sessions[i].ref) == 0) {
            shm_store((uint32_t *)&map->sessions[i].life, (uint32_t)gettid());
            shm_store(&map->sessions[i].ref, 1u << SESSION_BITS | i);
        }
    shm_store(&map->h->sessions_high, SESSIONS_MAX);
    want_why(-EAGAIN, enq_open(&other, unit_space(), NULL), "8192 sessions");
    shm_store(&map->sessions[SESSIONS_MAX - 1].ref, 0);
    want(ENQ_OK, enq_open(&other, unit_space(), NULL));
    enq_close(other);
    enq_close(e);
}

TEST(a_process_may_have_a_thousand_attachments_and_no_more)
{
    static struct enq *all[1000];
    struct enq *other = NULL;

    for (unsigned i = 0; i < 1000; i++)
        want(ENQ_OK, enq_open(&all[i], unit_space(), NULL));
    want_why(-EAGAIN, enq_open(&other, unit_space(), NULL), "1000");
    enq_close(all[999]);
    want(ENQ_OK, enq_open(&all[999], unit_space(), NULL));
    for (unsigned i = 0; i < 1000; i++)
        enq_close(all[i]);
}

/* --- too many robust mutexes --- */

#define OWN_MUTEXES 2500

static int hold_many_and_a_latch(void *arg)
{
    static pthread_mutex_t own[OWN_MUTEXES];
    struct enq *e = unit_open();
    struct thread *t = thread_enter(e->map);
    pthread_mutexattr_t attr;

    pthread_mutexattr_init(&attr);
    pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    for (unsigned i = 0; i < OWN_MUTEXES; i++) {
        pthread_mutex_init(&own[i], &attr);
        pthread_mutex_lock(&own[i]);
    }
    latch_acquire(t, &at_bucket(e->map, 5, 0)->latch, RANK_BUCKET);
    shm_store_release((uint32_t *)arg, t->ref);
    for (;;)
        pause();
    return 0;
}

/* The kernel marks the first 2,048: not ours, which is the oldest. */
TEST(who_holds_too_many_robust_mutexes_is_noticed_by_its_keeper)
{
    uint32_t *ref = unit_shared(4);
    struct enq *e = unit_open();
    pid_t pid = unit_fork(hold_many_and_a_latch, ref);
    struct thread *t = thread_enter(e->map);

    eventually(shm_load_acquire(ref) != 0);
    ck_assert(!thread_is_dead(e->map, *ref));
    unit_kill(pid);
    ck_assert(!liveness_is_dead(*liveness_word(&at_thread(e->map, *ref)
                                                    ->life)));
    eventually(thread_is_dead(e->map, *ref));
    want(0, latch_acquire(t, &at_bucket(e->map, 5, 0)->latch, RANK_BUCKET));
    latch_release(t, &at_bucket(e->map, 5, 0)->latch);
    eventually(shm_load(&at_thread(e->map, *ref)->ref) != *ref);
    ck_assert_uint_le(unit_stats(e).threads, 2);
    enq_close(e);
}

/* --- many threads --- */

struct team {
    struct enq *e;
    uint32_t in, refused, go;
};

static void *enter_and_stay(void *arg)
{
    struct team *team = arg;
    enq_handle handle;
    int rc = enq_find(team->e, "x", &handle);

    if (rc != ENQ_NOTHELD) {
        want_why(-EAGAIN, rc, "16384 threads");
        shm_add(&team->refused, 1);
    }
    shm_add(&team->in, 1);
    while (!shm_load_acquire(&team->go))
        sys.sleep(&(struct sys_watch){&team->go, 0}, 1, MONO_NEVER);
    return NULL;
}

#define REAL 3000u

static void enter_by_threads(struct team *team, unsigned n)
{
    static pthread_t threads[REAL + 1];
    pthread_attr_t attr;

    team->in = team->refused = team->go = 0;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(pthread_create(&threads[i], &attr, enter_and_stay,
                             team),
            0);
    eventually(shm_load(&team->in) == n);
    shm_store_release(&team->go, 1);
    sys.wake(&team->go, INT32_MAX);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

/* Neither the helper thread's slot nor this thread's is among those. */
TEST(there_is_room_for_so_many_threads_and_no_more)
{
    struct team team = {unit_open(), 0, 0, 0};

    lock_once(team.e);
    slots_fill_all_but(team.e->map, REAL);
    for (unsigned n = REAL - 1; n <= REAL + 1; n++) {
        enter_by_threads(&team, n);
        ck_assert_uint_eq(team.refused, n > REAL);
        ck_assert_uint_eq(unit_stats(team.e).threads, THREADS_MAX - REAL);
    }
    lock_once(team.e);
    enq_close(team.e);
}

static void *close_it(void *e)
{
    enq_close(e);
    return NULL;
}

/* The helper thread, which has one, does it instead: what ends with the session
   is given on at once, with no tick that would find out. */
TEST(a_thread_that_closes_and_finds_no_room_for_itself_gives_all_back)
{
    struct enq *e, *other;
    struct enq_event event = {0};
    struct enq_grant g;
    uint64_t ticket;

    setenv("ENQ_TICK_MS", "60000", 1);
    e = unit_open();
    other = unit_open();
    want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_X, &g));
    want(ENQ_PENDING,
        enq_start(other,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    slots_fill_all_but(e->map, 0);
    in_thread(close_it, e);
    eventually(enq_next(other, &event) == ENQ_OK);
    want(ENQ_OK, event.result);
    enq_close(other);
}

int main(void)
{
    unit_begin("thread");
    ADD(a_thread_that_ends_gives_its_slot_back);
    ADD(what_a_thread_counted_stays_counted);
    ADD(a_slot_used_again_has_another_reference);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        slots_of_the_dead_are_used_again);
    ADD(a_thousand_times_open_and_close_leak_nothing);
    ADD(spaces_that_come_and_go_leak_no_descriptors);
    ADD(the_helper_thread_leaves_a_space_with_its_last_attachment);
    ADD(a_thread_of_the_library_takes_no_signal_but_its_own_faults);
    ADD(a_thousand_refused_opens_leak_nothing);
    ADD(there_is_room_for_so_many_sessions_and_no_more);
    ADD(a_process_may_have_a_thousand_attachments_and_no_more);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        who_holds_too_many_robust_mutexes_is_noticed_by_its_keeper);
    if (!UNIT_SANITIZED) /* too slow there */
        ADD(there_is_room_for_so_many_threads_and_no_more);
    ADD(a_thread_that_closes_and_finds_no_room_for_itself_gives_all_back);
    return unit_end();
}
