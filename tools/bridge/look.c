/*
 * look.c - looking at the table, by a thread of its own (see look.h).
 *
 * The mutex guards both lists. What is being made is the thread's alone, what
 * is done the loop's.
 */
#include "look.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "conn.h"
#include "rows.h"
#include "say.h"

/* So many may be asked for and not made yet, of all clients and of one. Of one
   only the first is in the thread's queue, so that the clients take turns. */
#define LOOKS_MAX 4096u
#define LOOKS_OF_ONE 64u

struct look {
    struct cds_list_head node;
    struct rows_wish wish;
    uint64_t serial; /* of the connection */
    enum op op;
    char id[ASK_ID_BYTES];
    bool has_id, id_is_number;
    struct text out;
};

struct looks {
    pthread_mutex_t mutex;
    pthread_cond_t more;
    pthread_t thread;
    struct cds_list_head asked, made;
    uint32_t n;
    bool over;
    int fd;
};

/* --- the thread --- */

static void make(struct bridge *b, struct look *look)
{
    const struct reply reply = {&look->out, look->op,
        look->has_id ? look->id : NULL, look->id_is_number};

    rows_make(b->space, &look->wish, &reply);
}

static struct look *next(struct looks *l)
{
    struct look *look = NULL;

    pthread_mutex_lock(&l->mutex);
    while (cds_list_empty(&l->asked) && !l->over)
        pthread_cond_wait(&l->more, &l->mutex);
    if (!l->over) {
        look = cds_list_first_entry(&l->asked, struct look, node);
        cds_list_del(&look->node);
    }
    pthread_mutex_unlock(&l->mutex);
    return look;
}

static void *run(void *context)
{
    struct bridge *b = context;
    struct looks *l = b->looks;
    uint64_t one = 1;
    struct look *look;

    while ((look = next(l)) != NULL) {
        make(b, look);
        pthread_mutex_lock(&l->mutex);
        cds_list_add_tail(&look->node, &l->made);
        pthread_mutex_unlock(&l->mutex);
        if (write(l->fd, &one, sizeof(one)) < 0)
            say("cannot report a finished list");
    }
    return NULL;
}

/* --- the loop --- */

int look_begin(struct bridge *b)
{
    struct looks *l = malloc(sizeof(*l));
    sigset_t all, before;

    if (l == NULL)
        return -1;
    *l = (struct looks){.mutex = PTHREAD_MUTEX_INITIALIZER,
        .more = PTHREAD_COND_INITIALIZER,
        .asked = CDS_LIST_HEAD_INIT(l->asked),
        .made = CDS_LIST_HEAD_INIT(l->made),
        .fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
    b->looks = l;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (l->fd >= 0 && pthread_create(&l->thread, NULL, run, b) != 0) {
        close(l->fd);
        l->fd = -1;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return l->fd;
}

static void forget(struct look *look)
{
    cds_list_del(&look->node);
    rows_forget(&look->wish);
    text_free(&look->out);
    free(look);
}

static void drop(struct cds_list_head *list)
{
    while (!cds_list_empty(list))
        forget(cds_list_first_entry(list, struct look, node));
}

void look_drop_all(struct bridge *b, struct conn *c)
{
    while (!cds_list_empty(&c->looks)) {
        forget(cds_list_first_entry(&c->looks, struct look, node));
        if (b->looks != NULL) /* else all is over */
            b->looks->n--;
    }
}

void look_end(struct bridge *b)
{
    struct looks *l = b->looks;

    pthread_mutex_lock(&l->mutex);
    l->over = true;
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->mutex);
    pthread_join(l->thread, NULL);
    drop(&l->asked);
    drop(&l->made);
    close(l->fd);
    free(l);
    b->looks = NULL;
}

static struct look *remember(struct bridge *b, const struct conn *c,
    const struct ask *ask)
{
    struct look *look = calloc(1, sizeof(*look));

    if (look == NULL)
        return NULL;
    look->serial = c->serial;
    look->op = ask->op;
    look->has_id = ask->has_id;
    look->id_is_number = ask->id_is_number;
    strcpy(look->id, ask->id);
    look->wish.most = (size_t)b->options.limits.list_entries;
    if (ask->limit >= 0 && (size_t)ask->limit < look->wish.most)
        look->wish.most = (size_t)ask->limit;
    strcpy(look->wish.peer,
        c->session != NULL || b->options.shared_ids ? "" : c->peer);
    if (rows_wish(&look->wish, ask->name, ask->owner))
        return look;
    free(look);
    return NULL;
}

/* Too much of what was asked for is not read yet: of all; or of one, for whom
   there is a quarter, so that others can have lists as well. */
static bool is_full(const struct bridge *b, const struct conn *c)
{
    const struct share *share = b->share;
    size_t unread = 0, most = (size_t)b->options.limits.lists_bytes;

    for (unsigned i = 0; i < share->n; i++)
        unread += share->loops[i].list_bytes;
    return unread >= most || c->listed >= most / 4;
}

static const char too_many[] = "Too many lists are being made or read";

static void to_thread(struct looks *l, struct look *look)
{
    pthread_mutex_lock(&l->mutex);
    cds_list_add_tail(&look->node, &l->asked);
    pthread_cond_signal(&l->more);
    pthread_mutex_unlock(&l->mutex);
}

void look_ask(struct bridge *b, struct conn *c, const struct ask *ask,
    const struct reply *reply)
{
    struct looks *l = b->looks;
    struct look *look = NULL;

    if (ask->op != OP_LIST && !ask->has_id) {
        reply_wrong(reply, "The request needs a reqUUID");
        return;
    }
    if (l->n < LOOKS_MAX / b->share->n && c->n_looks < LOOKS_OF_ONE &&
        !is_full(b, c))
        look = remember(b, c, ask);
    if (look == NULL) {
        reply_full(reply, too_many);
        return;
    }
    l->n++;
    if (c->n_looks++ == 0)
        to_thread(l, look);
    else
        cds_list_add_tail(&look->node, &c->looks);
}

/* When they were asked for there was room for all of them. */
static void refuse(struct conn *c, const struct look *look)
{
    const struct reply reply = {
        &c->out, look->op, look->has_id ? look->id : NULL, look->id_is_number};

    reply_full(&reply, too_many);
}

static void hand_over(struct conn *c, struct look *look)
{
    c->listed += look->out.n;
    if (c->out.n == 0) { /* a long one is not copied */
        struct text empty = c->out;

        c->out = look->out;
        look->out = empty;
        look->out.n = 0;
        c->out_at = 0;
    } else {
        text_put(&c->out, look->out.bytes, look->out.n);
    }
    c->out.failed |= look->out.failed;
}

static void give(struct bridge *b, struct look *look)
{
    struct conn *c = conn_find(b, look->serial);

    if (c == NULL)
        return;
    c->n_looks--;
    if (is_full(b, c))
        refuse(c, look);
    else
        hand_over(c, look);
    conn_wrote(b, c);
    if (cds_list_empty(&c->looks))
        return;
    look = cds_list_first_entry(&c->looks, struct look, node);
    cds_list_del(&look->node);
    to_thread(b->looks, look);
}

void look_take(struct bridge *b)
{
    struct looks *l = b->looks;
    CDS_LIST_HEAD(made);
    uint64_t n;

    if (read(l->fd, &n, sizeof(n)) < 0)
        return;
    pthread_mutex_lock(&l->mutex);
    cds_list_splice(&l->made, &made);
    CDS_INIT_LIST_HEAD(&l->made);
    pthread_mutex_unlock(&l->mutex);
    while (!cds_list_empty(&made)) {
        struct look *look = cds_list_first_entry(&made, struct look, node);

        give(b, look);
        l->n--;
        forget(look);
    }
}
