/*
 * check_threads.c - threads that share one attachment: for the thread
 * sanitizer, which sees races within one mapping only.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "unit.h"

#define THREADS 4
#define ROUNDS 400

struct team {
    struct enq *e;
    pthread_t threads[THREADS];
    uint32_t members, winners, ready, inside[4];
    uint64_t guarded[4]; /* not atomic: the locks guard them */
    struct enq_grant g[THREADS];
};

struct member {
    struct team *team;
    unsigned number;
    uint64_t dice;
};

static void run(struct team *team, void *(*f)(void *))
{
    struct member members[THREADS];
    uint64_t seed = unit_seed();

    for (unsigned i = 0; i < THREADS; i++) {
        members[i] = (struct member){team, i, seed + i};
        pthread_create(&team->threads[i], NULL, f, &members[i]);
    }
    for (unsigned i = 0; i < THREADS; i++)
        pthread_join(team->threads[i], NULL);
}

static const char *field_of(unsigned i)
{
    static const char *const fields[] = {"a", "b", "c", "d"};

    return fields[i % 4];
}

/* --- mutual exclusion, waiting --- */

static void *lock_and_change(void *arg)
{
    struct member *m = arg;
    struct enq_grant g;

    for (int i = 0; i < ROUNDS; i++) {
        unsigned f = (unsigned)(unit_random(&m->dice) % 4);

        want(ENQ_OK,
            enq_lock(m->team->e,
                ENQ_REQ(.name = "n", .key = {field_of(f)}, .mode = ENQ_MODE_X,
                    .wait_ms = ENQ_FOREVER),
                &g));
        m->team->guarded[f]++;
        want(ENQ_OK, enq_unlock(m->team->e, g.handle, g.token));
    }
    return NULL;
}

TEST(a_lock_guards_plain_memory_between_threads)
{
    struct team t = {.e = unit_open()};
    uint64_t sum = 0;

    run(&t, lock_and_change);
    for (int i = 0; i < 4; i++)
        sum += t.guarded[i];
    ck_assert_uint_eq(sum, THREADS * ROUNDS);
    unit_healthy(t.e);
    enq_close(t.e);
}

/* Relaxed, so that it orders nothing: that is up to the locks. */
static void change_guarded(struct team *t, unsigned k)
{
    ck_assert_uint_eq(__atomic_add_fetch(&t->inside[k], 1, __ATOMIC_RELAXED),
        1);
    t->guarded[k]++;
    __atomic_sub_fetch(&t->inside[k], 1, __ATOMIC_RELAXED);
}

static void *lock_generic_or_one(void *arg)
{
    struct member *m = arg;
    struct enq_grant g;

    for (int i = 0; i < ROUNDS / 4; i++) {
        bool all = unit_random(&m->dice) % 3 == 0;

        want(ENQ_OK,
            enq_lock(m->team->e,
                ENQ_REQ(.name = "n", .key = {all ? "@" : field_of(m->number)},
                    .mode = ENQ_MODE_X, .wait_ms = ENQ_FOREVER),
                &g));
        for (unsigned k = 0; k < 4; k++)
            if (all || k == m->number)
                change_guarded(m->team, k);
        want(ENQ_OK, enq_unlock(m->team->e, g.handle, g.token));
    }
    return NULL;
}

TEST(generic_locks_guard_plain_memory_between_threads)
{
    struct team t = {.e = unit_open()};

    run(&t, lock_generic_or_one);
    unit_healthy(t.e);
    enq_close(t.e);
}

/* --- promotion --- */

static void meet(struct team *t, uint32_t target)
{
    shm_add(&t->ready, 1);
    eventually(shm_load(&t->ready) >= target);
}

static void *promote_at_once(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;

    for (uint32_t i = 0; i < 50; i++) {
        struct enq_grant *g = &t->g[m->number];
        int rc;

        want(ENQ_OK,
            enq_lock(t->e,
                ENQ_REQ(.name = "n", .mode = ENQ_MODE_O,
                    .wait_ms = ENQ_FOREVER),
                g));
        meet(t, (2 * i + 1) * THREADS);
        rc = enq_promote(t->e, g->handle, g->token, g);
        ck_assert(rc == ENQ_OK || rc == ENQ_LOST);
        if (rc == ENQ_OK)
            shm_add(&t->winners, 1);
        meet(t, (2 * i + 2) * THREADS);
        enq_unlock(t->e, g->handle, 0);
    }
    return NULL;
}

TEST(of_threads_that_promote_at_once_one_wins)
{
    struct team t = {.e = unit_open()};

    run(&t, promote_at_once);
    ck_assert_uint_eq(t.winners, 50);
    unit_healthy(t.e);
    enq_close(t.e);
}

/* --- everything at once --- */

static void look_around(struct enq *e, unsigned what)
{
    struct enq_stats s = {.size = sizeof(s)};
    char report[4096];
    size_t total;

    if (what == 0)
        want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    else if (what == 1)
        want(ENQ_OK, enq_list(e, "n", NULL, NULL, 0, &total));
    else if (what == 2)
        want(ENQ_OK, enq_stat(e, &s));
    else if (what == 3)
        ck_assert_msg(enq_doctor(e, 0, report, sizeof(report)) == 0, "%s",
            report);
}

static void use(struct enq *e, const struct enq_grant *g, uint64_t *dice)
{
    char id[ENQ_ID_BYTES];
    enq_handle h;

    switch (unit_random(dice) % 5) {
    case 0:
        enq_renew(e, g->handle, g->token, 1000);
        break;
    case 1:
        enq_promote(e, g->handle, g->token, NULL);
        break;
    case 2:
        enq_demote(e, g->handle, g->token);
        break;
    case 3:
        enq_valid(e, g->handle);
        break;
    default:
        if (enq_id(e, g->handle, id) == ENQ_OK)
            enq_find(e, id, &h);
    }
}

static void *do_anything(void *arg)
{
    struct member *m = arg;
    struct enq *e = m->team->e;
    char id[32];

    for (int i = 0; i < ROUNDS / 2; i++) {
        uint64_t r = unit_random(&m->dice);
        struct enq_grant g;
        int rc;

        snprintf(id, sizeof(id), "id-%u-%d", m->number, i);
        rc = enq_lock(e,
            ENQ_REQ(.name = "n",
                .key = {r % 16 == 0 ? "@" : field_of((unsigned)(r >> 8))},
                .mode = (enum enq_mode)(1 + (r >> 16) % 4),
                .id = (r >> 24) % 4 == 0 ? id : NULL,
                .wait_ms = (int64_t)((r >> 32) % 4),
                .ttl_ms = (r >> 40) % 8 == 0 ? 1 : 0),
            &g);
        ck_assert(rc == ENQ_OK || rc == ENQ_BUSY || rc == ENQ_TIMEDOUT);
        if (rc != ENQ_OK)
            continue;
        use(e, &g, &m->dice);
        look_around(e, (unsigned)((r >> 48) % 64));
        enq_unlock(e, g.handle, 0);
    }
    return NULL;
}

TEST(threads_may_do_anything_at_once)
{
    struct team t = {.e = unit_open()};
    size_t total;

    run(&t, do_anything);
    unit_healthy(t.e);
    want(ENQ_OK, enq_list(t.e, NULL, NULL, NULL, 0, &total));
    ck_assert_uint_eq(total, 0);
    enq_close(t.e);
}

/* --- passing locks on --- */

static void *take_what_others_give(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;
    struct enq_grant g;

    for (int i = 0; i < ROUNDS; i++) {
        want(ENQ_OK,
            enq_lock(t->e,
                ENQ_REQ(.name = "baton", .mode = ENQ_MODE_X,
                    .wait_ms = ENQ_FOREVER),
                &g));
        if (t->g[0].handle != 0)
            want(ENQ_OK, enq_unlock(t->e, t->g[0].handle, t->g[0].token));
        want(ENQ_OK, unit_lock(t->e, "n", "f", ENQ_MODE_X, &t->g[0]));
        want(ENQ_OK, enq_unlock(t->e, g.handle, g.token));
    }
    return NULL;
}

TEST(a_lock_is_given_back_by_another_thread_than_took_it)
{
    struct team t = {.e = unit_open()};

    run(&t, take_what_others_give);
    unit_healthy(t.e);
    enq_close(t.e);
}

/* --- threads and attachments that come and go --- */

static void *use_once(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "once", NULL, ENQ_MODE_S, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

static void *use_in_short_threads(void *arg)
{
    struct member *m = arg;
    pthread_t thread;

    for (int i = 0; i < 50; i++) {
        pthread_create(&thread, NULL, use_once, m->team->e);
        pthread_join(thread, NULL);
    }
    return NULL;
}

TEST(threads_come_and_go)
{
    struct team t = {.e = unit_open()};

    run(&t, use_in_short_threads);
    unit_healthy(t.e);
    enq_close(t.e);
}

static void *open_and_close(void *arg)
{
    (void)arg;
    for (int i = 0; i < 50; i++) {
        struct enq *e = unit_open();

        use_once(e);
        enq_close(e);
    }
    return NULL;
}

TEST(attachments_come_and_go)
{
    struct team t = {.e = NULL};

    unit_space();
    run(&t, open_and_close);
}

/* --- the first of a process --- */

static pthread_barrier_t start;

static void *open_first(void *arg)
{
    (void)arg;
    pthread_barrier_wait(&start);
    enq_close(unit_open());
    return NULL;
}

/* A process has one first time: each time another process, of which the thread
   sanitizer has seen nothing yet. */
TEST(several_threads_may_make_the_first_attachment_of_a_process)
{
    unit_space();
    for (int i = 0; i < 40; i++) {
        pid_t child = fork();
        int status;

        if (child == 0) {
            struct team t = {.e = NULL};

            pthread_barrier_init(&start, NULL, THREADS);
            run(&t, open_first);
            exit(0);
        }
        ck_assert_int_eq(waitpid(child, &status, 0), child);
        ck_assert_int_eq(status, 0);
    }
}

/* The last that is done closes what all have used. */
static void *close_by_the_last(void *arg)
{
    struct member *m = arg;
    struct team *t = m->team;
    struct enq_grant g;

    want(ENQ_OK, unit_lock(t->e, "n", field_of(m->number), ENQ_MODE_X, &g));
    if (shm_add(&t->members, -1) == 0)
        enq_close(t->e);
    return NULL;
}

TEST(the_last_thread_may_close)
{
    for (int i = 0; i < 50; i++) {
        struct team t = {.e = unit_open(), .members = THREADS};

        run(&t, close_by_the_last);
    }
}

int main(void)
{
    unit_begin("threads");
    ADD(a_lock_guards_plain_memory_between_threads);
    ADD(generic_locks_guard_plain_memory_between_threads);
    ADD(of_threads_that_promote_at_once_one_wins);
    ADD(threads_may_do_anything_at_once);
    ADD(a_lock_is_given_back_by_another_thread_than_took_it);
    ADD(threads_come_and_go);
    ADD(attachments_come_and_go);
    ADD(several_threads_may_make_the_first_attachment_of_a_process);
    ADD(the_last_thread_may_close);
    return unit_end();
}
