/*
 * sure.h - remote: until when the session cannot be over.
 */
#ifndef REMOTE_SURE_H
#define REMOTE_SURE_H

#include <stdbool.h>

#include "base/time.h"

struct remote;

/* Until when the session cannot be over (sure.c). */
struct sure {
    int64_t grace_ms; /* as the bridge says; atomic */
    mono_t at;        /* a request that was answered had been sent then */
    mono_t lost_at;   /* the same, when the connection before this was lost */
    int64_t until_ns; /* atomic */
    bool suspect;     /* the reader's own: it has told so */
};

void sure_begin(struct remote *r);
/* The answer to a hello, or to another request, that was sent at @sent_at has
   come; the connection is lost. All three under the mutex. */
void sure_greeted(struct remote *r, int64_t grace_ms, mono_t sent_at);
void sure_answered(struct remote *r, mono_t sent_at);
void sure_lost(struct remote *r);

/* Until when the session cannot be over. By any thread: atomic loads. */
mono_t sure_until(const struct remote *r);
/* May the session be over? By any thread. */
bool sure_is_over(const struct remote *r, mono_t now);
/* The grace period is too short for us to know: the bridge is asked. */
bool sure_has_to_ask(const struct remote *r);
/* The longest time between two answers: then a ping is due. Under the mutex. */
int64_t sure_ping_ms(const struct remote *r);

#endif
