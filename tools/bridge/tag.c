/*
 * tag.c - for whom a lock of ours is held (see tag.h).
 */
#include "tag.h"

#include <stdlib.h>
#include <uuid/uuid.h>

/* r, l, k; and with a lock delay R, L, K. */
static const char deaths[] = "rlk", delayed_deaths[] = "RLK";

#define NUMBER_BYTES 19  /* of 63 bits */
#define REQUEST_BYTES 16 /* of 64 bits, in letters from A to P */

_Static_assert(PEER_BYTES + SESSION_BYTES + NUMBER_BYTES + REQUEST_BYTES +
            sizeof("..d.63.") <
        ENQ_PEER_BYTES,
    "no tag is ever cut");

/* --- names --- */

/* Of RFC 4648's base64url. */
const char tag_letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                           "abcdefghijklmnopqrstuvwxyz0123456789-_";

/* A uuid made of a text is its SHA-1, but for two bytes that say so: these are
   the others. */
void tag_name(const char *id, char name[SESSION_BYTES])
{
    static const uint8_t from[] = {0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13};
    static const uuid_t space = "enq-bridge: ids";
    uuid_t hash;

    uuid_generate_sha1(hash, space, id, strlen(id));
    for (unsigned i = 0; i < sizeof(from); i += 3) {
        uint32_t bits = (uint32_t)hash[from[i]] << 16 |
            (uint32_t)hash[from[i + 1]] << 8 | hash[from[i + 2]];

        for (int shift = 18; shift >= 0; shift -= 6)
            *name++ = tag_letters[bits >> shift & 63];
    }
    *name = '\0';
}

uint64_t tag_heir(const char *name)
{
    uint64_t heir = 1; /* none is 0 */

    for (unsigned i = 0; i < HEIR_BYTES - 1; i++)
        heir =
            heir << 6 | (uint64_t)(strchr(tag_letters, name[i]) - tag_letters);
    return heir;
}

bool tag_is_heir(uint64_t heir)
{
    return heir >> 6 * (HEIR_BYTES - 1) == 1;
}

void tag_of_heir(uint64_t heir, char name[HEIR_BYTES])
{
    for (unsigned i = HEIR_BYTES - 1; i-- > 0; heir >>= 6)
        name[i] = tag_letters[heir & 63];
    name[HEIR_BYTES - 1] = '\0';
}

/* --- writing --- */

/* Where a tag is written: one with each lock, so that formats cost too much. */
struct writer {
    char *at;
    const char *end; /* room for the zero is behind it */
};

static void put(struct writer *w, const char *text, size_t n)
{
    size_t room = (size_t)(w->end - w->at);

    n = n < room ? n : room;
    /* a memcpy() of so little gcc 12 makes a rep movs of, at 30 ns each */
    memmove(w->at, text, n);
    w->at += n;
    *w->at = '\0';
}

static void put_number(struct writer *w, uint64_t number)
{
    char digits[21], *at = digits + sizeof(digits) - 1;

    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    put(w, at, (size_t)(digits + sizeof(digits) - 1 - at));
}

static void put_death(struct writer *w, const struct tag *tag)
{
    const char *from = tag->delayed ? delayed_deaths : deaths;
    const char text[] = {'.', from[tag->on_death], '.'};

    put(w, text, sizeof(text));
}

static void put_request(struct writer *w, uint64_t hash)
{
    char text[REQUEST_BYTES];

    for (unsigned i = 0; i < REQUEST_BYTES; i++)
        text[i] = tag_letters[hash >> 4 * i & 15];
    put(w, text, sizeof(text));
}

void tag_write(const struct tag *tag, char out[ENQ_PEER_BYTES])
{
    const struct session *s = tag->session;
    struct writer w = {out, out + ENQ_PEER_BYTES - 1};

    put(&w, tag->peer, strlen(tag->peer));
    if (s == NULL) {
        if (tag->wait_ms > 0) {
            put(&w, "#w", 2);
            put_number(&w, (uint64_t)tag->wait_ms);
        }
        return;
    }
    put(&w, "#", 1);
    put(&w, s->name, SESSION_BYTES - 1);
    put(&w, ".", 1);
    put_number(&w, (uint64_t)s->grace_ms);
    put_death(&w, tag);
    put_number(&w, tag->member);
    put(&w, ".", 1);
    put_request(&w, tag->request);
}

/* --- reading --- */

static bool read_name(const char **at, char name[SESSION_BYTES])
{
    if (strspn(*at, tag_letters) != SESSION_BYTES - 1)
        return false;
    memcpy(name, *at, SESSION_BYTES - 1);
    name[SESSION_BYTES - 1] = '\0';
    *at += SESSION_BYTES - 1;
    return true;
}

/* Digits, and not too many. */
static bool read_number(const char **at, int64_t *number)
{
    size_t n = strspn(*at, "0123456789");

    *number = strtoll(*at, NULL, 10);
    *at += n;
    return n > 0 && n < NUMBER_BYTES;
}

static bool read_point(const char **at)
{
    return *(*at)++ == '.';
}

static bool read_death(const char **at, struct tag_found *tag)
{
    char message = **at;
    const char *plain = strchr(deaths, message),
               *delayed = strchr(delayed_deaths, message);

    if (message == '\0' || (plain == NULL && delayed == NULL))
        return false;
    ++*at;
    tag->delayed = plain == NULL;
    tag->on_death =
        (uint8_t)(plain != NULL ? plain - deaths : delayed - delayed_deaths);
    return true;
}

static bool read_member(const char **at, unsigned *member)
{
    int64_t number;
    bool found = read_number(at, &number) && number < ENQ_SET_MAX;

    *member = found ? (unsigned)number : 0;
    return found;
}

static bool read_request(const char *at, uint64_t *hash)
{
    *hash = 0;
    for (unsigned i = 0; i < REQUEST_BYTES; i++) {
        if (at[i] < 'A' || at[i] > 'P')
            return false;
        *hash |= (uint64_t)(at[i] - 'A') << 4 * i;
    }
    return at[REQUEST_BYTES] == '\0';
}

/* What stands behind the '#'. */
static bool read_rest(const char *at, struct tag_found *tag)
{
    return read_name(&at, tag->session) && read_point(&at) &&
        read_number(&at, &tag->grace_ms) && read_point(&at) &&
        read_death(&at, tag) && read_point(&at) &&
        read_member(&at, &tag->member) && read_point(&at) &&
        read_request(at, &tag->request);
}

bool tag_read(const char *text, struct tag_found *tag)
{
    size_t peer = strcspn(text, "#");

    if (text[peer] != '#' || peer >= sizeof(tag->peer))
        return false;
    memcpy(tag->peer, text, peer);
    tag->peer[peer] = '\0';
    return read_rest(text + peer + 1, tag);
}

static bool is_wait(const char *at)
{
    int64_t ms;

    return *at++ == 'w' && read_number(&at, &ms) && *at == '\0';
}

size_t tag_peer_bytes(const char *text)
{
    size_t peer = strcspn(text, "#");
    struct tag_found tag;

    if (text[peer] == '#' &&
        (is_wait(text + peer + 1) || read_rest(text + peer + 1, &tag)))
        return peer;
    return strlen(text); /* not of a bridge: a '#' is as good as any */
}

int64_t tag_wait_ms(const char *text)
{
    const char *at = text + tag_peer_bytes(text);

    return at[0] == '#' && is_wait(at + 1) ? strtoll(at + 2, NULL, 10) : 0;
}
