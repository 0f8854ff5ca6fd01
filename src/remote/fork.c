/*
 * fork.c - remote: what a child of fork must not keep: our sockets. It would
 * keep the connection of a parent that dies, and so its locks, until the bridge
 * has waited for a word in vain.
 *
 * A child of a bare clone(), for which no handler is run, keeps them, and one
 * that is forked in the very moment of a connect.
 */
#include "remote/fork.h"

#include <errno.h>
#include <unistd.h>

#include "base/why.h"
#include "remote/client.h"
#include "remote/held.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static CDS_LIST_HEAD(all);
static CDS_LIST_HEAD(foreign); /* a parent's that were closed here */
static bool registered;

static void prepare(void)
{
    pthread_mutex_lock(&mutex);
}

static void in_parent(void)
{
    pthread_mutex_unlock(&mutex);
}

static void put(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

static void in_child(void)
{
    struct remote *r;

    cds_list_for_each_entry (r, &all, all) {
        put(&r->fd);
        put(&r->bell);
        put(&r->held.fd);
    }
    CDS_INIT_LIST_HEAD(&all);
    pthread_mutex_init(&mutex, NULL);
}

/* Others of the parent's threads may have been changing what it holds: it is
   left as it is, and kept, so that nobody takes it for a leak. */
void fork_forget(struct remote *r)
{
    pthread_mutex_lock(&mutex);
    cds_list_add(&r->all, &foreign);
    pthread_mutex_unlock(&mutex);
}

int fork_begin(struct remote *r)
{
    int rc = 0;

    pthread_mutex_lock(&mutex);
    if (!registered)
        rc = pthread_atfork(prepare, in_parent, in_child);
    if (rc == 0) {
        registered = true;
        cds_list_add(&r->all, &all);
    }
    pthread_mutex_unlock(&mutex);
    return rc == 0 ? 0 : why(-rc, "out of memory for the fork handlers");
}

void fork_end(struct remote *r)
{
    pthread_mutex_lock(&mutex);
    cds_list_del(&r->all);
    pthread_mutex_unlock(&mutex);
}

void fork_opened(struct remote *r, int fd)
{
    pthread_mutex_lock(&mutex);
    r->fd = fd;
    pthread_mutex_unlock(&mutex);
}

void fork_close(struct remote *r)
{
    pthread_mutex_lock(&mutex);
    put(&r->fd);
    pthread_mutex_unlock(&mutex);
}
