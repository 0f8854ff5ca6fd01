/*
 * history.c - histories of operations on a healthy segment, compared with a
 * list of locks that is gone through for every question.
 *
 * One thread acts for three sessions, so that a waiter waits for time to pass.
 * Times are whole seconds apart from the deadlines: which session notices first
 * that a lock has run out is not asked here.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuzz.h"
#include "recovery/check.h"

#define STEPS_MOST 60
#define LOCKS_MOST 96
#define MARGIN_NS (100 * NS_PER_MS)

/* --- what there should be --- */

struct object {
    const char *spec, *name, *field[2];
    unsigned fields;
};

static const struct object objects[] = {
    {"a/1", "a", {"1"}, 1},
    {"a/2", "a", {"2"}, 1},
    {"a/@", "a", {"@"}, 1},
    {"b/1/1", "b", {"1", "1"}, 2},
    {"b/1/2", "b", {"1", "2"}, 2},
    {"b/@/1", "b", {"@", "1"}, 2},
    {"b/1/@", "b", {"1", "@"}, 2},
    {"b/@/@", "b", {"@", "@"}, 2},
    {"c", "c", {NULL}, 0},
    {"c/@", "c", {"@"}, 1},
};

static const char *const owners[] = {"ann", "bob", ""};

struct lock {
    enq_handle handle;
    uint64_t token;
    unsigned object, owner;
    char mode;
    int64_t deadline_ns;
    bool held; /* unless it has run out */
};

struct history {
    struct arena *a;
    struct feed f;
    bool sap;
    struct lock locks[LOCKS_MOST];
    unsigned n;
    uint64_t newest[LENGTH(objects)]; /* token */
};

static bool is_held(const struct lock *l)
{
    return l->held && l->deadline_ns > arena_now_ns;
}

static bool overlap(unsigned i, unsigned j)
{
    const struct object *a = &objects[i], *b = &objects[j];

    if (strcmp(a->name, b->name) != 0 || a->fields != b->fields)
        return false;
    for (unsigned k = 0; k < a->fields; k++)
        if (strcmp(a->field[k], "@") != 0 && strcmp(b->field[k], "@") != 0 &&
            strcmp(a->field[k], b->field[k]) != 0)
            return false;
    return true;
}

static bool share(const struct history *h, char a, char b)
{
    if (h->sap)
        return (a == 'S' || a == 'O') && (b == 'S' || b == 'O');
    return a == b && (a == 'S' || a == 'O');
}

static bool conflict(const struct history *h, const struct lock *held,
    const struct lock *ask)
{
    bool same = held->owner == ask->owner && owners[ask->owner][0] != '\0';

    if (!is_held(held) || held == ask || !overlap(held->object, ask->object))
        return false;
    if (same && held->mode == 'E' && ask->mode == 'E')
        return false;
    if (same && h->sap)
        return held->mode == 'X' || ask->mode == 'X';
    return !share(h, held->mode, ask->mode);
}

/* The last deadline of those in the way; 0: nobody is. */
static int64_t in_the_way(const struct history *h, const struct lock *ask)
{
    int64_t last = 0;

    for (unsigned i = 0; i < h->n; i++)
        if (conflict(h, &h->locks[i], ask) && h->locks[i].deadline_ns > last)
            last = h->locks[i].deadline_ns;
    return last;
}

/* Away from every deadline. */
static void settle(const struct history *h)
{
    for (unsigned i = 0; i < h->n;) {
        int64_t left = h->locks[i].deadline_ns - arena_now_ns;

        if (h->locks[i].held && left > -MARGIN_NS && left < MARGIN_NS) {
            arena_now_ns += 2 * MARGIN_NS;
            i = 0;
        } else {
            i++;
        }
    }
}

/* Tokens of what overlaps only grow. */
static void note_token(struct history *h, struct lock *l, uint64_t token)
{
    for (unsigned i = 0; i < LENGTH(objects); i++)
        if (overlap(i, l->object) && token <= h->newest[i])
            fuzz_fail("the token of %s does not grow", objects[l->object].spec);
    h->newest[l->object] = l->token = token;
}

static void expect(bool fine, const char *what, int rc)
{
    if (!fine)
        fuzz_fail("%s gives %s (%s)", what, enq_result_name(rc), enq_why());
}

/* --- what there is --- */

static struct enq *someone(struct history *h, uint8_t b)
{
    return &h->a->at[b % ARENA_SESSIONS].e;
}

/* Only locks whose answer is known: not when it comes too near a deadline. */
static bool foresee(const struct history *h, const struct lock *ask,
    int64_t wait_ms, int *rc)
{
    int64_t last = in_the_way(h, ask);
    int64_t end = arena_now_ns + wait_ms * NS_PER_MS;

    *rc = ENQ_OK;
    if (last == 0)
        return true;
    *rc = wait_ms == 0 ? ENQ_BUSY : last < end ? ENQ_OK : ENQ_TIMEDOUT;
    return last < end - MARGIN_NS || last > end + MARGIN_NS;
}

static void lock(struct history *h)
{
    static const int64_t waits[] = {0, 0, 0, 1500};
    static const int64_t ttls[] = {1000, 3000, 10000, ENQ_FOREVER};
    uint8_t b = feed_byte(&h->f), c = feed_byte(&h->f);
    int64_t wait_ms = waits[c & 3], ttl_ms = ttls[c >> 2 & 3];
    struct lock *l = &h->locks[h->n];
    struct enq_grant grant;
    char mode[2] = {"SEXO"[b & 3], '\0'};
    int want, rc;

    *l = (struct lock){.object = (b >> 2) % LENGTH(objects),
        .owner = (c >> 4) % LENGTH(owners),
        .mode = mode[0]};
    if (h->n == LOCKS_MOST - 1 || !foresee(h, l, wait_ms, &want))
        return;
    rc = enq_lock_spec(someone(h, c >> 6), objects[l->object].spec, mode,
        owners[l->owner], wait_ms, ttl_ms, &grant);
    if (rc == ENQ_EFULL)
        return;
    expect(rc == want, objects[l->object].spec, rc);
    if (rc != ENQ_OK)
        return;
    l->handle = grant.handle;
    note_token(h, l, grant.token);
    l->deadline_ns = ttl_ms < 0 ? INT64_MAX : arena_now_ns + ttl_ms * NS_PER_MS;
    l->held = true;
    h->n++;
}

/* --- sets --- */

#define SET_MOST 4

/* The locks of a set are the last of the list, and not held yet. */
struct wish {
    struct enq_req req[SET_MOST];
    const struct enq_req *reqs[SET_MOST];
    char buf[SET_MOST][ENQ_NAME_BYTES + ENQ_KEY_BYTES];
    struct enq_grant grants[SET_MOST];
    struct lock *locks;
    unsigned n;
    int64_t wait_ms;
};

static void make_wish(struct history *h, struct wish *w, uint8_t how)
{
    w->n = 1 + how % SET_MOST;
    w->wait_ms = how & 0x10 ? 1500 : 0;
    w->locks = &h->locks[h->n];
    for (unsigned i = 0; i < w->n; i++) {
        uint8_t b = feed_byte(&h->f);
        struct lock *l = &w->locks[i];

        *l = (struct lock){.object = (b >> 2) % LENGTH(objects),
            .owner = (how >> 5) % LENGTH(owners),
            .mode = "SEXO"[b & 3]};
        w->req[i] = (struct enq_req){.size = sizeof(w->req[i]),
            .owner = owners[l->owner],
            .ttl_ms = 3000,
            .wait_ms = w->wait_ms};
        enq_spec_parse(objects[l->object].spec, &w->req[i], w->buf[i],
            sizeof(w->buf[i]));
        w->req[i].mode = (enum enq_mode)(1 + (b & 3));
        w->reqs[i] = &w->req[i];
    }
}

/* Two that could never be held at once. */
static bool at_odds(const struct history *h, const struct wish *w)
{
    for (unsigned i = 0; i < w->n; i++)
        for (unsigned k = 0; k < i; k++) {
            struct lock other = w->locks[k];

            other.held = true;
            other.deadline_ns = INT64_MAX;
            if (conflict(h, &other, &w->locks[i]))
                return true;
        }
    return false;
}

/* That of the member for which it waits longest; a refusal is a refusal. */
static bool foresee_set(const struct history *h, const struct wish *w, int *rc)
{
    int one;

    *rc = at_odds(h, w) ? -EINVAL : ENQ_OK;
    for (unsigned i = 0; i < w->n && *rc == ENQ_OK; i++) {
        if (!foresee(h, &w->locks[i], w->wait_ms, &one))
            return false;
        if (one != ENQ_OK)
            *rc = one;
    }
    return true;
}

static void lock_set(struct history *h, uint8_t b)
{
    struct wish w;
    int want, rc;

    if (h->n > LOCKS_MOST - 1 - SET_MOST)
        return;
    make_wish(h, &w, feed_byte(&h->f));
    if (!foresee_set(h, &w, &want))
        return;
    rc = enq_lock_set(someone(h, b), w.reqs, w.n, w.grants);
    if (rc == ENQ_EFULL)
        return;
    expect(rc == want, "a set", rc);
    for (unsigned i = 0; i < w.n && rc == ENQ_OK; i++) {
        struct lock *l = &w.locks[i];

        l->handle = w.grants[i].handle;
        note_token(h, l, w.grants[i].token);
        l->deadline_ns = arena_now_ns + 3000 * NS_PER_MS;
        l->held = true;
        h->n++;
    }
}

static void unlock_all(struct history *h, uint8_t b)
{
    struct enq_grant grants[SET_MOST];
    unsigned n = 1 + b % SET_MOST;
    bool fine = true;
    int rc;

    if (n > h->n)
        return;
    for (unsigned i = 0; i < n; i++) {
        struct lock *l = &h->locks[h->n - 1 - i];

        grants[i].handle = l->handle;
        grants[i].token = l->token;
        fine &= is_held(l);
        l->held = false;
    }
    rc = enq_unlock_set(someone(h, b >> 4), grants, n);
    expect(fine ? rc == ENQ_OK : rc > 0, "unlocking a set", rc);
}

/* --- changes --- */

static void unlock(struct history *h, struct lock *l, uint8_t b)
{
    bool wrong = b & 1;
    int rc = enq_unlock(someone(h, b >> 1), l->handle,
        wrong ? l->token + 1 : l->token);

    expect(is_held(l) && !wrong ? rc == ENQ_OK : rc > 0, "unlock", rc);
    l->held = l->held && wrong;
}

static void promote(struct history *h, struct lock *l, uint8_t b)
{
    struct lock as = *l;
    struct enq_grant grant;
    bool held = is_held(l), win = held && l->mode == 'O';
    int rc;

    as.mode = 'E';
    for (unsigned i = 0; i < h->n; i++)
        if (&h->locks[i] != l && h->locks[i].mode != 'O' &&
            conflict(h, &h->locks[i], &as))
            win = false;
    rc = enq_promote(someone(h, b), l->handle, 0, &grant);
    expect(win ? rc == ENQ_OK : rc > 0 && (!held || rc == ENQ_REFUSED),
        "promote", rc);
    if (rc != ENQ_OK)
        return;
    for (unsigned i = 0; i < h->n; i++)
        if (&h->locks[i] != l && h->locks[i].mode == 'O' &&
            overlap(h->locks[i].object, l->object))
            h->locks[i].held = false;
    note_token(h, l, grant.token);
    l->mode = 'E';
}

static void demote(struct history *h, struct lock *l, uint8_t b)
{
    bool can = is_held(l) && (l->mode == 'E' || l->mode == 'X');
    int rc = enq_demote(someone(h, b), l->handle, 0);

    expect(can ? rc == ENQ_OK : rc > 0, "demote", rc);
    if (can)
        l->mode = 'S';
}

static void renew(struct history *h, struct lock *l, uint8_t b)
{
    int rc = enq_renew(someone(h, b), l->handle, l->token, 2000);

    expect(is_held(l) ? rc == ENQ_OK : rc > 0, "renew", rc);
    if (rc == ENQ_OK)
        l->deadline_ns = arena_now_ns + 2000 * NS_PER_MS;
}

static void by_id(struct history *h, struct lock *l, uint8_t b)
{
    struct enq *e = someone(h, b);
    char id[ENQ_ID_BYTES];
    struct enq_grant grant;
    int rc;

    if (!is_held(l))
        return;
    rc = enq_id(e, l->handle, id);
    expect(rc == ENQ_OK, "id", rc);
    rc = enq_adopt(e, id, &grant);
    expect(rc == ENQ_REFUSED, "adopt", rc);
    if (b & 0x40) {
        rc = enq_break(e, id);
        expect(rc == ENQ_OK, "break", rc);
        l->held = false;
    }
}

static void valid(struct history *h, struct lock *l, uint8_t b)
{
    int rc = enq_valid(someone(h, b), l->handle);

    expect(is_held(l) ? rc == ENQ_OK : rc > 0, "valid", rc);
}

static void count(struct history *h)
{
    size_t total = 0, held = 0;

    for (unsigned i = 0; i < h->n; i++)
        held += is_held(&h->locks[i]);
    if (enq_list(&h->a->watcher, NULL, NULL, NULL, 0, &total) != ENQ_OK ||
        total != held)
        fuzz_fail("%zu locks are listed, %zu should be", total, held);
}

static void step(struct history *h)
{
    static void (*const changes[])(struct history *, struct lock *, uint8_t) = {
        unlock, promote, demote, renew, by_id, valid};
    uint8_t b = feed_byte(&h->f), what = b & 7;

    settle(h);
    if (what == 2 && b & 0x40)
        lock_set(h, b >> 3);
    else if (what == 2 && b & 0x20)
        unlock_all(h, b);
    else if (what < 3 || h->n == 0)
        lock(h);
    else if (what == 7 && b & 0x80)
        arena_now_ns += (b >> 3 & 15) * 500 * NS_PER_MS;
    else
        changes[b >> 3 & 15 ? (b >> 3 & 15) % LENGTH(changes) : 0](h,
            &h->locks[feed_byte(&h->f) % h->n], feed_byte(&h->f));
}

void fuzz_history(const uint8_t *data, size_t n)
{
    struct history h = {.f = {data, data + n}};
    char text[1024] = "";
    struct check_report report = {text, sizeof(text), 0, 0};

    h.sap = feed_byte(&h.f) & 1;
    h.a = arena_get(h.sap ? ARENA_STRICT : ARENA_CLEAN);
    for (unsigned i = 0; i < STEPS_MOST && feed_more(&h.f); i++)
        step(&h);
    settle(&h);
    count(&h);
    if (check_table(h.a->map, h.a->t, &report) != 0 || report.findings > 0)
        fuzz_fail("%u findings:\n%s", report.findings, text);
    arena_restore(h.a);
}
