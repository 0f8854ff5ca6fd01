/*
 * table.h - a hash table of members of other structures. It grows, a little with
 * each that is added, and never shrinks; without memory it grows slower.
 */
#ifndef BRIDGE_TABLE_H
#define BRIDGE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What points to it is known, so that one of many with the same key is taken
   out as fast as one alone. */
struct table_node {
    struct table_node *next, **at; /* NULL: in no table */
    uint64_t key;
};

struct table {
    struct table_node **slots;
    size_t n, mask;
    size_t empty; /* so many slots are, in the begin */
    /* from before it grew, as far as nobody has come for them; or NULL */
    struct table_node **old;
    size_t old_mask, taken; /* so many of them are empty, in the begin */
};

bool table_begin(struct table *t);
void table_end(struct table *t);
/* Several may have one key: the last that came is found. */
void table_add(struct table *t, struct table_node *node, uint64_t key);
struct table_node *table_find(struct table *t, uint64_t key);
/* The next with the same key. */
struct table_node *table_next(struct table_node *node);
struct table_node *table_any(struct table *t); /* NULL: it is empty */
void table_remove(struct table *t, struct table_node *node);

#define TABLE_OF(node, type, member)                                           \
    ((type *)((char *)(node)-offsetof(type, member)))

/* Of a text. */
uint64_t table_hash(const char *text);

#endif
