/*
 * load.h - the load of the remote rows: one thread that keeps many connections
 * of one server busy. The same code and the same work for every server.
 *
 * connection  one TCP connection, with as many lanes as requests may be under
 *             way on it at once (trial's depth)
 * lane        a key of its own, locked and unlocked in turn: the next request
 *             is sent when the last one was answered
 * dialect     the bytes of a lock and of an unlock, and what a good answer is
 */
#ifndef BENCH_LOAD_LOAD_H
#define BENCH_LOAD_LOAD_H

#include "load/server.h"

#include <string.h>

enum {
    LOAD_DEPTH_MAX = 16,
    LOAD_ASK_BYTES = 320,
    LOAD_GRANT_BYTES = 96,
    LOAD_LETTERS = 8, /* of a key, or a serial number */
};

/* A request of any lane: what differs from one to the next is put in place. */
struct load_text {
    char bytes[LOAD_ASK_BYTES];
    size_t n, key, serial, lane; /* where they go; 0: nowhere */
    const char *end;             /* not NULL: behind it the grant, and this */
};

struct load_lane {
    bool held;         /* the unlock is what comes, or is under way */
    uint8_t grant_n;   /* bytes: what the unlock has to say of the lock */
    uint32_t serial;   /* of the last request */
    uint64_t begun_ns; /* when its lock was asked for */
    char key[LOAD_LETTERS];
    char grant[LOAD_GRANT_BYTES];
};

struct load_dialect {
    void (*write)(struct load_text *lock, struct load_text *unlock,
        const void *arg);
    /* The answer that begins here: its bytes, 0: not all of it is here yet, or
       -1: it does not say that it was done. @lane: whose it is, preset to the
       one that was asked first. */
    int (*hear)(const struct load_lane *lanes, unsigned *lane, const char *at,
        size_t n);
    /* With the answer to a lock: keeps the grant. NULL: there is none. */
    void (*note)(struct load_lane *w, const char *at, size_t n);
    const char *hello; /* said first on each connection; NULL: nothing */
    bool renumber;     /* an unlock has a serial number of its own */
    const void *arg;
};

struct load;

/* Connects; NULL after seat_fail(). */
struct load *load_new(struct seat *s, const struct server *server,
    const struct load_dialect *d);
void load_free(struct load *l);

/* Until *stop of the seat; then until all locks are given back. Counts pairs
   and their times in the slot, and what the server burnt. For act.batch with a
   batch of 1. */
int load_run(struct seat *s, struct load *l);

/* For load_dialect.write. */
void load_put(struct load_text *t, const char *text);
void load_put_key(struct load_text *t);
void load_put_serial(struct load_text *t);
void load_put_lane(struct load_text *t); /* a letter */

/* peers/redis_load.c; @sha: of the script that releases. */
struct load_dialect load_redis_del(void);
struct load_dialect load_redis_safe(const char *sha);

#endif
