/*
 * check_orphan.c - which locks could be inherited, and one taken over by its
 * handle.
 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

#include "peer.h"
#include "sync/sys.h"
#include "told.h"

struct walk {
    uint64_t at;
    struct enq_orphan found[1024];
    size_t n;
    unsigned calls;
};

/* To its end, with so much room in each call. */
static size_t walk(struct enq *e, struct walk *w, size_t room)
{
    struct enq_orphan part[64];
    size_t got;
    int rc;

    w->n = 0;
    w->calls = 0;
    do {
        rc = enq_orphans(e, &w->at, part, room, &got);
        ck_assert_msg(rc == ENQ_OK || rc == ENQ_PENDING, "%s", enq_why());
        ck_assert_uint_le(got, room);
        ck_assert_uint_le(w->n + got, LENGTH(w->found));
        memcpy(&w->found[w->n], part, got * sizeof(part[0]));
        w->n += got;
        w->calls++;
    } while (rc == ENQ_PENDING);
    return w->n;
}

struct leaver {
    unsigned n;
    bool closes;
    const char *peer;
};

static int leaves(void *leaver)
{
    const struct leaver *l = leaver;
    struct enq *e = unit_open();
    struct enq_grant g;
    char field[16];

    for (unsigned i = 0; i < l->n; i++) {
        struct enq_req req = leased(field, l->peer);

        snprintf(field, sizeof(field), "%u", i);
        req.name = l->peer == NULL ? "own" : l->peer;
        want(ENQ_OK, enq_lock(e, &req, &g));
    }
    if (l->closes)
        enq_close(e);
    else
        kill(getpid(), SIGKILL);
    return 0;
}

/* Another process: killed, or at its end. */
static void leave(unsigned n, const char *peer, bool closes)
{
    struct leaver l = {n, closes, peer};

    if (closes)
        unit_join(unit_fork(leaves, &l));
    else
        unit_killed(unit_fork(leaves, &l));
}

/* In place of the helper's: a death does not end it. */
static uint32_t awake;

static void sleep_through(const struct sys_watch *watches, unsigned n,
    mono_t until)
{
    (void)watches, (void)n, (void)until;
    while (shm_load(&awake) == 0)
        unit_nap();
}

/* Of one that was killed nobody has made an end yet. */
TEST(what_is_left_is_told_of_and_stays_where_it_is)
{
    struct enq *e;
    struct walk w = {0};
    struct enq_info info;

    if (_i == 0)
        sys.sleep = sys.wait = sleep_through;
    e = unit_open();
    leave(1, "10.1.2.3#x", _i != 0);
    ck_assert_uint_eq(walk(e, &w, 64), 1);
    ck_assert_str_eq(w.found[0].peer, "10.1.2.3#x");
    info = listed(e);
    ck_assert_uint_eq(w.found[0].handle, info.handle);
    ck_assert_uint_ne(w.found[0].holder, 0);
    ck_assert_uint_eq(info.orphaned, 1);
    shm_store(&awake, 1);
    enq_close(e);
}

/* Not again and again: looking each second is to cost nothing then. */
TEST(it_is_told_of_once_until_somebody_else_leaves_something)
{
    struct enq *e = unit_open();
    struct walk w = {0};
    uint64_t begun;

    leave(2, "p", true);
    ck_assert_uint_eq(walk(e, &w, 64), 2);
    begun = w.at;
    leave(3, NULL, true); /* for itself */
    leave(0, NULL, true);
    ck_assert_uint_eq(walk(e, &w, 64), 0);
    ck_assert_uint_eq(w.at, begun);
    leave(1, "q", true);
    ck_assert_uint_eq(walk(e, &w, 64), 3);
    ck_assert_uint_ne(w.at, begun);
    enq_close(e);
}

TEST(who_looks_for_the_first_time_is_told_of_all)
{
    struct walk w = {0};
    struct enq *e;

    leave(5, "p", _i != 0);
    e = unit_open();
    ck_assert_uint_eq(walk(e, &w, 64), 5);
    enq_close(e);
}

/* A page is told of as a whole: none twice in a walk, none passed over. */
TEST(each_is_told_of_once_in_a_walk)
{
    static struct walk w;
    struct enq *e = unit_open();

    memset(&w, 0, sizeof(w));
    leave(500, "p", true);
    ck_assert_uint_eq(walk(e, &w, ENQ_ORPHANS_LEAST + (unsigned)_i), 500);
    ck_assert_uint_ge(w.calls, 500 / (ENQ_ORPHANS_LEAST + (unsigned)_i));
    for (size_t i = 0; i < w.n; i++)
        for (size_t k = 0; k < i; k++)
            ck_assert_uint_ne(w.found[i].handle, w.found[k].handle);
    for (size_t i = 0; i < w.n; i++)
        ck_assert_uint_eq(w.found[i].holder, w.found[0].holder);
    enq_close(e);
}

TEST(what_is_somebodys_is_not_told_of)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_req req = leased("a", "p"), own = leased("b", NULL);
    struct enq_grant g, of_own;
    struct enq_info info;
    struct walk w = {0};

    want(ENQ_OK, enq_lock(other, &req, &g));
    want(ENQ_OK, enq_lock(other, &own, &of_own));
    ck_assert_uint_eq(walk(e, &w, 64), 0);
    want_why(ENQ_REFUSED, enq_inherit_lock(e, g.handle, 0, &info), "is alive");
    want(ENQ_OK, enq_abandon(other, g.handle, g.token));
    enq_close(other);
    ck_assert_uint_eq(walk(e, &w, 64), 0);
    want(ENQ_REFUSED, enq_inherit_lock(e, g.handle, 0, &info));
    enq_close(e);
}

TEST(one_is_taken_over_by_its_handle_and_by_nobody_else_then)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_info info, before;
    struct walk w = {0};

    leave(2, "p", _i != 0);
    ck_assert_uint_eq(walk(e, &w, 64), 2);
    want(ENQ_OK, enq_inherit_lock(e, w.found[1].handle, 0, &info));
    ck_assert_uint_eq(info.handle, w.found[1].handle);
    ck_assert_int_eq(info.pid, getpid());
    ck_assert_str_eq(info.peer, "p");
    ck_assert_uint_eq(info.orphaned, 0);
    want(ENQ_REFUSED, enq_inherit_lock(other, w.found[1].handle, 0, &before));
    want(ENQ_REFUSED, enq_inherit_lock(e, w.found[1].handle, 0, &before));
    w.at = 0;
    ck_assert_uint_eq(walk(other, &w, 64), 1);
    want(ENQ_OK, enq_renew(e, info.handle, info.token, TTL_MS));
    want(ENQ_OK, enq_unlock(e, info.handle, info.token));
    want(ENQ_NOTHELD, enq_inherit_lock(e, info.handle, 0, &info));
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

/* A process that inherits and is gone in turn is another holder. */
static int inherits_and_dies(void *unused)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct walk w = {0};

    (void)unused;
    ck_assert_uint_eq(walk(e, &w, 64), 3);
    want(ENQ_OK, enq_inherit_lock(e, w.found[0].handle, 0, &info));
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(what_an_heir_leaves_is_told_of_as_its_own)
{
    struct enq *e = unit_open();
    struct walk w = {0};
    uint64_t first;
    unsigned others = 0;

    leave(3, "p", true);
    ck_assert_uint_eq(walk(e, &w, 64), 3);
    first = w.found[0].holder;
    unit_killed(unit_fork(inherits_and_dies, NULL));
    ck_assert_uint_eq(walk(e, &w, 64), 3);
    for (unsigned i = 0; i < 3; i++)
        others += w.found[i].holder != first;
    ck_assert_uint_eq(others, 1);
    enq_close(e);
}

TEST(a_kept_one_has_its_ttl_again)
{
    struct enq_req req = leased("a", "p");
    struct enq *before = unit_open(), *e = unit_open();
    struct enq_info info;
    struct enq_grant g;

    req.on_death = ENQ_DEATH_KEEP;
    want(ENQ_OK, enq_lock(before, &req, &g));
    enq_close(before);
    ck_assert_int_eq(listed(e).ttl_left_ms, ENQ_FOREVER);
    want(ENQ_OK, enq_inherit_lock(e, g.handle, 0, &info));
    ck_assert_int_gt(info.ttl_left_ms, 0);
    ck_assert_uint_eq(info.token, g.token);
    enq_close(e);
}

/* --- adopted for somebody --- */

#define HEIR ((UINT64_C(1) << 63) - 1)

/* What it had is an orphan that has no peer: its id. */
static const char *left_optimistic(void)
{
    static char id[ENQ_ID_BYTES];
    struct enq *e = unit_open();
    struct enq_req req = leased("a", NULL);
    struct enq_grant g;

    req.mode = ENQ_MODE_O;
    want(ENQ_OK, enq_lock(e, &req, &g));
    want(ENQ_OK, enq_id(e, g.handle, id));
    enq_close(e);
    return id;
}

struct adopter {
    const char *id;
    bool closes, promotes;
    struct enq_grant g;
};

static int adopts_and_goes(void *adopter)
{
    struct adopter *a = adopter;
    struct enq *e = unit_open();

    want(ENQ_OK, enq_adopt_for(e, a->id, HEIR, &a->g));
    if (a->promotes)
        want(ENQ_OK, enq_promote(e, a->g.handle, a->g.token, &a->g));
    if (a->closes)
        enq_close(e);
    else
        kill(getpid(), SIGKILL);
    return 0;
}

/* By another process. In memory that both have. */
static struct adopter *adopt_and_go(bool closes, bool promotes)
{
    struct adopter *a = unit_shared(sizeof(*a));

    a->id = left_optimistic();
    a->closes = closes;
    a->promotes = promotes;
    if (closes)
        unit_join(unit_fork(adopts_and_goes, a));
    else
        unit_killed(unit_fork(adopts_and_goes, a));
    return a;
}

/* Closed or killed; as it was, or promoted since. */
TEST(one_adopted_for_a_peer_is_inherited_by_its_number)
{
    struct enq *e = unit_open();
    struct adopter *a = adopt_and_go(_i % 2 != 0, _i / 2 != 0);
    struct enq_info info;
    struct walk w = {0};

    ck_assert_uint_eq(walk(e, &w, 64), 1);
    ck_assert_uint_eq(w.found[0].handle, a->g.handle);
    ck_assert_uint_eq(w.found[0].heir, HEIR);
    ck_assert_str_eq(w.found[0].peer, "");
    ck_assert_uint_eq(listed(e).heir, HEIR);
    want_why(ENQ_REFUSED, enq_inherit_lock(e, a->g.handle, HEIR - 1, &info),
        "another heir");
    want(ENQ_REFUSED, enq_inherit_lock(e, a->g.handle, 0, &info));
    want(ENQ_OK, enq_inherit_lock(e, a->g.handle, HEIR, &info));
    ck_assert_uint_eq(info.token, a->g.token);
    ck_assert_uint_eq(info.heir, HEIR);
    ck_assert_int_eq(info.mode, a->promotes ? ENQ_MODE_E : ENQ_MODE_O);
    ck_assert_int_eq(info.pid, getpid());
    want_why(ENQ_REFUSED, enq_inherit_lock(e, a->g.handle, HEIR, &info),
        "is alive");
    want(ENQ_OK, enq_unlock(e, info.handle, info.token));
    want(ENQ_NOTHELD, enq_inherit_lock(e, info.handle, HEIR, &info));
    unit_healthy(e);
    enq_close(e);
}

static int inherits_promotes_and_dies(void *handle)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;

    want(ENQ_OK, enq_inherit_lock(e, *(enq_handle *)handle, HEIR, &info));
    want(ENQ_OK, enq_promote(e, info.handle, info.token, &g));
    kill(getpid(), SIGKILL);
    return 1;
}

TEST(it_goes_on_when_who_has_inherited_it_is_gone_in_turn)
{
    struct enq *e = unit_open();
    struct adopter *a = adopt_and_go(false, false);
    struct enq_info info;
    struct walk w = {0};

    unit_killed(unit_fork(inherits_promotes_and_dies, &a->g.handle));
    ck_assert_uint_eq(walk(e, &w, 64), 1);
    ck_assert_uint_eq(w.found[0].heir, HEIR);
    want(ENQ_OK, enq_inherit_lock(e, a->g.handle, HEIR, &info));
    ck_assert_int_eq(info.mode, ENQ_MODE_E);
    ck_assert_uint_ne(info.token, a->g.token);
    enq_close(e);
}

/* For itself, or for the peer that it names. */
TEST(what_another_has_adopted_since_is_no_heirs_any_more)
{
    struct enq *e = unit_open(), *third = unit_open();
    struct adopter *a = adopt_and_go(false, false);
    struct enq_info info;
    struct walk w = {0};
    struct enq_grant g;

    if (_i == 0)
        want(ENQ_OK, enq_adopt(third, a->id, &g));
    else
        want(ENQ_OK, enq_adopt_for(third, a->id, 5, &g));
    ck_assert_uint_eq(listed(e).heir, _i == 0 ? 0 : 5);
    enq_close(third);
    want(ENQ_REFUSED, enq_inherit_lock(e, a->g.handle, HEIR, &info));
    ck_assert_uint_eq(walk(e, &w, 64), (unsigned)_i);
    want(_i == 0 ? ENQ_REFUSED : ENQ_OK,
        enq_inherit_lock(e, a->g.handle, 5, &info));
    enq_close(e);
}

TEST(what_was_abandoned_is_no_heirs_any_more)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_info info;
    struct walk w = {0};
    struct enq_grant g;

    want(ENQ_OK, enq_adopt_for(other, left_optimistic(), HEIR, &g));
    want(ENQ_OK, enq_abandon(other, g.handle, g.token));
    enq_close(other);
    ck_assert_uint_eq(walk(e, &w, 64), 0);
    want(ENQ_REFUSED, enq_inherit_lock(e, g.handle, HEIR, &info));
    enq_close(e);
}

TEST(an_heir_is_a_number_of_63_bits)
{
    struct enq *e = unit_open();
    const char *id = left_optimistic();
    struct enq_grant g;

    want_why(-EINVAL, enq_adopt_for(e, id, 0, &g), "number");
    want_why(-EINVAL, enq_adopt_for(e, id, HEIR + 1, &g), "number");
    want_why(-EINVAL, enq_adopt_for(e, NULL, 1, &g), "no id");
    want_why(-EINVAL, enq_adopt_for(e, id, 1, NULL), "is NULL");
    want(ENQ_NOTHELD, enq_adopt_for(e, "another", 1, &g));
    want(ENQ_OK, enq_adopt_for(e, id, 1, &g));
    want(ENQ_REFUSED, enq_adopt_for(e, id, 1, &g));
    ck_assert_uint_eq(listed(e).heir, 1);
    enq_close(e);
}

TEST(both_need_room_and_more_than_a_look)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct enq *e = unit_open(), *looker = unit_open_with(&look);
    struct enq_orphan left[ENQ_ORPHANS_LEAST];
    struct enq_info info;
    uint64_t at = 0;
    size_t got = 9;

    want_why(-EINVAL, enq_orphans(e, NULL, left, LENGTH(left), &got), "room");
    want_why(-EINVAL, enq_orphans(e, &at, NULL, LENGTH(left), &got), "room");
    want_why(-EINVAL, enq_orphans(e, &at, left, LENGTH(left) - 1, &got), "21");
    want_why(-EINVAL, enq_orphans(e, &at, left, LENGTH(left), NULL), "room");
    ck_assert_uint_eq(got, 0);
    want_why(-EINVAL, enq_inherit_lock(e, 1, 0, NULL), "is NULL");
    want(ENQ_NOTHELD, enq_inherit_lock(e, 1, 0, &info));
    want(-EROFS, enq_orphans(looker, &at, left, LENGTH(left), &got));
    want(-EROFS, enq_inherit_lock(looker, 1, 0, &info));
    want(-EROFS, enq_adopt_for(looker, "a", 1, &(struct enq_grant){0}));
    enq_close(looker);
    enq_close(e);
}

int main(void)
{
    unit_begin("orphan");
    ADD_LOOP(what_is_left_is_told_of_and_stays_where_it_is, 2);
    ADD(it_is_told_of_once_until_somebody_else_leaves_something);
    ADD_LOOP(who_looks_for_the_first_time_is_told_of_all, 2);
    ADD_LOOP(each_is_told_of_once_in_a_walk, 3);
    ADD(what_is_somebodys_is_not_told_of);
    ADD_LOOP(one_is_taken_over_by_its_handle_and_by_nobody_else_then, 2);
    ADD(what_an_heir_leaves_is_told_of_as_its_own);
    ADD(a_kept_one_has_its_ttl_again);
    ADD_LOOP(one_adopted_for_a_peer_is_inherited_by_its_number, 4);
    ADD(it_goes_on_when_who_has_inherited_it_is_gone_in_turn);
    ADD_LOOP(what_another_has_adopted_since_is_no_heirs_any_more, 2);
    ADD(what_was_abandoned_is_no_heirs_any_more);
    ADD(an_heir_is_a_number_of_63_bits);
    ADD(both_need_room_and_more_than_a_look);
    return unit_end();
}
