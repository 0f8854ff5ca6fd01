/*
 * check_remote_held.c - what the client of a bridge remembers of its locks.
 */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "fake.h"

#define A_LOCK                                                                 \
    ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 600000)

static struct fake fake;

static void granted(struct enq *e, struct asker *a)
{
    asker_begin(a, e, A_LOCK);
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, GRANTED("77"));
    asker_end(a, ENQ_OK);
}

/* --- what is remembered, and for how long --- */

#define GONE_KEPT 4096u
#define GONE (GONE_KEPT + 100)

static void *ask_for_many(void *arg)
{
    struct asker *a = arg;

    for (unsigned i = 0; i < GONE && a->rc == ENQ_OK; i++)
        a->rc = enq_lock(a->e, A_LOCK, &a->grant);
    return NULL;
}

static void has_run_out(struct enq *e, unsigned handle)
{
    fake_say(&fake,
        "{\"EVENT\":\"expired\",\"RESULT\":6,\"HANDLE\":\"%u\","
        "\"TOKEN\":\"1001\"}\n",
        handle);
    if (e != NULL)
        eventually(enq_valid(e, handle) == ENQ_EXPIRED);
}

static void is_asked_about(struct enq *e, unsigned handle)
{
    struct asker a = {0};

    asker_begin_valid(&a, e, handle);
    fake_hear_past_pings(&fake, "\"OP\":\"valid\"");
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"gone\"");
    asker_end(&a, ENQ_NOTHELD);
}

/* Handles 1 to GONE. With _i somebody listens, and reads it late. */
TEST(of_what_is_gone_so_many_are_remembered)
{
    struct asker a = {0};
    struct enq_event event;
    struct enq *e;
    char members[100];

    fake_begin(&fake);
    fake.keepalive_ms = fake.grace_ms = 3600000; /* no pings */
    e = fake_open(&fake);
    if (_i == 1)
        ck_assert_int_ge(enq_fd(e), 0);
    asker_run(&a, e, ask_for_many);
    for (unsigned i = 1; i <= GONE; i++) {
        fake_hear_past_pings(&fake, "\"eleLock\"");
        snprintf(members, sizeof(members),
            DONE ",\"HANDLE\":\"%u\",\"TOKEN\":\"1001\"", i);
        fake_answer(&fake, members);
    }
    asker_end(&a, ENQ_OK);
    for (unsigned i = 1; i < GONE; i++)
        has_run_out(i % 100 == 0 ? e : NULL, i);
    if (_i == 1)
        for (unsigned i = 1; i < GONE; i++)
            eventually(enq_next(e, &event) == ENQ_OK);
    has_run_out(e, GONE);
    want(ENQ_EXPIRED, enq_valid(e, GONE - GONE_KEPT + 1));
    is_asked_about(e, GONE - GONE_KEPT);
    is_asked_about(e, 1);
    fake_close(&fake, e);
}

static void *give_back_set(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_unlock_set(a->e, &a->grant, 1);
    return NULL;
}

/* What the bridge says of it then is of nobody here; and it is asked again. */
TEST(what_was_given_back_is_forgotten)
{
    struct asker a = {0};
    struct enq *e = fake_listener(&fake);

    granted(e, &a);
    if (_i == 0)
        asker_begin(&a, e, NULL);
    else
        asker_run(&a, e, give_back_set);
    fake_hear(&fake, "\"77\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    fake_say(&fake,
        "{\"EVENT\":\"expired\",\"RESULT\":6,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\"}\n");
    asker_begin_valid(&a, e, 77);
    fake_hear(&fake, "\"OP\":\"valid\"");
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"gone\"");
    asker_end(&a, ENQ_NOTHELD);
    want(ENQ_PENDING, enq_next(e, &(struct enq_event){0}));
    fake_close(&fake, e);
}

/* One may be under way when it is given back. */
TEST(a_lock_that_was_given_back_has_no_heartbeat_any_more)
{
    struct asker a = {0};
    unsigned n = 0;
    struct enq *e;

    fake_begin(&fake);
    fake.keepalive_ms = fake.grace_ms = 3600000; /* no pings */
    e = fake_open(&fake);
    asker_begin(&a, e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 60000,
            .heartbeat_ms = 20));
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    asker_begin(&a, e, NULL);
    do {
        ck_assert(fake_hear_within(&fake, 10000));
        fake_answer(&fake, DONE);
    } while (strstr(fake.line, "\"renew\"") != NULL);
    ck_assert_ptr_nonnull(strstr(fake.line, "\"OP\":\"2\""));
    asker_end(&a, ENQ_OK);
    while (fake_hear_within(&fake, 300)) {
        fake_answer(&fake, DONE);
        ck_assert_uint_lt(++n, 3);
    }
    fake_close(&fake, e);
}

/* Of a lock that is held, or that is gone. */
TEST(lock_events_from_before_the_descriptor_are_told)
{
    struct enq_event event;
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    granted(e, &a);
    fake_say(&fake,
        "{\"EVENT\":\"%s\",\"RESULT\":%d,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\",\"OWNER\":\"other\"}\n",
        _i == 0 ? "blocking" : "expired", _i == 0 ? 0 : 6);
    a.grant.handle = 5; /* whose answer comes behind the event */
    asker_begin(&a, e, NULL);
    fake_hear(&fake, "\"5\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    ck_assert_int_ge(enq_fd(e), 0);
    ck_assert_int_eq(poll(&(struct pollfd){.fd = enq_fd(e), .events = POLLIN},
                         1, 0),
        1);
    want(ENQ_OK, enq_next(e, &event));
    ck_assert_int_eq(event.kind,
        _i == 0 ? ENQ_EVENT_BLOCKING : ENQ_EVENT_EXPIRED);
    ck_assert_uint_eq(event.grant.handle, 77);
    want(ENQ_PENDING, enq_next(e, &event));
    fake_close(&fake, e);
}

static bool is_readable(struct enq *e)
{
    return poll(&(struct pollfd){.fd = enq_fd(e), .events = POLLIN}, 1, 0) == 1;
}

/* What is not a part of it is empty, whatever the caller had there. */
static void hears(struct enq *e, enum enq_event_kind kind, enq_handle handle,
    uint64_t token, const char *owner)
{
    struct enq_event event;

    memset(&event, 'x', sizeof(event));
    eventually(is_readable(e));
    want(ENQ_OK, enq_next(e, &event));
    ck_assert_int_eq(event.kind, kind);
    ck_assert_uint_eq(event.ticket, 0);
    ck_assert_uint_eq(event.grant.handle, handle);
    ck_assert_uint_eq(event.grant.token, token);
    ck_assert_str_eq(event.grant.blocker.owner, owner);
    ck_assert(!is_readable(e));
}

/* That it is gone, unless that is no news any more, and that it is back. */
static void hears_of_session(struct enq *e)
{
    struct enq_event event;

    do {
        eventually(is_readable(e));
        want(ENQ_OK, enq_next(e, &event));
        ck_assert_int_eq(event.kind, ENQ_EVENT_SESSION);
    } while (event.result != ENQ_OK);
    ck_assert_uint_eq(event.grant.handle, 0);
    ck_assert(!is_readable(e));
}

/* With _i it is number 0, as in a program that has closed its input. */
TEST(the_descriptor_is_readable_as_long_as_there_is_something_to_tell)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    if (_i == 1)
        close(STDIN_FILENO);
    ck_assert_int_eq(enq_fd(e) == STDIN_FILENO, _i == 1);
    granted(e, &a);
    ck_assert(!is_readable(e));
    fake_say(&fake,
        "{\"EVENT\":\"blocking\",\"RESULT\":0,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\",\"OWNER\":\"other\"}\n");
    hears(e, ENQ_EVENT_BLOCKING, 77, 1001, "other");
    fake_say(&fake,
        "{\"EVENT\":\"expiring\",\"RESULT\":0,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\"}\n");
    eventually(is_readable(e));
    asker_begin(&a, e, NULL); /* it is given back, and nothing is to tell */
    fake_hear(&fake, "\"OP\":\"2\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    ck_assert(!is_readable(e));
    fake_cut(&fake);
    fake_greet(&fake, "two", false);
    hears_of_session(e);
    fake_close(&fake, e);
}

/* --- what is asked about a token --- */

static void *ask_of_all(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_check(a->e, "n", NULL, 5);
    return NULL;
}

TEST(what_is_no_text_is_refused_before_the_bridge_is_asked)
{
    const char *const good[] = {"k", NULL}, *const bad[] = {"k", "\xff", NULL};
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    want(-EILSEQ, enq_check(e, "\xff", good, 5));
    want(-EILSEQ, enq_check(e, "n", bad, 5));
    asker_run(&a, e, ask_of_all);
    fake_hear(&fake, "\"OP\":\"check\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

/* --- giving back --- */

#define MORE_THAN_FIT 70 /* under way at once */

static bool is_given_back(void)
{
    return strstr(fake.line, "\"HANDLE\":\"77\"") != NULL;
}

/* All that comes is answered; until it is the one that gives back, or nothing
   comes any more. */
static bool answer_until_given_back(void)
{
    while (fake_hear_within(&fake, 500)) {
        if (is_given_back())
            return true;
        fake_answer(&fake, DONE);
    }
    return false;
}

/* It came too late, and is to be given back once there is room for that. By
   then the session may be over: in another one it is not ours to give. */
TEST(what_waits_to_be_given_back_ends_with_its_session)
{
    static struct asker a[MORE_THAN_FIT];
    unsigned long long number;
    struct asker late = {0};
    bool resumed = _i == 0;
    struct enq *e = fake_start(&fake);

    asker_begin(&late, e, A_LOCK);
    fake_hear(&fake, "\"eleLock\"");
    number = fake_number(&fake);
    asker_end(&late, -ETIMEDOUT);
    for (int i = 0; i < MORE_THAN_FIT; i++) {
        a[i].grant.handle = (enq_handle)i + 1000;
        asker_begin(&a[i], e, NULL);
    }
    while (fake_hear_within(&fake, 300))
        continue; /* no more are under way than that */
    fake_answer_to(&fake, number, GRANTED("77"));
    while (fake_hear_within(&fake, 300))
        ck_assert(!is_given_back());
    fake_cut(&fake);
    fake_greet(&fake, resumed ? "one" : "two", resumed);
    ck_assert_int_eq(answer_until_given_back(), resumed);
    if (resumed) {
        fake_answer(&fake, DONE);
        ck_assert(!answer_until_given_back());
    }
    for (int i = 0; i < MORE_THAN_FIT; i++)
        pthread_join(a[i].thread, NULL);
    fake_close(&fake, e);
}

/* It may be adopted by now, or broken. */
TEST(of_what_stays_beyond_its_session_the_bridge_is_asked)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    asker_begin(&a, e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E,
            .on_death = ENQ_DEATH_KEEP));
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    want(ENQ_OK, enq_valid(e, 77));
    fake_cut(&fake);
    fake_greet(&fake, "two", false);
    asker_begin(&a, e, A_LOCK); /* which it sends when it has been greeted */
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, GRANTED("78"));
    asker_end(&a, ENQ_OK);
    is_asked_about(e, 77);
    fake_close(&fake, e);
}

TEST(of_a_lock_that_was_taken_away_is_told_who_has_it)
{
    struct asker a = {0};
    struct enq_event event;
    struct enq *e = fake_listener(&fake);

    granted(e, &a);
    fake_say(&fake,
        "{\"EVENT\":\"lost\",\"RESULT\":7,\"HANDLE\":\"77\","
        "\"TOKEN\":\"1001\",\"OWNER\":\"the taker\"}\n");
    eventually(enq_next(e, &event) == ENQ_OK);
    ck_assert_int_eq(event.kind, ENQ_EVENT_LOST);
    ck_assert_int_eq(event.result, ENQ_LOST);
    ck_assert_str_eq(event.grant.blocker.owner, "the taker");
    fake_close(&fake, e);
}

/* --- what is left of a set --- */

static void *ask_set(void *arg)
{
    struct asker *a = arg;
    const struct enq_req *reqs[] = {A_LOCK,
        ENQ_REQ(.name = "n", .key = {"l"}, .mode = ENQ_MODE_E),
        ENQ_REQ(.name = "n", .key = {"m"}, .mode = ENQ_MODE_E)};
    struct enq_grant grants[3];

    a->rc = enq_lock_set(a->e, reqs, 3, grants);
    return NULL;
}

/* It was granted, and the answer lost with the bridge; of what the next one has
   taken over a lock has run out. We have none of it, and so keep none: nobody
   else would give it back. */
TEST(of_a_set_that_has_lost_a_lock_the_others_are_given_back)
{
    struct asker a = {0};
    bool is_wanted = _i == 0;
    unsigned long long number;
    struct enq *e = fake_start(&fake);

    asker_run(&a, e, ask_set);
    fake_hear(&fake, "\"OP\":\"set\"");
    number = fake_number(&fake);
    if (!is_wanted)
        asker_end(&a, -ETIMEDOUT);
    fake_resume(&fake);
    fake_hear(&fake, "\"OP\":\"set\"");
    ck_assert_uint_eq(fake_number(&fake), number);
    fake_answer(&fake,
        "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"gone\",\"GRANTS\":["
        "{\"HANDLE\":\"77\",\"TOKEN\":\"1001\"},"
        "{\"HANDLE\":\"79\",\"TOKEN\":\"1003\"}]");
    if (is_wanted)
        asker_end(&a, ENQ_NOTHELD);
    fake_hear_unlock(&fake, "\"HANDLE\":\"77\",\"TOKEN\":\"1001\"");
    fake_answer(&fake, DONE);
    fake_hear_unlock(&fake, "\"HANDLE\":\"79\",\"TOKEN\":\"1003\"");
    fake_answer(&fake, DONE);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote_held");
    ADD_LOOP(of_what_is_gone_so_many_are_remembered, 2);
    ADD_LOOP(what_was_given_back_is_forgotten, 2);
    ADD(a_lock_that_was_given_back_has_no_heartbeat_any_more);
    ADD_LOOP(lock_events_from_before_the_descriptor_are_told, 2);
    ADD_LOOP(the_descriptor_is_readable_as_long_as_there_is_something_to_tell,
        2);
    ADD(what_is_no_text_is_refused_before_the_bridge_is_asked);
    ADD_LOOP(what_waits_to_be_given_back_ends_with_its_session, 2);
    ADD(of_what_stays_beyond_its_session_the_bridge_is_asked);
    ADD(of_a_lock_that_was_taken_away_is_told_who_has_it);
    ADD_LOOP(of_a_set_that_has_lost_a_lock_the_others_are_given_back, 2);
    return unit_end();
}
