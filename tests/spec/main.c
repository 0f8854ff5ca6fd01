/*
 * main.c - spec-run: plays scenarios, each in a process and a space of its
 * own, a few at a time, and counts. A scenario that says "# must fail: TEXT"
 * is one of the runner's self-tests: it passes by failing with that text.
 *
 * A scenario is a story in time: "busy within 500ms", a ttl of a second and
 * what is done meanwhile. It says nothing of a machine that does not let its
 * processes run. So one that failed is played again, a few times at most, if
 * the kernel says that they were ready to run and had no processor for
 * STARVED_MS.
 *
 * A process that was not woken, and found it out by its tick, aborts
 * (ENQ_TICK_FOUND, see sync/tick.h).
 *
 *	spec-run [-v] [-j N] [--over unix|tcp] [FILE|DIRECTORY ...]
 *
 * --over: through a bridge (bridge.c), but for those of tests/spec/local.
 * ENQ_TICK_MS: without ticks, but for those of tests/spec/ticks.
 * Default: tests/spec.
 */
#include "lib/mark.h"
#include "spec.h"

#include <dirent.h>
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FILES_MAX = 500, JOBS_MAX = 16, HANGS_S = 30, PLAYS_MAX = 6 };

struct job {
    pid_t pid; /* 0: free */
    size_t file;
    int out; /* what it printed */
    int64_t began_ms;
};

static char *files[FILES_MAX];
static size_t n_files, n_begun;
static unsigned plays[FILES_MAX]; /* of each */
static size_t again[FILES_MAX];   /* those to be played once more */
static size_t n_again;
static struct job jobs[JOBS_MAX];
static size_t n_jobs = 4;
static bool verbose;
static const char *over; /* NULL: no bridge */
static unsigned passed, failed, skipped, starved;
static volatile sig_atomic_t stopping;

static void address_of(size_t file, pid_t runner, char *address, size_t n)
{
    snprintf(address, n, "shm:enq-%sspec-%d-%zu", test_mark(), (int)runner,
        file);
}

/* A self-test passes when it failed for the reason it names. */
static int verdict(const struct scene *scene)
{
    const char *must = scene->script->must_fail;
    char line[24];

    if (scene->skipped) {
        printf("%s\n", scene->why);
        return EXIT_SKIP;
    }
    if (must == NULL && scene->failed && scene->starved_ms >= STARVED_MS)
        return EXIT_STARVED;
    if (must == NULL)
        return scene->failed;
    snprintf(line, sizeof(line), "line %d: ", scene->step->line);
    if (scene->failed && strncmp(must, line, strlen(line)) == 0 &&
        strstr(scene->why, must + strlen(line)) != NULL)
        return 0;
    printf("%s: must fail at '%s', got '%s%s'\n", scene->file, must, line,
        scene->failed ? scene->why : "success");
    return 1;
}

static int play_file(const char *file, const char *address)
{
    static struct scene scene;
    struct script script;
    char why[200];
    int rc;

    if (!script_read(file, &script, why)) {
        printf("%s: %s\n", file, why);
        return 1;
    }
    scene.file = file;
    scene.script = &script;
    scene.over = over;
    scene.opts.size = sizeof(scene.opts);
    snprintf(scene.address, sizeof(scene.address), "%s", address);
    play(&scene);
    rc = verdict(&scene);
    script_free(&script);
    return rc;
}

static void start(struct job *job, size_t file)
{
    pid_t runner = getpid();
    char address[64];

    address_of(file, runner, address, sizeof(address));
    *job = (struct job){.file = file, .began_ms = now_ms()};
    job->out = memfd_create("spec", MFD_CLOEXEC);
    plays[file]++;
    fflush(stdout);
    job->pid = fork();
    if (job->out < 0 || job->pid < 0) {
        perror("spec-run");
        exit(1);
    }
    if (job->pid != 0)
        return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    dup2(job->out, STDOUT_FILENO);
    alarm(HANGS_S);
    exit(play_file(files[file], address));
}

/* False: all have been begun. */
static bool start_one(struct job *job)
{
    if (n_again == 0 && n_begun == n_files)
        return false;
    start(job, n_again > 0 ? again[--n_again] : n_begun++);
    return true;
}

static void show(const struct job *job, const char *verdict)
{
    const char *file = files[job->file];
    char bytes[4096];
    ssize_t n;
    off_t at = 0;

    printf("%-4s %s (%lld ms)\n", verdict, file,
        (long long)(now_ms() - job->began_ms));
    while ((n = pread(job->out, bytes, sizeof(bytes), at)) > 0) {
        fwrite(bytes, 1, (size_t)n, stdout);
        at += n;
    }
}

static void count(const struct job *job, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_STARVED &&
        plays[job->file] < PLAYS_MAX) {
        again[n_again++] = job->file;
        starved++;
        show(job, "STARVED");
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SKIP) {
        skipped++;
        show(job, "skip");
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        passed++;
        if (verbose)
            show(job, "ok");
    } else {
        failed++;
        show(job, "FAIL");
        if (WIFSIGNALED(status))
            printf("  ended by signal %d%s\n", WTERMSIG(status),
                WTERMSIG(status) == SIGALRM ? ": it hung" : "");
    }
}

static void finish(struct job *job, int status)
{
    char address[64];
    int rc;

    address_of(job->file, getpid(), address, sizeof(address));
    rc = enq_unlink(address);
    if (rc != ENQ_OK && rc != -ENOENT)
        printf("enq_unlink %s: %s\n", address, enq_why());
    count(job, status);
    close(job->out);
    job->pid = 0;
}

static struct job *job_of(pid_t pid)
{
    for (size_t i = 0; i < n_jobs; i++)
        if (jobs[i].pid == pid)
            return &jobs[i];
    return NULL;
}

static void wait_one(void)
{
    int status;
    pid_t pid = waitpid(-1, &status, 0);
    struct job *job = pid > 0 ? job_of(pid) : NULL;

    if (job != NULL)
        finish(job, status);
}

static void play_all(void)
{
    size_t running = 0;

    while (((n_begun < n_files || n_again > 0) && !stopping) || running > 0) {
        struct job *free_job = job_of(0);

        if (free_job == NULL || stopping || !start_one(free_job))
            wait_one();
        running = 0;
        for (size_t i = 0; i < n_jobs; i++)
            running += jobs[i].pid != 0;
    }
}

static void on_stop(int sig)
{
    (void)sig;
    stopping = 1;
    for (size_t i = 0; i < n_jobs; i++)
        if (jobs[i].pid > 0)
            kill(jobs[i].pid, SIGKILL);
}

static void add_file(const char *path)
{
    if (n_files == FILES_MAX || (files[n_files] = strdup(path)) == NULL) {
        fprintf(stderr, "spec-run: too many scenarios\n");
        exit(1);
    }
    n_files++;
}

/* Is it told there? A line each: its name, a blank, why. */
static bool is_in(const char *exceptions, const char *path)
{
    FILE *f = fopen(exceptions, "r");
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = strcspn(name, ".");
    char line[300];
    bool found = false;

    while (f != NULL && !found && fgets(line, sizeof(line), f) != NULL)
        found = strncmp(line, name, n) == 0 && line[n] == ' ';
    if (f != NULL)
        fclose(f);
    return found;
}

static bool is_left_out(const char *path)
{
    return (over != NULL && is_in("tests/spec/local", path)) ||
        (getenv("ENQ_TICK_MS") != NULL && is_in("tests/spec/ticks", path));
}

static int is_spec(const struct dirent *entry)
{
    size_t n = strlen(entry->d_name);

    return n > 5 && strcmp(entry->d_name + n - 5, ".spec") == 0;
}

static void add_directory(const char *path)
{
    struct dirent **entries;
    int n = scandir(path, &entries, is_spec, alphasort);
    char file[600];

    for (int i = 0; i < n; i++) {
        snprintf(file, sizeof(file), "%s/%s", path, entries[i]->d_name);
        if (!is_left_out(file))
            add_file(file);
        free(entries[i]);
    }
    if (n >= 0)
        free(entries);
}

/*
 * A directory brings its self-tests along and, where the library has crash
 * points, the scenarios that need them.
 */
static void add_path(const char *path)
{
    static const char *const below[] = {"selftest", "crash"};
    unsigned n_below = HAS_POINTS && over == NULL ? 2 : 1;
    char sub[600];
    struct stat st;

    if (stat(path, &st) != 0) {
        fprintf(stderr, "spec-run: %s: %s\n", path, strerror(errno));
        exit(2);
    }
    if (!S_ISDIR(st.st_mode)) {
        add_file(path);
        return;
    }
    add_directory(path);
    for (size_t i = 0; i < n_below; i++) {
        snprintf(sub, sizeof(sub), "%s/%s", path, below[i]);
        if (stat(sub, &st) == 0)
            add_path(sub);
    }
}

static void read_options(int argc, char **argv)
{
    static const struct option options[] = {
        {"over", required_argument, NULL, 'o'}, {NULL, 0, NULL, 0}};
    int c;

    while ((c = getopt_long(argc, argv, "vj:", options, NULL)) != -1) {
        if (c == 'v') {
            verbose = true;
        } else if (c == 'o' &&
            (strcmp(optarg, "unix") == 0 || strcmp(optarg, "tcp") == 0)) {
            over = optarg;
        } else if (c == 'j' && atoi(optarg) > 0 && atoi(optarg) <= JOBS_MAX) {
            n_jobs = (size_t)atoi(optarg);
        } else {
            fprintf(stderr,
                "usage: spec-run [-v] [-j N] [--over unix|tcp] "
                "[PATH ...]\n");
            exit(2);
        }
    }
    for (int i = optind; i < argc; i++)
        add_path(argv[i]);
    if (optind == argc)
        add_path("tests/spec");
}

int main(int argc, char **argv)
{
    struct sigaction stop = {.sa_handler = on_stop};

    if (argc > 1 && strcmp(argv[1], "--worker") == 0)
        return worker_main(argc, argv);
    read_options(argc, argv);
    setenv("ENQ_TICK_FOUND", "3000", 1);
    sigaction(SIGINT, &stop, NULL);
    sigaction(SIGTERM, &stop, NULL);
    play_all();
    for (size_t i = 0; i < n_files; i++)
        free(files[i]);
    if (starved > 0)
        printf("%u plays of scenarios had no processor, and were repeated\n",
            starved);
    printf("spec%s%s: %u passed, %u failed, %u skipped\n",
        over == NULL ? "" : "-over-", over == NULL ? "" : over, passed, failed,
        skipped);
    return failed > 0 || stopping;
}
