/*
 * address.h - channel: where a bridge is, as its user writes it. Pure.
 *
 *	tcp://HOST[:PORT][?grace=MS]	HOST: a name, 10.1.2.3, [::1]
 *	unix:/PATH[?grace=MS]
 */
#ifndef CHANNEL_ADDRESS_H
#define CHANNEL_ADDRESS_H

#include <stdbool.h>
#include <stdint.h>

#define ADDRESS_PORT "3721"
#define ADDRESS_HOST_BYTES 256
#define ADDRESS_PATH_BYTES 108 /* of struct sockaddr_un */

struct address {
    bool local;                    /* a unix socket: path; else host and port */
    char host[ADDRESS_HOST_BYTES]; /* without brackets */
    char port[6];
    char path[ADDRESS_PATH_BYTES];
    int64_t grace_ms; /* -1: not said */
};

/* Is that the address of a bridge, sound or not? */
bool address_is_remote(const char *text);

/* 0, or -EINVAL, -ENAMETOOLONG, -EOPNOTSUPP, explained. */
int address_parse(const char *text, struct address *out);

#endif
