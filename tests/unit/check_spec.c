/*
 * check_spec.c - the one-string form: "product/Computer/@".
 */
#include "rules/spec.h"

#include <errno.h>
#include <stdio.h>

#include "unit.h"

#define ROOM (ENQ_NAME_BYTES + ENQ_KEY_BYTES)

static const struct {
    const char *spec, *name;
    const char *key[4];
    uint32_t literal; /* of fields that are "@" */
} fine[] = {
    {"product", "product", {NULL}, 0},
    {"product/", "product", {""}, 0},
    {"product//", "product", {"", ""}, 0},
    {"product/Computer", "product", {"Computer"}, 0},
    {"product/Computer/@", "product", {"Computer", "@"}, 0},
    {"product/@/x", "product", {"@", "x"}, 0},
    {"product/\\@", "product", {"@"}, 1},
    {"product/@/\\@", "product", {"@", "@"}, 2},
    {"product/\\@/@", "product", {"@", "@"}, 1},
    {"product/a\\/b", "product", {"a/b"}, 0},
    {"product/a\\\\b", "product", {"a\\b"}, 0},
    {"product/\\\\", "product", {"\\"}, 0},
    {"product/A@", "product", {"A@"}, 0},
    {"a\\/b/c", "a/b", {"c"}, 0},
    {"product/a\\x1b\\x7f\\xC3\\xbc", "product", {"a\x1b\x7f\u00fc"}, 0},
    {"product/\\x2f\\x5c/\\x5cx41", "product", {"/\\", "\\x41"}, 0},
    {"product/\\x40/\\x40a", "product", {"@", "@a"}, 1},
    {"p\\x0a\\xff/\\xFf\\xfF", "p\n\xff", {"\xff\xff"}, 0},
    {"product/x41/\\\\x41/\\X41", "product", {"x41", "\\x41", "X41"}, 0},
    {"@", "@", {NULL}, 0},
    {"\\@/x", "@", {"x"}, 0},
    {" product / x ", " product ", {" x "}, 0},
    {"pr\xc3\xb6/\xff", "pr\xc3\xb6", {"\xff"}, 0},
};

TEST(a_spec_is_name_and_fields)
{
    struct enq_req req = {.size = sizeof(req), .owner = "kept"};
    size_t n = strlen(fine[_i].spec) + 1;
    char buf[ROOM];

    want(ENQ_OK,
        enq_spec_parse(unit_at_edge(fine[_i].spec, n), &req, buf, ROOM));
    ck_assert_str_eq(req.name, fine[_i].name);
    for (unsigned i = 0; fine[_i].key[i] != NULL; i++)
        ck_assert_str_eq(req.key[i], fine[_i].key[i]);
    ck_assert_uint_eq(req.literal, fine[_i].literal);
    for (unsigned i = 0; i < 4; i++)
        ck_assert_int_eq(req.key[i] == NULL, fine[_i].key[i] == NULL);
    ck_assert_str_eq(req.owner, "kept");
}

static const struct {
    const char *spec;
    const char *words;
} bad[] = {
    {"", "name"},
    {"/", "name"},
    {"/x", "name"},
    {"product\\", "backslash"},
    {"product/\\", "backslash"},
    {"product/x\\\\\\", "backslash"},
    {"product\\x", "two hexadecimal digits"},
    {"product\\x4", "two hexadecimal digits"},
    {"product/a\\x", "two hexadecimal digits"},
    {"product/a\\x/b", "two hexadecimal digits"},
    {"product/a\\xg0", "two hexadecimal digits"},
    {"product/a\\x0g", "two hexadecimal digits"},
    {"product/a\\x4/", "two hexadecimal digits"},
    {"product/a\\x\\x41", "two hexadecimal digits"},
    {"product/a\\x00b", "zero"},
    {"\\x00", "zero"},
    {"n/1/2/3/4/5/6/7/8/9/0/1/2/3/4/5/6/7", "16"},
    {"n/////////////////", "16"},
};

TEST(a_bad_spec_is_refused_with_words)
{
    struct enq_req req = {.size = sizeof(req)};
    size_t n = strlen(bad[_i].spec) + 1;
    char buf[ROOM];

    want_why(-EINVAL,
        enq_spec_parse(unit_at_edge(bad[_i].spec, n), &req, buf, ROOM),
        bad[_i].words);
}

TEST(sixteen_fields_are_taken)
{
    struct enq_req req = {.size = sizeof(req)};
    char buf[ROOM];

    want(ENQ_OK, enq_spec_parse("n////////////////", &req, buf, ROOM));
    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++)
        ck_assert_str_eq(req.key[i], "");
}

TEST(nothing_given_is_refused)
{
    struct enq_req req = {.size = sizeof(req)};
    char buf[ROOM];

    want(-EINVAL, enq_spec_parse(NULL, &req, buf, ROOM));
    want(-EINVAL, enq_spec_parse("product", NULL, buf, ROOM));
    want(-EINVAL, enq_spec_parse("product", &req, NULL, ROOM));
    want(-EINVAL, enq_spec_parse("product", &req, buf, 0));
}

/* "abc/de/" needs 4 + 3 + 1 bytes. */
TEST(the_buffer_is_never_overrun)
{
    struct enq_req req = {.size = sizeof(req)};
    char zeros[16] = "";

    for (size_t n = 1; n < 12; n++) {
        char *buf = unit_at_edge(zeros, n);

        want(n < 8 ? -ENAMETOOLONG : ENQ_OK,
            enq_spec_parse("abc/de/", &req, buf, n));
    }
}

TEST(the_promised_room_is_enough_for_the_longest_request)
{
    char spec[2 * ROOM], zeros[ROOM] = "";
    struct enq_req req = {.size = sizeof(req)};
    int n = 0;

    for (int i = 0; i < ENQ_NAME_BYTES - 1; i++)
        n += sprintf(spec + n, "\\n");
    for (int f = 0; f < ENQ_KEY_FIELDS_MAX; f++)
        n += sprintf(spec + n, "/%s", "0123456789012345678901234567890");
    want(ENQ_OK, enq_spec_parse(spec, &req, unit_at_edge(zeros, ROOM), ROOM));
    ck_assert_uint_eq(strlen(req.name), ENQ_NAME_BYTES - 1);
    ck_assert_uint_eq(strlen(req.key[15]), 31);
}

/* --- there and back --- */

/* Any bytes but zero, from few, so that escapes are frequent. */
static void random_text(char *text, uint64_t *dice)
{
    size_t n = unit_random(dice) % 8;

    for (size_t i = 0; i < n; i++)
        text[i] = "ab/\\@ \n\xff"[unit_random(dice) % 8];
    text[n] = '\0';
}

static char *escape(char *out, const char *text)
{
    for (; *text != '\0'; text++) {
        if (strchr("/\\@", *text) != NULL)
            *out++ = '\\';
        *out++ = *text;
    }
    *out = '\0';
    return out;
}

static void round_trip(uint64_t *dice)
{
    char texts[ENQ_KEY_FIELDS_MAX + 1][16], spec[1024], buf[ROOM];
    unsigned n = (unsigned)(unit_random(dice) % (ENQ_KEY_FIELDS_MAX + 1));
    struct enq_req req = {.size = sizeof(req)};
    char *end;

    do
        random_text(texts[0], dice);
    while (texts[0][0] == '\0');
    end = escape(spec, texts[0]);
    for (unsigned i = 1; i <= n; i++) {
        random_text(texts[i], dice);
        *end++ = '/';
        end = escape(end, texts[i]);
    }
    want(ENQ_OK, enq_spec_parse(spec, &req, buf, ROOM));
    ck_assert_str_eq(req.name, texts[0]);
    for (unsigned i = 1; i <= n; i++) {
        ck_assert_str_eq(req.key[i - 1], texts[i]);
        ck_assert_uint_eq(req.literal >> (i - 1) & 1,
            strcmp(texts[i], "@") == 0);
    }
    ck_assert(n == ENQ_KEY_FIELDS_MAX || req.key[n] == NULL);
}

TEST(what_was_escaped_comes_back)
{
    uint64_t dice = unit_seed();

    for (int i = 0; i < 20000; i++)
        round_trip(&dice);
}

TEST(random_bytes_are_parsed_or_refused)
{
    uint64_t dice = unit_seed();
    char text[24], buf[ROOM];
    struct enq_req req = {.size = sizeof(req)};

    for (int i = 0; i < 50000; i++) {
        int rc;

        random_text(text, &dice);
        random_text(text + strlen(text), &dice);
        rc = enq_spec_parse(text, &req, buf, 1 + unit_random(&dice) % 24);
        ck_assert(rc == ENQ_OK || rc == -EINVAL || rc == -ENAMETOOLONG);
    }
}

int main(void)
{
    unit_begin("spec");
    ADD_LOOP(a_spec_is_name_and_fields, LENGTH(fine));
    ADD_LOOP(a_bad_spec_is_refused_with_words, LENGTH(bad));
    ADD(sixteen_fields_are_taken);
    ADD(nothing_given_is_refused);
    ADD(the_buffer_is_never_overrun);
    ADD(the_promised_room_is_enough_for_the_longest_request);
    ADD(what_was_escaped_comes_back);
    ADD(random_bytes_are_parsed_or_refused);
    return unit_end();
}
