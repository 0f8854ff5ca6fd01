/*
 * link.h - channel: a socket to a bridge: how it comes about. What is done
 * with it is in remote/receive.c and remote/window.c.
 */
#ifndef CHANNEL_LINK_H
#define CHANNEL_LINK_H

#include <stddef.h>

#include "base/time.h"
#include "channel/address.h"

/* So long a read may wait for the first byte. */
#define HEAR_MS 200

/*
 * Connects: tries every address of the host's, each for some seconds at most.
 * The descriptor (close-on-exec), or why there is none, negative. A read
 * without MSG_DONTWAIT waits for HEAR_MS.
 *
 * @bell   when this descriptor becomes readable: -ECANCELED
 * @until  it takes no longer, or for no longer than that
 * @why    what is wrong, in words
 */
int link_connect(const struct address *a, int bell, mono_t until, char *why,
    size_t n);

#endif
