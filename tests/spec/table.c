/*
 * table.c - the runner's own look at the lock table, through a read-only
 * attachment: what waits (so that no step has to sleep for it), what a list
 * must show, the counters, and whether everything is in order at the end.
 */
#include "spec.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* NULL as long as nobody has made the segment. */
static struct enq *view_of(struct scene *scene)
{
    const struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING};

    if (scene->view == NULL &&
        enq_open(&scene->view, scene->address, &opts) != ENQ_OK)
        scene->view = NULL;
    return scene->view;
}

size_t table_rows(struct scene *scene, const char *name, const char *owner,
    struct enq_info rows[ROWS_MAX])
{
    struct enq *view = view_of(scene);
    size_t total = 0;

    if (view == NULL)
        return 0;
    if (enq_list(view, name, owner, rows, ROWS_MAX, &total) != ENQ_OK) {
        fail(scene, "enq_list: %s", enq_why());
        return 0;
    }
    return total < ROWS_MAX ? total : ROWS_MAX;
}

static bool is_order(const struct enq_info *row, const struct worker *worker,
    bool over)
{
    const struct order *order = &worker->order;

    if (!row->waiting || row->pid != worker->own_pid)
        return false;
    if (order->has_owner && strcmp(row->owner, order->owner) != 0)
        return false;
    if (over && !order->has_owner && row->owner[0] != (worker->letter | 0x20))
        return false; /* all have the bridge's pid */
    return row->mode == order->mode;
}

/* The request of another that waits as well. */
static bool is_others(struct scene *scene, const struct enq_info *row,
    const struct worker *worker)
{
    for (char letter = 'A'; letter <= 'Z'; letter++) {
        const struct worker *w = worker_of(scene, letter);
        const struct label *label =
            w != worker && w->asked ? label_find(scene, w->last) : NULL;

        if (label != NULL && label->handle == row->handle)
            return true;
    }
    return false;
}

/* Is the unanswered request of this worker in the table, waiting? */
bool table_waits(struct scene *scene, struct worker *worker,
    struct enq_info *row)
{
    static struct enq_info rows[ROWS_MAX];
    const char *name = worker->order.object.name;
    size_t n = table_rows(scene, name[0] != 0 ? name : NULL, NULL, rows);

    for (size_t i = 0; i < n; i++)
        if (is_order(&rows[i], worker, scene->over != NULL) &&
            !is_others(scene, &rows[i], worker)) {
            *row = rows[i];
            return true;
        }
    return false;
}

static void key_text(const struct enq_info *row, char *text, size_t size)
{
    const char *field = row->key;
    size_t used = (size_t)snprintf(text, size, "[");

    for (uint32_t i = 0; i < row->fields && used < size; i++) {
        bool literal = row->literal >> i & 1;

        used += (size_t)snprintf(text + used, size - used, "%s%s%s",
            i > 0 ? " " : "", literal ? "\\" : "",
            field[0] != 0 ? field : "\"\"");
        field += strlen(field) + 1;
    }
    if (used < size)
        snprintf(text + used, size - used, "]");
}

static void row_text(const struct enq_info *row, char *text, size_t size)
{
    char key[200];

    key_text(row, key, sizeof(key));
    snprintf(text, size, "%s %s %c %s pid=%d%s ttl=%lldms left=%lldms id=%s",
        row->owner[0] != 0 ? row->owner : "\"\"",
        row->waiting ? "waits" : "holds", mode_letter(row->mode), key,
        (int)row->pid, row->orphaned ? " orphaned" : "", (long long)row->ttl_ms,
        (long long)row->ttl_left_ms, row->id);
}

void table_print(struct scene *scene)
{
    static struct enq_info rows[ROWS_MAX];
    size_t n = table_rows(scene, NULL, NULL, rows);
    char text[700];

    printf("  table:%s\n", n == 0 ? " empty" : "");
    for (size_t i = 0; i < n; i++) {
        row_text(&rows[i], text, sizeof(text));
        printf("    %s: %s\n", rows[i].name, text);
    }
}

static bool in_range(const char *value, int64_t ms, bool *known)
{
    int64_t low, high;

    *known = parse_range(value, &low, &high);
    return ms >= low && ms <= high;
}

static bool pid_is(struct scene *scene, const char *value, int32_t pid)
{
    if (strcmp(value, "0") == 0)
        return pid == 0;
    return value[0] >= 'A' && value[0] <= 'Z' &&
        worker_of(scene, value[0])->own_pid == pid;
}

/* One word after "a holds": E, orphaned, [key], ttl=, left=, pid=, id= */
static bool row_has(struct scene *scene, const char *word,
    const struct enq_info *row, bool *known)
{
    const char *value;

    *known = true;
    if (word[0] == '[') {
        char key[200];

        key_text(row, key, sizeof(key));
        return strcmp(key, word) == 0;
    }
    if (strcmp(word, "orphaned") == 0)
        return row->orphaned;
    if ((value = value_of(word, "ttl")) != NULL)
        return in_range(value, row->ttl_ms, known);
    if ((value = value_of(word, "left")) != NULL)
        return in_range(value, row->ttl_left_ms, known);
    if ((value = value_of(word, "age")) != NULL)
        return in_range(value, row->age_ms, known);
    if ((value = value_of(word, "pid")) != NULL)
        return pid_is(scene, value, row->pid);
    if ((value = value_of(word, "id")) != NULL)
        return strcmp(value, row->id) == 0;
    *known = mode_of(word) != 0;
    return mode_of(word) == row->mode;
}

static bool row_expect(struct scene *scene, char *item,
    const struct enq_info *row)
{
    char *words[WORDS_MAX], text[700], wanted[100];
    bool known, same;
    int n;

    snprintf(wanted, sizeof(wanted), "%s", item + strspn(item, " "));
    n = split(item, words, WORDS_MAX);
    if (n < 2 || (strcmp(words[1], "holds") && strcmp(words[1], "waits")))
        return fail(scene, "a row reads: OWNER holds|waits ...");
    row_text(row, text, sizeof(text));
    same = strcmp(bare(words[0]), row->owner) == 0 &&
        (strcmp(words[1], "waits") == 0) == row->waiting;
    for (int i = 2; i < n && same; i++) {
        same = row_has(scene, words[i], row, &known);
        if (!known)
            return fail(scene, "unknown word '%s'", words[i]);
    }
    return same || fail(scene, "expected '%s', got '%s'", wanted, text);
}

/* "a holds E, b waits": all rows, in their order; "nothing": none */
bool rows_expect(struct scene *scene, const struct enq_info *rows, size_t n)
{
    char copy[400], *item, *rest = copy;
    const char *text = scene->step->expect;
    size_t i = 0;

    if (text == NULL)
        return fail(scene, "list without an expectation");
    if (strcmp(text, "nothing") == 0)
        return n == 0 || fail(scene, "expected nothing, got %zu rows", n);
    snprintf(copy, sizeof(copy), "%s", text);
    for (; (item = strsep(&rest, ",")) != NULL; i++) {
        if (i >= n)
            return fail(scene, "expected more rows, got %zu", n);
        if (!row_expect(scene, item, &rows[i]))
            return false;
    }
    return i == n || fail(scene, "expected %zu rows, got %zu", i, n);
}

static bool stat_is(struct scene *scene, const struct enq_stats *stats,
    const char *word)
{
    static const struct {
        const char *name;
        size_t at;
    } counters[] = {
#define COUNTER(name) {#name, offsetof(struct enq_stats, name)}
        COUNTER(held),
        COUNTER(waiting),
        COUNTER(orphaned),
        COUNTER(grants),
        COUNTER(refusals),
        COUNTER(waits),
        COUNTER(wait_grants),
        COUNTER(timeouts),
        COUNTER(cancels),
        COUNTER(releases),
        COUNTER(expiries),
        COUNTER(promotes),
        COUNTER(promotes_refused),
        COUNTER(lost),
        COUNTER(forced),
        COUNTER(overflows),
        COUNTER(owner_deaths),
        COUNTER(sessions),
#undef COUNTER
    };
    const char *value = NULL;
    uint64_t got = 0;

    for (size_t i = 0; i < sizeof(counters) / sizeof(counters[0]); i++)
        if ((value = value_of(word, counters[i].name)) != NULL) {
            memcpy(&got, (const char *)stats + counters[i].at, sizeof(got));
            break;
        }
    if (value == NULL)
        return fail(scene, "unknown counter '%s'", word);
    return strtoull(value, NULL, 10) == got ||
        fail(scene, "expected %s, got %llu", word, (unsigned long long)got);
}

/* stat held=1 waiting=0 ... */
bool table_stats(struct scene *scene)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    const struct step *step = scene->step;
    struct enq *view = view_of(scene);

    if (view == NULL || enq_stat(view, &stats) != ENQ_OK)
        return fail(scene, "enq_stat: %s", enq_why());
    for (int i = 1; i < step->n_words; i++)
        if (!stat_is(scene, &stats, step->words[i]))
            return false;
    return true;
}

/* The dead are reaped within a second; what is then found is a fault. */
static bool check_once(struct scene *scene, struct enq *e, size_t leaves)
{
    static char report[4000];
    struct enq_stats stats = {.size = sizeof(stats)};
    size_t total = 0;
    int findings;

    scene->failed = false;
    if (enq_list(e, NULL, NULL, NULL, 0, &total) != ENQ_OK)
        return fail(scene, "enq_list: %s", enq_why());
    if (total != leaves)
        return fail(scene, "expected %zu entries left, got %zu", leaves, total);
    if (enq_stat(e, &stats) != ENQ_OK)
        return fail(scene, "enq_stat: %s", enq_why());
    if (stats.held + stats.waiting != leaves)
        return fail(scene, "counters say %llu held, %llu waiting",
            (unsigned long long)stats.held, (unsigned long long)stats.waiting);
    findings = enq_doctor(e, 0, report, sizeof(report));
    return findings == 0 ||
        fail(scene, "enq_doctor: %d findings:\n%s", findings, report);
}

bool table_check(struct scene *scene, size_t leaves)
{
    const struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_EXISTING};
    int64_t end = now_ms() + 1000;
    struct enq *e = NULL;
    bool good;

    if (enq_open(&e, scene->address, &opts) != ENQ_OK)
        return fail(scene, "enq_open: %s", enq_why());
    while (!(good = check_once(scene, e, leaves)) && now_ms() < end)
        poll(NULL, 0, 2);
    enq_close(e);
    return good;
}
