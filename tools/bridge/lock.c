/*
 * lock.c - requests for locks: from the wire's terms to the library's.
 */
#include <stdio.h>
#include <stdlib.h>

#include "peer.h"
#include "serve.h"
#include "session.h"
#include "tag.h"
#include "wait.h"

/* What the library is asked, and where the texts that we make lie. */
struct wanted {
    const struct enq_req *reqs[ENQ_SET_MAX];
    struct enq_grant grants[ENQ_SET_MAX];
    char ids[ENQ_SET_MAX][ENQ_ID_BYTES];
    char tags[ENQ_SET_MAX][ENQ_PEER_BYTES];
    unsigned n;
};

/* Of one request at a time, of each loop's thread. */
static _Thread_local struct wanted wanted
    __attribute__((tls_model("local-exec")));

/* --- from the wire --- */

/* What becomes of it when its client is gone; and in the table, where nothing
   ends with us (session.h). */
static void set_death(const struct serving *s, struct ask_lock *l)
{
    if (!l->has_death)
        l->death = s->c->session == NULL ? ENQ_DEATH_LEASE : ENQ_DEATH_RELEASE;
    l->req.on_death = l->death == ENQ_DEATH_KEEP ? l->death : ENQ_DEATH_LEASE;
}

static void write_tag(const struct serving *s, struct ask_lock *l, unsigned i)
{
    const struct tag tag = {
        .peer = s->c->peer,
        .session = s->c->session,
        .on_death = (uint8_t)l->death,
        .delayed = l->req.delay_ms > 0,
        .member = i,
        .request = s->request,
        .wait_ms = l->req.wait_ms,
    };

    tag_write(&tag, wanted.tags[i]);
    l->req.peer = wanted.tags[i];
}

/* Without a session, and without a wait, it is the host alone. */
static void set_peer(const struct serving *s, struct ask_lock *l, unsigned i)
{
    if (s->c->session == NULL && l->req.wait_ms <= 0)
        l->req.peer = s->c->peer;
    else
        write_tag(s, l, i);
}

/* A client without a session is looked for in no cycle: enqueue-server does not
   know them. */
static uint32_t flags_of(const struct serving *s)
{
    bool blind = s->ask->no_deadlock || s->reply.id == NULL;

    return (s->ask->test ? ENQ_TEST : 0) | (blind ? ENQ_NO_DEADLOCK : 0);
}

static const char *owner_of(const struct serving *s, const struct ask_lock *l)
{
    if (l->req.owner != NULL)
        return l->req.owner;
    return s->c->session == NULL ? "" : s->c->session->owner;
}

/* NULL: the lock can be asked for; else what is wrong. */
static const char *prepare(const struct serving *s, unsigned i)
{
    struct ask_lock *l = &s->ask->locks[i];

    l->req.owner = owner_of(s, l);
    set_death(s, l);
    l->req.flags = flags_of(s);
    if (i > 0) { /* of a set the first one's count */
        l->req.wait_ms = s->ask->locks[0].req.wait_ms;
        l->req.owner = s->ask->locks[0].req.owner;
    }
    if (s->ask->start && s->c->session == NULL)
        return "start needs a session: say hello first";
    if (s->ask->op == OP_SET && s->ask->has_id == false)
        return "A set needs a reqUUID";
    if (l->req.id != NULL) {
        l->req.id = serving_id(s, l->req.id, wanted.ids[i]);
        if (l->req.id == NULL)
            return "The uuid is too long";
    }
    set_peer(s, l, i);
    wanted.reqs[i] = &l->req;
    return NULL;
}

static const char *prepare_all(const struct serving *s)
{
    const char *wrong = NULL;

    wanted.n = s->ask->n_locks;
    for (unsigned i = 0; i < wanted.n && wrong == NULL; i++)
        wrong = prepare(s, i);
    return wrong;
}

/* Of all connections and sessions of one host, or user. */
static const char *limit_of_peer(const struct serving *s)
{
    const struct limits *most = &s->b->options.limits;
    const struct session *session = s->c->session;
    const struct peer *from = session == NULL ? s->c->from : session->from;

    if (from->locks + wanted.n > most->peer_locks)
        return "The client's host or user has too many locks";
    if (wanted.reqs[0]->wait_ms != 0 && from->waits >= most->peer_waits)
        return "The client's host or user has too many waiting requests";
    return NULL;
}

static const char *limit_met(const struct serving *s)
{
    const struct limits *most = &s->b->options.limits;
    const struct session *session = s->c->session;

    if (session != NULL && session->n_held + wanted.n > most->locks)
        return "The session has too many locks";
    if (wanted.reqs[0]->wait_ms != 0 &&
        (session == NULL ? s->c->n_waits : session->n_waits) >= most->waits)
        return "The session or connection has too many waiting requests";
    if (session != NULL && !held_room(s->b, wanted.n))
        return held_no_room;
    return limit_of_peer(s);
}

/* --- asked again --- */

static void answer_as_before(const struct serving *s, unsigned n)
{
    reply_begin(&s->reply, ENQ_OK, NULL);
    if (s->ask->op == OP_SET)
        reply_grants(s->reply.out, ENQ_OK, wanted.grants, n);
    else
        reply_grant(s->reply.out, wanted.grants);
    reply_end(&s->reply);
}

/* Granted, and gone since; it is not taken a second time. Of a set some may be
   left, which the session holds, and a client that had no answer does not know:
   it is told what to give back. */
static void answer_what_is_left(const struct serving *s, unsigned n)
{
    unsigned n_left = 0;

    for (unsigned i = 0; n > 0 && i < s->ask->n_locks; i++)
        if (wanted.grants[i].handle != 0)
            wanted.grants[n_left++] = wanted.grants[i];
    reply_begin(&s->reply, ENQ_NOTHELD,
        "The request was granted, but the lock is gone");
    if (n_left > 0)
        reply_grants(s->reply.out, ENQ_OK, wanted.grants, n_left);
    reply_end(&s->reply);
}

/* The same request of the same session: pending still, or granted before. */
static bool is_known(const struct serving *s)
{
    struct session *session = s->c->session;
    const struct done *done;
    struct wait *w;
    unsigned n;

    if (session == NULL || !s->ask->has_id || s->ask->test)
        return false;
    w = wait_of_request(s->b, s->c, s->ask->id);
    if (w != NULL) {
        w->start |= s->ask->start;
        if (s->ask->start)
            reply_result(&s->reply, ENQ_PENDING, NULL, NULL);
        return true;
    }
    for (unsigned i = 0; i < s->ask->n_locks; i++)
        wanted.grants[i].handle = 0;
    n = held_of_request(s->b, session, s->request, wanted.grants,
        s->ask->n_locks);
    done = done_find(session, s->request, s->ask->op);
    if (n == s->ask->n_locks) {
        answer_as_before(s, n);
    } else if (n > 0 || (done != NULL && done->result == ENQ_OK)) {
        answer_what_is_left(s, n);
    } else {
        return false;
    }
    return true;
}

/* --- asking --- */

static void note_held(struct bridge *b, struct session *session,
    uint64_t request, unsigned member, const struct wait_lock *how,
    const struct enq_grant *grant)
{
    const struct held h = {
        .handle = grant->handle,
        .token = grant->token,
        .request = request,
        .member = (uint16_t)member,
        .on_death = how->on_death,
        .mode = how->mode,
        .delayed = how->delayed,
    };

    held_add(b, session, &h);
}

/* Without a session. */
static void note_loose(struct bridge *b, struct peer *from,
    const struct enq_grant *grants, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        peer_has_lock(b, from, grants[i].handle);
}

static struct wait_lock how(const struct ask_lock *l)
{
    return (struct wait_lock){
        (uint8_t)l->death, (uint8_t)l->req.mode, l->req.delay_ms > 0};
}

void serving_granted(const struct serving *s, const struct enq_grant *grants,
    unsigned n)
{
    struct session *session = s->c->session;

    if (session == NULL) {
        note_loose(s->b, s->c->from, grants, n);
        return;
    }
    for (unsigned i = 0; i < n; i++) {
        struct wait_lock w = how(&s->ask->locks[i]);
        note_held(s->b, session, s->request, i, &w, &grants[i]);
    }
    if (n > 0 && s->ask->has_id)
        serving_done(s, ENQ_OK, grants);
}

bool wait_granted(struct bridge *b, const struct wait *w,
    const struct enq_grant *grants)
{
    const struct done done = {w->request, grants[0].token, grants[0].handle,
        ENQ_OK, w->n > 1 ? OP_SET : OP_LOCK};

    if (w->session == NULL) {
        note_loose(b, w->from, grants, w->n);
        return true;
    }
    if (!held_room(b, w->n))
        return false;
    for (unsigned i = 0; i < w->n; i++)
        note_held(b, w->session, w->request, i, &w->locks[i], &grants[i]);
    done_note(w->session, &done);
    return true;
}

/* Without a session it has no other name by which to give it back. */
static bool is_nameless(const struct serving *s)
{
    return s->c->session == NULL && s->ask->op == OP_LOCK &&
        wanted.reqs[0]->id == NULL;
}

static struct wait *make_wait(const struct serving *s)
{
    struct wait *w = wait_make(wanted.n);

    if (w == NULL)
        return NULL;
    w->legacy = s->reply.id == NULL;
    w->start = s->ask->start;
    w->nameless = is_nameless(s);
    w->id_is_number = s->ask->id_is_number;
    w->request = s->request;
    strcpy(w->id, s->ask->id);
    for (unsigned i = 0; i < w->n; i++)
        w->locks[i] = how(&s->ask->locks[i]);
    return w;
}

static int start(const struct serving *s, struct wait *w)
{
    uint64_t ticket;
    int rc;

    if (s->ask->op == OP_SET && wanted.n > 1)
        rc = enq_start_set(s->b->space, wanted.reqs, wanted.n, w->grants,
            &ticket);
    else
        rc = enq_start(s->b->space, wanted.reqs[0], wanted.grants, &ticket);
    if (rc == ENQ_PENDING)
        wait_begin(s->b, w, ticket, s->c);
    else if (w->grants != NULL)
        memcpy(wanted.grants, w->grants, wanted.n * sizeof(wanted.grants[0]));
    return rc;
}

static int ask_and_wait(const struct serving *s)
{
    struct wait *w = make_wait(s);
    int rc;

    if (w == NULL)
        return -12; /* ENOMEM */
    rc = start(s, w);
    if (rc != ENQ_PENDING)
        wait_free(w);
    return rc;
}

static int ask_at_once(const struct serving *s)
{
    if (wanted.n > 1)
        return enq_lock_set(s->b->space, wanted.reqs, wanted.n, wanted.grants);
    return enq_lock(s->b->space, wanted.reqs[0], wanted.grants);
}

/* --- answers --- */

static void tell(const struct serving *s, int rc)
{
    char id[ENQ_ID_BYTES];

    if (rc == ENQ_OK && s->ask->test) { /* nothing has been granted */
        reply_result(&s->reply, rc, NULL, NULL);
    } else if (s->ask->op == OP_SET) {
        reply_begin(&s->reply, rc, enq_why());
        reply_grants(s->reply.out, rc, wanted.grants, wanted.n);
        reply_end(&s->reply);
    } else if (rc == ENQ_OK && is_nameless(s) &&
        enq_id(s->b->space, wanted.grants[0].handle, id) == ENQ_OK) {
        reply_named(&s->reply, wanted.grants, id);
    } else {
        reply_result(&s->reply, rc, wanted.grants, enq_why());
    }
}

static void ask_for(struct serving *s)
{
    const char *wrong = NULL;
    int rc;

    if (is_known(s))
        return;
    wrong = prepare_all(s);
    if (wrong != NULL) {
        reply_wrong(&s->reply, wrong);
        return;
    }
    wrong = limit_met(s);
    if (wrong != NULL) {
        reply_full(&s->reply, wrong);
        return;
    }
    for (unsigned i = 0; i < wanted.n; i++)
        wanted.grants[i].blocker.owner[0] = wanted.grants[i].blocker.id[0] =
            '\0';
    if (wanted.reqs[0]->wait_ms == 0 || s->ask->test)
        rc = ask_at_once(s);
    else
        rc = ask_and_wait(s);
    if (rc == ENQ_OK && !s->ask->test)
        serving_granted(s, wanted.grants, wanted.n);
    if (rc != ENQ_PENDING || s->ask->start)
        tell(s, rc);
}

void serve_lock(struct serving *s)
{
    ask_for(s);
}

void serve_set(struct serving *s)
{
    ask_for(s);
}
