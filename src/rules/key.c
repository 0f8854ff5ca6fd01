/*
 * key.c - floor 1: packing and overlap of keys (see key.h). Pure.
 */
#include "rules/key.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "base/hash.h"
#include "base/why.h"

/* Room needed by `text` with its zero, never looking past `limit`. */
static size_t text_bytes(const char *text, size_t limit)
{
    return strnlen(text, limit) + 1;
}

static int pack_name(struct key *key, char *buf, const char *name,
    uint64_t *hash)
{
    size_t n;

    if (name == NULL || name[0] == '\0')
        return why(-EINVAL, "the request has no object name");
    n = text_bytes(name, ENQ_NAME_BYTES);
    if (n > ENQ_NAME_BYTES)
        return why(-ENAMETOOLONG,
            "object name \"%.32s...\" is longer than %d bytes", name,
            ENQ_NAME_BYTES - 1);
    bytes_copy(buf, name, n);
    key->name_bytes = (uint16_t)n;
    /* from the caller's bytes, not from the copy: reading what was just
       written, at another width, stalls */
    *hash = hash_bytes(name, n, *hash);
    key->name_hash = (uint32_t)*hash;
    return 0;
}

static int pack_fields(struct key *key, char *buf, const struct enq_req *req,
    uint64_t *hash)
{
    size_t used = 0;
    uint32_t i;

    key->generic = 0;
    for (i = 0; i < ENQ_KEY_FIELDS_MAX && req->key[i] != NULL; i++) {
        const char *field = req->key[i];
        size_t n = text_bytes(field, ENQ_KEY_BYTES);

        if (n > ENQ_KEY_BYTES - used)
            return why(-ENAMETOOLONG,
                "the key of \"%.64s\" is longer than %d bytes (field %u)", buf,
                ENQ_KEY_BYTES, i + 1);
        bytes_copy(buf + key->name_bytes + used, field, n);
        *hash = hash_bytes(field, n, *hash);
        if (field[0] == '@' && field[1] == '\0' && !(req->literal >> i & 1))
            key->generic |= (uint16_t)(1u << i);
        used += n;
    }
    key->field_bytes = (uint16_t)used;
    key->fields = (uint8_t)i;
    key->literal = (uint16_t)(req->literal & ((1u << i) - 1));
    return 0;
}

int key_pack(struct key *key, char *buf, const struct enq_req *req,
    uint64_t seed)
{
    int rc = pack_name(key, buf, req->name, &seed);

    if (rc == 0)
        rc = pack_fields(key, buf, req, &seed);
    key->bytes = buf;
    key->hash = seed;
    return rc;
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

bool key_overlaps(const struct key *a, const struct key *b)
{
    if (a->fields != b->fields || a->name_bytes != b->name_bytes)
        return false;
    if ((a->generic | b->generic) == 0)
        return a->field_bytes == b->field_bytes &&
            memcmp(a->bytes, b->bytes, key_bytes(a)) == 0;
    return memcmp(a->bytes, b->bytes, a->name_bytes) == 0 &&
        fields_overlap(a, b);
}
