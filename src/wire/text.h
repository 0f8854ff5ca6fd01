/*
 * text.h - wire: JSON into a buffer that grows.
 */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Without memory it takes no more, and says so: its sender asks once. */
struct text {
    char *bytes;
    size_t n, room;
    bool failed;
};

bool text_grow(struct text *t, size_t more);
void text_free(struct text *t);

static inline bool text_room(struct text *t, size_t more)
{
    return t->room - t->n >= more || text_grow(t, more);
}

static inline void text_put(struct text *t, const char *bytes, size_t n)
{
    if (n == 0 || !text_room(t, n))
        return;
    memcpy(t->bytes + t->n, bytes, n);
    t->n += n;
}

/* A literal. */
#define TEXT_PUT(t, literal) text_put(t, literal, sizeof(literal) - 1)

/* Does it come through text_quote() as it is? */
bool text_is_utf8(const char *text);
/* In quotes, escaped; what is no UTF-8 becomes U+FFFD. */
void text_quote(struct text *t, const char *text);
/* For a person: without the quotes, and '"' and '\' as they are. */
void text_line(struct text *t, const char *text);
void text_unsigned(struct text *t, uint64_t number);
void text_integer(struct text *t, int64_t number);

/* `,"name":` and a value. @name: a literal without anything to escape. A number
   that JavaScript cannot hold is a text. */
static inline void text_member(struct text *t, const char *name)
{
    size_t n = strlen(name);

    if (!text_room(t, n + 4))
        return;
    memcpy(t->bytes + t->n, ",\"", 2);
    memcpy(t->bytes + t->n + 2, name, n);
    memcpy(t->bytes + t->n + 2 + n, "\":", 2);
    t->n += n + 4;
}

void text_member_text(struct text *t, const char *name, const char *value);
void text_member_number(struct text *t, const char *name, int64_t value);
void text_member_big(struct text *t, const char *name, uint64_t value);

#endif
