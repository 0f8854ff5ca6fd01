/*
 * work.c - what the simulated processes do: random calls of the library, of
 * several kinds (kinds.c).
 */
#include <stdio.h>
#include <string.h>

#include "recovery/reap.h"
#include "recovery/recover.h"
#include "sim/kinds.h"
#include "sim/sim.h"
#include "sync/hooks.h"

#define LISTED 64

static const struct kind *kind;
static unsigned n_running, deaths_left;
static bool working;
static bool patient; /* they wait for ever, and no lock outlives its holder */
static const char *const owners[] = {"A", "B", "C", "", "D", "E"};
static const char *const fields[] = {"a", "b", "@"};

unsigned work_kinds(void)
{
    return KINDS;
}

bool work_has_ttl(void)
{
    return kind->ttl > 0;
}

const char *work_name(unsigned i)
{
    return kinds[i % KINDS].name;
}

/* --- keys --- */

static char many[KEYS_MAX][16]; /* their keys, all of one shard */

static void find_many(void)
{
    char bytes[KEY_BYTES_MAX];
    struct key key;

    for (unsigned n = 0, i = 0; i < KEYS_MAX; n++) {
        snprintf(many[i], sizeof(many[i]), "k%u", n);
        key_pack(&key, bytes, sizeof(bytes),
            ENQ_REQ(.name = "many", .key = {many[i]}), sim.map->hash_seed);
        if (shard_of_hash(key.hash) == 7)
            i++;
    }
}

/* Two names; fields of which some have neighbours. */
void work_choose_key(struct enq_req *req)
{
    unsigned i = (unsigned)below(kind->keys);

    memset(req->key, 0, sizeof(req->key));
    if (kind->keys > 4 || (kind->set > 0 && chance(6))) {
        req->name = "many";
        req->key[0] = many[i];
        return;
    }
    req->name = kind->keys > 2 && chance(4) ? "other" : "name";
    req->key[0] = fields[i & 1];
    req->key[1] = fields[i >> 1];
    if (kind->generic > 0 && chance(kind->generic))
        req->key[below(2)] = "@";
}

/* --- dying --- */

static void may_die(struct proc *p, unsigned odds, unsigned steps)
{
    if (deaths_left == 0 || p->die_in > 0 || !chance(odds))
        return;
    deaths_left--;
    p->die_in = 1 + (int64_t)log_below(steps);
}

/* By a process that has just changed an entry, and not told anybody yet; or
   some of a set. */
void work_committed(void)
{
    bool middle = kind->set > 0 && whole_in_the_middle();

    if (!working || !(kind->helpers || middle) || sim.me == NULL ||
        sim.me != sim.by || deaths_left == 0 || !chance(middle ? 3 : 20))
        return;
    deaths_left--;
    sim.me->dies_next = true;
    sim.left = 1 + (int64_t)below(60);
}

/* A recovering process is killed more often than others. */
static int recover_or_die(struct map *map, struct thread *me)
{
    may_die(sim.me, 3, 6000);
    return recover(map, me);
}

/* --- calls --- */

void work_forget(struct proc *p, unsigned i)
{
    events_part(p, p->holds[i].handle);
    p->holds[i] = p->holds[--p->n_holds];
}

static void fault(const char *call, int rc)
{
    sim_misled("%s: %s (%s)", call, enq_result_name(rc), enq_why());
}

static int64_t until(int64_t from_ns, int64_t ttl_ms)
{
    return ttl_ms < 0 ? INT64_MAX
                      : from_ns + (ttl_ms == 0 ? 900000 : ttl_ms) * NS_PER_MS;
}

static int64_t choose_wait(const struct proc *p)
{
    switch (below(4)) {
    case 0:
        return 0;
    case 1: /* for ever: only one with nothing that others wait for */
        return patient && p->n_holds == 0 && p->n_tickets == 0 ? ENQ_FOREVER
                                                               : 1;
    case 2:
        return 200;
    default:
        return 1 + (int64_t)log_below(50);
    }
}

void work_refused(struct proc *p, const struct enq_req *req, int64_t began_ns,
    int rc)
{
    bool good;

    switch (rc) {
    case ENQ_BUSY:
        good = req->wait_ms == 0 || (req->flags & ENQ_TEST) != 0;
        break;
    case ENQ_TIMEDOUT:
        good = req->wait_ms > 0 &&
            kernel_now_ns() - began_ns >= req->wait_ms * NS_PER_MS;
        break;
    case ENQ_EXISTS:
        good = req->id != NULL;
        break;
    case ENQ_CANCELLED:
        good = sim.broken;
        break;
    case ENQ_DEADLOCK: /* only of owners that have something */
        good = req->wait_ms != 0 && req->owner[0] != '\0' &&
            (req->flags & ENQ_NO_DEADLOCK) == 0 && graph_had_cycle(p->queued);
        figures.cycles++;
        break;
    case ENQ_EFULL:
        good = kind->slots > 0;
        break;
    default:
        good = false;
    }
    if (!good)
        fault("lock", rc);
}

/* With locks in hand for longer than it may take to find a cycle. */
static int64_t choose_long_wait(const struct proc *p)
{
    if (p->n_holds == 0 && p->n_tickets == 0)
        return chance(3) ? 0 : 1000;
    return chance(4) ? 1 + (int64_t)log_below(200) : 3000;
}

static void choose_time(struct enq_req *req)
{
    if (kind->ttl > 0 && chance(kind->ttl))
        req->ttl_ms = 1 + (int64_t)log_below(100);
    if (kind->heartbeats > 0 && req->ttl_ms > 0 && chance(kind->heartbeats)) {
        req->heartbeat_ms = req->ttl_ms;
        req->ttl_ms += 200 + (int64_t)below(300);
    }
    if (kind->delays > 0 && chance(kind->delays))
        req->delay_ms = 1 + (int64_t)log_below(300);
}

void work_ask(struct proc *p, struct enq_req *req)
{
    static const char *const ids[] = {"id-1", "id-2", "id-3"};

    *req = (struct enq_req){.size = sizeof(*req)};
    work_choose_key(req);
    req->mode = (enum enq_mode)(1 + below(4));
    if (kind->cycles) {
        req->owner = owners[p->number % 6];
        req->wait_ms = choose_long_wait(p);
        if (chance(12))
            req->flags |= ENQ_NO_DEADLOCK;
    } else {
        req->owner = owners[chance(3) ? below(4) : p->number % 3];
        req->wait_ms = choose_wait(p);
        if (chance(4))
            req->flags |= ENQ_NO_DEADLOCK;
    }
    req->on_death = (enum enq_death)(!patient && chance(4) ? below(3) : 0);
    choose_time(req);
    if (kind->ids > 0 && chance(kind->ids))
        req->id = ids[below(3)];
}

struct hold work_hold(const struct enq_req *req, int64_t began_ns)
{
    return (struct hold){.until_ns = until(began_ns, req->ttl_ms),
        .ttl_ms = req->ttl_ms == 0 ? 900000 : req->ttl_ms,
        .heartbeat_ms = req->heartbeat_ms,
        .lost_ns = sched_lost_ns(),
        .mode = (uint8_t)req->mode};
}

void work_granted(struct proc *p, const struct hold *h)
{
    if (p->n_holds == HOLDS_MAX)
        return;
    p->holds[p->n_holds++] = *h;
    oracle_granted(p, h);
}

/* A process that starts a request waits for it. */
int64_t work_start_wait(int64_t wait_ms)
{
    if (wait_ms != 0)
        return wait_ms;
    return chance(4) ? ENQ_FOREVER : 1 + (int64_t)log_below(400);
}

/* Mostly a few. */
unsigned work_set_size(void)
{
    return 1 + (unsigned)below(chance(12) ? SET_MAX : kind->set);
}

static void lock(struct proc *p, uint32_t flags)
{
    struct enq_req req;
    struct enq_grant grant;
    int64_t began = kernel_now_ns();
    struct hold h;
    int rc;

    if (p->n_holds + p->n_tickets >= HOLDS_MAX)
        return;
    work_ask(p, &req);
    req.flags |= flags;
    h = work_hold(&req, began);
    sim_say("lock %s/%s mode %u by \"%s\" wait %lld ttl %lld", req.name,
        req.key[0], req.mode, req.owner, (long long)req.wait_ms,
        (long long)req.ttl_ms);
    p->looks = (req.flags & ENQ_NO_DEADLOCK) == 0 && req.owner[0] != '\0';
    rc = enq_lock(&p->enq, &req, &grant);
    p->looks = false;
    sim_say("lock: %s", enq_result_name(rc));
    h.handle = grant.handle;
    h.token = grant.token;
    if (rc != ENQ_OK)
        work_refused(p, &req, began, rc);
    else if (!(flags & ENQ_TEST))
        work_granted(p, &h);
}

static void unlock(struct proc *p, unsigned i)
{
    struct hold h = p->holds[i];
    int rc = enq_unlock(&p->enq, h.handle, h.token);

    sim_say("unlock: %s", enq_result_name(rc));
    work_forget(p, i);
    oracle_lost(p, &h, rc);
}

static void promote(struct proc *p, unsigned i)
{
    struct hold *h = &p->holds[i];
    struct enq_grant grant;
    int rc;

    sim.promoted = true;
    rc = enq_promote(&p->enq, h->handle, h->token, &grant);
    sim_say("promote: %s", enq_result_name(rc));
    if (rc == ENQ_OK && grant.token <= h->token)
        sim_misled("a promotion's token is not above the grant's");
    if (rc == ENQ_OK) {
        h->mode = ENQ_MODE_E;
        h->token = grant.token;
        oracle_granted(p, h);
    } else if (rc != ENQ_REFUSED) {
        struct hold gone = *h;

        work_forget(p, i);
        oracle_lost(p, &gone, rc);
    }
}

static void demote(struct proc *p, unsigned i)
{
    struct hold *h = &p->holds[i];
    struct hold gone = *h;
    int rc = enq_demote(&p->enq, h->handle, h->token);

    if (rc == ENQ_OK) {
        h->mode = ENQ_MODE_S;
        oracle_granted(p, h);
    } else if (rc != ENQ_REFUSED) {
        work_forget(p, i);
        oracle_lost(p, &gone, rc);
    }
}

static void renew(struct proc *p, unsigned i)
{
    struct hold *h = &p->holds[i];
    struct hold gone = *h;
    int64_t began = kernel_now_ns(), ttl_ms = 1 + (int64_t)log_below(1000);
    int rc = enq_renew(&p->enq, h->handle, h->token, ttl_ms);

    if (rc == ENQ_OK) {
        h->until_ns = until(began, ttl_ms);
        h->heartbeat_ms = 0; /* its next may come too late */
        h->renewals++;
        oracle_granted(p, h);
    } else if (rc == ENQ_REFUSED) {
        fault("renew", rc);
    } else {
        work_forget(p, i);
        oracle_lost(p, &gone, rc);
    }
}

static void valid(struct proc *p, unsigned i)
{
    struct hold gone = p->holds[i];
    int rc = enq_valid(&p->enq, gone.handle);

    if (rc == ENQ_OK)
        return;
    work_forget(p, i);
    oracle_lost(p, &gone, rc);
}

static int adopt(struct proc *p, const char *id)
{
    struct hold h = {.lost_ns = sched_lost_ns()};
    struct enq_grant grant;
    struct entry *e;
    uint64_t state;
    int rc = enq_adopt(&p->enq, id, &grant);

    if (rc != ENQ_OK)
        return rc;
    h.handle = grant.handle;
    h.token = grant.token;
    e = entry_of_handle(sim.map, h.handle, &state);
    if (e == NULL || STATE_PHASE(state) != PHASE_HELD)
        return rc; /* it is another's already */
    h.mode = (uint8_t)STATE_MODE(state);
    h.ttl_ms = e->ttl_ms;
    h.until_ns = e->deadline_ns;
    p->holds[p->n_holds++] = h;
    return rc;
}

/* Anybody's: as an operator would. */
static void meddle(struct proc *p, enum op op)
{
    struct entry *e = oracle_any();
    char id[ENQ_ID_BYTES];
    enq_handle handle;
    int rc = ENQ_OK;

    if (e == NULL)
        return;
    handle = entry_handle(sim.map, e);
    if (op != ADOPT)
        sim.broken = true;
    if (op == CANCEL && e->session == p->enq.session.ref)
        return; /* no event tells of what we have ended ourselves */
    if (op == CANCEL && STATE_PHASE(e->state) == PHASE_WAITING)
        rc = enq_unlock(&p->enq, handle, 0);
    else if (enq_id(&p->enq, handle, id) != ENQ_OK)
        return;
    else if (op == BREAK)
        rc = enq_break(&p->enq, id);
    else if (op == ADOPT && p->n_holds < HOLDS_MAX)
        rc = adopt(p, id);
    if (rc < 0)
        fault("break or adopt", rc);
}

static void list(struct proc *p)
{
    struct enq_info found[LISTED];
    size_t n;
    int rc = enq_list(&p->enq, "name", NULL, found, LISTED, &n);

    if (rc < 0)
        fault("list", rc);
}

static void reap_some(struct proc *p)
{
    sim_say("reaps the dead");
    may_die(p, 4, 6000);
    p->told = false;
    reap_dead(&p->enq.session, thread_enter(p->map));
}

/* --- processes --- */

static enum op choose_op(const struct proc *p)
{
    unsigned sum = 0, at;

    if (p->told)
        return REAP;
    for (unsigned i = 0; i < OPS; i++)
        sum += kind->odds[i];
    at = (unsigned)below(sum);
    for (unsigned i = 0; i < OPS; i++) {
        if (at < kind->odds[i])
            return (enum op)i;
        at -= kind->odds[i];
    }
    return PAUSE;
}

static void call_on_hold(struct proc *p, enum op op)
{
    static void (*const calls[OPS])(struct proc * p, unsigned i) = {
        [UNLOCK] = unlock,
        [PROMOTE] = promote,
        [DEMOTE] = demote,
        [RENEW] = renew,
        [VALID] = valid,
    };

    if (p->n_holds > 0)
        calls[op](p, (unsigned)below(p->n_holds));
}

static void call(struct proc *p)
{
    enum op op = choose_op(p);

    may_die(p, 24, 800);
    p->began_ns = p->called_ns = kernel_now_ns();
    switch (op) {
    case LOCK:
        lock(p, 0);
        break;
    case TEST:
        lock(p, ENQ_TEST);
        break;
    case BREAK:
    case CANCEL:
    case ADOPT:
        meddle(p, op);
        break;
    case REAP:
        reap_some(p);
        break;
    case LIST:
        list(p);
        break;
    case PAUSE:
        kernel_pause((int64_t)(kind->heartbeats == 1 && chance(2)
                ? below(NS_PER_S)
                : log_below(20000000)));
        break;
    case START:
        events_start(p);
        break;
    case WITHDRAW:
        events_cancel(p);
        break;
    case TAKE:
        events_take(p);
        break;
    case AWAIT:
        events_wait(p,
            (int64_t)log_below(kind->cycles ? 3 * NS_PER_S : 100000000));
        break;
    case LOCK_SET:
        sets_lock(p, chance(12) ? ENQ_TEST : 0);
        break;
    case START_SET:
        sets_start(p);
        break;
    case UNLOCK_SET:
        sets_unlock(p);
        break;
    default:
        call_on_hold(p, op);
    }
}

static void work(struct proc *p)
{
    if (kind->helpers && (kind->deaf == 0 || !chance(kind->deaf)))
        events_listen(p);
    for (unsigned i = 0; i < kind->ops && !sim.failed; i++)
        call(p);
    may_die(p, 6, 2000);
    if (!kind->helpers) {
        session_go(p);
        return;
    }
    if (chance(2)) /* else it leaves with all that it has */
        events_finish(p);
    attachment_go(p);
}

static void worker(struct proc *p)
{
    may_die(p, 12, 400);
    if (kind->helpers ? attachment_come(p) : session_come(p))
        work(p);
    else
        sim_misled("cannot attach: %s", enq_why());
}

void work_spawn(void)
{
    unsigned alive = 0;

    for (unsigned i = 0; i < sim.n_procs; i++)
        alive += sim.procs[i].process == &sim.procs[i] &&
            sim.procs[i].state != PROC_DEAD;
    if (working && alive < n_running && sim.n_procs < PROCS_MAX - 12 &&
        chance(2))
        sched_spawn(worker);
}

bool work_goes_on(void)
{
    working = sim.stops = false;
    return janitor_next();
}

void work_begin(void)
{
    kind = &kinds[sim.seed % KINDS];
    if (many[0][0] == '\0')
        find_many();
    hooks.recover = recover_or_die;
    sim.map->strict = kind->strict || chance(4);
    if (kind->slots > 0)
        sim.map->h->slab_pages_max = kind->slots;
    deaths_left = chance(3) ? 0 : (unsigned)below(kind->deaths + 1);
    janitor_begin(1 + (deaths_left > 0 ? (unsigned)below(3) : 0));
    graph_begin(kind->cycles);
    async_all_begin();
    segment_listen();
    working = true;
    patient = chance(2);
    n_running = 2 + (unsigned)below(kind->helpers ? 3 : 5);
    for (unsigned i = 0; i < n_running; i++)
        sched_spawn(worker);
}
