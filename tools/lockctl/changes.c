/*
 * changes.c - see changes.h. An entry keeps its handle from the request to its
 * end, and no two have the same one.
 */
#include "changes.h"

#include <stdlib.h>

/* Sorted by handle. */
struct index {
    const struct enq_info **info;
    size_t n;
};

static int by_handle(const void *a, const void *b)
{
    const struct enq_info *const *x = a, *const *y = b;

    return ((*x)->handle > (*y)->handle) - ((*x)->handle < (*y)->handle);
}

static bool index_init(struct index *index, const struct rows *rows)
{
    index->n = rows->n;
    index->info = calloc(rows->n + 1, sizeof(index->info[0]));
    if (index->info == NULL)
        return false;
    for (size_t i = 0; i < rows->n; i++)
        index->info[i] = rows->row[i].info;
    qsort(index->info, index->n, sizeof(index->info[0]), by_handle);
    return true;
}

static const struct enq_info *look_up(const struct index *index,
    const struct enq_info *info)
{
    const struct enq_info **found = bsearch(&info, index->info, index->n,
        sizeof(index->info[0]), by_handle);

    return found != NULL ? *found : NULL;
}

/* What is remembered of its end; a request that waits no longer has none. */
static const char *end_of(struct enq *e, const struct enq_info *was)
{
    if (was->waiting)
        return "left";
    switch (enq_valid(e, was->handle)) {
    case ENQ_EXPIRED:
        return "expired";
    case ENQ_LOST:
        return "lost";
    case ENQ_FORCED:
        return "broken";
    case ENQ_OWNERDIED:
        return "died";
    default:
        return "released";
    }
}

/* NULL: nothing. */
static const char *turn_of(const struct enq_info *was,
    const struct enq_info *now)
{
    if (was == NULL)
        return now->waiting ? "waiting" : "granted";
    if (was->waiting && !now->waiting)
        return "granted";
    if (was->mode != now->mode)
        return was->token != now->token ? "promoted" : "demoted";
    if (was->token != now->token)
        return "adopted";
    if (!was->orphaned && now->orphaned)
        return "orphaned";
    return NULL;
}

struct shower {
    void (*show)(const struct change_seen *seen, const void *arg);
    const void *arg;
};

static void show_ends(struct enq *e, const struct rows *before,
    const struct index *now, const struct shower *s)
{
    for (size_t i = 0; i < before->n; i++) {
        struct change_seen seen = {.info = before->row[i].info};
        if (look_up(now, seen.info) != NULL)
            continue;
        seen.event = end_of(e, seen.info);
        s->show(&seen, s->arg);
    }
}

static void show_turns(const struct index *before, const struct rows *now,
    const struct shower *s)
{
    for (size_t i = 0; i < now->n; i++) {
        struct change_seen seen = {.info = now->row[i].info};
        seen.event = turn_of(look_up(before, seen.info), seen.info);
        if (seen.event != NULL)
            s->show(&seen, s->arg);
    }
}

bool changes_each(struct enq *e, const struct rows *before,
    const struct rows *now,
    void (*show)(const struct change_seen *seen, const void *arg),
    const void *arg)
{
    struct index index_before = {.info = NULL}, index_now = {.info = NULL};
    struct shower shower = {show, arg};
    bool ok = index_init(&index_before, before) && index_init(&index_now, now);

    if (ok) {
        show_ends(e, before, &index_now, &shower);
        show_turns(&index_before, now, &shower);
    }
    free(index_before.info);
    free(index_now.info);
    return ok;
}
