/*
 * check_heap.c - whose time comes first.
 */
#include "base/heap.h"

#include <errno.h>

#include "unit.h"

#define OWNERS 300

struct owner {
    struct heap_node node;
    bool in;
};

static void make(struct heap *h, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        ck_assert_int_eq(heap_reserve(h), 0);
}

static void set(struct heap *h, struct owner *o, int64_t ns)
{
    heap_set(h, &o->node, (mono_t){ns});
    o->in = true;
}

static void leave(struct heap *h, struct owner *o)
{
    heap_remove(h, &o->node);
    ck_assert_uint_eq(o->node.place, 0);
    o->in = false;
}

/* By looking at each. */
static struct owner *earliest(struct owner *owners, unsigned n)
{
    struct owner *first = NULL;

    for (unsigned i = 0; i < n; i++)
        if (owners[i].in &&
            (first == NULL || owners[i].node.at.ns < first->node.at.ns))
            first = &owners[i];
    return first;
}

static void agrees(const struct heap *h, struct owner *owners, unsigned n)
{
    struct owner *first = earliest(owners, n);
    size_t in = 0;

    for (unsigned i = 0; i < n; i++)
        in += owners[i].in;
    ck_assert_uint_eq(h->n, in);
    ck_assert_int_eq(heap_first(h) != NULL, first != NULL);
    if (first != NULL)
        ck_assert_int_eq(heap_first(h)->at.ns, first->node.at.ns);
    for (size_t i = 0; i < h->n; i++)
        ck_assert_uint_eq(h->nodes[i]->place, i + 1);
}

/* --- memory --- */

static unsigned asked, given_back;
static bool no_memory;

void *__real_realloc(void *p, size_t n);
void *__wrap_realloc(void *p, size_t n);
void __real_free(void *p);
void __wrap_free(void *p);

void *__wrap_realloc(void *p, size_t n)
{
    asked++;
    return no_memory ? NULL : __real_realloc(p, n);
}

void __wrap_free(void *p)
{
    given_back += p != NULL;
    __real_free(p);
}

/* Of a place that was had, nothing can be short later. */
TEST(where_there_is_no_memory_for_a_place_all_stays_as_it_was)
{
    static struct owner owners[40];
    struct heap h = {0};
    unsigned had = 0;

    no_memory = true;
    ck_assert_int_eq(heap_reserve(&h), -ENOMEM);
    no_memory = false;
    make(&h, 16);
    no_memory = true;
    ck_assert_int_eq(heap_reserve(&h), -ENOMEM);
    ck_assert_int_eq(heap_reserve(&h), -ENOMEM);
    no_memory = false;
    for (unsigned i = 0; i < 16; i++)
        set(&h, &owners[i], 100 - (int64_t)i);
    agrees(&h, owners, 16);
    had = asked;
    make(&h, 16); /* twice as many, by one call */
    ck_assert_uint_eq(asked, had + 1);
    for (unsigned i = 16; i < 32; i++)
        set(&h, &owners[i], 100 - (int64_t)i);
    agrees(&h, owners, 32);
    given_back = 0;
    heap_free(&h);
    ck_assert_uint_eq(given_back, 1);
}

TEST(an_empty_heap_has_no_first)
{
    struct heap h = {0};
    struct heap_node node = {{5}, 0};

    ck_assert_ptr_null(heap_first(&h));
    heap_remove(&h, &node);
    ck_assert_ptr_null(heap_first(&h));
    heap_free(&h);
}

TEST(the_first_is_the_earliest_and_a_moved_node_finds_its_place)
{
    static struct owner owners[3];
    struct heap h = {0};

    make(&h, 3);
    set(&h, &owners[0], 30);
    set(&h, &owners[1], 20);
    set(&h, &owners[2], MONO_NEVER.ns);
    agrees(&h, owners, 3);
    set(&h, &owners[2], 10);
    ck_assert_ptr_eq(heap_first(&h), &owners[2].node);
    set(&h, &owners[2], 25);
    ck_assert_ptr_eq(heap_first(&h), &owners[1].node);
    leave(&h, &owners[1]);
    ck_assert_ptr_eq(heap_first(&h), &owners[2].node);
    leave(&h, &owners[2]);
    leave(&h, &owners[0]);
    agrees(&h, owners, 3);
    heap_free(&h);
}

TEST(equal_times_are_all_kept)
{
    static struct owner owners[50];
    struct heap h = {0};

    make(&h, 50);
    for (unsigned i = 0; i < 50; i++)
        set(&h, &owners[i], 7);
    for (unsigned i = 50; i > 0; i--) {
        agrees(&h, owners, 50);
        leave(&h, &owners[i - 1]);
    }
    agrees(&h, owners, 50);
    heap_free(&h);
}

TEST(any_history_agrees_with_looking_at_each)
{
    static struct owner owners[OWNERS];
    uint64_t dice = unit_seed();
    struct heap h = {0};

    make(&h, OWNERS);
    for (int i = 0; i < 20000; i++) {
        struct owner *o = &owners[unit_random(&dice) % OWNERS];

        if (unit_random(&dice) % 3 == 0)
            leave(&h, o);
        else
            set(&h, o, (int64_t)(unit_random(&dice) % 1000) - 500);
        if (i % 16 == 0)
            agrees(&h, owners, OWNERS);
    }
    heap_free(&h);
}

TEST(taken_out_one_by_one_they_come_in_order)
{
    static struct owner owners[OWNERS];
    uint64_t dice = unit_seed();
    struct heap h = {0};
    int64_t before = INT64_MIN;

    make(&h, OWNERS);
    for (unsigned i = 0; i < OWNERS; i++)
        set(&h, &owners[i], (int64_t)unit_random(&dice));
    for (unsigned i = 0; i < OWNERS; i++) {
        struct heap_node *first = heap_first(&h);
        ck_assert_int_le(before, first->at.ns);
        before = first->at.ns;
        heap_remove(&h, first);
    }
    ck_assert_ptr_null(heap_first(&h));
    heap_free(&h);
}

TEST(room_given_back_is_used_again)
{
    struct heap h = {0};
    size_t room;

    make(&h, 100);
    room = h.room;
    for (int i = 0; i < 10000; i++) {
        heap_unreserve(&h);
        make(&h, 1);
    }
    ck_assert_uint_eq(h.room, room);
    heap_free(&h);
}

TEST(there_is_room_for_each_owner_before_it_comes)
{
    static struct owner owners[OWNERS];
    struct heap h = {0};

    for (unsigned i = 0; i < OWNERS; i++) {
        make(&h, 1);
        ck_assert_uint_ge(h.room, h.owners);
        set(&h, &owners[i], -(int64_t)i);
    }
    agrees(&h, owners, OWNERS);
    heap_free(&h);
}

int main(void)
{
    unit_begin("heap");
    ADD(where_there_is_no_memory_for_a_place_all_stays_as_it_was);
    ADD(an_empty_heap_has_no_first);
    ADD(the_first_is_the_earliest_and_a_moved_node_finds_its_place);
    ADD(equal_times_are_all_kept);
    ADD(any_history_agrees_with_looking_at_each);
    ADD(taken_out_one_by_one_they_come_in_order);
    ADD(room_given_back_is_used_again);
    ADD(there_is_room_for_each_owner_before_it_comes);
    return unit_end();
}
