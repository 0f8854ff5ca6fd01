/*
 * demo.h - the nouns of enq-demo, and what its files offer each other.
 *
 * stage   the lock space of this run, the shared page, and the actors on it
 * actor   a process with one owner that does what the story tells it
 *         (the remote one comes by TCP)
 * worker  a process of the rush: does what chance tells it, at full speed
 * object  what is locked in the rush; guard: what its lock protects there
 * tally   what a worker counts, in the shared page
 * broken  an invariant that did not hold; each one is told, and fails the run
 */
#ifndef DEMO_H
#define DEMO_H

#include <enq.h>

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    ACTORS = 4, /* of this host */
    REMOTE = ACTORS,
    ALL_ACTORS,
    WORKERS_MAX = 16,
    OBJECTS = 8,
    SAMPLES = 1 << 14, /* latencies that a worker keeps, the latest */
    BROKEN_TOLD = 8,
    TEXT_BYTES = 200,
    EXIT_BROKEN = 1,
    EXIT_USAGE = 64,
};

/* Actors ------------------------------------------------------------------- */

enum verb { DO_LOCK, DO_UNLOCK, DO_PROMOTE, DO_LEAVE };

struct order {
    enum verb verb;
    const char *name, *key; /* literals: the same address in every process */
    enum enq_mode mode;
    int64_t wait_ms, ttl_ms;
    struct enq_grant grant; /* of the lock to unlock or promote */
    uint64_t at_ns;         /* not before; 0 = at once */
};

struct answer {
    int rc;
    struct enq_grant grant;
    uint64_t began_ns, ended_ns;
    char why[TEXT_BYTES];
};

struct actor {
    char owner[2];
    char space[64];
    pid_t pid;
    sem_t go, done;
    struct order order;
    struct answer answer;
};

/* The rush ----------------------------------------------------------------- */

/* An object covers itself, or with the key "@" a range of others. */
struct object {
    const char *name, *key;
    unsigned first, n;
};
extern const struct object objects[OBJECTS];

enum { OBJECT_HOT = 0 }; /* product [Computer] */

struct guard {
    _Alignas(64) _Atomic uint32_t holder; /* worker + 1 that holds E or X */
    _Atomic uint32_t readers;
    _Atomic uint64_t token_shared; /* the highest of S and O */
    volatile uint64_t token;       /* of the last E or X; under that lock */
    volatile uint64_t writes;      /* likewise */
};

struct tally {
    _Alignas(64) pid_t pid;
    _Atomic uint32_t waits_for; /* object + 1 */
    _Atomic bool pose, posed, condemned;
    uint64_t grants[ENQ_MODE_O + 1], generic, cumulated;
    uint64_t refused, promoted, lost;
    uint64_t wrote[OBJECTS];
    uint64_t longest_ns, n_samples;
    uint32_t sample_ns[SAMPLES];
};

struct page {
    struct actor actors[ALL_ACTORS];
    struct guard guards[OBJECTS];
    struct tally tallies[WORKERS_MAX];
    _Atomic uint32_t stop;
    _Atomic uint64_t kill_ns, heir_ns; /* a holder was killed; next grant */
    _Atomic uint32_t heir;
    _Atomic uint32_t broken;
    char broken_text[BROKEN_TOLD][TEXT_BYTES];
};

/* A worker's own, in its process. */
struct worker {
    struct page *page;
    struct tally *tally;
    unsigned index;
    struct enq *e;
    struct enq_req req;
    struct enq_grant grant;
    uint64_t random;
    char owner[2];
};

_Noreturn void worker_run(struct page *p, unsigned index, uint64_t seed);

void guard_enter(struct worker *w, unsigned object, uint64_t token);
void guard_write(struct worker *w, unsigned object);
void guard_leave(struct worker *w, unsigned object);
uint64_t guard_share(struct worker *w, unsigned object, uint64_t token);
void guard_unshare(struct worker *w, unsigned object, uint64_t seen);
uint64_t guard_writes(struct worker *w, unsigned object);

/* The stage ---------------------------------------------------------------- */

struct stage {
    struct page *page;
    struct enq *e; /* the parent's own, for looking; opened late */
    const char *lockctl, *bridge; /* paths */
    pid_t bridge_pid;
    unsigned port; /* the bridge's */
    unsigned workers;
    double seconds;
    uint64_t seed;
    pid_t janitor;
    int janitor_fd;
};

const char *stage_space(void);
int stage_begin(struct stage *st);
int stage_look(struct stage *st); /* opens st->e */
void stage_end(struct stage *st);
pid_t stage_fork(void); /* as fork(); the child dies with us */
int stage_pause(double seconds);
int stage_signal(void); /* 0, or the one that came */

int bridge_begin(struct stage *st); /* on any free port, or the last one */
void bridge_end(struct stage *st, int sig);

int actors_begin(struct stage *st);
int remote_begin(struct stage *st);
void actors_end(struct stage *st);
void actor_begin(struct actor *a, struct order o);
int actor_end(struct actor *a); /* 0; -1: no answer */
int actor_do(struct actor *a, struct order o);

/* All scenes: 0, or -1 when the show cannot go on. */
int scene_told(struct stage *st);
int scene_generic(struct stage *st);
int scene_optimistic(struct stage *st);
int scene_expiry(struct stage *st);
int scene_rush(struct stage *st);
int scene_remote(struct stage *st);
int scene_table(struct stage *st);
int scene_end(struct stage *st);

/* Telling ------------------------------------------------------------------ */

uint64_t now_ns(void);
const char *show_ns(char *out, size_t n, uint64_t ns);
void say_begin(void);
void say_scene(const char *title);
void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_quote(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_good(const char *format, ...) __attribute__((format(printf, 1, 2)));
void say_alarm(const char *format, ...) __attribute__((format(printf, 1, 2)));

void broken(struct page *p, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool expect(struct page *p, bool held, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
int broken_report(struct page *p); /* how many, each told */

#endif
