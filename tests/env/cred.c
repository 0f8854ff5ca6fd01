/*
 * cred.c - a process changes what it is, and where, after it has attached:
 * user, root directory, mounts, limits, descriptors.
 */
#include <fcntl.h>
#include <grp.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "env.h"
#include "lib/mark.h"

static void *lock_in_thread(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, env_take(e, "thread", 2000, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

static void new_thread_locks(struct enq *e)
{
    pthread_t thread;

    must(pthread_create(&thread, NULL, lock_in_thread, e) == 0);
    pthread_join(thread, NULL);
}

/* All that an attached process does: more locks than a page has, threads. */
static void go_on(struct enq *e)
{
    struct enq_grant g[100];
    char field[16];

    for (size_t i = 0; i < LENGTH(g); i++) {
        snprintf(field, sizeof(field), "%zu", i);
        want(ENQ_OK, env_take(e, field, 0, &g[i]));
    }
    for (size_t i = 0; i < LENGTH(g); i++)
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    new_thread_locks(e);
    env_healthy(e);
}

static void in_a_child(int (*f)(void *))
{
    struct enq *e = env_open();
    struct enq_grant g;

    env_join(env_child(f, NULL));
    want(ENQ_OK, env_take(e, "a", 1000, &g));
    eventually(env_stat(e).sessions == 1);
    env_healthy(e);
}

/* --- another user --- */

static int become_nobody(void *nothing)
{
    struct enq *e = env_open(), *more = NULL;
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(setgroups(0, NULL) == 0);
    must(setresgid(4711, 4711, 4711) == 0);
    must(setresuid(4711, 4711, 4711) == 0);
    want(ENQ_OK, enq_valid(e, g.handle));
    go_on(e);
    want_why(-EACCES, enq_open(&more, env_space(), NULL), "Permission");
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void P11_who_gives_up_its_user_after_attaching_goes_on(void)
{
    in_a_child(become_nobody);
}

static int lock_as_nobody_and_die(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    must(setresuid(4711, 4711, 4711) == 0);
    must(prctl(PR_SET_DUMPABLE, 0) == 0);
    want(ENQ_OK, env_take(e, "a", 0, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

static void P11_the_death_of_who_gave_up_its_user_is_noticed(void)
{
    struct enq *e = env_open();
    struct enq_grant g;

    env_killed(env_child(lock_as_nobody_and_die, NULL));
    want(ENQ_OK, env_take(e, "a", 500, &g));
}

/* --- another root, other mounts --- */

static int change_root(void *nothing)
{
    struct enq *e = env_open(), *more = NULL;
    char dir[64];
    struct enq_grant g;
    int here = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)nothing;
    snprintf(dir, sizeof(dir), "/tmp/enq-%senv-XXXXXX", test_mark());
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(mkdtemp(dir) != NULL && chroot(dir) == 0 && chdir("/") == 0);
    must(unlinkat(here, dir + 1, AT_REMOVEDIR) == 0);
    go_on(e);
    must(enq_open(&more, env_space(), NULL) < 0 && more == NULL);
    must(strstr(enq_why(), "/") != NULL); /* names the file it missed */
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void P11_who_changes_its_root_after_attaching_goes_on_and_opens_no_more(
    void)
{
    in_a_child(change_root);
}

static int mount_over(void *nothing)
{
    struct enq *e = env_open(), *more = NULL;
    struct enq_grant g, other;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(unshare(CLONE_NEWNS) == 0);
    must(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
    must(mount("tmpfs", "/dev/shm", "tmpfs", 0, "size=16m") == 0);
    go_on(e);
    env_nap(1100); /* the helper thread looks: the file has its name still */
    want(ENQ_OK, env_take(e, "b", 0, &other));
    /* the same name is another file now, and another space */
    want(ENQ_OK, enq_open(&more, env_space(), NULL));
    want(ENQ_OK, env_take(more, "a", 0, &other));
    enq_close(more);
    want(ENQ_OK, enq_valid(e, g.handle));
    enq_close(e);
    return 0;
}

static void P11_who_mounts_over_the_file_keeps_its_space_and_opens_another(void)
{
    in_a_child(mount_over);
}

static int leave_all_namespaces(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(unshare(CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWNET |
             CLONE_FILES | CLONE_FS) == 0);
    go_on(e);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void P11_who_unshares_what_it_can_after_attaching_goes_on(void)
{
    in_a_child(leave_all_namespaces);
}

/* From then on the kernel makes no threads: CLONE_THREAD answers EINVAL. */
static int unshare_pids(void *nothing)
{
    struct enq *e = env_open(), *more = NULL;
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(unshare(CLONE_NEWPID) == 0);
    want(ENQ_OK, enq_open(&more, env_space(), NULL)); /* the helper is there */
    want(ENQ_BUSY, env_take(more, "a", 0, &g));
    enq_close(more);
    enq_close(e);
    eventually(enq_open(&more, env_space(), NULL) != ENQ_OK);
    must(strstr(enq_why(), "helper thread") != NULL);
    return 0;
}

static void P11_who_unshares_its_pids_goes_on_and_is_told_when_no_thread_can_be(
    void)
{
    in_a_child(unshare_pids);
}

/* --- limits --- */

static int lower_limits(void *nothing)
{
    struct rlimit none = {0, 0};
    struct enq *e = env_open(), *more = NULL;
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    new_thread_locks(e); /* its stack is there */
    must(setrlimit(RLIMIT_NOFILE, &none) == 0);
    must(setrlimit(RLIMIT_FSIZE, &none) == 0);
    must(setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    for (int i = 0; i < 100; i++) {
        struct enq_grant b;
        want(ENQ_OK, env_take(e, "b", 0, &b));
        want(ENQ_OK, enq_unlock(e, b.handle, b.token));
    }
    want(-EMFILE, enq_open(&more, env_space(), NULL));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
    return 0;
}

static void P11_who_lowers_its_limits_after_attaching_goes_on(void)
{
    in_a_child(lower_limits);
}

/* --- descriptors --- */

static int close_ours(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(close_range(3, ~0u, 0) == 0);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, env_take(e, "a", 0, &g));
    enq_close(e);
    return 0;
}

static void P11_who_closes_our_descriptor_goes_on(void)
{
    in_a_child(close_ours);
}

static void *lock_refused(void *e)
{
    struct enq_grant g;

    must(env_take(e, "b", 0, &g) < 0);
    must(strstr(enq_why(), "descriptor") != NULL);
    return NULL;
}

static int close_ours_and_register(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;
    pthread_t thread;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(close_range(3, ~0u, 0) == 0);
    must(pthread_create(&thread, NULL, lock_refused, e) == 0);
    pthread_join(thread, NULL);
    enq_close(e);
    return 0;
}

static void P11_a_new_thread_is_told_that_our_descriptor_was_closed(void)
{
    in_a_child(close_ours_and_register);
}

/* Its number may be the application's by now. */
static int close_ours_and_open_own(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;
    int own[8];

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", 0, &g));
    must(close_range(3, ~0u, 0) == 0);
    for (size_t i = 0; i < LENGTH(own); i++)
        must((own[i] = open("/dev/null", O_RDWR)) >= 3);
    enq_close(e);
    must(enq_open(&e, env_other_space(), NULL) == ENQ_OK);
    want(ENQ_OK, env_take(e, "a", 0, &g));
    enq_close(e);
    for (size_t i = 0; i < LENGTH(own); i++)
        must(write(own[i], "x", 1) == 1);
    return 0;
}

static void P11_a_descriptor_that_took_the_place_of_ours_is_not_closed(void)
{
    in_a_child(close_ours_and_open_own);
}

/* A POSIX lock goes when any descriptor of the file is closed. */
static int open_and_close_the_file(void *nothing)
{
    struct enq *e = env_open();

    (void)nothing;
    for (int i = 0; i < 20; i++) {
        int fd = open(env_space_path(), O_RDWR | O_CLOEXEC);
        must(fd >= 0 && close(fd) == 0);
        new_thread_locks(e);
    }
    enq_close(e);
    return 0;
}

static void P11_who_opens_and_closes_the_file_itself_goes_on(void)
{
    in_a_child(open_and_close_the_file);
}

const struct env_case cred_cases[] = {
    CASE(P11_who_gives_up_its_user_after_attaching_goes_on),
    CASE(P11_the_death_of_who_gave_up_its_user_is_noticed),
    CASE(P11_who_changes_its_root_after_attaching_goes_on_and_opens_no_more),
    CASE(P11_who_mounts_over_the_file_keeps_its_space_and_opens_another),
    CASE(P11_who_unshares_what_it_can_after_attaching_goes_on),
    CASE(P11_who_unshares_its_pids_goes_on_and_is_told_when_no_thread_can_be),
    CASE(P11_who_lowers_its_limits_after_attaching_goes_on),
    CASE(P11_who_closes_our_descriptor_goes_on),
    CASE(P11_a_new_thread_is_told_that_our_descriptor_was_closed),
    CASE(P11_a_descriptor_that_took_the_place_of_ours_is_not_closed),
    CASE(P11_who_opens_and_closes_the_file_itself_goes_on),
    {0},
};
