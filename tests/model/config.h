/*
 * config.h - the kinds of histories.
 */
#ifndef MODEL_CONFIG_H
#define MODEL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>

struct load {
    const char *name;
    const char *const *keys;   /* "n/a/@", ended by NULL */
    const char *const *owners; /* ended by NULL */
    const char *modes;         /* drawn from: twice is twice as often */
    const int64_t *ttls;       /* ended by 0 */
    unsigned id_percent;       /* that bring an id of their own */
    unsigned live;             /* so many locks, and they are given back */
};

struct config {
    char name[48];
    bool sap, strict;
    const char *over; /* a bridge: "unix", "tcp"; NULL: none */
    const struct load *load;
};

#define CONFIGS 24

/* Mode table x fairness x load. */
struct config config_at(unsigned number);

#endif
