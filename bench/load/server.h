/*
 * server.h - a server of our own: a child that is there while it is measured,
 * and goes with us whatever we die of.
 */
#ifndef BENCH_LOAD_SERVER_H
#define BENCH_LOAD_SERVER_H

#include "harness/bench.h"

#include <sys/types.h>

#define SERVER_HOST "127.0.0.1"

enum { SERVER_PORT_BYTES = 8, SERVER_PATH_BYTES = 96 };

struct server {
    pid_t pid;                    /* 0: none */
    int sig;                      /* that ends it; 0: SIGKILL */
    char port[SERVER_PORT_BYTES]; /* of SERVER_HOST; "0": none */
    char path[SERVER_PATH_BYTES]; /* of its unix socket; "": none */
};

/* A port that nobody listens on now. 0, or an errno. */
int server_pick_port(struct server *s);

/* Starts @argv, which is not heard, and waits until @answers(@arg). 0, or an
   errno; then there is nothing to end. */
int server_start(struct server *s, char *const argv[],
    bool (*answers)(const void *arg), const void *arg);
void server_end(struct server *s);

/* Somebody listens there; for server_start(). @server: the same one. */
bool server_listens(const void *server);

/* A blocking connection without delay, or -1 with errno. */
int server_connect(const struct server *s);
/* The same to its unix socket. */
int server_connect_local(const struct server *s);

/* Of all its threads, up to now. */
uint64_t server_cpu_ns(const struct server *s);

/* Is there such a program in the PATH? */
bool server_in_path(const char *program);

/* As many descriptors as this process may have. */
void server_raise_files(void);

/* NULL, or why there cannot be @n more descriptors. */
const char *server_few_files(uint64_t n);

#endif
