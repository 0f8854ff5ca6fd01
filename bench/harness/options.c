/*
 * options.c - the command line of enq-bench.
 */
#include "harness/bench.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_SECONDS = 256,
    OPT_HELD,
    OPT_COUNT,
    OPT_SUBJECT,
    OPT_SAVE,
    OPT_PLOT,
    OPT_README,
    OPT_PROCS,
    OPT_JSON,
    OPT_LIST,
    OPT_PAIRS,
    OPT_ROUNDS,
    OPT_SCENARIO,
    OPT_GROWTH
};

static const struct option longs[] = {
    {"scenario", required_argument, NULL, OPT_SCENARIO},
    {"rounds", required_argument, NULL, OPT_ROUNDS},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"procs", required_argument, NULL, OPT_PROCS},
    {"held", required_argument, NULL, OPT_HELD},
    {"count", required_argument, NULL, OPT_COUNT},
    {"subject", required_argument, NULL, OPT_SUBJECT},
    {"save", required_argument, NULL, OPT_SAVE},
    {"plot", required_argument, NULL, OPT_PLOT},
    {"readme", required_argument, NULL, OPT_README},
    {"pairs", required_argument, NULL, OPT_PAIRS},
    {"growth", no_argument, NULL, OPT_GROWTH},
    {"json", no_argument, NULL, OPT_JSON},
    {"list", no_argument, NULL, OPT_LIST},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void usage(void)
{
    printf(
        "usage: enq-bench [options]\n"
        "Measures libenq, the floor below it (a bare robust mutex) and its "
        "peers in one\nrun, in a lock space of its own that is gone "
        "afterwards.\n\n"
        "  --scenario NAME   only this one; may be given again (see --list)\n"
        "  --growth          only the scales: what grows, and how fast\n"
        "  --mixed           instead: all scales at once (see --mixed --help)\n"
        "  --subject NAME    only this one; may be given again (see --list)\n"
        "  --list            name the scenarios and the subjects\n"
        "  --rounds N        rounds for each subject, 1..%d (5)\n"
        "  --seconds S       length of a round, 0.01..60 (0.2)\n"
        "  --procs N[,N...]  numbers of processes, 1..%d (1,2,16)\n"
        "  --held N[,N...]   numbers of locks held, 1..10000000\n"
        "  --count N[,N...]  of the scales: waiters, sessions, '@' locks, "
        "1..%d\n",
        ROUNDS_MAX, PROCS_MAX, COUNT_MAX);
    printf(
        "  --json            one object per line instead of the table\n"
        "  --save FILE       the same into a file, beside the table\n"
        "  --plot FILE.svg   a picture of the rates and the scales\n"
        "  --readme FILE     the main figures as a table in Markdown\n"
        "  --pairs N         no measurement: exactly N pairs after warm-up, or "
        "operations\n                    of the one --scenario, between two "
        "lines of output, to be\n                    traced or profiled\n"
        "  --help\n\n");
    printf(
        "Columns: each = wall time for one operation of all processes; fair = "
        "grants of\nthe process that got fewest / most; longest = longest "
        "wait, or stop; enq is =\nhow many times better libenq is than this "
        "one. A missed goal is no failure.\nExit: 0, %d when something "
        "failed, %d usage.\n",
        EXIT_FAILED, EXIT_USAGE);
}

static int wrong(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "enq-bench: --%s: \"%s\" is not %s\n", option, value, want);
    return -1;
}

/* A whole number from 1 to @max that ends at *@end; 0: it is none. */
static uint64_t number(const char *text, uint64_t max, char **end)
{
    errno = 0;
    *end = (char *)text;
    if (*text < '0' || *text > '9')
        return 0;
    unsigned long long n = strtoull(text, end, 10);

    return errno == 0 && n <= max ? n : 0;
}

static int one_number(const char *option, const char *text, uint64_t max,
    uint64_t *out)
{
    char *end, want[48];
    uint64_t n = number(text, max, &end);

    snprintf(want, sizeof(want), "a number from 1 to %llu",
        (unsigned long long)max);
    if (n == 0 || *end != 0)
        return wrong(option, text, want);
    *out = n;
    return 0;
}

static int numbers(const char *option, const char *text, uint64_t max,
    uint64_t *out)
{
    char *end, want[64];
    int n = 0;

    snprintf(want, sizeof(want), "a list of up to %d numbers from 1 to %llu",
        LIST_MAX, (unsigned long long)max);
    for (const char *t = text;; t = end + 1) {
        uint64_t value = number(t, max, &end);
        if (value == 0 || n == LIST_MAX || (*end != ',' && *end != 0))
            return wrong(option, text, want);
        out[n++] = value;
        if (*end == 0)
            return n;
    }
}

static int set_scenario(struct options *o, const char *name)
{
    const struct scenario *s = scenario_find(name);

    if (s == NULL)
        return wrong("scenario", name, "one of those that --list names");
    o->picked[s - scenarios] = o->chosen = true;
    return 0;
}

static void set_growth(struct options *o)
{
    for (unsigned i = 0; scenarios[i].name != NULL; i++)
        if (scenario_is_scale(&scenarios[i]))
            o->picked[i] = o->chosen = true;
}

static int set_seconds(struct options *o, const char *text)
{
    char *end;

    o->seconds = strtod(text, &end);
    if (end == text || *end != 0 || !(o->seconds >= 0.01 && o->seconds <= 60))
        return wrong("seconds", text, "a number from 0.01 to 60");
    return 0;
}

static int set_rounds(struct options *o, const char *text)
{
    uint64_t n;

    if (one_number("rounds", text, ROUNDS_MAX, &n) != 0)
        return -1;
    o->rounds = (unsigned)n;
    return 0;
}

static int set_procs(struct options *o, const char *text)
{
    uint64_t list[LIST_MAX];
    int n = numbers("procs", text, PROCS_MAX, list);

    if (n < 0)
        return -1;
    o->n_procs = (unsigned)n;
    for (int i = 0; i < n; i++)
        o->procs[i] = (unsigned)list[i];
    return 0;
}

static int set_held(struct options *o, const char *text)
{
    int n = numbers("held", text, 10000000, o->held);

    if (n < 0)
        return -1;
    o->n_held = (unsigned)n;
    return 0;
}

static int set_count(struct options *o, const char *text)
{
    int n = numbers("count", text, COUNT_MAX, o->count);

    if (n < 0)
        return -1;
    o->n_count = (unsigned)n;
    return 0;
}

static int set_subject(struct options *o, const char *name)
{
    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (strcmp(subjects[i]->name, name) == 0) {
            o->subject[i] = o->chosen_subjects = true;
            return 0;
        }
    return wrong("subject", name, "one of those that --list names");
}

static int set_plot(struct options *o, const char *path)
{
    size_t n = strlen(path);

    if (n < 5 || strcmp(path + n - 4, ".svg") != 0)
        return wrong("plot", path, "the name of an .svg file");
    o->plot = path;
    return 0;
}

/* --pairs takes one scenario that one process can do in batches. */
static int check_pairs(const struct options *o)
{
    unsigned n = 0;

    for (unsigned i = 0; scenarios[i].name != NULL; i++) {
        if (!o->picked[i])
            continue;
        if (n++ > 0 || scenarios[i].batch <= 1 || scenarios[i].bystanders > 0)
            return wrong("scenario", scenarios[i].name,
                "one that --pairs can do, alone");
    }
    return 0;
}

static int set_file(struct options *o, int c, const char *path)
{
    if (c == OPT_PLOT)
        return set_plot(o, path);
    if (c == OPT_SAVE)
        o->save = path;
    else
        o->readme = path;
    return 0;
}

static int set_option(struct options *o, int c)
{
    switch (c) {
    case OPT_SCENARIO:
        return set_scenario(o, optarg);
    case OPT_ROUNDS:
        return set_rounds(o, optarg);
    case OPT_SECONDS:
        return set_seconds(o, optarg);
    case OPT_PROCS:
        return set_procs(o, optarg);
    case OPT_HELD:
        return set_held(o, optarg);
    case OPT_COUNT:
        return set_count(o, optarg);
    case OPT_SUBJECT:
        return set_subject(o, optarg);
    case OPT_SAVE:
    case OPT_PLOT:
    case OPT_README:
        return set_file(o, c, optarg);
    case OPT_PAIRS:
        return one_number("pairs", optarg, UINT64_C(1000000000000), &o->pairs);
    case OPT_GROWTH:
        set_growth(o);
        return 0;
    case OPT_JSON:
        o->json = true;
        return 0;
    case OPT_LIST:
        o->list = true;
        return 0;
    case 'h':
        usage();
        exit(0);
    default:
        return -1; /* getopt has said why */
    }
}

/* Returns 0, or -1 after saying what is wrong. */
int options_parse(struct options *o, int argc, char **argv)
{
    int c;

    *o = (struct options){.rounds = 5, .seconds = 0.2};
    argv[0] = "enq-bench";
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        if (set_option(o, c) != 0)
            return -1;
    if (optind == argc)
        return o->pairs > 0 ? check_pairs(o) : 0;
    fprintf(stderr, "enq-bench: \"%s\": it takes options only\n", argv[optind]);
    return -1;
}
