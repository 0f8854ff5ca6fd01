/*
 * text.h - texts for people's eyes: names made safe for a terminal, lengths
 * of time, the spec form of an object.
 */
#ifndef TEXT_H
#define TEXT_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TEXT_BYTES 4096 /* room for any cleaned name, owner or key */

/* Bytes of the well-formed UTF-8 sequence at `s`, 0: there is none. */
size_t text_sequence(const char *s, uint32_t *code);

/* May it be shown as it is? Not what a terminal would act upon, nor marks that
   turn the direction of writing. */
bool text_is_fit(uint32_t code);

/* Bytes of the character at `s`, 0: it is no UTF-8, or not fit to be shown. */
size_t text_fit(const char *s);

/* The same at `at` in a name, where a blank at either end, or behind another,
   is not fit either: two blanks separate columns. */
size_t text_fit_name(const char *name, const char *at);

/* Copies a message, with what is not fit to be shown as \xHH for each byte.
   Of one that is too long the end is "...". Returns the length. */
size_t text_clean(char *out, size_t n, const char *in);

/* The same of a name, and no two look the same: a backslash is doubled. */
size_t text_name(char *out, size_t n, const char *in);

/* A name within a sentence: in quotes where it could be taken for a part of
   that. */
size_t text_quoted(char *out, size_t n, const char *in);

/* What does not fit is cut between two characters, and "..." shows it. */
void text_vformat(char *out, size_t n, const char *format, va_list args);
void text_format(char *out, size_t n, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Columns that a cleaned text takes (wide letters count as one). */
size_t text_width(const char *clean);

/* "312ms", "12s", "2m10s", "3h05m", "2d04h"; "none" for ENQ_FOREVER. */
void text_duration(char *out, size_t n, int64_t ms);

/* The same in a sentence, as libenq writes it: "250 ms", "1.5 s", "2 min 10 s".
 */
void text_time(char *out, size_t n, int64_t ms);

/* "2026-01-31T12:00:00.123Z". */
void text_wall_clock(char *out, size_t n, int64_t ms);

#endif
