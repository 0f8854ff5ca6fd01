/*
 * attachment.h - api: how a call enters an attachment.
 */
#ifndef API_ATTACHMENT_H
#define API_ATTACHMENT_H

#include <errno.h>

#include "async/attachment.h"
#include "base/process.h"
#include "base/why.h"

/*
 * An attachment to a bridge is no process's: so it is found out where any
 * attachment is checked, and costs the others nothing. It is not a fault, but
 * the way to the calls of remote/.
 */
#define LIFE_REMOTE (UINT64_MAX - 1)
#define ATTACHMENT_REMOTE 0x7ffffffe

/* For texts. */
const char *attachment_name(const struct enq *e);

int attachment_refuse(const struct enq *e);
int attachment_refuse_look(const struct enq *e);

/* Every call begins with this. 0, or the fault, explained; or
   ATTACHMENT_REMOTE. */
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

#endif
