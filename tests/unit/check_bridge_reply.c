/*
 * check_bridge_reply.c - what a bridge says of each result of each operation, to
 * who knows of results and to who does not.
 */
#include "bridge/reply.h"

#include <errno.h>

#include "unit.h"

#define BLOCKER                                                                \
    ",\"OWNER\":\"B\",\"BLOCKER\":{\"owner\":\"B\",\"id\":\"i\",\"pid\":3,"    \
    "\"mode\":\"X\",\"waiting\":1,\"age\":4,\"ttl\":-1,\"queue\":6}"
#define GRANT ",\"HANDLE\":\"7\",\"TOKEN\":\"8\""

static const struct enq_grant grant = {.handle = 7,
    .token = 8,
    .blocker = {.owner = "B",
        .id = "i",
        .pid = 3,
        .mode = ENQ_MODE_X,
        .waiting = 1,
        .age_ms = 4,
        .ttl_left_ms = ENQ_FOREVER,
        .queue = 6}};
static struct text out;

static void want_said(const char *wanted)
{
    text_put(&out, "", 1);
    ck_assert_str_eq(out.bytes, wanted);
    text_free(&out);
    out = (struct text){0};
}

static struct reply to(enum op op, const char *id)
{
    return (struct reply){&out, op, id, false};
}

struct said {
    enum op op;
    int result;
    const char *words;
};

static void want_each(const struct said *is, unsigned n, const char *id)
{
    for (unsigned i = 0; i < n; i++) {
        const struct reply r = to(is[i].op, id);

        reply_result(&r, is[i].result, &grant, "why");
        want_said(is[i].words);
    }
}

TEST(to_a_client_of_enqueue_server_it_speaks_as_that_one)
{
    static const struct said is[] = {
        {OP_LOCK, ENQ_OK, "{\"RC\":\"0\"}"},
        {OP_LOCK, ENQ_BUSY, "{\"RC\":\"1\",\"OWNER\":\"B\"}"},
        {OP_LOCK, ENQ_TIMEDOUT, "{\"RC\":\"1\",\"OWNER\":\"B\"}"},
        {OP_LOCK, ENQ_DEADLOCK, "{\"RC\":\"1\",\"OWNER\":\"B\"}"},
        {OP_LOCK, ENQ_EXISTS,
            "{\"RC\":\"4\",\"MSG\":\"Lock already exists!\"}"},
        {OP_LOCK, ENQ_CANCELLED,
            "{\"RC\":\"4\",\"MSG\":\"Lock request cancelled\"}"},
        {OP_LOCK, ENQ_FORCED,
            "{\"RC\":\"4\",\"MSG\":\"Lock request cancelled\"}"},
        {OP_LOCK, ENQ_EFULL, "{\"RC\":\"4\",\"MSG\":\"Lock table overflow\"}"},
        {OP_LOCK, ENQ_NOTHELD, "{\"RC\":\"4\",\"MSG\":\"why\"}"},
        {OP_LOCK, -EINVAL, "{\"RC\":\"4\",\"MSG\":\"why\"}"},
        {OP_UNLOCK, ENQ_OK, "{\"RC\":\"0\"}"},
        {OP_UNLOCK, ENQ_NOTHELD,
            "{\"RC\":\"4\",\"MSG\":\"The lock does not exist!\"}"},
        {OP_UNLOCK, -EINVAL, "{\"RC\":\"4\",\"MSG\":\"why\"}"},
        {OP_PROMOTE, ENQ_OK, "{\"RC\":\"0\"}"},
        {OP_PROMOTE, ENQ_REFUSED, "{\"RC\":\"2\",\"MSG\":\"B\"}"},
        {OP_PROMOTE, ENQ_LOST, "{\"RC\":\"2\",\"MSG\":\"B\"}"},
        {OP_PROMOTE, ENQ_NOTHELD, "{\"RC\":\"2\"}"},
        {OP_PROMOTE, -EINVAL, "{\"RC\":\"4\",\"MSG\":\"why\"}"},
    };

    want_each(is, LENGTH(is), NULL);
}

#define RESULT(rc, result) "{\"RC\":\"" rc "\",\"RESULT\":" result
#define WHY ",\"MSG\":\"why\""
#define END ",\"reqUUID\":\"x\"}\n"

TEST(to_who_gave_an_id_it_tells_the_result)
{
    static const struct said is[] = {
        {OP_LOCK, ENQ_OK, RESULT("0", "0") GRANT END},
        {OP_LOCK, ENQ_BUSY, RESULT("1", "1") WHY BLOCKER END},
        {OP_LOCK, ENQ_TIMEDOUT, RESULT("1", "2") WHY BLOCKER END},
        {OP_LOCK, ENQ_PENDING, RESULT("0", "3") BLOCKER END},
        {OP_LOCK, ENQ_EXISTS,
            RESULT("4", "4") ",\"MSG\":\"Lock already exists!\"" BLOCKER END},
        {OP_LOCK, ENQ_DEADLOCK, RESULT("1", "9") WHY BLOCKER END},
        {OP_LOCK, ENQ_CANCELLED, RESULT("4", "10") WHY END},
        {OP_LOCK, ENQ_EFULL, RESULT("4", "-5003") WHY END},
        {OP_LOCK, ENQ_LOST, RESULT("4", "7") WHY BLOCKER END},
        {OP_UNLOCK, ENQ_REFUSED, RESULT("4", "8") WHY BLOCKER END},
        {OP_UNLOCK, ENQ_NOTHELD, RESULT("4", "5") WHY END},
        {OP_PROMOTE, ENQ_NOTHELD, RESULT("4", "5") WHY END},
        {OP_PROMOTE, ENQ_REFUSED, RESULT("2", "8") WHY BLOCKER END},
        {OP_DEMOTE, ENQ_LOST, RESULT("2", "7") WHY BLOCKER END},
        {OP_ADOPT, ENQ_REFUSED, RESULT("2", "8") WHY BLOCKER END},
        {OP_RENEW, ENQ_LOST, RESULT("2", "7") WHY BLOCKER END},
        {OP_RENEW, ENQ_EXPIRED, RESULT("4", "6") WHY END},
    };

    want_each(is, LENGTH(is), "x");
}

TEST(an_id_that_was_a_number_is_one_again)
{
    struct reply r = to(OP_PING, "7.5");

    r.id_is_number = true;
    reply_result(&r, ENQ_OK, NULL, NULL);
    want_said(RESULT("0", "0") ",\"reqUUID\":7.5}\n");
    r = to(OP_PING, "\"");
    reply_result(&r, ENQ_OK, NULL, NULL);
    want_said(RESULT("0", "0") ",\"reqUUID\":\"\\\"\"}\n");
}

TEST(without_a_reason_the_result_has_a_text)
{
    const struct reply r = to(OP_UNLOCK, "x"), old = to(OP_UNLOCK, NULL);

    reply_result(&r, ENQ_NOTHELD, NULL, NULL);
    want_said(RESULT("4", "5") ",\"MSG\":\"no such lock\"" END);
    reply_result(&r, ENQ_NOTHELD, NULL, "");
    want_said(RESULT("4", "5") ",\"MSG\":\"no such lock\"" END);
    reply_result(&old, ENQ_EVERSION, NULL, "");
    want_said("{\"RC\":\"4\",\"MSG\":\"the space has another layout "
              "version\"}");
}

TEST(a_blocker_is_told_if_there_is_one)
{
    const struct reply r = to(OP_LOCK, "x"), old = to(OP_PROMOTE, NULL);
    struct enq_grant none = grant;

    none.blocker.dying = 1;
    none.blocker.owner[0] = '\0';
    reply_result(&r, ENQ_BUSY, &none, "why");
    want_said(RESULT("1", "1") WHY
        ",\"OWNER\":\"\",\"BLOCKER\":{\"owner\":\"\",\"id\":\"i\",\"pid\":3,"
        "\"mode\":\"X\",\"waiting\":1,\"dying\":1,\"age\":4,\"ttl\":-1,"
        "\"queue\":6}" END);
    none.blocker.id[0] = '\0';
    reply_result(&r, ENQ_BUSY, &none, "why");
    want_said(RESULT("1", "1") WHY ",\"OWNER\":\"\"" END);
    reply_result(&old, ENQ_REFUSED, &none, "why");
    want_said("{\"RC\":\"2\"}");
    reply_result(&old, ENQ_REFUSED, NULL, "why");
    want_said("{\"RC\":\"2\"}");
    none.blocker.owner[0] = 'B';
    reply_result(&old, ENQ_LOST, &none, "why");
    want_said("{\"RC\":\"2\",\"MSG\":\"B\"}");
}

TEST(a_set_has_its_grants_or_the_first_that_was_refused)
{
    struct enq_grant three[] = {grant, grant, grant};

    three[1].handle = 9;
    reply_grants(&out, ENQ_OK, three, 2);
    want_said(",\"GRANTS\":[{\"HANDLE\":\"7\",\"TOKEN\":\"8\"},"
              "{\"HANDLE\":\"9\",\"TOKEN\":\"8\"}]");
    three[0].blocker.owner[0] = three[0].blocker.id[0] = '\0';
    reply_grants(&out, ENQ_BUSY, three, 3);
    want_said(",\"INDEX\":1" BLOCKER);
    reply_grants(&out, ENQ_NOTHELD, three, 3);
    want_said("");
    reply_grants(&out, ENQ_BUSY, three, 1);
    want_said("");
}

TEST(a_lock_that_got_an_id_is_told_it)
{
    const struct reply r = to(OP_LOCK, "x"), old = to(OP_LOCK, NULL);

    reply_named(&old, &grant, "i");
    want_said("{\"RC\":\"0\",\"uuid\":\"i\"}");
    reply_named(&r, &grant, "i");
    want_said(RESULT("0", "0") GRANT ",\"uuid\":\"i\"" END);
}

TEST(what_cannot_be_served_is_told_so)
{
    const struct reply r = to(OP_LIST, "x"), old = to(OP_LOCK, NULL),
                       list = to(OP_LIST, NULL);

    reply_refuse(&out, "a \"b\"");
    want_said("{\"RC\":\"4\",\"MSG\":\"a \\\"b\\\"\"}");
    reply_wrong(&old, "why");
    want_said("{\"RC\":\"4\",\"MSG\":\"why\"}");
    reply_wrong(&r, "why");
    want_said(RESULT("4", "-22") WHY END);
    reply_full(&r, "why");
    want_said(RESULT("4", "-5003") WHY END);
    reply_full(&list, "why");
    ck_assert_uint_eq(out.n, 6);
    ck_assert_mem_eq(out.bytes, "\2\0\0\0[]", 6);
    text_free(&out);
    out = (struct text){0};
}

TEST(modes_are_letters_and_events_have_a_result)
{
    for (uint8_t mode = 0; mode < 6; mode++)
        ck_assert_int_eq(reply_mode(mode)[0], "?SEXO?"[mode]);
    reply_event(&out, "lost", ENQ_FORCED);
    reply_event_end(&out);
    want_said("{\"EVENT\":\"lost\",\"RESULT\":11}\n");
}

int main(void)
{
    unit_begin("bridge_reply");
    ADD(to_a_client_of_enqueue_server_it_speaks_as_that_one);
    ADD(to_who_gave_an_id_it_tells_the_result);
    ADD(an_id_that_was_a_number_is_one_again);
    ADD(without_a_reason_the_result_has_a_text);
    ADD(a_blocker_is_told_if_there_is_one);
    ADD(a_set_has_its_grants_or_the_first_that_was_refused);
    ADD(a_lock_that_got_an_id_is_told_it);
    ADD(what_cannot_be_served_is_told_so);
    ADD(modes_are_letters_and_events_have_a_result);
    return unit_end();
}
