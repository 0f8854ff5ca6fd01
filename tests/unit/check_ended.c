/*
 * check_ended.c - has a process ended, all of it? Threads that have ended and
 * are still on its list, as a tracer has not let go of them, beside others that
 * live.
 */
#include "sync/ended.h"

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "peer.h"
#include "sync/sys.h"

#define FEW 3
#define MANY 400 /* more than one reading of the list brings */

static struct shared {
    unsigned threads;
    pid_t tid[MANY];
    uint32_t begun, leave[MANY]; /* the n-th may go */
} * shared;

static void *live(void *slot)
{
    uint32_t *leave = slot;
    unsigned i = (unsigned)(leave - shared->leave);

    shared->tid[i] = gettid();
    shm_add(&shared->begun, 1);
    while (!shm_load_acquire(leave))
        usleep(1000);
    return NULL;
}

/* Its first thread is the first in `tid`. */
static int live_with_threads(void *nothing)
{
    pthread_attr_t small;
    pthread_t thread;

    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, 65536);
    for (unsigned i = 1; i < shared->threads; i++)
        if (pthread_create(&thread, &small, live, &shared->leave[i]) != 0)
            return 1;
    live(&shared->leave[0]);
    syscall(SYS_exit, 0);
    return nothing != NULL;
}

static struct enq *looker;

static struct map *some_map(void)
{
    looker = unit_open();
    return looker->map;
}

static pid_t begin(unsigned threads)
{
    pid_t pid;

    shared = unit_shared(sizeof(*shared));
    shared->threads = threads;
    pid = unit_fork(live_with_threads, NULL);
    eventually(shm_load_acquire(&shared->begun) == threads);
    return pid;
}

static bool has_ended(const struct map *map, pid_t pid)
{
    const struct process who = {
        .pid = (uint32_t)pid, .pid_space = map->self.pid_space};

    return process_ended(map, &who);
}

/* Once it has ended it stays a zombie, on the list of its process. */
static void hold(pid_t tid)
{
    ck_assert_int_eq(ptrace(PTRACE_SEIZE, tid, NULL, NULL), 0);
}

static bool is_zombie(pid_t pid, pid_t tid)
{
    char path[64], line[256] = "";
    FILE *file;

    snprintf(path, sizeof(path), "/proc/%d/task/%d/stat", (int)pid, (int)tid);
    file = fopen(path, "r");
    ck_assert_ptr_nonnull(file);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), file));
    fclose(file);
    return strstr(line, ") Z ") != NULL;
}

static unsigned threads_listed(pid_t pid)
{
    char path[32];

    snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
    return unit_count_dir(path);
}

TEST(who_lives_has_not_ended)
{
    const struct map *map = some_map();
    pid_t pid = begin(FEW);

    ck_assert(!has_ended(map, pid));
    unit_kill(pid);
    ck_assert(has_ended(map, pid));
    enq_close(looker);
}

TEST(who_is_stopped_has_not_ended)
{
    const struct map *map = some_map();
    pid_t pid = begin(FEW);
    int status;

    kill(pid, SIGSTOP);
    ck_assert_int_eq(waitpid(pid, &status, WUNTRACED), pid);
    ck_assert(!has_ended(map, pid));
    unit_kill(pid);
    enq_close(looker);
}

TEST(whose_only_thread_has_ended_has_ended_though_nobody_took_notice)
{
    const struct map *map = some_map();
    pid_t pid = begin(1);

    kill(pid, SIGKILL);
    eventually(is_zombie(pid, pid));
    ck_assert(has_ended(map, pid));
    unit_kill(pid);
    enq_close(looker);
}

static void end_with_all_on_the_list(unsigned threads)
{
    const struct map *map = some_map();
    pid_t pid = begin(threads);
    unsigned before = threads_listed(pid);

    for (unsigned i = 1; i < threads; i++)
        hold(shared->tid[i]);
    ck_assert(!has_ended(map, pid));
    kill(pid, SIGKILL);
    eventually(has_ended(map, pid));
    ck_assert_uint_eq(threads_listed(pid), before);
    enq_close(looker);
}

TEST(whose_threads_have_all_ended_has_ended_though_all_are_on_the_list)
{
    end_with_all_on_the_list(FEW);
}

TEST(of_hundreds_of_threads_each_is_looked_at)
{
    end_with_all_on_the_list(MANY);
}

/* The others have ended, are held, and are on the list as it is. */
static void leave_one(unsigned threads, unsigned who)
{
    const struct map *map = some_map();
    pid_t pid = begin(threads);

    for (unsigned i = 0; i < threads; i++)
        if (i != 0 && i != who)
            hold(shared->tid[i]);
    for (unsigned i = 0; i < threads; i++)
        shm_store_release(&shared->leave[i], i != who);
    for (unsigned i = 0; i < threads; i++)
        if (i != who)
            eventually(is_zombie(pid, shared->tid[i]));
    ck_assert(!has_ended(map, pid));
    kill(pid, SIGKILL);
    eventually(has_ended(map, pid));
    enq_close(looker);
}

TEST(one_thread_that_lives_is_enough)
{
    leave_one(FEW, (unsigned)_i);
}

TEST(one_of_hundreds_that_lives_is_enough)
{
    leave_one(MANY, MANY - 1);
}

TEST(of_another_pid_namespace_a_pid_says_nothing)
{
    const struct map *map = some_map();
    pid_t pid = begin(1);
    struct process who = {
        .pid = (uint32_t)pid, .pid_space = map->self.pid_space + 1};

    unit_kill(pid);
    ck_assert(!process_ended(map, &who));
    who.pid_space = 0;
    ck_assert(!process_ended(map, &who));
    who.pid_space = map->self.pid_space;
    ck_assert(process_ended(map, &who));
    enq_close(looker);
}

TEST(what_is_no_pid_is_nobody_that_has_ended)
{
    const struct map *map = some_map();

    ck_assert(!has_ended(map, 0));
    ck_assert(!has_ended(map, -1));
    ck_assert(!has_ended(map, INT32_MIN));
    enq_close(looker);
}

static bool may_trace(void)
{
    pid_t pid = fork();
    bool may;

    if (pid == 0)
        for (;;)
            pause();
    may = ptrace(PTRACE_SEIZE, pid, NULL, NULL) == 0;
    kill(pid, SIGKILL);
    waitpid(pid, NULL, __WALL);
    return may;
}

/* --- the heir --- */

static struct estate {
    enq_handle handle;
    bool proved;
    pthread_t who; /* no other thread's look counts, nor has any counted */
} * estate;

static bool proved_for_us(const struct map *map, const struct process *who)
{
    return estate->proved && pthread_equal(pthread_self(), estate->who) &&
        process_ended(map, who);
}

static int hold_for_another(void *nothing)
{
    struct enq_req req = leased("a", "p");
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, enq_lock(unit_open(), &req, &g));
    estate->handle = g.handle;
    kill(getpid(), SIGKILL);
    return 1;
}

static int inherit_all(struct enq *e)
{
    struct enq_info info;
    size_t got;

    want(ENQ_OK, enq_inherit(e, &info, 1, &got));
    return (int)got;
}

static int inherit_it(struct enq *e)
{
    struct enq_info info;

    return enq_inherit_lock(e, estate->handle, 0, &info);
}

/* Its mark says that it is dead, and a thread of it may still write. Each of
   the two ways to inherit looks for the proof itself. */
TEST(nobody_inherits_before_the_end_is_proved)
{
    struct enq *e = unit_open();

    estate = unit_shared(sizeof(*estate));
    estate->who = pthread_self();
    sys.ended = proved_for_us;
    unit_killed(unit_fork(hold_for_another, NULL));
    for (int i = 0; i < 20; i++) {
        want(ENQ_REFUSED, inherit_it(e));
        ck_assert_int_eq(inherit_all(e), 0);
        unit_nap();
    }
    estate->proved = true;
    if (_i == 0)
        want(ENQ_OK, inherit_it(e));
    else
        ck_assert_int_eq(inherit_all(e), 1);
    want(ENQ_OK, enq_valid(e, estate->handle));
    enq_close(e);
}

int main(void)
{
    bool may = may_trace();

    unit_begin("ended");
    ADD(who_lives_has_not_ended);
    ADD(who_is_stopped_has_not_ended);
    ADD(whose_only_thread_has_ended_has_ended_though_nobody_took_notice);
    ADD_IF(may, "no ptrace",
        whose_threads_have_all_ended_has_ended_though_all_are_on_the_list);
    ADD_IF(may, "no ptrace", of_hundreds_of_threads_each_is_looked_at);
    if (may)
        ADD_LOOP(one_thread_that_lives_is_enough, FEW);
    else
        unit_skip("one_thread_that_lives_is_enough", "no ptrace");
    ADD_IF(may, "no ptrace", one_of_hundreds_that_lives_is_enough);
    ADD(of_another_pid_namespace_a_pid_says_nothing);
    ADD(what_is_no_pid_is_nobody_that_has_ended);
    ADD_LOOP(nobody_inherits_before_the_end_is_proved, 2);
    return unit_end();
}
