/*
 * refusal.h - api: who is in the way, in words. lockctl has the same words.
 */
#ifndef API_REFUSAL_H
#define API_REFUSAL_H

#include "base/why.h"
#include "enq.h"
#include "rules/key.h"

/* What a refusal says, if anybody asks. */
struct refusal {
    int64_t age_ms, ttl_left_ms;
    int32_t pid;
    int result;
    uint32_t queue;
    uint8_t mode, waiting, dying, fields;
    uint16_t key_bytes, generic;
    char texts[KEY_BYTES_MAX + ENQ_OWNER_BYTES]; /* key, owner */
};
_Static_assert(sizeof(struct refusal) <= WHY_FACTS_BYTES, "room for a refusal");

/* "A", in quotes if it has a character that would be read as ours. */
#define REFUSAL_OWNER_BYTES (ENQ_OWNER_BYTES + sizeof("\"\""))
void refusal_owner(char out[REFUSAL_OWNER_BYTES], const char *owner);

/* "order/4711 is locked by A (mode E, 3 s, pid 4711, ttl 12 min 50 s left)". */
void refusal_words(const void *facts, char *text, size_t n);

/* The same of a lock that has no key here: "locked by A (...)". */
void refusal_by(const struct enq_blocker *b, char *text, size_t n);

/* Why a promotion was refused that @b was in the way of: @rc, explained. */
int refusal_promote(int rc, const struct enq_blocker *b);

#endif
