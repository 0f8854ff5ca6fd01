/*
 * frame.h - wire: where a value that comes in pieces may end.
 */
#ifndef WIRE_FRAME_H
#define WIRE_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Where the value under way may end: for one that comes in pieces, so that each
 * byte is looked at once, however small they are. Begin with zeros. False: not
 * within these bytes. True is a guess: scan() decides.
 */
struct frame {
    uint32_t depth;
    bool text, escape, word;
};

bool frame_ends(struct frame *f, const char *bytes, size_t n);

#endif
