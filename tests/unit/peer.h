/*
 * peer.h - locks that are held for somebody else: what the tests of inheriting
 * and of abandoning them share.
 */
#ifndef PEER_H
#define PEER_H

#include "unit.h"

#define TTL_MS 60000

static inline struct enq_req leased(const char *field, const char *peer)
{
    return (struct enq_req){.size = sizeof(struct enq_req),
        .name = "n",
        .key = {field},
        .mode = ENQ_MODE_X,
        .owner = "remote",
        .on_death = ENQ_DEATH_LEASE,
        .ttl_ms = TTL_MS,
        .peer = peer};
}

/* The only one that there is. */
static inline struct enq_info listed(struct enq *e)
{
    struct enq_info info;
    size_t total;

    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    return info;
}

#endif
