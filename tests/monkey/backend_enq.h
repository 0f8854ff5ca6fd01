/*
 * backend_enq.h - what the library's own backend is made of.
 */
#ifndef MONKEY_BACKEND_ENQ_H
#define MONKEY_BACKEND_ENQ_H

#include "backend.h"
#include "store/entry.h"

#define ID_ROOM 32

extern struct enq *backend_self;

void backend_request(struct enq_req *req, const struct op *op,
    char id[ID_ROOM]);
void backend_grant(struct op *op, const struct enq_grant *grant);
/* It waits from now on. */
void backend_note_queued(struct op *op, const struct entry *e);

/* --- backend_set.c --- */

int backend_lock_set(struct op *op);
int backend_start_set(struct op *op);
void backend_take_set(struct op *op);
int backend_unlock_set(const struct op *op, const struct held *held);

#endif
