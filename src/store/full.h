/*
 * full.h - store: a table that is known to have no room.
 *
 * To find out whether there is room after all takes a search through the whole
 * table: for locks that have run out, for entries that others have freed, for
 * pages of the dead and such as nobody uses. After one that was in vain nobody
 * of this session searches for FULL_REST times as long as it took, and a fifth
 * of a second at most: a refusal costs the same in a table of any size. Sooner if
 * something has been given back, of which counts tell, or if a lock has run out
 * that it has seen. What tells nobody is found at the end of that time: what is
 * granted after the search and has run out by then; room that another session
 * keeps to itself and has not been asked for.
 */
#ifndef STORE_FULL_H
#define STORE_FULL_H

#include "store/slab.h"

#define FULL_REST 20
#define FULL_REST_MOST_NS (NS_PER_S / 5)

/* Before a search: what the counts say, and when it begins. */
struct full full_begin(const struct session *s);

/* It was in vain. @next_ns: when the first lock that it has seen runs out; 0:
   none does. Takes the session's mutex. */
void full_note(struct session *s, enum page_kind kind, struct full search,
    int64_t next_ns);

/* Is there no room for an entry of this kind, as far as is known? Under the
   session's mutex. */
bool full_is_known(const struct session *s, const struct depot *depot);

#endif
