/*
 * backend_set.c - the library's lock sets (see backend.h).
 */
#include <stdlib.h>

#include "api/attachment.h"
#include "api/set.h"
#include "backend_enq.h"

/* What is asked for: pointers into itself. */
struct wish {
    struct enq_req req[SET_MOST];
    const struct enq_req *reqs[SET_MOST];
    char id[SET_MOST][ID_ROOM];
};

/* The grants of one that is pending; they stay where they are. */
struct box {
    uint64_t ticket; /* 0 = free */
    struct enq_grant grant[SET_MOST];
};

#define BOXES 16

static struct box boxes[BOXES];

static struct box *find_box(uint64_t ticket)
{
    for (unsigned i = 0; i < BOXES; i++)
        if (boxes[i].ticket == ticket)
            return &boxes[i];
    abort();
}

static void set_wish(struct wish *wish, const struct op *op)
{
    for (unsigned i = 0; i < op_members(op); i++) {
        backend_request(&wish->req[i], &op[i], wish->id[i]);
        wish->reqs[i] = &wish->req[i];
    }
}

static void set_grants(struct op *op, const struct enq_grant *grants)
{
    for (unsigned i = 0; i < op_members(op); i++)
        backend_grant(&op[i], &grants[i]);
}

int backend_lock_set(struct op *op)
{
    struct enq_grant grants[SET_MOST];
    struct wish wish;
    int rc;

    set_wish(&wish, op);
    rc = enq_lock_set(backend_self, wish.reqs, op_members(op), grants);
    if (rc == ENQ_OK && op->kind != OP_TEST)
        set_grants(op, grants);
    return rc;
}

/* It stands in the queues, of which its caller is told nothing but the
   ticket: see note_started() in backend_enq.c. */
static void note_started(struct op *op, uint64_t ticket)
{
    const struct started *r;

    for (unsigned i = 0; i < op_members(op); i++)
        op[i].ticket = ticket;
    if (backend_self->remote != NULL)
        return;
    r = backend_self->async.started[(uint32_t)ticket - 1];
    for (unsigned i = 0; i < op_members(op); i++) {
        const struct place *place = &r->set->set.member[i].place;

        op[i].handle = place_handle(backend_self->map, place);
        if (op[i].ident == 0)
            op[i].ident = op[i].handle;
        if (entry_handle(backend_self->map, place->e) == op[i].handle)
            backend_note_queued(&op[i], place->e);
    }
}

int backend_start_set(struct op *op)
{
    struct box *box = find_box(0);
    struct wish wish;
    uint64_t ticket;
    int rc;

    set_wish(&wish, op);
    rc = enq_start_set(backend_self, wish.reqs, op_members(op), box->grant,
        &ticket);
    if (rc == ENQ_PENDING) {
        box->ticket = ticket;
        note_started(op, ticket);
    } else if (rc == ENQ_OK) {
        set_grants(op, box->grant);
    }
    return rc;
}

void backend_take_set(struct op *op)
{
    struct box *box = find_box(op->ticket);

    for (unsigned i = 0; i < op_members(op); i++) {
        op[i].token = box->grant[i].token;
        op[i].given = box->grant[i].handle;
        if (op[i].handle == 0)
            op[i].handle = op[i].given; /* a bridge does not tell it before */
    }
    box->ticket = 0;
}

int backend_unlock_set(const struct op *op, const struct held *held)
{
    struct enq_grant grants[SET_MOST];

    for (unsigned i = 0; i < op_members(op); i++)
        grants[i] = (struct enq_grant){
            .handle = held[i].handle, .token = held[i].op.token};
    return enq_unlock_set(backend_self, grants, op_members(op));
}
