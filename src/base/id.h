/*
 * id.h - base: names of locks.
 *
 * A random uuid costs 1.9 us of libuuid and half a microsecond of the kernel,
 * many times a whole lock and unlock, so that there is one per session only.
 * A lock that brings no id of its own is named by arithmetic: the first half
 * is its session's, the second the handle. The text is made on demand, and
 * turned back without a search.
 *
 *	byte 0..7    session's half, with version 4 in byte 6
 *	byte 8..15   variant 10b, then the handle's 62 bits that matter
 */
#ifndef BASE_ID_H
#define BASE_ID_H

#include <stdbool.h>
#include <stdint.h>

#define ID_TEXT_BYTES 37 /* with the zero */

/* A random uuid, version 4. Safe in the child of a fork of a busy process. */
void id_random(uint8_t uuid[16]);

/* The session's half of an id: eight bytes of a random uuid. */
uint64_t id_half(const uint8_t uuid[16]);

void id_uuid_text(const uint8_t uuid[16], char text[ID_TEXT_BYTES]);

/* The id of `handle` (62 bits) in the session `half`, as text, and back.
   id_parse is false when the text is not the form of a derived id. */
void id_text(uint64_t half, uint64_t handle, char text[ID_TEXT_BYTES]);
bool id_parse(const char *text, uint64_t *half, uint64_t *handle);

#endif
