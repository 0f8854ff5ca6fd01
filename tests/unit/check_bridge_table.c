/*
 * check_bridge_table.c - the bridge's hash table of members of other structures.
 */
#include "bridge/table.h"

#include <time.h>

#include "unit.h"

#define NODES 1000

TEST(what_comes_and_goes_does_not_make_it_grow)
{
    struct table t;
    struct table_node node;

    ck_assert(table_begin(&t));
    for (uint64_t key = 0; key < 100000; key++) {
        table_add(&t, &node, key);
        ck_assert_ptr_eq(table_find(&t, key), &node);
        table_remove(&t, &node);
        ck_assert_ptr_null(table_find(&t, key));
    }
    ck_assert_uint_lt(t.mask, 64);
    table_end(&t);
}

TEST(it_grows_with_what_is_in_it_and_all_of_that_is_found)
{
    static struct table_node node[NODES];
    struct table t;

    ck_assert(table_begin(&t));
    for (uint64_t key = 0; key < NODES; key++)
        table_add(&t, &node[key], key);
    for (uint64_t key = 0; key < NODES; key++)
        ck_assert_ptr_eq(table_find(&t, key), &node[key]);
    ck_assert_uint_ge(t.mask, NODES / 2);
    ck_assert_uint_lt(t.mask, 2 * NODES);
    for (uint64_t key = 0; key < NODES; key += 2)
        table_remove(&t, &node[key]);
    for (uint64_t key = 0; key < NODES; key++)
        ck_assert_ptr_eq(table_find(&t, key), key % 2 ? &node[key] : NULL);
    table_end(&t);
}

/* What has come before is found, and in the same order, and goes. */
TEST(it_grows_a_little_with_each_that_comes)
{
    static struct table_node node[NODES], other[NODES];
    struct table t;
    unsigned n = 0;

    ck_assert(table_begin(&t));
    do {
        ck_assert_ptr_null(t.old);
        table_add(&t, &other[n], n);
        table_add(&t, &node[n], n);
    } while (++n < NODES && t.old == NULL);
    for (unsigned i = 0; i < n; i++) {
        if (i % 3 == 0)
            ck_assert_ptr_eq(table_find(&t, i), &node[i]);
        table_remove(&t, &node[i]);
        ck_assert_ptr_nonnull(t.old);
    }
    for (unsigned i = 0; t.old != NULL; i++)
        table_add(&t, &node[i], n + i);
    for (unsigned i = 0; i < n; i++)
        ck_assert_ptr_eq(table_find(&t, i), &other[i]);
    ck_assert_ptr_eq(table_find(&t, n), &node[0]);
    table_end(&t);
}

TEST(all_nodes_of_one_key_are_found_and_any_is_there_while_there_is_one)
{
    struct table_node node[3], *found;
    struct table t;
    unsigned n = 0;

    ck_assert(table_begin(&t));
    ck_assert_ptr_null(table_any(&t));
    for (int i = 0; i < 3; i++)
        table_add(&t, &node[i], 7);
    for (found = table_find(&t, 7); found != NULL; found = table_next(found))
        n += found == &node[0] || found == &node[1] || found == &node[2];
    ck_assert_uint_eq(n, 3);
    for (int i = 0; i < 3; i++) {
        ck_assert_ptr_nonnull(table_any(&t));
        table_remove(&t, &node[i]);
        table_remove(&t, &node[i]); /* one that is not there */
    }
    ck_assert_ptr_null(table_any(&t));
    table_end(&t);
}

#define MANY 40000

static double cpu_us(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

/* Of n with one key, the first that came first: for each of them. */
static double removed_us(unsigned n)
{
    static struct table_node node[MANY];
    struct table t;
    double begin;

    ck_assert(table_begin(&t));
    for (unsigned i = 0; i < n; i++)
        table_add(&t, &node[i], 7);
    begin = cpu_us();
    for (unsigned i = 0; i < n; i++)
        table_remove(&t, &node[i]);
    begin = cpu_us() - begin;
    ck_assert_uint_eq(t.n, 0);
    table_end(&t);
    return begin / n;
}

static double least(double us(unsigned n), unsigned n)
{
    double best = us(n);

    for (int i = 0; i < 4; i++) {
        double again = us(n);

        best = again < best ? again : best;
    }
    return best;
}

/* A walk over all of the key would make it a hundred times as much. */
TEST(one_of_many_with_the_same_key_is_taken_out_as_fast_as_one_of_few)
{
    ck_assert(least(removed_us, MANY) < 20 * least(removed_us, MANY / 100));
}

static double emptied_us(unsigned n)
{
    static struct table_node node[MANY];
    struct table_node *found;
    struct table t;
    double begin;

    ck_assert(table_begin(&t));
    for (unsigned i = 0; i < n; i++)
        table_add(&t, &node[i], i);
    begin = cpu_us();
    while ((found = table_any(&t)) != NULL)
        table_remove(&t, found);
    begin = cpu_us() - begin;
    ck_assert_uint_eq(t.n, 0);
    table_end(&t);
    return begin / n;
}

TEST(all_are_taken_out_one_after_the_other_without_a_walk_for_each)
{
    ck_assert(least(emptied_us, MANY) < 20 * least(emptied_us, MANY / 100));
}

TEST(any_is_found_though_it_came_when_the_begin_was_empty)
{
    struct table_node node[3];
    struct table t;

    ck_assert(table_begin(&t));
    for (unsigned i = 0; i < 3; i++) {
        table_add(&t, &node[i], i);
        ck_assert_ptr_eq(table_any(&t), &node[i]);
        table_remove(&t, &node[i]);
    }
    table_end(&t);
}

/* It stands with each lock in the table, for the next bridge; and is all that a
   session knows of a request that was done. */
TEST(a_hash_is_the_same_for_all_versions_and_another_for_each_byte)
{
    char a[65], b[65];

    ck_assert(table_hash("") == UINT64_C(0xcbf29ce484222325));
    ck_assert(table_hash("a") == UINT64_C(0xaf63dc4c8601ec8c));
    ck_assert(table_hash("foobar") == UINT64_C(0x85944171f73967e8));
    memset(a, 'x', sizeof(a) - 1);
    a[64] = '\0';
    for (unsigned i = 0; i < 64; i++) {
        memcpy(b, a, sizeof(b));
        b[i] = 'y';
        ck_assert(table_hash(a) != table_hash(b));
    }
}

int main(void)
{
    unit_begin("bridge_table");
    ADD(what_comes_and_goes_does_not_make_it_grow);
    ADD(it_grows_with_what_is_in_it_and_all_of_that_is_found);
    ADD(it_grows_a_little_with_each_that_comes);
    ADD(all_nodes_of_one_key_are_found_and_any_is_there_while_there_is_one);
    ADD(one_of_many_with_the_same_key_is_taken_out_as_fast_as_one_of_few);
    ADD(all_are_taken_out_one_after_the_other_without_a_walk_for_each);
    ADD(any_is_found_though_it_came_when_the_begin_was_empty);
    ADD(a_hash_is_the_same_for_all_versions_and_another_for_each_byte);
    return unit_end();
}
