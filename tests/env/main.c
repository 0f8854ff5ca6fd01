/*
 * main.c - env-run: the library in environments that are not kind.
 *
 * usage: env-run [--seed N] [--count N] [TEXT]
 *   --count N  kills of the storm (5,200, or ENQ_TEST_PERCENT of it)
 *   TEXT       only cases whose name contains it ("storm": the storm)
 *
 * Three figures: env-cases, those that passed; dying-kills, the processes
 * killed while they wrote (dying.c); and pidns-kills, those killed in the storm
 * (storm.c).
 */
#include "dice.h"
#include "env.h"
#include "lib/percent.h"

#include <time.h>

#define KILLS 5200

uint64_t dice_seed;

static uint64_t seed_of_now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_nsec * 1000003u + (uint64_t)getpid();
}

static int storm(const char *only, unsigned kills, uint64_t seed)
{
    if (only != NULL && strstr("storm", only) == NULL)
        return 0;
    fflush(stdout);
    if (storm_run(kills, seed) != 0) {
        printf("FAIL storm: --seed %llu\n", (unsigned long long)seed);
        return 1;
    }
    env_passed++;
    return 0;
}

int main(int argc, char **argv)
{
    const char *only = NULL;
    unsigned kills = (unsigned)test_percent(KILLS);
    uint64_t seed = seed_of_now();
    bool was_there = access("/dev/shm/enq", F_OK) == 0;
    unsigned failed;

    if (argc >= 4 && strcmp(argv[1], "--role") == 0)
        return env_role(argv[2], argv[3]);
    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc)
            seed = strtoull(argv[++i], NULL, 0);
        else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc)
            kills = (unsigned)strtoul(argv[++i], NULL, 0);
        else
            only = argv[i];
    }
    printf("seed %llu\n", (unsigned long long)seed);
    dice_seed = seed;
    env_clocks_init();
    failed = env_run_all(only);
    printf("figure env-cases %u\n", env_passed);
    printf("figure dying-kills %u\n", (unsigned)*env_dying_kills);
    failed += (unsigned)storm(only, kills, seed);
    printf("env: %u passed, %u failed, 0 skipped\n", env_passed, failed);
    /* the default space, which some cases open to see it refused */
    if (!was_there)
        unlink("/dev/shm/enq");
    return failed != 0;
}
