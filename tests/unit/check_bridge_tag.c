/*
 * check_bridge_tag.c - what stands with a lock of a bridge in the table: written,
 * read, and refused where it was not written so.
 */
#include "bridge/tag.h"

#include "unit.h"

#define NAME "abcdefghij-_XY09"
#define REST NAME ".30000.l.63.PAAAAAAAAAAAAAAB"

static const struct session session = {.grace_ms = 30000, .name = NAME};

static const char *written(const struct tag *tag)
{
    static char out[ENQ_PEER_BYTES];

    memset(out, 'x', sizeof(out));
    tag_write(tag, out);
    return out;
}

TEST(a_tag_has_its_words_in_this_order)
{
    struct tag tag = {.peer = "10.1.2.3",
        .session = &session,
        .on_death = ENQ_DEATH_LEASE,
        .member = 63,
        .request = UINT64_C(0x100000000000000f)};

    ck_assert_str_eq(written(&tag), "10.1.2.3#" REST);
    tag.session = NULL;
    ck_assert_str_eq(written(&tag), "10.1.2.3");
    tag.wait_ms = 1;
    ck_assert_str_eq(written(&tag), "10.1.2.3#w1");
    tag.wait_ms = INT64_MAX;
    ck_assert_str_eq(written(&tag), "10.1.2.3#w9223372036854775807");
    tag.wait_ms = ENQ_FOREVER;
    ck_assert_str_eq(written(&tag), "10.1.2.3");
}

/* A longer peer than there is: nothing is written behind the text's room. */
TEST(no_tag_is_longer_than_its_room)
{
    struct {
        char out[ENQ_PEER_BYTES], behind;
    } room = {.behind = 'y'};
    char peer[2 * ENQ_PEER_BYTES];
    const struct tag tag = {.peer = peer, .session = &session};

    memset(peer, 'p', sizeof(peer) - 1);
    peer[sizeof(peer) - 1] = '\0';
    tag_write(&tag, room.out);
    ck_assert_uint_eq(strlen(room.out), ENQ_PEER_BYTES - 1);
    ck_assert_int_eq(room.behind, 'y');
}

TEST(what_was_written_is_read)
{
    static const uint64_t requests[] = {
        0, 1, 15, 16, UINT64_MAX, UINT64_C(0x0123456789abcdef)};
    struct tag_found got;
    struct tag tag = {.peer = "fe80::1%2", .session = &session};

    for (unsigned i = 0; i < LENGTH(requests) * 6; i++) {
        tag.on_death = (uint8_t)(i % 3);
        tag.delayed = i / 3 % 2 == 1;
        tag.member = i;
        tag.request = requests[i / 6];
        ck_assert(tag_read(written(&tag), &got));
        ck_assert_str_eq(got.peer, tag.peer);
        ck_assert_str_eq(got.session, NAME);
        ck_assert_int_eq(got.grace_ms, session.grace_ms);
        ck_assert_uint_eq(got.on_death, tag.on_death);
        ck_assert(got.delayed == tag.delayed);
        ck_assert_uint_eq(got.member, tag.member);
        ck_assert_uint_eq(got.request, tag.request);
    }
}

TEST(a_peer_of_a_tag_may_be_as_long_as_any)
{
    char text[ENQ_PEER_BYTES], *rest = text + PEER_BYTES - 1;
    struct tag_found got;

    memset(text, 'p', PEER_BYTES);
    strcpy(rest, "#" REST);
    ck_assert(tag_read(text, &got));
    ck_assert_uint_eq(strlen(got.peer), PEER_BYTES - 1);
    ck_assert_uint_eq(tag_peer_bytes(text), PEER_BYTES - 1);
    strcpy(rest + 1, "#" REST);
    *rest = 'p';
    ck_assert(!tag_read(text, &got));
    ck_assert(tag_read("#" REST, &got));
    ck_assert_str_eq(got.peer, "");
}

/* Each is wrong in one place, and so is all of it somebody's name. */
TEST(what_is_no_tag_is_a_peer_as_a_whole)
{
    static const char *const texts[] = {
        "p",
        "",
        "p#",
        "p#abcdefghij-_XY0.30000.l.63.PAAAAAAAAAAAAAAB",
        "p#abcdefghij-_XY091.30000.l.63.PAAAAAAAAAAAAAAB",
        "p#abcdefghij-+XY09.30000.l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ":30000.l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME "..l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".-1.l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".1000000000000000000.l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000:l.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.x.63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000..63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.",
        "p#" NAME ".30000.l:63.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.l.64.PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.l..PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.l.63:PAAAAAAAAAAAAAAB",
        "p#" NAME ".30000.l.63.PAAAAAAAAAAAAAA",
        "p#" NAME ".30000.l.63.PAAAAAAAAAAAAAAQ",
        "p#" NAME ".30000.l.63.@AAAAAAAAAAAAAAB",
        "p#" NAME ".30000.l.63.PAAAAAAAAAAAAAABA",
    };
    struct tag_found got;

    for (unsigned i = 0; i < LENGTH(texts); i++) {
        ck_assert_msg(!tag_read(texts[i], &got), "%s", texts[i]);
        ck_assert_uint_eq(tag_peer_bytes(texts[i]), strlen(texts[i]));
        ck_assert_int_eq(tag_wait_ms(texts[i]), 0);
    }
    ck_assert(tag_read("p#" NAME ".999999999999999999.K.0.AAAAAAAAAAAAAAAA",
        &got));
    ck_assert_int_eq(got.grace_ms, INT64_C(999999999999999999));
    ck_assert(got.delayed);
    ck_assert_uint_eq(got.on_death, ENQ_DEATH_KEEP);
    ck_assert_uint_eq(tag_peer_bytes("p#" REST), 1);
    ck_assert_int_eq(tag_wait_ms("p#" REST), 0);
}

TEST(a_wait_without_a_session_is_told)
{
    ck_assert_int_eq(tag_wait_ms("p#w60000"), 60000);
    ck_assert_uint_eq(tag_peer_bytes("p#w60000"), 1);
    ck_assert_int_eq(tag_wait_ms("p#w"), 0);
    ck_assert_int_eq(tag_wait_ms("p#60000"), 0);
    ck_assert_int_eq(tag_wait_ms("p#w60000 "), 0);
    ck_assert_int_eq(tag_wait_ms("p#w60000#w1"), 0);
    ck_assert_uint_eq(tag_peer_bytes("p#w60000 "), 9);
    ck_assert_int_eq(tag_wait_ms("p"), 0);
}

/* RFC 4122's hash of a name, without the two bytes that say that it is one. */
TEST(a_name_is_made_by_a_rule_that_other_versions_know)
{
    char name[SESSION_BYTES];

    tag_name("abcdefghijklmnop", name);
    ck_assert_str_eq(name, "W7gCkSCOiq3Z2nVe");
    tag_name("AAAAAAAAAAAAAAAA", name);
    ck_assert_str_eq(name, "RssBKlI01NTKjYhi");
}

TEST(an_heir_is_the_first_ten_letters_of_a_name)
{
    char name[HEIR_BYTES];

    ck_assert(tag_heir("AAAAAAAAAAxxxxxx") == UINT64_C(1) << 60);
    ck_assert(tag_heir("AAAAAAAAABxxxxxx") == (UINT64_C(1) << 60) + 1);
    ck_assert(tag_heir("__________xxxxxx") == (UINT64_C(2) << 60) - 1);
    ck_assert(tag_is_heir(UINT64_C(1) << 60));
    ck_assert(tag_is_heir((UINT64_C(2) << 60) - 1));
    ck_assert(!tag_is_heir((UINT64_C(1) << 60) - 1));
    ck_assert(!tag_is_heir(UINT64_C(2) << 60));
    ck_assert(!tag_is_heir(0));
    tag_of_heir(tag_heir(NAME), name);
    ck_assert_str_eq(name, "abcdefghij");
    tag_of_heir(tag_heir("-_09AZazQ7"), name);
    ck_assert_str_eq(name, "-_09AZazQ7");
}

int main(void)
{
    unit_begin("bridge_tag");
    ADD(a_tag_has_its_words_in_this_order);
    ADD(no_tag_is_longer_than_its_room);
    ADD(what_was_written_is_read);
    ADD(a_peer_of_a_tag_may_be_as_long_as_any);
    ADD(what_is_no_tag_is_a_peer_as_a_whole);
    ADD(a_wait_without_a_session_is_told);
    ADD(a_name_is_made_by_a_rule_that_other_versions_know);
    ADD(an_heir_is_the_first_ten_letters_of_a_name);
    return unit_end();
}
