/*
 * attachment.h - api: struct enq, and how a call enters it.
 */
#ifndef API_ATTACHMENT_H
#define API_ATTACHMENT_H

#include <errno.h>

#include "api/desk.h"
#include "base/process.h"
#include "base/why.h"
#include "recovery/session.h"
#include "remote/remote.h"

struct enq {
    uint64_t life;         /* of the process that opened it; or LIFE_AWAY */
    struct remote *remote; /* of a bridge's: then it has nothing but this,
                              readonly and owner; else NULL */
    struct map *map;
    struct session session; /* not of a read-only attachment */
    bool readonly;
    bool cut;         /* the helper's: its file was cut off */
    bool doubted;     /* the helper's: see look_at_name() */
    uint32_t wanted;  /* the helper's: what give_room() has seen */
    struct desk desk; /* nor this */
    int life_fd;      /* enq_life_fd()'s; -1: none; under process_enter() */
    struct cds_list_head node; /* of the helper's list */
    char owner[ENQ_OWNER_BYTES];
    char path[ENQ_NAME_BYTES + 128];
};

/*
 * An attachment to a bridge is no process's: so it is found out where any
 * attachment is judged, and costs the others nothing. It is not a fault, but
 * the way to the calls of remote/remote.h.
 */
#define LIFE_AWAY (UINT64_MAX - 1)
#define ATTACHMENT_AWAY 0x7ffffffe

int attachment_refuse(const struct enq *e);
int attachment_refuse_look(const struct enq *e);

/* Every call begins with this. 0, or the fault, explained; or ATTACHMENT_AWAY.
 */
static inline int attachment_enter(struct enq *e, struct thread **t)
{
    if (unlikely(e == NULL || !process_is(e->life) || e->readonly)) {
        *t = NULL;
        return attachment_refuse(e);
    }
    *t = thread_enter(e->map);
    return likely(*t != NULL) ? 0 : thread_refusal;
}

/* For calls that only look. */
static inline int attachment_look(const struct enq *e)
{
    if (unlikely(e == NULL || !process_is(e->life)))
        return attachment_refuse_look(e);
    return 0;
}

/* Is it a bridge's? Then *rc is 0, and its arguments may be judged. */
static inline bool attachment_is_away(int *rc)
{
    if (likely(*rc != ATTACHMENT_AWAY))
        return false;
    *rc = 0;
    return true;
}

#endif
