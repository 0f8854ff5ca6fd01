/*
 * doctor.c - lockctl doctor, lockctl dump: is the space sound?
 *
 * Findings are libenq's, about the table. Warnings are lockctl's, about what
 * surrounds it and may take it away one day; they do not change the exit code.
 */
#include <errno.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cgroup.h"
#include "commands.h"
#include "json.h"
#include "text.h"
#include "values.h"

#define REPORT_BYTES 65536
#define SYSTEM_UID_MAX 999 /* logind spares these */
#define FEW_BYTES (16u << 20)
#define MOST_WARNINGS 3

struct doctor {
    const struct cli *cli;
    struct enq *e;
    char report[REPORT_BYTES];
    char warning[MOST_WARNINGS][1024];
    int n_warnings;
};

/* What surrounds the space ------------------------------------------------ */

/* The last RemoveIPC= of a file, over what was said before. */
static bool read_remove_ipc(const char *path, bool said)
{
    char line[256], value[8];
    FILE *f = fopen(path, "re");

    if (f == NULL)
        return said;
    while (fgets(line, sizeof(line), f) != NULL)
        if (sscanf(line, " RemoveIPC = %7s", value) == 1)
            said = strchr("nNfF0", value[0]) == NULL &&
                strcasecmp(value, "off") != 0;
    fclose(f);
    return said;
}

static bool logind_removes_ipc(void)
{
    bool removes = true; /* logind's own default */
    glob_t found;

    if (access("/run/systemd/system", F_OK) != 0)
        return false;
    removes = read_remove_ipc("/etc/systemd/logind.conf", removes);
    if (glob("/etc/systemd/logind.conf.d/*.conf", 0, NULL, &found) == 0) {
        for (size_t i = 0; i < found.gl_pathc; i++)
            removes = read_remove_ipc(found.gl_pathv[i], removes);
        globfree(&found);
    }
    return removes;
}

static void warn_of_logout(struct doctor *d, const char *path)
{
    struct stat st;

    if (strncmp(path, "/dev/shm/", 9) != 0 || stat(path, &st) != 0)
        return;
    if (st.st_uid <= SYSTEM_UID_MAX || !logind_removes_ipc())
        return;
    snprintf(d->warning[d->n_warnings++], sizeof(d->warning[0]),
        "%s belongs to uid %u: logind removes it when that user logs out "
        "(RemoveIPC=); use a system user, or a path outside /dev/shm",
        path, (unsigned)st.st_uid);
}

static void warn_of_full_disk(struct doctor *d, const char *path)
{
    struct statvfs fs;

    if (statvfs(path, &fs) != 0)
        return;
    uint64_t all = (uint64_t)fs.f_blocks * fs.f_frsize;
    uint64_t left = (uint64_t)fs.f_bavail * fs.f_frsize;
    if (all == 0 || (left >= FEW_BYTES && left >= all / 20))
        return;
    snprintf(d->warning[d->n_warnings++], sizeof(d->warning[0]),
        "the file system of %s has %llu KiB of %llu KiB left: the table "
        "cannot grow past that",
        path, (unsigned long long)left / 1024, (unsigned long long)all / 1024);
}

/* Against a full file system there is an error code, and none against this. */
static void warn_of_cgroup(struct doctor *d)
{
    struct cgroup_memory memory;

    if (!cgroup_memory(&memory) ||
        (memory.left >= FEW_BYTES && memory.left >= memory.limit / 20))
        return;
    snprintf(d->warning[d->n_warnings++], sizeof(d->warning[0]),
        "the memory cgroup %s has %llu KiB of %llu KiB left: a table that "
        "grows past that gets a process killed, and no error; give it more",
        memory.path, (unsigned long long)memory.left / 1024,
        (unsigned long long)memory.limit / 1024);
}

static void look_around(struct doctor *d)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    if (enq_stat(d->e, &stats) != ENQ_OK)
        return;
    warn_of_logout(d, stats.space);
    warn_of_full_disk(d, stats.space);
    warn_of_cgroup(d);
}

/* The report -------------------------------------------------------------- */

/* A line each; libenq quotes names from the table in it. */
static void each_line(char *report, void (*put)(const char *line))
{
    char *rest = report;
    char *line;

    while ((line = strsep(&rest, "\n")) != NULL)
        if (line[0] != '\0')
            put(line);
}

static void put_text_line(const char *line)
{
    char clean[TEXT_BYTES];

    text_clean(clean, sizeof(clean), line);
    printf("%s\n", clean);
}

static void put_warning(const char *warning)
{
    char clean[TEXT_BYTES];

    text_clean(clean, sizeof(clean), warning);
    printf("warning: %s\n", clean);
}

static void print_text(struct doctor *d, bool healthy)
{
    each_line(d->report, put_text_line);
    for (int i = 0; i < d->n_warnings; i++)
        put_warning(d->warning[i]);
    printf(healthy ? "healthy\n" : "not healthy\n");
}

static void print_json(struct doctor *d, bool healthy)
{
    json_open('{');
    json_key_bool("healthy", healthy);
    json_key("findings");
    json_open('[');
    each_line(d->report, json_string);
    json_close(']');
    json_key("warnings");
    json_open('[');
    for (int i = 0; i < d->n_warnings; i++)
        json_string(d->warning[i]);
    json_close(']');
    json_close('}');
    json_end();
}

/* After a repair a second look says what is left. */
static int examine(struct doctor *d)
{
    int n = enq_doctor(d->e, d->cli->fix ? ENQ_DOCTOR_FIX : 0, d->report,
        sizeof(d->report));

    if (d->cli->fix && n > 0) {
        if (!d->cli->json)
            each_line(d->report, put_text_line);
        n = enq_doctor(d->e, 0, d->report, sizeof(d->report));
        if (n == 0 && !d->cli->json)
            printf("repaired\n");
    }
    if (n < 0 && n != ENQ_ECORRUPT)
        return say_why(d->cli, n);
    look_around(d);
    d->cli->json ? print_json(d, n == 0) : print_text(d, n == 0);
    return n == 0 ? DONE : DAMAGED;
}

static int doctor_act(struct cli *cli)
{
    uint32_t flags = ENQ_OPEN_EXISTING | (cli->fix ? 0 : ENQ_OPEN_READONLY);
    struct doctor *d = calloc(1, sizeof(*d));

    if (d == NULL) {
        say("out of memory");
        return FAILED;
    }
    d->cli = cli;
    int rc = space_open(cli, flags, &d->e);
    if (rc == DONE) {
        rc = examine(d);
        enq_close(d->e);
    }
    free(d);
    return rc;
}

static const struct opt doctor_opts[] = {
    OPT_AS_IS(0, "fix", NULL, "rebuild derived data, reap dead processes", fix),
    OPT_END,
};

const struct command doctor_command = {
    .name = "doctor",
    .operands = "",
    .what = "Checks the space; exit code 0: healthy, 70: findings.",
    .opts = doctor_opts,
    .least = 0,
    .most = 0,
    .act = doctor_act,
};

/* dump -------------------------------------------------------------------- */

static int dump_act(struct cli *cli)
{
    struct enq *e;
    int rc = space_open(cli, ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING, &e);

    if (rc != DONE)
        return rc;
    int answer = enq_dump(e, STDOUT_FILENO);
    if (answer != ENQ_OK)
        rc = say_why(cli, answer);
    enq_close(e);
    return rc;
}

static const struct opt dump_opts[] = {OPT_END};

const struct command dump_command = {
    .name = "dump",
    .operands = "",
    .what = "Writes the whole segment in readable form, for a bug report.",
    .opts = dump_opts,
    .least = 0,
    .most = 0,
    .act = dump_act,
};
