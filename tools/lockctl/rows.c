/*
 * rows.c - see rows.h: fetching, filtering, and who waits for whom.
 *
 * A table may hold a million locks and some thousands of waiters, so that
 * waiters find their holders by a sorted index; only generic keys ('@') are
 * compared one by one.
 */
#include "rows.h"

#include <errno.h>
#include <stdlib.h>

#include "key.h"

#define FIRST_ROOM 64

static bool make_rows(struct rows *rows, size_t n)
{
    rows->row = calloc(n + 1, sizeof(rows->row[0]));
    if (rows->row == NULL)
        return false;
    for (size_t i = 0; i < n; i++)
        rows->row[i].info = &rows->info[i];
    rows->n = n;
    return true;
}

static int say_no_memory(size_t n)
{
    say("out of memory for a list of %zu locks: narrow it by an object or an "
        "owner",
        n);
    return FAILED;
}

/* The table may grow between the calls; each try leaves it more room. */
int rows_fetch(const struct cli *cli, struct enq *e, const char *name,
    struct rows *rows)
{
    size_t room = FIRST_ROOM, total = 0;

    *rows = (struct rows){.info = NULL};
    for (;;) {
        free(rows->info);
        rows->info = calloc(room, sizeof(rows->info[0]));
        if (rows->info == NULL)
            return say_no_memory(room);
        int rc = enq_list(e, name, cli->owner, rows->info, room, &total);
        if (rc != ENQ_OK)
            return say_why(cli, rc);
        if (total <= room)
            return make_rows(rows, total) ? DONE : say_no_memory(total);
        room = total + total / 8;
    }
}

void rows_free(struct rows *rows)
{
    free(rows->row);
    free(rows->info);
    *rows = (struct rows){.info = NULL};
}

void rows_filter(struct rows *rows,
    bool (*keep)(const struct enq_info *info, const void *arg), const void *arg)
{
    size_t n = 0;

    for (size_t i = 0; i < rows->n; i++)
        if (keep(rows->row[i].info, arg))
            rows->row[n++].info = rows->row[i].info;
    rows->n = n;
}

const struct row *rows_find(const struct rows *rows, enq_handle handle)
{
    for (size_t i = 0; i < rows->n; i++)
        if (rows->row[i].info->handle == handle)
            return &rows->row[i];
    return NULL;
}

/* Waiters under holders --------------------------------------------------- */

/* Holders: those with concrete keys by key and arrival, the others by
   arrival. */
struct holders {
    struct row **concrete, **generic;
    size_t n_concrete, n_generic;
};

static int concrete_order(const void *a, const void *b)
{
    const struct row *x = *(struct row *const *)a;
    const struct row *y = *(struct row *const *)b;
    struct key kx, ky;

    key_of_info(&kx, x->info);
    key_of_info(&ky, y->info);
    int order = key_order(&kx, &ky);
    return order != 0 ? order : (x > y) - (x < y);
}

static bool holders_init(struct holders *h, struct rows *rows)
{
    struct key key;

    h->n_concrete = h->n_generic = 0;
    h->concrete = calloc(rows->n + 1, sizeof(h->concrete[0]));
    h->generic = calloc(rows->n + 1, sizeof(h->generic[0]));
    if (h->concrete == NULL || h->generic == NULL)
        return false;
    for (size_t i = 0; i < rows->n; i++) {
        struct row *row = &rows->row[i];
        if (row->info->waiting)
            continue;
        key_of_info(&key, row->info);
        if (key.any != 0)
            h->generic[h->n_generic++] = row;
        else
            h->concrete[h->n_concrete++] = row;
    }
    qsort(h->concrete, h->n_concrete, sizeof(h->concrete[0]), concrete_order);
    return true;
}

static void holders_fini(struct holders *h)
{
    free(h->concrete);
    free(h->generic);
}

/* The earlier of `best` and the first of the rows that overlaps. */
static struct row *scan(struct row *const *rows, size_t n,
    const struct key *key, struct row *best)
{
    struct key other;

    for (size_t i = 0; i < n; i++) {
        if (best != NULL && rows[i] > best)
            continue;
        key_of_info(&other, rows[i]->info);
        if (key_overlap(key, &other))
            best = rows[i];
    }
    return best;
}

/* The first of the concrete rows with this very key, if it is earlier. */
static struct row *look_up(const struct holders *h, const struct key *key,
    struct row *best)
{
    size_t low = 0, high = h->n_concrete;
    struct key other;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        key_of_info(&other, h->concrete[middle]->info);
        if (key_order(&other, key) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == h->n_concrete)
        return best;
    struct row *found = h->concrete[low];
    key_of_info(&other, found->info);
    if (key_order(&other, key) != 0)
        return best;
    return best == NULL || found < best ? found : best;
}

static struct row *holder_of(const struct holders *h, const struct row *waiter)
{
    struct key key;

    key_of_info(&key, waiter->info);
    struct row *best = scan(h->generic, h->n_generic, &key, NULL);
    if (key.any != 0)
        return scan(h->concrete, h->n_concrete, &key, best);
    return look_up(h, &key, best);
}

/* Backwards, as each is put at the front of its holder's list. */
bool rows_link(struct rows *rows)
{
    struct holders holders;
    bool ok = holders_init(&holders, rows);

    for (size_t i = rows->n; ok && i-- > 0;) {
        struct row *row = &rows->row[i];
        if (!row->info->waiting)
            continue;
        struct row *holder = holder_of(&holders, row);
        if (holder == NULL)
            continue;
        row->next_waiter = holder->first_waiter;
        row->under_holder = true;
        holder->first_waiter = row;
    }
    holders_fini(&holders);
    return ok;
}

/* Their order ------------------------------------------------------------- */

/* --waiting: only what somebody waits for, and who waits. */
static bool is_top(const struct cli *cli, const struct row *row)
{
    if (row->under_holder)
        return false;
    return !cli->waiting || row->info->waiting || row->first_waiter != NULL;
}

struct row **rows_top(const struct cli *cli, const struct rows *rows, size_t *n)
{
    struct row **top = calloc(rows->n + 1, sizeof(top[0]));

    *n = 0;
    if (top == NULL)
        return NULL;
    for (size_t i = 0; i < rows->n; i++)
        if (is_top(cli, &rows->row[i]))
            top[(*n)++] = &rows->row[i];
    qsort_r(top, *n, sizeof(top[0]), table_order, (void *)cli);
    return top;
}
