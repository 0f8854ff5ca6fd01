/*
 * id.c - floor 0: names of locks (see id.h).
 */
#include "base/id.h"

#include <string.h>
#include <uuid/uuid.h>

#define HANDLE_BITS ((UINT64_C(1) << 62) - 1)
#define VARIANT (UINT64_C(2) << 62)

/* Consecutive handles give ids that do not look alike: an odd factor is
   undone by its inverse. Both modulo 2^62. */
#define SPREAD UINT64_C(0x1e3779b97f4a7c15)

static uint64_t inverse(uint64_t odd)
{
    uint64_t x = odd;

    for (int i = 0; i < 6; i++)
        x *= 2 - odd * x;
    return x;
}

static void put_be64(uint8_t *p, uint64_t v)
{
    for (int i = 7; i >= 0; i--, v >>= 8)
        p[i] = (uint8_t)v;
}

static uint64_t get_be64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 0; i < 8; i++)
        v = v << 8 | p[i];
    return v;
}

void id_random(uint8_t uuid[16])
{
    uuid_generate_random(uuid);
}

uint64_t id_half(const uint8_t uuid[16])
{
    return get_be64(uuid);
}

void id_uuid_text(const uint8_t uuid[16], char text[ID_TEXT_BYTES])
{
    uuid_unparse_lower(uuid, text);
}

void id_text(uint64_t half, uint64_t handle, char text[ID_TEXT_BYTES])
{
    uint8_t uuid[16];

    put_be64(uuid, half);
    put_be64(uuid + 8, VARIANT | ((handle * SPREAD) & HANDLE_BITS));
    uuid_unparse_lower(uuid, text);
}

bool id_parse(const char *text, uint64_t *half, uint64_t *handle)
{
    uint8_t uuid[16];

    if (strlen(text) != ID_TEXT_BYTES - 1 || uuid_parse(text, uuid) != 0)
        return false;
    if (uuid[8] >> 6 != 2)
        return false;
    *half = get_be64(uuid);
    *handle =
        ((get_be64(uuid + 8) & HANDLE_BITS) * inverse(SPREAD)) & HANDLE_BITS;
    return true;
}
