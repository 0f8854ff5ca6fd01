/*
 * json.c - see json.h. The one state is whether a comma is due.
 */
#include "json.h"

#include <enq.h>
#include <inttypes.h>
#include <stdio.h>

#include "text.h"

static bool comma_due, line_due;

static void before_value(void)
{
    if (comma_due)
        putchar(',');
    if (line_due)
        putchar('\n');
    line_due = false;
    comma_due = true;
}

void json_open(char bracket)
{
    before_value();
    putchar(bracket);
    comma_due = false;
}

void json_close(char bracket)
{
    putchar(bracket);
    comma_due = true;
    line_due = false;
}

void json_end(void)
{
    putchar('\n');
    comma_due = false;
}

void json_break(void)
{
    line_due = true;
}

/* What is not fit to be shown is escaped. A byte that is no UTF-8 becomes half
   of a surrogate pair, as Python writes and reads it: no other text does. */
static void put_quoted(const char *s)
{
    putchar('"');
    while (*s != '\0') {
        uint32_t code;
        size_t n = text_sequence(s, &code);
        if (n == 0) {
            printf("\\udc%02x", (unsigned char)*s++);
            continue;
        }
        if (!text_is_fit(code)) {
            printf("\\u%04x", (unsigned)code);
        } else {
            if (code == '"' || code == '\\')
                putchar('\\');
            printf("%.*s", (int)n, s);
        }
        s += n;
    }
    putchar('"');
}

void json_key(const char *key)
{
    before_value();
    printf("\"%s\":", key);
    comma_due = false;
}

void json_string(const char *s)
{
    before_value();
    put_quoted(s);
}

void json_number(int64_t n)
{
    before_value();
    printf("%" PRId64, n);
}

void json_unsigned(uint64_t n)
{
    before_value();
    printf("%" PRIu64, n);
}

void json_bool(bool b)
{
    before_value();
    printf(b ? "true" : "false");
}

void json_null(void)
{
    before_value();
    printf("null");
}

void json_key_string(const char *key, const char *s)
{
    json_key(key);
    json_string(s);
}

void json_key_number(const char *key, int64_t n)
{
    json_key(key);
    json_number(n);
}

void json_key_bool(const char *key, bool b)
{
    json_key(key);
    json_bool(b);
}

void json_key_token(const char *key, uint64_t token)
{
    json_key(key);
    before_value();
    printf("\"%" PRIu64 "\"", token);
}

void json_key_ttl(const char *key, int64_t ms)
{
    json_key(key);
    if (ms == ENQ_FOREVER)
        json_null();
    else
        json_number(ms);
}
