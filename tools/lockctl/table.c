/*
 * table.c - rows as a table for people. Cells are made twice, once to measure
 * and once to print, so that a long table needs no memory for its texts.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "args.h"
#include "key.h"
#include "peer.h"
#include "rows.h"
#include "system.h"
#include "text.h"

/* Cells ------------------------------------------------------------------- */

typedef void cell_fn(const struct enq_info *info, char out[TEXT_BYTES]);

static void cell_object(const struct enq_info *info, char out[TEXT_BYTES])
{
    struct key key;

    key_of_info(&key, info);
    key_name_spec(out, &key);
}

static void cell_argument(const struct enq_info *info, char out[TEXT_BYTES])
{
    struct key key;

    key_of_info(&key, info);
    key_fields_spec(out, &key);
}

static void cell_spec(const struct enq_info *info, char out[TEXT_BYTES])
{
    struct key key;

    key_of_info(&key, info);
    key_spec(out, &key);
}

static void cell_mode(const struct enq_info *info, char out[TEXT_BYTES])
{
    snprintf(out, TEXT_BYTES, "%c%s", row_mode(info), info->waiting ? "*" : "");
}

static void cell_owner(const struct enq_info *info, char out[TEXT_BYTES])
{
    text_name(out, TEXT_BYTES, info->owner);
}

static void cell_pid(const struct enq_info *info, char out[TEXT_BYTES])
{
    snprintf(out, TEXT_BYTES, info->pid > 0 ? "%d" : "-", (int)info->pid);
}

static void cell_command(const struct enq_info *info, char out[TEXT_BYTES])
{
    char command[SYSTEM_COMMAND_BYTES];
    bool known = info->pid > 0 && system_command(info->pid, command);

    text_name(out, TEXT_BYTES, known ? command : "-");
}

static void cell_peer(const struct enq_info *info, char out[TEXT_BYTES])
{
    struct peer peer;

    peer_read(&peer, info);
    text_name(out, TEXT_BYTES, peer.host[0] != '\0' ? peer.host : "-");
}

static void cell_state(const struct enq_info *info, char out[TEXT_BYTES])
{
    snprintf(out, TEXT_BYTES, "%s", row_state(info));
}

static void cell_age(const struct enq_info *info, char out[TEXT_BYTES])
{
    text_duration(out, TEXT_BYTES, info->age_ms);
}

/* A ttl begins with the grant. */
static void cell_ttl(const struct enq_info *info, char out[TEXT_BYTES])
{
    if (info->waiting)
        snprintf(out, TEXT_BYTES, "-");
    else
        text_duration(out, TEXT_BYTES, info->ttl_left_ms);
}

static void cell_token(const struct enq_info *info, char out[TEXT_BYTES])
{
    if (info->waiting)
        snprintf(out, TEXT_BYTES, "-");
    else
        snprintf(out, TEXT_BYTES, "%" PRIu64, info->token);
}

static void cell_id(const struct enq_info *info, char out[TEXT_BYTES])
{
    text_name(out, TEXT_BYTES, info->id);
}

/* Columns ----------------------------------------------------------------- */

static uint64_t pid_of(const struct enq_info *info)
{
    return (uint64_t)info->pid;
}

static uint64_t age_of(const struct enq_info *info)
{
    return (uint64_t)info->age_ms;
}

/* ENQ_FOREVER becomes the longest. */
static uint64_t ttl_of(const struct enq_info *info)
{
    return (uint64_t)info->ttl_left_ms;
}

static uint64_t token_of(const struct enq_info *info)
{
    return info->token;
}

struct column {
    const char *name, *title;
    cell_fn *cell;
    uint64_t (*number)(const struct enq_info *info); /* or NULL: by text */
};

static const struct column columns[] = {
    {"object", "OBJECT", cell_object, NULL},
    {"argument", "ARGUMENT", cell_argument, NULL},
    {"mode", "MODE", cell_mode, NULL},
    {"owner", "OWNER", cell_owner, NULL},
    {"pid", "PID", cell_pid, pid_of},
    {"command", "COMMAND", cell_command, NULL},
    {"state", "STATE", cell_state, NULL},
    {"age", "AGE", cell_age, age_of},
    {"ttl", "TTL", cell_ttl, ttl_of},
    {"token", "TOKEN", cell_token, token_of},
    {"id", "ID", cell_id, NULL},
    /* From here on for --only and --sort alone. */
    {"spec", NULL, cell_spec, NULL},
    {"peer", NULL, cell_peer, NULL},
};

enum {
    N_COLUMNS = sizeof(columns) / sizeof(columns[0]),
    N_SHOWN = N_COLUMNS - 2
};

static const struct column *find_column(const char *name)
{
    for (size_t i = 0; i < N_COLUMNS; i++)
        if (strcasecmp(columns[i].name, name) == 0)
            return &columns[i];
    return NULL;
}

static int check_column(const struct cli *cli, const char *name)
{
    struct guess guess = {.word = name};

    if (find_column(name) != NULL)
        return DONE;
    for (size_t i = 0; i < N_COLUMNS; i++)
        guess_try(&guess, columns[i].name);
    return say_usage(cli, "unknown column \"%s\"%s", name,
        guess_text(&guess, ""));
}

/* --sort -COL: the largest first. */
static const char *sort_name(const struct cli *cli)
{
    return cli->sort[0] == '-' ? cli->sort + 1 : cli->sort;
}

int table_check_columns(const struct cli *cli)
{
    int rc = DONE;

    if (cli->sort != NULL)
        rc = check_column(cli, sort_name(cli));
    if (rc == DONE && cli->only != NULL)
        rc = check_column(cli, cli->only);
    return rc;
}

static int column_order(const struct column *column, const struct enq_info *a,
    const struct enq_info *b)
{
    char x[TEXT_BYTES], y[TEXT_BYTES];

    if (column->number != NULL)
        return (column->number(a) > column->number(b)) -
            (column->number(a) < column->number(b));
    column->cell(a, x);
    column->cell(b, y);
    return strcmp(x, y);
}

int table_order(const void *a, const void *b, void *arg)
{
    const struct row *x = *(struct row *const *)a;
    const struct row *y = *(struct row *const *)b;
    const struct cli *cli = arg;
    int order = 0;

    if (cli->sort != NULL) {
        order = column_order(find_column(sort_name(cli)), x->info, y->info);
        if (cli->sort[0] == '-')
            order = -order;
    }
    return order != 0 ? order : (x > y) - (x < y);
}

/* Lines ------------------------------------------------------------------- */

struct table {
    bool color;
    size_t width[N_SHOWN];
};

static bool color_is_on(const struct cli *cli)
{
    const char *no_color = getenv("NO_COLOR");
    const char *term = getenv("TERM");

    if (cli->color != COLOR_AUTO)
        return cli->color == COLOR_ALWAYS;
    if (no_color != NULL && no_color[0] != '\0')
        return false;
    if (term == NULL || strcmp(term, "dumb") == 0)
        return false;
    return isatty(STDOUT_FILENO);
}

static void make_cell(const struct row *row, size_t i, char out[TEXT_BYTES])
{
    columns[i].cell(row->info, out);
    if (i == 0 && row->under_holder) {
        memmove(out + 2, out, strlen(out) + 1); /* a name leaves room */
        memcpy(out, "  ", 2);
    }
}

static void measure_row(struct table *table, const struct row *row)
{
    char cell[TEXT_BYTES];

    for (size_t i = 0; i < N_SHOWN; i++) {
        make_cell(row, i, cell);
        size_t width = text_width(cell);
        if (width > table->width[i])
            table->width[i] = width;
    }
}

static const char *row_color(const struct row *row)
{
    if (row->info->waiting)
        return "\033[33m";
    return row->info->orphaned || row->info->dying ? "\033[31m" : "";
}

/* The last column is not filled up. */
static void put_cell(const struct table *table, size_t i, const char *cell)
{
    size_t width = text_width(cell);

    fputs(cell, stdout);
    if (i + 1 < N_SHOWN)
        printf("%*s", (int)(table->width[i] - width + 2), "");
}

static void put_row(struct table *table, const struct row *row)
{
    const char *color = table->color ? row_color(row) : "";
    char cell[TEXT_BYTES];

    fputs(color, stdout);
    for (size_t i = 0; i < N_SHOWN; i++) {
        make_cell(row, i, cell);
        put_cell(table, i, cell);
    }
    puts(color[0] != '\0' ? "\033[0m" : "");
}

static void put_titles(struct table *table)
{
    fputs(table->color ? "\033[1m" : "", stdout);
    for (size_t i = 0; i < N_SHOWN; i++)
        put_cell(table, i, columns[i].title);
    puts(table->color ? "\033[0m" : "");
}

static void each_row(struct table *table, struct row *const *top, size_t n,
    void (*visit)(struct table *table, const struct row *row))
{
    for (size_t i = 0; i < n; i++) {
        visit(table, top[i]);
        for (const struct row *w = top[i]->first_waiter; w != NULL;
             w = w->next_waiter)
            visit(table, w);
    }
}

void table_print(const struct cli *cli, struct row *const *top, size_t n)
{
    struct table table = {.color = color_is_on(cli)};

    for (size_t i = 0; i < N_SHOWN; i++)
        table.width[i] = strlen(columns[i].title);
    each_row(&table, top, n, measure_row);
    put_titles(&table);
    each_row(&table, top, n, put_row);
}

void table_print_only(const struct cli *cli, struct row *const *top, size_t n)
{
    const struct column *column = find_column(cli->only);
    char cell[TEXT_BYTES];

    for (size_t i = 0; i < n; i++) {
        column->cell(top[i]->info, cell);
        puts(cell);
        for (const struct row *w = top[i]->first_waiter; w != NULL;
             w = w->next_waiter) {
            column->cell(w->info, cell);
            puts(cell);
        }
    }
}
