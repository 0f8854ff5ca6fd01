/*
 * hostile.c - every operation on a segment which somebody else writes into
 * before the calls, between them, and in the middle of them.
 */
#include <string.h>

#include "fuzz.h"
#include "lib/latches.h"
#include "lock/hold.h"
#include "populate.h"
#include "recovery/check.h"
#include "recovery/reap.h"
#include "store/notify.h"
#include "wait/cycle.h"
#include "wait/lock_event.h"
#include "wait/set_wait.h"

#define STEPS_MOST 40

struct play {
    struct arena *a;
    struct enq *e;
    struct feed f;
};

static enq_handle some_handle(struct play *p)
{
    uint8_t b = feed_byte(&p->f);
    unsigned n = p->a->n_handles;

    if (b == 0xff)
        return feed_word(&p->f, 8);
    return n == 0 ? 0
                  : p->a->handles[b % (n < ARENA_HANDLES ? n : ARENA_HANDLES)];
}

static const char *some_spec(uint8_t b)
{
    static const char *const specs[] = {"a/x", "a/y", "a/@", "b/1", "b/@",
        "c/1", "c/2", "c/@", "e/1", "e/@", "@", "f", "g//", "h/1/2/3",
        "h/@/2/@",
        "l/"
        "01234567890123456789012345678901234567890123456789012345678901234567"
        "890123456789012345678901234567890123456789"};

    return specs[b % LENGTH(specs)];
}

static const char *some_owner(uint8_t b)
{
    static const char *const owners[] = {NULL, "ann", "bob", ""};

    return owners[b % LENGTH(owners)];
}

static const char *some_id(uint8_t b)
{
    static const char *const ids[] = {"id-1", "id-2", "id-3", "id-4"};

    return ids[b % LENGTH(ids)];
}

/* Its texts are in `buf`. */
static void some_request(struct play *p, struct enq_req *req,
    char buf[KEY_BYTES_MAX])
{
    static const int64_t waits[] = {0, 0, 1, 45};
    static const int64_t ttls[] = {0, ENQ_FOREVER, 1, 100};
    uint8_t b = feed_byte(&p->f), c = feed_byte(&p->f);

    *req = (struct enq_req){.size = sizeof(*req),
        .owner = some_owner(b >> 4),
        .id = c & 8 ? some_id(c >> 4) : NULL,
        .on_death = (enum enq_death)(c >> 6 & 1),
        .peer = c & 0x20 ? "a peer" : NULL,
        .flags = c >> 7 ? ENQ_TEST : 0,
        .wait_ms = waits[c & 3],
        .ttl_ms = ttls[c >> 4 & 3]};
    if (enq_spec_parse(some_spec(b), req, buf, KEY_BYTES_MAX) != 0)
        fuzz_fail("%s", enq_why());
    req->mode = (enum enq_mode)(1 + (b >> 6));
}

static void note_handle(struct play *p, enq_handle handle)
{
    p->a->handles[p->a->n_handles++ % ARENA_HANDLES] = handle;
}

static void lock(struct play *p)
{
    char buf[KEY_BYTES_MAX];
    struct enq_grant grant;
    struct enq_req req;

    some_request(p, &req, buf);
    if (enq_lock(p->e, &req, &grant) == ENQ_OK && !(req.flags & ENQ_TEST))
        note_handle(p, grant.handle);
}

/* --- lock sets --- */

#define SET_MOST 10

struct wishes {
    struct enq_req req[SET_MOST];
    const struct enq_req *reqs[SET_MOST];
    char buf[SET_MOST][KEY_BYTES_MAX];
    struct enq_grant grants[SET_MOST];
    unsigned n;
};

/* Of one owner, mostly. */
static void some_wishes(struct play *p, struct wishes *w)
{
    uint8_t how = feed_byte(&p->f);

    w->n = 1 + (how & 0x3f) % SET_MOST;
    for (unsigned i = 0; i < w->n; i++) {
        some_request(p, &w->req[i], w->buf[i]);
        w->reqs[i] = &w->req[i];
        if (how & 0x80 && how & 0x40)
            continue;
        w->req[i].owner = w->req[0].owner;
        w->req[i].wait_ms = w->req[0].wait_ms;
        w->req[i].flags = w->req[0].flags;
    }
}

static void lock_set(struct play *p)
{
    struct wishes w;

    some_wishes(p, &w);
    if (enq_lock_set(p->e, w.reqs, w.n, w.grants) != ENQ_OK ||
        w.req[0].flags & ENQ_TEST)
        return;
    for (unsigned i = 0; i < w.n; i++)
        note_handle(p, w.grants[i].handle);
}

static void unlock_set(struct play *p)
{
    struct enq_grant grants[SET_MOST];
    unsigned n = feed_byte(&p->f) % SET_MOST;

    for (unsigned i = 0; i < n; i++)
        grants[i] = (struct enq_grant){.handle = some_handle(p)};
    enq_unlock_set(p->e, grants, n);
}

/* As the helper thread looks after one that was started. */
static int look_after_set(struct play *p, struct set *set, unsigned looks)
{
    struct wait_plan plan;
    int rc = ENQ_PENDING;

    while (rc == ENQ_PENDING && looks-- > 0) {
        set_has_moved(set);
        rc = set_look(set, &plan);
        arena_now_ns += NS_PER_MS;
        if (looks > 0 && feed_byte(&p->f) & 1)
            damage(p->a, &p->f);
    }
    return rc;
}

/* The one that waits. A copy: the next execution begins with it anew. */
static void look_at_set(struct play *p, bool withdraws)
{
    struct set set = p->a->set;
    struct member members[ARENA_SET];
    struct enq_blocker blocker;

    memcpy(members, p->a->of_set, sizeof(members));
    set.member = members;
    set.blocker = &blocker;
    if (look_after_set(p, &set, 1 + feed_byte(&p->f) % 4) == ENQ_PENDING &&
        withdraws)
        set_withdraw(&set);
}

/* Its entries may be of any session: they were taken a moment ago. */
static void start_set(struct play *p)
{
    struct member members[ARENA_SET];
    struct enq_blocker blocker;
    struct set set = {.s = &p->e->session,
        .t = p->a->t,
        .member = members,
        .deadline = {arena_now_ns + 45 * NS_PER_MS},
        .blocker = &blocker};
    struct wishes w;
    uint32_t other;

    some_wishes(p, &w);
    for (unsigned i = 0; i < w.n && i < ARENA_SET; i++, set.n++) {
        if (slab_take_large(set.s, set.t, &members[i].place.e) != 0)
            break;
        w.req[i].owner = "eve";
        populate_member(&set, &members[i], &w.req[i]);
    }
    if (set.n == 0 || set_check(&set, &other) != SET_FINE)
        set_give_back(&set, set.n);
    else if (set_lock(&set, true) == ENQ_PENDING &&
        look_after_set(p, &set, 4) == ENQ_PENDING)
        set_withdraw(&set);
}

/* As a thread leaves it that is killed while it takes a set: its journal says
   so, and it has a latch. */
static void leave_half_a_set(struct play *p)
{
    struct map *map = p->a->map;
    struct thread_slot *slot = p->a->dead;
    uint64_t state;
    struct entry *e = entry_of_handle(map, some_handle(p), &state);
    struct bucket *bucket;

    if (e == NULL)
        return;
    slot->set_of = e->session;
    slot->set = e->ticket != 0 ? e->ticket : 7;
    e->ticket = slot->set;
    bucket = bucket_of_entry(map, e);
    if (bucket != NULL) /* the shard may be damaged */
        bucket->latch = slot->ref;
}

static void with_set(struct play *p, uint8_t what)
{
    switch (what % 6) {
    case 0:
    case 1:
        lock_set(p);
        break;
    case 2:
        unlock_set(p);
        break;
    case 3:
        look_at_set(p, (what & 8) != 0);
        break;
    case 4:
        start_set(p);
        break;
    default:
        leave_half_a_set(p);
    }
}

/* --- other calls --- */

static void change(struct play *p, uint8_t what)
{
    enq_handle handle = some_handle(p);
    struct enq_grant grant;

    switch (what) {
    case 0:
    case 1:
        enq_unlock(p->e, handle, 0);
        break;
    case 2:
        enq_promote(p->e, handle, 0, &grant);
        break;
    case 3:
        enq_demote(p->e, handle, 0);
        break;
    case 4:
        enq_renew(p->e, handle, 0, feed_byte(&p->f));
        break;
    case 5:
        enq_abandon(p->e, handle, 0);
        break;
    default:
        enq_valid(p->e, handle);
    }
}

static void inherit_some(struct play *p)
{
    struct enq_info out[4];
    size_t got;

    enq_inherit(p->e, out, LENGTH(out), &got);
    if (got > LENGTH(out))
        fuzz_fail("%zu are inherited, of %zu", got, LENGTH(out));
}

static void look_for_orphans(struct play *p)
{
    struct enq_orphan left[ENQ_ORPHANS_LEAST + 1];
    struct enq_info info;
    uint64_t at = 0;
    size_t got;
    int rc;

    do {
        rc = enq_orphans(p->e, &at, left, LENGTH(left), &got);
        if (got > LENGTH(left))
            fuzz_fail("%zu are told of, of %zu", got, LENGTH(left));
        for (size_t i = 0; i < got; i += 7)
            enq_inherit_lock(p->e, left[i].handle, left[i].heir, &info);
    } while (rc == ENQ_PENDING);
}

static void by_id(struct play *p, uint8_t what)
{
    char id[ENQ_ID_BYTES];
    const char *which = some_id(what);
    struct enq_grant grant;
    enq_handle handle = some_handle(p);

    if (what & 4 && enq_id(p->e, handle, id) == ENQ_OK)
        which = id;
    switch (what >> 3 & 3) {
    case 0:
    case 1:
        if (what & 0x80)
            look_for_orphans(p);
        else if (what & 0x40)
            inherit_some(p);
        else
            enq_adopt(p->e, which, &grant);
        break;
    case 2:
        enq_break(p->e, which);
        break;
    default:
        enq_find(p->e, which, &handle);
    }
}

/* As the helper thread does for a session that listens. */
static bool take_lock_events(void *context, struct entry *e, uint64_t state)
{
    struct play *p = context;
    mono_t next = MONO_NEVER;
    struct lock_event n;

    for (int i = 0; i < 8; i++) {
        lock_event_take(&p->e->session, p->a->t, e, STATE_GENERATION(state), &n,
            &next);
        if (n.kind == LOCK_EVENT_NONE)
            break;
    }
    return true;
}

static void take_calls(struct play *p)
{
    uint32_t seen = feed_byte(&p->f);
    ref_t ref;

    for (int i = 0; i < 64; i++)
        if (notification_take(p->e->session.slot, &seen, &ref) ==
            NOTIFICATION_ONE)
            at_entry(p->a->map, ref);
}

static void look(struct play *p, uint8_t what)
{
    static struct enq_edge edges[4];
    struct cycle found;
    struct enq_info out[8];
    struct enq_stats stats = {.size = sizeof(stats)};
    char report[512];

    switch (what) {
    case 0:
    case 1:
        enq_list(p->e, "a", NULL, out, LENGTH(out), NULL);
        break;
    case 2:
        enq_list(p->e, NULL, "bob", out, LENGTH(out), NULL);
        break;
    case 3:
        enq_stat(p->e, &stats);
        break;
    case 4:
        reap_dead(&p->e->session, p->a->t);
        break;
    case 5:
        watch_round(&p->e->session, (mono_t){arena_now_ns}, NULL, NULL);
        break;
    case 6:
        enq_doctor(p->e, 0, report, sizeof(report));
        break;
    case 7:
        enq_doctor(p->e, ENQ_DOCTOR_FIX, report, sizeof(report));
        break;
    case 8:
        lock_event_each(&p->e->session, take_lock_events, p);
        break;
    case 9:
        take_calls(p);
        break;
    case 10:
        enq_graph(p->e, edges, LENGTH(edges), NULL);
        break;
    case 11:
        cycle_find(&p->e->session, p->a->t, some_handle(p), false, &found);
        break;
    default:
        if (what < 16)
            hold_alive(p->a->map, some_handle(p));
        else
            with_set(p, what);
    }
}

/* What an edit is, and when: its bytes are passed over now. */
static void damage_inside(struct play *p, unsigned reads)
{
    struct feed edit = p->f;

    if (edit.end - edit.at > DAMAGE_BYTES)
        edit.end = edit.at + DAMAGE_BYTES;
    p->f.at = edit.end;
    arena_damage_later(reads, &edit);
}

static void step(struct play *p)
{
    uint8_t b = feed_byte(&p->f), what = b >> 3;

    switch (b % 8) {
    case 0:
    case 1:
        damage(p->a, &p->f);
        break;
    case 2:
        damage_inside(p, 1 + what % 8);
        break;
    case 3:
        lock(p);
        break;
    case 4:
        change(p, what % 7);
        break;
    case 5:
        by_id(p, what);
        break;
    case 6:
        look(p, what);
        break;
    default:
        arena_now_ns += (int64_t)what * what * NS_PER_MS * 10;
        p->e = &p->a->at[what & 1].e;
    }
}

void fuzz_hostile(const uint8_t *data, size_t n)
{
    static const enum arena_kind kinds[] = {
        ARENA_BUSY, ARENA_TINY, ARENA_GROWING, ARENA_BUSY};
    struct play p = {.f = {data, data + n}};
    uint8_t how = feed_byte(&p.f);

    p.a = arena_get(kinds[how % LENGTH(kinds)]);
    p.e = &p.a->at[0].e;
    for (unsigned i = 0; i < STEPS_MOST && feed_more(&p.f); i++)
        step(&p);
    if (how & 0x80)
        retire(&p.e->session, p.a->t);
    arena_restore(p.a);
}
