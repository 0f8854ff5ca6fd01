/*
 * attachment.h - async: struct enq, what an attachment consists of. How a call
 * enters it is for api/.
 */
#ifndef ASYNC_ATTACHMENT_H
#define ASYNC_ATTACHMENT_H

#include "async/async.h"
#include "recovery/session.h"

struct remote;

struct enq {
    uint64_t life;         /* of the process that opened it; or LIFE_REMOTE */
    struct remote *remote; /* of a bridge's: then it has nothing but this,
                              readonly and owner; else NULL */
    struct map *map;
    struct session session; /* not of a read-only attachment */
    bool readonly;
    bool cut;             /* the helper's: its file was cut off */
    bool doubted;         /* the helper's: see look_at_name() */
    uint32_t wanted;      /* the helper's: what give_room() has seen */
    session_ref_t before; /* the helper's: whose end it is told of */
    struct async async;   /* nor this */
    int life_fd;          /* enq_life_fd()'s; -1: none; under process_enter() */
    struct cds_list_head node; /* of the helper's list */
    char owner[ENQ_OWNER_BYTES];
    char path[ENQ_NAME_BYTES + 128];
};

#endif
