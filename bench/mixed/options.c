/*
 * options.c - the command line of enq-bench --mixed.
 */
#include "mixed/mixed_run.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPT_MIXED = 256,
    OPT_SECONDS,
    OPT_WAITS,
    OPT_HELD,
    OPT_PROCS,
    OPT_NAMES,
    OPT_ONLY,
};

static const struct option longs[] = {
    {"mixed", no_argument, NULL, OPT_MIXED},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"waits", required_argument, NULL, OPT_WAITS},
    {"held", required_argument, NULL, OPT_HELD},
    {"procs", required_argument, NULL, OPT_PROCS},
    {"names", required_argument, NULL, OPT_NAMES},
    {"only", required_argument, NULL, OPT_ONLY},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void usage(void)
{
    printf(
        "usage: enq-bench --mixed [options]\n"
        "All that there may be many of, at once: measures each figure in a "
        "space with ten\nof everything and in one with all of it, in turn, "
        "while others use both.\n\n"
        "  --waits N    requests that wait, 10..2000000 (1000)\n"
        "  --held N     locks that are held, 10..8000000 (10000)\n"
        "  --procs N    processes that are attached, 10..%d (40)\n"
        "  --names N    names with '@', held or waiting, 2..%d (10)\n"
        "  --seconds S  rounds are made for so long, 1..3600 (10)\n"
        "  --only TEXT  only figures whose names contain it\n\n"
        "The full size is --waits 1000000 --held 5000000 --procs 4000 --names "
        "1000\n--seconds 600: some 6 GiB of memory.\n"
        "Exit: 0, %d when something failed or a figure was missed, %d usage.\n",
        MIXED_PROCS_MAX, MIXED_NAMES_MAX, EXIT_FAILED, EXIT_USAGE);
}

static int number(const char *option, uint64_t least, uint64_t most,
    uint64_t *out)
{
    char *end;

    errno = 0;
    unsigned long long n = strtoull(optarg, &end, 10);
    if (optarg[0] >= '0' && optarg[0] <= '9' && *end == 0 && errno == 0 &&
        n >= least && n <= most) {
        *out = n;
        return 0;
    }
    fprintf(stderr,
        "enq-bench: --%s: \"%s\" is not a number from %llu to %llu\n", option,
        optarg, (unsigned long long)least, (unsigned long long)most);
    return -1;
}

static int set_option(struct mixed_options *o, int c)
{
    switch (c) {
    case OPT_MIXED:
        return 0;
    case OPT_SECONDS:
        return number("seconds", 1, 3600, &o->seconds);
    case OPT_WAITS:
        return number("waits", TEN, 2000000, &o->waits);
    case OPT_HELD:
        return number("held", TEN, 8000000, &o->held);
    case OPT_PROCS:
        return number("procs", TEN, MIXED_PROCS_MAX, &o->procs);
    case OPT_NAMES:
        return number("names", 2, MIXED_NAMES_MAX, &o->names);
    case OPT_ONLY:
        o->only = optarg;
        return 0;
    case 'h':
        usage();
        exit(0);
    default:
        return -1;
    }
}

int mixed_options_parse(struct mixed_options *o, int argc, char **argv)
{
    int c;

    *o = (struct mixed_options){10, 1000, 10000, 40, 10, NULL};
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        if (set_option(o, c) != 0)
            return -1;
    if (optind == argc)
        return 0;
    fprintf(stderr, "enq-bench: \"%s\": it takes options only\n", argv[optind]);
    return -1;
}
