/*
 * fuzz.h - what the fuzz targets share: bytes to decide by, guarded segments,
 * and damage.
 *
 * A target is a function of bytes. It is run by libFuzzer (fuzz.sh, built by
 * build.mk) and, over the corpus that is kept, by fuzz-run as a plain test.
 * Nothing may crash, touch a byte outside of the segment, go on for ever, or
 * leak, whatever the bytes are.
 */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/attachment.h"
#include "wait/set.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* --- targets --- */

struct target {
    const char *name;
    void (*run)(const uint8_t *data, size_t n);
};

extern const struct target targets[];
const struct target *target_find(const char *name); /* NULL: none */

/* One execution. It may take some seconds of CPU time, and no more. */
void target_run(const struct target *t, const uint8_t *data, size_t n);
void target_watch(void); /* to be called once before */

/* The file of the target "attach", with the number of its process. */
#define ATTACH_FILE "/dev/shm/enq-%sfuzz-attach-%d"

void fuzz_attach(const uint8_t *data, size_t n);
void fuzz_look(const uint8_t *data, size_t n);
void fuzz_hostile(const uint8_t *data, size_t n);
void fuzz_history(const uint8_t *data, size_t n);
void fuzz_texts(const uint8_t *data, size_t n);
void fuzz_scan(const uint8_t *data, size_t n);
void fuzz_json(const uint8_t *data, size_t n);

/* Ends the process: this is a finding. */
void fuzz_fail(const char *format, ...)
    __attribute__((noreturn, format(printf, 1, 2)));

/* --- the bytes that decide --- */

struct feed {
    const uint8_t *at, *end;
};

static inline bool feed_more(const struct feed *f)
{
    return f->at < f->end;
}

/* 0 when there is nothing left. */
static inline uint8_t feed_byte(struct feed *f)
{
    return feed_more(f) ? *f->at++ : 0;
}

static inline uint64_t feed_word(struct feed *f, unsigned bytes)
{
    uint64_t w = 0;

    while (bytes-- > 0)
        w = w << 8 | feed_byte(f);
    return w;
}

/* --- guarded segments --- */

/*
 * A segment in a private mapping of its file; what an execution has written is
 * forgotten by arena_restore(). It stands amid pages without access, wide
 * enough for any reference, so that one byte outside of it traps.
 */
enum arena_kind {
    ARENA_BUSY,    /* locks, waiters, dead ones; cannot grow: what has no
                      memory yet traps as well */
    ARENA_TINY,    /* the same; 64 slots, table "sap", strict */
    ARENA_GROWING, /* as busy, and can grow */
    ARENA_CLEAN,   /* two sessions and no lock */
    ARENA_STRICT,  /* the same; 64 slots, table "sap", strict */
    ARENAS,
};

#define ARENA_SESSIONS 3
#define ARENA_HANDLES 24
#define ARENA_SET 3

struct arena_session {
    struct enq e;
    struct session session; /* as it was, private parts */
    uint32_t *pages;
    struct magazine *magazine, kept;
};

struct arena {
    struct map *map;
    struct thread *t, thread; /* and as it was */
    struct arena_session at[ARENA_SESSIONS];
    struct enq watcher;  /* for looking only */
    uint64_t accessible; /* bytes of the segment */
    bool lifted;         /* for the time being, more are */
    char *image;         /* as it was: up to the first pages of entries */
    bool wild;           /* the index may have been written anywhere */
    int fd;

    enq_handle handles[ARENA_HANDLES];
    unsigned n_handles, handles_made;

    struct thread_slot *dead;
    struct set set; /* it waits; of the second session */
    struct member of_set[ARENA_SET];
};

struct arena *arena_get(enum arena_kind kind);
void arena_restore(struct arena *a);

/* The segment says that it has more pages with memory than it had: then they
   may be touched. */
void arena_lift(struct arena *a);

/* A mapping is moved to where all around it traps, and what is written into it
   stays there; and is given up again. */
void arena_guard(struct map *map);
void arena_unguard(struct map *map);

/* The machine, turned by hand. */
extern int64_t arena_now_ns;
void arena_machine(struct arena *a);

/* What another process writes the so many times that the clock is read from
   now: in the middle of a call. */
void arena_damage_later(unsigned reads, const struct feed *edit);

/* --- damage --- */

/* One edit, as the bytes say. */
void damage(struct arena *a, struct feed *f);

/* Nothing but the description of an edit, to be made later. */
#define DAMAGE_BYTES 14

#endif
