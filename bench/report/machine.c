/*
 * machine.c - the facts without which a figure means nothing: processor,
 * kernel, compiler, flags, commit, command.
 */
#include "harness/bench.h"

#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* The library's own flags, as the Makefile gave them to the compiler. */
#ifndef ENQ_CFLAGS
#define ENQ_CFLAGS "flags unknown"
#endif

static void read_line(FILE *in, char *out, size_t n)
{
    if (in == NULL || fgets(out, (int)n, in) == NULL)
        out[0] = 0;
    out[strcspn(out, "\n")] = 0;
}

static void read_cpu(char *out, size_t n)
{
    FILE *in = fopen("/proc/cpuinfo", "r");
    char line[256];

    snprintf(out, n, "unknown processor");
    while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        char *value = strchr(line, ':');
        if (strncmp(line, "model name", 10) != 0 || value == NULL)
            continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, n, "%s", value + 2);
        break;
    }
    if (in != NULL)
        fclose(in);
}

/* Of the tree this program was built in, if it still lies there. */
static void read_commit(char *out, size_t n)
{
    char path[512], command[700];

    out[0] = 0;
    ssize_t len = readlink("/proc/self/exe", path, sizeof(path) - 1);
    if (len <= 0 || strchr(path, '\'') != NULL)
        return;
    path[len] = 0;
    *strrchr(path, '/') = 0;
    snprintf(command, sizeof(command),
        "git -C '%s' describe --always --dirty=+ --tags 2>/dev/null", path);
    FILE *git = popen(command, "r");
    read_line(git, out, n);
    if (git != NULL)
        pclose(git);
}

static void read_command(char *out, size_t n, char **argv)
{
    size_t used = 0;

    out[0] = 0;
    for (char **a = argv; *a != NULL && used < n; a++) {
        const char *name = a == argv ? "enq-bench" : *a;
        used += (size_t)snprintf(out + used, n - used, "%s%s",
            a == argv ? "" : " ", name);
    }
}

static void read_date(char *out, size_t n)
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, n, "%Y-%m-%d", &utc);
}

void machine_read(struct machine *m, char **argv)
{
    struct utsname u;

    memset(m, 0, sizeof(*m));
    read_cpu(m->cpu, sizeof(m->cpu));
    m->cpus = (int)sysconf(_SC_NPROCESSORS_ONLN);
    if (uname(&u) == 0)
        snprintf(m->kernel, sizeof(m->kernel), "%.20s %.70s", u.sysname,
            u.release);
#ifdef __clang__
    m->compiler = __VERSION__;
#else
    m->compiler = "gcc " __VERSION__;
#endif
    m->flags = ENQ_CFLAGS;
    read_date(m->date, sizeof(m->date));
    read_commit(m->commit, sizeof(m->commit));
    read_command(m->command, sizeof(m->command), argv);
}
