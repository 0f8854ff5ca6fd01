/*
 * id.c - base: names of locks (see id.h).
 */
#include "base/id.h"

#include <endian.h>
#include <string.h>
#include <sys/random.h>
#include <uuid/uuid.h>

#define HANDLE_BITS ((UINT64_C(1) << 62) - 1)
#define VARIANT (UINT64_C(2) << 62)

/* Consecutive handles give ids that do not look alike: an odd factor is
   undone by its inverse. Both modulo 2^62. */
#define SPREAD UINT64_C(0x1e3779b97f4a7c15)
#define GATHER UINT64_C(0x31de83e19937733d)

_Static_assert(((SPREAD * GATHER) & HANDLE_BITS) == 1, "they are inverse");

static uint64_t get_be64(const uint8_t *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return be64toh(v);
}

/*
 * The kernel's bytes, not uuid_generate_random(): that one calls srandom() each
 * time, so that a program which seeds random() gets other numbers than it asked
 * for; and glibc's lock around it is not set free in the child of a fork, where
 * the next call then waits for ever. libuuid is asked only where a filter
 * refuses getrandom(2).
 */
void id_random(uint8_t uuid[16])
{
    if (getrandom(uuid, 16, 0) != 16)
        uuid_generate_random(uuid);
    uuid[6] &= 0x0f;
    uuid[6] |= 0x40; /* version 4, random */
    uuid[8] &= 0x3f;
    uuid[8] |= 0x80; /* variant 10b, RFC 4122 */
}

uint64_t id_half(const uint8_t uuid[16])
{
    return get_be64(uuid);
}

void id_uuid_text(const uint8_t uuid[16], char text[ID_TEXT_BYTES])
{
    uuid_unparse_lower(uuid, text);
}

/* The top eight digits of v, most significant first, four bits in each byte:
   spread by shifts, then 10 to 15 are lifted to the letters. */
static uint64_t digits8(uint32_t v)
{
    uint64_t x = __builtin_bswap32(v), letters;

    x = (x | x << 16) & UINT64_C(0x0000ffff0000ffff);
    x = (x | x << 8) & UINT64_C(0x00ff00ff00ff00ff);
    x = (x >> 4 & UINT64_C(0x000f000f000f000f)) |
        (x & UINT64_C(0x000f000f000f000f)) << 8;
    letters =
        (x + UINT64_C(0x0606060606060606)) >> 4 & UINT64_C(0x0101010101010101);
    return htole64(x + UINT64_C(0x3030303030303030) +
        letters * ('a' - '9' - 1));
}

/* Each refusal carries an id: libuuid's own takes three times as long. */
void id_text(uint64_t half, uint64_t handle, char text[ID_TEXT_BYTES])
{
    uint64_t low = VARIANT | ((handle * SPREAD) & HANDLE_BITS);
    uint64_t digits[4] = {digits8((uint32_t)(half >> 32)),
        digits8((uint32_t)half), digits8((uint32_t)(low >> 32)),
        digits8((uint32_t)low)};
    const char *p = (const char *)digits;

    memcpy(text, p, 8);
    memcpy(text + 9, p + 8, 4);
    memcpy(text + 14, p + 12, 4);
    memcpy(text + 19, p + 16, 4);
    memcpy(text + 24, p + 20, 12);
    text[8] = text[13] = text[18] = text[23] = '-';
    text[36] = '\0';
}

bool id_parse(const char *text, uint64_t *half, uint64_t *handle)
{
    uint8_t uuid[16];

    if (strlen(text) != ID_TEXT_BYTES - 1 || uuid_parse(text, uuid) != 0)
        return false;
    if (uuid[8] >> 6 != 2)
        return false;
    *half = get_be64(uuid);
    *handle = (get_be64(uuid + 8) * GATHER) & HANDLE_BITS;
    return true;
}
