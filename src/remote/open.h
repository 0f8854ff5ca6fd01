/*
 * open.h - remote: an attachment to a bridge begins and ends.
 */
#ifndef REMOTE_OPEN_H
#define REMOTE_OPEN_H

#include <stdbool.h>
#include <stdint.h>

struct remote;

struct remote_wish {
    uint64_t life; /* of this process */
    const char *address;
    const char *owner;  /* default owner */
    const char *secret; /* or NULL */
    int64_t grace_ms;   /* 0: the default, unless the address says */
};

/* Is that the address of a bridge? */
bool remote_is_named(const char *address);

int remote_open(struct remote **out, const struct remote_wish *wish);
void remote_close(struct remote *r);
/* Of another process: in a child only its memory is freed. */
bool remote_is_ours(const struct remote *r);
const char *remote_name(const struct remote *r);

#endif
