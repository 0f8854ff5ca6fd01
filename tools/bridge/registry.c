/*
 * registry.c - whose locks and whose pending requests are at which loop (see
 * registry.h).
 */
#include "registry.h"

#include <stdlib.h>

#include "session.h"

/* So many that two loops seldom want one at once. */
#define PARTS_BITS 6
#define PARTS (1u << PARTS_BITS)

struct part {
    pthread_mutex_t mutex;
    struct table held; /* by handle */
};

struct registry {
    pthread_mutex_t mutex; /* guards both tables, by ticket */
    struct table waits, early;
    struct part parts[PARTS];
};

struct registry *registry_make(void)
{
    struct registry *registry = calloc(1, sizeof(*registry));
    bool whole;

    if (registry == NULL)
        return NULL;
    pthread_mutex_init(&registry->mutex, NULL);
    whole = table_begin(&registry->waits);
    whole &= table_begin(&registry->early);
    for (unsigned i = 0; i < PARTS; i++) {
        pthread_mutex_init(&registry->parts[i].mutex, NULL);
        whole &= table_begin(&registry->parts[i].held);
    }
    if (whole)
        return registry;
    registry_free(registry);
    return NULL;
}

void registry_free(struct registry *registry)
{
    if (registry == NULL)
        return;
    table_end(&registry->waits);
    table_end(&registry->early);
    for (unsigned i = 0; i < PARTS; i++)
        table_end(&registry->parts[i].held);
    free(registry);
}

/* --- held locks --- */

/* By other bits than a table's slot. */
static struct part *part_of(struct registry *registry, enq_handle handle)
{
    uint64_t hash = handle * UINT64_C(0x9e3779b97f4a7c15);

    return &registry->parts[hash >> (64 - PARTS_BITS)];
}

/* The part is the caller's, to unlock, if there is one. */
static struct held *enter(struct part *part, enq_handle handle)
{
    struct table_node *node;

    pthread_mutex_lock(&part->mutex);
    node = table_find(&part->held, handle);
    return node == NULL ? NULL : TABLE_OF(node, struct held, by_registry);
}

static void leave(struct part *part)
{
    pthread_mutex_unlock(&part->mutex);
}

void registry_add(struct bridge *b, struct held *h)
{
    struct part *part = part_of(b->share->registry, h->handle);

    h->loop = b;
    pthread_mutex_lock(&part->mutex);
    table_add(&part->held, &h->by_registry, h->handle);
    leave(part);
}

void registry_remove(struct bridge *b, struct held *h)
{
    struct part *part = part_of(b->share->registry, h->handle);

    pthread_mutex_lock(&part->mutex);
    table_remove(&part->held, &h->by_registry);
    leave(part);
}

struct bridge *registry_find(struct registry *registry, enq_handle handle)
{
    struct part *part = part_of(registry, handle);
    struct held *h = enter(part, handle);
    struct bridge *loop = h == NULL ? NULL : h->loop;

    leave(part);
    return loop;
}

void registry_change(struct registry *registry, enq_handle handle,
    uint64_t token, uint8_t mode)
{
    struct part *part = part_of(registry, handle);
    struct held *h = enter(part, handle);

    if (h != NULL && token != 0)
        h->token = token;
    if (h != NULL)
        h->mode = mode;
    leave(part);
}

bool registry_look(struct registry *registry, enq_handle handle,
    uint64_t *token, uint8_t *mode)
{
    struct part *part = part_of(registry, handle);
    struct held *h = enter(part, handle);

    if (h != NULL) {
        *token = h->token;
        *mode = h->mode;
    }
    leave(part);
    return h != NULL;
}

struct notice {
    struct message message;
    enq_handle handle;
};

static void open_notice(struct bridge *b, struct message *message)
{
    struct notice *notice = (struct notice *)message;
    struct held *h = held_find(b, notice->handle);

    if (h != NULL)
        held_remove(b, h);
    free(notice);
}

/* Without memory for the message it stays marked until its session ends. */
void registry_gone(struct registry *registry, enq_handle handle)
{
    struct part *part = part_of(registry, handle);
    struct held *h = enter(part, handle);
    struct bridge *loop = h == NULL || h->gone ? NULL : h->loop;
    struct notice *notice;

    if (loop != NULL)
        h->gone = true;
    leave(part);
    notice = loop == NULL ? NULL : malloc(sizeof(*notice));
    if (notice == NULL)
        return;
    notice->message.open = open_notice;
    notice->handle = handle;
    mailbox_send(loop, &notice->message);
}

/* --- waits --- */

struct table_node *registry_wait(struct registry *registry, struct wait *w,
    uint64_t ticket)
{
    struct table_node *early;

    pthread_mutex_lock(&registry->mutex);
    early = table_find(&registry->early, ticket);
    if (early == NULL) {
        table_add(&registry->waits, &w->by_ticket, ticket);
    } else {
        table_remove(&registry->early, early);
        w->by_ticket.key = ticket; /* by which it is cancelled */
    }
    pthread_mutex_unlock(&registry->mutex);
    return early;
}

struct wait *registry_result(struct registry *registry, uint64_t ticket,
    struct table_node *early)
{
    struct table_node *node;

    pthread_mutex_lock(&registry->mutex);
    node = table_find(&registry->waits, ticket);
    if (node != NULL)
        table_remove(&registry->waits, node);
    else
        table_add(&registry->early, early, ticket);
    pthread_mutex_unlock(&registry->mutex);
    return node == NULL ? NULL : TABLE_OF(node, struct wait, by_ticket);
}

static struct table_node *take_any(struct table *table)
{
    struct table_node *node = table_any(table);

    if (node != NULL)
        table_remove(table, node);
    return node;
}

struct wait *registry_any_wait(struct registry *registry)
{
    struct table_node *node = take_any(&registry->waits);

    return node == NULL ? NULL : TABLE_OF(node, struct wait, by_ticket);
}

struct table_node *registry_any_early(struct registry *registry)
{
    return take_any(&registry->early);
}
