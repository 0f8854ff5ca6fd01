/*
 * rules.c - what excludes what (see rules.h).
 */
#include "rules.h"

#include <stdio.h>
#include <string.h>

/* The first are the ones that are asked for most. */
const struct rule_key rule_keys[KEYS] = {
    {"m", {"a"}, 0},
    {"m", {"b"}, 0},
    {"m", {"@"}, 0},
    {"m", {"a", "x"}, 0},
    {"m", {"a", "y"}, 0},
    {"m", {"b", "x"}, 0},
    {"m", {"a", "@"}, 0},
    {"m", {"@", "x"}, 0},
    {"m", {"@", "@"}, 0},
    {"n", {"a"}, 0},
    {"n", {"@"}, 0},
    {"n", {NULL}, 0},
    {"m", {"@"}, 1},
    {"n", {"b"}, 0},
    {"m", {NULL}, 0},
    {"m", {"@", "y"}, 2},
};

const char *const rule_owners[OWNERS] = {"", "ann", "bob", "cid", "dan", "eve"};

static unsigned fields_of(const struct rule_key *k)
{
    unsigned n = 0;

    while (n < FIELDS && k->field[n] != NULL)
        n++;
    return n;
}

static bool is_any(const struct rule_key *k, unsigned field)
{
    return strcmp(k->field[field], "@") == 0 && !(k->literal >> field & 1);
}

bool rule_overlap(unsigned a, unsigned b)
{
    const struct rule_key *p = &rule_keys[a], *q = &rule_keys[b];
    unsigned n = fields_of(p);

    if (strcmp(p->name, q->name) != 0 || fields_of(q) != n)
        return false;
    for (unsigned i = 0; i < n; i++)
        if (!is_any(p, i) && !is_any(q, i) &&
            strcmp(p->field[i], q->field[i]) != 0)
            return false;
    return true;
}

/* Pairs that may be held at once: the held one, then the one asked for. */
static const char *const compatible[2][2] = {
    [COMPAT_ENQUEUE] = {"SS OO", "SS EE OO"},
    [COMPAT_SAP] = {"SS SO OS OO", "SS SE SO ES EE EO OS OE OO"},
};

char rule_letter(unsigned mode)
{
    return mode < 5 ? "?SEXO"[mode] : '?';
}

bool rule_conflict(enum compat compat, unsigned held, unsigned asked,
    bool same_owner)
{
    char pair[3] = {rule_letter(held), rule_letter(asked), '\0'};

    return strstr(compatible[compat][same_owner], pair) == NULL;
}

bool rule_same_owner(unsigned a, unsigned b)
{
    return a == b && rule_owners[a][0] != '\0';
}

const char *rule_key_text(unsigned key)
{
    static char texts[4][32];
    static unsigned turn;
    const struct rule_key *k = &rule_keys[key % KEYS];
    char *text = texts[turn++ % 4];
    int n = snprintf(text, sizeof(texts[0]), "%s", k->name);

    for (unsigned i = 0; i < fields_of(k); i++)
        n += snprintf(text + n, sizeof(texts[0]) - (size_t)n, "/%s%s",
            k->literal >> i & 1 ? "\\" : "", k->field[i]);
    return text;
}

/* An entry says of its "@" fields only that they are literal. */
static bool is_key(const struct rule_key *k, const struct enq_info *info)
{
    const char *at = info->key;
    unsigned literal = 0;

    if (strcmp(k->name, info->name) != 0 || fields_of(k) != info->fields)
        return false;
    for (unsigned i = 0; i < info->fields; i++) {
        if (strcmp(at, k->field[i]) != 0)
            return false;
        if (strcmp(at, "@") == 0)
            literal |= k->literal & 1u << i;
        at += strlen(at) + 1;
    }
    return literal == info->literal;
}

unsigned rule_key_find(const struct enq_info *info)
{
    unsigned k = 0;

    while (k < KEYS && !is_key(&rule_keys[k], info))
        k++;
    return k;
}

unsigned rule_owner_find(const char *owner)
{
    unsigned o = 0;

    while (o < OWNERS && strcmp(rule_owners[o], owner) != 0)
        o++;
    return o;
}
