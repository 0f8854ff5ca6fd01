/*
 * frame.c - wire: where a value that comes in pieces may end (see frame.h).
 */
#include "wire/frame.h"

static bool in_text(struct frame *f, char b)
{
    if (f->escape)
        f->escape = false;
    else if (b == '\\')
        f->escape = true;
    else if (b == '"')
        f->text = false;
    return !f->text && f->depth == 0;
}

static bool between(struct frame *f, char b)
{
    switch (b) {
    case '"':
        f->text = true;
        return false;
    case '{':
    case '[':
        f->depth++;
        return false;
    case '}':
    case ']':
        return f->depth == 0 || --f->depth == 0;
    default:
        /* a word or a number is short: scan() sees its end. A number's shows
           by whatever follows. */
        f->word = f->depth == 0;
        return f->word;
    }
}

bool frame_ends(struct frame *f, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (f->word || (f->text ? in_text(f, bytes[i]) : between(f, bytes[i])))
            return true;
    return false;
}
