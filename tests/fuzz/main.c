/*
 * main.c - the fuzz targets as plain tests: each over the inputs that are kept
 * in tests/fuzz/corpus, or over those that are named.
 *
 * usage: fuzz-run                   (from the root of the tree)
 *        fuzz-run TARGET FILE...
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuzz.h"
#include "lib/mark.h"
#include "lib/shared.h"

#define INPUT_MOST 65536

/* What the child is at, for the case that it ends there. */
static struct {
    char path[512];
    unsigned inputs;
} * at;

static void run_file(const struct target *t, const char *path)
{
    static uint8_t data[INPUT_MOST];
    FILE *f = fopen(path, "re");
    uint8_t *copy;
    size_t n;

    snprintf(at->path, sizeof(at->path), "%s", path);
    if (f == NULL)
        fuzz_fail("cannot read %s", path);
    n = fread(data, 1, sizeof(data), f);
    fclose(f);
    copy = malloc(n + 1);
    if (copy == NULL)
        fuzz_fail("out of memory");
    memcpy(copy, data, n);
    target_run(t, copy, n);
    free(copy);
    at->inputs++;
}

static void run_corpus(const struct target *t)
{
    char path[sizeof(at->path)];
    const struct dirent *d;
    DIR *dir;

    snprintf(path, sizeof(path), "tests/fuzz/corpus/%s", t->name);
    dir = opendir(path);
    if (dir == NULL)
        fuzz_fail("there is no %s", path);
    while ((d = readdir(dir)) != NULL) {
        if (d->d_name[0] == '.')
            continue;
        snprintf(path, sizeof(path), "tests/fuzz/corpus/%.100s/%.250s", t->name,
            d->d_name);
        run_file(t, path);
    }
    closedir(dir);
}

/* In a process of its own, which may crash, or go on for ever. */
static bool survives(const struct target *t)
{
    char path[64];
    int status = 0;
    pid_t pid;

    memset(at, 0, sizeof(*at));
    fflush(NULL);
    pid = fork();
    if (pid == 0) {
        target_watch();
        run_corpus(t);
        exit(0);
    }
    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
        snprintf(path, sizeof(path), ATTACH_FILE, test_mark(), (int)pid);
        unlink(path);
        printf("FAIL %s: status %#x at %s\n", t->name, (unsigned)status,
            at->path);
        return false;
    }
    printf("ok   %s: %u inputs\n", t->name, at->inputs);
    return at->inputs > 0;
}

static int replay(int argc, char **argv)
{
    const struct target *t = target_find(argv[1]);

    if (t == NULL)
        fuzz_fail("there is no target %s", argv[1]);
    for (int i = 2; i < argc; i++)
        run_file(t, argv[i]);
    return 0;
}

int main(int argc, char **argv)
{
    unsigned passed = 0, failed = 0;

    at = test_shared(sizeof(*at));
    if (argc > 1)
        return replay(argc, argv);
    for (const struct target *t = targets; t->name != NULL; t++) {
        if (survives(t))
            passed++;
        else
            failed++;
    }
    printf("fuzz: %u passed, %u failed, 0 skipped\n", passed, failed);
    return failed != 0;
}
