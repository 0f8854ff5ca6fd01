/*
 * roll.c - whose locks and whose pending requests are at which loop (see
 * roll.h).
 */
#include "roll.h"

#include <stdlib.h>

#include "session.h"

/* So many that two loops seldom want one at once. */
#define PARTS_BITS 6
#define PARTS (1u << PARTS_BITS)

struct part {
    pthread_mutex_t mutex;
    struct table held; /* by handle */
};

struct roll {
    pthread_mutex_t mutex; /* guards both tables, by ticket */
    struct table waits, early;
    struct part parts[PARTS];
};

struct roll *roll_make(void)
{
    struct roll *roll = calloc(1, sizeof(*roll));
    bool whole;

    if (roll == NULL)
        return NULL;
    pthread_mutex_init(&roll->mutex, NULL);
    whole = table_begin(&roll->waits);
    whole &= table_begin(&roll->early);
    for (unsigned i = 0; i < PARTS; i++) {
        pthread_mutex_init(&roll->parts[i].mutex, NULL);
        whole &= table_begin(&roll->parts[i].held);
    }
    if (whole)
        return roll;
    roll_free(roll);
    return NULL;
}

void roll_free(struct roll *roll)
{
    if (roll == NULL)
        return;
    table_end(&roll->waits);
    table_end(&roll->early);
    for (unsigned i = 0; i < PARTS; i++)
        table_end(&roll->parts[i].held);
    free(roll);
}

/* --- held locks --- */

/* By other bits than a table's slot. */
static struct part *part_of(struct roll *roll, enq_handle handle)
{
    uint64_t hash = handle * UINT64_C(0x9e3779b97f4a7c15);

    return &roll->parts[hash >> (64 - PARTS_BITS)];
}

/* The part is the caller's, to unlock, if there is one. */
static struct held *enter(struct part *part, enq_handle handle)
{
    struct table_node *node;

    pthread_mutex_lock(&part->mutex);
    node = table_find(&part->held, handle);
    return node == NULL ? NULL : TABLE_OF(node, struct held, by_roll);
}

static void leave(struct part *part)
{
    pthread_mutex_unlock(&part->mutex);
}

void roll_add(struct bridge *b, struct held *h)
{
    struct part *part = part_of(b->share->roll, h->handle);

    h->loop = b;
    pthread_mutex_lock(&part->mutex);
    table_add(&part->held, &h->by_roll, h->handle);
    leave(part);
}

void roll_remove(struct bridge *b, struct held *h)
{
    struct part *part = part_of(b->share->roll, h->handle);

    pthread_mutex_lock(&part->mutex);
    table_remove(&part->held, &h->by_roll);
    leave(part);
}

struct bridge *roll_find(struct roll *roll, enq_handle handle)
{
    struct part *part = part_of(roll, handle);
    struct held *h = enter(part, handle);
    struct bridge *loop = h == NULL ? NULL : h->loop;

    leave(part);
    return loop;
}

void roll_change(struct roll *roll, enq_handle handle, uint64_t token,
    uint8_t mode)
{
    struct part *part = part_of(roll, handle);
    struct held *h = enter(part, handle);

    if (h != NULL && token != 0)
        h->token = token;
    if (h != NULL)
        h->mode = mode;
    leave(part);
}

bool roll_look(struct roll *roll, enq_handle handle, uint64_t *token,
    uint8_t *mode)
{
    struct part *part = part_of(roll, handle);
    struct held *h = enter(part, handle);

    if (h != NULL) {
        *token = h->token;
        *mode = h->mode;
    }
    leave(part);
    return h != NULL;
}

struct notice {
    struct letter letter;
    enq_handle handle;
};

static void open_notice(struct bridge *b, struct letter *letter)
{
    struct notice *notice = (struct notice *)letter;
    struct held *h = held_find(b, notice->handle);

    if (h != NULL)
        held_remove(b, h);
    free(notice);
}

/* Without memory for the letter it stays marked until its session ends. */
void roll_gone(struct roll *roll, enq_handle handle)
{
    struct part *part = part_of(roll, handle);
    struct held *h = enter(part, handle);
    struct bridge *loop = h == NULL || h->gone ? NULL : h->loop;
    struct notice *notice;

    if (loop != NULL)
        h->gone = true;
    leave(part);
    notice = loop == NULL ? NULL : malloc(sizeof(*notice));
    if (notice == NULL)
        return;
    notice->letter.open = open_notice;
    notice->handle = handle;
    post_send(loop, &notice->letter);
}

/* --- waits --- */

struct table_node *roll_wait(struct roll *roll, struct wait *w, uint64_t ticket)
{
    struct table_node *early;

    pthread_mutex_lock(&roll->mutex);
    early = table_find(&roll->early, ticket);
    if (early == NULL) {
        table_add(&roll->waits, &w->by_ticket, ticket);
    } else {
        table_remove(&roll->early, early);
        w->by_ticket.key = ticket; /* by which it is cancelled */
    }
    pthread_mutex_unlock(&roll->mutex);
    return early;
}

struct wait *roll_result(struct roll *roll, uint64_t ticket,
    struct table_node *early)
{
    struct table_node *node;

    pthread_mutex_lock(&roll->mutex);
    node = table_find(&roll->waits, ticket);
    if (node != NULL)
        table_remove(&roll->waits, node);
    else
        table_add(&roll->early, early, ticket);
    pthread_mutex_unlock(&roll->mutex);
    return node == NULL ? NULL : TABLE_OF(node, struct wait, by_ticket);
}

static struct table_node *take_any(struct table *table)
{
    struct table_node *node = table_any(table);

    if (node != NULL)
        table_remove(table, node);
    return node;
}

struct wait *roll_any_wait(struct roll *roll)
{
    struct table_node *node = take_any(&roll->waits);

    return node == NULL ? NULL : TABLE_OF(node, struct wait, by_ticket);
}

struct table_node *roll_any_early(struct roll *roll)
{
    return take_any(&roll->early);
}
