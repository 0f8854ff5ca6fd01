/*
 * open.c - remote: an attachment to a bridge begins and ends (see open.h).
 */
#include "remote/open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "base/process.h"
#include "base/spawn.h"
#include "base/why.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/fork.h"
#include "remote/held.h"
#include "remote/leader.h"
#include "remote/pending.h"
#include "remote/reader.h"
#include "remote/sure.h"
#include "remote/window.h"
#include "sync/sys.h"

#define GRACE_DEFAULT_MS 10000
/* getaddrinfo() needs the most of it. */
#define STACK_BYTES (256 * 1024)

/* So long is a bridge told that we go. */
#define GOODBYE_MS 1000

bool remote_is_named(const char *address)
{
    return address_is_remote(address);
}

bool remote_is_ours(const struct remote *r)
{
    return process_is(r->life);
}

const char *remote_name(const struct remote *r)
{
    return r->name;
}

/* --- begin --- */

static void begin_mutex(struct remote *r)
{
    pthread_condattr_t attr;

    pthread_mutex_init(&r->mutex, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&r->turn, &attr);
    pthread_condattr_destroy(&attr);
}

static int take_wish(struct remote *r, const struct remote_wish *wish)
{
    int rc = address_parse(wish->address, &r->address);

    if (rc != 0)
        return rc;
    r->life = wish->life;
    snprintf(r->name, sizeof(r->name), "%s", wish->address);
    snprintf(r->owner, sizeof(r->owner), "%s", wish->owner);
    r->grace_ms = r->address.grace_ms >= 0 ? r->address.grace_ms
        : wish->grace_ms > 0               ? wish->grace_ms
                                           : GRACE_DEFAULT_MS;
    sure_begin(r);
    if (wish->secret != NULL && (r->secret = strdup(wish->secret)) == NULL)
        return why(-ENOMEM, "out of memory");
    return 0;
}

static int start_reader(struct remote *r)
{
    int rc = spawn_thread(&r->reader, STACK_BYTES, reader_main, r);

    return rc == 0
        ? 0
        : why(-rc, "cannot start a thread for %s: %s", r->name, strerror(rc));
}

/* Its first connection, or why there is none. */
static int wait_for_link(struct remote *r)
{
    int rc = 0, before;

    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&r->mutex);
    while (r->phase != LINK_UP && r->phase != LINK_OVER)
        pthread_cond_wait(&r->turn, &r->mutex);
    if (r->phase == LINK_OVER)
        rc = why(r->fault, "cannot reach %s: %s", r->name, r->fault_why);
    pthread_mutex_unlock(&r->mutex);
    if (rc != 0)
        pthread_join(r->reader, NULL);
    pthread_setcancelstate(before, NULL);
    return rc;
}

static void drop_all(struct remote *r)
{
    struct pending *c, *next;
    struct held_all *all = &r->held;

    cds_list_for_each_entry_safe (c, next, &r->sent, node)
        pending_free(c);
    cds_list_for_each_entry_safe (c, next, &r->unsent, node)
        pending_free(c);
    while (!cds_list_empty(&all->events)) {
        struct remote_event *event =
            cds_list_first_entry(&all->events, struct remote_event, node);
        bool result = event->kinds == REMOTE_EVENT_RESULT;

        remote_event_drop(all, event);
        if (result)
            pending_free(&caa_container_of(event, struct remote_started, event)
                              ->request);
    }
}

static void end(struct remote *r)
{
    drop_all(r);
    held_end(&r->held);
    number_map_end(&r->pending);
    text_free(&r->out);
    text_free(&r->in);
    free(r->values);
    free(r->secret);
    if (r->bell >= 0)
        close(r->bell);
    if (r->held.fd >= 0)
        close(r->held.fd);
    pthread_cond_destroy(&r->turn);
    pthread_mutex_destroy(&r->mutex);
    free(r);
}

static struct remote *make(void)
{
    struct remote *r = calloc(1, sizeof(*r));

    if (r == NULL)
        return NULL;
    begin_mutex(r);
    CDS_INIT_LIST_HEAD(&r->unsent);
    CDS_INIT_LIST_HEAD(&r->sent);
    CDS_INIT_LIST_HEAD(&r->sleepers);
    r->fd = -1;
    r->dice = (uint64_t)sys.now().ns ^ (uintptr_t)r;
    r->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    r->request_bytes = INT64_MAX;
    if (held_begin(&r->held) && number_map_begin(&r->pending))
        return r;
    end(r);
    return NULL;
}

static int begin(struct remote *r, const struct remote_wish *wish)
{
    int rc = take_wish(r, wish);

    if (rc == 0 && r->bell < 0)
        rc = why(-EMFILE, "no descriptor left for %s", r->name);
    if (rc == 0)
        rc = fork_begin(r);
    if (rc != 0)
        return rc;
    rc = start_reader(r);
    if (rc == 0)
        rc = wait_for_link(r);
    if (rc != 0)
        fork_end(r);
    return rc;
}

int remote_open(struct remote **out, const struct remote_wish *wish)
{
    struct remote *r = make();
    int rc;

    if (r == NULL)
        return why(-ENOMEM, "out of memory");
    rc = begin(r, wish);
    if (rc == 0)
        *out = r;
    else
        end(r);
    return rc;
}

/* --- end --- */

/* Its locks are given back before we return, if the bridge can be reached. */
static void say_goodbye(struct remote *r)
{
    struct pending *c;
    bool up;

    pthread_mutex_lock(&r->mutex);
    up = r->phase == LINK_UP;
    r->leaving = true;
    pthread_mutex_unlock(&r->mutex);
    c = up ? pending_new(OP_GOODBYE) : NULL;
    if (c != NULL)
        (void)pending_ask(r, c, 0, GOODBYE_MS);
}

void remote_close(struct remote *r)
{
    int before;

    if (!process_is(r->life)) {
        fork_forget(r);
        return;
    }
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    say_goodbye(r);
    pthread_mutex_lock(&r->mutex);
    r->closing = true;
    pthread_mutex_unlock(&r->mutex);
    remote_ring(r);
    pthread_join(r->reader, NULL);
    fork_end(r);
    end(r);
    pthread_setcancelstate(before, NULL);
}
