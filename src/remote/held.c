/*
 * held.c - remote: the locks that this attachment holds, as far as we know.
 *
 * The bridge tells what becomes of them; what it could not tell, as there was
 * no connection, is asked for when there is one again (doubts). Meanwhile our
 * own clock says when a ttl has ended: it began before the bridge's did.
 */
#include "remote/held.h"

#include <stdlib.h>
#include <string.h>

#include "base/why.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/leader.h"
#include "remote/pending.h"
#include "remote/sure.h"
#include "sync/sys.h"

/* So many of the last locks that are gone are remembered, so that a caller that
   asks is told why. */
#define GONE_KEPT 4096u

bool held_begin(struct held_all *all)
{
    pthread_mutex_init(&all->mutex, NULL);
    CDS_INIT_LIST_HEAD(&all->locks);
    CDS_INIT_LIST_HEAD(&all->gone);
    CDS_INIT_LIST_HEAD(&all->doubts);
    CDS_INIT_LIST_HEAD(&all->events);
    CDS_INIT_LIST_HEAD(&all->session.node);
    all->fd = -1;
    return number_map_begin(&all->by_handle);
}

static struct held *find(const struct held_all *all, enq_handle handle)
{
    struct map_node *node = number_map_find(&all->by_handle, handle);

    return node == NULL ? NULL : caa_container_of(node, struct held, by_handle);
}

static void end_heartbeat(struct held_all *all, struct held *h)
{
    if (h->heartbeat_ms == 0)
        return;
    heap_remove(&all->heartbeats, &h->heartbeat);
    heap_unreserve(&all->heartbeats);
    h->heartbeat_ms = 0;
}

static void set_suspect(struct held_all *all, struct held *h, bool suspect)
{
    all->n_suspect += (size_t)suspect - (size_t)h->suspect;
    h->suspect = suspect;
}

static void forget(struct held_all *all, struct held *h)
{
    end_heartbeat(all, h);
    set_suspect(all, h, false);
    remote_event_drop(all, &h->event);
    cds_list_del(&h->doubt);
    cds_list_del(&h->node);
    number_map_remove(&all->by_handle, &h->by_handle);
    all->n_gone -= h->result != ENQ_OK;
    free(h);
}

void held_end(struct held_all *all)
{
    struct held *h, *next;

    cds_list_for_each_entry_safe (h, next, &all->locks, node)
        forget(all, h);
    cds_list_for_each_entry_safe (h, next, &all->gone, node)
        forget(all, h);
    heap_free(&all->heartbeats);
    number_map_end(&all->by_handle);
    pthread_mutex_destroy(&all->mutex);
}

/* --- coming --- */

static void begin_heartbeat(struct held_all *all, struct held *h, mono_t since,
    int64_t heartbeat_ms)
{
    if (heartbeat_ms == 0 || heap_reserve(&all->heartbeats) != 0)
        return;
    h->heartbeat_ms = heartbeat_ms;
    heap_set(&all->heartbeats, &h->heartbeat, mono_add_ms(since, heartbeat_ms));
}

static void add(struct held_all *all, struct held *h, const struct want *want,
    mono_t since)
{
    struct held *old = find(all, h->handle);

    if (old != NULL) /* of a request that was sent again */
        forget(all, old);
    number_map_add(&all->by_handle, &h->by_handle, h->handle);
    cds_list_add_tail(&h->node, &all->locks);
    begin_heartbeat(all, h, since, want->heartbeat_ms);
}

/* Without memory for it, its bridge is asked each time. */
void held_add(struct remote *r, const struct enq_grant *g,
    const struct want *want, struct since since)
{
    struct held *h = calloc(1, sizeof(*h));

    if (h == NULL)
        return;
    CDS_INIT_LIST_HEAD(&h->doubt);
    CDS_INIT_LIST_HEAD(&h->event.node);
    h->handle = g->handle;
    h->token = g->token;
    h->ttl_ms = want->ttl_ms;
    h->on_death = want->on_death;
    h->event.held_back = want->is_event;
    h->ends = mono_add_ms(since.least, want->ttl_ms);
    h->ends_late = mono_add_ms(since.most, want->ttl_ms);
    pthread_mutex_lock(&r->held.mutex);
    add(&r->held, h, want, since.most);
    pthread_mutex_unlock(&r->held.mutex);
    if (want->heartbeat_ms != 0)
        remote_ring(r);
}

/* --- going --- */

static void put_name(char name[ENQ_OWNER_BYTES], const char *owner)
{
    size_t n = strnlen(owner, ENQ_OWNER_BYTES - 1);

    memcpy(name, owner, n);
    name[n] = '\0';
}

/* Under the mutex. */
void held_show(struct held_all *all, enq_handle handle)
{
    struct held *h = find(all, handle);

    if (h != NULL)
        remote_event_show(all, &h->event);
}

/* It comes before all that has happened to its locks since. */
void remote_event_result(struct remote *r, struct remote_started *s)
{
    const struct order *o = &s->order;

    pthread_mutex_lock(&r->held.mutex);
    remote_event_add(&r->held, &s->event, REMOTE_EVENT_RESULT);
    for (size_t i = 0; i < o->n && s->request.result == ENQ_OK; i++)
        held_show(&r->held, o->grants[i].handle);
    pthread_mutex_unlock(&r->held.mutex);
}

/* Not before its event has been read: of what was read late there are more. */
static void trim(struct held_all *all)
{
    while (all->n_gone > GONE_KEPT) {
        struct held *h = cds_list_first_entry(&all->gone, struct held, node);

        if (!cds_list_empty(&h->event.node) || h->event.held_back)
            return;
        forget(all, h);
    }
}

static void go(struct held_all *all, struct held *h, int result)
{
    end_heartbeat(all, h);
    set_suspect(all, h, false);
    h->result = result;
    cds_list_del_init(&h->doubt);
    cds_list_del(&h->node);
    cds_list_add_tail(&h->node, &all->gone);
    all->n_gone++;
    remote_event_add(all, &h->event, REMOTE_EVENT_GONE);
}

void held_gone(struct remote *r, enq_handle handle, int result,
    const char *owner)
{
    struct held_all *all = &r->held;
    struct held *h;

    pthread_mutex_lock(&all->mutex);
    h = find(all, handle);
    if (h != NULL && h->result == ENQ_OK &&
        !(h->leaving && result == ENQ_NOTHELD)) {
        put_name(h->taker, owner);
        go(all, h, result);
        trim(all);
    }
    pthread_mutex_unlock(&all->mutex);
}

void held_drop(struct remote *r, enq_handle handle, uint64_t token)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL && (token == 0 || token == h->token))
        forget(&r->held, h);
    pthread_mutex_unlock(&r->held.mutex);
}

/* --- staying --- */

void held_told(struct remote *r, enq_handle handle, uint32_t kind,
    const char *owner)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL && h->result == ENQ_OK) {
        if (kind == REMOTE_EVENT_BLOCKING)
            put_name(h->asker, owner);
        remote_event_add(&r->held, &h->event, kind);
    }
    pthread_mutex_unlock(&r->held.mutex);
}

void held_renewed(struct remote *r, enq_handle handle, mono_t since,
    int64_t ttl_ms)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL)
        h->ends = h->ends_late =
            mono_add_ms(since, ttl_ms != 0 ? ttl_ms : h->ttl_ms);
    pthread_mutex_unlock(&r->held.mutex);
}

void held_promoted(struct remote *r, enq_handle handle, uint64_t token)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL)
        h->token = token;
    pthread_mutex_unlock(&r->held.mutex);
}

static int check(const struct remote *r, const struct held *h, mono_t now)
{
    bool release = h->on_death == ENQ_DEATH_RELEASE;

    if (h->result != ENQ_OK)
        return h->result;
    if (h->ttl_ms == 0)
        return ENQ_PENDING; /* adopted: its ttl was not told */
    if (mono_reached(h->ends_late, now))
        return ENQ_EXPIRED;
    if (release && (h->suspect || sure_is_over(r, now)))
        return ENQ_ELEASE;
    return mono_reached(h->ends, now) || (release && sure_has_to_ask(r))
        ? ENQ_PENDING
        : ENQ_OK;
}

bool held_look(struct remote *r, enq_handle handle, int *result)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL)
        *result = check(r, h, sys.now());
    pthread_mutex_unlock(&r->held.mutex);
    return h != NULL;
}

void held_confirm(struct remote *r, enq_handle handle)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL)
        set_suspect(&r->held, h, false);
    pthread_mutex_unlock(&r->held.mutex);
}

void held_leave(struct remote *r, enq_handle handle, uint64_t token,
    bool leaves)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL && (token == 0 || token == h->token))
        h->leaving = leaves;
    pthread_mutex_unlock(&r->held.mutex);
}

bool held_has(struct remote *r, enq_handle handle, uint64_t token)
{
    struct held *h;
    bool has;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    has = h != NULL && h->result == ENQ_OK && (token == 0 || token == h->token);
    pthread_mutex_unlock(&r->held.mutex);
    return has;
}

/* --- a new connection --- */

void held_doubt_all(struct remote *r, bool suspect)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    cds_list_for_each_entry (h, &r->held.locks, node) {
        cds_list_del(&h->doubt);
        cds_list_add_tail(&h->doubt, &r->held.doubts);
        if (suspect && h->on_death == ENQ_DEATH_RELEASE)
            set_suspect(&r->held, h, true);
    }
    pthread_mutex_unlock(&r->held.mutex);
}

bool held_has_suspects(struct remote *r)
{
    bool some;

    pthread_mutex_lock(&r->held.mutex);
    some = r->held.n_suspect > 0;
    pthread_mutex_unlock(&r->held.mutex);
    return some;
}

/* A session is over, too, when the last of its locks has run out while there
   was no bridge. */
static int why_over(const struct held *h)
{
    return h->ttl_ms != 0 && mono_reached(h->ends, sys.now()) ? ENQ_EXPIRED
                                                              : ENQ_OWNERDIED;
}

/* What stays beyond a session is nobody's from now: its bridge knows of it. */
void held_session_over(struct remote *r)
{
    struct held_all *all = &r->held;
    struct held *h, *next;

    pthread_mutex_lock(&all->mutex);
    cds_list_for_each_entry_safe (h, next, &all->locks, node) {
        if (h->on_death != ENQ_DEATH_RELEASE)
            forget(all, h);
        else
            go(all, h, why_over(h));
    }
    pthread_mutex_unlock(&all->mutex);
}

enq_handle held_next_doubt(struct remote *r)
{
    struct held_all *all = &r->held;
    enq_handle handle = 0;

    pthread_mutex_lock(&all->mutex);
    if (!cds_list_empty(&all->doubts)) {
        struct held *h = cds_list_first_entry(&all->doubts, struct held, doubt);

        cds_list_del_init(&h->doubt);
        handle = h->handle;
    }
    pthread_mutex_unlock(&all->mutex);
    return handle;
}

void held_doubt_again(struct remote *r, enq_handle handle)
{
    struct held *h;

    pthread_mutex_lock(&r->held.mutex);
    h = find(&r->held, handle);
    if (h != NULL && h->result == ENQ_OK && cds_list_empty(&h->doubt))
        cds_list_add_tail(&h->doubt, &r->held.doubts);
    pthread_mutex_unlock(&r->held.mutex);
}

/* --- heartbeats --- */

enq_handle held_next_heartbeat(struct remote *r, mono_t now)
{
    struct held_all *all = &r->held;
    struct heap_node *first;
    enq_handle handle = 0;

    pthread_mutex_lock(&all->mutex);
    first = heap_first(&all->heartbeats);
    if (first != NULL && mono_reached(first->at, now)) {
        struct held *h = caa_container_of(first, struct held, heartbeat);

        heap_set(&all->heartbeats, first, mono_add_ms(now, h->heartbeat_ms));
        handle = h->handle;
    }
    pthread_mutex_unlock(&all->mutex);
    return handle;
}

mono_t held_first_heartbeat(struct remote *r)
{
    struct heap_node *first;
    mono_t at = MONO_NEVER;

    pthread_mutex_lock(&r->held.mutex);
    first = heap_first(&r->held.heartbeats);
    if (first != NULL)
        at = first->at;
    pthread_mutex_unlock(&r->held.mutex);
    return at;
}
