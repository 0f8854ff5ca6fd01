/*
 * check_hoard.c - room that its session does not use any more is anybody's: of
 * sessions that live on, idle or stopped, in every size; and what is over is
 * taken before anybody is told that there is no room.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "base/point.h"
#include "store/page.h"
#include "unit.h"

#define SLOTS 210

static struct enq *open_for(uint32_t slots)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = slots, .owner = "me"};

    return unit_open_with(&opts);
}

/* What a key is: long ones need a large entry. */
static const char *field(unsigned i, bool large)
{
    static char text[300];

    snprintf(text, sizeof(text), "%0*u", large ? 200 : 1, i);
    return text;
}

static int lock_one(struct enq *e, unsigned i, bool large, struct enq_grant *g)
{
    return unit_lock(e, "n", field(i, large), ENQ_MODE_X, g);
}

/* As many as there is room for. */
static unsigned take_all(struct enq *e, bool large, struct enq_grant *g)
{
    struct enq_grant none;
    unsigned n = 0;

    while (n < SLOTS && lock_one(e, n, large, &g[n]) == ENQ_OK)
        n++;
    if (n == SLOTS)
        want(ENQ_EFULL, lock_one(e, n, large, &none));
    ck_assert_uint_eq(n, large ? SLOTS / 7 : SLOTS);
    return n;
}

static void give_all(struct enq *e, unsigned n, const struct enq_grant *g)
{
    for (unsigned i = 0; i < n; i++)
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
}

/* --- another process that has what we need --- */

struct hoarder {
    bool large, run_out; /* what it takes, and whether it gives nothing back */
    unsigned spared;     /* it keeps every so manieth lock */
    uint32_t idle, go_home;
    pid_t pid;
    struct enq_grant g[SLOTS];
};

static void keep_some(struct hoarder *h, struct enq *e, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        if (h->spared == 0 || i % h->spared != 0)
            want(ENQ_OK, enq_unlock(e, h->g[i].handle, h->g[i].token));
}

static void take_for_a_moment(struct hoarder *h, struct enq *e)
{
    for (unsigned i = 0; i < SLOTS; i++)
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "n", .key = {field(i, false)},
                    .mode = ENQ_MODE_X, .ttl_ms = 30),
                &h->g[i]));
}

/* Does nothing any more after it has had all: its thread sleeps elsewhere. */
static int hoard(void *arg)
{
    struct hoarder *h = arg;
    struct enq *e = open_for(SLOTS);

    if (h->run_out)
        take_for_a_moment(h, e);
    else
        keep_some(h, e, take_all(e, h->large, h->g));
    shm_store_release(&h->idle, 1);
    while (!shm_load(&h->go_home))
        unit_nap();
    enq_close(e);
    return 0;
}

static struct hoarder *begin(bool large, bool run_out, unsigned spared)
{
    struct hoarder *h = unit_shared(sizeof(*h));

    h->large = large;
    h->run_out = run_out;
    h->spared = spared;
    h->pid = unit_fork(hoard, h);
    eventually(shm_load_acquire(&h->idle));
    return h;
}

static void end(struct hoarder *h)
{
    shm_store(&h->go_home, 1);
    unit_join(h->pid);
}

static const struct {
    bool has, needs; /* large ones */
} sizes[] = {{false, false}, {true, true}, {false, true}, {true, false}};

TEST(what_an_idle_process_gave_back_is_anybodys)
{
    struct hoarder *h = begin(sizes[_i].has, false, 0);
    bool large = sizes[_i].needs;
    struct enq *e = open_for(SLOTS);
    struct enq_grant g[SLOTS];

    eventually(lock_one(e, 0, large, &g[0]) == ENQ_OK);
    for (unsigned i = 1; i < (large ? SLOTS / 7 : SLOTS); i++)
        want(ENQ_OK, lock_one(e, i, large, &g[i]));
    unit_healthy(e);
    give_all(e, large ? SLOTS / 7 : SLOTS, g);
    for (unsigned i = 0; i < SLOTS; i++) /* to nobody else's lock */
        want(ENQ_NOTHELD, enq_unlock(e, h->g[i].handle, 0));
    unit_healthy(e);
    end(h);
    unit_healthy(e);
    enq_close(e);
}

/* The wish itself wakes it: by the clock it would look in ten minutes. */
TEST(an_idle_process_hears_at_once_that_its_room_is_wanted)
{
    struct enq_grant g;
    struct hoarder *h;
    struct enq *e;

    setenv("ENQ_TICK_MS", "600000", 1);
    h = begin(false, false, 0);
    e = open_for(SLOTS);
    eventually(lock_one(e, 0, false, &g) == ENQ_OK);
    end(h);
    enq_close(e);
}

TEST(who_has_given_room_back_takes_it_again)
{
    struct hoarder *h = begin(false, false, 0);
    struct enq *e = open_for(SLOTS), *f = open_for(SLOTS);
    struct enq_grant g[SLOTS];

    for (int round = 0; round < 20; round++) {
        struct enq *one = round % 2 ? e : f;
        bool large = round % 3 == 0;

        eventually(lock_one(one, 0, large, &g[0]) == ENQ_OK);
        for (unsigned i = 1; i < (large ? SLOTS / 7 : SLOTS); i++)
            want(ENQ_OK, lock_one(one, i, large, &g[i]));
        give_all(one, large ? SLOTS / 7 : SLOTS, g);
        unit_healthy(one);
    }
    end(h);
    enq_close(f);
    enq_close(e);
}

TEST(what_ran_out_of_an_idle_process_is_anybodys)
{
    struct hoarder *h = begin(false, true, 0);
    struct enq *e = open_for(SLOTS);
    struct enq_grant g[SLOTS];

    for (unsigned i = 0; i < SLOTS; i++)
        eventually(unit_lock(e, "other", field(i, false), ENQ_MODE_X, &g[i]) ==
            ENQ_OK);
    unit_healthy(e);
    end(h);
    enq_close(e);
}

TEST(a_page_with_one_lock_in_it_stays_where_it_is)
{
    struct hoarder *h = begin(false, false, 7);
    struct enq *e = open_for(SLOTS);
    uint32_t wanted = shm_load(&e->map->h->wanted);
    struct enq_grant g;
    int64_t began = unit_now_ms();
    char report[512];

    for (int i = 0; i < 20; i++)
        want_why(ENQ_EFULL, lock_one(e, 1, false, &g), "is full");
    /* nobody is asked, and so nobody waited for */
    ck_assert_int_lt(unit_now_ms() - began, unit_patience_ms());
    ck_assert_uint_eq(shm_load(&e->map->h->wanted), wanted);
    for (unsigned i = 0; i < SLOTS; i++)
        want(i % 7 ? ENQ_NOTHELD : ENQ_OK, enq_valid(e, h->g[i].handle));
    want(1, enq_doctor(e, 0, report, sizeof(report)));
    ck_assert_msg(strstr(report, "no page is left") != NULL, "%s", report);
    end(h);
    eventually(lock_one(e, 1, false, &g) == ENQ_OK);
    enq_close(e);
}

TEST(a_stopped_process_keeps_its_room_and_is_named)
{
    struct hoarder *h = begin(false, false, 0);
    struct enq *e = open_for(SLOTS);
    struct enq_grant g;
    char name[32];
    int status;

    snprintf(name, sizeof(name), "process %d, for one", (int)h->pid);
    kill(h->pid, SIGSTOP);
    ck_assert_int_eq(waitpid(h->pid, &status, WUNTRACED), h->pid);
    want_why(ENQ_EFULL, lock_one(e, 0, false, &g), name);
    ck_assert_int_ne(shm_load(&e->session.deaf_ns), 0);
    want_why(ENQ_EFULL, lock_one(e, 0, false, &g), name);
    unit_healthy(e);
    kill(h->pid, SIGCONT);
    eventually(lock_one(e, 0, false, &g) == ENQ_OK);
    end(h);
    enq_close(e);
}

/* Helpers would be woken for nothing, and each request last half a second. */
TEST(who_was_not_heard_does_not_ask_again_for_a_while)
{
    struct hoarder *h = begin(false, false, 0);
    struct enq *e = open_for(SLOTS);
    struct enq_grant g;

    unit_stop(h->pid);
    shm_store(&e->session.deaf_ns, INT64_MAX);
    want_why(ENQ_EFULL, lock_one(e, 0, false, &g), "(is it stopped?)");
    ck_assert_uint_eq(shm_load(&e->map->h->wanted), 0);
    kill(h->pid, SIGCONT);
    end(h);
    enq_close(e);
}

static int hoard_the_only_page(void *arg)
{
    struct hoarder *h = arg;
    struct enq *e = open_for(SMALL_PER_PAGE);

    want(ENQ_OK, lock_one(e, 0, false, &h->g[0]));
    give_all(e, 1, h->g);
    shm_store_release(&h->idle, 1);
    while (!shm_load(&h->go_home))
        unit_nap();
    enq_close(e);
    return 0;
}

TEST(a_stopped_process_is_named_for_a_single_page)
{
    struct hoarder *h = unit_shared(sizeof(*h));
    struct enq_grant g;
    struct enq *e;
    char words[80];
    int status;

    h->pid = unit_fork(hoard_the_only_page, h);
    eventually(shm_load_acquire(&h->idle));
    e = open_for(SMALL_PER_PAGE);
    snprintf(words, sizeof(words), "process %d, for one", (int)h->pid);
    kill(h->pid, SIGSTOP);
    ck_assert_int_eq(waitpid(h->pid, &status, WUNTRACED), h->pid);
    want_why(ENQ_EFULL, lock_one(e, 0, false, &g), words);
    kill(h->pid, SIGCONT);
    eventually(lock_one(e, 0, false, &g) == ENQ_OK);
    unit_healthy(e);
    end(h);
    enq_close(e);
}

/* --- this process --- */

static struct {
    struct enq *e;
    uint32_t idle, go_home;
    struct enq_grant g[SLOTS];
} other;

static void *take_and_sleep(void *nothing)
{
    give_all(other.e, take_all(other.e, false, other.g), other.g);
    shm_store_release(&other.idle, 1);
    while (!shm_load(&other.go_home))
        unit_nap();
    return nothing;
}

TEST(what_lies_in_the_magazine_of_a_sleeping_thread_is_ours)
{
    struct enq_grant g[SLOTS];
    pthread_t thread;

    other.e = open_for(SLOTS);
    pthread_create(&thread, NULL, take_and_sleep, NULL);
    eventually(shm_load_acquire(&other.idle));
    for (unsigned i = 0; i < SLOTS; i++)
        eventually(lock_one(other.e, i, false, &g[i]) == ENQ_OK);
    unit_healthy(other.e);
    give_all(other.e, SLOTS, g);
    shm_store(&other.go_home, 1);
    pthread_join(thread, NULL);
    want(ENQ_OK, lock_one(other.e, 0, false, &g[0]));
    unit_healthy(other.e);
    enq_close(other.e);
}

TEST(our_own_pages_serve_both_sizes)
{
    struct enq *e = open_for(SLOTS);
    struct enq_grant g[SLOTS];

    for (int round = 0; round < 20; round++) {
        bool large = round % 2;
        give_all(e, take_all(e, large, g), g);
        unit_healthy(e);
    }
    enq_close(e);
}

/* Nobody else is asked, and no helper thread waited for. */
TEST(our_own_pages_serve_both_sizes_at_once)
{
    struct enq *e = open_for(SLOTS);
    struct thread *t = thread_enter(e->map);
    struct enq_grant g[SLOTS];
    struct entry *entry;

    give_all(e, take_all(e, false, g), g);
    want(ENQ_OK, slab_take_large(&e->session, t, &entry));
    ck_assert_uint_eq(entry_payload_room(e->map, entry), LARGE_PAYLOAD);
    slab_give(&e->session, t, entry);
    ck_assert_uint_eq(e->map->h->wanted, 0);
    enq_close(e);
}

/* Which would need more entries than the slabs have: in a damaged table one may
   be given out twice. */
TEST(a_depot_takes_no_more_than_it_has_room_for)
{
    struct enq *e = open_for(SLOTS);
    struct depot *depot = &e->session.small;
    struct enq_grant g[SLOTS];

    take_all(e, false, g);
    depot->room = depot->n + 10;
    give_all(e, SLOTS, g);
    ck_assert_uint_eq(depot->n, depot->room);
    unit_healthy(e);
    give_all(e, take_all(e, false, g), g);
    ck_assert_uint_eq(depot->n, depot->room);
    enq_close(e);
}

/* Most of them are in no thread's magazine. */
TEST(all_of_our_own_entries_of_the_other_size_make_room_at_once)
{
    struct enq *e = open_for(SLOTS);
    struct enq_grant g[SLOTS];

    give_all(e, take_all(e, false, g), g);
    for (unsigned i = 0; i < SLOTS / 7; i++)
        want(ENQ_OK, lock_one(e, i, true, &g[i]));
    ck_assert_uint_eq(e->map->h->wanted, 0);
    unit_healthy(e);
    enq_close(e);
}

TEST(the_only_page_there_is_serves_both_sizes_at_once)
{
    struct enq *e = open_for(SMALL_PER_PAGE);
    struct thread *t = thread_enter(e->map);
    struct entry *entry;
    struct enq_grant g;

    want(ENQ_OK, lock_one(e, 0, false, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, slab_take_large(&e->session, t, &entry));
    slab_give(&e->session, t, entry);
    want(ENQ_OK, lock_one(e, 0, false, &g));
    ck_assert_uint_eq(e->session.n_pages, 1);
    unit_healthy(e);
    enq_close(e);
}

/* --- given back one by one --- */

TEST(only_a_page_with_nothing_in_it_is_given_up)
{
    struct enq *e = open_for(SLOTS);
    session_ref_t ref = e->session.ref;
    struct enq_grant g;
    uint32_t page;

    want(ENQ_OK, lock_one(e, 0, false, &g));
    page = e->session.pages[0];
    ck_assert(!page_give_up(e->map, page, ref)); /* held, and in a magazine */
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    ck_assert(!page_give_up(e->map, page, ref));
    slab_shed(&e->session);
    ck_assert_uint_eq(e->session.n_pages, 0);
    ck_assert_uint_eq(e->map->pages[page].owner, 0);
    ck_assert(!page_give_up(e->map, page, ref)); /* it is not ours any more */
    want(ENQ_OK, lock_one(e, 0, false, &g));
    ck_assert_uint_eq(e->map->pages[page].owner, ref);
    ck_assert(!page_give_up(e->map, page, ref ^ 1));
    unit_healthy(e);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct {
    struct enq *ending, *next;
    uint32_t page;
} race;

/* As its helper thread may, which is still there; and another session takes
   it. */
static void give_up_and_take(const struct point *p)
{
    struct map *map = race.ending->map;

    if (strcmp(p->name, "page.orphaning") != 0)
        return;
    point_hook = NULL;
    ck_assert(page_give_up(map, race.page, race.ending->session.ref));
    shm_store(&map->pages[race.page].owner, race.next->session.ref);
    shm_add(&map->h->orphans[0].pages, -1);
}

TEST(a_page_that_is_given_up_while_its_session_ends_is_the_next_ones)
{
    struct enq *e = open_for(SLOTS);
    struct enq_grant g;

    race.next = unit_open();
    race.ending = e;
    want(ENQ_OK, lock_one(e, 0, false, &g));
    race.page = e->session.pages[0];
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    point_hook = give_up_and_take;
    enq_close(e);
    ck_assert_ptr_null(point_hook);
    ck_assert_uint_eq(race.next->map->pages[race.page].owner,
        race.next->session.ref);
    ck_assert_uint_eq(race.next->map->h->orphans[0].pages, 0);
    unit_healthy(race.next);
    enq_close(race.next);
}
#endif

TEST(a_thread_that_was_stripped_goes_on)
{
    struct enq *e = open_for(SLOTS);
    struct enq_grant g[100];

    for (unsigned n = 1; n < 100; n++) {
        for (unsigned i = 0; i < n; i++)
            want(ENQ_OK, lock_one(e, i, false, &g[i]));
        for (unsigned i = 0; i < n; i++) {
            if (i == n / 2)
                slab_shed(&e->session);
            want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
        }
        if (n % 3 == 0)
            slab_shed(&e->session);
    }
    slab_shed(&e->session);
    slab_shed(&e->session);
    give_all(e, take_all(e, true, other.g), other.g);
    give_all(e, take_all(e, false, other.g), other.g);
    unit_healthy(e);
    enq_close(e);
}

int main(void)
{
    unit_begin("hoard");
    ADD_LOOP(what_an_idle_process_gave_back_is_anybodys, LENGTH(sizes));
    ADD(an_idle_process_hears_at_once_that_its_room_is_wanted);
    ADD(who_has_given_room_back_takes_it_again);
    ADD(what_ran_out_of_an_idle_process_is_anybodys);
    ADD(a_page_with_one_lock_in_it_stays_where_it_is);
    ADD(a_stopped_process_keeps_its_room_and_is_named);
    ADD(who_was_not_heard_does_not_ask_again_for_a_while);
    ADD(a_stopped_process_is_named_for_a_single_page);
    ADD(what_lies_in_the_magazine_of_a_sleeping_thread_is_ours);
    ADD(our_own_pages_serve_both_sizes);
    ADD(our_own_pages_serve_both_sizes_at_once);
    ADD(a_depot_takes_no_more_than_it_has_room_for);
    ADD(all_of_our_own_entries_of_the_other_size_make_room_at_once);
    ADD(the_only_page_there_is_serves_both_sizes_at_once);
    ADD(only_a_page_with_nothing_in_it_is_given_up);
#ifdef ENQ_POINTS
    ADD(a_page_that_is_given_up_while_its_session_ends_is_the_next_ones);
#endif
    ADD(a_thread_that_was_stripped_goes_on);
    return unit_end();
}
