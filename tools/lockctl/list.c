/*
 * list.c - lockctl list, lockctl who: looking at the table, read-only.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "object.h"
#include "rows.h"
#include "values.h"

static int no_memory(void)
{
    say("out of memory for a list of this length");
    return FAILED;
}

/* list -------------------------------------------------------------------- */

struct filter {
    const struct cli *cli;
    const struct object *object; /* NULL: any */
};

static bool list_keeps(const struct enq_info *info, const void *arg)
{
    const struct filter *f = arg;

    if (f->cli->mode != 0 && info->mode != f->cli->mode)
        return false;
    if (f->cli->pid != 0 && info->pid != f->cli->pid)
        return false;
    return object_selects(f->object, info);
}

static void list_print(const struct cli *cli, struct row *const *top, size_t n)
{
    if (cli->json) {
        json_open('{');
        rows_json(top, n);
        json_close('}');
        json_end();
    } else if (cli->only != NULL) {
        table_print_only(cli, top, n);
    } else {
        table_print(cli, top, n);
    }
}

static int list_show(const struct cli *cli, struct rows *rows)
{
    size_t n;

    if (!rows_link(rows))
        return no_memory();
    struct row **top = rows_top(cli, rows, &n);
    if (top == NULL)
        return no_memory();
    list_print(cli, top, n);
    free(top);
    return DONE;
}

static int list_space(const struct cli *cli, const struct object *object)
{
    struct filter filter = {cli, object};
    struct rows rows = {.info = NULL};
    struct enq *e;
    int rc = space_open(cli, ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING, &e);

    if (rc != DONE)
        return rc;
    rc = rows_fetch(cli, e, object != NULL ? object->req.name : NULL, &rows);
    if (rc == DONE) {
        rows_filter(&rows, list_keeps, &filter);
        rc = list_show(cli, &rows);
    }
    rows_free(&rows);
    enq_close(e);
    return rc;
}

static int list_act(struct cli *cli)
{
    struct object object;
    int rc = table_check_columns(cli);

    if (rc != DONE)
        return rc;
    if (cli->n_operands == 0)
        return list_space(cli, NULL);
    rc = object_parse(cli, cli->operand[0], &object);
    return rc != DONE ? rc : list_space(cli, &object);
}

static const struct opt list_opts[] = {
    OPT_AS_IS('o', "owner", "OWNER", "only locks of this owner", owner),
    OPT('m', "mode", "MODE", "only locks in this mode: S, E, X or O", set_mode),
    OPT('p', "pid", "PID", "only locks of this process", set_pid),
    OPT_AS_IS(0, "waiting", NULL,
        "only locks that are waited for, and their waiters", waiting),
    OPT_AS_IS(0, "sort", "COL", "order by a column; -COL: the largest first",
        sort),
    OPT_AS_IS(0, "only", "COL",
        "print one column without its heading, or: spec", only),
    OPT_END,
};

const struct command list_command = {
    .name = "list",
    .operands = "[OBJ[/KEY...]]",
    .what = "Prints the lock table: holders, and their waiters below them.",
    .more = "OBJ alone: everything of that name; with a KEY: what overlaps it.",
    .opts = list_opts,
    .least = 0,
    .most = 1,
    .act = list_act,
};

/* who --------------------------------------------------------------------- */

static bool who_keeps(const struct enq_info *info, const void *arg)
{
    struct key key;

    key_of_info(&key, info);
    return key_overlap(&key, arg);
}

static void who_print_json(const struct object *object, struct row *const *top,
    size_t n)
{
    json_open('{');
    json_key_string("spec", object->spec);
    json_key_bool("free", n == 0);
    rows_json(top, n);
    json_close('}');
    json_end();
}

static int who_show(const struct cli *cli, const struct object *object,
    struct rows *rows)
{
    size_t n_of_name = rows->n, n;

    rows_filter(rows, who_keeps, &object->key);
    struct row **top = rows_link(rows) ? rows_top(cli, rows, &n) : NULL;
    if (top == NULL)
        return no_memory();
    if (cli->json)
        who_print_json(object, top, n);
    else if (n > 0)
        table_print(cli, top, n);
    else if (!cli->quiet)
        say("%s is free%s", object->spec,
            n_of_name > 0 ? "; other keys of this name are locked" : "");
    free(top);
    return n == 0 ? DONE : NOT_OBTAINED;
}

static int who_act(struct cli *cli)
{
    struct rows rows = {.info = NULL};
    struct object object;
    struct enq *e;
    int rc = object_parse(cli, cli->operand[0], &object);

    if (rc == DONE)
        rc = space_open(cli, ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING, &e);
    if (rc != DONE)
        return rc;
    rc = rows_fetch(cli, e, object.req.name, &rows);
    if (rc == DONE)
        rc = who_show(cli, &object, &rows);
    rows_free(&rows);
    enq_close(e);
    return rc;
}

static const struct opt who_opts[] = {OPT_END};

const struct command who_command = {
    .name = "who",
    .operands = "OBJ[/KEY...]",
    .what = "Prints who holds the object or waits for it.",
    .more = "Exit code 0: it is free; 75: it is not.",
    .opts = who_opts,
    .least = 1,
    .most = 1,
    .act = who_act,
};
