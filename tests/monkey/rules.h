/*
 * rules.h - what excludes what: the reference of the monkey's checker.
 *
 * Written down a second time, from the page that defines the rules and in
 * another shape than the library's, and as simply as can be. The monkey asks
 * for a few keys only, so that a key is a number.
 */
#ifndef MONKEY_RULES_H
#define MONKEY_RULES_H

#include <stdbool.h>

#include "enq.h"

#define KEYS 16
#define OWNERS 6 /* 0 is nobody: not even itself */
#define FIELDS 2

struct rule_key {
    const char *name;
    const char *field[FIELDS]; /* up to the first NULL */
    unsigned literal;
};

enum compat { COMPAT_ENQUEUE, COMPAT_SAP };

extern const struct rule_key rule_keys[KEYS];
extern const char *const rule_owners[OWNERS];

/* Do locks for these two keys speak of something in common? */
bool rule_overlap(unsigned a, unsigned b);

/* Does a lock in mode `held` keep one in mode `asked` out, that overlaps? */
bool rule_conflict(enum compat compat, unsigned held, unsigned asked,
    bool same_owner);

bool rule_same_owner(unsigned a, unsigned b);

char rule_letter(unsigned mode);

/* "m/a/@" for messages; valid until the next call but three. */
const char *rule_key_text(unsigned key);

/* Which of the keys an entry that was listed is for; KEYS if none. */
unsigned rule_key_find(const struct enq_info *info);
unsigned rule_owner_find(const char *owner);

#endif
