/*
 * targets.c - the list of targets, and how libFuzzer calls them: the name of
 * the program says which one.
 */
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>

#include "fuzz.h"

const struct target targets[] = {
#ifndef FUZZ_WIRE /* build.mk */
    {"attach", fuzz_attach},
    {"look", fuzz_look},
    {"hostile", fuzz_hostile},
    {"history", fuzz_history},
    {"texts", fuzz_texts},
#endif
    {"scan", fuzz_scan},
    {"json", fuzz_json},
    {NULL, NULL},
};

const struct target *target_find(const char *name)
{
    for (const struct target *t = targets; t->name != NULL; t++)
        if (strcmp(t->name, name) == 0)
            return t;
    return NULL;
}

void fuzz_fail(const char *format, ...)
{
    va_list args;

    fputs("fuzz: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    abort();
}

/* --- the watchdog --- */

/* By CPU time, as a machine may be too busy to run us: a tick each second, and
   a finding when so many of them fall into one execution. */
#define TICKS_MOST 6

static volatile sig_atomic_t executions, seen, ticks;

static void on_tick(int number)
{
    (void)number;
    ticks = executions == seen ? ticks + 1 : 0;
    seen = executions;
    if (ticks >= TICKS_MOST)
        fuzz_fail("an execution that does not end");
}

void target_watch(void)
{
    const struct itimerval second = {{1, 0}, {1, 0}};
    struct sigaction action = {.sa_handler = on_tick, .sa_flags = SA_RESTART};

    sigaction(SIGPROF, &action, NULL);
    setitimer(ITIMER_PROF, &second, NULL);
}

void target_run(const struct target *t, const uint8_t *data, size_t n)
{
    executions = executions < 1000000 ? executions + 1 : 0;
    t->run(data, n);
}

/* --- libFuzzer --- */

static const struct target *chosen;

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    const char *name = strrchr((*argv)[0], '/');

    (void)argc;
    chosen = target_find(name == NULL ? (*argv)[0] : name + 1);
    if (chosen == NULL)
        fuzz_fail("there is no target %s", (*argv)[0]);
    target_watch();
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    target_run(chosen, data, n);
    return 0;
}
