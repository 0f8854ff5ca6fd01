/*
 * kernel.c - what a program, a sandbox or bad luck takes from the library:
 * thread keys, uninterrupted calls, its descriptor, robust lists, futex_waitv;
 * and a creator that is overtaken.
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

#include "api/attachment.h"
#include "frame.h"
#include "inject.h"

/* --- thread keys --- */

static void *one_thread(void *e)
{
    struct enq_grant g;
    int rc = lock_x(e, "n", &g);

    must(rc == ENQ_OK || rc == -EAGAIN || rc == -ENOMEM, "%s (%s)",
        enq_result_name(rc), enq_why());
    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

/* All keys are the program's, and each has its value: they stay as they are,
   whether the space can be opened or not. */
static void keys(void)
{
    static pthread_key_t all[PTHREAD_KEYS_MAX];
    struct enq *e = NULL;
    pthread_t t;
    unsigned n = 0;
    int rc;

    while (n < PTHREAD_KEYS_MAX && pthread_key_create(&all[n], NULL) == 0) {
        must(pthread_setspecific(all[n], &all[n]) == 0, "setspecific");
        n++;
    }
    rc = enq_open(&e, test_space(), NULL);
    must(rc == ENQ_OK || rc == -EAGAIN || rc == -ENOMEM, "%s (%s)",
        enq_result_name(rc), enq_why());
    if (rc == ENQ_OK) {
        one_thread(e);
        pthread_create(&t, NULL, one_thread, e);
        pthread_join(t, NULL);
        enq_close(e);
    }
    for (unsigned i = 0; i < n; i++)
        must(pthread_getspecific(all[i]) == &all[i],
            "the value of the program's key %u was overwritten", i);
    pthread_key_delete(all[n - 1]);
    want(ENQ_OK, enq_open(&e, test_space(), NULL));
    one_thread(e);
    enq_close(e);
    eventually(entries_of("/proc/self/task") == 1);
}

/* --- signals --- */

static void on_tick(int signal)
{
    (void)signal;
}

/* A profiler's timer, say: handlers without SA_RESTART, all the time. */
static void signals(void)
{
    struct sigaction action = {.sa_handler = on_tick};
    struct itimerval often = {{0, 700}, {0, 700}};
    struct enq_grant g;
    struct enq *e;
    char key[16];

    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int round = 0; round < 20; round++) {
        e = open_small(test_space(), 100000);
        for (int i = 0; i < 24000; i++) {
            snprintf(key, sizeof(key), "%d", i);
            want(ENQ_OK,
                enq_lock(e,
                    ENQ_REQ(.name = "n", .key = {key}, .mode = ENQ_MODE_X),
                    &g));
        }
        want(ENQ_TIMEDOUT,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {"1"}, .mode = ENQ_MODE_X,
                    .owner = "other", .wait_ms = 20),
                &g));
        enq_close(e);
        want(ENQ_OK, enq_unlink(test_space()));
    }
}

/* --- its descriptor --- */

static void *lock_many(void *arg)
{
    struct enq *e = arg;
    struct enq_grant g;
    char key[16];
    int rc = ENQ_OK;

    for (int i = 0; i < 30000 && rc == ENQ_OK; i++) {
        snprintf(key, sizeof(key), "%d", i);
        rc = enq_lock(e, ENQ_REQ(.name = "n", .key = {key}, .mode = ENQ_MODE_X),
            &g);
    }
    must(rc == -EBADF, "growing says %s (%s)", enq_result_name(rc), enq_why());
    must(strstr(enq_why(), test_space()) != NULL, "\"%s\"", enq_why());
    return NULL;
}

/* The program has closed it, and got the number again for its own file. */
static void descriptor(void)
{
    struct enq *e = open_small(test_space(), 100000);
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_grant g;
    struct enq_info info;
    struct stat st;
    char mine[256];
    size_t total;
    int fd;

    want(ENQ_OK, lock_x(e, "kept", &g));
    close(e->map->fd);
    fd = open(test_path("mine", mine), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    must(fd == e->map->fd, "it is another number");
    lock_many(e);
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    want(ENQ_OK, enq_stat(e, &stats));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    must(fstat(fd, &st) == 0 && st.st_size == 0 && st.st_blocks == 0,
        "the program's file was written to");
}

/* --- a sandbox --- */

static void refuse(int number, int error)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)number, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (uint32_t)error),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {LENGTH(code), code};

    must(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "prctl: %m");
    must(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
        "seccomp: %m");
}

struct sandbox {
    int number; /* the system call that it refuses */
    bool may_refuse;
    uint32_t ready, refused;
};

static void hold_and_die(void *arg)
{
    struct sandbox *box = arg;
    struct enq_grant g;
    struct enq *e;
    int rc;

    refuse(box->number, EPERM);
    rc = enq_open(&e, test_space(), NULL);
    if (rc != ENQ_OK) {
        must(box->may_refuse, "%s (%s)", enq_result_name(rc), enq_why());
        must(strchr(enq_why(), ' ') != NULL, "\"%s\"", enq_why());
        shm_store(&box->refused, 1);
        return;
    }
    want(ENQ_OK, lock_x(e, "n", &g));
    shm_store_release(&box->ready, 1);
    for (;;)
        pause();
}

/* Either such a process is not let in, with a clear answer; or its death is
   noticed like any other's. */
static void death_in(int number, bool may_refuse)
{
    struct sandbox *box = shared_memory(sizeof(*box));
    struct enq *e = open_at(test_space());
    struct enq_grant g;
    pid_t pid;

    *box = (struct sandbox){.number = number, .may_refuse = may_refuse};
    pid = spawn(hold_and_die, box);
    while (!shm_load_acquire(&box->ready) && !shm_load(&box->refused))
        nap_us(100);
    if (shm_load(&box->refused)) {
        join(pid);
    } else {
        kill(pid, SIGKILL);
        collect(pid);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = 1500), &g));
    }
    enq_close(e);
}

static void without_robust_lists(void)
{
    death_in(SYS_set_robust_list, true);
}

static void wait_for_the_dead(void *nothing)
{
    struct enq_grant g;
    struct enq *e;

    (void)nothing;
    refuse(SYS_futex_waitv, EPERM);
    e = open_at(test_space());
    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = 2000),
            &g));
    enq_close(e);
}

static void hold_for_a_while(void *ready)
{
    struct enq *e = open_at(test_space());
    struct enq_grant g;

    want(ENQ_OK, lock_x(e, "n", &g));
    shm_store_release((uint32_t *)ready, 1);
    for (;;)
        pause();
}

static void without_waitv(void)
{
    uint32_t *ready = shared_memory(sizeof(*ready));
    pid_t holder, waiter;

    death_in(SYS_futex_waitv, false);
    holder = spawn(hold_for_a_while, ready);
    while (!shm_load_acquire(ready))
        nap_us(100);
    waiter = spawn(wait_for_the_dead, NULL);
    nap_us(50000);
    kill(holder, SIGKILL);
    collect(holder);
    join(waiter);
}

/* --- a creator that is overtaken --- */

static uint64_t others_token;

/* Another makes the space, gives a lock, and removes it. */
static void overtake(void *token)
{
    struct enq *e = open_at(test_space());
    struct enq_grant g;

    want(ENQ_OK, lock_x(e, "n", &g));
    *(uint64_t *)token = g.token;
    enq_close(e);
    want(ENQ_OK, enq_unlink(test_space()));
}

static void overtake_now(void)
{
    uint64_t *token = shared_memory(sizeof(*token));

    nap_us(2000);
    apart(overtake, token);
    others_token = *token;
}

/* Its segment was filled before the other's, and gets its name after that. */
static void overtaken(void)
{
    struct enq_grant g;
    struct enq *e;

    inject_before(KIND_LINK, overtake_now);
    e = open_at(test_space());
    want(ENQ_OK, lock_x(e, "n", &g));
    must(others_token != 0, "nobody overtook");
    must(g.token > others_token, "P5: the token %llu comes after %llu",
        (unsigned long long)g.token, (unsigned long long)others_token);
    enq_close(e);
}

const struct test kernel_tests[] = {
    {"thread keys: those of the program are left alone", keys},
    {"signals at any time do no harm", signals},
    {"a descriptor closed by the program is an error", descriptor},
    {"a sandbox without robust lists", without_robust_lists},
    {"a sandbox without futex_waitv", without_waitv},
    {"tokens grow over a creator who is overtaken", overtaken},
    {NULL, NULL},
};
