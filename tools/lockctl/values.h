/*
 * values.h - the values of options: their forms, and where they go.
 */
#ifndef VALUES_H
#define VALUES_H

#include "lockctl.h"

/* "5", "0.5", "500ms", "10s", "15m", "2h", "1d"; rounded up to the next ms.
   False: no such form, or more than a hundred years. */
bool parse_time(const char *text, int64_t *ms);

/* Setters for struct opt: NULL, or what is wrong. */
const char *set_color(struct cli *cli, const char *value);

const char *set_also(struct cli *cli, const char *value);
const char *set_mode(struct cli *cli, const char *value);
const char *set_no_wait(struct cli *cli, const char *value);
const char *set_wait(struct cli *cli, const char *value);
const char *set_limit(struct cli *cli, const char *value);
const char *set_ttl(struct cli *cli, const char *value);
const char *set_heartbeat(struct cli *cli, const char *value);
const char *set_grace(struct cli *cli, const char *value);
const char *set_interval(struct cli *cli, const char *value);
const char *set_token(struct cli *cli, const char *value);
const char *set_pid(struct cli *cli, const char *value);
const char *set_busy_status(struct cli *cli, const char *value);

#endif
