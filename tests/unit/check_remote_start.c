/*
 * check_remote_start.c - started requests of the client of a bridge, against a
 * fake one.
 */
#include "fake.h"

static struct fake fake;

static const struct enq_req request = {.size = sizeof(request),
    .name = "n",
    .key = {"k"},
    .mode = ENQ_MODE_E,
    .wait_ms = 60000};

static void starts(struct asker *a, struct enq *e)
{
    asker_begin_set(a, e);
    fake_hear(&fake, "\"start\":true");
}

/* Its caller has been told that it waits. */
static void waits(struct asker *a, struct enq *e)
{
    starts(a, e);
    fake_answer(&fake, "\"RC\":\"0\",\"RESULT\":3");
    asker_end(a, ENQ_PENDING);
}

static void is_end_of(const struct asker *a, const struct enq_event *event,
    int result)
{
    ck_assert_int_eq(event->kind, ENQ_EVENT_RESULT);
    ck_assert_int_eq(event->result, result);
    ck_assert_uint_eq(event->ticket, a->ticket);
}

/* Of one lock a bridge may tell as of no set. */
static const char *const told_as[] = {
    "\"HANDLE\":\"77\",\"TOKEN\":\"1001\"",
    "\"GRANTS\":[{\"HANDLE\":\"77\",\"TOKEN\":\"1001\"}]",
};

TEST(the_grants_of_a_started_set_are_filled_with_its_event)
{
    struct asker a = {.reqs = {&request}};
    struct enq_event event;
    struct enq *e = fake_start(&fake);

    waits(&a, e);
    ck_assert_uint_eq(a.grant.handle, 0);
    fake_say(&fake,
        "{\"EVENT\":\"result\",\"RESULT\":0,\"TICKET\":\"%llu\",%s}\n",
        fake_number(&fake), told_as[_i]);
    eventually(enq_next(e, &event) == ENQ_OK);
    is_end_of(&a, &event, ENQ_OK);
    ck_assert_uint_eq(a.grant.handle, 77);
    ck_assert_uint_eq(a.grant.token, 1001);
    want(ENQ_OK, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* Its wait is over when the connection that said that it waits has come back.
 */
TEST(a_start_whose_word_that_it_waits_was_lost_is_pending_all_the_same)
{
    struct asker a = {.reqs = {&request}};
    struct enq_event event;
    struct enq *e = fake_start(&fake);

    starts(&a, e);
    fake_answer(&fake,
        "\"RC\":\"1\",\"RESULT\":2,"
        "\"BLOCKER\":{\"owner\":\"B\",\"mode\":\"X\"}");
    asker_end(&a, ENQ_PENDING);
    ck_assert_str_eq(a.grant.blocker.owner, "B");
    want(ENQ_OK, enq_next(e, &event));
    is_end_of(&a, &event, ENQ_TIMEDOUT);
    fake_close(&fake, e);
}

static void *cancel(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_cancel(a->e, a->ticket);
    return NULL;
}

/* The bridge dies before its result is told: it is not asked for again. */
TEST(what_was_cancelled_stays_cancelled_when_its_bridge_dies)
{
    struct asker a = {.reqs = {&request}};
    struct enq_event event;
    struct enq *e = fake_start(&fake);

    waits(&a, e);
    asker_run(&a, e, cancel);
    fake_hear(&fake, "\"cancel\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    fake_cut(&fake);
    fake_greet(&fake, _i == 0 ? "one" : "two", _i == 0);
    ck_assert(!fake_hear_within(&fake, 50));
    want(ENQ_OK, enq_next(e, &event));
    is_end_of(&a, &event, ENQ_CANCELLED);
    fake_close(&fake, e);
}

/* All of it comes at once: before its caller has woken up to be told that it
   waits. */
TEST(what_happens_to_a_lock_is_told_after_its_result)
{
    static const uint32_t kinds[] = {
        ENQ_EVENT_RESULT, ENQ_EVENT_BLOCKING, ENQ_EVENT_EXPIRED};
    struct asker a = {.reqs = {&request}};
    struct enq_event event;
    struct enq *e = fake_listener(&fake);

    starts(&a, e);
    fake_say(&fake,
        "{\"RC\":\"0\",\"RESULT\":3,\"reqUUID\":\"%llu\"}\n"
        "{\"EVENT\":\"result\",\"RESULT\":0,\"TICKET\":\"%llu\",%s}\n"
        "{\"EVENT\":\"blocking\",\"RESULT\":0,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\",\"OWNER\":\"B\"}\n"
        "{\"EVENT\":\"expired\",\"RESULT\":6,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\",\"OWNER\":\"\"}\n",
        fake_number(&fake), fake_number(&fake), told_as[0]);
    asker_end(&a, ENQ_PENDING);
    for (unsigned i = 0; i < LENGTH(kinds); i++) {
        eventually(enq_next(e, &event) == ENQ_OK);
        ck_assert_int_eq(event.kind, kinds[i]);
    }
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote-start");
    ADD_LOOP(the_grants_of_a_started_set_are_filled_with_its_event,
        LENGTH(told_as));
    ADD(a_start_whose_word_that_it_waits_was_lost_is_pending_all_the_same);
    ADD_LOOP(what_was_cancelled_stays_cancelled_when_its_bridge_dies, 2);
    ADD(what_happens_to_a_lock_is_told_after_its_result);
    return unit_end();
}
