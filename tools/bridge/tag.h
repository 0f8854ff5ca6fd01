/*
 * tag.h - for whom a lock of ours is held, as it stands in the table with it
 * (see session.h).
 */
#ifndef BRIDGE_TAG_H
#define BRIDGE_TAG_H

#include "bridge.h"

/*
 * A client that tells a session's id is given the session. So nobody but its
 * client has the id: the table, and all that we say, have the session's name,
 * which is made of the id by SHA-1. By that a bridge, this one or the next,
 * knows the client that comes back; from a name nobody gets to the id.
 */
extern const char tag_letters[]; /* 64, that names and ids are made of */
void tag_name(const char *id, char name[SESSION_BYTES]);

/* What a session adopts was made by somebody else, and has no such text: of it
   a number tells (enq_adopt_for), which is the first ten letters of the name.
   An attacker that finds those 60 bits again could have adopted the lock as
   well. */
#define HEIR_BYTES 11 /* as a text, with its zero */
uint64_t tag_heir(const char *name);
bool tag_is_heir(uint64_t heir);
void tag_of_heir(uint64_t heir, char name[HEIR_BYTES]);

struct tag {
    const char *peer;
    const struct session *session; /* or NULL: nobody's */
    uint8_t on_death;
    bool delayed;
    unsigned member;
    uint64_t request; /* hash of its reqUUID */
    int64_t wait_ms;  /* without a session */
};

void tag_write(const struct tag *tag, char out[ENQ_PEER_BYTES]);

struct tag_found {
    char peer[PEER_BYTES], session[SESSION_BYTES];
    uint64_t request;
    int64_t grace_ms;
    uint8_t on_death;
    bool delayed;
    unsigned member;
};

/* False: it names no session, or is none of ours. */
bool tag_read(const char *text, struct tag_found *tag);

/* What a list tells of it: the part before '#', all of it where it is no tag of
   a bridge, and how long a request without a session was to wait. */
size_t tag_peer_bytes(const char *text);
int64_t tag_wait_ms(const char *text);

#endif
