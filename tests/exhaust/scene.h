/*
 * scene.h - what the calls under test are made on: a space with locks that
 * somebody left behind, an attachment, locks of its own; and the calls.
 */
#ifndef EXHAUST_SCENE_H
#define EXHAUST_SCENE_H

#include <pthread.h>
#include <semaphore.h>

#include "frame.h"

#define SCENE_MINE 6
#define SCENE_OPEN 8
#define SCENE_LEFT 3 /* "keep-0" ... and "spare-0" ... */

struct scene {
    char path[256];
    struct enq *open[SCENE_OPEN]; /* open[0] is the one under test */
    unsigned n_open;
    struct enq_grant mine[SCENE_MINE]; /* of open[0]; those used are skipped */
    unsigned used;
    unsigned acts;
    enq_handle grown[2];
    bool left; /* the locks of the dead are there */

    /* a thread that does as it is told */
    pthread_t thread;
    sem_t go, done;
    int (*job)(struct scene *s);
    int job_result;
    char job_why[512];
    bool has_thread;
};

/* A call under test. */
struct op {
    const char *name;
    const char *call; /* whose documentation says what it may answer */
    void (*prepare)(struct scene *s);
    int (*act)(struct scene *s);
    int natural; /* what it answers when nothing fails */
};

extern const struct op ops[];

/* Those of sets.c. */
int do_lock_2(struct scene *s);
int do_lock_8(struct scene *s);
int do_lock_20(struct scene *s);
int do_lock_20_with_heartbeats(struct scene *s);
int do_wait_for_2(struct scene *s);
int do_wait_for_20(struct scene *s);
int do_start_2(struct scene *s);
int do_start_20(struct scene *s);
int do_start_20_granted(struct scene *s);
int do_unlock_set(struct scene *s);

/* The test of one of them: each n-th failure. */
void fail_all(const void *op);

/* After the last act: closes all. */
void scene_end(struct scene *s);

#endif
