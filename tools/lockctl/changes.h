/*
 * changes.h - what became of each lock and request between two looks at the
 * table.
 */
#ifndef CHANGES_H
#define CHANGES_H

#include "rows.h"

struct change_seen {
    const char *event; /* "granted", "released" ... */
    const struct enq_info *info;
};

/*
 * changes_each - show what is different, first what is gone, then the rest in
 * the order of the table.
 *
 * @e  is asked why a lock is gone.
 *
 * Returns false when there is no memory.
 */
bool changes_each(struct enq *e, const struct rows *before,
    const struct rows *now,
    void (*show)(const struct change_seen *seen, const void *arg),
    const void *arg);

#endif
