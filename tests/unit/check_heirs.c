/*
 * check_heirs.c - a session that other processes keep (enq_life_fd): its
 * locks end with the last copy of the descriptor, not with its process.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/atomic.h"
#include "base/point.h"
#include "unit.h"

/* A holder with an heir, which are ended by their numbers. */
struct house {
    pid_t holder, heir;
    uint32_t waits; /* the holder shall also wait for "w" */
    uint32_t settled, ended;
    char id[ENQ_ID_BYTES];
};

static struct house *house;

static void stay(void)
{
    for (;;)
        pause();
}

static void leave_heir(void)
{
    pid_t pid = fork();

    if (pid == 0)
        stay();
    house->heir = pid;
    shm_store_release(&house->settled, 1);
    stay();
}

static void *wait_for_w(void *e)
{
    struct enq_grant g;

    enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"w"}, .mode = ENQ_MODE_X,
            .wait_ms = ENQ_FOREVER),
        &g);
    return NULL;
}

static int hold(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;
    pthread_t thread;

    (void)nothing;
    ck_assert_int_ge(enq_life_fd(e), 0);
    ck_assert_int_eq(enq_life_fd(e), enq_life_fd(e));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    want(ENQ_OK, enq_id(e, g.handle, house->id));
    if (house->waits)
        pthread_create(&thread, NULL, wait_for_w, e);
    leave_heir();
    return 0;
}

/* Nobody but ourselves can be the parent of an heir whose parent is killed. */
static void settle(bool waits)
{
    house = unit_shared(sizeof(*house));
    house->waits = waits;
    house->holder = unit_fork(hold, NULL);
    eventually(shm_load_acquire(&house->settled));
}

static void end_heir(void)
{
    shm_store_release(&house->ended, 1);
    kill(house->heir, SIGKILL);
}

static int try_f(struct enq *e, int64_t wait_ms)
{
    struct enq_grant g;
    int rc = enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
            .wait_ms = wait_ms),
        &g);

    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return rc;
}

TEST(an_heir_keeps_the_lock_of_a_killed_holder)
{
    struct enq *e = unit_open();

    settle(false);
    unit_kill(house->holder);
    for (int i = 0; i < 20; i++) {
        want(ENQ_BUSY, try_f(e, 0));
        unit_nap();
    }
    want(ENQ_TIMEDOUT, try_f(e, 100));
    end_heir();
    eventually(try_f(e, 0) == ENQ_OK);
    unit_healthy(e);
    enq_close(e);
}

TEST(without_an_heir_it_is_free_at_once)
{
    struct enq *e = unit_open();

    settle(false);
    end_heir();
    want(ENQ_BUSY, try_f(e, 0));
    unit_kill(house->holder);
    want(ENQ_OK, try_f(e, 1000));
    enq_close(e);
}

static int end_heir_soon(void *nothing)
{
    (void)nothing;
    usleep(100000);
    end_heir();
    return 0;
}

TEST(who_waits_gets_it_after_the_last_heir)
{
    struct enq *e = unit_open();
    pid_t later;

    settle(false);
    unit_kill(house->holder);
    later = unit_fork(end_heir_soon, NULL);
    want(ENQ_OK, try_f(e, unit_patience_ms()));
    ck_assert(shm_load_acquire(&house->ended));
    unit_join(later);
    enq_close(e);
}

TEST(so_does_a_started_request)
{
    struct enq *e = unit_open();
    struct pollfd ready = {enq_fd(e), POLLIN, 0};
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    settle(false);
    unit_kill(house->holder);
    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &g, &ticket));
    ck_assert_int_eq(poll(&ready, 1, 200), 0);
    end_heir();
    ck_assert_int_eq(poll(&ready, 1, (int)unit_patience_ms()), 1);
    want(ENQ_OK, enq_next(e, &event));
    want(ENQ_OK, event.result);
    unit_healthy(e);
    enq_close(e);
}

TEST(an_heir_does_not_wait)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_info infos[4];
    struct enq_grant w, g;
    size_t total;

    want(ENQ_OK, unit_lock(e, "n", "w", ENQ_MODE_X, &w));
    settle(true);
    eventually(enq_list(e, NULL, NULL, infos, 4, &total) == ENQ_OK &&
        total == 3);
    unit_kill(house->holder);
    want(ENQ_OK, enq_unlock(e, w.handle, w.token));
    want(ENQ_OK,
        enq_lock(other,
            ENQ_REQ(.name = "n", .key = {"w"}, .mode = ENQ_MODE_X,
                .wait_ms = 1000),
            &g));
    want(ENQ_BUSY, try_f(e, 0));
    end_heir();
    eventually(try_f(e, 0) == ENQ_OK);
    enq_close(other);
    enq_close(e);
}

TEST(it_is_held_and_nobody_adopts_it)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;
    size_t total;

    settle(false);
    unit_kill(house->holder);
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    ck_assert(!info.orphaned);
    want(ENQ_REFUSED, enq_adopt(e, house->id, &g));
    want(ENQ_OK, enq_break(e, house->id));
    want(ENQ_OK, try_f(e, 0));
    end_heir();
    enq_close(e);
}

static int keep_open(void *fd)
{
    (void)fd;
    stay();
    return 0;
}

TEST(a_close_ends_all_whoever_has_a_copy)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g;
    pid_t heir;

    ck_assert_int_ge(enq_life_fd(e), 0);
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    heir = unit_fork(keep_open, NULL);
    want(ENQ_BUSY, try_f(other, 0));
    enq_close(e);
    want(ENQ_OK, try_f(other, 0));
    /* and the next session of that slot is not kept by it */
    settle(false);
    end_heir();
    unit_kill(house->holder);
    want(ENQ_OK, try_f(other, 1000));
    unit_kill(heir);
    enq_close(other);
}

static int hold_without(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    leave_heir();
    return 0;
}

TEST(a_child_alone_is_no_heir)
{
    struct enq *e = unit_open();

    house = unit_shared(sizeof(*house));
    house->holder = unit_fork(hold_without, NULL);
    eventually(shm_load_acquire(&house->settled));
    unit_kill(house->holder);
    want(ENQ_OK, try_f(e, 1000));
    end_heir();
    enq_close(e);
}

TEST(the_descriptor_is_close_on_exec_and_cannot_be_written_to)
{
    struct enq *e = unit_open();
    int fd = enq_life_fd(e);

    ck_assert_int_ge(fd, 0);
    ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    ck_assert_int_eq(write(fd, "", 1), -1);
    ck_assert_int_eq(errno, EBADF);
    enq_close(e);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1);
}

static int ask_parents(void *e)
{
    want(ENQ_EFORKED, enq_life_fd(e));
    return 0;
}

TEST(who_cannot_have_one_is_told)
{
    struct enq *e = unit_open(), *looker;

    want(-EINVAL, enq_life_fd(NULL));
    unit_join(unit_fork(ask_parents, e));
    looker = unit_open_with(&(struct enq_open_opts){
        .size = sizeof(struct enq_open_opts), .flags = ENQ_OPEN_READONLY});
    want(-EROFS, enq_life_fd(looker));
    enq_close(looker);
    ck_assert_int_eq(unlink(unit_space()), 0);
    want(-ENOENT, enq_life_fd(e));
    enq_close(unit_open());
    want_why(-ESTALE, enq_life_fd(e), "removed");
    enq_close(e);
}

/* --- a lock set --- */

static int take_set_and_die(void *point)
{
    struct enq *e;
    struct enq_grant g[2];
    pid_t heir;
    const struct enq_req *reqs[] = {
        ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X),
        ENQ_REQ(.name = "n", .key = {"g"}, .mode = ENQ_MODE_X)};

    point_arm(point);
    e = unit_open();
    ck_assert_int_ge(enq_life_fd(e), 0);
    heir = fork();
    if (heir == 0)
        stay();
    house->heir = heir;
    enq_lock_set(e, reqs, LENGTH(reqs), g);
    return 1;
}

static int try_g(struct enq *e)
{
    struct enq_grant g;
    int rc = unit_lock(e, "n", "g", ENQ_MODE_X, &g);

    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return rc;
}

/* The heirs go on with what it had, and of that it never had anything. */
TEST(half_a_set_is_nobodys_though_its_taker_has_an_heir)
{
    static const char *const points[] = {
        "set.begun:1", "set.member_held:1", "set.member_held:2"};
    struct enq *e = unit_open();

    house = unit_shared(sizeof(*house));
    unit_killed(unit_fork(take_set_and_die, (void *)(uintptr_t)points[_i]));
    want(ENQ_OK, try_f(e, unit_patience_ms()));
    want(ENQ_OK, try_g(e));
    ck_assert_int_eq(kill(house->heir, 0), 0);
    unit_healthy(e);
    end_heir();
    enq_close(e);
}

TEST(a_set_that_was_taken_is_its_heirs)
{
    struct enq *e = unit_open();

    house = unit_shared(sizeof(*house));
    unit_killed(unit_fork(take_set_and_die, "set.committed:1"));
    want(ENQ_TIMEDOUT, try_f(e, 100));
    want(ENQ_BUSY, try_g(e));
    end_heir();
    eventually(try_f(e, 0) == ENQ_OK);
    eventually(try_g(e) == ENQ_OK);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("heirs");
    ADD(an_heir_keeps_the_lock_of_a_killed_holder);
    ADD(without_an_heir_it_is_free_at_once);
    ADD(who_waits_gets_it_after_the_last_heir);
    ADD(so_does_a_started_request);
    ADD(an_heir_does_not_wait);
    ADD(it_is_held_and_nobody_adopts_it);
    ADD(a_close_ends_all_whoever_has_a_copy);
    ADD(a_child_alone_is_no_heir);
    ADD(the_descriptor_is_close_on_exec_and_cannot_be_written_to);
    ADD(who_cannot_have_one_is_told);
    ADD_LOOP(half_a_set_is_nobodys_though_its_taker_has_an_heir, 3);
    ADD(a_set_that_was_taken_is_its_heirs);
    return unit_end();
}
