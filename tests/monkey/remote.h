/*
 * remote.h - what is different about clients of a bridge.
 *
 * Such a process dies without the table's knowing: its bridge notices, within
 * its grace period, and gives back what was RELEASE. A bridge that is killed
 * ends no lock at once, but its waiters have to come back; and a
 * session is over when its client does not in time. What of that has happened
 * is not known here. So:
 *
 * - a RELEASE lock is sure up to the next death of a bridge; beyond it only if
 *   its holder has done something with it since, which proves that the session
 *   went on;
 * - it may be there as long as no bridge has served for its grace period, and
 *   some more, without a break, since its holder was gone;
 * - what a call answered beside ENQ_OK, while a bridge died, is not known: it
 *   was asked again (worker.c writes such a call down without an end).
 *
 * All else is as for any other process.
 */
#ifndef MONKEY_REMOTE_H
#define MONKEY_REMOTE_H

#include "result.h"

bool remote_is(const struct story *s, uint32_t life);

/* Finds for each life from when on nothing that it has asked for is done any
   more (over_ns), and its RELEASE locks are given back (released_ns). */
void remote_begin(struct story *s);

/* ENQ_ELEASE for what was adopted, or whose ttl is near: it has to ask. */
bool remote_may_not_know(const struct story *s, const struct op *op);

/* -ENOTCONN, as enq.h says: nobody to ask for 5 s. It would have found a bridge
   that served for long enough, as long as the machine was not late. */
bool remote_had_nobody(const struct story *s, const struct op *op);

/* A lock is begun by `op`: is its end that of a session, and since when is it
   known that the session lives? */
void remote_begin_hold(const struct story *s, struct hold *h,
    const struct deeds *all);
/* What the table says of it: there nothing ends with a bridge. */
uint8_t remote_death(const struct story *s, const struct op *op);
/* What the end of its client, and the deaths of bridges, mean to it. */
void remote_end_hold(const struct story *s, struct hold *h);
/* The death of a bridge up to which it is sure that it was held; NULL: none. It
   may be earlier than the answer, which lay in the socket of a slow client. */
const struct serve *remote_last(const struct story *s, const struct hold *h);

/* A lock that ends with its session, and was held on under another bridge. */
bool remote_has_survived(const struct story *s, const struct span *sure);

/* Did a bridge die between these two, or was there none? Then its client was
   without a connection for a while. */
bool remote_was_cut(const struct story *s, uint32_t life, int64_t from_ns,
    int64_t to_ns);
/* So `op` may have told of the end of the session that had the lock. */
bool remote_may_be_over(const struct story *s, const struct hold *h,
    const struct op *op);

/* `deed` is about the lock that `asked` was under way for, while a bridge died:
   that may have been asked for once more, after this had ended it. */
bool remote_is_again(const struct story *s, const struct op *asked,
    const struct op *deed);
bool remote_may_be_twice(const struct story *s, const struct deeds *all,
    const struct op *deed);

/* Ended, and yet no proof that the lock is not there: it was somebody else's,
   for which a token is needed; or the client asked again when its bridge had
   died, and was told that it is done, of a lock that another has taken over; or
   it is over by the client's clock, which counts from before the request. */
bool remote_proves_no_end(const struct story *s, const struct op *op);
/* A client that gives back another's lock that has run out is told so in its
   holder's stead, whose own answer is then that it was cancelled. */
bool remote_may_cancel(const struct story *s, const struct op *op);
/* Said by the holder before another took it over, which may live on: about
   what it had, or has been granted since. */
bool remote_is_anothers(const struct story *s, const struct hold *h,
    const struct op *op);

/* How much later than others it is told. */
#define REMOTE_LATE_NS (50 * NS_MS)

#endif
