/*
 * check_spec_form.c - the form of a key that lockctl prints is the one that
 * enq_spec_parse() reads: whatever the bytes, they come back. What may stand in
 * it is fit to be seen.
 */

#include "unit.h"

/* They see enq.h only, and are no part of the library. */
#include "../../tools/lockctl/key.c"
#include "../../tools/lockctl/text.c"

#define ROOM (ENQ_NAME_BYTES + ENQ_KEY_BYTES)

/* A key as a list has it. */
static struct enq_info info;

/* --- random keys --- */

/* What is escaped, or ends an escape, or looks like one; and anything. */
static const char *const pieces[] = {"/", "\\", "\\\\", "@", "x", "\\x", "\\x4",
    "\\x41", "41", "00", " ", "  ", "-", "\n", "\t", "\x1b[31m", "\x7f",
    "\xc2\x85", "\xc2\x9b", "\u202e", "\u2069", "\ufeff", "\u00fc",
    "\U0001f512", "\xff", "\xc3", "\xe2\x80", "\xed\xa0\x80", "a", "order"};

static size_t random_text(char *out, size_t room, uint64_t *dice)
{
    size_t n = 0, wanted = unit_random(dice) % 8;

    if (unit_random(dice) % 64 == 0)
        wanted = room;
    while (n < wanted) {
        const char *piece = pieces[unit_random(dice) % LENGTH(pieces)];
        char byte[2] = {(char)(1 + unit_random(dice) % 255), '\0'};

        if (unit_random(dice) % 4 == 0)
            piece = byte;
        if (n + strlen(piece) > room)
            break;
        memcpy(out + n, piece, strlen(piece));
        n += strlen(piece);
    }
    out[n] = '\0';
    return n;
}

static void random_key(uint64_t *dice)
{
    size_t used = 0, few = unit_random(dice) % 4;

    memset(&info, 0, sizeof(info));
    while (random_text(info.name, ENQ_NAME_BYTES - 1, dice) == 0)
        continue;
    info.fields = (uint8_t)(few > 0 ? few : unit_random(dice) % 17);
    for (unsigned i = 0; i < info.fields; i++) {
        size_t rest = (size_t)info.fields - i;

        size_t n = random_text(info.key + used,
            (ENQ_KEY_BYTES - used) / rest - 1, dice);

        if (n > 0 && unit_random(dice) % 6 == 0)
            n = (size_t)sprintf(info.key + used, "@");
        used += n + 1;
    }
    info.literal = (uint32_t)unit_random(dice) & ((1u << info.fields) - 1);
}

static bool is_fit(const char *spec)
{
    for (; *spec != '\0'; spec += text_fit(spec))
        if (text_fit(spec) == 0)
            return false;
    return true;
}

/* Bits of fields that are no "@" say nothing. */
static uint32_t literal_ats(const struct enq_info *i)
{
    const char *field = i->key;
    uint32_t ats = 0;

    for (unsigned f = 0; f < i->fields; f++, field += strlen(field) + 1)
        if (strcmp(field, "@") == 0)
            ats |= 1u << f;
    return i->literal & ats;
}

/* Check notes where it is at each of its assertions: too often for a million.
 */
#define MUST(condition)                                                        \
    do {                                                                       \
        if (!(condition))                                                      \
            ck_abort_msg("not so: " #condition ", of \"%s\"", spec);           \
    } while (0)

static void comes_back(void)
{
    char spec[KEY_SPEC_BYTES], again[KEY_SPEC_BYTES], buf[ROOM];
    struct enq_req req = {.size = sizeof(req)};
    const char *field = info.key;
    struct key key;

    key_of_info(&key, &info);
    key_spec(spec, &key);
    MUST(is_fit(spec));
    MUST(enq_spec_parse(spec, &req, buf, sizeof(buf)) == ENQ_OK);
    MUST(strcmp(req.name, info.name) == 0);
    for (unsigned i = 0; i < info.fields; i++, field += strlen(field) + 1)
        MUST(req.key[i] != NULL && strcmp(req.key[i], field) == 0);
    MUST(info.fields == 16 || req.key[info.fields] == NULL);
    MUST(req.literal == literal_ats(&info));
    key_of_req(&key, &req);
    key_spec(again, &key);
    MUST(strcmp(again, spec) == 0);
}

#define KEYS 1024000u
#define PARTS 8u

TEST(a_million_random_keys_come_back_from_their_spec)
{
    uint64_t dice = unit_seed() + (unsigned)_i;

    for (unsigned i = 0; i < KEYS / PARTS; i++) {
        random_key(&dice);
        comes_back();
    }
}

/* --- from a spec --- */

/* Whatever was written, what it means is printed in one way. */
TEST(what_is_read_is_printed_so_that_it_is_read_the_same)
{
    char text[200], spec[KEY_SPEC_BYTES], buf[ROOM];
    uint64_t dice = unit_seed();
    struct key key;
    unsigned n = 0;

    for (unsigned i = 0; i < 200000; i++) {
        struct enq_req req = {.size = sizeof(req)};
        const char *field;

        random_text(text, sizeof(text) - 1, &dice);
        if (enq_spec_parse(text, &req, buf, sizeof(buf)) != ENQ_OK)
            continue;
        key_of_req(&key, &req);
        key_spec(spec, &key);
        memset(&info, 0, sizeof(info));
        if (strlen(req.name) >= sizeof(info.name))
            continue;
        strcpy(info.name, req.name);
        info.literal = req.literal;
        field = req.key[0];
        for (; info.fields < 16 && req.key[info.fields] != NULL; info.fields++)
            field = req.key[info.fields] + strlen(req.key[info.fields]) + 1;
        if (info.fields > 0)
            memcpy(info.key, req.key[0], (size_t)(field - req.key[0]));
        comes_back();
        n++;
    }
    ck_assert_uint_gt(n, 20000);
}

/* --- names --- */

/* Two names that are shown alike are one name. */
TEST(names_that_look_the_same_are_the_same)
{
    char a[128], b[128], seen_a[TEXT_BYTES], seen_b[TEXT_BYTES];
    uint64_t dice = unit_seed();

    for (unsigned i = 0; i < 400000; i++) {
        random_text(a, 6, &dice);
        random_text(b, 6, &dice);
        text_name(seen_a, sizeof(seen_a), a);
        text_name(seen_b, sizeof(seen_b), b);
        if (!is_fit(seen_a) || strstr(seen_a, "  ") != NULL ||
            (strcmp(seen_a, seen_b) == 0) != (strcmp(a, b) == 0))
            ck_abort_msg("\"%s\" and \"%s\"", seen_a, seen_b);
        text_quoted(seen_a, sizeof(seen_a), a);
        text_quoted(seen_b, sizeof(seen_b), b);
        if ((strcmp(seen_a, seen_b) == 0) != (strcmp(a, b) == 0))
            ck_abort_msg("\"%s\" and \"%s\"", seen_a, seen_b);
    }
}

/* What is cut shows it, and ends with a whole character. */
TEST(a_text_that_is_cut_shows_it)
{
    static const char text[] = "aä€\U0001f512\x1b\xff";
    char whole[100], out[100];
    size_t n = text_clean(whole, sizeof(whole), text);

    ck_assert_str_eq(whole, "aä€\U0001f512\\x1b\\xff");
    for (size_t room = 5; room <= n + 1; room++) {
        size_t used = text_clean(out, room, text), sequence = 0;
        uint32_t code;

        ck_assert_uint_eq(used, strlen(out));
        ck_assert_uint_lt(used, room);
        for (const char *at = out; *at != '\0'; at += sequence) {
            sequence = text_sequence(at, &code);
            ck_assert_uint_gt(sequence, 0);
        }
        if (room == n + 1)
            ck_assert_str_eq(out, whole);
        else
            ck_assert_str_eq(out + used - 3, "...");
        text_format(out, room, "%s", "aä€\U0001f512 and more that is cut");
        ck_assert_uint_lt(strlen(out), room);
        ck_assert_str_eq(out + strlen(out) - 3, "...");
        ck_assert(strlen(out) == 3 || text_sequence(out, &code) > 0);
        for (const char *at = out; *at != '\0'; at += sequence) {
            sequence = text_sequence(at, &code);
            ck_assert_uint_gt(sequence, 0);
        }
    }
}

int main(void)
{
    unit_begin("spec_form");
    ADD_LOOP(a_million_random_keys_come_back_from_their_spec, PARTS);
    ADD(what_is_read_is_printed_so_that_it_is_read_the_same);
    ADD(names_that_look_the_same_are_the_same);
    ADD(a_text_that_is_cut_shows_it);
    return unit_end();
}
