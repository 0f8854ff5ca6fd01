/*
 * check_key.c - keys: overlap, exhaustively over small alphabets; limits.
 */
#include "rules/key.h"

#include <errno.h>
#include <stdio.h>

#include "unit.h"

/* --- overlap --- */

/* One field of the alphabet, and whether it is marked literal. */
struct letter {
    const char *text;
    bool literal;
};

static const struct letter letters[] = {
    {"a", false},
    {"b", true},
    {"", false},
    {"@", false}, /* any */
    {"@", true},  /* itself */
    {"A@", false},
};

#define LETTERS 6
#define WORDS (1 + LETTERS + LETTERS * LETTERS + LETTERS * LETTERS * LETTERS)

struct word {
    unsigned n;
    const struct letter *of[3];
};

/* The i-th of all words of 0 to 3 letters. */
static struct word word_at(unsigned i)
{
    struct word w = {0};
    unsigned count = 1;

    while (i >= count) {
        i -= count;
        count *= LETTERS;
        w.n++;
    }
    for (unsigned f = 0; f < w.n; f++, i /= LETTERS)
        w.of[f] = &letters[i % LETTERS];
    return w;
}

static bool any(const struct letter *l)
{
    return strcmp(l->text, "@") == 0 && !l->literal;
}

/* R1, as it is said. */
static bool should_overlap(const struct word *a, const struct word *b)
{
    if (a->n != b->n)
        return false;
    for (unsigned i = 0; i < a->n; i++)
        if (!any(a->of[i]) && !any(b->of[i]) &&
            strcmp(a->of[i]->text, b->of[i]->text) != 0)
            return false;
    return true;
}

static void pack(struct key *key, char *buf, const char *name,
    const struct word *w)
{
    struct enq_req req = {.size = sizeof(req), .name = name};

    for (unsigned i = 0; i < w->n; i++) {
        req.key[i] = w->of[i]->text;
        req.literal |= (uint32_t)w->of[i]->literal << i;
    }
    want(0, key_pack(key, buf, KEY_BYTES_MAX, &req, 99));
}

static struct {
    struct word word;
    struct key key;
    char buf[KEY_BYTES_MAX];
} all[WORDS];

static void pack_all(const char *name)
{
    for (unsigned i = 0; i < WORDS; i++) {
        all[i].word = word_at(i);
        pack(&all[i].key, all[i].buf, name, &all[i].word);
    }
}

TEST(keys_overlap_as_the_rule_says)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned j = 0; j < WORDS; j++)
            ck_assert_msg(key_overlaps(&all[i].key, &all[j].key) ==
                    should_overlap(&all[i].word, &all[j].word),
                "words %u and %u", i, j);
}

TEST(overlap_is_symmetric_and_a_key_overlaps_itself)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++) {
        ck_assert(key_overlaps(&all[i].key, &all[i].key));
        for (unsigned j = 0; j < i; j++)
            ck_assert_int_eq(key_overlaps(&all[i].key, &all[j].key),
                key_overlaps(&all[j].key, &all[i].key));
    }
}

TEST(other_names_never_overlap)
{
    static const char *const names[] = {"N", "nn", "n ", "@", "m"};
    char buf[KEY_BYTES_MAX];
    struct key other;

    pack_all("n");
    for (size_t k = 0; k < LENGTH(names); k++)
        for (unsigned i = 0; i < WORDS; i++) {
            pack(&other, buf, names[k], &all[i].word);
            for (unsigned j = 0; j < WORDS; j++)
                ck_assert(!key_overlaps(&all[j].key, &other));
        }
}

TEST(concrete_keys_overlap_exactly_when_their_hashes_agree)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned j = 0; j < WORDS; j++)
            if ((all[i].key.generic | all[j].key.generic) == 0)
                ck_assert_int_eq(key_overlaps(&all[i].key, &all[j].key),
                    all[i].key.hash == all[j].key.hash);
}

/* What key_pack() gives a generic key as its hash, and a scope computes of a
   concrete one. */
static uint64_t digest_of(const struct key *key)
{
    uint64_t digest = key_digest(key, 99);

    if (key->generic != 0)
        ck_assert_uint_eq(key->hash, digest);
    return digest;
}

TEST(digests_hide_no_overlap)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned j = 0; j < WORDS; j++)
            if (key_overlaps(&all[i].key, &all[j].key))
                ck_assert_msg(key_may_overlap(digest_of(&all[i].key),
                                  digest_of(&all[j].key), all[i].key.fields),
                    "words %u and %u", i, j);
}

/* A key of `fields` fields that are all "same", but for one. */
static uint64_t digest_with(struct key *key, unsigned fields, unsigned at,
    const char *text)
{
    struct enq_req req = {.size = sizeof(req), .name = "n"};
    static char buf[KEY_BYTES_MAX];

    for (unsigned i = 0; i < fields; i++)
        req.key[i] = i == at ? text : "same";
    want(0, key_pack(key, buf, sizeof(buf), &req, 99));
    return digest_of(key);
}

#define TEXTS 200

TEST(digests_tell_nearly_all_keys_apart_that_differ_in_one_field)
{
    char text[16];
    struct key key;

    for (unsigned fields = 1; fields <= ENQ_KEY_FIELDS_MAX; fields++)
        for (unsigned at = 0; at < fields; at++) {
            uint64_t own = digest_with(&key, fields, at, "own"), other;
            unsigned alike = 0;

            other = digest_with(&key, fields, at, "@");
            ck_assert(key_may_overlap(own, other, fields));
            for (unsigned i = 0; i < TEXTS; i++) {
                snprintf(text, sizeof(text), "%u", i);
                other = digest_with(&key, fields, at, text);
                ck_assert_int_eq(key_may_overlap(own, other, fields),
                    key_may_overlap(other, own, fields));
                alike += key_may_overlap(own, other, fields);
            }
            /* 1 in 32,768, 128 or 8 is */
            ck_assert_uint_le(alike,
                fields <= 4       ? 1
                    : fields <= 8 ? TEXTS / 16
                                  : TEXTS / 4);
        }
}

TEST(a_key_of_any_overlaps_all_of_its_name_that_have_as_many_fields)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned j = 0; j < WORDS; j++) {
            const struct key any = key_any(&all[i].key), *key = &all[j].key;
            bool alike = any.fields == key->fields;

            ck_assert_int_eq(key_overlaps(&any, key), alike);
            if (alike)
                ck_assert(key_may_overlap(any.generic != 0 ? any.hash
                                                           : digest_of(&any),
                    digest_of(key), any.fields));
        }
}

TEST(all_keys_of_a_name_have_its_hash)
{
    pack_all("n");
    for (unsigned i = 1; i < WORDS; i++)
        ck_assert_uint_eq(all[i].key.name_hash, all[0].key.name_hash);
}

TEST(generic_and_literal_fields_are_noted)
{
    pack_all("n");
    for (unsigned i = 0; i < WORDS; i++)
        for (unsigned f = 0; f < all[i].word.n; f++) {
            ck_assert_int_eq(all[i].key.generic >> f & 1,
                any(all[i].word.of[f]));
            /* of what is no "@" it says nothing */
            ck_assert_int_eq(all[i].key.literal >> f & 1,
                all[i].word.of[f]->literal &&
                    strcmp(all[i].word.of[f]->text, "@") == 0);
        }
}

TEST(literal_bits_beyond_the_fields_mean_nothing)
{
    struct enq_req req = {
        .size = sizeof(req), .name = "n", .key = {"@"}, .literal = ~1u};
    char buf[KEY_BYTES_MAX];
    struct key key;

    want(0, key_pack(&key, buf, KEY_BYTES_MAX, &req, 1));
    ck_assert_uint_eq(key.literal, 0);
    ck_assert_uint_eq(key.generic, 1);
}

/* --- limits --- */

static char *repeat(char c, size_t n)
{
    static char texts[ENQ_KEY_FIELDS_MAX][4096];
    static unsigned turn;
    char *text = texts[turn++ % ENQ_KEY_FIELDS_MAX];

    ck_assert_uint_lt(n, sizeof(texts[0]));
    memset(text, c, n);
    text[n] = '\0';
    return unit_at_edge(text, n + 1);
}

static int pack_only(const struct enq_req *req)
{
    char *buf = unit_at_edge(repeat('x', KEY_BYTES_MAX), KEY_BYTES_MAX);
    struct key key;

    return key_pack(&key, buf, KEY_BYTES_MAX, req, 1);
}

/* Sizes count the zero, as the constants of enq.h do. */
static const struct {
    int off;
    int result;
} around[] = {{-1, 0}, {0, 0}, {1, -ENAMETOOLONG}, {1000, -ENAMETOOLONG}};

TEST(a_name_may_be_as_long_as_the_header_says)
{
    struct enq_req req = {.size = sizeof(req),
        .name = repeat('n', (size_t)(ENQ_NAME_BYTES - 1 + around[_i].off))};

    want(around[_i].result, pack_only(&req));
    if (around[_i].result != 0)
        want_why(around[_i].result, pack_only(&req),
            "nnnn...\" is longer than 127 bytes");
}

TEST(one_field_may_take_all_of_the_keys_bytes)
{
    struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {repeat('f', (size_t)(ENQ_KEY_BYTES - 1 + around[_i].off))}};

    want(around[_i].result, pack_only(&req));
}

TEST(two_fields_share_the_keys_bytes)
{
    struct enq_req req = {.size = sizeof(req),
        .name = repeat('n', ENQ_NAME_BYTES - 1),
        .key = {repeat('f', 255),
            repeat('g', (size_t)(ENQ_KEY_BYTES - 257 + around[_i].off))}};

    want(around[_i].result, pack_only(&req));
}

TEST(sixteen_fields_share_the_keys_bytes)
{
    struct enq_req req = {
        .size = sizeof(req), .name = repeat('n', ENQ_NAME_BYTES - 1)};

    for (unsigned i = 0; i < 15; i++)
        req.key[i] = repeat('f', 31);
    req.key[15] = repeat('g', (size_t)(31 + around[_i].off));
    want(around[_i].result, pack_only(&req));
}

TEST(the_field_that_is_too_long_is_named)
{
    struct enq_req req = {.size = sizeof(req),
        .name = "product",
        .key = {"a", repeat('f', ENQ_KEY_BYTES)}};

    want_why(-ENAMETOOLONG, pack_only(&req), "product");
    want_why(-ENAMETOOLONG, pack_only(&req), "field 2");
}

TEST(sixteen_fields_are_all_taken)
{
    struct enq_req req = {.size = sizeof(req), .name = "n"};
    char buf[KEY_BYTES_MAX];
    struct key key;

    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++) {
        req.key[i] = i == 15 ? "@" : "f";
        want(0, key_pack(&key, buf, KEY_BYTES_MAX, &req, 1));
        ck_assert_uint_eq(key.fields, i + 1);
    }
    ck_assert_uint_eq(key.generic, 1u << 15);
    ck_assert_uint_eq(key_bytes(&key), 2 + 16 * 2);
}

/* Behind them stands what else is asked for, which no longer is a field. */
TEST(what_follows_the_sixteenth_field_is_none)
{
    struct enq_req req = {.size = sizeof(req), .name = "n"};

    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++)
        req.key[i] = "@";
    req.literal = UINT32_MAX;
    req.flags = UINT32_MAX;
    want(0, pack_only(&req));
}

/* What has no room here may have it elsewhere; unless no key has as much. */
TEST(a_key_without_room_is_told_from_one_that_is_too_long)
{
    struct enq_req req = {.size = sizeof(req), .name = "n"};
    char buf[KEY_BYTES_MAX];
    struct key key;

    req.key[0] = repeat('f', ENQ_KEY_BYTES - 1);
    for (size_t room = 0; room < 2 + ENQ_KEY_BYTES; room += 19)
        want(-ENOBUFS, key_pack(&key, buf, room, &req, 1));
    want(-ENOBUFS, key_pack(&key, buf, 1 + ENQ_KEY_BYTES, &req, 1));
    want(0, key_pack(&key, buf, 2 + ENQ_KEY_BYTES, &req, 1));
    req.key[0] = repeat('f', ENQ_KEY_BYTES);
    want_why(-ENAMETOOLONG, key_pack(&key, buf, 40, &req, 1),
        "the key of \"n\" is longer than 512 bytes (field 1)");
    want(-ENAMETOOLONG, key_pack(&key, buf, sizeof(buf), &req, 1));
}

/* Every way to leave fields out. */
TEST(a_field_behind_a_null_is_refused_and_both_are_named)
{
    struct enq_req req = {.size = sizeof(req), .name = "product"};
    char buf[KEY_BYTES_MAX], words[80];
    struct key key;

    for (unsigned set = 0; set < 1u << ENQ_KEY_FIELDS_MAX; set++) {
        unsigned n = (unsigned)__builtin_ctz(~set), rest = set >> n;

        for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX; i++)
            req.key[i] = set >> i & 1 ? "f" : NULL;
        if (rest == 0) {
            want(0, key_pack(&key, buf, KEY_BYTES_MAX, &req, 1));
            ck_assert_uint_eq(key.fields, n);
            continue;
        }
        snprintf(words, sizeof(words),
            "field %u of the key of \"product\" is NULL, but field %u is not",
            n + 1, n + 1 + (unsigned)__builtin_ctz(rest));
        want_why(-EINVAL, key_pack(&key, buf, KEY_BYTES_MAX, &req, 1), words);
    }
}

TEST(a_request_without_a_name_is_refused)
{
    struct enq_req req = {.size = sizeof(req)};

    want_why(-EINVAL, pack_only(&req), "name");
    req.name = "";
    want_why(-EINVAL, pack_only(&req), "name");
}

/* What another process wrote may lie about its lengths. */
TEST(overlap_of_damaged_keys_reads_no_byte_too_far)
{
    const char bytes[] = "n\0@\0b";
    struct key good = {0}, bad;
    char buf[KEY_BYTES_MAX];
    struct word w = word_at(1 + LETTERS + 3);

    pack(&good, buf, "n", &w);
    for (unsigned fields = 0; fields <= 16; fields++)
        for (uint16_t n = 1; n < 4; n++) {
            bad = (struct key){.bytes = unit_at_edge(bytes, sizeof(bytes)),
                .name_bytes = 2,
                .field_bytes = n == 2 ? 2 : 4,
                .fields = (uint8_t)fields,
                .generic = 0xffff};
            good.fields = (uint8_t)fields;
            key_overlaps(&good, &bad);
            key_overlaps(&bad, &good);
        }
}

int main(void)
{
    unit_begin("key");
    ADD(keys_overlap_as_the_rule_says);
    ADD(overlap_is_symmetric_and_a_key_overlaps_itself);
    ADD(other_names_never_overlap);
    ADD(concrete_keys_overlap_exactly_when_their_hashes_agree);
    ADD(digests_hide_no_overlap);
    ADD(digests_tell_nearly_all_keys_apart_that_differ_in_one_field);
    ADD(a_key_of_any_overlaps_all_of_its_name_that_have_as_many_fields);
    ADD(all_keys_of_a_name_have_its_hash);
    ADD(generic_and_literal_fields_are_noted);
    ADD(literal_bits_beyond_the_fields_mean_nothing);
    ADD_LOOP(a_name_may_be_as_long_as_the_header_says, LENGTH(around));
    ADD_LOOP(one_field_may_take_all_of_the_keys_bytes, LENGTH(around));
    ADD_LOOP(two_fields_share_the_keys_bytes, LENGTH(around));
    ADD_LOOP(sixteen_fields_share_the_keys_bytes, LENGTH(around));
    ADD(the_field_that_is_too_long_is_named);
    ADD(sixteen_fields_are_all_taken);
    ADD(what_follows_the_sixteenth_field_is_none);
    ADD(a_key_without_room_is_told_from_one_that_is_too_long);
    ADD(a_field_behind_a_null_is_refused_and_both_are_named);
    ADD(a_request_without_a_name_is_refused);
    ADD(overlap_of_damaged_keys_reads_no_byte_too_far);
    return unit_end();
}
