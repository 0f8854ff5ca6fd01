/*
 * heartbeat.c - async: heartbeats: locks that are renewed by the helper thread
 * (see async.h).
 */
#include "async/heartbeat.h"

#include <errno.h>
#include <stdlib.h>

#include "async/attachment.h"
#include "async/bell.h"
#include "base/why.h"
#include "lock/hold.h"
#include "sync/sys.h"

void heartbeat_drop(struct async *d, struct heartbeat *b)
{
    heap_remove(&d->heartbeats_due, &b->timer);
    heap_unreserve(&d->heartbeats_due);
    cds_list_del(&b->node);
    free(b);
}

/* A lock that is given back leaves its heartbeat behind until that is due:
   where locks come and go many times a heartbeat they would be many. */
#define HEARTBEATS_FEW 64

static void drop_lost_heartbeats(struct enq *e)
{
    struct async *d = &e->async;
    struct heartbeat *b, *next;

    if (d->heartbeats_due.owners < d->heartbeats_most)
        return;
    cds_list_for_each_entry_safe (b, next, &d->heartbeats, node)
        if (b->handle != 0 && b != d->beating &&
            hold_alive(e->map, b->handle) != ENQ_OK)
            heartbeat_drop(d, b);
    d->heartbeats_most = 2 * d->heartbeats_due.owners + HEARTBEATS_FEW;
}

struct heartbeat *heartbeat_make(struct enq *e, int64_t every_ms)
{
    struct heartbeat *b = calloc(1, sizeof(*b));
    int rc = b == NULL ? -ENOMEM : 0;

    if (rc == 0) {
        pthread_mutex_lock(&e->async.mutex);
        drop_lost_heartbeats(e);
        rc = heap_reserve(&e->async.heartbeats_due);
        if (rc == 0)
            cds_list_add(&b->node, &e->async.heartbeats);
        pthread_mutex_unlock(&e->async.mutex);
    }
    if (rc != 0) {
        free(b);
        why(rc, "out of memory for a heartbeat");
        return NULL;
    }
    b->every_ms = every_ms;
    return b;
}

void heartbeat_free(struct async *d, struct heartbeat *b)
{
    if (b == NULL)
        return;
    pthread_mutex_lock(&d->mutex);
    heartbeat_drop(d, b);
    pthread_mutex_unlock(&d->mutex);
}

void heartbeat_start(struct enq *e, struct heartbeat *b, enq_handle handle,
    mono_t since)
{
    b->handle = handle;
    heap_set(&e->async.heartbeats_due, &b->timer,
        mono_add_ms(since, b->every_ms));
}

void heartbeat_begin(struct enq *e, struct heartbeat *b, enq_handle handle)
{
    mono_t at;

    pthread_mutex_lock(&e->async.mutex);
    heartbeat_start(e, b, handle, sys.now());
    at = b->timer.at;
    pthread_mutex_unlock(&e->async.mutex);
    helper_come_at(at);
}

/* A heartbeat that fails for a passing reason is tried again until the lease
   ends: only an answer that the lock is gone ends it. */
void heartbeat_due(struct enq *e, struct thread *t, mono_t now)
{
    struct async *d = &e->async;
    struct heap_node *first;

    while ((first = heap_first(&d->heartbeats_due)) != NULL &&
        mono_reached(first->at, now)) {
        struct heartbeat *b = caa_container_of(first, struct heartbeat, timer);
        int rc;

        heap_set(&d->heartbeats_due, first, mono_add_ms(now, b->every_ms));
        d->beating = b;
        pthread_mutex_unlock(&d->mutex);
        rc = hold_heartbeat(&e->session, t, b->handle);
        pthread_mutex_lock(&d->mutex);
        d->beating = NULL;
        if (rc > 0)
            heartbeat_drop(d, b);
    }
}
