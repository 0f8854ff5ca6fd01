/*
 * check_awaited.c - which owners are waited for (store/owners.h): from the moment
 * at which a lock of theirs is in the way, to the one at which it goes.
 */
#include "store/owners.h"

#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/request.h"
#include "sync/sys.h"
#include "told.h"
#include "unit.h"

static bool is_awaited(struct enq *e, const char *owner)
{
    const struct ask ask = {
        .owner = owner, .owner_bytes = (uint16_t)(strlen(owner) + 1)};

    return owners_wait(e->map, owner_awaited(ask_owner_hash(e->map, &ask)), 0);
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

static struct enq *open_strict(void)
{
    struct enq_open_opts strict = {
        .size = sizeof(strict), .strict = ENQ_STRICT_YES};

    return unit_open_with(&strict);
}

/* Nothing is left of it in the table when all have given back. */
static void nobody_is_counted(struct enq *e)
{
    for (unsigned i = 0; i < OWNER_WORDS; i++)
        ck_assert_uint_eq(e->map->owners[i], 0);
    ck_assert_uint_eq(e->map->h->generic_waiters, 0);
    ck_assert_uint_eq(e->map->h->owners_untold, 0);
}

static void all_give_back(struct enq *e)
{
    struct enq_info infos[16];
    size_t n;

    while (enq_list(e, NULL, NULL, infos, LENGTH(infos), &n) == ENQ_OK && n > 0)
        want(ENQ_OK, enq_break(e, infos[0].id));
    nobody_is_counted(e);
    unit_healthy(e);
    enq_close(e);
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
    all_give_back(e);
}

TEST(a_lock_that_many_wait_for_is_counted_once)
{
    struct enq *e = unit_open();
    struct enq_grant held = takes(e, "A", "k", ENQ_MODE_X);

    for (int i = 0; i < 3; i++)
        queues(e, "W", "k", ENQ_MODE_X);
    told_unlock(e, &held);
    ck_assert(!is_awaited(e, "A"));
    all_give_back(e);
}

TEST(an_owner_of_two_such_locks_is_waited_for_until_both_are_given_back)
{
    struct enq *e = unit_open();
    struct enq_grant k = takes(e, "A", "k", ENQ_MODE_X),
                     l = takes(e, "A", "l", ENQ_MODE_X);

    queues(e, "W", "k", ENQ_MODE_X);
    queues(e, "W", "l", ENQ_MODE_X);
    told_unlock(e, &k);
    ck_assert(is_awaited(e, "A"));
    told_unlock(e, &l);
    ck_assert(!is_awaited(e, "A"));
    all_give_back(e);
}

TEST(who_is_granted_is_waited_for_by_those_behind_it)
{
    struct enq *e = open_strict();
    struct enq_grant first = takes(e, "A", "k", ENQ_MODE_X);

    queues(e, "B", "k", ENQ_MODE_X);
    queues(e, "C", "k", ENQ_MODE_X);
    told_unlock(e, &first);
    ck_assert(is_awaited(e, "B"));
    ck_assert(!is_awaited(e, "A") && !is_awaited(e, "C"));
    all_give_back(e);
}

TEST(who_takes_more_past_those_who_wait_is_waited_for)
{
    struct enq *e = unit_open();
    struct enq_grant first = takes(e, "A", "k", ENQ_MODE_E);

    queues(e, "W", "k", ENQ_MODE_X);
    takes(e, "A", "k", ENQ_MODE_E);
    told_unlock(e, &first);
    ck_assert(is_awaited(e, "A"));
    all_give_back(e);
}

/* Who comes while all keys may be meant sees those that wait, too. */
TEST(a_request_in_the_way_is_no_lock_that_is_waited_for)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_X);
    queues(e, "W", "k", ENQ_MODE_X);
    queues(e, "G", "@", ENQ_MODE_X);
    queues(e, "V", "k", ENQ_MODE_X);
    ck_assert(!is_awaited(e, "W"));
    all_give_back(e);
}

static mono_t stopped_at;

static mono_t stopped(void)
{
    return stopped_at;
}

/* Its O was in nobody's way. Who waits has been told to try, and not yet done
   so, for however long this test is kept from running: the time stands still, or
   else the lock would be handed to who waits. */
TEST(who_promotes_in_the_way_of_those_who_wait_is_waited_for)
{
    struct enq_open_opts sap = {.size = sizeof(sap), .compat = "sap"};
    struct enq_grant held, optimistic, promoted;
    struct enq *e;

    stopped_at = sys.now();
    sys.now = sys.coarse = stopped;
    e = unit_open_with(&sap);
    held = takes(e, "A", "k", ENQ_MODE_E);
    optimistic = takes(e, "A", "k", ENQ_MODE_O);
    queues(e, "W", "k", ENQ_MODE_S);
    told_unlock(e, &held);
    ck_assert(!is_awaited(e, "A"));
    want(ENQ_OK,
        enq_promote(e, optimistic.handle, optimistic.token, &promoted));
    ck_assert(is_awaited(e, "A"));
    all_give_back(e);
}

TEST(while_a_request_of_many_objects_waits_it_is_counted)
{
    struct enq *e = unit_open();

    takes(e, "A", "k", ENQ_MODE_X);
    queues(e, "W", "@", ENQ_MODE_X);
    ck_assert_uint_eq(e->map->h->generic_waiters, 1);
    all_give_back(e);
}

static int holds_for_ever(void *nothing)
{
    (void)nothing;
    takes(unit_open(), "A", "k", ENQ_MODE_X);
    for (;;)
        pause();
    return 0;
}

TEST(who_died_is_waited_for_no_longer)
{
    struct enq *e = unit_open();
    pid_t a = unit_fork(holds_for_ever, NULL);

    eventually(unit_stats(e).held == 1);
    told_start(e, "k", ENQ_MODE_X, "W", ENQ_FOREVER);
    ck_assert(is_awaited(e, "A"));
    unit_kill(a);
    eventually(!is_awaited(e, "A"));
    all_give_back(e);
}

int main(void)
{
    unit_begin("awaited");
    ADD(who_holds_what_a_request_queues_for_is_waited_for_from_then_on);
    ADD(a_lock_that_many_wait_for_is_counted_once);
    ADD(an_owner_of_two_such_locks_is_waited_for_until_both_are_given_back);
    ADD(who_is_granted_is_waited_for_by_those_behind_it);
    ADD(who_takes_more_past_those_who_wait_is_waited_for);
    ADD(a_request_in_the_way_is_no_lock_that_is_waited_for);
    ADD(who_promotes_in_the_way_of_those_who_wait_is_waited_for);
    ADD(while_a_request_of_many_objects_waits_it_is_counted);
    ADD(who_died_is_waited_for_no_longer);
    return unit_end();
}
