/*
 * backend_enq.c - the library (see backend.h).
 *
 * Histories are seen from outside, with two exceptions. Where a call goes to
 * sleep in the queue, that moment is noted: from then it waits for certain.
 * And with it the time at which the waiter is due, which decides whether it
 * may be overtaken; the checker knows how late that may be.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "async/started.h"
#include "backend_enq.h"
#include "lib/mark.h"
#include "recovery/reap.h"
#include "rules.h"
#include "starved.h"
#include "store/page.h"
#include "store/walk.h"
#include "sync/latch.h"
#include "sync/sys.h"
#include "worker.h"

#define SLOTS 2100 /* few: what leaks is missed soon */
#define ID_FORM "mk-%llx"

static char space[64], listens_at[200];
struct enq *backend_self;
static struct enq *looker;

/* --- how a call waits --- */

static void (*real_wait)(const struct sys_watch *, unsigned, mono_t);
static void (*real_sleep)(const struct sys_watch *, unsigned, mono_t);

static const struct entry *queued_entry(const struct sys_watch *w)
{
    const struct map *map = backend_self->map;
    const char *at = (const char *)w->word;

    if (at < (const char *)map->h + map->arena_at)
        return NULL; /* a latch */
    return (const struct entry *)(const void *)w->word;
}

/* A grant stores the end of the ttl in the place of the window first, the state
   last; and one that was killed in between leaves it so. */
void backend_note_queued(struct op *op, const struct entry *e)
{
    int64_t due_ns = entry_due(e).ns;

    if (!entry_is(e, PHASE_WAITING) || shm_load(&e->window_ns) > WINDOW_MOST_NS)
        return;
    if (op->ident == 0)
        op->ident =
            entry_handle(backend_self->map, (struct entry *)(uintptr_t)e);
    op->due_ns = due_ns;
    op->queued_ns = now_ns();
    __atomic_store_n(&op->queued_seq, seq_next(), __ATOMIC_RELEASE);
}

/* No sleep is longer than a tick: the rest is the machine's. */
static void timed_wait(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    struct op *op = backend_op;
    int64_t from = now_ns(), over;

    real_wait(watches, n, until);
    over = now_ns() - from - SYS_TICK_NS;
    if (over > 0)
        op->delayed_ns += over;
}

static void noting_wait(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    struct op *op = backend_op;
    const struct entry *e;

    if (gettid() != getpid()) {
        starved_sleeps(until.ns);
        real_wait(watches, n, until);
        starved_wakes();
        return;
    }
    if (op == NULL || op->kind != OP_LOCK) {
        real_wait(watches, n, until);
        return;
    }
    for (unsigned i = 0; i < op_members(op) && i < n; i++) {
        e = op[i].queued_seq == 0 ? queued_entry(&watches[i]) : NULL;
        if (e != NULL)
            backend_note_queued(&op[i], e);
    }
    timed_wait(watches, n, until);
}

/* The helper's, where no request is pending. */
static void noting_sleep(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    starved_sleeps(until.ns);
    real_sleep(watches, n, until);
    starved_wakes();
}

/* --- coming and going --- */

static bool open_space(struct enq **e, uint32_t flags)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = flags};

    if (enq_open(e, space, &opts) == ENQ_OK)
        return true;
    printf("cannot open %s: %s\n", space, enq_why());
    return false;
}

static bool make(const struct backend *b)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = SLOTS};
    struct enq *e;

    snprintf(space, sizeof(space), "shm:enq-%smonkey-%d-%s", test_mark(),
        (int)getpid(), b->name);
    snprintf(listens_at, sizeof(listens_at), "unix:%s/%s", test_tmp(),
        space + 4);
    opts.compat = b->compat == COMPAT_SAP ? "sap" : NULL;
    opts.strict = b->strict;
    if (enq_open(&e, space, &opts) != ENQ_OK) {
        printf("cannot make %s: %s\n", space, enq_why());
        return false;
    }
    enq_close(e);
    if (!open_space(&looker, ENQ_OPEN_READONLY))
        return false;
    real_wait = sys.wait;
    real_sleep = sys.sleep;
    return true;
}

static void unmake(void)
{
    enq_close(looker);
    looker = NULL;
    enq_unlink(space);
    unlink(listens_at + 5);
}

#define COME_BACK_NS (10 * NS_S)

/* There may be no bridge in this moment. */
static bool open_remote(const struct life *life)
{
    int64_t until = now_ns() + COME_BACK_NS;
    char address[240];

    snprintf(address, sizeof(address), "%s?grace=%d", listens_at,
        (int)life->grace_ms);
    while (enq_open(&backend_self, address, NULL) != ENQ_OK) {
        if (now_ns() > until) {
            printf("cannot open %s: %s\n", address, enq_why());
            return false;
        }
        nap_us(1000);
    }
    return true;
}

static bool enter(const struct life *life)
{
    looker = NULL;
    if (life->remote)
        return open_remote(life);
    if (!open_space(&backend_self, ENQ_OPEN_EXISTING))
        return false;
    sys.wait = noting_wait;
    sys.sleep = noting_sleep;
    return true;
}

static const char *space_name(void)
{
    return space;
}

static const char *socket_name(void)
{
    return listens_at;
}

static void leave(void)
{
    enq_close(backend_self);
    backend_self = NULL;
}

/* --- calls --- */

static void set_key(struct enq_req *req, unsigned key)
{
    const struct rule_key *k = &rule_keys[key];

    req->name = k->name;
    for (unsigned i = 0; i < FIELDS; i++)
        req->key[i] = k->field[i];
    req->literal = k->literal;
}

static void set_id(struct enq_req *req, const struct op *op, char *id, size_t n)
{
    if (op->ident == 0)
        return;
    snprintf(id, n, ID_FORM, (unsigned long long)(op->ident & ~IDENT_OURS));
    req->id = id;
}

void backend_request(struct enq_req *req, const struct op *op, char id[ID_ROOM])
{
    *req = (struct enq_req){
        .size = sizeof(*req),
        .mode = op->mode,
        .owner = rule_owners[op->owner],
        .on_death = op->on_death,
        .ttl_ms = op->ttl_ms,
        .wait_ms = op->wait_ms,
        .heartbeat_ms = op->heartbeat_ms,
        .delay_ms = op->delay_ms,
        .flags = (op->kind == OP_TEST ? ENQ_TEST : 0u) |
            (op->no_cycles ? ENQ_NO_DEADLOCK : 0u),
    };
    set_key(req, op->key);
    set_id(req, op, id, ID_ROOM);
}

void backend_grant(struct op *op, const struct enq_grant *grant)
{
    op->handle = grant->handle;
    op->token = grant->token;
    if (op->ident == 0)
        op->ident = grant->handle;
}

static int lock(struct op *op, enq_handle *handle)
{
    struct enq_grant grant;
    char id[ID_ROOM];
    struct enq_req req;
    int rc;

    backend_request(&req, op, id);
    rc = enq_lock(backend_self, &req, &grant);
    if (rc != ENQ_OK || op->kind == OP_TEST)
        return rc;
    backend_grant(op, &grant);
    *handle = grant.handle;
    return rc;
}

static int unlock(const struct op *op, enq_handle handle, uint64_t token)
{
    (void)op;
    return enq_unlock(backend_self, handle, token);
}

static int promote(struct op *op, enq_handle handle, uint64_t token)
{
    struct enq_grant grant;
    int rc = enq_promote(backend_self, handle, token, &grant);

    if (rc == ENQ_OK)
        op->token = grant.token;
    return rc;
}

static int demote(enq_handle handle, uint64_t token)
{
    return enq_demote(backend_self, handle, token);
}

static int renew(const struct op *op, enq_handle handle, uint64_t token)
{
    return enq_renew(backend_self, handle, token, op->ttl_ms);
}

static int valid(enq_handle handle)
{
    return enq_valid(backend_self, handle);
}

static int force(const char *id)
{
    return enq_break(backend_self, id);
}

static int adopt(struct op *op, const char *id, enq_handle *handle)
{
    struct enq_grant grant;
    int rc = enq_adopt(backend_self, id, &grant);

    if (rc == ENQ_OK) {
        *handle = grant.handle;
        op->token = grant.token;
    }
    return rc;
}

/* --- without waiting --- */

/*
 * It stands in the queue, and its caller is told nothing but the ticket.
 * Where, its record says: that is ours until its event is taken, and the entry
 * is used anew by this thread only.
 */
static void note_started(struct op *op)
{
    const struct place *place;

    if (backend_self->remote != NULL)
        return; /* its bridge knows */
    place = &backend_self->async.started[(uint32_t)op->ticket - 1]->place;
    op->handle = place_handle(backend_self->map, place);
    if (op->ident == 0)
        op->ident = op->handle;
    if (entry_handle(backend_self->map, place->e) == op->handle)
        backend_note_queued(op, place->e);
}

static int start(struct op *op)
{
    struct enq_grant grant;
    char id[ID_ROOM];
    struct enq_req req;
    int rc;

    backend_request(&req, op, id);
    rc = enq_start(backend_self, &req, &grant, &op->ticket);
    if (rc == ENQ_PENDING)
        note_started(op);
    else if (rc == ENQ_OK)
        backend_grant(op, &grant);
    return rc;
}

static int cancel(uint64_t ticket)
{
    return enq_cancel(backend_self, ticket);
}

static int next(struct op *op)
{
    struct enq_event event;
    int rc = enq_next(backend_self, &event);

    if (rc != ENQ_OK)
        return rc;
    op->event = (uint8_t)event.kind;
    op->result = event.result;
    op->ticket = event.ticket;
    op->handle = event.grant.handle;
    op->token = event.grant.token;
    op->other = (uint8_t)rule_owner_find(event.grant.blocker.owner);
    return rc;
}

static int listen_to(void)
{
    return enq_fd(backend_self);
}

/* --- looking --- */

static void copy_seen(struct seen *out, const struct enq_info *info)
{
    unsigned long long ours;

    out->rest = (struct rest){
        .ident = info->handle,
        .mode = info->mode,
        .key = (uint8_t)rule_key_find(info),
        .owner = (uint8_t)rule_owner_find(info->owner),
        .on_death = info->on_death,
        .waiting = info->waiting,
        .orphaned = info->orphaned,
    };
    if (sscanf(info->id, ID_FORM, &ours) == 1)
        out->rest.ident = IDENT_OURS | ours;
    out->ttl_ms = info->ttl_ms;
    out->handle = info->handle;
    out->token = info->token;
    memcpy(out->id, info->id, sizeof(out->id));
}

static int list(struct seen *out, size_t room, size_t *n)
{
    static struct enq_info infos[REST_MAX];
    size_t total = 0;
    int rc;

    if (room > REST_MAX)
        room = REST_MAX;
    rc = enq_list(backend_self, NULL, NULL, infos, room, &total);
    *n = total < room ? total : room;
    for (size_t i = 0; i < *n && rc == ENQ_OK; i++)
        copy_seen(&out[i], &infos[i]);
    return rc;
}

static unsigned of_sessions(void)
{
    static struct enq_info infos[REST_MAX];
    size_t total = 0;
    unsigned n = 0;

    if (enq_list(looker, NULL, NULL, infos, REST_MAX, &total) != ENQ_OK)
        return 0;
    for (size_t i = 0; i < total && i < REST_MAX; i++)
        n += strstr(infos[i].peer, ".r.") != NULL;
    return n;
}

static pid_t recoverer(void)
{
    const struct map *map = looker->map;
    uint32_t word = shm_load(&map->h->recovery_latch);

    if (word == 0)
        return 0;
    return (pid_t)
        shm_load(&map->threads[latch_owner(word) & THREAD_MASK].process.pid);
}

/* --- at rest --- */

struct tidy {
    char *report;
    size_t room;
    int findings;
};

static void find(struct tidy *t, const char *what, unsigned long long n)
{
    size_t used = strlen(t->report);

    snprintf(t->report + used, t->room - used, "%s (%llu); ", what, n);
    t->findings++;
}

static void want(struct tidy *t, const char *what, uint64_t is, uint64_t want)
{
    if (is != want)
        find(t, what, is);
}

/* The doctor's findings, except those about the dead, which are not reaped
   before somebody comes to it. */
static void ask_doctor(struct tidy *t, bool dead_are_fine)
{
    char report[2048], *line, *rest;
    int n = enq_doctor(backend_self, 0, report, sizeof(report));

    if (n < 0)
        find(t, enq_why(), 0);
    for (line = strtok_r(report, "\n", &rest); n != 0 && line != NULL;
         line = strtok_r(NULL, "\n", &rest))
        if (!dead_are_fine || strstr(line, "dead") == NULL)
            find(t, line, (unsigned long long)n);
}

static void break_all(struct tidy *t)
{
    static struct seen seen[REST_MAX];
    size_t n = 0;

    want(t, "the list fails", (uint64_t)list(seen, REST_MAX, &n), ENQ_OK);
    for (size_t i = 0; i < n; i++)
        enq_break(backend_self, seen[i].id);
    list(seen, REST_MAX, &n);
    want(t, "entries after all were broken", n, 0);
}

static bool is_leaked(const struct entry *e, uint32_t owner)
{
    unsigned phase = STATE_PHASE(shm_load(&e->state));

    return phase != PHASE_FREE && phase != PHASE_GONE &&
        !(phase == PHASE_CACHED && owner == backend_self->session.ref);
}

static bool see_entry(void *context, struct entry *e, uint64_t state)
{
    uint32_t page =
        map_page_of(backend_self->map, map_ref(backend_self->map, e));
    uint32_t owner = shm_load(&backend_self->map->pages[page].owner);

    if (is_leaked(e, owner)) {
        find(context, "entry that is leaked: state", state);
        find(context, "in a page of session", owner);
        find(context, "made by session", e->session);
    }
    return true;
}

static int lock_number(unsigned i, struct enq_grant *grant)
{
    char field[16];

    snprintf(field, sizeof(field), "%u", i);
    return enq_lock(backend_self,
        ENQ_REQ(.name = "room", .key = {field}, .mode = ENQ_MODE_X,
            .owner = "janitor"),
        grant);
}

/* Every slot can be had: what the dead have left behind, and what has run out
   and was never asked for again, is no loss. */
static void take_every_slot(struct tidy *t)
{
    static struct enq_grant grants[SLOTS];
    unsigned n = 0;

    while (n < SLOTS && lock_number(n, &grants[n]) == ENQ_OK)
        n++;
    want(t, "slots that can be had", n, SLOTS);
    while (n-- > 0)
        want(t, "unlock",
            (uint64_t)enq_unlock(backend_self, grants[n].handle, 0), ENQ_OK);
}

static void count_what_is_left(struct tidy *t)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    take_every_slot(t);
    want(t, "no figures", (uint64_t)enq_stat(backend_self, &stats), ENQ_OK);
    want(t, "sessions", stats.sessions, 1);
    want(t, "threads", stats.threads, 2);
    want(t, "held", stats.held, 0);
    want(t, "waiting", stats.waiting, 0);
    want(t, "orphaned", stats.orphaned, 0);
    slab_each(backend_self->map, see_entry, t);
}

static int clean(char *report, size_t room)
{
    struct tidy t = {report, room, 0};
    struct thread *thread;

    report[0] = '\0';
    ask_doctor(&t, true);
    if (attachment_enter(backend_self, &thread) == 0)
        reap_dead(&backend_self->session, thread);
    ask_doctor(&t, false);
    break_all(&t);
    count_what_is_left(&t);
    return t.findings;
}

#define CALLS                                                                  \
    .keys = KEYS, .full = true, .make = make, .unmake = unmake,                \
    .enter = enter, .leave = leave, .lock = lock, .unlock = unlock,            \
    .promote = promote, .demote = demote, .renew = renew, .valid = valid,      \
    .force = force, .adopt = adopt, .list = list, .recoverer = recoverer,      \
    .clean = clean, .start = start, .cancel = cancel, .next = next,            \
    .listen = listen_to, .lock_set = backend_lock_set,                         \
    .start_set = backend_start_set, .take_set = backend_take_set,              \
    .unlock_set = backend_unlock_set, .space = space_name,                     \
    .socket = socket_name, .of_sessions = of_sessions

const struct backend backend_enq = {.name = "plain", CALLS};
const struct backend backend_strict = {.name = "strict", .strict = 1, CALLS};
const struct backend backend_sap = {.name = "sap", .compat = COMPAT_SAP, CALLS};
const struct backend backend_bridge = {
    .name = "bridge", .bridged = true, CALLS};
