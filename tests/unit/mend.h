/*
 * mend.h - one lock that several share, in a space without ticks: what dies
 * beside it leaves something, or somebody, behind.
 */
#ifndef UNIT_MEND_H
#define UNIT_MEND_H

#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "store/index.h"
#include "unit.h"

#define SHARED 4

static struct enq *e;
static struct enq_grant held[SHARED];
static uint32_t remade;

static inline struct key key_of(const char *field, char bytes[KEY_BYTES_MAX])
{
    struct enq_req req = {.size = sizeof(req), .name = "n", .key = {field}};
    struct key key;

    want(0, key_pack(&key, bytes, KEY_BYTES_MAX, &req, e->map->hash_seed));
    return key;
}

static inline struct entry *first_of(const char *field, struct spot *spot)
{
    char bytes[KEY_BYTES_MAX];
    struct key key = key_of(field, bytes);

    *spot = spot_of(key.name_hash, key.hash);
    return index_find(e->map, spot, &key);
}

static inline struct entry *first_of_a(struct spot *spot)
{
    return first_of("a", spot);
}

static inline void begin(void)
{
    setenv("ENQ_TICK_MS", "600000", 1);
    alarm(20);
    e = unit_open();
    for (int i = 0; i < SHARED; i++)
        want(ENQ_OK, unit_lock(e, "n", "a", ENQ_MODE_S, &held[i]));
    remade = e->map->h->remade;
}

static inline int ask(const char *owner, enum enq_mode mode)
{
    struct enq_grant g;

    return enq_lock(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = mode, .owner = owner), &g);
}

static inline void all_are_there(void)
{
    want(ENQ_BUSY, ask("another", ENQ_MODE_X));
    unit_healthy(e);
    for (int i = 0; i < SHARED; i++)
        want(ENQ_OK, enq_unlock(e, held[i].handle, held[i].token));
    want(ENQ_OK, ask("another", ENQ_MODE_X));
    enq_close(e);
}

#endif
