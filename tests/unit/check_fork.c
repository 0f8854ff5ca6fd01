/*
 * check_fork.c - the child of an opener: refused by every call, closes
 * safely, and opens its own.
 */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

struct family {
    struct enq *e;
    struct enq_grant g;
};

static struct family found_family(void)
{
    struct family f = {.e = unit_open()};

    want(ENQ_OK, unit_lock(f.e, "n", "f", ENQ_MODE_O, &f.g));
    return f;
}

static int call_everything(void *arg)
{
    struct family *f = arg;
    struct enq_stats s = {.size = sizeof(s)};
    char text[ENQ_ID_BYTES];
    struct enq_grant g;
    enq_handle h;

    want_why(ENQ_EFORKED, unit_lock(f->e, "n", "g", ENQ_MODE_S, &g),
        unit_space());
    want_why(ENQ_EFORKED, unit_lock(f->e, "n", "g", ENQ_MODE_S, &g), "open");
    want(ENQ_EFORKED, enq_lock_spec(f->e, "n", "X", NULL, 0, 0, &g));
    want(ENQ_EFORKED, enq_unlock(f->e, f->g.handle, f->g.token));
    want(ENQ_EFORKED, enq_promote(f->e, f->g.handle, f->g.token, &g));
    want(ENQ_EFORKED, enq_demote(f->e, f->g.handle, f->g.token));
    want(ENQ_EFORKED, enq_renew(f->e, f->g.handle, f->g.token, 0));
    want(ENQ_EFORKED, enq_valid(f->e, f->g.handle));
    want(ENQ_EFORKED, enq_find(f->e, "x", &h));
    want(ENQ_EFORKED, enq_id(f->e, f->g.handle, text));
    want(ENQ_EFORKED, enq_adopt(f->e, "x", &g));
    want(ENQ_EFORKED, enq_break(f->e, "x"));
    want(ENQ_EFORKED, enq_list(f->e, NULL, NULL, NULL, 0, NULL));
    want(ENQ_EFORKED, enq_list(f->e, "n", NULL, NULL, 0, NULL));
    want(ENQ_EFORKED, enq_stat(f->e, &s));
    want(ENQ_EFORKED, enq_doctor(f->e, 0, text, sizeof(text)));
    want(ENQ_EFORKED, enq_dump(f->e, 1));
    enq_close(f->e);
    return 0;
}

TEST(every_call_refuses_the_parents_attachment)
{
    struct family f = found_family();

    for (int i = 0; i < 3; i++)
        unit_join(unit_fork(call_everything, &f));
    want(ENQ_OK, enq_valid(f.e, f.g.handle));
    want(ENQ_OK, enq_unlock(f.e, f.g.handle, f.g.token));
    unit_healthy(f.e);
    enq_close(f.e);
}

TEST(a_child_of_a_bare_clone_is_refused_too)
{
    struct family f = found_family();
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);

    if (pid == 0)
        _exit(enq_valid(f.e, f.g.handle) == ENQ_EFORKED ? 0 : 1);
    unit_join(pid);
    want(ENQ_OK, enq_valid(f.e, f.g.handle));
    enq_close(f.e);
}

static int open_own(void *arg)
{
    struct family *f = arg;
    struct enq *own = unit_open();
    struct enq_grant g;

    want(ENQ_EFORKED, enq_valid(f->e, f->g.handle));
    want(ENQ_OK, enq_valid(own, f->g.handle));
    want(ENQ_BUSY, unit_lock(own, "n", "f", ENQ_MODE_X, &g));
    want(ENQ_OK, unit_lock(own, "n", "child", ENQ_MODE_X, &g));
    unit_healthy(own);
    enq_close(own);
    return 0;
}

static int grandchild(void *arg)
{
    open_own(arg);
    unit_join(unit_fork(open_own, arg));
    enq_close(((struct family *)arg)->e);
    return 0;
}

TEST(a_child_opens_its_own)
{
    struct family f = found_family();
    struct enq_grant g;

    for (int i = 0; i < 10; i++)
        unit_join(unit_fork(open_own, &f));
    unit_join(unit_fork(grandchild, &f));
    want(ENQ_OK, enq_valid(f.e, f.g.handle));
    want(ENQ_OK, unit_lock(f.e, "n", "child", ENQ_MODE_X, &g));
    unit_healthy(f.e);
    enq_close(f.e);
}

static int sees_no_mapping(void *path)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    int found = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL)
        found |= strstr(line, path) != NULL;
    fclose(maps);
    return found;
}

TEST(a_child_does_not_have_the_segment_mapped)
{
    struct enq *e = unit_open();

    unit_join(unit_fork(sees_no_mapping, (void *)unit_space()));
    enq_close(e);
}

static int live_on(void *go)
{
    while (!shm_load_acquire((uint32_t *)go))
        unit_nap();
    return 0;
}

static int parent_dies(void *shared)
{
    uint32_t *s = shared;
    struct family f = found_family();

    (void)f;
    unit_fork(live_on, &s[1]);
    unit_stay(&s[0]);
}

/* Its copies of descriptors and memory must not look like life. */
TEST(a_child_that_lives_on_does_not_keep_its_parents_locks)
{
    uint32_t *s = unit_shared(8);
    struct enq *e = unit_open();
    struct enq_grant g;
    pid_t pid = unit_fork(parent_dies, s);

    eventually(shm_load_acquire(&s[0]));
    want(ENQ_BUSY, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    unit_kill(pid);
    eventually(unit_lock(e, "n", "f", ENQ_MODE_X, &g) == ENQ_OK);
    shm_store_release(&s[1], 1);
    enq_close(e);
}

/* --- fork while other threads are inside --- */

struct busy {
    struct enq *e;
    uint32_t stop;
};

/* Nothing of libcheck in here: its mutex might be held at the fork, and the
   child would wait for it for ever. */
static void *be_busy(void *arg)
{
    struct busy *b = arg;
    struct enq_grant g;
    struct enq *more;
    int rc = ENQ_OK;

    while (rc == ENQ_OK && !shm_load(&b->stop)) {
        rc = enq_lock(b->e,
            ENQ_REQ(.name = "busy", .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
            &g);
        if (rc == ENQ_OK)
            rc = enq_unlock(b->e, g.handle, g.token);
        if (rc == ENQ_OK)
            rc = enq_open(&more, unit_space(), NULL);
        if (rc == ENQ_OK)
            enq_close(more);
    }
    return rc == ENQ_OK ? NULL : b;
}

static int open_in_child(void *arg)
{
    struct enq *own = unit_open();
    struct enq_grant g;

    (void)arg;
    want(ENQ_OK,
        enq_lock(own,
            ENQ_REQ(.name = "busy", .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
            &g));
    enq_close(own);
    return 0;
}

TEST(forking_while_threads_are_at_work_is_safe)
{
    struct busy b = {unit_open(), 0};
    pthread_t threads[2];
    void *failed;

    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_create(&threads[i], NULL, be_busy, &b);
    for (int i = 0; i < 40; i++)
        unit_join(unit_fork(open_in_child, &b));
    shm_store(&b.stop, 1);
    for (size_t i = 0; i < LENGTH(threads); i++) {
        pthread_join(threads[i], &failed);
        ck_assert_ptr_null(failed);
    }
    unit_healthy(b.e);
    enq_close(b.e);
}

int main(void)
{
    unit_begin("fork");
    ADD(every_call_refuses_the_parents_attachment);
    ADD(a_child_of_a_bare_clone_is_refused_too);
    ADD(a_child_opens_its_own);
    ADD(a_child_does_not_have_the_segment_mapped);
    ADD(a_child_that_lives_on_does_not_keep_its_parents_locks);
    /* Not with the address sanitizer, whose allocator has no fork handler: a
       child of a busy process may wait for ever in malloc(). */
    if (!UNIT_ASAN)
        ADD(forking_while_threads_are_at_work_is_safe);
    return unit_end();
}
