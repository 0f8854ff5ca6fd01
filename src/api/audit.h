/*
 * audit.h - api: debug builds look at the whole table after calls.
 *
 * Every sixteenth call of a thread (a look takes 0.1 ms and more); a finding
 * prints the report and aborts. Elsewhere it is nothing.
 */
#ifndef API_AUDIT_H
#define API_AUDIT_H

#include "api/attachment.h"

#ifdef ENQ_DEBUG
int audit(struct enq *e, struct thread *t, int rc);
#else
static inline int audit(struct enq *e, struct thread *t, int rc)
{
    (void)e;
    (void)t;
    return rc;
}
#endif

#endif
