/*
 * check_bridge_ask.c - a request of a client: what it means, what is wrong with
 * it, and that nothing of another one is left in it.
 */
#include "bridge/ask.h"

#include <stdio.h>

#include "unit.h"
#include "wire/scan.h"

#define LOCK(more)                                                             \
    "{\"OP\":\"1\",\"eleLock\":{\"name\":\"n\",\"argument\":[\"a\"],"          \
    "\"mode\":\"X\"" more "}}"
#define L "{\"name\":\"n\",\"argument\":[\"a\"],\"mode\":\"X\"}"

static struct ask_lock locks[ENQ_SET_MAX + 1];
static struct enq_grant grants[ENQ_SET_MAX + 1];
static struct ask ask = {.locks = locks, .grants = grants};
static struct scan_value values[4096];
static char bytes[65536];

static const struct ask *asked(const char *text, bool session)
{
    struct scan s = {values, LENGTH(values), 0};
    size_t used;

    strcpy(bytes, text);
    ck_assert_int_eq(scan(&s, bytes, strlen(text), &used), SCAN_WHOLE);
    ask_read(&ask, values, bytes, session);
    return &ask;
}

/* Of a request that is right. */
static const struct ask *meant(const char *text, bool session)
{
    asked(text, session);
    ck_assert_msg(ask.wrong == NULL, "%s: %s", text, ask.wrong);
    return &ask;
}

static void want_wrong(const char *words, const char *text, bool session)
{
    asked(text, session);
    ck_assert_msg(ask.wrong != NULL && strcmp(ask.wrong, words) == 0,
        "%s: \"%s\", not \"%s\"", text, ask.wrong == NULL ? "" : ask.wrong,
        words);
}

/* BEGIN, then PART so many times with commas between, END. */
static const char *repeated(const char *begin, const char *part, unsigned n,
    const char *end)
{
    static char text[sizeof(bytes)];
    char *at = text + sprintf(text, "%s", begin);

    for (unsigned i = 0; i < n; i++)
        at += sprintf(at, "%s%s", i == 0 ? "" : ",", part);
    strcpy(at, end);
    return text;
}

/* --- what is left ----------------------------------------------------------- */

static void poison(void)
{
    memset(&ask, 0xff, sizeof(ask));
    memset(locks, 0xff, sizeof(locks));
    memset(grants, 0xff, sizeof(grants));
    ask.locks = locks;
    ask.grants = grants;
}

TEST(nothing_is_left_of_the_request_before)
{
    poison();
    meant("{\"OP\":\"ping\"}", false);
    ck_assert_int_eq(ask.op, OP_PING);
    ck_assert(ask.id[0] == '\0' && !ask.has_id && !ask.id_is_number);
    ck_assert(!ask.has_object && ask.n_locks == 0 && ask.n_grants == 0);
    ck_assert_ptr_null(ask.uuid);
    ck_assert_ptr_null(ask.name);
    ck_assert_ptr_null(ask.owner);
    ck_assert_ptr_null(ask.ticket);
    ck_assert_ptr_null(ask.session);
    ck_assert_ptr_null(ask.secret);
    ck_assert_uint_eq(ask.key.req.size, 0);
    ck_assert(ask.handle == 0 && ask.token == 0 && ask.timeout_ms == 0);
    ck_assert(ask.limit == -1 && ask.grace_ms == -1 && ask.version == -1);
    ck_assert(!ask.start && !ask.test && !ask.no_deadlock);
}

TEST(a_lock_has_what_was_said_of_it_and_nothing_else)
{
    struct enq_req want = {.size = sizeof(want), .mode = ENQ_MODE_X};

    poison();
    meant(LOCK(""), false);
    ck_assert_uint_eq(ask.n_locks, 1);
    ck_assert_str_eq(locks[0].req.name, "n");
    ck_assert_str_eq(locks[0].req.key[0], "a");
    want.name = locks[0].req.name;
    want.key[0] = locks[0].req.key[0];
    ck_assert_mem_eq(&locks[0].req, &want, sizeof(want));
    ck_assert(!locks[0].has_death && locks[0].has_key && ask.has_object);
}

TEST(grants_and_keys_have_what_was_said_of_them_and_nothing_else)
{
    poison();
    meant("{\"OP\":\"unset\",\"GRANTS\":[{\"HANDLE\":\"7\"},{\"TOKEN\":8},{}]}",
        true);
    ck_assert_uint_eq(ask.n_grants, 3);
    ck_assert(grants[0].handle == 7 && grants[0].token == 0);
    ck_assert(grants[1].handle == 0 && grants[1].token == 8);
    ck_assert(grants[2].handle == 0 && grants[2].token == 0);
    poison();
    meant("{\"OP\":\"check\",\"name\":\"n\"}", true);
    ck_assert_str_eq(ask.key.req.name, "n");
    ck_assert_ptr_null(ask.key.req.key[0]);
    meant("{\"OP\":\"check\",\"argument\":[\"a\",\"b\"],\"name\":\"n\"}", true);
    ck_assert_str_eq(ask.key.req.key[1], "b");
    ck_assert_ptr_null(ask.key.req.key[2]);
    ck_assert_str_eq(ask.key.req.name, "n");
}

TEST(of_a_member_that_comes_twice_the_last_counts)
{
    meant(
        "{\"OP\":\"2\",\"OP\":\"1\",\"eleLock\":7,\"eleLock\":{\"name\":\"n\","
        "\"argument\":[\"a\",\"b\"],\"argument\":[\"c\"],\"mode\":\"S\","
        "\"mode\":\"X\",\"owner\":\"o\",\"owner\":null,\"uuid\":\"u\","
        "\"uuid\":null}}",
        false);
    ck_assert(ask.op == OP_LOCK && ask.n_locks == 1);
    ck_assert_str_eq(locks[0].req.key[0], "c");
    ck_assert_ptr_null(locks[0].req.key[1]);
    ck_assert_int_eq(locks[0].req.mode, ENQ_MODE_X);
    ck_assert_ptr_null(locks[0].req.owner);
    ck_assert_ptr_null(locks[0].req.id);
    meant("{\"OP\":\"2\",\"lockUUID\":\"u\",\"lockUUID\":null,\"test\":true,"
          "\"test\":1}",
        false);
    ck_assert_ptr_null(ask.uuid);
    ck_assert(!ask.test);
}

/* --- what is said ----------------------------------------------------------- */

TEST(each_operation_has_its_word)
{
    static const char *const words[] = {NULL,
#define X(name, text) text,
        OP_MAP(X)
#undef X
    };
    char text[128];

    for (unsigned op = 1; op < LENGTH(words); op++) {
        snprintf(text, sizeof(text),
            "{\"OP\":\"%s\",\"GRANTS\":[{}],\"name\":\"n\",\"%s\":%s%s%s}",
            words[op], op == OP_SET ? "locks" : "eleLock",
            op == OP_SET ? "[" : "", L, op == OP_SET ? "]" : "");
        ck_assert_int_eq(meant(text, true)->op, (int)op);
        ck_assert_str_eq(ask_op_name(ask.op), words[op]);
    }
    ck_assert_int_eq(meant("{\"OP\":4}", false)->op, OP_LIST);
    for (unsigned i = 0; i < 6; i++) {
        static const char *const none[] = {
            "0", "5", "\"\"", "\"none\"", "\"11\"", "[\"1\"]"};

        snprintf(text, sizeof(text), "{\"locks\":7,\"OP\":%s}", none[i]);
        want_wrong("Unknown OP", text, true);
        ck_assert_int_eq(ask.op, OP_NONE);
    }
    want_wrong("Unknown OP", "{}", true);
    want_wrong("The request is not a JSON object", "[]", true);
}

TEST(a_request_has_an_id_of_64_bytes_at_most_or_a_number)
{
    static const char wrong[] =
        "reqUUID must be a text of 1 to 64 bytes, or a number";
    static const char *const none[] = {
        "\"\"", "null", "true", "[]", "1e400", "-1e400"};
    char text[128];

    snprintf(text, sizeof(text), "{\"OP\":\"ping\",\"reqUUID\":\"%064d\"}", 7);
    ck_assert_uint_eq(strlen(meant(text, false)->id), 64);
    ck_assert(ask.has_id && !ask.id_is_number);
    snprintf(text, sizeof(text), "{\"OP\":\"ping\",\"reqUUID\":\"%065d\"}", 7);
    want_wrong(wrong, text, false);
    ck_assert(!ask.has_id);
    for (unsigned i = 0; i < LENGTH(none); i++) {
        snprintf(text, sizeof(text), "{\"OP\":\"ping\",\"reqUUID\":%s}",
            none[i]);
        want_wrong(wrong, text, false);
        ck_assert(!ask.has_id);
    }
    ck_assert_str_eq(meant("{\"OP\":\"ping\",\"reqUUID\":7.50}", false)->id,
        "7.5");
    ck_assert(ask.has_id && ask.id_is_number);
}

TEST(each_member_of_a_lock_is_what_was_said)
{
    const struct enq_req *r = &locks[0].req;

    meant(LOCK(",\"owner\":7,\"uuid\":8,\"waitTime\":9,\"timeout\":10,"
               "\"literal\":4294967295,\"delay\":11,\"onDeath\":\"keep\""),
        false);
    ck_assert_str_eq(r->owner, "7");
    ck_assert_str_eq(r->id, "8");
    ck_assert(r->wait_ms == 9 && r->ttl_ms == 10 && r->delay_ms == 11);
    ck_assert_uint_eq(r->literal, UINT32_MAX);
    ck_assert(locks[0].has_death && locks[0].death == ENQ_DEATH_KEEP);
    meant(LOCK(",\"waitTime\":\"forever\",\"timeout\":\"none\""), true);
    ck_assert(r->wait_ms == ENQ_FOREVER && r->ttl_ms == ENQ_FOREVER);
    meant(LOCK(",\"waitTime\":\"forever\",\"onDeath\":\"lease\""), false);
    ck_assert(r->wait_ms == 0 && locks[0].death == ENQ_DEATH_LEASE);
    meant(LOCK(",\"waitTime\":-1,\"onDeath\":\"release\",\"timeout\":null,"
               "\"delay\":null,\"literal\":null"),
        true);
    ck_assert(r->wait_ms == 0 && locks[0].death == ENQ_DEATH_RELEASE);
    ck_assert(r->ttl_ms == 0 && r->delay_ms == 0 && r->literal == 0);
    for (unsigned i = 0; i < 4; i++) {
        char text[128];

        snprintf(text, sizeof(text),
            "{\"OP\":1,\"eleLock\":{\"name\":5,\"argument\":[],\"mode\":"
            "\"%c\"}}",
            "SEXO"[i]);
        meant(text, false);
        ck_assert_int_eq(r->mode, (int)i + 1);
        ck_assert_str_eq(r->name, "5");
    }
}

TEST(fields_are_texts_numbers_and_words)
{
    meant("{\"OP\":1,\"eleLock\":{\"name\":\"n\",\"mode\":\"X\",\"argument\":"
          "[\"a\",1.50,true,false,null,\"\"]}}",
        false);
    static const char *const want[] = {"a", "1.5", "true", "false", "", ""};

    for (unsigned i = 0; i < LENGTH(want); i++)
        ck_assert_str_eq(locks[0].req.key[i], want[i]);
    ck_assert_ptr_null(locks[0].req.key[LENGTH(want)]);
}

TEST(what_else_a_request_says_is_what_was_said)
{
    meant("{\"OP\":\"4\",\"lockName\":\"n\",\"lockOwner\":\"o\",\"limit\":0,"
          "\"HANDLE\":\"18446744073709551615\",\"TOKEN\":2,\"timeout\":3,"
          "\"ticket\":4,\"session\":\"s\",\"token\":\"t\",\"grace\":5,"
          "\"version\":6,\"start\":true,\"test\":true,\"noDeadlock\":true}",
        false);
    ck_assert_str_eq(ask.name, "n");
    ck_assert_str_eq(ask.owner, "o");
    ck_assert(ask.limit == 0 && ask.grace_ms == 5 && ask.version == 6);
    ck_assert(ask.handle == UINT64_MAX && ask.token == 2);
    ck_assert_int_eq(ask.timeout_ms, 3);
    ck_assert_str_eq(ask.ticket, "4");
    ck_assert_str_eq(ask.session, "s");
    ck_assert_str_eq(ask.secret, "t");
    ck_assert(ask.start && ask.test && ask.no_deadlock);
    meant("{\"OP\":\"4\",\"lockName\":false,\"lockOwner\":0,\"owner\":\"p\","
          "\"start\":1,\"timeout\":\"none\",\"lockUUID\":12}",
        true);
    ck_assert_ptr_null(ask.name);
    ck_assert_str_eq(ask.owner, "p");
    ck_assert_str_eq(ask.uuid, "12");
    ck_assert(!ask.start && ask.timeout_ms == ENQ_FOREVER);
}

/* --- what is wrong ---------------------------------------------------------- */

TEST(what_is_wrong_with_a_lock_has_its_words)
{
    static const struct {
        const char *words, *text;
    } is[] = {
        {"The lock is not a JSON object", "{\"OP\":1,\"eleLock\":[]}"},
        {"The lock has no name",
            "{\"OP\":1,\"eleLock\":{\"argument\":[],\"mode\":\"X\"}}"},
        {"Lock argument must be array!",
            "{\"OP\":1,\"eleLock\":{\"name\":\"n\",\"mode\":\"X\"}}"},
        {"Lock argument must be array!", LOCK(",\"argument\":{}")},
        {"The lock has no mode: S, E, X or O",
            "{\"OP\":1,\"eleLock\":{\"name\":\"n\",\"argument\":[]}}"},
        {"Unknown lock mode: S, E, X or O", LOCK(",\"mode\":\"\"")},
        {"Unknown lock mode: S, E, X or O", LOCK(",\"mode\":\"SE\"")},
        {"Unknown lock mode: S, E, X or O", LOCK(",\"mode\":\"s\"")},
        {"Unknown lock mode: S, E, X or O", LOCK(",\"mode\":1")},
        {"Lock name must be a text", LOCK(",\"name\":[]")},
        {"Lock owner must be a text", LOCK(",\"owner\":{}")},
        {"Lock uuid must be a text", LOCK(",\"uuid\":[]")},
        {"Invalid timeout", LOCK(",\"timeout\":-1")},
        {"Invalid timeout", LOCK(",\"timeout\":\"none\"")},
        {"Unknown onDeath: release, lease or keep", LOCK(",\"onDeath\":\"x\"")},
        {"literal must be a number", LOCK(",\"literal\":-1")},
        {"literal has more than 32 bits", LOCK(",\"literal\":4294967296")},
        {"delay must be a number of ms", LOCK(",\"delay\":-1")},
        {"delay must be a number of ms", LOCK(",\"delay\":\"x\"")},
        {"A lock argument has a zero byte",
            LOCK(",\"argument\":[\"\\u0000\"]")},
        {"A lock argument is an array or object", LOCK(",\"argument\":[[]]")},
        {"The request has no eleLock", "{\"OP\":1}"},
        {"The request has no eleLock", "{\"OP\":1,\"locks\":[" L "," L "]}"},
    };

    for (unsigned i = 0; i < LENGTH(is); i++)
        want_wrong(is[i].words, is[i].text, false);
    want_wrong("Lock argument has more than 16 fields",
        repeated("{\"OP\":1,\"eleLock\":{\"name\":\"n\",\"mode\":\"X\","
                 "\"argument\":[",
            "7", ENQ_KEY_FIELDS_MAX + 1, "]}}"),
        false);
    meant(repeated("{\"OP\":1,\"eleLock\":{\"name\":\"n\",\"mode\":\"X\","
                   "\"argument\":[",
              "7", ENQ_KEY_FIELDS_MAX, "]}}"),
        false);
}

TEST(what_is_wrong_with_a_request_has_its_words)
{
    static const struct {
        const char *words, *text;
    } is[] = {
        {"HANDLE must be a number", "{\"OP\":2,\"HANDLE\":\"x\"}"},
        {"TOKEN must be a number", "{\"OP\":2,\"TOKEN\":-1}"},
        {"lockUUID must be a text", "{\"OP\":2,\"lockUUID\":[]}"},
        {"lockName must be a text", "{\"OP\":4,\"lockName\":true}"},
        {"lockName must be a text", "{\"OP\":4,\"lockName\":1}"},
        {"The owner must be a text", "{\"OP\":4,\"lockOwner\":[]}"},
        {"limit must be a number", "{\"OP\":4,\"limit\":-1}"},
        {"ticket must be a text", "{\"OP\":\"cancel\",\"ticket\":[]}"},
        {"session must be a text", "{\"OP\":\"hello\",\"session\":7}"},
        {"token must be a text", "{\"OP\":\"hello\",\"token\":7}"},
        {"grace must be a number of ms", "{\"OP\":\"hello\",\"grace\":-1}"},
        {"version must be a number", "{\"OP\":\"hello\",\"version\":\"x\"}"},
        {"Invalid timeout", "{\"OP\":\"renew\",\"timeout\":-1}"},
        {"The request has no locks", "{\"OP\":\"set\"}"},
        {"locks must be an array of locks", "{\"OP\":\"set\",\"locks\":[]}"},
        {"locks must be an array of locks", "{\"OP\":\"set\",\"locks\":{}}"},
        {"The lock is not a JSON object", "{\"OP\":\"set\",\"locks\":[7]}"},
        {"GRANTS must be an array", "{\"OP\":\"unset\",\"GRANTS\":{}}"},
        {"A grant is not a JSON object", "{\"OP\":\"unset\",\"GRANTS\":[7]}"},
        {"HANDLE must be a number",
            "{\"OP\":\"unset\",\"GRANTS\":[{\"HANDLE\":[]}]}"},
        {"TOKEN must be a number",
            "{\"OP\":\"unset\",\"GRANTS\":[{\"TOKEN\":[]}]}"},
        {"The request has no GRANTS", "{\"OP\":\"unset\"}"},
        {"The request has no name", "{\"OP\":\"check\"}"},
        {"The request has no name", "{\"OP\":\"check\",\"argument\":[]}"},
        /* the first thing that is wrong */
        {"HANDLE must be a number", "{\"HANDLE\":[],\"TOKEN\":[],\"OP\":1}"},
    };

    for (unsigned i = 0; i < LENGTH(is); i++)
        want_wrong(is[i].words, is[i].text, true);
}

TEST(sets_have_64_locks_at_most)
{
    meant(repeated("{\"OP\":\"set\",\"locks\":[", L, ENQ_SET_MAX, "]}"), true);
    ck_assert_uint_eq(ask.n_locks, ENQ_SET_MAX);
    want_wrong("A set has at most 64 locks",
        repeated("{\"OP\":\"set\",\"locks\":[", L, ENQ_SET_MAX + 1, "]}"),
        true);
    meant(repeated("{\"OP\":\"unset\",\"GRANTS\":[", "{}", ENQ_SET_MAX, "]}"),
        true);
    ck_assert_uint_eq(ask.n_grants, ENQ_SET_MAX);
    want_wrong("GRANTS has more than 64 locks",
        repeated("{\"OP\":\"unset\",\"GRANTS\":[", "{}", ENQ_SET_MAX + 1, "]}"),
        true);
}

int main(void)
{
    unit_begin("bridge_ask");
    ADD(nothing_is_left_of_the_request_before);
    ADD(a_lock_has_what_was_said_of_it_and_nothing_else);
    ADD(grants_and_keys_have_what_was_said_of_them_and_nothing_else);
    ADD(of_a_member_that_comes_twice_the_last_counts);
    ADD(each_operation_has_its_word);
    ADD(a_request_has_an_id_of_64_bytes_at_most_or_a_number);
    ADD(each_member_of_a_lock_is_what_was_said);
    ADD(fields_are_texts_numbers_and_words);
    ADD(what_else_a_request_says_is_what_was_said);
    ADD(what_is_wrong_with_a_lock_has_its_words);
    ADD(what_is_wrong_with_a_request_has_its_words);
    ADD(sets_have_64_locks_at_most);
    return unit_end();
}
