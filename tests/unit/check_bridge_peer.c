/*
 * check_bridge_peer.c - whose connections, sessions and locks are counted as one:
 * those of an address, of a network, of a user.
 */
#include "bridge/peer.h"

#include <stdio.h>

#include "unit.h"

static struct bridge loops[2];
static struct share share = {.loops = loops, .n = 1};

static void begin(void)
{
    loops[0].share = loops[1].share = &share;
    loops[1].index = 1;
    ck_assert(peer_begin(&share));
}

static struct peer *come(const char *name)
{
    return peer_comes(&share, name, 2);
}

/* Nothing is left of those that are gone. */
static void end(void)
{
    ck_assert_ptr_null(table_any(&share.peers.by_name));
    peer_end(&share);
}

static enq_handle locked(struct enq *e, const char *key)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "p", .key = {key}, .mode = ENQ_MODE_X),
            &g));
    return g.handle;
}

static struct enq *space(void)
{
    struct enq *e;

    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    loops[0].space = loops[1].space = e;
    return e;
}

TEST(those_of_an_ipv6_network_are_one_and_all_others_are_not)
{
    static const struct {
        const char *a, *b;
        bool one;
    } is[] = {
        {"2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff", true},
        {"2001:db8:1:2::1", "2001:db8:1:3::1", false},
        {"::1", "::2", true},
        {"::ffff:10.0.0.1", "::ffff:10.0.0.2", false},
        {"fe80::1%2", "fe80::2%2", false},
        {"10.0.0.1", "10.0.0.2", false},
        {"10.0.0.1", "10.0.0.1", true},
        {"uid1", "uid2", false},
    };

    begin();
    for (unsigned i = 0; i < LENGTH(is); i++) {
        struct peer *a = come(is[i].a), *b = come(is[i].b);

        ck_assert_msg((a == b) == is[i].one, "%s, %s", is[i].a, is[i].b);
        peer_goes(&share, a);
        peer_goes(&share, b);
    }
    end();
}

TEST(each_has_as_many_connections_as_it_may)
{
    struct peer *a, *b;

    begin();
    a = come("a");
    b = come("b");
    ck_assert_ptr_eq(come("a"), a);
    ck_assert_ptr_null(come("a"));
    ck_assert_ptr_eq(come("b"), b);
    peer_goes(&share, a);
    ck_assert_ptr_eq(come("a"), a);
    ck_assert_ptr_null(come("a"));
    for (unsigned i = 0; i < 2; i++) {
        peer_goes(&share, a);
        peer_goes(&share, b);
    }
    end();
}

TEST(a_session_keeps_its_peer_and_brings_its_locks)
{
    struct peer *a;

    begin();
    a = come("a");
    ck_assert_ptr_eq(peer_has_session(&share, a, 5), a);
    ck_assert_ptr_eq(peer_has_session(&share, a, 2), a);
    peer_goes(&share, a);
    ck_assert(a->sessions == 2 && a->locks == 7 && a->conns == 0);
    peer_ends_session(&share, a, 5);
    ck_assert(a->sessions == 1 && a->locks == 2);
    ck_assert_ptr_eq(come("a"), a);
    peer_goes(&share, a);
    peer_ends_session(&share, a, 2);
    end();
}

/* @_i: of several loops as of one. */
TEST(a_lock_of_no_session_counts_until_it_is_gone)
{
    struct enq *e = space();
    enq_handle given = locked(e, "given"), gone = locked(e, "gone");
    struct peer *a;

    share.n = 1 + (unsigned)_i;
    begin();
    a = come("a");
    peer_has_lock(&loops[0], a, given);
    peer_has_lock(&loops[0], a, gone);
    ck_assert(a->locks == 2 && a->uses == 3 && share.peers.n_loose == 2);
    peer_lost_lock(&share, given);
    peer_lost_lock(&share, given);
    ck_assert(a->locks == 1 && a->uses == 2);
    peer_tick(&loops[0]);
    ck_assert_uint_eq(a->locks, 1);
    want(ENQ_OK, enq_unlock(e, gone, 0));
    peer_tick(&loops[1]); /* the first one looks */
    ck_assert_uint_eq(a->locks, 1);
    peer_tick(&loops[0]);
    ck_assert(a->locks == 0 && a->uses == 1 && share.peers.n_loose == 0);
    peer_has_lock(&loops[0], a, gone); /* another loop was faster */
    ck_assert_uint_eq(a->locks, share.n > 1 ? 0 : 1);
    peer_lost_lock(&share, gone);
    peer_has_lock(&loops[0], NULL, given);
    ck_assert_uint_eq(share.peers.n_loose, 0);
    peer_goes(&share, a);
    end();
    enq_close(e);
}

TEST(all_are_looked_for_though_there_are_many)
{
    struct enq *e = space();
    struct peer *a;
    enq_handle first = 0, last = 0;

    begin();
    a = come("a");
    for (unsigned i = 0; i < 1500; i++) {
        char key[16];

        snprintf(key, sizeof(key), "%u", i);
        last = locked(e, key);
        first = i == 0 ? last : first;
        peer_has_lock(&loops[0], a, last);
    }
    want(ENQ_OK, enq_unlock(e, first, 0));
    want(ENQ_OK, enq_unlock(e, last, 0));
    peer_tick(&loops[0]);
    ck_assert_uint_eq(a->locks, 1499);
    peer_tick(&loops[0]);
    ck_assert_uint_eq(a->locks, 1498);
    peer_goes(&share, a);
    peer_end(&share);
    enq_close(e);
}

TEST(what_a_bridge_had_that_is_gone_counts_for_its_asker)
{
    struct enq *e = space();
    enq_handle h = locked(e, "k"), other = locked(e, "l");
    char longest[PEER_BYTES + 1];
    struct peer *a;

    begin();
    peer_inherits(&loops[0], "2001:db8::7#w5", h);
    peer_inherits(&loops[0], "2001:db8::7#w5", h);
    a = come("2001:db8::8");
    ck_assert(a->locks == 1 && a->uses == 2);
    memset(longest, 'p', PEER_BYTES);
    longest[PEER_BYTES] = '\0';
    peer_inherits(&loops[0], longest, other);
    ck_assert_uint_eq(share.peers.n_loose, 1);
    longest[PEER_BYTES - 1] = '\0';
    peer_inherits(&loops[0], longest, other);
    ck_assert_uint_eq(share.peers.n_loose, 2);
    peer_lost_lock(&share, other);
    peer_goes(&share, a);
    ck_assert_uint_eq(a->locks, 1); /* which keeps it */
    peer_lost_lock(&share, h);
    end();
    enq_close(e);
}

int main(void)
{
    unit_begin("bridge_peer");
    ADD(those_of_an_ipv6_network_are_one_and_all_others_are_not);
    ADD(each_has_as_many_connections_as_it_may);
    ADD(a_session_keeps_its_peer_and_brings_its_locks);
    ADD_LOOP(a_lock_of_no_session_counts_until_it_is_gone, 2);
    ADD(all_are_looked_for_though_there_are_many);
    ADD(what_a_bridge_had_that_is_gone_counts_for_its_asker);
    return unit_end();
}
