/*
 * header.h - segment: the header of a segment: written, read, refused.
 *
 * A segment means something only to processes that agree with its maker about
 *
 *	the layout	version, and a hash of what compiler and libc chose
 *	the boot	clock, threads and robust lists end with it: a segment
 *			of an earlier boot is stale, and is replaced
 *	the clock	time namespaces shift it: another one is refused
 *	the sizes	all follow from `slots_max`, and are compared with that,
 *			the checksum, and the file's length
 *
 * header_check() judges a private copy, so that nothing changes after the
 * check. `checksum` is against accidents, not against an enemy.
 */
#ifndef SEGMENT_HEADER_H
#define SEGMENT_HEADER_H

#include "segment/layout.h"

struct header_wish {
    uint32_t slots;
    uint32_t compat;
    uint32_t strict;
    uint32_t mode;
    uint64_t token_above; /* tokens must be greater than this */
};

/* Fills a new header, all but magic. Faults, explained: -EIO and the like when
   the boot cannot be told from others. */
int header_make(struct seg_header *h, const struct header_wish *wish);

/*
 * From what the tokens begin of a space that is made now. Tokens must grow over
 * the loss of a segment and over a reboot. So they start at the ns since 1970,
 * and at the first grant, not when the segment is made (lock/token.h): before it
 * gets its name another may have lived under it. No table grants 10^9 locks a
 * second for all its life, so that whatever is made later starts higher (P5).
 */
uint64_t header_token_start(uint64_t above);

/* The size of the file for so many locks. */
uint64_t header_file_bytes(uint32_t slots);

enum header_verdict {
    HEADER_FINE = 0,
    HEADER_STALE = 1, /* of an earlier boot: may be replaced */
};

/* Judges the header of a file of `bytes` bytes. Returns: enum header_verdict.
   Faults, explained: ENQ_ECORRUPT, ENQ_EVERSION, ENQ_ENAMESPACE. */
int header_check(const struct seg_header *h, uint64_t bytes, const char *path);

#endif
