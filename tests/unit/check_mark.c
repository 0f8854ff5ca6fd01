/*
 * check_mark.c - a search for started requests looks at marked pages only, and
 * misses none of them: store/mark.h, moment by moment.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "api/attachment.h"
#include "base/point.h"
#include "store/mark.h"
#include "store/page.h"
#include "store/walk.h"
#include "told.h"

#define ANOTHER 0x7ffe0001u /* a thread that looks as well */

struct tally {
    unsigned n;
    bool enough; /* after the first */
};

static bool see(void *context, struct entry *e, uint64_t state)
{
    struct tally *tally = context;

    (void)e;
    ck_assert_uint_eq(STATE_PHASE(state), PHASE_WAITING);
    tally->n++;
    return !tally->enough;
}

/* How many a search finds that is made by this thread. */
static unsigned found_by(struct enq *e, thread_ref_t me)
{
    struct tally tally = {0, false};

    slab_each_waiting(e->map, me, see, &tally);
    return tally.n;
}

static unsigned found(struct enq *e)
{
    return found_by(e, thread_enter(e->map)->ref);
}

static uint32_t marked(struct enq *e)
{
    uint32_t n = 0;

    for (uint32_t i = 0; i < map_pages_used(e->map); i++)
        n += e->map->marks[i] != 0;
    return n;
}

/* Somebody holds "k"; nothing waits for it that looks for cycles itself. */
static struct enq *open_with_a_holder(void)
{
    struct enq *e = unit_open();

    told_lock_req(e, ENQ_REQ(.name = "k", .mode = ENQ_MODE_X, .owner = "A"));
    return e;
}

static uint64_t waits(struct enq *e)
{
    struct enq_grant g;
    uint64_t ticket;

    want(ENQ_PENDING,
        enq_start(e,
            ENQ_REQ(.name = "k", .mode = ENQ_MODE_X, .owner = "B",
                .wait_ms = ENQ_FOREVER, .flags = ENQ_NO_DEADLOCK),
            &g, &ticket));
    return ticket;
}

static void leaves(struct enq *e, uint64_t ticket)
{
    want(ENQ_OK, enq_cancel(e, ticket));
    ck_assert_uint_eq(told_without_descriptor(e).ticket, ticket);
}

TEST(who_waits_without_a_thread_marks_the_page_and_is_found)
{
    struct enq *e = open_with_a_holder();

    ck_assert_uint_eq(marked(e), 0);
    waits(e);
    ck_assert_uint_eq(marked(e), 1);
    for (unsigned i = 0; i < 3; i++)
        ck_assert_uint_eq(found(e), 1);
    enq_close(e);
}

TEST(the_mark_goes_with_the_first_search_that_finds_nobody)
{
    struct enq *e = open_with_a_holder();
    uint64_t ticket = waits(e);

    ck_assert_uint_eq(found(e), 1);
    leaves(e, ticket);
    ck_assert_uint_eq(marked(e), 1);
    ck_assert_uint_eq(found(e), 0);
    ck_assert_uint_eq(marked(e), 0);
    waits(e);
    ck_assert_uint_eq(found(e), 1);
    enq_close(e);
}

TEST(a_search_that_is_stopped_leaves_the_mark)
{
    struct enq *e = open_with_a_holder();
    struct tally one = {0, true};

    waits(e);
    waits(e);
    slab_each_waiting(e->map, thread_enter(e->map)->ref, see, &one);
    ck_assert_uint_eq(one.n, 1);
    ck_assert_uint_eq(found(e), 2);
    enq_close(e);
}

static uint64_t pages_of(uint64_t at, uint64_t bytes)
{
    return (at + bytes - 1) / PAGE_BYTES - at / PAGE_BYTES + 1;
}

/* Beside the pages themselves their part of the directory: words, and marks. */
TEST(there_is_memory_behind_the_marks_before_they_are_written)
{
    struct enq *e = unit_open();
    struct map *map = e->map;
    struct stat before, after;
    uint64_t n, words, marks;
    uint32_t page;

    ck_assert_uint_eq(map_pages_ready(map), 0);
    ck_assert_int_eq(fstat(map->fd, &before), 0);
    want(0,
        page_claim(map, thread_enter(map), PAGE_SMALL, e->session.ref, &page));
    ck_assert_int_eq(fstat(map->fd, &after), 0);
    n = map_pages_ready(map);
    words = pages_of(map->h->pages_at, n * sizeof(*map->pages));
    marks = pages_of((uint64_t)((char *)map->marks - (char *)map->h),
        n * sizeof(*map->marks));
    ck_assert_uint_eq((uint64_t)(after.st_blocks - before.st_blocks) * 512,
        (n + words + marks) * PAGE_BYTES);
    enq_close(e);
}

#ifdef ENQ_POINTS
static struct {
    struct enq *e;
    const char *at; /* where a request comes into another's search */
    unsigned seen_by_another;
    bool another; /* searches, as soon as it has come */
} arrival;

static void arrive(const struct point *p)
{
    if (arrival.at == NULL || strcmp(p->name, arrival.at) != 0)
        return;
    arrival.at = NULL;
    waits(arrival.e);
    if (arrival.another)
        arrival.seen_by_another = found_by(arrival.e, ANOTHER);
}

/* A page in which nobody waits any more, and a search that comes through it. */
static unsigned found_while_one_arrives(struct enq *e, const char *at,
    bool another)
{
    unsigned n;

    leaves(e, waits(e));
    arrival.e = e;
    arrival.at = at;
    arrival.another = another;
    point_hook = arrive;
    n = found(e);
    point_hook = NULL;
    ck_assert_ptr_null(arrival.at);
    return n;
}

/* Before its mark, or before its look: it sees who has come. Behind its look:
   the next search does. */
TEST(one_that_comes_while_a_search_looks_is_found_by_it_or_by_the_next)
{
    static const char *const at[] = {"mark.found", "mark.taken", "mark.looked"};
    struct enq *e = open_with_a_holder();

    ck_assert_uint_eq(found_while_one_arrives(e, at[_i], false), _i < 2);
    ck_assert_uint_eq(found(e), 1);
    enq_close(e);
}

/* The first one looked before the request came, and must not take the mark that
   the second one has left for it. */
TEST(a_search_does_not_take_the_mark_of_another_that_has_found_somebody)
{
    static const char *const at[] = {"mark.found", "mark.taken", "mark.looked"};
    struct enq *e = open_with_a_holder();

    ck_assert_uint_eq(found_while_one_arrives(e, at[_i], true), _i < 2);
    ck_assert_uint_eq(arrival.seen_by_another, 1);
    ck_assert_uint_eq(found(e), 1);
    enq_close(e);
}
#endif

int main(void)
{
    unit_begin("mark");
    ADD(who_waits_without_a_thread_marks_the_page_and_is_found);
    ADD(the_mark_goes_with_the_first_search_that_finds_nobody);
    ADD(a_search_that_is_stopped_leaves_the_mark);
    ADD(there_is_memory_behind_the_marks_before_they_are_written);
#ifdef ENQ_POINTS
    ADD_LOOP(one_that_comes_while_a_search_looks_is_found_by_it_or_by_the_next,
        3);
    ADD_LOOP(a_search_does_not_take_the_mark_of_another_that_has_found_somebody,
        3);
#endif
    return unit_end();
}
