/*
 * scope.h - floor 4: what a request must look at, and the words that guard it.
 *
 * Concrete keys are spread over shards by their hash, so that workers on
 * different products of one name never meet. Generic keys ('@') overlap many
 * keys; they live in the GATE of their name. While the gate is down (no
 * generic entry of that name, nearly always) a concrete request decides under
 * its shard's word alone: the NARROW way. While it is raised, every request
 * for that name goes the WIDE way: the gate's word first and for the whole
 * operation, then shards one at a time.
 *
 * Why no conflict is missed: a generic request holds the gate, raises it, and
 * only then visits the shards, taking each one's word; a concrete request
 * reads the gate under its shard's word. Whichever has that word first, the
 * other sees what it did. (PostgreSQL's strong-lock counters are the same
 * idea.)
 *
 * So an entry changes only under its shard's word (a generic one's: the
 * gate's), and while the gate is raised only by whoever holds the gate as
 * well: in a wide scope entries of the name stand still between the steps.
 */
#ifndef TABLE_SCOPE_H
#define TABLE_SCOPE_H

#include "sync/word.h"
#include "table/index.h"
#include "table/slab.h"

struct scope {
    struct map *map;
    struct thread *t;
    struct session *session; /* whose magazine entries go back to */
    uint32_t shard;          /* of the concrete key it was entered for */
    struct gate *gate;
    bool wide;
    bool vacant; /* narrow: nobody has the object (decided, and not changed) */
    mono_t now;
};

/*
 * Enters the scope of a key: that of a request, or of an entry found by its
 * handle. On 0 the words are held until scope_leave(). s->now is not set: see
 * scope_clock(). Faults: ENQ_ECORRUPT.
 */
int scope_enter(struct scope *s, const struct key *key);
int scope_enter_entry(struct scope *s, const struct entry *e);
void scope_leave(struct scope *s); /* and sends the wakes */

/* The exact time, read at most once in a scope. */
mono_t scope_clock(struct scope *s);

/* Someone is to be woken when the words are let go. */
void scope_wake(struct scope *s, struct entry *e);

/*
 * Shows every live entry that overlaps the key: in a narrow scope those of
 * its own object. `see` must not lock; false stops. Faults: ENQ_ECORRUPT.
 */
int scope_visit(struct scope *s, const struct key *key, entry_see_fn *see,
    void *context);

/* The first entry of a concrete key's object, in a narrow scope. */
struct entry *scope_object(struct scope *s, const struct key *key);

#endif
