/*
 * tag.h - for whom a lock of ours is held, as it stands in the table with it
 * (see session.h).
 */
#ifndef BRIDGE_TAG_H
#define BRIDGE_TAG_H

#include "bridge.h"

struct tag {
    const char *peer;
    const struct session *session; /* or NULL: nobody's */
    uint8_t on_death;
    bool delayed;
    unsigned member;
    const char *request; /* its reqUUID */
    int64_t wait_ms;     /* without a session */
};

void tag_write(const struct tag *tag, char out[ENQ_PEER_BYTES]);

struct tag_found {
    char peer[PEER_BYTES], session[SESSION_BYTES], request[ASK_ID_BYTES];
    int64_t grace_ms;
    uint8_t on_death;
    bool delayed;
    unsigned member;
};

/* False: it names no session, or is none of ours. */
bool tag_read(const char *text, struct tag_found *tag);

/* What a list tells of it: the part before '#', and how long a request without
   a session was to wait. */
size_t tag_peer_bytes(const char *text);
int64_t tag_wait_ms(const char *text);

#endif
