/*
 * session.h - recovery: sessions come and go.
 *
 * A session is one attachment of one process. Its life mutex is locked by the
 * library's helper thread, which lives as long as the process does: the end of
 * an application's thread is not the end of its locks.
 */
#ifndef RECOVERY_SESSION_H
#define RECOVERY_SESSION_H

#include "store/slab.h"

/*
 * Claims a slot for the calling thread, which must stay alive until
 * session_end(). Reaps the dead when there is no free one.
 * Faults, explained: -EAGAIN, -ENOSPC.
 */
int session_begin(struct session *s, struct thread *t, struct map *map);

/* By the same thread, after retire(). */
void session_end(struct session *s);

#endif
