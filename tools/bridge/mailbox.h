/*
 * mailbox.h - what one loop has to tell another: a message, which its writer
 * makes and its reader frees. Messages of one writer are opened in the order
 * in which they were sent, and between requests, never within one.
 */
#ifndef BRIDGE_MAILBOX_H
#define BRIDGE_MAILBOX_H

#include <pthread.h>
#include <stdbool.h>
#include <urcu/list.h>

struct bridge;

struct message {
    struct cds_list_head node;
    void (*open)(struct bridge *b, struct message *message);
};

struct mailbox {
    pthread_mutex_t mutex; /* guards the list */
    struct cds_list_head messages;
    int fd; /* readable while there are some; -1: nobody writes to us */
};

/* False: no descriptor. */
bool mailbox_begin(struct mailbox *mailbox);
void mailbox_end(struct mailbox *mailbox);

/* By any thread, or by its own. */
void mailbox_send(struct bridge *to, struct message *message);
/* By its loop's thread; or, when that has ended, by the one that cleans up. */
void mailbox_take(struct bridge *b);

#endif
