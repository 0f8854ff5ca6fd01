/*
 * check_remote.c - the client of a bridge, against a fake one: lost requests
 * and lost answers, sessions that are over, silence, nonsense.
 */
#include <errno.h>
#include <poll.h>
#include <sys/wait.h>

#include "fake.h"

#define A_LOCK                                                                 \
    ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 60000)

static struct fake fake;

static void granted(struct enq *e, struct asker *a, const struct enq_req *req)
{
    asker_begin(a, e, req);
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, GRANTED("77"));
    asker_end(a, ENQ_OK);
    ck_assert_uint_eq(a->grant.handle, 77);
    ck_assert_uint_eq(a->grant.token, 1001);
}

/* Of the connection there may be two events, or the last of them. */
static void lock_event_is(struct enq *e, int kind, int result)
{
    struct enq_event event;

    do
        eventually(enq_next(e, &event) == ENQ_OK);
    while (event.kind == ENQ_EVENT_SESSION);
    ck_assert_int_eq(event.kind, kind);
    ck_assert_int_eq(event.result, result);
}

static void *test_for_nothing(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_lock(a->e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E,
            .flags = ENQ_TEST),
        NULL);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return NULL;
}

TEST(who_only_tests_need_not_have_room_for_a_grant)
{
    struct enq *e = fake_start(&fake);
    struct asker a = {0};

    asker_run(&a, e, test_for_nothing);
    fake_hear(&fake, "\"eleLock\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    want_why(-EINVAL, enq_lock(e, A_LOCK, NULL), "grant is NULL");
    fake_close(&fake, e);
}

/* --- lost, and sent again --- */

TEST(an_answer_that_was_lost_is_asked_for_again_by_the_same_number)
{
    struct asker a = {0};
    char before[1000];
    struct enq *e = fake_start(&fake);

    asker_begin(&a, e, A_LOCK);
    fake_hear(&fake, "\"eleLock\"");
    snprintf(before, sizeof(before), "%.900s", fake.line);
    fake_resume(&fake);
    fake_hear(&fake, "\"eleLock\"");
    ck_assert_str_eq(fake.line, before);
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    want(ENQ_OK, enq_valid(e, 77));
    fake_close(&fake, e);
}

#define ASKERS 5

TEST(what_was_not_answered_is_sent_again_in_its_order)
{
    struct asker a[ASKERS] = {{0}};
    unsigned long long numbers[ASKERS];
    struct enq *e = fake_start(&fake);

    for (int i = 0; i < ASKERS; i++) {
        a[i].grant.handle = (enq_handle)i + 1;
        asker_begin(&a[i], e, NULL);
        fake_hear(&fake, "\"OP\":\"2\"");
        numbers[i] = fake_number(&fake);
    }
    fake_resume(&fake);
    for (int i = 0; i < ASKERS; i++) {
        fake_hear(&fake, "\"OP\":\"2\"");
        ck_assert_uint_eq(fake_number(&fake), numbers[i]);
        fake_answer(&fake, DONE);
        asker_end(&a[i], ENQ_OK);
    }
    fake_close(&fake, e);
}

TEST(of_a_wait_that_is_asked_for_again_what_is_left_is_told)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);
    long left;

    asker_begin(&a, e,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E,
            .wait_ms = 60000));
    fake_hear(&fake, "\"waitTime\":60000 ");
    poll(NULL, 0, 30);
    fake_resume(&fake);
    fake_hear(&fake, "\"waitTime\":5");
    left = atol(strstr(fake.line, "\"waitTime\":") + 11);
    ck_assert_int_le(left, 60000 - 30);
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

TEST(an_unlock_that_was_done_before_its_answer_was_lost_is_done)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    granted(e, &a, A_LOCK);
    asker_begin(&a, e, NULL);
    fake_hear(&fake, "\"OP\":\"2\"");
    fake_resume(&fake);
    fake_hear(&fake, "\"OP\":\"2\"");
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"no such lock\"");
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

/* What it holds is asked for as well when it is connected again; by then the
   bridge has no such lock. */
TEST(a_lock_that_is_being_given_back_is_not_lost_to_the_caller)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);
    unsigned long long unlock;

    granted(e, &a, A_LOCK);
    asker_begin(&a, e, NULL);
    fake_hear(&fake, "\"OP\":\"2\"");
    fake_resume(&fake);
    fake_hear(&fake, "\"OP\":\"2\"");
    unlock = fake_number(&fake);
    fake_hear_past_pings(&fake, "\"OP\":\"valid\"");
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"no such lock\"");
    fake_answer_to(&fake, unlock,
        "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"no such lock\"");
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

#define MANY 70

TEST(no_more_are_under_way_than_a_bridge_remembers)
{
    static struct asker a[MANY];
    struct enq *e = fake_start(&fake);
    int n = 0;

    for (int i = 0; i < MANY; i++) {
        a[i].grant.handle = (enq_handle)i + 1;
        asker_begin(&a[i], e, NULL);
    }
    while (fake_hear_within(&fake, 300))
        n++;
    ck_assert_int_eq(n, 64);
    for (; n < MANY; n++) { /* the answer to one lets the next one go */
        fake_answer(&fake, DONE);
        fake_hear(&fake, "\"OP\":\"2\"");
    }
    fake_resume(&fake);
    for (n = 0; n < 64; n++) {
        fake_hear(&fake, "\"OP\":\"2\"");
        fake_answer(&fake, DONE);
    }
    for (int i = 0; i < MANY; i++)
        asker_end(&a[i], ENQ_OK);
    fake_close(&fake, e);
}

TEST(a_lock_that_comes_too_late_is_given_back)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    asker_begin(&a, e, A_LOCK);
    fake_hear(&fake, "\"eleLock\"");
    {
        struct fake late = fake;

        asker_end(&a, -ETIMEDOUT);
        ck_assert_ptr_nonnull(strstr(a.why, "may have been done"));
        while (fake_hear_within(&fake, 1)) /* pings */
            continue;
        snprintf(fake.line, sizeof(fake.line), "%s", late.line);
    }
    fake_answer(&fake, GRANTED("77"));
    fake_hear_unlock(&fake, "\"HANDLE\":\"77\",\"TOKEN\":\"1001\"");
    fake_close(&fake, e);
}

static void *ask_set(void *arg)
{
    struct asker *a = arg;
    const struct enq_req *reqs[] = {
        A_LOCK, ENQ_REQ(.name = "n", .key = {"l"}, .mode = ENQ_MODE_E)};
    struct enq_grant grants[2];

    a->rc = enq_lock_set(a->e, reqs, 2, grants);
    return NULL;
}

TEST(a_set_that_comes_too_late_is_given_back_whole)
{
    struct asker a = {0};
    unsigned long long number;
    struct enq *e = fake_start(&fake);

    asker_run(&a, e, ask_set);
    fake_hear(&fake, "\"OP\":\"set\"");
    number = fake_number(&fake);
    asker_end(&a, -ETIMEDOUT);
    fake_answer_to(&fake, number,
        DONE ",\"GRANTS\":[{\"HANDLE\":\"77\",\"TOKEN\":\"1001\"},"
             "{\"HANDLE\":\"78\",\"TOKEN\":\"1002\"}]");
    fake_hear_unlock(&fake, "\"HANDLE\":\"77\",\"TOKEN\":\"1001\"");
    fake_hear_unlock(&fake, "\"HANDLE\":\"78\",\"TOKEN\":\"1002\"");
    fake_close(&fake, e);
}

/* --- sessions --- */

TEST(the_locks_of_a_session_that_is_over_are_lost)
{
    struct asker a = {0};
    struct enq *e = fake_listener(&fake);

    granted(e, &a, A_LOCK);
    fake_cut(&fake);
    fake_greet(&fake, "two", false);
    ck_assert_ptr_nonnull(strstr(fake.line, "\"session\":\"one\""));
    lock_event_is(e, ENQ_EVENT_LOST, ENQ_OWNERDIED);
    want(ENQ_OWNERDIED, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* With the last of its locks a session ends, while there is no bridge. */
TEST(a_lock_that_has_run_out_before_its_session_was_over_has_expired)
{
    struct asker a = {0};
    struct enq *e = fake_listener(&fake);

    granted(e, &a,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 20));
    fake_cut(&fake);
    eventually(enq_valid(e, 77) == ENQ_EXPIRED);
    fake_greet(&fake, "two", false);
    lock_event_is(e, ENQ_EVENT_EXPIRED, ENQ_EXPIRED);
    want(ENQ_EXPIRED, enq_valid(e, 77));
    fake_close(&fake, e);
}

static void *examine(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_doctor(a->e, 0, a->why, sizeof(a->why));
    return NULL;
}

TEST(a_report_is_the_bridges)
{
    struct enq *e = fake_start(&fake);
    struct asker a = {0};

    asker_run(&a, e, examine);
    fake_hear(&fake, "\"OP\":\"doctor\"");
    fake_answer(&fake,
        DONE ",\"FINDINGS\":2,\"REPORT\":\"this\\nand that\\n\"");
    asker_end(&a, 2);
    ck_assert_str_eq(a.why, "this\nand that\n");
    fake_close(&fake, e);
}

TEST(a_connection_that_is_gone_is_an_event)
{
    struct enq *e = fake_listener(&fake);

    fake_cut(&fake);
    event_is(e, ENQ_EVENT_SESSION, -ECONNRESET);
    fake_greet(&fake, "one", true);
    event_is(e, ENQ_EVENT_SESSION, ENQ_OK);
    fake_close(&fake, e);
}

TEST(what_happened_to_a_lock_meanwhile_is_asked_for)
{
    struct asker a = {0};
    struct enq *e = fake_listener(&fake);

    granted(e, &a, A_LOCK);
    fake_resume(&fake);
    fake_hear(&fake, "\"OP\":\"valid\",\"HANDLE\":\"77\"");
    want(ENQ_OK, enq_valid(e, 77));
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":11,\"MSG\":\"broken\"");
    lock_event_is(e, ENQ_EVENT_LOST, ENQ_FORCED);
    want(ENQ_FORCED, enq_valid(e, 77));
    fake_close(&fake, e);
}

/* --- events --- */

TEST(each_event_of_a_lock_is_told_once_and_in_order)
{
    struct asker a = {0};
    struct enq_event event;
    struct enq *e = fake_start(&fake);

    granted(e, &a, A_LOCK);
    fake_say(&fake,
        "{\"EVENT\":\"blocking\",\"RESULT\":0,\"HANDLE\":\"77\",\"TOKEN\":"
        "\"1001\",\"OWNER\":\"you\"}\n{\"EVENT\":\"expiring\",\"RESULT\":0,"
        "\"HANDLE\":\"77\",\"TOKEN\":\"1001\"}\n{\"EVENT\":\"expired\","
        "\"RESULT\":6,\"HANDLE\":\"77\",\"TOKEN\":\"1001\"}\n");
    eventually(enq_valid(e, 77) == ENQ_EXPIRED);
    want(ENQ_PENDING, enq_next(e, &event));
    ck_assert_int_ge(enq_fd(e), 0); /* from now on it is heard of */
    want(ENQ_OK, enq_next(e, &event));
    ck_assert_int_eq(event.kind, ENQ_EVENT_BLOCKING);
    ck_assert_str_eq(event.grant.blocker.owner, "you");
    event_is(e, ENQ_EVENT_EXPIRING, ENQ_OK);
    event_is(e, ENQ_EVENT_EXPIRED, ENQ_EXPIRED);
    want(ENQ_PENDING, enq_next(e, &event));
    fake_close(&fake, e);
}

TEST(our_own_clock_ends_a_ttl_when_nobody_tells_us)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    granted(e, &a,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 60));
    eventually(enq_valid(e, 77) == ENQ_EXPIRED);
    fake_close(&fake, e);
}

TEST(a_heartbeat_renews)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    granted(e, &a,
        ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 60000,
            .heartbeat_ms = 20));
    for (int i = 0; i < 3; i++) {
        fake_hear(&fake, "\"OP\":\"renew\",\"HANDLE\":\"77\"");
        fake_answer(&fake, DONE);
    }
    fake_close(&fake, e);
}

/* Of one that was open, that listened as well, or that found nobody. */
TEST(a_closed_attachment_leaves_no_descriptor)
{
    unsigned before = unit_count_dir("/proc/self/fd");
    struct enq *e;

    if (_i < 2) {
        e = _i == 0 ? fake_start(&fake) : fake_listener(&fake);
        fake_close(&fake, e);
    } else {
        ck_assert_int_lt(enq_open(&e, "unix:/nowhere", NULL), 0);
    }
    ck_assert_uint_eq(unit_count_dir("/proc/self/fd"), before);
}

/* --- silence and nonsense --- */

TEST(who_has_nothing_to_say_pings_and_leaves_who_does_not_answer)
{
    struct enq *e;

    fake_begin(&fake);
    fake.keepalive_ms = 400;
    e = fake_open(&fake);
    fake_hear(&fake, "\"ping\"");
    while (fake_hear_within(&fake, 2000)) /* until it hangs up */
        ck_assert_ptr_nonnull(strstr(fake.line, "\"ping\""));
    fake.keepalive_ms = 5000;
    fake_resume(&fake);
    fake_close(&fake, e);
}

TEST(an_answer_may_come_byte_by_byte)
{
    struct asker a = {0};
    char whole[400];
    struct enq *e = fake_start(&fake);

    asker_begin(&a, e, A_LOCK);
    fake_hear(&fake, "\"eleLock\"");
    snprintf(whole, sizeof(whole), " \n{%s,\"reqUUID\":\"%llu\"}\n",
        GRANTED("77"), fake_number(&fake));
    for (const char *at = whole; *at != '\0'; at++) {
        fake_say(&fake, "%c", *at);
        unit_nap();
    }
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

/* Cut wherever a text may be: in an escape, a pair of them, a character. */
TEST(a_text_of_an_answer_may_come_in_two_pieces)
{
    char whole[400];
    struct enq *e;

    fake_begin(&fake);
    fake.keepalive_ms = fake.grace_ms = 3600000; /* no pings */
    e = fake_open(&fake);
    for (size_t cut = 1, n = 2; cut < n; cut++) {
        struct asker a = {0};

        asker_begin(&a, e, A_LOCK);
        fake_hear(&fake, "\"eleLock\"");
        n = (size_t)snprintf(whole, sizeof(whole),
            "{\"RC\":\"1\",\"RESULT\":1,\"BLOCKER\":{\"owner\":"
            "\"\\u20ac\\ud83d\\ude00\\\\\\\"\xf0\x9f\x98\x80\xc3\xa9{\"},"
            "\"reqUUID\":\"%llu\"}\n",
            fake_number(&fake));
        fake_say(&fake, "%.*s", (int)cut, whole);
        unit_nap();
        fake_say(&fake, "%s", whole + cut);
        asker_end(&a, ENQ_BUSY);
        ck_assert_str_eq(a.grant.blocker.owner,
            "\xe2\x82\xac\xf0\x9f\x98\x80\\\"\xf0\x9f\x98\x80\xc3\xa9{");
    }
    fake_close(&fake, e);
}

/* An enq-bridge writes one line end; what stands between may write others. */
TEST(blanks_behind_an_answer_change_nothing)
{
    static const char *const blanks[] = {"\r\n", "\n\n", " \t\r\n  ", "", "\n"};
    struct enq *e = fake_start(&fake);
    struct asker a = {0};

    for (size_t i = 0; i < LENGTH(blanks); i++) {
        asker_begin(&a, e, A_LOCK);
        fake_hear_past_pings(&fake, "\"OP\":\"1\"");
        fake_say(&fake, "{\"RC\":\"1\",\"RESULT\":1,\"reqUUID\":\"%llu\"}%s",
            fake_number(&fake), blanks[i]);
        asker_end(&a, ENQ_BUSY);
    }
    fake_close(&fake, e);
}

static void *say_nonsense(void *arg)
{
    fake.fd = accept(fake.listener, NULL, NULL);
    fake_hear(&fake, "hello");
    fake_say(&fake, "%s", (const char *)arg);
    return NULL;
}

static const char *const nonsense[] = {
    "HTTP/1.1 400 Bad Request\r\n\r\n",
    "{\"RC\":\"0\"}",
    "[]\n",
    "{\"RC\":\"4\",\"MSG\":\"no\"}",
};

TEST(what_is_no_bridge_is_refused)
{
    struct enq *e = NULL;
    pthread_t thread;

    fake_begin(&fake);
    pthread_create(&thread, NULL, say_nonsense, (void *)nonsense[_i]);
    want(-EPROTO, enq_open(&e, fake.address, NULL));
    ck_assert_ptr_null(e);
    pthread_join(thread, NULL);
    fake_end(&fake);
}

TEST(nobody_there_is_said_at_once)
{
    struct enq *e = NULL;

    want_why(-ENOENT, enq_open(&e, "unix:/nowhere/at/all", NULL), "/nowhere");
    fake_begin(&fake);
    close(fake.listener);
    want(-ECONNREFUSED, enq_open(&e, fake.address, NULL));
}

/* --- what cannot be --- */

TEST(what_is_for_processes_of_the_host_is_refused)
{
    struct enq_orphan left[ENQ_ORPHANS_LEAST];
    struct enq_info info;
    struct enq *e = fake_start(&fake);
    uint64_t at = 0;
    size_t got;

    want_why(-EOPNOTSUPP, enq_inherit(e, &info, 1, &got), "enq_inherit");
    want_why(-EOPNOTSUPP, enq_inherit_lock(e, 1, 0, &info), "enq_inherit_lock");
    want_why(-EOPNOTSUPP, enq_look(e, 1, &info), "enq_look");
    want_why(-EOPNOTSUPP, enq_adopt_for(e, "x", 1, &(struct enq_grant){0}),
        "enq_adopt_for");
    want_why(-EOPNOTSUPP, enq_orphans(e, &at, left, LENGTH(left), &got),
        "enq_orphans");
    want_why(-EOPNOTSUPP, enq_abandon(e, 77, 0), "enq_abandon");
    want(-EOPNOTSUPP, enq_dump(e, 1));
    want_why(-EILSEQ,
        unit_lock(e, "n", "\xff", ENQ_MODE_E, &(struct enq_grant){0}), "UTF-8");
    want(-EILSEQ, enq_check(e, "\xff", NULL, 1));
    want(-EILSEQ, enq_break(e, "\xc3"));
    want(-EILSEQ, enq_list(e, "\xff", NULL, NULL, 0, &got));
    fake_close(&fake, e);
}

TEST(a_child_of_fork_has_no_session)
{
    struct enq *e = fake_start(&fake);
    pid_t pid;
    int status;

    pid = fork();
    if (pid == 0) {
        int rc = enq_valid(e, 77);

        enq_close(e);
        _exit(rc == ENQ_EFORKED ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote");
    ADD(who_only_tests_need_not_have_room_for_a_grant);
    ADD(an_answer_that_was_lost_is_asked_for_again_by_the_same_number);
    ADD(what_was_not_answered_is_sent_again_in_its_order);
    ADD(of_a_wait_that_is_asked_for_again_what_is_left_is_told);
    ADD(an_unlock_that_was_done_before_its_answer_was_lost_is_done);
    ADD(a_lock_that_is_being_given_back_is_not_lost_to_the_caller);
    ADD(no_more_are_under_way_than_a_bridge_remembers);
    ADD(a_lock_that_comes_too_late_is_given_back);
    ADD(a_set_that_comes_too_late_is_given_back_whole);
    ADD(the_locks_of_a_session_that_is_over_are_lost);
    ADD(a_lock_that_has_run_out_before_its_session_was_over_has_expired);
    ADD(a_report_is_the_bridges);
    ADD(a_connection_that_is_gone_is_an_event);
    ADD(what_happened_to_a_lock_meanwhile_is_asked_for);
    ADD(each_event_of_a_lock_is_told_once_and_in_order);
    ADD(our_own_clock_ends_a_ttl_when_nobody_tells_us);
    ADD(a_heartbeat_renews);
    ADD_LOOP(a_closed_attachment_leaves_no_descriptor, 3);
    ADD(who_has_nothing_to_say_pings_and_leaves_who_does_not_answer);
    ADD(an_answer_may_come_byte_by_byte);
    ADD(a_text_of_an_answer_may_come_in_two_pieces);
    ADD(blanks_behind_an_answer_change_nothing);
    ADD_LOOP(what_is_no_bridge_is_refused, LENGTH(nonsense));
    ADD(nobody_there_is_said_at_once);
    ADD(what_is_for_processes_of_the_host_is_refused);
    ADD(a_child_of_fork_has_no_session);
    return unit_end();
}
