/*
 * options.h - how enq-bridge was asked to run. Set once, before the loop.
 */
#ifndef BRIDGE_OPTIONS_H
#define BRIDGE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire/names.h"

#define LISTENERS_MAX 16

/*
 * Every resource that a client can ask for has a number: name of the flag,
 * default, least, most, what it is. One list gives flags, --help, the
 * environment's names and what hello tells.
 */
#define LIMIT_MAP(X)                                                           \
    X(request_bytes, WIRE_max_request, 65536, 256, 16777216,                   \
        "bytes of a request")                                                  \
    X(request_s, "request-time", 10, 1, 3600,                                  \
        "seconds from the first byte of a request to its last")                \
    X(output_bytes, "max-output", 1048576, 4096, 1073741824,                   \
        "bytes of replies that a client has not read")                         \
    X(lists_bytes, "max-lists", 268435456, 65536, 68719476736,                 \
        "bytes of unread lists of all clients: beyond, lists are refused")     \
    X(partial_bytes, "max-partial", 67108864, 65536, 68719476736,              \
        "bytes of requests of all clients that have only begun")               \
    X(read_s, "read-time", 30, 1, 3600,                                        \
        "seconds after which a client that reads none of its replies is cut "  \
        "off")                                                                 \
    X(replies_bytes, "max-replies", 67108864, 65536, 68719476736,              \
        "bytes of unread replies of all clients, except lists")                \
    X(idle_s, "idle-time", 300, 1, 86400,                                      \
        "seconds after which a connection that says nothing, waits for "       \
        "nothing, and has no session is closed")                               \
    X(peer_connections, "peer-connections", 5000, 1, 1000000,                  \
        "connections of one address, or user of a unix socket")                \
    X(peer_sessions, "peer-sessions", 5000, 1, 1000000,                        \
        "sessions of one address or user")                                     \
    X(peer_waits, "peer-waits", 20000, 1, 10000000,                            \
        "waiting requests of one address or user")                             \
    X(peer_locks, "peer-locks", 1000000, 1, 10000000,                          \
        "locks of one address or user")                                        \
    X(connections, "max-connections", 10000, 1, 1000000, "connections")        \
    X(waits, "max-waits", 1000, 1, 1000000,                                    \
        "requests that wait, of a connection or session")                      \
    X(locks, "max-locks", 100000, 1, 10000000, "locks of a session")           \
    X(sessions, "max-sessions", 10000, 1, 1000000, "sessions")                 \
    X(list_entries, WIRE_list_max, 100000, 1, 10000000, "entries of a list")   \
    X(grace_s, "max-grace", 300, 1, 86400,                                     \
        "seconds that a session may outlive its connection")                   \
    X(keepalive_ms, "keepalive", 5000, 100, 3600000,                           \
        "ms after which a silent client with a session must say something; "   \
        "after three times as long it is taken for gone")

/* What is set like a limit, and is nobody's business but ours. */
#define NUMBER_MAP(X)                                                          \
    LIMIT_MAP(X)                                                               \
    X(threads, "threads", 1, 1, 64,                                            \
        "threads that serve; more than one pays if one is not enough")

struct limits {
#define X(name, flag, fallback, least, most, what) int64_t name;
    NUMBER_MAP(X)
#undef X
};

struct options {
    const char *space;
    const char *listen[LISTENERS_MAX];
    unsigned n_listen, listen_given; /* by the environment */
    char *listed;      /* which is cut up here, as long as we live */
    mode_t space_mode; /* 0: the library's own */
    mode_t unix_mode;
    const char *unix_group; /* NULL: none */
    bool shared_ids;
    bool make_space; /* and that is all */
    bool insecure;
    bool verbose;
    struct limits limits;
};

/* From the environment, then the command line. Does not return where that is
   wrong, or asks for help. */
void options_take(struct options *o, int argc, char **argv);

/* The limits as members of a JSON object. */
struct text;
void options_tell(const struct limits *limits, struct text *out);

#endif
