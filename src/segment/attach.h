/*
 * attach.h - segment: getting and giving back a mapping. All of it under
 * process_enter().
 *
 * Attaching opens the file or, failing that, makes it, and starts again when
 * another process was quicker in between. There is no server that owns the
 * file, and no lock around this: a segment is complete before it has a name
 * (file.c), so that a file under the name is either a whole segment or refused.
 *
 * A map has a use for each attachment and each thread slot of this process, and
 * is unmapped with the last. Neither end tells the segment anything: what a
 * process has in it are its slots, which are given back before.
 */
#ifndef SEGMENT_ATTACH_H
#define SEGMENT_ATTACH_H

#include "segment/header.h"
#include "segment/map.h"

struct map_wish {
    bool readonly;
    bool existing; /* do not create */
    uid_t trusted; /* whose file is used, too; 0 = see file_open() */
    struct header_wish make;
};

/* The map of the segment at `path`, made if need be, with one more user.
   Returns: 0. Faults, explained: see enq_open(). */
int map_attach(const char *path, const struct map_wish *wish, struct map **out);

/* One user less; the last one unmaps. */
void map_put(struct map *map);

/* In a child of fork: the parent's maps are not ours. */
void map_forget_all(void);

#endif
