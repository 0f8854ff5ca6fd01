/*
 * ops.c - the operations that are died in, and the states that they begin in.
 *
 * State 0 of each operation is the plain one; the others are thrown with the
 * seed, so that a state is named by its number.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "step.h"

#define LONG_WAIT_MS 100000 /* longer than a victim may take, step by step */

static const uint32_t modes[] = {
    ENQ_MODE_X, ENQ_MODE_S, ENQ_MODE_E, ENQ_MODE_O};

/* --- states --- */

/* True once in n, from the next bits. */
static bool one_in(uint64_t *bits, unsigned n)
{
    *bits = dice(*bits, n, 1);
    return *bits % n == 0;
}

static void want_make(struct want *want, const char *owner, const char *field)
{
    memset(want, 0, sizeof(*want));
    strcpy(want->name, "n");
    snprintf(want->owner, sizeof(want->owner), "%s", owner);
    snprintf(want->key[0], sizeof(want->key[0]), "%s", field);
    want->mode = ENQ_MODE_X;
}

static void key_of(const struct op *op, unsigned number, char field[24])
{
    snprintf(field, 24, "k%u-%u", (unsigned)(op - ops), number);
}

/* What a victim's request may look like, beside its key and mode. */
static void vary(struct want *want, uint64_t bits)
{
    if (one_in(&bits, 4))
        snprintf(want->id, sizeof(want->id), "id-%s", want->key[0]);
    if (one_in(&bits, 2))
        want->on_death = 1 + bits / 2 % 2;
    if (one_in(&bits, 6))
        memset(want->owner, 'v', LONG_OWNER);
}

void state_make(struct state *s, const struct op *op, unsigned number)
{
    uint64_t bits = dice(tally->seed, (uint64_t)(op - ops), number);
    char field[24];

    memset(s, 0, sizeof(*s));
    key_of(op, number, field);
    want_make(&s->waiter, "W", field);
    want_make(&s->victim, "V", op->generic ? "@" : field);
    s->victim.wait_ms = op->wait_ms;
    s->waiter.wait_ms = LONG_WAIT_MS;
    s->victim.mode = op->mode != 0 ? op->mode : ENQ_MODE_E;
    s->barge = number % BARGES;
    if (number == 0)
        return;
    s->bits = bits;
    if (op->mode == 0)
        s->victim.mode = modes[bits % 4];
    s->waiter.mode = modes[bits / 4 % 4];
    vary(&s->victim, bits);
    s->cold = one_in(&bits, 3);
    s->gate_up = one_in(&bits, 4);
    s->company = one_in(&bits, 2);
    s->due = one_in(&bits, 2);
    if (one_in(&bits, 8))
        strcpy(s->waiter.key[0], "@");
}

/* --- the controller's part --- */

/* A lock that goes with the victim's; on its key, or on one that it overlaps.
 */
static void join_in(struct world *w)
{
    struct want with = w->state.victim;

    if (w->state.gate_up) {
        struct want up;

        want_make(&up, "C", "@");
        strcpy(up.key[1], "x");
        up.mode = ENQ_MODE_S;
        world_hold(w, &up);
    }
    if (!w->state.company || with.mode == ENQ_MODE_X)
        return;
    if (with.mode != ENQ_MODE_E)
        strcpy(with.owner, "C");
    with.id[0] = '\0';
    with.wait_ms = 0;
    memcpy(with.key[0], w->state.waiter.key[0], sizeof(with.key[0]));
    world_hold(w, &with);
}

static void hold_against(struct world *w, uint32_t mode, int64_t ttl_ms)
{
    struct want against = w->state.victim;

    strcpy(against.owner, "C");
    against.mode = mode;
    against.ttl_ms = ttl_ms;
    against.wait_ms = 0;
    against.on_death = 0;
    snprintf(against.id, sizeof(against.id), "c-%s", w->state.victim.key[0]);
    world_hold(w, &against);
}

static void refuse(struct world *w)
{
    hold_against(w, ENQ_MODE_X, 0);
}

static void share(struct world *w)
{
    hold_against(w, ENQ_MODE_S, 0);
}

static void let_expire(struct world *w)
{
    hold_against(w, ENQ_MODE_X, 1);
}

static void wait_here(struct world *w)
{
    world_wait(w, &w->state.waiter);
}

/* For what the controller holds, and the victim has nothing to do with. */
static void wait_elsewhere(struct world *w)
{
    struct want other = w->state.waiter;

    strcpy(other.name, "other");
    other.mode = ENQ_MODE_X;
    other.wait_ms = 0;
    strcpy(other.owner, "C");
    world_hold(w, &other);
    strcpy(other.owner, "W");
    other.wait_ms = LONG_WAIT_MS;
    world_wait(w, &other);
}

static void wait_till_expired(struct world *w)
{
    wait_elsewhere(w);
    nap_us(14000);
}

static void wait_shared(struct world *w)
{
    w->state.waiter.mode = ENQ_MODE_S;
    wait_here(w);
}

static void wait_with_id(struct world *w)
{
    snprintf(w->state.waiter.id, sizeof(w->state.waiter.id), "w-%s",
        w->state.waiter.key[0]);
    wait_here(w);
}

/* Somebody holds, and is killed: at the end of it, or on the way there. */
static void lose_one(struct world *w)
{
    world_bereave(w, (struct aim){.kind = AIM_TRACE});
}

static void lose_one_inside(struct world *w)
{
    struct aim aim = {.kind = AIM_ANY};

    aim.nth_in_page = aim.n = 10 + (uint32_t)(w->state.bits % 64);
    world_bereave(w, aim);
    wait_elsewhere(w);
}

static void lose_keeper(struct world *w)
{
    w->state.victim.on_death = ENQ_DEATH_KEEP;
    strcpy(w->state.victim.id, "kept");
    lose_one(w);
    wait_here(w);
}

/* --- the victim's part --- */

static int warm(const struct state *s)
{
    struct enq_grant g;
    int rc;

    if (s->cold)
        return ENQ_OK;
    rc = enq_lock(victim_e, ENQ_REQ(.name = "home", .mode = ENQ_MODE_S), &g);
    return rc == ENQ_OK ? enq_unlock(victim_e, g.handle, g.token) : rc;
}

static int act_lock(const struct state *s)
{
    return want_lock(victim_e, &s->victim, &victim_grant);
}

/* All of them outlive the victim. */
#define SET 3

static int act_lock_set(const struct state *s)
{
    static const char *const others[SET] = {NULL, "set-1", "set-2"};
    struct enq_grant grants[SET];
    struct enq_req req[SET];
    const struct enq_req *reqs[SET];
    int rc;

    for (unsigned i = 0; i < SET; i++) {
        req[i] = (struct enq_req){.size = sizeof(req[i]),
            .name = s->victim.name,
            .key = {i == 0 ? s->victim.key[0] : others[i]},
            .owner = s->victim.owner,
            .id = i == 0 && s->victim.id[0] != '\0' ? s->victim.id : NULL,
            .mode = i == 0 ? s->victim.mode : ENQ_MODE_X,
            .on_death = i == 2 ? ENQ_DEATH_LEASE : ENQ_DEATH_KEEP,
            .wait_ms = s->victim.wait_ms};
        reqs[i] = &req[i];
    }
    rc = enq_lock_set(victim_e, reqs, SET, grants);
    if (rc == ENQ_OK)
        victim_grant = grants[0];
    return rc;
}

int victim_hold_two(const struct state *s)
{
    struct want other = s->victim;
    struct enq_grant g;

    strcpy(other.key[0], "second");
    strcpy(other.key[1], "lock");
    other.id[0] = '\0';
    other.mode = ENQ_MODE_S;
    want_lock(victim_e, &other, &g);
    return act_lock(s);
}

static int act_unlock(const struct state *s)
{
    (void)s;
    return enq_unlock(victim_e, victim_grant.handle, victim_grant.token);
}

static int act_promote(const struct state *s)
{
    (void)s;
    return enq_promote(victim_e, victim_grant.handle, victim_grant.token,
        &victim_grant);
}

static int act_demote(const struct state *s)
{
    (void)s;
    return enq_demote(victim_e, victim_grant.handle, victim_grant.token);
}

static int act_renew(const struct state *s)
{
    return enq_renew(victim_e, victim_grant.handle, victim_grant.token,
        (int64_t)(s->bits % 3) * 100000 - 1);
}

static int act_open(const struct state *s)
{
    (void)s;
    return victim_open();
}

/* The helper thread reaps in its first round: only its stores are seen here,
   as this thread makes none. */
static int act_reap(const struct state *s)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = victim_open(), turns = 2000;

    (void)s;
    while (rc == ENQ_OK && turns-- > 0) {
        rc = enq_stat(victim_e, &stats);
        if (stats.sessions == 4)
            break;
        nap_us(100);
    }
    return rc;
}

static int act_close(const struct state *s)
{
    (void)s;
    enq_close(victim_e);
    return ENQ_OK;
}

static int act_adopt(const struct state *s)
{
    (void)s;
    return enq_adopt(victim_e, "kept", &victim_grant);
}

static int act_break(const struct state *s)
{
    char id[64];

    if (s->bits % 2 == 0)
        snprintf(id, sizeof(id), "c-%s", s->victim.key[0]);
    else
        snprintf(id, sizeof(id), "w-%s", s->waiter.key[0]);
    return enq_break(victim_e, id);
}

static int act_cancel(const struct state *s)
{
    enq_handle h;
    char id[64];
    int rc;

    snprintf(id, sizeof(id), "w-%s", s->waiter.key[0]);
    rc = enq_find(victim_e, id, &h);
    return rc == ENQ_OK ? enq_unlock(victim_e, h, 0) : rc;
}

static int act_fix(const struct state *s)
{
    char report[512];

    (void)s;
    return enq_doctor(victim_e, ENQ_DOCTOR_FIX, report, sizeof(report));
}

static int act_list(const struct state *s)
{
    (void)s;
    return enq_list(victim_e, "n", NULL, NULL, 0, NULL);
}

/* --- the table --- */

const struct op ops[] = {
    {"lock", 60, 200, .before = join_in, .hold = warm, .after = wait_elsewhere,
        .act = act_lock},
    {"refused", 24, 200, .before = refuse, .hold = warm, .after = wait_here,
        .act = act_lock},
    {"lock set", 24, 200, .set = SET, .before = join_in, .hold = warm,
        .after = wait_elsewhere, .act = act_lock_set},
    {"wait set", 16, 200, .set = SET, .wait_ms = LONG_WAIT_MS, .before = refuse,
        .hold = warm, .after = wait_here, .act = act_lock_set,
        .asleep = world_release},
    {"unlock", 80, 200, .before = join_in, .hold = act_lock, .after = wait_here,
        .act = act_unlock},
    {"wait", 28, 200, .wait_ms = LONG_WAIT_MS, .before = refuse, .hold = warm,
        .after = wait_here, .act = act_lock, .asleep = world_release},
    {"timeout", 24, 200, ENQ_MODE_X, .wait_ms = 4, .before = share,
        .hold = warm, .act = act_lock, .asleep = wait_shared},
    {"promote", 60, 200, ENQ_MODE_O, .before = join_in, .hold = act_lock,
        .after = wait_here, .act = act_promote},
    {"demote", 50, 200, ENQ_MODE_E, .before = join_in, .hold = act_lock,
        .after = wait_shared, .act = act_demote},
    {"renew", 16, 200, .before = join_in, .hold = act_lock, .after = wait_here,
        .act = act_renew},
    {"expiry", 24, 200, .before = let_expire, .hold = warm,
        .after = wait_till_expired, .act = act_lock},
    {"lock @", 20, 150, .generic = true, .before = join_in, .hold = warm,
        .after = wait_elsewhere, .act = act_lock},
    {"unlock @", 20, 150, .generic = true, .before = join_in, .hold = act_lock,
        .after = wait_here, .act = act_unlock},
    {"promote @", 12, 150, ENQ_MODE_O, .generic = true, .before = join_in,
        .hold = act_lock, .after = wait_here, .act = act_promote},
    {"open", 12, 200, .opens = true, .after = wait_elsewhere, .act = act_open},
    {"close", 36, 200, .before = join_in, .hold = victim_hold_two,
        .after = wait_here, .act = act_close},
    {"reap", 30, 200, .opens = true, .before = lose_one,
        .after = wait_elsewhere, .act = act_reap},
    {"recover", 40, 200, .hold = warm, .after = lose_one_inside,
        .act = act_lock},
    {"adopt", 12, 200, .hold = warm, .after = lose_keeper, .act = act_adopt},
    {"break", 20, 200, .cancels = true, .before = refuse, .hold = warm,
        .after = wait_with_id, .act = act_break},
    {"cancel", 16, 200, .cancels = true, .before = refuse, .hold = warm,
        .after = wait_with_id, .act = act_cancel},
    {"doctor", 1, 60, .before = refuse, .hold = warm, .after = wait_here,
        .act = act_fix},
    {"list", 6, 100, .before = join_in, .hold = act_lock, .after = wait_here,
        .act = act_list},
};

const unsigned n_ops = sizeof(ops) / sizeof(ops[0]);
