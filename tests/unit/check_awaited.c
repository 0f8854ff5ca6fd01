/*
 * check_awaited.c - which owners are waited for (store/awaited.h): those that are
 * always found, for as long as it was promised; others by chance only.
 */
#include "store/awaited.h"

#include <string.h>

#include "api/attachment.h"
#include "lock/request.h"
#include "told.h"
#include "unit.h"

#define START ((mono_t){NS_PER_S})

static struct seg_header header;
static uint32_t words[2 * AWAITED_WORDS];
static const struct map map = {.h = &header, .awaited = words};

static mono_t after(int64_t ns)
{
    return mono_add_ns(START, ns);
}

static void begin(void)
{
    memset(&header, 0, sizeof(header));
    memset(words, 0, sizeof(words));
    header.awaited_since_ns = START.ns;
}

TEST(an_owner_that_was_noted_is_found_and_no_other)
{
    begin();
    ck_assert(!awaited_has(&map, 4711));
    awaited_note(&map, 4711, START);
    ck_assert(awaited_has(&map, 4711));
    ck_assert(!awaited_has(&map, 4712));
}

TEST(nobody_is_waited_for_by_no_name)
{
    begin();
    awaited_note(&map, 0, START);
    ck_assert(!awaited_has(&map, 0));
}

/* Noted at the very end of one filter's time, and others after it. */
TEST(an_owner_is_found_for_as_long_as_promised_and_not_for_ever)
{
    begin();
    awaited_note(&map, 4711, after(AWAITED_NS - 1));
    awaited_note(&map, 4712, after(AWAITED_NS));
    awaited_note(&map, 4712, after(2 * AWAITED_NS - 1));
    ck_assert(awaited_has(&map, 4711));
    awaited_note(&map, 4712, after(2 * AWAITED_NS));
    ck_assert(!awaited_has(&map, 4711));
    ck_assert(awaited_has(&map, 4712));
}

TEST(all_are_waited_for_while_a_request_of_many_objects_waits)
{
    begin();
    awaited_note_all(&map, after(AWAITED_NS));
    ck_assert(awaited_has(&map, 4711));
    awaited_note(&map, 1, after(2 * AWAITED_NS));
    ck_assert(awaited_has(&map, 4711));
    awaited_note(&map, 1, after(3 * AWAITED_NS));
    ck_assert(!awaited_has(&map, 4711));
}

/* As another process may have written them: neither stays as it is. */
TEST(a_time_that_is_far_ahead_or_a_half_that_is_none_mend_themselves)
{
    begin();
    header.awaited_since_ns = INT64_MAX;
    header.awaited_half = 0xffffffff;
    awaited_note(&map, 4711, START);
    ck_assert(awaited_has(&map, 4711));
    ck_assert_int_eq(header.awaited_since_ns, START.ns);
    ck_assert_uint_lt(header.awaited_half, 2);
}

/* Of 262,144 bits at most. */
TEST(of_10000_owners_few_others_are_taken_for_one)
{
    uint64_t dice = unit_seed();
    unsigned taken = 0;

    begin();
    for (unsigned i = 0; i < 10000; i++)
        awaited_note(&map, unit_random(&dice) | 1, START);
    for (unsigned i = 0; i < 100000; i++)
        taken += awaited_has(&map, unit_random(&dice) | 1);
    ck_assert_uint_lt(taken, 10000);
}

/* --- who notes it --- */

static bool is_awaited(struct enq *e, const char *owner)
{
    const struct ask ask = {
        .owner = owner, .owner_bytes = (uint16_t)(strlen(owner) + 1)};

    return awaited_has(e->map, ask_owner_hash(e->map, &ask));
}

static void forget_all(struct enq *e)
{
    memset(e->map->awaited, 0, 2 * AWAITED_WORDS * sizeof(uint32_t));
    memset(e->map->h->awaited_all, 0, sizeof(e->map->h->awaited_all));
}

static bool is_awaited_now(struct enq *e, const char *owner)
{
    bool yes = is_awaited(e, owner);

    forget_all(e);
    return yes;
}

/* In the queue, as enq_lock() has it before its first look. */
static void queues(struct enq *e, const char *owner, const char *field,
    enum enq_mode mode)
{
    const struct enq_req *req =
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner);
    struct ask ask = {.mode = mode,
        .owner = owner,
        .owner_bytes = (uint16_t)(strlen(owner) + 1),
        .ttl_ms = -1,
        .ticket = UINT64_MAX};
    struct thread *t = thread_enter(e->map);
    char bytes[KEY_BYTES_MAX];
    struct place place;

    ck_assert_int_eq(key_pack(&ask.key, bytes, sizeof(bytes), req,
                         e->map->hash_seed),
        0);
    ck_assert_int_eq(slab_take(&e->session, t, &place.e), 0);
    memcpy(place.e->payload, bytes, key_bytes(&ask.key));
    want(ENQ_PENDING, request_lock(&e->session, t, &ask, true, &place, NULL));
}

static struct enq_grant takes(struct enq *e, const char *owner,
    const char *field, enum enq_mode mode)
{
    return told_lock_req(e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = mode, .owner = owner));
}

TEST(who_holds_what_a_request_queues_for_is_waited_for_from_then_on)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_S);
    takes(e, "B", "k", ENQ_MODE_S);
    takes(e, "C", "other", ENQ_MODE_S);
    ck_assert(!is_awaited(e, "A"));
    queues(e, "W", "k", ENQ_MODE_X);
    ck_assert(is_awaited(e, "A") && is_awaited(e, "B"));
    ck_assert(!is_awaited(e, "C") && !is_awaited(e, "W"));
    enq_close(e);
}

TEST(who_is_granted_is_waited_for_by_those_behind_it)
{
    struct enq_open_opts strict = {
        .size = sizeof(strict), .strict = ENQ_STRICT_YES};
    struct enq *e = unit_open_with(&strict);
    struct enq_grant first = takes(e, "A", "k", ENQ_MODE_X);

    queues(e, "B", "k", ENQ_MODE_X);
    queues(e, "C", "k", ENQ_MODE_X);
    forget_all(e);
    told_unlock(e, &first);
    ck_assert(is_awaited_now(e, "B"));
    ck_assert(!is_awaited(e, "C"));
    enq_close(e);
}

TEST(who_takes_more_past_those_who_wait_is_waited_for)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_E);
    queues(e, "W", "k", ENQ_MODE_X);
    forget_all(e);
    takes(e, "A", "k", ENQ_MODE_E);
    ck_assert(is_awaited(e, "A"));
    enq_close(e);
}

TEST(who_changes_the_mode_of_what_others_wait_for_is_waited_for)
{
    struct enq *e = unit_open();
    struct enq_grant held = takes(e, "A", "k", ENQ_MODE_X);

    queues(e, "W", "k", ENQ_MODE_X);
    forget_all(e);
    want(ENQ_OK, enq_demote(e, held.handle, held.token));
    ck_assert(is_awaited(e, "A"));
    enq_close(e);
}

TEST(a_request_of_many_objects_that_queues_waits_for_anybody)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_X);
    queues(e, "W", "@", ENQ_MODE_X);
    ck_assert(is_awaited(e, "A") && is_awaited(e, "anybody"));
    enq_close(e);
}

/* Its bit may be the last that tells of it: the other filter is emptied. */
TEST(who_waits_says_so_again_at_each_of_its_looks)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_X);
    told_start(e, "k", ENQ_MODE_X, "W", ENQ_FOREVER);
    ck_assert(is_awaited_now(e, "A"));
    eventually(is_awaited(e, "A"));
    enq_close(e);
}

int main(void)
{
    unit_begin("awaited");
    ADD(an_owner_that_was_noted_is_found_and_no_other);
    ADD(nobody_is_waited_for_by_no_name);
    ADD(an_owner_is_found_for_as_long_as_promised_and_not_for_ever);
    ADD(all_are_waited_for_while_a_request_of_many_objects_waits);
    ADD(a_time_that_is_far_ahead_or_a_half_that_is_none_mend_themselves);
    ADD(of_10000_owners_few_others_are_taken_for_one);
    ADD(who_holds_what_a_request_queues_for_is_waited_for_from_then_on);
    ADD(who_is_granted_is_waited_for_by_those_behind_it);
    ADD(who_takes_more_past_those_who_wait_is_waited_for);
    ADD(who_changes_the_mode_of_what_others_wait_for_is_waited_for);
    ADD(a_request_of_many_objects_that_queues_waits_for_anybody);
    ADD(who_waits_says_so_again_at_each_of_its_looks);
    return unit_end();
}
