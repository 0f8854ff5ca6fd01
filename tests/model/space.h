/*
 * space.h - the real table, driven by one thread that never blocks.
 *
 * Several sessions of one process, begun without the library's own thread, so
 * that nothing happens but what is asked for here. The clock stands still
 * until it is turned; each wake-up is noted down. The segment has no name
 * any more as soon as it is mapped: nothing is left behind.
 */
#ifndef MODEL_SPACE_H
#define MODEL_SPACE_H

#include <unistd.h>

#include "api/attachment.h"
#include "bridge.h"

#define SPACE_SESSIONS 4
#define SPACE_ENTRIES 160
#define SPACE_WAKES 64

struct space {
    struct map *map;
    struct thread *t;
    uint64_t life;
    struct enq at[SPACE_SESSIONS];
    struct enq watcher;

    /* the same through a bridge: its sessions, and one that looks on */
    const char *over;
    struct enq *away[SPACE_SESSIONS], *looker;
    struct bridge bridge;
    char address[64], listens[200];

    struct enq_info found[SPACE_ENTRIES];
    size_t n_found;
};

/* The clock of the process, and what was woken since this was set to 0. */
extern int64_t space_now_ns;
extern const uint32_t *space_wakes[SPACE_WAKES];
extern unsigned space_n_wakes;

bool space_open(struct space *s, bool sap, bool strict);
void space_close(struct space *s);

/* --- over.c: in real time, and through a bridge ("unix", "tcp") --- */

bool space_open_over(struct space *s, const char *over, bool sap, bool strict);
void space_close_over(struct space *s);
bool space_begin_over(struct space *s, unsigned i);
bool space_end_over(struct space *s, unsigned i);

static inline struct enq *space_at(struct space *s, unsigned i)
{
    return s->over != NULL ? s->away[i] : &s->at[i];
}

static inline struct enq *space_looker(struct space *s)
{
    return s->over != NULL ? s->looker : &s->watcher;
}

/* Whom the table shows as the holder's process. */
static inline pid_t space_pid(const struct space *s)
{
    return s->over != NULL ? s->bridge.pid : getpid();
}

bool space_begin(struct space *s, unsigned i);
/* As enq_close() does, and as the kernel does. */
bool space_end(struct space *s, unsigned i);
session_ref_t space_kill(struct space *s, unsigned i);

/* Reads all that is there into found[]. */
void space_look(struct space *s);
const struct enq_info *space_find(const struct space *s, enq_handle handle);

/* Is the entry part of the table, even if it has run out? */
bool space_has(const struct space *s, enq_handle handle);

/* Its waiter sleeps like a thread, and is found by a search like one that was
   started: there is one thread here, and thousands wait. */
void space_sleeps(const struct space *s, struct entry *e);
void space_wakes_up(const struct space *s, struct entry *e);
bool space_woke(const struct entry *e);

#endif
