/*
 * call.h - store: notifies a session that one of its entries changed.
 *
 * A thread that waits sleeps on its own entry. Requests that wait without a
 * thread, and locks whose session wants to hear of them, have no sleeper of
 * their own: their session is CALLED. The entry is noted in the session's
 * ring of calls, and its helper thread is woken, which sleeps on their number.
 *
 * The ring is a hint. A call holds its own number, so that the helper sees
 * when later ones have overwritten it, or when the caller has not come to
 * write it yet (stopped or dead in between). Then it looks through all that
 * is its own: what is true stands in the entries, and stood there before the
 * call was made.
 */
#ifndef STORE_CALL_H
#define STORE_CALL_H

#include "store/entry.h"
#include "sync/sys.h"

#define CALL_ALL 0u /* instead of an entry: any of its may have changed */

/* Without a lock word held: may be a system call. */
void call_session(const struct map *map, session_ref_t to, ref_t entry);

/* Whoever is to hear that this entry has changed, when the words have been let
   go: its waiter, be it a thread or its session; of a held one that somebody
   waits for, or one that is gone, its session, if it listens. */
void call_up(const struct map *map, struct entry *e);

static inline bool call_is_wanted(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    /* not his successor in the slot: `listens` is wiped before a new `ref` */
    return unlikely(shm_load(&slot->listens) != 0) &&
        shm_load_acquire(&slot->ref) == ref;
}

enum call_kind {
    CALL_NONE, /* all were taken */
    CALL_ONE,  /* *entry has changed */
    CALL_LOST, /* any may have changed */
};

/* By the helper: the next call after number *seen. */
enum call_kind call_take(const struct session_slot *slot, uint32_t *seen,
    ref_t *entry);

/* Before it sleeps, and after: the word to sleep on. Whoever calls later
   either sees that it sleeps, or the word has changed. */
struct sys_watch call_watch(struct session_slot *slot, uint32_t seen);
void call_watched(struct session_slot *slot);

#endif
