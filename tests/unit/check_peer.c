/*
 * check_peer.c - for whom a process asks: kept beside the other texts, and
 * shown in lists.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "api/attachment.h"
#include "told.h"

/* So many bytes of text. */
static char *text(size_t n, char c)
{
    char *s = calloc(1, n + 1);

    ck_assert_ptr_nonnull(s);
    memset(s, c, n);
    return s;
}

static struct enq_info only(struct enq *e)
{
    struct enq_info info;
    size_t total;

    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    return info;
}

static struct enq_grant lock_for(struct enq *e, const char *field,
    enum enq_mode mode, const char *peer)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .peer = peer));
}

/* --- shown --- */

TEST(lists_tell_for_whom_a_lock_is_held_and_waited_for)
{
    struct enq *e = unit_open();
    struct enq_info infos[2];
    struct enq_edge edge;
    size_t total;

    lock_for(e, "a", ENQ_MODE_X, "10.1.2.3:99#7");
    told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "other",
            .wait_ms = ENQ_FOREVER, .peer = "host \xff"));
    want(ENQ_OK, enq_list(e, NULL, NULL, infos, 2, &total));
    ck_assert_uint_eq(total, 2);
    ck_assert_str_eq(infos[0].peer, "10.1.2.3:99#7");
    ck_assert_str_eq(infos[1].peer, "host \xff");
    ck_assert_uint_eq(infos[1].waiting, 1);
    want(ENQ_OK, enq_list(e, "n", NULL, infos, 2, &total));
    ck_assert_str_eq(infos[0].peer, "10.1.2.3:99#7");
    want(ENQ_OK, enq_graph(e, &edge, 1, &total));
    ck_assert_str_eq(edge.waiter.peer, "host \xff");
    ck_assert_str_eq(edge.blocker.peer, "10.1.2.3:99#7");
    unit_healthy(e);
    enq_close(e);
}

TEST(without_one_it_is_empty)
{
    static const char *const none[] = {NULL, ""};
    struct enq *e = unit_open();
    struct enq_grant g = lock_for(e, "a", ENQ_MODE_X, none[_i]);

    ck_assert_str_eq(only(e).peer, "");
    told_unlock(e, &g);
    enq_close(e);
}

TEST(a_caller_of_a_shorter_header_asks_for_nobody)
{
    struct enq_req req = {.size = offsetof(struct enq_req, peer),
        .name = "n",
        .mode = ENQ_MODE_X,
        .peer = "beyond its struct"};
    struct enq *e = unit_open();
    struct enq_grant g;

    want(ENQ_OK, enq_lock(e, &req, &g));
    ck_assert_str_eq(only(e).peer, "");
    enq_close(e);
}

TEST(the_text_is_copied)
{
    struct enq *e = unit_open();
    char peer[] = "10.1.2.3";
    struct enq_grant first = lock_for(e, "a", ENQ_MODE_X, NULL);
    uint64_t ticket;

    ticket = told_start_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "other",
            .wait_ms = ENQ_FOREVER, .peer = peer));
    memset(peer, 'z', sizeof(peer));
    told_unlock(e, &first);
    told_result(e, ticket, ENQ_OK);
    ck_assert_str_eq(only(e).peer, "10.1.2.3");
    enq_close(e);
}

TEST(it_stays_with_the_lock_through_promotion_and_demotion)
{
    struct enq *e = unit_open();
    struct enq_grant g = lock_for(e, "a", ENQ_MODE_O, "p");

    want(ENQ_OK, enq_promote(e, g.handle, g.token, &g));
    ck_assert_str_eq(only(e).peer, "p");
    want(ENQ_OK, enq_demote(e, g.handle, g.token));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 1000));
    ck_assert_str_eq(only(e).peer, "p");
    enq_close(e);
}

TEST(each_lock_of_a_set_has_its_own)
{
    const struct enq_req *reqs[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .peer = "one"),
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X),
        ENQ_REQ(.name = "n", .key = {"c"}, .mode = ENQ_MODE_X, .peer = "three",
            .delay_ms = 10)};
    const char *const peers[] = {"one", "", "three"};
    struct enq *e = unit_open();
    struct enq_info infos[3];
    struct enq_grant g[3];
    size_t total;

    want(ENQ_OK, enq_lock_set(e, reqs, 3, g));
    want(ENQ_OK, enq_list(e, NULL, NULL, infos, 3, &total));
    ck_assert_uint_eq(total, 3);
    for (unsigned i = 0; i < 3; i++)
        for (unsigned k = 0; k < 3; k++)
            if (infos[i].handle == g[k].handle)
                ck_assert_str_eq(infos[i].peer, peers[k]);
    want(ENQ_OK, enq_unlock_set(e, g, 3));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_set_that_waits_has_them_as_well)
{
    const struct enq_req *reqs[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "set",
            .wait_ms = ENQ_FOREVER, .peer = "p"),
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X, .owner = "set",
            .wait_ms = ENQ_FOREVER, .peer = "p", .id = "i")};
    struct enq *e = unit_open();
    struct enq_grant held = lock_for(e, "a", ENQ_MODE_X, NULL), g[2];
    struct enq_info infos[2];
    uint64_t ticket;
    size_t total;

    want(ENQ_PENDING, enq_start_set(e, reqs, 2, g, &ticket));
    told_unlock(e, &held);
    told_result(e, ticket, ENQ_OK);
    want(ENQ_OK, enq_list(e, NULL, NULL, infos, 2, &total));
    ck_assert_uint_eq(total, 2);
    ck_assert_str_eq(infos[0].peer, "p");
    ck_assert_str_eq(infos[1].peer, "p");
    want(ENQ_OK, enq_unlock_set(e, g, 2));
    enq_close(e);
}

/* --- limits --- */

TEST(it_has_126_or_127_bytes_and_never_128)
{
    struct enq *e = unit_open();
    char *peer = text(ENQ_PEER_BYTES - 2 + (size_t)_i, 'p');
    const struct enq_req *req =
        ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .peer = peer);
    const struct enq_req *test = ENQ_REQ(.name = "n", .mode = ENQ_MODE_X,
        .peer = peer, .flags = ENQ_TEST);
    struct enq_grant g;
    uint64_t ticket;

    if (strlen(peer) < ENQ_PEER_BYTES) {
        want(ENQ_OK, enq_lock(e, req, &g));
        ck_assert_str_eq(only(e).peer, peer);
        told_unlock(e, &g);
        want(ENQ_OK, enq_lock(e, test, NULL));
    } else {
        want_why(-ENAMETOOLONG, enq_lock(e, req, &g), "the peer \"pppp");
        want_why(-ENAMETOOLONG, enq_lock(e, test, NULL), "127");
        want(-ENAMETOOLONG, enq_start(e, req, &g, &ticket));
        want_why(-ENAMETOOLONG, enq_lock_set(e, &req, 1, &g), "the peer");
    }
    ck_assert_uint_eq(told_count(e), 0);
    free(peer);
    enq_close(e);
}

/* Each length, so that all of it lies in a small entry, in a large one, and
   neither by one byte: with an id and a lock delay, or not. */
TEST(whatever_else_there_is_all_texts_are_told_as_they_were)
{
    struct enq *e = unit_open();
    const char *id = _i & 1 ? "0af1b2" : NULL;
    int64_t delay_ms = _i & 2 ? 10 : 0;
    struct enq_info info;
    struct enq_grant g;

    for (size_t n = 1; n < ENQ_PEER_BYTES; n++) {
        char *peer = text(n, (char)('A' + n % 26));

        g = told_lock_req(e,
            ENQ_REQ(.name = "product", .key = {"Computer"}, .mode = ENQ_MODE_E,
                .owner = "B", .id = id, .delay_ms = delay_ms, .peer = peer));
        info = only(e);
        ck_assert_str_eq(info.peer, peer);
        ck_assert_str_eq(info.owner, "B");
        ck_assert_int_eq(memcmp(info.key, "Computer", 9), 0);
        if (id != NULL)
            ck_assert_str_eq(info.id, id);
        told_unlock(e, &g);
        free(peer);
    }
    unit_healthy(e);
    enq_close(e);
}

/* A request of 1,028 bytes, the most that there is. */
struct most {
    char *name, *field, *owner, *id, *peer;
};

static struct most most_make(void)
{
    return (struct most){text(ENQ_NAME_BYTES - 1, 'n'),
        text(ENQ_KEY_BYTES - 1, 'k'), text(ENQ_OWNER_BYTES - 1, 'o'),
        text(ENQ_ID_BYTES - 1, 'i'), text(ENQ_PEER_BYTES - 1, 'p')};
}

static void most_free(const struct most *m)
{
    free(m->name);
    free(m->field);
    free(m->owner);
    free(m->id);
    free(m->peer);
}

static struct enq_grant most_lock(struct enq *e, const struct most *m)
{
    return told_lock_req(e,
        ENQ_REQ(.name = m->name, .key = {m->field}, .mode = ENQ_MODE_O,
            .owner = m->owner, .id = m->id, .delay_ms = 100, .peer = m->peer));
}

TEST(all_texts_at_their_limits_fit_one_entry)
{
    struct enq *e = unit_open();
    struct most m = most_make();
    struct enq_grant g = most_lock(e, &m);
    struct enq_info info = only(e);

    ck_assert_str_eq(info.name, m.name);
    ck_assert_str_eq(info.key, m.field);
    ck_assert_str_eq(info.owner, m.owner);
    ck_assert_str_eq(info.id, m.id);
    ck_assert_str_eq(info.peer, m.peer);
    unit_healthy(e);
    told_unlock(e, &g);
    most_free(&m);
    enq_close(e);
}

/* --- beside what else stands there --- */

/* Loses a lock with a peer of that length to that taker. */
static void lose_to(struct enq *e, size_t peer_bytes, const char *taker,
    int64_t delay_ms, struct enq_grant *lost)
{
    char *peer = text(peer_bytes, 'p');
    struct enq_grant won;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O,
                .owner = "loser", .peer = peer, .delay_ms = delay_ms),
            lost));
    won = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_O, .owner = taker));
    want(ENQ_OK, enq_promote(e, won.handle, won.token, &won));
    want(ENQ_LOST, enq_promote(e, lost->handle, lost->token, lost));
    told_unlock(e, &won);
    free(peer);
}

/* Each length again: what is told of the taker is its whole name, or nothing
   where there is no room for it. A part of it may be the name of another. */
TEST(the_taker_of_a_lost_lock_is_told_behind_it)
{
    static const size_t lengths[] = {1, 3, 20, ENQ_OWNER_BYTES - 1};
    struct enq *e = unit_open();
    unsigned told = 0, untold = 0;
    struct enq_grant lost;

    for (size_t i = 0; i < sizeof(lengths) / sizeof(*lengths); i++) {
        char *taker = text(lengths[i], 't');

        for (size_t n = 1; n < ENQ_PEER_BYTES; n++) {
            lose_to(e, n, taker, _i ? 1000 : 0, &lost);
            if (lost.blocker.owner[0] == '\0') {
                ck_assert_uint_le(n, 80);
                untold++;
                continue;
            }
            ck_assert_str_eq(lost.blocker.owner, taker);
            told++;
        }
        free(taker);
    }
    ck_assert_uint_gt(told, 200);
    ck_assert_uint_gt(untold, 60);
    unit_healthy(e);
    enq_close(e);
}

TEST(behind_texts_at_their_limits_there_is_room_for_the_longest_taker)
{
    struct enq *e = unit_open();
    char *taker = text(ENQ_OWNER_BYTES - 1, 't');
    struct most m = most_make();
    struct enq_grant lost = most_lock(e, &m), won;

    won = told_lock_req(e,
        ENQ_REQ(.name = m.name, .key = {m.field}, .mode = ENQ_MODE_O,
            .owner = taker));
    want(ENQ_OK, enq_promote(e, won.handle, won.token, &won));
    want(ENQ_LOST, enq_promote(e, lost.handle, lost.token, &lost));
    ck_assert_str_eq(lost.blocker.owner, taker);
    free(taker);
    most_free(&m);
    enq_close(e);
}

TEST(the_lock_delay_beside_it_is_kept)
{
    struct enq *e = unit_open();
    int64_t begin = unit_now_ms();

    told_lock_req(e,
        ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "a", .ttl_ms = 50,
            .delay_ms = 200, .peer = "p"));
    told_lock_req(e,
        ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .owner = "b",
            .wait_ms = ENQ_FOREVER));
    ck_assert_int_ge(unit_now_ms() - begin, 250);
    ck_assert_int_le(unit_now_ms() - begin,
        (UNIT_SANITIZED ? 2000 : 600) + test_starved_ms());
    enq_close(e);
}

/* --- written by somebody else --- */

/* Behind the owner "o" of an otherwise small request. */
static char *where_it_stands(struct enq *e, const struct enq_grant *g)
{
    uint64_t state;
    struct entry *entry = entry_of_handle(e->map, g->handle, &state);

    ck_assert_ptr_nonnull(entry);
    return entry->payload + entry->name_bytes + entry->field_bytes +
        entry->owner_bytes;
}

static void does_not_end(char *peer)
{
    memset(peer, 'x', SMALL_PAYLOAD - 6); /* "n", "a" and "o" */
}

static void is_empty(char *peer)
{
    peer[0] = '\0';
}

static void (*const damages[])(char *peer) = {does_not_end, is_empty};

TEST(one_that_is_damaged_is_left_out_and_crashes_nobody)
{
    struct enq *e = unit_open();
    struct enq_grant g, next;
    size_t got;
    struct enq_info info;

    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "o",
            .peer = "p", .on_death = ENQ_DEATH_LEASE));
    damages[_i](where_it_stands(e, &g));
    ck_assert_uint_eq(told_count(e), 0);
    want(ENQ_BUSY, unit_lock(e, "n", "a", ENQ_MODE_X, &next));
    enq_close(e);
    e = unit_open();
    want(ENQ_OK, enq_inherit(e, &info, 1, &got));
    ck_assert_uint_eq(got, 0);
    enq_close(e);
}

/* Where a large entry is large, it must end there as well. */
TEST(in_a_large_entry_it_has_no_more_than_its_limit)
{
    struct enq *e = unit_open();
    char *long_one = text(ENQ_PEER_BYTES - 1, 'p');
    struct enq_grant g;

    g = told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X, .owner = "o",
            .peer = long_one));
    ck_assert_uint_eq(told_count(e), 1);
    where_it_stands(e, &g)[ENQ_PEER_BYTES - 1] = 'x';
    where_it_stands(e, &g)[ENQ_PEER_BYTES] = '\0';
    ck_assert_uint_eq(told_count(e), 0);
    free(long_one);
    enq_close(e);
}

int main(void)
{
    unit_begin("peer");
    ADD(lists_tell_for_whom_a_lock_is_held_and_waited_for);
    ADD_LOOP(without_one_it_is_empty, 2);
    ADD(a_caller_of_a_shorter_header_asks_for_nobody);
    ADD(the_text_is_copied);
    ADD(it_stays_with_the_lock_through_promotion_and_demotion);
    ADD(each_lock_of_a_set_has_its_own);
    ADD(a_set_that_waits_has_them_as_well);
    ADD_LOOP(it_has_126_or_127_bytes_and_never_128, 3);
    ADD_LOOP(whatever_else_there_is_all_texts_are_told_as_they_were, 4);
    ADD(all_texts_at_their_limits_fit_one_entry);
    ADD_LOOP(the_taker_of_a_lost_lock_is_told_behind_it, 2);
    ADD(behind_texts_at_their_limits_there_is_room_for_the_longest_taker);
    ADD(the_lock_delay_beside_it_is_kept);
    ADD_LOOP(one_that_is_damaged_is_left_out_and_crashes_nobody,
        LENGTH(damages));
    ADD(in_a_large_entry_it_has_no_more_than_its_limit);
    return unit_end();
}
