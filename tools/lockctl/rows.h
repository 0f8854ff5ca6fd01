/*
 * rows.h - a copy of the lock table as lockctl shows it: holders in order of
 * arrival, waiters under the first holder that they overlap.
 */
#ifndef ROWS_H
#define ROWS_H

#include <stddef.h>

#include "lockctl.h"

struct row {
    const struct enq_info *info;
    struct row *first_waiter, *next_waiter;
    bool under_holder; /* it is in some holder's list of waiters */
};

struct rows {
    struct enq_info *info;
    struct row *row; /* n of them */
    size_t n;
};

/* Everything of one name and owner (NULL: any). Returns DONE or, said, an
   exit code. rows_free() in any case. */
int rows_fetch(const struct cli *cli, struct enq *e, const char *name,
    struct rows *rows);
void rows_free(struct rows *rows);

/* Drops what `keep` refuses; before rows_link(). */
void rows_filter(struct rows *rows,
    bool (*keep)(const struct enq_info *info, const void *arg),
    const void *arg);

/* Puts waiters under holders. False: no memory. */
bool rows_link(struct rows *rows);

/* The row of a handle, or NULL. */
const struct row *rows_find(const struct rows *rows, enq_handle handle);

/* Output; after rows_link() ------------------------------------------------ */

/* One row as a JSON object, with its waiters if it has any. */
void rows_json_row(const struct row *row);
/* One entry, without waiters. */
void rows_json_info(const struct enq_info *info);
/* "locks":[...] */
void rows_json(struct row *const *top, size_t n);

/* Holders, and waiters without one, in the order that the user asked for.
   NULL: no memory. */
struct row **rows_top(const struct cli *cli, const struct rows *rows,
    size_t *n);

/* A table for people. */
void table_print(const struct cli *cli, struct row *const *top, size_t n);
/* One column without a title, a line for each row. */
void table_print_only(const struct cli *cli, struct row *const *top, size_t n);
/* Says what is wrong with the column names of --sort and --only. */
int table_check_columns(const struct cli *cli);
/* qsort_r(3)'s order of rows by cli->sort, else as they came. */
int table_order(const void *a, const void *b, void *cli);

const char *row_state(const struct enq_info *info);
char row_mode(const struct enq_info *info);

#endif
