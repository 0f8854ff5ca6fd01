/*
 * values.c - the values of options: their forms, and where they go. What a
 * value means in its command is that command's business.
 */
#include "values.h"

#include <ctype.h>
#include <string.h>

#define MOST_MS INT64_C(3155760000000) /* a hundred years */

static const struct {
    const char *unit;
    int64_t ms;
} units[] = {
    {"", 1000},
    {"ms", 1},
    {"s", 1000},
    {"m", 60000},
    {"h", 3600000},
    {"d", 86400000},
};

static int64_t unit_ms(const char *unit)
{
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
        if (strcmp(units[i].unit, unit) == 0)
            return units[i].ms;
    return 0;
}

/* Digits into *value; their end, or NULL: none, or over `most`. */
static const char *take_digits(const char *text, uint64_t most, uint64_t *value)
{
    const char *at = text;

    for (*value = 0; isdigit((unsigned char)*at); at++) {
        unsigned digit = (unsigned)(*at - '0');
        if (*value > (most - digit) / 10)
            return NULL;
        *value = *value * 10 + digit;
    }
    return at == text ? NULL : at;
}

/* ".5" as parts of a thousandth of a thousandth; further digits round up. */
static const char *take_fraction(const char *text, int64_t *micros)
{
    int64_t digit_is = 100000;
    bool more = false;

    *micros = 0;
    for (text++; isdigit((unsigned char)*text); text++) {
        *micros += digit_is * (*text - '0');
        more = more || (digit_is == 0 && *text != '0');
        digit_is /= 10;
    }
    *micros += more;
    return text;
}

bool parse_time(const char *text, int64_t *ms)
{
    int64_t micros = 0;
    uint64_t whole;
    const char *at = take_digits(text, (uint64_t)MOST_MS, &whole);

    if (at != NULL && *at == '.')
        at = isdigit((unsigned char)at[1]) ? take_fraction(at, &micros) : NULL;
    if (at == NULL)
        return false;
    int64_t unit = unit_ms(at);
    if (unit == 0 || (int64_t)whole > MOST_MS / unit)
        return false;
    *ms = (int64_t)whole * unit + (micros * unit + 999999) / 1000000;
    return true;
}

static bool parse_number(const char *text, uint64_t most, uint64_t *value)
{
    const char *end = take_digits(text, most, value);

    return end != NULL && *end == '\0';
}

/* Global ------------------------------------------------------------------ */

const char *set_color(struct cli *cli, const char *value)
{
    static const char *const words[] = {"auto", "always", "never"};

    for (int i = COLOR_AUTO; i <= COLOR_NEVER; i++) {
        if (strcmp(value, words[i]) == 0) {
            cli->color = (enum color_rule)i;
            return NULL;
        }
    }
    return "not auto, always or never";
}

/* Of commands ------------------------------------------------------------- */

const char *set_mode(struct cli *cli, const char *value)
{
    static const char letters[] = "?SEXO"; /* in the order of enum enq_mode */
    const char *at = strchr(letters + 1, toupper((unsigned char)value[0]));

    if (at == NULL || value[0] == '\0' || value[1] != '\0')
        return "not a mode: S, E, X or O";
    cli->mode = (enum enq_mode)(at - letters);
    return NULL;
}

const char *set_also(struct cli *cli, const char *value)
{
    if (cli->n_also == ENQ_SET_MAX - 1)
        return "one too many: a set has at most 64 locks";
    cli->also[cli->n_also++] = value;
    return NULL;
}

const char *set_no_wait(struct cli *cli, const char *value)
{
    (void)value;
    cli->wait_ms = 0;
    return NULL;
}

const char *set_wait(struct cli *cli, const char *value)
{
    if (strcmp(value, "forever") == 0) {
        cli->wait_ms = ENQ_FOREVER;
        return NULL;
    }
    return parse_time(value, &cli->wait_ms)
        ? NULL
        : "not a time (0.5, 10s, 2m, forever)";
}

const char *set_limit(struct cli *cli, const char *value)
{
    cli->limited = true;
    return set_wait(cli, value);
}

/* 0 would mean libenq's default, which nobody who writes 0 expects. */
const char *set_ttl(struct cli *cli, const char *value)
{
    if (strcmp(value, "none") == 0) {
        cli->ttl_ms = ENQ_FOREVER;
        return NULL;
    }
    if (!parse_time(value, &cli->ttl_ms) || cli->ttl_ms == 0)
        return "not a time above 0 (90, 500ms, 10s, 15m, 2h, none)";
    return NULL;
}

const char *set_heartbeat(struct cli *cli, const char *value)
{
    if (strcmp(value, "none") == 0) {
        cli->heartbeat_ms = ENQ_FOREVER;
        return NULL;
    }
    if (!parse_time(value, &cli->heartbeat_ms) || cli->heartbeat_ms == 0)
        return "not a time above 0 (500ms, 10s, 2m, none)";
    return NULL;
}

const char *set_grace(struct cli *cli, const char *value)
{
    return parse_time(value, &cli->grace_ms) ? NULL
                                             : "not a time (0.5, 10s, 2m)";
}

const char *set_interval(struct cli *cli, const char *value)
{
    if (!parse_time(value, &cli->interval_ms) || cli->interval_ms == 0)
        return "not a time above 0 (0.5, 10s, 2m)";
    return NULL;
}

const char *set_token(struct cli *cli, const char *value)
{
    if (!parse_number(value, UINT64_MAX, &cli->token) || cli->token == 0)
        return "not a token (a number from 1 on)";
    return NULL;
}

const char *set_pid(struct cli *cli, const char *value)
{
    uint64_t number;

    if (!parse_number(value, INT32_MAX, &number) || number == 0)
        return "not a process id";
    cli->pid = (int32_t)number;
    return NULL;
}

const char *set_busy_status(struct cli *cli, const char *value)
{
    uint64_t number;

    if (!parse_number(value, 255, &number))
        return "not an exit code (0 to 255)";
    cli->busy_status = (int)number;
    return NULL;
}
