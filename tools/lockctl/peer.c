/*
 * peer.c - see peer.h. Pure.
 */
#include "peer.h"

#include <stdbool.h>
#include <string.h>

#define DIGITS "0123456789"
#define CAPITALS "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define LETTERS CAPITALS "abcdefghijklmnopqrstuvwxyz" DIGITS "-_"
#define NAME_BYTES (PEER_SESSION_BYTES - 1)

/* Passes over bytes of a kind, from least to most of them. */
static bool pass(const char **at, const char *kind, size_t least, size_t most)
{
    size_t n = strspn(*at, kind);

    *at += n;
    return n >= least && n <= most;
}

/* NAME.GRACE.DEATH.MEMBER.REQUEST */
static bool is_session(const char *at)
{
    return pass(&at, LETTERS, NAME_BYTES, NAME_BYTES) && pass(&at, ".", 1, 1) &&
        pass(&at, DIGITS, 1, 19) && pass(&at, ".", 1, 1) &&
        pass(&at, "rlkRLK", 1, 1) && pass(&at, ".", 1, 1) &&
        pass(&at, DIGITS, 1, 2) && pass(&at, ".", 1, 1) &&
        pass(&at, CAPITALS, 16, 16) && *at == '\0';
}

/* wMS: how long a request without a session was to wait */
static bool is_wait(const char *at)
{
    return pass(&at, "w", 1, 1) && pass(&at, DIGITS, 1, 19) && *at == '\0';
}

void peer_read(struct peer *peer, const struct enq_info *info)
{
    size_t host = strcspn(info->peer, "#");
    const char *rest = info->peer + host + (info->peer[host] == '#');
    bool in_session = is_session(rest);

    if (!in_session && !is_wait(rest))
        host = strlen(info->peer);
    *peer = (struct peer){.session = ""};
    memcpy(peer->host, info->peer, host);
    if (in_session)
        memcpy(peer->session, rest, NAME_BYTES);
}
