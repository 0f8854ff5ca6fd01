/*
 * attachment.h - floor 5: struct enq, and how a call enters it.
 */
#ifndef API_ATTACHMENT_H
#define API_ATTACHMENT_H

#include <errno.h>

#include "base/process.h"
#include "base/why.h"
#include "table/session.h"

struct enq {
    uint64_t life; /* of the process that opened it */
    struct map *map;
    struct session session; /* not of a read-only attachment */
    bool readonly;
    struct cds_list_head node; /* of the helper's list */
    char owner[ENQ_OWNER_BYTES];
    char path[ENQ_NAME_BYTES + 128];
};

int attachment_refuse(const struct enq *e);

/* Every call begins with this. 0, or the fault, explained. */
static inline int attachment_enter(struct enq *e, struct thread **t)
{
    if (unlikely(e == NULL || !process_is(e->life) || e->readonly)) {
        *t = NULL;
        return attachment_refuse(e);
    }
    *t = thread_enter(e->map);
    return likely(*t != NULL) ? 0 : -EAGAIN;
}

/* For calls that only look. */
static inline int attachment_look(const struct enq *e)
{
    if (unlikely(e == NULL || !process_is(e->life)))
        return attachment_refuse(e);
    return 0;
}

#endif
