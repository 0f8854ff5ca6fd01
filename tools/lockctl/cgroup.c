/*
 * cgroup.c - what control groups let this process have, of version 1 or 2, or
 * of both where a host has them side by side (see cgroup.h).
 */
#include "cgroup.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define LINE_BYTES 1024
#define UNLIMITED (UINT64_C(1) << 62) /* version 1 has a large number */

static const struct version {
    const char *type;       /* of the mount */
    const char *controller; /* that it must have; NULL: in the files, or not */
    const char *limit, *usage, *files;
} versions[] = {
    {"cgroup", "memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
        "total_inactive_file"},
    {"cgroup2", NULL, "memory.max", "memory.current", "inactive_file"},
};

/* Is it one of those that are listed with commas? */
static bool lists(const char *list, const char *word)
{
    size_t n = strlen(word);

    for (const char *at = list; at != NULL; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, word, n) == 0 && (at[n] == ',' || at[n] == '\0'))
            return true;
    }
    return false;
}

/* "31 23 0:28 ROOT MOUNTPOINT OPTIONS ... - TYPE SOURCE OPTIONS" */
static bool is_mount(const struct version *v, const char *line,
    char root[LINE_BYTES], char at[LINE_BYTES])
{
    char type[32], options[LINE_BYTES];
    const char *behind = strstr(line, " - ");

    return behind != NULL &&
        sscanf(line, "%*s %*s %*s %1023s %1023s", root, at) == 2 &&
        sscanf(behind, " - %31s %*s %1023s", type, options) == 2 &&
        strcmp(type, v->type) == 0 &&
        (v->controller == NULL || lists(options, v->controller));
}

/* "4:memory:/path", of version 2 "0::/path" */
static bool is_own(const struct version *v, const char *line,
    char path[LINE_BYTES])
{
    char names[LINE_BYTES] = "";

    if (sscanf(line, "%*u::%1023[^\n]", path) == 1)
        return v->controller == NULL;
    return v->controller != NULL &&
        sscanf(line, "%*u:%1023[^:]:%1023[^\n]", names, path) == 2 &&
        lists(names, v->controller);
}

/* --- reading --- */

struct place {
    char root[LINE_BYTES], at[LINE_BYTES]; /* what is mounted, and where */
    char own[LINE_BYTES];                  /* this process's group */
};

static bool find_place(const struct version *v, struct place *place)
{
    char line[4 * LINE_BYTES];
    bool mounted = false, own = false;
    FILE *f = fopen("/proc/self/mountinfo", "re");

    while (f != NULL && !mounted && fgets(line, sizeof(line), f) != NULL)
        mounted = is_mount(v, line, place->root, place->at);
    if (f != NULL)
        fclose(f);
    f = fopen("/proc/self/cgroup", "re");
    while (f != NULL && !own && fgets(line, sizeof(line), f) != NULL)
        own = is_own(v, line, place->own);
    if (f != NULL)
        fclose(f);
    return mounted && own;
}

static FILE *open_file(const struct place *place, const char *group,
    const char *name)
{
    char path[3 * LINE_BYTES];

    snprintf(path, sizeof(path), "%s%s/%s", place->at, group, name);
    return fopen(path, "re");
}

/* False, too, where it says "max". */
static bool read_number(FILE *f, uint64_t *n)
{
    bool read = f != NULL && fscanf(f, "%" SCNu64, n) == 1;

    if (f != NULL)
        fclose(f);
    return read;
}

/* A line "name number" of memory.stat. */
static uint64_t read_stat(FILE *f, const char *name)
{
    char word[64];
    uint64_t n = 0;

    while (f != NULL && fscanf(f, "%63s %" SCNu64, word, &n) == 2)
        if (strcmp(word, name) == 0) {
            fclose(f);
            return n;
        }
    if (f != NULL)
        fclose(f);
    return 0;
}

/* Of what is used, files can make way, except those in shared memory. */
static void look_at(const struct version *v, const struct place *place,
    const char *group, struct cgroup_memory *nearest)
{
    uint64_t limit, used, files;

    if (!read_number(open_file(place, group, v->limit), &limit) ||
        !read_number(open_file(place, group, v->usage), &used) ||
        limit >= UNLIMITED)
        return;
    files = read_stat(open_file(place, group, "memory.stat"), v->files);
    used -= files < used ? files : used;
    used = used < limit ? used : limit;
    if (limit - used >= nearest->left)
        return;
    nearest->limit = limit;
    nearest->left = limit - used;
    snprintf(nearest->path, sizeof(nearest->path), "%s",
        group[0] == '\0' ? "/" : group);
}

/* In a container the group may lie above what is mounted: then the mounted one
   is looked at. */
static void look_upwards(const struct version *v, struct place *place,
    struct cgroup_memory *nearest)
{
    size_t n = strlen(place->root);
    char *group = place->own, *end;

    if (n > 1 && strncmp(group, place->root, n) == 0)
        group += n;
    while ((end = strrchr(group, '/')) != NULL) {
        if (end[1] != '\0')
            look_at(v, place, group, nearest);
        *end = '\0';
    }
    look_at(v, place, "", nearest);
}

bool cgroup_memory(struct cgroup_memory *out)
{
    struct place place;

    out->left = UINT64_MAX;
    for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++)
        if (find_place(&versions[i], &place))
            look_upwards(&versions[i], &place, out);
    return out->left != UINT64_MAX;
}
