/*
 * greet.c - remote: a session begins, or is resumed, with the answer to a
 * hello; and why there is none.
 */
#include "remote/greet.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/why.h"
#include "channel/answer.h"
#include "remote/client.h"
#include "remote/event.h"
#include "remote/held.h"
#include "remote/sure.h"
#include "remote/window.h"
#include "sync/sys.h"

void remote_note(struct remote *r, int rc, const char *text)
{
    r->fault = rc;
    why_copy(r->fault_why, sizeof(r->fault_why), text);
}

int remote_broken(struct remote *r, int rc, const char *text)
{
    pthread_mutex_lock(&r->mutex);
    if (!r->lost || r->phase == LINK_DOWN) /* the first tells why */
        remote_note(r, rc, text);
    pthread_mutex_unlock(&r->mutex);
    return rc;
}

/* Of a session that was suspect not before its locks have been asked for. */
static void tell_connected(struct remote *r)
{
    r->sure.suspect = held_has_suspects(r);
    if (!r->sure.suspect)
        remote_event_session(r, ENQ_OK);
}

/* Under the mutex. */
static void begin_session(struct remote *r, const struct answer *a)
{
    bool resumed = r->session[0] != '\0' && a->resumed &&
        strcmp(r->session, a->session) == 0;

    if (resumed)
        held_doubt_all(r, r->sure.suspect || sure_is_over(r, sys.now()));
    else
        held_session_over(r);
    if (!resumed)
        pending_forget_session(r);
    snprintf(r->session, sizeof(r->session), "%s", a->session);
    sure_greeted(r, a->grace_ms, r->greeted_at); /* after what has gone */
    r->keepalive_ms = a->keepalive_ms > 0 ? a->keepalive_ms : 5000;
    r->request_bytes = a->request_bytes > 0 ? a->request_bytes : INT64_MAX;
    r->list_entries = a->list_entries;
    r->phase = LINK_UP;
    r->pause_ms = 0;
    pending_send_again(r);
    pthread_cond_broadcast(&r->turn);
    if (r->n_links > 1)
        tell_connected(r);
}

int remote_greeted(struct remote *r, const struct answer *a)
{
    int rc = 0;

    pthread_mutex_lock(&r->mutex);
    if (a->rc == NULL || a->event != NULL || a->number != r->hello) {
        remote_note(r, -EPROTO, "what answers is not an enq-bridge");
        rc = -EPROTO;
    } else if (a->rc[0] != '0' || a->session == NULL) {
        remote_note(r, -ECONNREFUSED, a->msg);
        rc = -ECONNREFUSED;
    } else {
        begin_session(r, a);
    }
    pthread_mutex_unlock(&r->mutex);
    return rc;
}
