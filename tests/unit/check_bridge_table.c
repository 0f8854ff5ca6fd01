/*
 * check_bridge_table.c - the bridge's hash table of members of other structures.
 */
#include "bridge/table.h"

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

int main(void)
{
    unit_begin("bridge_table");
    ADD(what_comes_and_goes_does_not_make_it_grow);
    ADD(it_grows_with_what_is_in_it_and_all_of_that_is_found);
    ADD(all_nodes_of_one_key_are_found_and_any_is_there_while_there_is_one);
    return unit_end();
}
