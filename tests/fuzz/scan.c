/*
 * scan.c - what a client sends: a stream of values, in whatever pieces it
 * comes. Each split finds the same values, nothing beyond the bytes is read,
 * and what the values say can be asked of each.
 */
#include "wire/scan.h"
#include "wire/frame.h"
#include "wire/value.h"

#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#define ROOM 48 /* few enough to be too few, too */
#define ENDS 256

/* Where the values of a stream end. */
struct cut {
    uint16_t ends[ENDS];
    unsigned n;
    enum scan_found last;
};

/* As a connection has it: what has been heard of a value that has begun. */
struct heard {
    const char *bytes;
    size_t begin, n;
    struct frame frame;
    struct cut cut;
};

static size_t blanks(const char *bytes, size_t n)
{
    size_t i = 0;

    while (i < n && bytes[i] != '\0' && strchr(" \t\r\n", bytes[i]) != NULL)
        i++;
    return i;
}

static void take_whole(struct heard *h)
{
    static struct scan_value values[ROOM];
    size_t used;

    for (;;) {
        struct scan s = {values, ROOM, 0};

        h->begin += blanks(h->bytes + h->begin, h->n - h->begin);
        if (h->begin == h->n)
            return;
        h->cut.last = scan(&s, h->bytes + h->begin, h->n - h->begin, &used);
        if (used > h->n - h->begin || s.n > ROOM)
            fuzz_fail("more was used than there is");
        if (h->cut.last != SCAN_WHOLE)
            return;
        h->begin += used;
        h->cut.ends[h->cut.n++ % ENDS] = (uint16_t)h->begin;
    }
}

static void hear(struct heard *h, size_t more)
{
    bool begins = h->begin == h->n;
    bool ends = frame_ends(&h->frame, h->bytes + h->n, more);

    h->n += more;
    if (h->cut.last > SCAN_MORE || (!begins && !ends))
        return;
    take_whole(h);
    h->frame = (struct frame){0};
    (void)frame_ends(&h->frame, h->bytes + h->begin, h->n - h->begin);
}

/* What is wrong may show later, when it comes in pieces: at the next end. */
static void compare(const struct cut *whole, const struct cut *parts)
{
    bool same = whole->last == parts->last ||
        (whole->last > SCAN_MORE && parts->last == SCAN_MORE);

    if (whole->n != parts->n || !same)
        fuzz_fail("%u values, then %d; in pieces %u, then %d", whole->n,
            (int)whole->last, parts->n, (int)parts->last);
    if (memcmp(whole->ends, parts->ends, sizeof(whole->ends)) != 0)
        fuzz_fail("they end elsewhere");
}

static void ask(struct scan_value *v, char *bytes)
{
    char word[SCAN_WORD_BYTES];
    const char *text;
    int64_t number;
    uint64_t other;

    scan_integer(v, bytes, &number);
    scan_unsigned(v, bytes, &other);
    text = scan_word(v, bytes, word);
    if (text != NULL && strlen(text) >= SCAN_WORD_BYTES)
        fuzz_fail("\"%s\" is too long for a word", text);
    text = scan_text(v, bytes);
    if (text != NULL && strlen(text) != v->bytes)
        fuzz_fail("\"%s\" has not %u bytes", text, v->bytes);
}

static void ask_first(char *bytes, size_t n)
{
    struct scan_value values[ROOM];
    struct scan s = {values, ROOM, 0};
    size_t used;

    if (scan(&s, bytes, n, &used) != SCAN_WHOLE)
        return;
    for (uint32_t i = 0; i < s.n; i++) {
        if (values[i].span == 0 || values[i].span > s.n - i ||
            values[i].begin + values[i].bytes > used)
            fuzz_fail("a value lies outside of its own");
        ask(&values[i], bytes);
    }
}

/* The first byte says how it is split: into so many, or as the next ones say.
 */
void fuzz_scan(const uint8_t *data, size_t n)
{
    struct feed f = {data, data + n};
    size_t step = feed_byte(&f) % 32;
    uint64_t dice = step == 0 ? feed_word(&f, 4) | 1 : 0;
    struct heard whole = {.n = 0}, parts = {.n = 0};
    char *bytes;

    n = (size_t)(f.end - f.at);
    bytes = malloc(n + (n == 0));
    if (bytes == NULL)
        fuzz_fail("out of memory");
    memcpy(bytes, f.at, n);
    whole.bytes = parts.bytes = bytes;
    hear(&whole, n);
    while (parts.n < n) {
        size_t more = step;

        if (step == 0) {
            dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
            more = 1 + (dice >> 60);
        }
        hear(&parts, more < n - parts.n ? more : n - parts.n);
    }
    compare(&whole.cut, &parts.cut);
    ask_first(bytes, n);
    free(bytes);
}
