/*
 * mode.h - rules: the modes, as tables.
 *
 * Nobody else compares modes: what a mode conflicts with, cumulates with,
 * turns into or is called is looked up here.
 */
#ifndef RULES_MODE_H
#define RULES_MODE_H

#include <stdbool.h>
#include <stdint.h>

#include "enq.h"

#define MODES 5 /* indices 1..4; 0 is no mode */

/* A mode table: for each held mode the set (bit per mode) of asked modes
   that conflict. same[m] is a subset of other[m] in every table. */
struct mode_table {
    const char *name;
    uint8_t other[MODES];
    uint8_t same[MODES];
};

/* NULL when there is no such table. Numbers are stored in segments. */
const struct mode_table *mode_table_at(uint32_t number);
int mode_table_find(const char *name); /* < 0: none */

static inline bool mode_conflicts(const struct mode_table *t, unsigned held,
    unsigned asked, bool same_owner)
{
    /* `held` may come from a damaged segment: nothing stands beside it */
    return held >= MODES ||
        (((same_owner ? t->same : t->other)[held] >> asked) & 1);
}

/* Does it conflict with whatever others may ask for? */
bool mode_is_exclusive(const struct mode_table *t, unsigned mode);
/* And with whatever its own owner may ask for? */
bool mode_excludes_all(const struct mode_table *t, unsigned mode);

bool mode_known(unsigned mode);
bool mode_cumulates(unsigned mode);    /* held again by its owner, unhindered */
unsigned mode_promoted(unsigned mode); /* what a promote makes of it; 0 */
unsigned mode_demoted(unsigned mode);
char mode_letter(unsigned mode);
unsigned mode_from_letter(const char *text); /* 0: none */

#endif
