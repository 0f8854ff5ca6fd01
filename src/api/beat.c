/*
 * beat.c - api: heartbeats: locks that are renewed by the helper thread
 * (see desk.h).
 */
#include <stdlib.h>

#include "api/attachment.h"
#include "api/helper.h"
#include "lock/hold.h"

void beat_drop(struct desk *d, struct beat *b)
{
    heap_remove(&d->heartbeats, &b->timer);
    heap_unreserve(&d->heartbeats);
    cds_list_del(&b->node);
    free(b);
}

/* A lock that is given back leaves its beat behind until that is due: where
   locks come and go many times a beat they would be many. */
#define BEATS_FEW 64

static void drop_lost_beats(struct enq *e)
{
    struct desk *d = &e->desk;
    struct beat *b, *next;

    if (d->heartbeats.owners < d->beats_most)
        return;
    cds_list_for_each_entry_safe (b, next, &d->beats, node)
        if (b->handle != 0 && b != d->beating &&
            hold_alive(e->map, b->handle) != ENQ_OK)
            beat_drop(d, b);
    d->beats_most = 2 * d->heartbeats.owners + BEATS_FEW;
}

struct beat *beat_make(struct enq *e, int64_t every_ms)
{
    struct beat *b = calloc(1, sizeof(*b));
    int rc = b == NULL ? -ENOMEM : 0;

    if (rc == 0) {
        pthread_mutex_lock(&e->desk.mutex);
        drop_lost_beats(e);
        rc = heap_reserve(&e->desk.heartbeats);
        if (rc == 0)
            cds_list_add(&b->node, &e->desk.beats);
        pthread_mutex_unlock(&e->desk.mutex);
    }
    if (rc != 0) {
        free(b);
        why(rc, "out of memory for a heartbeat");
        return NULL;
    }
    b->every_ms = every_ms;
    return b;
}

void beat_free(struct desk *d, struct beat *b)
{
    if (b == NULL)
        return;
    pthread_mutex_lock(&d->mutex);
    beat_drop(d, b);
    pthread_mutex_unlock(&d->mutex);
}

void beat_start(struct enq *e, struct beat *b, enq_handle handle, mono_t since)
{
    b->handle = handle;
    heap_set(&e->desk.heartbeats, &b->timer, mono_add_ms(since, b->every_ms));
}

void beat_begin(struct enq *e, struct beat *b, enq_handle handle)
{
    mono_t at;

    pthread_mutex_lock(&e->desk.mutex);
    beat_start(e, b, handle, sys.now());
    at = b->timer.at;
    pthread_mutex_unlock(&e->desk.mutex);
    helper_come_at(at);
}

/* A beat that fails for a passing reason is tried again until the lease ends:
   only an answer that the lock is gone ends it. */
void beat_due(struct enq *e, struct thread *t, mono_t now)
{
    struct desk *d = &e->desk;
    struct heap_node *first;

    while ((first = heap_first(&d->heartbeats)) != NULL &&
        mono_reached(first->at, now)) {
        struct beat *b = caa_container_of(first, struct beat, timer);
        int rc;

        heap_set(&d->heartbeats, first, mono_add_ms(now, b->every_ms));
        d->beating = b;
        pthread_mutex_unlock(&d->mutex);
        rc = hold_beat(&e->session, t, b->handle);
        pthread_mutex_lock(&d->mutex);
        d->beating = NULL;
        if (rc > 0)
            beat_drop(d, b);
    }
}
