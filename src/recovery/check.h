/*
 * check.h - recovery: is what is derived what the truth says? (invariants I1
 * to I9 of recovery/README.md)
 */
#ifndef RECOVERY_CHECK_H
#define RECOVERY_CHECK_H

#include "store/slab.h"

struct check_report {
    char *text;
    size_t room, used;
    unsigned findings;
};

/* Adds a line, as far as there is room; counts it in any case. */
void check_note(struct check_report *report, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Looks at the whole table, a part at a time under its latch. Returns: 0, with
   the findings in the report. Faults: ENQ_ECORRUPT when a part cannot even be
   locked. */
int check_table(struct map *map, struct thread *t, struct check_report *report);

/* Without locks, for a read-only mapping: only what cannot be an accident of
   the moment. */
void check_quiet(const struct map *map, struct check_report *report);

#endif
