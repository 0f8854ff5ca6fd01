/*
 * full.c - promise P12, where there is room for so many only: entries, sessions
 * and threads. A full table goes on serving the holders of locks.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "lib/slots.h"
#include "limit.h"

/* --- the table --- */

/* How many locks there is room for, of those whose keys are that long. */
static unsigned fill(struct enq *e, size_t key_length, struct enq_grant *last)
{
    char key[256];
    unsigned n = 0;
    int rc;

    do {
        snprintf(key, sizeof(key), "%0*u", (int)key_length, n);
        rc = enq_lock(e,
            ENQ_REQ(.name = "fill", .key = {key}, .mode = ENQ_MODE_O), last);
        n += rc == ENQ_OK;
    } while (rc == ENQ_OK);
    must(rc == ENQ_EFULL, "a full table says %s", enq_result_name(rc));
    must(strstr(enq_why(), "is full") != NULL, "\"%s\"", enq_why());
    return n;
}

/* That is the one thing that the doctor finds. */
static void must_be_full(struct enq *e)
{
    char report[512];

    want(1, enq_doctor(e, 0, report, sizeof(report)));
    must(strstr(report, "nearly full") != NULL, "the doctor says %s", report);
}

static void slots_at(uint32_t slots, size_t key_length, unsigned expected)
{
    struct enq *e = open_small(test_space(), slots);
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_grant last;
    unsigned n = fill(e, key_length, &last);

    must(n == expected, "%u slots are %u locks, not %u", slots, n, expected);
    want(ENQ_OK, enq_stat(e, &stats));
    must(stats.held == n && stats.overflows == 1, "the counters are wrong");
    must(strcmp(stats.overflow_owner, "me") == 0, "who filled it is unknown");
    count(FIGURE_LIMITS);
    if (n >= slots)
        must_be_full(e);
    enq_close(e);
    want(ENQ_OK, enq_unlink(test_space()));
}

static void slots_are_full_pages(void)
{
    for (uint32_t slots = 1; slots <= 64; slots++)
        slots_at(slots, 4, (slots + 20) / 21 * 21);
    slots_at(21, 200, 3);
    slots_at(22, 200, 6);
    slots_at(2100, 4, 2100);
    slots_at(30000, 4, 30009);
}

/* Asks everything of it that takes no new entry. */
static void serves_its_holders(struct enq *e, const struct enq_grant *g)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    char id[ENQ_ID_BYTES];
    struct enq_info infos[50];
    enq_handle handle;
    size_t total;

    tried(ENQ_OK, enq_renew(e, g->handle, g->token, 5000));
    tried(ENQ_OK, enq_valid(e, g->handle));
    tried(ENQ_OK, enq_id(e, g->handle, id));
    tried(ENQ_OK, enq_find(e, id, &handle));
    tried(ENQ_OK, enq_list(e, NULL, NULL, infos, 50, &total));
    must(total == 42, "%zu are listed", total);
    tried(ENQ_OK, enq_list(e, "fill", "me", infos, 50, &total));
    must(total == 42, "%zu are listed", total);
    tried(ENQ_OK, enq_stat(e, &stats));
    must_be_full(e);
    tried(ENQ_OK,
        ask(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .flags = ENQ_TEST)));
    tried(ENQ_OK, enq_promote(e, g->handle, 0, NULL));
    tried(ENQ_OK, enq_demote(e, g->handle, 0));
    tried(ENQ_EFULL, ask(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X)));
    tried(ENQ_EFULL,
        ask(e,
            ENQ_REQ(.name = "fill", .key = {"0001"}, .mode = ENQ_MODE_X,
                .owner = "waiter", .wait_ms = 100)));
}

static void a_full_table(void)
{
    struct enq *e = open_small(test_space(), 42);
    struct enq_grant last, g;

    must(fill(e, 4, &last) == 42, "it is not full");
    for (int i = 0; i < 100; i++) {
        serves_its_holders(e, &last);
        tried(ENQ_OK, enq_unlock(e, last.handle, 0));
        tried(ENQ_OK, lock_x(e, "n", &g));
        tried(ENQ_EFULL, lock_x(e, "m", &last));
        tried(ENQ_OK, enq_unlock(e, g.handle, g.token));
        must(fill(e, 5 + (size_t)i % 20, &last) == 1, "a slot is lost");
    }
    enq_close(e);
}

/* A second session has nothing until the first gives a page back. */
static void a_full_table_of_two(void)
{
    struct enq *e = open_small(test_space(), 42), *other;
    struct enq_grant last, g;
    char id[ENQ_ID_BYTES];

    must(fill(e, 4, &last) == 42, "it is not full");
    tried(ENQ_OK, enq_open(&other, test_space(), NULL));
    tried(ENQ_EFULL, lock_x(other, "n", &g));
    want(ENQ_OK, enq_id(e, last.handle, id));
    tried(ENQ_OK, enq_break(other, id));
    tried(ENQ_FORCED, enq_unlock(e, last.handle, 0));
    enq_close(e);
    must(fill(other, 4, &last) == 42, "slots are lost");
    must_be_full(other);
    enq_close(other);
}

/* --- sessions and threads --- */

#define OF_A_PROCESS 1000 /* attachments */
#define FULL_ONES 8       /* processes that have as many */

struct gathering {
    uint32_t there, go_home;
};

static void many_sessions(struct gathering *gathering, unsigned n)
{
    static struct enq *all[OF_A_PROCESS];

    for (unsigned i = 0; i < n; i++)
        all[i] = open_at(test_space());
    shm_add(&gathering->there, n);
    while (!shm_load(&gathering->go_home))
        nap_us(1000);
    for (unsigned i = 0; i < n; i++)
        enq_close(all[i]);
}

static void a_thousand(void *gathering)
{
    many_sessions(gathering, OF_A_PROCESS);
}

static void the_rest(void *gathering)
{
    many_sessions(gathering, SESSIONS_MAX - FULL_ONES * OF_A_PROCESS - 1);
}

static void sessions(void)
{
    struct gathering *gathering = shared_memory(sizeof(*gathering));
    struct enq *last, *more;
    pid_t pids[FULL_ONES + 1];

    for (int i = 0; i <= FULL_ONES; i++)
        pids[i] = spawn(i < FULL_ONES ? a_thousand : the_rest, gathering);
    while (shm_load(&gathering->there) != SESSIONS_MAX - 1)
        nap_us(1000);
    for (int i = 0; i < 3; i++) {
        tried(ENQ_OK, enq_open(&last, test_space(), NULL));
        want_why(-EAGAIN, enq_open(&more, test_space(), NULL), "8192 sessions");
        count(FIGURE_LIMITS);
        enq_close(last);
    }
    shm_store(&gathering->go_home, 1);
    for (int i = 0; i <= FULL_ONES; i++)
        join(pids[i]);
    more = open_at(test_space());
    must_be_healthy(more);
    enq_close(more);
}

static void attachments(void)
{
    static struct enq *all[OF_A_PROCESS];
    struct enq *more;

    for (unsigned i = 0; i < OF_A_PROCESS; i++)
        tried(ENQ_OK, enq_open(&all[i], test_space(), NULL));
    for (int i = 0; i < 3; i++) {
        want_why(-EAGAIN, enq_open(&more, test_space(), NULL), "attachments");
        enq_close(all[i]);
        tried(ENQ_OK, enq_open(&all[i], test_space(), NULL));
    }
    for (unsigned i = 0; i < OF_A_PROCESS; i++)
        enq_close(all[i]);
}

static struct {
    struct enq *e;
    pthread_barrier_t all_there;
    unsigned refused;
    pthread_mutex_t one;
} team;

static void *be_there(void *nothing)
{
    struct enq_grant g;
    int rc = enq_lock(team.e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_S), &g);

    if (rc != ENQ_OK) {
        must(rc == -EAGAIN, "one too many gets %s", enq_result_name(rc));
        must(strstr(enq_why(), "16384 threads") != NULL, "\"%s\"", enq_why());
        pthread_mutex_lock(&team.one);
        team.refused++;
        pthread_mutex_unlock(&team.one);
    } else {
        want(ENQ_OK, enq_unlock(team.e, g.handle, g.token));
    }
    pthread_barrier_wait(&team.all_there);
    pthread_barrier_wait(&team.all_there);
    return nothing;
}

static void another_process(void *nothing)
{
    struct enq *e;

    (void)nothing;
    want_why(-EAGAIN, enq_open(&e, test_space(), NULL), "16384 threads");
}

#define FREE 4000u

static void give_all_back(struct map *map)
{
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        if (shm_load(&map->threads[i].ref) == slot_filled(i))
            shm_store(&map->threads[i].ref, 0);
}

static void lock_by_threads(unsigned n, unsigned refused)
{
    static pthread_t threads[FREE + 1];
    pthread_attr_t attr;

    team.refused = 0;
    pthread_mutex_init(&team.one, NULL);
    pthread_barrier_init(&team.all_there, NULL, n + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (unsigned i = 0; i < n; i++)
        must(pthread_create(&threads[i], &attr, be_there, NULL) == 0,
            "there is no thread %u", i);
    pthread_barrier_wait(&team.all_there);
    must(team.refused == refused, "%u of %u threads are refused, not %u",
        team.refused, n, refused);
    count(FIGURE_LIMITS);
    if (n >= FREE)
        apart(another_process, NULL);
    pthread_barrier_wait(&team.all_there);
    for (unsigned i = 0; i < n; i++)
        pthread_join(threads[i], NULL);
}

static void threads(void)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_grant g;

    /* each takes a page */
    team.e = open_small(test_space(), 200000);
    want(ENQ_OK, lock_x(team.e, "mine", &g));
    slots_fill_all_but(team.e->map, FREE);
    lock_by_threads(FREE - 1, 0);
    lock_by_threads(FREE, 0);
    lock_by_threads(FREE + 1, 1);
    want(ENQ_OK, enq_stat(team.e, &stats));
    must(stats.threads == THREADS_MAX - FREE, "%llu threads are left",
        (unsigned long long)stats.threads);
    give_all_back(team.e->map);
    tried(ENQ_OK, enq_unlock(team.e, g.handle, g.token));
    must_be_healthy(team.e);
    enq_close(team.e);
}

/* --- all of them die --- */

#define DYING 4
#define OF_ONE 250 /* threads */

static void *hold_one(void *number)
{
    char field[32];
    struct enq_grant g;

    snprintf(field, sizeof(field), "%d-%zu", (int)getpid(), (size_t)number);
    want(ENQ_OK,
        enq_lock(team.e,
            ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
                .ttl_ms = ENQ_FOREVER,
                .on_death =
                    (size_t)number == 0 ? ENQ_DEATH_KEEP : ENQ_DEATH_RELEASE),
            &g));
    pthread_barrier_wait(&team.all_there);
    for (;;)
        pause();
    return NULL;
}

static void many_threads(void *gathering)
{
    pthread_attr_t attr;
    pthread_t thread;

    team.e = open_at(test_space());
    pthread_barrier_init(&team.all_there, NULL, OF_ONE + 1);
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 65536);
    for (size_t i = 0; i < OF_ONE; i++)
        must(pthread_create(&thread, &attr, hold_one, (void *)i) == 0,
            "there is no thread %zu", i);
    pthread_barrier_wait(&team.all_there);
    shm_add(&((struct gathering *)gathering)->there, 1);
    for (;;)
        pause();
}

/* Threads that are dead: their liveness words say so, as the kernel's mark. */
static void fill_with_the_dead(uint32_t n)
{
    struct enq *e = open_small(test_space(), 200000); /* each takes a page */
    struct map *map = e->map;

    slots_fill_all_but(map, n);
    for (uint32_t i = 0; i < THREADS_MAX; i++)
        if (shm_load(&map->threads[i].ref) == slot_filled(i))
            shm_or((uint32_t *)&map->threads[i].life, FUTEX_OWNER_DIED);
}

static void fill_and_die(void *nothing)
{
    (void)nothing;
    fill_with_the_dead(DYING * (OF_ONE + 1));
    kill(getpid(), SIGKILL);
}

static void nobody_is_left(void)
{
    struct gathering *gathering = shared_memory(sizeof(*gathering));
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq_grant g;
    struct enq *e;
    pid_t pids[DYING];

    collect(spawn(fill_and_die, NULL));
    for (int i = 0; i < DYING; i++)
        pids[i] = spawn(many_threads, gathering);
    while (shm_load(&gathering->there) != DYING)
        nap_us(1000);
    for (int i = 0; i < DYING; i++)
        kill(pids[i], SIGKILL);
    for (int i = 0; i < DYING; i++)
        collect(pids[i]);
    tried(ENQ_OK, enq_open(&e, test_space(), NULL));
    tried(ENQ_OK, lock_x(e, "m", &g));
    do
        want(ENQ_OK, enq_stat(e, &stats));
    while (stats.sessions != 1 || stats.threads != 2);
    must(stats.held == DYING + 1, "%llu locks are held, not %d",
        (unsigned long long)stats.held, DYING + 1);
    must_be_healthy(e);
    enq_close(e);
}

const struct test full_tests[] = {
    {"P1: all who had all the threads are killed, and the next comes in",
        nobody_is_left},
    {"P12: 8,191, 8,192 and 8,193 sessions", sessions},
    {"P12: 999, 1,000 and 1,001 attachments of a process", attachments},
    {"P12: 16,383, 16,384 and 16,385 threads", threads},
    {"P12: slots, up to full pages, and not one more", slots_are_full_pages},
    {"P12: a full table serves unlock, renew, list and more", a_full_table},
    {"P12: a full table of one session's is another's later",
        a_full_table_of_two},
    {NULL, NULL},
};
