/*
 * key.h - rules: what is locked, in packed form, and what overlaps.
 *
 * A key is the object name and up to 16 fields, each ended by a zero byte,
 * all in one run of bytes:
 *
 *	"product\0" "Computer\0" "@\0"
 *	 name_bytes  `------ field_bytes
 *
 * A field is generic when it is "@" and not marked literal. Two keys overlap
 * iff the names are equal, they have as many fields, and each field is equal
 * or generic in one of them (SEMANTICS R1). So two concrete keys overlap iff
 * their bytes are equal.
 */
#ifndef RULES_KEY_H
#define RULES_KEY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "enq.h"

#define KEY_BYTES_MAX (ENQ_NAME_BYTES + ENQ_KEY_BYTES)

struct key {
    const char *bytes;
    uint16_t name_bytes; /* with its zero */
    uint16_t field_bytes;
    uint16_t generic; /* bit per field */
    uint16_t literal; /* bit per field: an "@" that means itself */
    uint8_t fields;
    uint32_t name_hash;
    uint64_t hash; /* of name and fields; of a generic key: its digest */
};

/*
 * Packs what a request says into buf, which the key then points into.
 * KEY_BYTES_MAX are enough for any. Returns: 0. Faults: -EINVAL,
 * -ENAMETOOLONG (explained); -ENOBUFS, it needs more than `room`.
 */
int key_pack(struct key *key, char *buf, size_t room, const struct enq_req *req,
    uint64_t seed);

bool key_overlaps(const struct key *a, const struct key *b);

/*
 * Nearly all keys that do not overlap are told apart by one word of each. The
 * digest of a key has a lane of 16, 8 or 4 bits for each field, as many as fit:
 * 0 where it is generic, else the top bit and some bits of the field's hash.
 * (Signature files: Faloutsos and Christodoulakis, 1984.) The name is not in it.
 */
uint64_t key_digest(const struct key *key, uint64_t seed);

/* Overlaps all keys of the name that have as many fields. */
static inline struct key key_any(const struct key *key)
{
    struct key any = *key;

    any.generic = (uint16_t)((1u << key->fields) - 1);
    any.hash = 0; /* the digest of nothing concrete */
    return any;
}

static inline uint64_t key_lane_tops(unsigned fields)
{
    return fields <= 4 ? UINT64_C(0x8000800080008000)
        : fields <= 8  ? UINT64_C(0x8080808080808080)
                       : UINT64_C(0x8888888888888888);
}

/* By the digests of two keys that have as many fields. A lane in which both
   have something, and not the same, is a field that differs: the addition
   carries into the top bit of each lane of which another bit is set. */
static inline bool key_may_overlap(uint64_t a, uint64_t b, unsigned fields)
{
    uint64_t tops = key_lane_tops(fields);
    uint64_t differ = ((a ^ b) & ~tops) + ~tops;

    return (a & b & differ & tops) == 0;
}

static inline size_t key_bytes(const struct key *k)
{
    return (size_t)k->name_bytes + k->field_bytes;
}

#endif
