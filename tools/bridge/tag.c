/*
 * tag.c - for whom a lock of ours is held (see tag.h).
 */
#include "tag.h"

#include <stdio.h>
#include <stdlib.h>

/* r, l, k; and with a lock delay R, L, K. */
static const char deaths[] = "rlk", delayed_deaths[] = "RLK";

_Static_assert(PEER_BYTES + SESSION_BYTES + ASK_ID_BYTES <= ENQ_PEER_BYTES + 16,
    "what is longer is cut at its reqUUID");

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
    const char *letters = tag->delayed ? delayed_deaths : deaths;
    const char text[] = {'.', letters[tag->on_death], '.'};

    put(w, text, sizeof(text));
}

/* A reqUUID that does not fit is left out: then a request that is repeated
   after the death of this bridge is asked anew, and finds its own lock in its
   way. Those of our client are short. */
void tag_write(const struct tag *tag, char out[ENQ_PEER_BYTES])
{
    const struct session *s = tag->session;
    struct writer w = {out, out + ENQ_PEER_BYTES - 1};
    size_t n;

    put(&w, tag->peer, strlen(tag->peer));
    if (s == NULL) {
        if (tag->wait_ms > 0) {
            put(&w, "#w", 2);
            put_number(&w, (uint64_t)tag->wait_ms);
        }
        return;
    }
    put(&w, "#", 1);
    put(&w, s->id, SESSION_BYTES - 1);
    put(&w, ".", 1);
    put_number(&w, (uint64_t)s->grace_ms);
    put_death(&w, tag);
    put_number(&w, tag->member);
    put(&w, ".", 1);
    n = strlen(tag->request);
    if (n <= (size_t)(w.end - w.at))
        put(&w, tag->request, n);
}

static bool read_death(char letter, struct tag_found *tag)
{
    const char *plain = strchr(deaths, letter),
               *delayed = strchr(delayed_deaths, letter);

    if (letter == '\0' || (plain == NULL && delayed == NULL))
        return false;
    tag->delayed = plain == NULL;
    tag->on_death =
        (uint8_t)(plain != NULL ? plain - deaths : delayed - delayed_deaths);
    return true;
}

bool tag_read(const char *text, struct tag_found *tag)
{
    size_t peer = tag_peer_bytes(text);
    long long grace;
    char death;
    int at = 0;

    if (text[peer] != '#' || peer >= sizeof(tag->peer))
        return false;
    memcpy(tag->peer, text, peer);
    tag->peer[peer] = '\0';
    if (sscanf(text + peer + 1, "%16[A-Za-z0-9_-].%lld.%c.%u.%n", tag->session,
            &grace, &death, &tag->member, &at) != 4 ||
        at == 0 || strlen(tag->session) != SESSION_BYTES - 1 || grace < 0 ||
        tag->member >= ENQ_SET_MAX)
        return false;
    tag->grace_ms = grace;
    snprintf(tag->request, sizeof(tag->request), "%s", text + peer + 1 + at);
    return read_death(death, tag);
}

size_t tag_peer_bytes(const char *text)
{
    return strcspn(text, "#");
}

int64_t tag_wait_ms(const char *text)
{
    const char *at = text + tag_peer_bytes(text);

    return at[0] == '#' && at[1] == 'w' ? strtoll(at + 2, NULL, 10) : 0;
}
