/*
 * bridge.h - an enq-bridge of a test's own: the program beside the test's.
 */
#ifndef TESTS_BRIDGE_H
#define TESTS_BRIDGE_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct bridge {
    pid_t pid; /* 0: none */
    int said;  /* its messages; read until it is ready */
    char text[2000];
    size_t n;
};

/* Starts one for this space, to listen there ("unix:/tmp/x"); it dies with the
   thread that starts it. False: errno says why not. */
bool bridge_launch(struct bridge *b, const char *space, const char *listen);

enum bridge_state { BRIDGE_STARTS, BRIDGE_READY, BRIDGE_GONE };

/* Waits so long for it to be ready; `text` is what it has said so far. */
enum bridge_state bridge_wait(struct bridge *b, int wait_ms);

/* The port that it has been given; 0: none. */
unsigned bridge_port(const struct bridge *b);

/* It has ended: its status. */
int bridge_reap(struct bridge *b);

#endif
