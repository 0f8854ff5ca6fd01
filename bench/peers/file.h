/*
 * file.h - what flock and OFD locks share: files without a name, so that
 * nothing of them stays whatever we die of, and open file descriptions of them,
 * which own such locks. The kernel ends a lock with its description, so also
 * with its process.
 */
#ifndef BENCH_PEERS_FILE_H
#define BENCH_PEERS_FILE_H

#include "peers/peer.h"

/* A worker's: two descriptions of the same file, so two owners. */
struct file_mine {
    int fd, holder;
    int mode; /* what file_attach() was given for the trial's */
    uint32_t key;
};

int file_new(void); /* a descriptor, or -1 with errno */

/* subject.open, and what it is made of: an arena of @n files. */
int file_arena_open(void **arena, unsigned n);
void file_arena_close(const struct trial *t, void *arena);

/* Each seat opens the file anew: a description that a child inherits would
   share the locks. */
int file_attach(struct seat *s, unsigned index, int shared, int exclusive);
void file_detach(struct seat *s);

#endif
