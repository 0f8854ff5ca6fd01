/*
 * notify.h - store: tells a session that one of its entries has changed.
 *
 * A thread that waits sleeps on its own entry. Requests that wait without a
 * thread, and locks whose session wants to hear of them, have no sleeper of
 * their own: their session is notified. The entry is noted in a ring of the
 * session's slot, and the session's helper thread, which sleeps on the number
 * of notifications, is woken.
 *
 * The ring has many writers, in any process, and one reader, the helper. A
 * writer draws a number (`notifications` + 1) and stores number and ref in one
 * word. Nobody waits for anybody: with 14 places a writer may overwrite what
 * was not read yet, and may be stopped or killed between its two stores. As
 * each word holds its own number the reader notices both (NOTIFICATION_LOST),
 * and then looks through all that is its own. So the ring is a hint: the truth
 * stands in the entries, and stood there before anybody was notified.
 *
 * Sleeping is the usual pair of a flag and a full fence on either side
 * (sync/ATOMICS.md):
 *
 *	helper   asleep = 1; fence; sleeps unless notifications != seen
 *	sender   notifications + 1; ring; fence; wakes if asleep
 */
#ifndef STORE_NOTIFY_H
#define STORE_NOTIFY_H

#include <limits.h>

#include "store/entry.h"
#include "sync/sys.h"

/* Instead of an entry: any of its may have changed. Another session has begun
   before it in the ring (session_watch_before()). */
#define NOTIFICATION_ALL 0u
#define NOTIFICATION_NEIGHBOUR UINT32_MAX

/* Tells one session of one entry, or NOTIFICATION_ALL. With no latch held if it
   can be, as it may be a system call. */
void notify_session(const struct map *map, session_ref_t to, ref_t entry);

/* Tells all that are to hear that this entry has changed, after the latches
   have been released: its waiter, be it a thread or its session; its session,
   if that listens, of a held lock that somebody waits for, or one that is gone.
   By then the entry may be another request's: a wake-up too many is harmless,
   as all sleepers look again. */
void notify(const struct map *map, struct entry *e);

/* The thread that waits; and with it, as nobody can tell whom the kernel would
   choose, one that sleeps there by mistake (sleep_on() in wait/waiter.c). */
static inline void notify_sleepers(const struct entry *e)
{
    sys.wake((const uint32_t *)&e->state, INT_MAX);
}

/* Does this session want to hear of its held locks (enq_fd)? */
static inline bool notify_is_wanted(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    /* not the slot's next session: `listens` is wiped before a new `ref` */
    return unlikely(shm_load(&slot->listens) != 0) &&
        shm_load_acquire(&slot->ref) == ref;
}

enum notification_kind {
    NOTIFICATION_NONE, /* all were taken */
    NOTIFICATION_ONE,  /* *entry has changed */
    NOTIFICATION_LOST, /* any may have changed */
};

/* By the helper: the next notification after number *seen, which it advances.
   Partner: the stores of notify_session(). */
enum notification_kind notification_take(const struct session_slot *slot,
    uint32_t *seen, ref_t *entry);

/* Around the helper's sleep: the word to sleep on, and that it is awake again.
   A later sender either sees `asleep`, or the word has changed before. */
struct sys_watch notification_watch(struct session_slot *slot, uint32_t seen);
void notification_watched(struct session_slot *slot);

#endif
