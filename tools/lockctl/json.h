/*
 * json.h - a writer of JSON on stdout. It places the commas and escapes the
 * strings; the nesting is its caller's.
 *
 * The names in the table are bytes. What is UTF-8 is written as it is; a
 * byte that is not becomes \u00XX, the letter of that number in Latin-1.
 */
#ifndef JSON_H
#define JSON_H

#include <stdbool.h>
#include <stdint.h>

void json_open(char bracket);
void json_close(char bracket);
void json_end(void);   /* of the text: a new line */
void json_break(void); /* a new line before the next value, to be readable */

void json_key(const char *key);
void json_string(const char *s);
void json_number(int64_t n);
void json_unsigned(uint64_t n);
void json_bool(bool b);
void json_null(void);

/* A key with its value. */
void json_key_string(const char *key, const char *s);
void json_key_number(const char *key, int64_t n);
void json_key_bool(const char *key, bool b);
/* As a string: many readers hold numbers as doubles, exact up to 2^53 only,
   and tokens are above that. */
void json_key_token(const char *key, uint64_t token);
/* ENQ_FOREVER: null. */
void json_key_ttl(const char *key, int64_t ms);

#endif
