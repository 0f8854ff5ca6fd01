/*
 * worker.c - a worker (see worker.h).
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "player.h"
#include "rules.h"

struct player me;
struct op *backend_op;

/* --- chance and time --- */

uint64_t player_below(uint64_t n)
{
    return dice_below(&me.dice, n);
}

void nap_us(uint64_t us)
{
    nanosleep(&(struct timespec){0, (long)us * 1000}, NULL);
}

/* --- asking for a lock --- */

/* A process that holds something, or may be granted it unseen, does not wait
   for long: others may wait for it. */
static bool is_awaited(void)
{
    return me.n + me.n_pending > 0;
}

static int64_t some_wait_ms(void)
{
    switch (player_below(8)) {
    case 0:
    case 1:
    case 2:
        return 0;
    case 3:
    case 4:
        return 1 + (int64_t)player_below(20);
    default:
        return is_awaited() ? 1 + (int64_t)player_below(3) : ENQ_FOREVER;
    }
}

static unsigned some_mode(void)
{
    static const uint8_t modes[] = {ENQ_MODE_S, ENQ_MODE_S, ENQ_MODE_E,
        ENQ_MODE_E, ENQ_MODE_E, ENQ_MODE_X, ENQ_MODE_O, ENQ_MODE_O};

    return modes[player_below(sizeof(modes))];
}

/* A third of the requests is for the two keys that all want. */
static unsigned some_key(void)
{
    return (unsigned)player_below(player_below(3) == 0 ? 2
                                                       : me.p.backend->keys);
}

static void some_death(struct op *op)
{
    uint64_t d = player_below(40);

    op->ttl_ms = 15 * 60 * 1000;
    if (player_below(4) == 0)
        op->ttl_ms = 1 + (int64_t)player_below(player_below(2) == 0 ? 5 : 40);
    op->on_death = ENQ_DEATH_RELEASE;
    if (d < 4) {
        op->on_death = ENQ_DEATH_LEASE;
        op->ttl_ms = 3 + (int64_t)player_below(30);
    } else if (d < 6) {
        op->on_death = ENQ_DEATH_KEEP;
        if (player_below(2) == 0)
            op->ttl_ms = ENQ_FOREVER;
    }
}

/* Now and then a lock delay; or a heartbeat, with a ttl that is hardly missed
   by one that comes late. */
static void some_care(struct op *op)
{
    uint64_t d = player_below(40);

    if (d < 3)
        op->delay_ms = 1 + (uint32_t)player_below(8);
    if (d == 3 || d == 4) {
        op->ttl_ms = 60 + (int64_t)player_below(40);
        op->heartbeat_ms = 1 + (uint32_t)player_below(8);
    }
    op->no_cycles = player_below(8) == 0;
}

struct op player_request(void)
{
    struct op op = {.kind = OP_LOCK, .key = (uint8_t)some_key()};

    if (!me.p.backend->full) {
        op.mode = ENQ_MODE_X;
        op.owner = (uint8_t)(1 + player_below(OWNERS - 1));
        op.wait_ms = op.ttl_ms = ENQ_FOREVER;
        return op;
    }
    op.mode = (uint8_t)some_mode();
    op.owner = (uint8_t)player_below(OWNERS);
    op.wait_ms = some_wait_ms();
    some_death(&op);
    some_care(&op);
    return op;
}

void player_choose_id(struct op *op)
{
    if (me.p.backend->full &&
        (op->on_death != ENQ_DEATH_RELEASE || player_below(4) == 0 ||
            me.remote))
        op->ident =
            IDENT_OURS | (op->set_n > 0 ? IDENT_SET : 0) | op->begin_seq;
}

static void do_lock(void)
{
    struct op want = player_request(), *op;
    enq_handle handle;
    int rc;

    op = player_begin(&want);
    if (op == NULL)
        return;
    player_choose_id(op);
    rc = player_end(op, me.p.backend->lock(op, &handle));
    if (rc == ENQ_OK)
        player_hold(op, handle);
}

static void do_test(void)
{
    struct op want = player_request(), *op;
    enq_handle handle;

    want.kind = OP_TEST;
    want.wait_ms = 0;
    op = player_begin(&want);
    if (op != NULL)
        player_end(op, me.p.backend->lock(op, &handle));
}

/* --- with what is held --- */

static bool gone(int result)
{
    return result != ENQ_OK && result != ENQ_REFUSED;
}

void player_unlock(unsigned i)
{
    struct held *h = &me.held[i];
    struct op what = player_about(&h->op, OP_UNLOCK), *op = player_begin(&what);

    if (op == NULL)
        return;
    player_end(op, me.p.backend->unlock(op, h->handle, h->op.token));
    player_forget(i);
}

static void do_promote(unsigned i)
{
    struct held *h = &me.held[i];
    struct op what = player_about(&h->op, OP_PROMOTE),
              *op = player_begin(&what);
    int rc;

    if (op == NULL)
        return;
    rc = player_end(op, me.p.backend->promote(op, h->handle, h->op.token));
    if (rc == ENQ_OK) {
        h->op.token = op->token;
        h->op.mode = ENQ_MODE_E;
    } else if (gone(rc)) {
        player_forget(i);
    }
}

static void do_demote(unsigned i)
{
    struct held *h = &me.held[i];
    struct op what = player_about(&h->op, OP_DEMOTE), *op = player_begin(&what);
    int rc;

    if (op == NULL)
        return;
    rc = player_end(op, me.p.backend->demote(h->handle, h->op.token));
    if (rc == ENQ_OK)
        h->op.mode = ENQ_MODE_S;
    else if (gone(rc))
        player_forget(i);
}

static void do_renew(unsigned i)
{
    struct held *h = &me.held[i];
    struct op what = player_about(&h->op, OP_RENEW), *op;

    what.ttl_ms = 3 + (int64_t)player_below(40);
    op = player_begin(&what);
    if (op != NULL &&
        gone(player_end(op, me.p.backend->renew(op, h->handle, h->op.token))))
        player_forget(i);
}

static void do_valid(unsigned i)
{
    struct held *h = &me.held[i];
    struct op what = player_about(&h->op, OP_VALID), *op = player_begin(&what);

    if (op != NULL && gone(player_end(op, me.p.backend->valid(h->handle))))
        player_forget(i);
}

/* --- with what others hold --- */

static struct seen seen[REST_MAX];

static struct op foreign(const struct seen *x, enum op_kind kind)
{
    return (struct op){
        .kind = (uint8_t)kind,
        .ident = x->rest.ident,
        .key = x->rest.key,
        .mode = x->rest.mode,
        .owner = x->rest.owner,
        .on_death = x->rest.on_death,
        .ttl_ms = x->ttl_ms,
        .foreign = true,
        .was_held = !x->rest.waiting,
    };
}

/* Through a bridge a token has to be shown. */
static void do_break(const struct seen *x)
{
    uint64_t token = me.remote ? x->token : 0;
    bool by_id = player_below(2) == 0;
    struct op what = foreign(x, by_id ? OP_BREAK : OP_UNLOCK);
    struct op *op = player_begin(&what);

    if (op == NULL)
        return;
    if (by_id)
        player_end(op, me.p.backend->force(x->id));
    else
        player_end(op, me.p.backend->unlock(op, x->handle, token));
}

/* A client finds its own, when its session has ended with its bridge: what it
   does from then on it does with what it has adopted. */
static void forget_as_it_was(uint64_t ident)
{
    for (unsigned i = me.n; i-- > 0;)
        if (me.held[i].op.ident == ident)
            player_forget(i);
}

static void do_adopt(const struct seen *x)
{
    struct op what = foreign(x, OP_ADOPT), *op = player_begin(&what);
    enq_handle handle;

    if (op == NULL)
        return;
    op->handle = x->handle;
    if (player_end(op, me.p.backend->adopt(op, x->id, &handle)) != ENQ_OK)
        return;
    forget_as_it_was(op->ident);
    player_hold(op, handle);
}

static void note_sighting(const struct rest *rest, uint64_t list_seq)
{
    struct book *b = me.p.book;
    uint32_t at = __atomic_fetch_add(&b->n_sightings, 1, __ATOMIC_RELAXED);

    if (at < SIGHTINGS_MAX)
        b->sightings[at] =
            (struct sighting){rest->ident, list_seq, rest->waiting};
}

/* All that is there. Whose sets were not all written down is not asked for
   what it has not seen. */
static size_t look_around(void)
{
    const struct op what = {.kind = OP_LIST};
    struct op *op = player_begin(&what);
    size_t n = 0;
    int rc;

    if (op == NULL)
        return 0;
    rc = me.p.backend->list(seen, REST_MAX, &n);
    for (size_t i = 0; i < n; i++)
        if ((seen[i].rest.ident & IDENT_OURS) != 0 &&
            (seen[i].rest.ident & IDENT_SET) != 0)
            note_sighting(&seen[i].rest, op->begin_seq);
    op->whole = rc == ENQ_OK && n < REST_MAX &&
        __atomic_load_n(&me.p.book->n_sightings, __ATOMIC_RELAXED) <
            SIGHTINGS_MAX;
    player_end(op, rc);
    return n;
}

/* Orphans are adopted, or broken; now and then somebody else's lock is. */
static void do_with_others(void)
{
    bool orphans = player_below(8) != 0;
    size_t n = look_around(), left, i;

    i = n > 0 ? player_below(n) : 0;
    for (left = n; left > 0; left--, i = (i + 1) % n) {
        if (orphans && !seen[i].rest.orphaned)
            continue;
        if (orphans && me.n < HELD_MAX && player_below(2) == 0)
            do_adopt(&seen[i]);
        else
            do_break(&seen[i]);
        return;
    }
}

/* --- the game --- */

static void linger(void)
{
    uint64_t d = player_below(40);

    if (me.patient && me.n > 0 && d < 6) /* and so may what it holds */
        nap_us(1000 + player_below(8000));
    else if (d < 1)
        nap_us(20 + player_below(300));
    else if (d < 8)
        for (uint64_t i = player_below(3000); i > 0; i--)
            __asm__ volatile("" ::: "memory");
}

/* Most listen from the start, some begin to later; some only want to know what
   has become of their requests. */
static void receive_events(void)
{
    if (player_below(100) == 0)
        unanswered_listen();
    if (me.fd >= 0 || me.n_pending > 0)
        unanswered_read(player_below(40) == 0 ? 1 + (int)player_below(4) : 0);
}

/* Left to run out, and never asked about: that must be told. */
static bool may_be_left(const struct op *op)
{
    return me.fd >= 0 && op->ttl_ms > 0 && op->ttl_ms <= 8;
}

static void play_with(unsigned i)
{
    uint64_t d = player_below(100);
    unsigned mode = me.held[i].op.mode;

    if (may_be_left(&me.held[i].op) && player_below(4) == 0)
        player_forget(i);
    else if (me.p.backend->full && me.n > 1 && d < 24)
        sets_unlock();
    else if (!me.p.backend->full || d < 64)
        player_unlock(i);
    else if (mode == ENQ_MODE_O)
        do_promote(i);
    else if (d < 82)
        do_demote(i);
    else if (d < 92)
        do_renew(i);
    else
        do_valid(i);
}

static void play_with_pending(void)
{
    uint64_t d = player_below(8);

    if (d == 0)
        unanswered_cancel_late();
    else if (me.n_pending == PENDING_MAX || (me.n_pending > 0 && d < 4))
        unanswered_cancel((unsigned)player_below(me.n_pending));
    else if (player_below(4) == 0)
        sets_start();
    else
        unanswered_start();
}

/* All that only the library can do. */
static void play_more(uint64_t d)
{
    if (d >= 96)
        do_with_others();
    else if (d >= 95)
        do_test();
    else if (d >= 94)
        sets_test();
    else if (d >= 75)
        play_with_pending();
    else if (d % 4 == 0)
        sets_lock();
    else
        do_lock();
}

static void play(void)
{
    uint64_t d = player_below(100);
    unsigned most = me.p.backend->full ? HELD_MAX : 1;

    if (me.n >= most || (me.n > 0 && d < 55))
        play_with((unsigned)player_below(me.n));
    else if (me.p.backend->full)
        play_more(d);
    else
        do_lock();
    if (me.p.backend->full)
        receive_events();
    linger();
}

static bool playing(void)
{
    return __atomic_load_n(&me.p.stage->phase, __ATOMIC_ACQUIRE) == ROUND_PLAY;
}

static void fail(const char *what)
{
    printf("worker %u: %s\n", me.p.place, what);
    fflush(stdout);
    __atomic_add_fetch(&me.p.stage->failed, 1, __ATOMIC_RELAXED);
    _exit(1);
}

static void enter(const struct part *part)
{
    memset(&me, 0, sizeof(me));
    me.p = *part;
    me.dice = part->seed;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    me.fd = -1;
    me.remote = part->book->lives[part->life].remote;
    me.patient = part->book->lives[part->life].grace_ms > 0;
    if (!me.p.backend->enter(&part->book->lives[part->life]))
        fail("cannot enter");
}

/* Some give back what they hold, some leave that to close, some just exit. */
static _Noreturn void go(void)
{
    const struct op what = {.kind = OP_CLOSE};
    struct op *op;

    if (me.n_pending > 0 && player_below(4) != 0)
        unanswered_finish();
    while (me.n > 0 && !me.full && player_below(4) != 0)
        player_unlock(me.n - 1);
    if (!me.p.backend->full)
        while (me.n > 0 && !me.full)
            player_unlock(me.n - 1);
    op = player_begin(&what);
    if (op != NULL && player_below(2) == 0) {
        me.p.backend->leave();
        player_end(op, 0);
    }
    _exit(0);
}

/* What is held must be given back, and that be written down. */
static bool log_is_nearly_full(void)
{
    return me.p.book->n_ops[me.p.place] > me.p.ops_max - LOG_SPARE;
}

void worker_run(const struct part *part)
{
    enter(part);
    if (part->backend->full && player_below(3) != 0)
        unanswered_listen();
    while (playing() && !log_is_nearly_full())
        play();
    while (playing())
        nap_us(500);
    go();
}

/* --- the janitor --- */

/* While others wait for ever behind a lock that is kept for ever, somebody
   must do away with it. */
static void break_some_orphans(void)
{
    size_t n = look_around();

    for (size_t i = 0; i < n; i++)
        if (seen[i].rest.orphaned && !seen[i].rest.waiting &&
            player_below(2) == 0)
            do_break(&seen[i]);
}

/* Nobody lives any more. A lock with a delay is over some ms after the death of
   its holder was noticed, which on a busy machine is late. */
static bool has_delayed(void)
{
    size_t n = 0;

    if (me.p.backend->list(seen, REST_MAX, &n) != ENQ_OK)
        return false; /* to be said below */
    for (size_t i = 0; i < n; i++)
        if (seen[i].rest.on_death == ENQ_DEATH_RELEASE)
            return true;
    return false;
}

#define DELAYED_MOST_NS (5 * NS_S)

static void see_the_rest(void)
{
    struct book *b = me.p.book;
    int64_t until = now_ns() + DELAYED_MOST_NS;
    size_t n = 0;

    while (has_delayed() && now_ns() < until)
        nap_us(5000);
    b->rest_ns = now_ns();
    if (me.p.backend->list(seen, REST_MAX, &n) != ENQ_OK)
        fail("cannot list");
    b->end_ns = now_ns();
    for (size_t i = 0; i < n; i++)
        b->rest[i] = seen[i].rest;
    b->n_rest = (uint32_t)n;
}

static int phase_now(void)
{
    return __atomic_load_n(&me.p.stage->phase, __ATOMIC_ACQUIRE);
}

void janitor_run(const struct part *part)
{
    struct stage *stage = part->stage;
    int findings;

    enter(part);
    while (phase_now() != ROUND_REST) {
        break_some_orphans();
        nap_us(1000);
    }
    see_the_rest();
    findings = part->backend->clean(stage->table, sizeof(stage->table));
    if (findings > 0)
        __atomic_add_fetch(&stage->n_table, (uint32_t)findings,
            __ATOMIC_RELAXED);
    part->backend->leave();
    _exit(0);
}
