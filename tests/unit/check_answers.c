/*
 * check_answers.c - what a call leaves in the caller's hands, whatever comes of
 * it: what it hands over was used before, and nothing of that may pass for an
 * answer. Time stands still, so that what is told of it is exact.
 */
#include <errno.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/copy_out.h"
#include "used.h"

static void is_free_of_names(const struct enq_grant *g)
{
    ck_assert_msg(g->blocker.owner[0] == '\0', "\"%.8s\" is named",
        g->blocker.owner);
}

/* --- the blocker --- */

TEST(a_refusal_tells_all_of_a_lock_in_the_way)
{
    struct enq_req req = request("a", ENQ_MODE_S);
    struct enq *e = begin();
    struct enq_grant g = used_grant();

    req.owner = "B";
    req.id = "of B";
    req.ttl_ms = 60000;
    has(e, &req);
    waits(e, "a", ENQ_MODE_X, "C");
    pass_ms(1500);
    req = request("a", ENQ_MODE_X);
    want(ENQ_BUSY, enq_lock(e, &req, &g));
    ck_assert_str_eq(g.blocker.owner, "B");
    ck_assert_str_eq(g.blocker.id, "of B");
    ck_assert_int_eq(g.blocker.pid, getpid());
    ck_assert_uint_eq(g.blocker.mode, ENQ_MODE_S);
    ck_assert_uint_eq(g.blocker.waiting, 0);
    ck_assert_uint_eq(g.blocker.dying, 0);
    ck_assert_int_eq(g.blocker.age_ms, 1500);
    ck_assert_int_eq(g.blocker.ttl_left_ms, 58500);
    ck_assert_uint_eq(g.blocker.queue, 1);
    end(e);
}

TEST(a_refusal_tells_all_of_a_request_in_the_way)
{
    struct enq_req req = request("a", ENQ_MODE_S);
    struct enq *e = begin();
    struct enq_grant g = used_grant();

    req.owner = "B";
    has(e, &req);
    pass_ms(300);
    waits(e, "a", ENQ_MODE_X, "C");
    pass_ms(200);
    want(ENQ_BUSY,
        enq_lock(e, ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_S),
            &g));
    ck_assert_str_eq(g.blocker.owner, "C");
    ck_assert_str_ne(g.blocker.id, "");
    ck_assert_uint_eq(g.blocker.mode, ENQ_MODE_X);
    ck_assert_uint_eq(g.blocker.waiting, 1);
    ck_assert_int_eq(g.blocker.age_ms, 200);
    ck_assert_int_eq(g.blocker.ttl_left_ms, ENQ_FOREVER);
    end(e);
}

TEST(who_is_in_nobodys_way_is_told_so)
{
    struct enq_blocker blocker;
    struct enq *e = begin();
    struct enq_grant g = has_x(e, "a");
    struct scope s;
    uint64_t state;

    memset(&blocker, USED, sizeof(blocker));
    scope_begin(&s, &e->session, thread_enter(e->map));
    want(ENQ_OK,
        scope_enter_entry(&s, entry_of_handle(e->map, g.handle, &state)));
    copy_blocker(&s, NULL, 0, &blocker);
    scope_leave(&s);
    ck_assert_uint_eq((unsigned char)blocker.owner[0], 0);
    ck_assert_uint_eq((unsigned char)blocker.id[0], 0);
    end(e);
}

/* --- nothing that could be taken for a lock, or for somebody --- */

TEST(who_waits_is_given_no_lock_yet)
{
    struct enq *e = begin();
    struct enq_grant g;

    has_x(e, "a");
    g = waits(e, "a", ENQ_MODE_X, "C");
    ck_assert_uint_eq(g.handle, 0);
    ck_assert_uint_eq(g.token, 0);
    ck_assert_str_eq(g.blocker.owner, "me");
    end(e);
}

static int of_a_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *g)
{
    return enq_lock(e, req, g);
}

static int of_a_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *g)
{
    uint64_t ticket = 7;
    int rc = enq_start(e, req, g, &ticket);

    ck_assert_uint_eq(ticket, 0);
    return rc;
}

static int of_a_set(struct enq *e, const struct enq_req *req,
    struct enq_grant *g)
{
    const struct enq_req *reqs[] = {req, req};

    return enq_lock_set(e, reqs, 2, g);
}

static int of_a_started_set(struct enq *e, const struct enq_req *req,
    struct enq_grant *g)
{
    const struct enq_req *reqs[] = {req, req};
    uint64_t ticket = 7;
    int rc = enq_start_set(e, reqs, 2, g, &ticket);

    ck_assert_uint_eq(ticket, 0);
    return rc;
}

typedef int ask_fn(struct enq *e, const struct enq_req *req,
    struct enq_grant *g);

static ask_fn *const asks[] = {
    of_a_lock, of_a_start, of_a_set, of_a_started_set};

static void is_refused(struct enq *e, ask_fn *ask, struct enq_req req, int rc)
{
    struct enq_grant g[2] = {used_grant(), used_grant()};

    want(rc, ask(e, &req, g));
    is_free_of_names(&g[0]);
    if (ask == of_a_set || ask == of_a_started_set)
        is_free_of_names(&g[1]);
}

TEST(a_request_that_cannot_be_asked_names_nobody_and_has_no_ticket)
{
    struct enq *e = begin();
    char text[200];

    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = '\0';
    for (unsigned i = 0; i < LENGTH(asks); i++)
        for (int64_t wait_ms = 0; wait_ms <= 5; wait_ms += 5) {
            struct enq_req req = request("a", ENQ_MODE_E), bad = req;

            bad.wait_ms = wait_ms;
            bad.mode = 9;
            is_refused(e, asks[i], bad, -EINVAL);
            bad = req;
            bad.wait_ms = wait_ms;
            bad.owner = text;
            is_refused(e, asks[i], bad, -ENAMETOOLONG);
            bad = req;
            bad.wait_ms = wait_ms;
            bad.name = "";
            is_refused(e, asks[i], bad, -EINVAL);
            bad = req;
            bad.wait_ms = wait_ms;
            bad.id = "";
            is_refused(e, asks[i], bad, -EINVAL);
            bad = req;
            bad.wait_ms = 5;
            bad.retries = 1;
            is_refused(e, asks[i], bad, -EINVAL);
        }
    end(e);
}

/* The number that is told is the one that is allowed. */
TEST(a_text_that_is_too_long_is_refused_by_the_very_byte)
{
    static const struct {
        size_t most;
        const char *words;
    } limits[] = {{ENQ_OWNER_BYTES - 1, "xxx...\" is longer than 127 bytes"},
        {ENQ_ID_BYTES - 1, "the id \"xxx"},
        {ENQ_PEER_BYTES - 1, "the peer \"xxx"},
        {ENQ_NAME_BYTES - 1, "object name \"xxx"}};
    struct enq *e = begin();
    char text[200];

    for (unsigned i = 0; i < LENGTH(limits); i++)
        for (size_t n = limits[i].most; n <= limits[i].most + 1; n++) {
            struct enq_req req = request("a", ENQ_MODE_E);
            struct enq_grant g = used_grant();

            memset(text, 'x', n);
            text[n] = '\0';
            *(i == 0         ? &req.owner
                    : i == 1 ? &req.id
                    : i == 2 ? &req.peer
                             : &req.name) = text;
            if (n == limits[i].most) {
                want(ENQ_OK, enq_lock(e, &req, &g));
                want(ENQ_OK, enq_unlock(e, g.handle, g.token));
                continue;
            }
            want_why(-ENAMETOOLONG, enq_lock(e, &req, &g), limits[i].words);
            ck_assert_msg(strstr(enq_why(), " longer than 127 bytes") != NULL,
                "\"%s\"", enq_why());
        }
    end(e);
}

TEST(a_request_of_no_known_form_names_nobody)
{
    struct enq_req none = request("a", ENQ_MODE_E);
    struct enq *e = begin();
    struct enq_grant g;

    none.size = 0;
    for (unsigned i = 0; i < LENGTH(asks); i++)
        is_refused(e, asks[i], none, -EINVAL);
    g = used_grant();
    want(-EINVAL, enq_lock(e, NULL, &g));
    is_free_of_names(&g);
    g = used_grant();
    want(-EINVAL, enq_lock_spec(e, "n/\\xzz", "E", NULL, 0, 0, &g));
    is_free_of_names(&g);
    g = used_grant();
    want(-EINVAL, enq_lock_spec(e, "n/a", "Q", NULL, 0, 0, &g));
    is_free_of_names(&g);
    end(e);
}

TEST(where_nothing_may_be_locked_the_answer_names_nobody)
{
    struct enq_open_opts look = {
        .size = sizeof(look), .flags = ENQ_OPEN_READONLY};
    struct enq *e = begin(), *readonly = unit_open_with(&look);

    for (unsigned i = 0; i < LENGTH(asks); i++)
        is_refused(readonly, asks[i], request("a", ENQ_MODE_E), -EROFS);
    enq_close(readonly);
    end(e);
}

TEST(where_the_space_is_gone_the_answer_names_nobody)
{
    struct enq *e = begin();

    want(ENQ_OK, enq_unlink(unit_space()));
    for (unsigned i = 0; i < LENGTH(asks); i++)
        is_refused(e, asks[i], request("a", ENQ_MODE_E), ENQ_EGONE);
    enq_close(e);
}

/* Whichever is refused: the others name nobody. */
TEST(of_a_set_only_the_lock_that_was_refused_names_a_blocker)
{
    static const char *const fields[] = {"a", "b", "c"};
    struct enq *e = begin();
    struct enq_grant held = has_x(e, fields[_i]), g[3];
    struct enq_req req[3];
    const struct enq_req *reqs[3];
    uint64_t ticket = 7;

    for (int i = 0; i < 3; i++) {
        req[i] = request(fields[i], ENQ_MODE_E);
        reqs[i] = &req[i];
        g[i] = used_grant();
    }
    want(ENQ_BUSY, enq_lock_set(e, reqs, 3, g));
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(g[i].blocker.owner, i == _i ? "me" : "");
    for (int i = 0; i < 3; i++) {
        req[i].wait_ms = ENQ_FOREVER;
        g[i] = used_grant();
    }
    want(ENQ_PENDING, enq_start_set(e, reqs, 3, g, &ticket));
    for (int i = 0; i < 3; i++)
        ck_assert_str_eq(g[i].blocker.owner, i == _i ? "me" : "");
    want(ENQ_OK, enq_cancel(e, ticket));
    for (int i = 0; i < 3; i++)
        g[i] = used_grant();
    want(ENQ_OK, enq_unlock(e, held.handle, held.token));
    for (int i = 0; i < 3; i++)
        req[i].wait_ms = 0;
    want(ENQ_OK, enq_lock_set(e, reqs, 3, g));
    for (int i = 0; i < 3; i++)
        is_free_of_names(&g[i]);
    end(e);
}

/* --- the end of a wait --- */

static bool no_memory_for_blockers;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    if (size == sizeof(struct enq_blocker) && no_memory_for_blockers)
        return NULL;
    return __real_calloc(n, size);
}

/* Its result has memory of its own since it began; whom it names has not. */
TEST(a_wait_that_is_over_is_told_where_no_memory_is_left_to_say_for_whom)
{
    const struct enq_req *reqs[1];
    struct enq_req req = request("a", ENQ_MODE_X);
    struct enq *e = unit_open();
    struct enq_event event;
    struct enq_grant g;
    uint64_t ticket;

    reqs[0] = &req;
    has_x(e, "a");
    no_memory_for_blockers = true;
    req.wait_ms = 20;
    want(ENQ_PENDING,
        _i == 0 ? enq_start(e, &req, &g, &ticket)
                : enq_start_set(e, reqs, 1, &g, &ticket));
    memset(&event, USED, sizeof(event));
    eventually(enq_next(e, &event) == ENQ_OK);
    ck_assert_int_eq(event.kind, ENQ_EVENT_RESULT);
    ck_assert_int_eq(event.result, ENQ_TIMEDOUT);
    ck_assert_uint_eq(event.ticket, ticket);
    ck_assert_uint_eq(event.grant.handle, 0);
    ck_assert_uint_eq(event.grant.token, 0);
    is_free_of_names(&event.grant);
    end(e);
}

/* --- promotion, adoption --- */

TEST(a_promotion_names_whom_it_was_refused_for_and_else_nobody)
{
    struct enq_req o = request("a", ENQ_MODE_O);
    struct enq *e = begin();
    struct enq_grant first = has(e, &o), second = has(e, &o), g;
    struct enq_grant held = has_x(e, "b");

    g = used_grant();
    want(ENQ_REFUSED, enq_promote(e, held.handle, 0, &g));
    is_free_of_names(&g);
    g = used_grant();
    want(ENQ_NOTHELD, enq_promote(e, first.handle, first.token + 100, &g));
    is_free_of_names(&g);
    g = used_grant();
    want(ENQ_OK, enq_promote(e, first.handle, first.token, &g));
    is_free_of_names(&g);
    ck_assert_uint_eq(g.handle, first.handle);
    ck_assert_uint_gt(g.token, second.token);
    g = used_grant();
    want(ENQ_LOST, enq_promote(e, second.handle, second.token, &g));
    ck_assert_str_eq(g.blocker.owner, "me");
    end(e);
}

TEST(an_adoption_that_fails_names_nobody)
{
    struct enq_req req = request("a", ENQ_MODE_X);
    struct enq *e = begin();
    struct enq_grant g = used_grant();

    req.id = "mine";
    has(e, &req);
    want(ENQ_REFUSED, enq_adopt(e, "mine", &g));
    is_free_of_names(&g);
    g = used_grant();
    want(ENQ_NOTHELD, enq_adopt(e, "nobody's", &g));
    is_free_of_names(&g);
    g = used_grant();
    want(-EINVAL, enq_adopt(e, "", &g));
    is_free_of_names(&g);
    g = used_grant();
    want(-EINVAL, enq_adopt_for(e, "mine", 0, &g));
    is_free_of_names(&g);
    end(e);
}

int main(void)
{
    unit_begin("answers");
    ADD(a_refusal_tells_all_of_a_lock_in_the_way);
    ADD(a_refusal_tells_all_of_a_request_in_the_way);
    ADD(who_is_in_nobodys_way_is_told_so);
    ADD(who_waits_is_given_no_lock_yet);
    ADD(a_request_that_cannot_be_asked_names_nobody_and_has_no_ticket);
    ADD(a_text_that_is_too_long_is_refused_by_the_very_byte);
    ADD(a_request_of_no_known_form_names_nobody);
    ADD(where_nothing_may_be_locked_the_answer_names_nobody);
    ADD(where_the_space_is_gone_the_answer_names_nobody);
    ADD_LOOP(of_a_set_only_the_lock_that_was_refused_names_a_blocker, 3);
    ADD_LOOP(
        a_wait_that_is_over_is_told_where_no_memory_is_left_to_say_for_whom, 2);
    ADD(a_promotion_names_whom_it_was_refused_for_and_else_nobody);
    ADD(an_adoption_that_fails_names_nobody);
    return unit_end();
}
