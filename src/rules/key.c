/*
 * key.c - rules: packing and overlap of keys (see key.h). Pure.
 */
#include "rules/key.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/hash.h"
#include "base/why.h"

/* --- what does not fit --- */

static int name_too_long(const char *name)
{
    return why(-ENAMETOOLONG,
        "object name \"%.32s...\" is longer than %d bytes", name,
        ENQ_NAME_BYTES - 1);
}

/* More than `room`; more than a key may have at all? */
static int fields_too_long(const char *name, uint32_t field, size_t bytes)
{
    if (bytes <= ENQ_KEY_BYTES)
        return -ENOBUFS;
    return why(-ENAMETOOLONG,
        "the key of \"%s\" is longer than %d bytes (field %u)", name,
        ENQ_KEY_BYTES, field + 1);
}

/* --- holes --- */

/* Is there a field behind the first NULL, which is at @i? All of the array is
   looked at, a load for each. */
static inline bool has_more(const char *const *key, unsigned i)
{
    uintptr_t found = 0;

    __asm__("" : "+r"(found)); /* else gcc jumps from each case to the next */
#define LOOK(at)                                                               \
    case (at)-1:                                                               \
        found |= (uintptr_t)key[at];                                           \
        __attribute__((fallthrough));

    switch (i) {
        LOOK(1)
        LOOK(2)
        LOOK(3)
        LOOK(4)
        LOOK(5)
        LOOK(6)
        LOOK(7)
        LOOK(8)
        LOOK(9)
        LOOK(10)
        LOOK(11)
        LOOK(12)
        LOOK(13)
        LOOK(14)
        LOOK(15)
    default:
        return found != 0;
    }
#undef LOOK
}

static int hole_in(const struct enq_req *req, unsigned i)
{
    unsigned next = i;

    while (req->key[next] == NULL)
        next++;
    return why(-EINVAL,
        "field %u of the key of \"%s\" is NULL, but field %u is not: the first "
        "NULL ends a key; an empty field is \"\"",
        i + 1, req->name, next + 1);
}

/* --- packing --- */

/* Fields that are "@": bits of those in @at; of these some mean themselves. */
static __attribute__((noinline)) void pack_at_signs(struct key *key,
    unsigned at, unsigned literal, uint64_t seed)
{
    key->literal = (uint16_t)(literal & at);
    key->generic = (uint16_t)(at & ~literal);
    if (key->generic != 0)
        key->hash = key_digest(key, seed);
}

/* Hashed while they are copied, from the caller's bytes: to read what was just
   written, at another width, stalls. */
static inline int pack_fields(struct key *key, char *buf, size_t room,
    const struct enq_req *req, uint64_t seed)
{
    char *at = buf, *end = buf + (room < ENQ_KEY_BYTES ? room : ENQ_KEY_BYTES);
    uint64_t hash = key->hash;
    unsigned generic = 0, i;
    const char *field;

    for (i = 0; i < ENQ_KEY_FIELDS_MAX && (field = req->key[i]) != NULL; i++) {
        size_t n = strlen(field) + 1;

        if (unlikely(n > (size_t)(end - at)))
            return fields_too_long(req->name, i, (size_t)(at - buf) + n);
        if (n == 2 && field[0] == '@')
            generic |= 1u << i;
        hash = hash_copy(at, field, n, hash);
        at += n;
    }
    if (unlikely(has_more(req->key, i)))
        return hole_in(req, i);
    key->hash = hash;
    key->field_bytes = (uint16_t)(at - buf);
    key->fields = (uint8_t)i;
    key->literal = key->generic = 0;
    if (unlikely(generic != 0))
        pack_at_signs(key, generic, req->literal, seed);
    return 0;
}

int key_pack(struct key *key, char *buf, size_t room, const struct enq_req *req,
    uint64_t seed)
{
    const char *name = req->name;
    size_t n;

    if (unlikely(name == NULL || name[0] == '\0'))
        return why(-EINVAL, "the request has no object name");
    n = strlen(name) + 1;
    if (unlikely(n > ENQ_NAME_BYTES))
        return name_too_long(name);
    if (unlikely(n > room))
        return -ENOBUFS;
    key->bytes = buf;
    key->name_bytes = (uint16_t)n;
    key->hash = hash_copy(buf, name, n, seed);
    key->name_hash = (uint32_t)key->hash;
    return pack_fields(key, buf + n, room - n, req, seed);
}

/* --- overlap --- */

/* Of a key read from the segment, too, whose texts may be anything: see
   fields_overlap(). */
uint64_t key_digest(const struct key *key, uint64_t seed)
{
    const char *p = key->bytes + key->name_bytes;
    const char *end = key->bytes + key_bytes(key);
    unsigned lane = (unsigned)__builtin_ctzll(key_lane_tops(key->fields)) + 1;
    uint64_t top = UINT64_C(1) << (lane - 1), digest = 0;

    for (unsigned i = 0; i < key->fields && p < end; i++) {
        size_t n = strlen(p) + 1;

        if (!(key->generic >> i & 1))
            digest |= (top | (hash_bytes(p, n, seed) & (top - 1))) << i * lane;
        p += n;
    }
    return digest;
}

/* The last byte of a key is a zero, also of one read from the segment; that
   it has as many zeros as fields is not sure there, hence the ends. */
static bool fields_overlap(const struct key *a, const struct key *b)
{
    const char *p = a->bytes + a->name_bytes, *p_end = a->bytes + key_bytes(a);
    const char *q = b->bytes + b->name_bytes, *q_end = b->bytes + key_bytes(b);

    for (unsigned i = 0; i < a->fields; i++) {
        if (p >= p_end || q >= q_end)
            return false;
        if (!((a->generic | b->generic) >> i & 1) && strcmp(p, q) != 0)
            return false;
        p += strlen(p) + 1;
        q += strlen(q) + 1;
    }
    return true;
}

/* "@" in each field. */
static bool is_all(const struct key *key)
{
    return key->generic == (1u << key->fields) - 1;
}

bool key_overlaps(const struct key *a, const struct key *b)
{
    if (a->fields != b->fields || a->name_bytes != b->name_bytes)
        return false;
    if ((a->generic | b->generic) == 0)
        return a->field_bytes == b->field_bytes &&
            memcmp(a->bytes, b->bytes, key_bytes(a)) == 0;
    return memcmp(a->bytes, b->bytes, a->name_bytes) == 0 &&
        (is_all(a) || fields_overlap(a, b));
}
