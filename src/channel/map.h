/*
 * map.h - channel: numbers to members of other structures. It grows, and never
 * shrinks; without memory it grows slower. Not shared: its user has a mutex.
 */
#ifndef CHANNEL_MAP_H
#define CHANNEL_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct map_node {
    struct map_node *next;
    uint64_t key;
};

struct number_map {
    struct map_node **slots;
    size_t n, mask;
};

bool number_map_begin(struct number_map *m);
void number_map_end(struct number_map *m);

void number_map_add(struct number_map *m, struct map_node *node, uint64_t key);
void number_map_remove(struct number_map *m, struct map_node *node);
struct map_node *number_map_find(const struct number_map *m, uint64_t key);

#endif
