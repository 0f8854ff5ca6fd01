/*
 * readme.c - the main figures of a run as Markdown, for RESULTS.md: libenq
 * beside what this run has measured of the others, and which goals it missed.
 */
#include "harness/bench.h"

#include <errno.h>
#include <string.h>

enum cell {
    CELL_EACH,
    CELL_RATE,
    CELL_P50,
    CELL_LONGEST,
    CELL_CPU,
    CELL_IDLE,
    CELL_BYTES
};

struct row {
    const char *text;
    enum cell cell;
    struct which which;
};

static const struct row rows[] = {
    {"1 process, one key: a pair", CELL_EACH, {.scenario = "pair"}},
    {"on top of one's own lock", CELL_EACH, {.scenario = "cumulate"}},
    {"with 100,000 other locks held", CELL_EACH,
        {.scenario = "random", .held = 100000}},
    {"with 1,000,000", CELL_EACH, {.scenario = "random", .held = 1000000}},
    {"2 processes, keys of one name: pairs/s", CELL_RATE,
        {.scenario = "distinct", .procs = 2}},
    {"2 processes, shared locks on one key: pairs/s", CELL_RATE,
        {.scenario = "shared", .procs = 2}},
    {"2 processes fight for one key: locks/s", CELL_RATE,
        {.scenario = "one", .procs = 2}},
    {"... longest wait", CELL_LONGEST, {.scenario = "one", .procs = 2}},
    {"16 processes fight for one key: locks/s", CELL_RATE,
        {.scenario = "one", .procs = 16}},
    {"... longest wait", CELL_LONGEST, {.scenario = "one", .procs = 16}},
    {"2 processes, each holds it 20 us: release to grant", CELL_P50,
        {.scenario = "handover", .procs = 2, .hold_ns = 20000}},
    {"... CPUs burnt by waiting", CELL_CPU,
        {.scenario = "handover", .procs = 2, .hold_ns = 20000}},
    {"16 processes, each holds it 2 ms: release to grant", CELL_P50,
        {.scenario = "handover", .procs = 16, .hold_ns = 2000000}},
    {"... CPUs burnt by waiting", CELL_CPU,
        {.scenario = "handover", .procs = 16, .hold_ns = 2000000}},
    {"refused at once, holder named", CELL_EACH, {.scenario = "busy"}},
    {"is it still mine?", CELL_EACH, {.scenario = "valid"}},
    {"8 locks as one set, and back", CELL_EACH, {.scenario = "set"}},
    {"... random keys, 100,000 others held", CELL_EACH,
        {.scenario = "set-random", .held = 100000}},
    {"started without blocking, granted at once: a pair", CELL_EACH,
        {.scenario = "start"}},
    {"2 processes, each holds it 20 us: release to event", CELL_P50,
        {.scenario = "start-next"}},
    {"10,000 requests pending: memory for each", CELL_BYTES,
        {.scenario = "pending", .count = 10000}},
    {"... CPUs burnt meanwhile", CELL_IDLE,
        {.scenario = "pending", .count = 10000}},
    {"... unlock to event", CELL_P50, {.scenario = "pending", .count = 10000}},
    {"refused, as it would close a cycle of 2 owners", CELL_EACH,
        {.scenario = "cycle", .count = 2}},
    {"... of 6", CELL_EACH, {.scenario = "cycle", .count = 6}},
    {"one `@` lock of the name held elsewhere: a pair", CELL_EACH,
        {.scenario = "generic"}},
    {"`@` lock over 10,000 held", CELL_EACH,
        {.scenario = "wide", .held = 10000}},
    {"list 100,000 locks", CELL_EACH, {.scenario = "list", .held = 100000}},
    {"holder killed, until the waiter has it", CELL_P50,
        {.scenario = "death", .held = 1}},
    {"... that held 100,000", CELL_P50, {.scenario = "death", .held = 100000}},
    {"over TCP, 16 connections: pairs/s", CELL_RATE,
        {.scenario = "remote", .count = 16}},
    {"... 64 connections", CELL_RATE, {.scenario = "remote", .count = 64}},
    {"... 16, with 16 requests under way on each", CELL_RATE,
        {.scenario = "remote-deep", .count = 16}},
    {"... 64, the same", CELL_RATE, {.scenario = "remote-deep", .count = 64}},
    {"over a unix socket, 16 connections: pairs/s", CELL_RATE,
        {.scenario = "remote-unix", .count = 16}},
    {"... 16, with 16 requests under way on each", CELL_RATE,
        {.scenario = "remote-unix-deep", .count = 16}},
    {"by npm's client over TCP, 16 at once: pairs/s", CELL_RATE,
        {.scenario = "remote-npm"}},
    {"by our own client over TCP: a pair", CELL_EACH,
        {.scenario = "remote-client"}},
    {"memory for each lock held", CELL_BYTES,
        {.scenario = "memory", .held = 100000}},
};

enum { N_ROWS = sizeof(rows) / sizeof(rows[0]) };

static const struct result *find(const struct row *row, unsigned subject)
{
    struct which w = row->which;

    w.subject = subjects[subject]->name;
    return result_find(&w);
}

/* The read side of a lock is the floor's, too: one column. */
static const struct result *find_floor(const struct row *row, unsigned subject)
{
    const struct result *r = find(row, subject);

    for (unsigned i = 0; r == NULL && subjects[i] != NULL; i++)
        if (subjects[i]->floor && subjects[subject]->floor)
            r = find(row, i);
    return r;
}

static bool is_column(unsigned subject)
{
    if (subjects[subject] == &subject_rwlock ||
        subjects[subject] == &subject_strict)
        return false;
    for (unsigned i = 0; i < N_ROWS; i++)
        if (find(&rows[i], subject) != NULL)
            return true;
    return false;
}

static const char *show(char *out, size_t n, enum cell cell,
    const struct result *r)
{
    switch (cell) {
    case CELL_EACH:
        return show_ns(out, n, r->rate > 0 ? 1e9 / r->rate : 0);
    case CELL_RATE:
        return show_rate(out, n, r->rate);
    case CELL_P50:
        return show_ns(out, n, r->p50);
    case CELL_LONGEST:
        return show_ns(out, n, r->longest_worst);
    case CELL_CPU:
        return show_unit(out, n, r->cpu_share, "");
    case CELL_IDLE:
        snprintf(out, n, "%.4f", r->idle);
        return out;
    default:
        return show_unit(out, n, r->bytes, "bytes");
    }
}

static void write_row(FILE *out, const struct row *row)
{
    char text[32];

    fprintf(out, "| %s |", row->text);
    for (unsigned i = 0; subjects[i] != NULL; i++) {
        const struct result *r = is_column(i) ? find_floor(row, i) : NULL;
        if (r != NULL)
            fprintf(out, " %s%s%s |", i == 0 ? "**" : "",
                show(text, sizeof(text), row->cell, r), i == 0 ? "**" : "");
        else if (is_column(i))
            fprintf(out, " |");
    }
    fputc('\n', out);
}

static void write_table(FILE *out)
{
    fprintf(out, "| |");
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (is_column(i))
            fprintf(out, " %s%s |", i == 0 ? "libenq" : subjects[i]->name,
                result_find(&(struct which){.subject = subjects[i]->name})
                        ->measured
                    ? ""
                    : " (its claim)");
    fprintf(out, "\n|---|");
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (is_column(i))
            fprintf(out, "---|");
    fputc('\n', out);
    for (unsigned i = 0; i < N_ROWS; i++)
        if (find(&rows[i], 0) != NULL)
            write_row(out, &rows[i]);
}

/* What the columns are. */
static void write_legend(FILE *out)
{
    fputc('\n', out);
    for (unsigned i = 1; subjects[i] != NULL; i++)
        if (is_column(i))
            fprintf(out, "- `%s`: %s\n", subjects[i]->name, subjects[i]->what);
}

static void write_head(FILE *out, const struct machine *m)
{
    fprintf(out,
        "One run of `make bench`, %s, commit %s, on %d CPUs:\n%s, %s, %s.\n"
        "Medians, each subject in turn; a pair is one lock and one unlock "
        "with owner, ttl,\ntoken and id. The floor, `robust-mutex`, is a "
        "bare process-shared robust mutex\n(for shared locks an rwlock): "
        "no names, no owners, no modes.\n\n",
        m->date, m->commit[0] != 0 ? m->commit : "unknown", m->cpus, m->cpu,
        m->kernel, m->compiler);
}

static void write_goals(FILE *out)
{
    unsigned met = 0, judged = 0;
    char value[32], limit[32];

    for (unsigned i = 0; i < goals_count(); i++) {
        struct verdict v = goal_judge(i);
        judged += v.missing == NULL;
        met += v.missing == NULL && v.met;
    }
    fprintf(out, "\nOf %u goals it met %u.%s", judged, met,
        met < judged ? " It missed:\n" : "");
    for (unsigned i = 0; i < goals_count(); i++) {
        struct verdict v = goal_judge(i);
        if (v.missing != NULL || v.met)
            continue;
        fprintf(out, "\n- %s: %s, wanted at %s %s", v.text,
            show_unit(value, sizeof(value), v.value, v.unit),
            v.at_least ? "least" : "most",
            show_unit(limit, sizeof(limit), v.limit, v.unit));
    }
    fputc('\n', out);
}

int readme_write(const char *path, const struct machine *m)
{
    FILE *out = fopen(path, "w");

    if (out != NULL) {
        write_head(out, m);
        write_table(out);
        write_legend(out);
        write_goals(out);
    }
    if (out != NULL && ferror(out) == 0 && fclose(out) == 0)
        return 0;
    fprintf(stderr, "enq-bench: %s: %s\n", path, strerror(errno));
    return -1;
}
