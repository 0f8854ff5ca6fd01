/*
 * post.h - what one loop has to tell another: a letter, which its writer makes
 * and who opens it frees. Letters of one writer are opened in the order in
 * which they were sent, and between requests, never within one.
 */
#ifndef BRIDGE_POST_H
#define BRIDGE_POST_H

#include <pthread.h>
#include <stdbool.h>
#include <urcu/list.h>

struct bridge;

struct letter {
    struct cds_list_head node;
    void (*open)(struct bridge *b, struct letter *letter);
};

struct post {
    pthread_mutex_t mutex; /* guards the list */
    struct cds_list_head letters;
    int fd; /* readable while there are some; -1: nobody writes to us */
};

/* False: no descriptor. */
bool post_begin(struct post *post);
void post_end(struct post *post);

/* By any thread, or by its own. */
void post_send(struct bridge *to, struct letter *letter);
/* By its loop's thread; or, when that has ended, by whoever cleans up. */
void post_take(struct bridge *b);

#endif
