/*
 * main.c - enq-demo: the story of enqueue locks, told by real processes in
 * some six seconds. Exit: 0 when every invariant held, 1 when one broke or
 * the show could not go on, 64 for a wrong command line.
 */
#include "demo.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OPT_LOCKCTL = 256, OPT_BRIDGE, OPT_SECONDS, OPT_WORKERS, OPT_SEED };

static const struct option longs[] = {
    {"lockctl", required_argument, NULL, OPT_LOCKCTL},
    {"bridge", required_argument, NULL, OPT_BRIDGE},
    {"seconds", required_argument, NULL, OPT_SECONDS},
    {"workers", required_argument, NULL, OPT_WORKERS},
    {"seed", required_argument, NULL, OPT_SEED},
    {"help", no_argument, NULL, 'h'},
    {NULL, 0, NULL, 0},
};

static void usage(void)
{
    printf("usage: enq-demo [options]\n"
           "Shows enqueue locks at work between processes, in a lock space of "
           "its own that\nis gone afterwards, and fails loudly if an "
           "invariant breaks.\n\n"
           "  --seconds S     length of the rush, 0.2..600 (4)\n"
           "  --workers N     processes in the rush, 2..%d (6)\n"
           "  --seed N        replay the choices of an earlier rush\n"
           "  --lockctl PATH  the lockctl to show the table with (the one "
           "beside enq-demo)\n"
           "  --bridge PATH   the enq-bridge to serve the remote client (the "
           "one beside it)\n"
           "  --help\n",
        WORKERS_MAX);
}

static int wrong(const char *option, const char *value, const char *want)
{
    fprintf(stderr, "enq-demo: --%s: \"%s\" is not %s\n", option, value, want);
    return -1;
}

static int set_option(struct stage *st, int c)
{
    char *end = NULL;

    switch (c) {
    case OPT_LOCKCTL:
        st->lockctl = optarg;
        return 0;
    case OPT_BRIDGE:
        st->bridge = optarg;
        return 0;
    case OPT_SECONDS:
        st->seconds = strtod(optarg, &end);
        if (*end != 0 || !(st->seconds >= 0.2 && st->seconds <= 600))
            return wrong("seconds", optarg, "a number from 0.2 to 600");
        return 0;
    case OPT_WORKERS:
        st->workers = (unsigned)strtoul(optarg, &end, 10);
        if (*end != 0 || st->workers < 2 || st->workers > WORKERS_MAX)
            return wrong("workers", optarg, "a number from 2 to 16");
        return 0;
    case OPT_SEED:
        st->seed = strtoull(optarg, &end, 10);
        if (end == optarg || *end != 0)
            return wrong("seed", optarg, "a number");
        return 0;
    case 'h':
        usage();
        exit(0);
    default:
        return -1; /* getopt has said why */
    }
}

enum { PATH_BYTES = 4096 };

static const char *beside_us(char path[PATH_BYTES], const char *name)
{
    ssize_t n = readlink("/proc/self/exe", path, PATH_BYTES - 64);

    if (n <= 0)
        return name;
    path[n] = 0;
    char *slash = strrchr(path, '/');
    snprintf(slash + 1, 64, "%s", name);
    return path;
}

static int find_programs(struct stage *st)
{
    static char lockctl[PATH_BYTES], bridge[PATH_BYTES];

    if (st->lockctl == NULL)
        st->lockctl = beside_us(lockctl, "lockctl");
    if (st->bridge == NULL)
        st->bridge = beside_us(bridge, "enq-bridge");
    if (access(st->lockctl, X_OK) != 0)
        return wrong("lockctl", st->lockctl,
            "a program to show the table with");
    if (access(st->bridge, X_OK) != 0)
        return wrong("bridge", st->bridge, "a program to serve remote clients");
    return 0;
}

static int parse(struct stage *st, int argc, char **argv)
{
    int c;

    argv[0] = "enq-demo";
    while ((c = getopt_long(argc, argv, "h", longs, NULL)) != -1)
        if (set_option(st, c) != 0)
            return -1;
    if (optind < argc) {
        fprintf(stderr, "enq-demo: \"%s\": it takes options only\n",
            argv[optind]);
        return -1;
    }
    return find_programs(st);
}

static int play(struct stage *st)
{
    static int (*const scenes[])(struct stage *) = {
        stage_begin,
        actors_begin,
        scene_told,
        scene_generic,
        scene_optimistic,
        scene_expiry,
        scene_remote,
        scene_rush,
        scene_table,
        scene_end,
    };

    for (size_t i = 0; i < sizeof(scenes) / sizeof(*scenes); i++)
        if (scenes[i](st) != 0)
            return -1;
    return 0;
}

static int verdict(struct stage *st, int rc, double seconds)
{
    int broke = st->page != NULL ? broken_report(st->page) : 0;

    if (broke == 0 && stage_signal() != 0) {
        say_alarm("interrupted; nothing is left in /dev/shm");
        return 128 + stage_signal();
    }
    if (broke > 0 || rc != 0) {
        say_alarm("enq-demo FAILED: %d invariants broken%s (--seed %llu)",
            broke, rc != 0 ? ", and it did not reach its end" : "",
            (unsigned long long)st->seed);
        return EXIT_BROKEN;
    }
    say_good("\nEvery invariant held. %.1f s; nothing is left in /dev/shm.",
        seconds);
    return 0;
}

int main(int argc, char **argv)
{
    struct stage st = {
        .workers = 6,
        .seconds = 4,
        .seed = now_ns() % 1000000,
    };

    if (parse(&st, argc, argv) != 0) {
        fprintf(stderr, "Try \"enq-demo --help\".\n");
        return EXIT_USAGE;
    }
    say_begin();
    say_good("enq-demo: processes that share a table of locks in %s",
        stage_space());
    uint64_t begin = now_ns();
    int rc = play(&st);
    stage_end(&st);
    return verdict(&st, rc, (double)(now_ns() - begin) / 1e9);
}
