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
    uint64_t hash; /* of name and fields */
};

/*
 * Packs what a request says into buf, which the key then points into.
 * KEY_BYTES_MAX are enough for any. Returns: 0. Faults: -EINVAL,
 * -ENAMETOOLONG (explained); -ENOBUFS, it needs more than `room`.
 */
int key_pack(struct key *key, char *buf, size_t room, const struct enq_req *req,
    uint64_t seed);

bool key_overlaps(const struct key *a, const struct key *b);

static inline size_t key_bytes(const struct key *k)
{
    return (size_t)k->name_bytes + k->field_bytes;
}

#endif
