/*
 * text.h - texts for people's eyes: names made safe for a terminal, lengths
 * of time, the spec form of an object.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stddef.h>
#include <stdint.h>

#define TEXT_BYTES 4096 /* room for any cleaned name, owner or key */

/* Bytes of the well-formed UTF-8 sequence at `s`, 0: there is none. */
size_t text_sequence(const char *s, uint32_t *code);

/*
 * text_clean - copy `in`, with what a terminal would act upon (control
 * characters, bytes that are no UTF-8, marks that turn the direction of
 * writing) as \xHH for each byte. Cut at n - 1 bytes at most. Returns the
 * length.
 */
size_t text_clean(char *out, size_t n, const char *in);

/* Columns that a cleaned text takes (wide letters count as one). */
size_t text_width(const char *clean);

/* "312ms", "12s", "2m10s", "3h05m", "2d04h"; "none" for ENQ_FOREVER. */
void text_duration(char *out, size_t n, int64_t ms);

/* "2026-01-31T12:00:00.123Z". */
void text_wall_clock(char *out, size_t n, int64_t ms);

#endif
