/*
 * death.c - kills holders: a victim takes the key, worker 0 falls asleep over
 * it, the victim gets SIGKILL, and the time from kill() to the waiter's grant
 * is taken. Each kill has a victim of its own.
 */
#include "harness/crew.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    KILLS = 6, /* in a round */
    LATE_S = 60,
    ASLEEP_LOOKS = 3,
};

static _Noreturn void victim(struct crew *c, unsigned subject)
{
    struct seat s = seat_of(c, subject, c->trial->procs - 1);
    const struct act *a = &subjects[subject]->acts[c->trial->scenario->work];

    if (subjects[subject]->attach(&s) != 0 || a->hold(&s) != 0)
        _exit(EXIT_FAILED);
    sem_post(&c->page->ready);
    for (;;)
        pause();
}

static int victim_start(struct crew *c, unsigned subject)
{
    pid_t parent = getpid();

    fflush(NULL);
    c->victim = fork();
    if (c->victim == 0) {
        crew_settle(c->trial->procs - 1, parent);
        victim(c, subject);
    }
    if (c->victim > 0)
        return 0;
    crew_complain("no victim can be started: %s", strerror(errno));
    return -1;
}

static int victim_ready(struct crew *c)
{
    uint64_t late = now_ns() + LATE_S * UINT64_C(1000000000);

    for (;;) {
        struct timespec tick = crew_in_ms(100);
        if (sem_clockwait(&c->page->ready, CLOCK_MONOTONIC, &tick) == 0)
            return 0;
        if (crew_ended(c, c->trial->procs - 1, c->victim)) {
            c->victim = 0;
            return -1;
        }
        if (bench_signal != 0 || now_ns() > late)
            return -1;
    }
}

/* As the kernel says: S is an interruptible sleep. */
static bool sleeps(int pid)
{
    char path[48], line[256] = "";

    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    FILE *in = fopen(path, "r");
    if (in == NULL)
        return false;
    char *end = fgets(line, sizeof(line), in);
    fclose(in);
    end = end == NULL ? NULL : strrchr(line, ')');
    return end != NULL && strncmp(end, ") S", 3) == 0;
}

/* Seen asleep several times running, so that it is no short nap. */
static int waiter_sleeps(struct crew *c)
{
    uint64_t late = now_ns() + LATE_S * UINT64_C(1000000000);
    int seen = 0;

    while (seen < ASLEEP_LOOKS) {
        if (now_ns() > late || crew_pause(0.001) != 0)
            return -1;
        bool asleep = atomic_load(&c->page->waiting) && sleeps(c->pids[0]);
        seen = asleep ? seen + 1 : 0;
    }
    return 0;
}

/* Sets *@ns. */
static int kill_one(struct crew *c, unsigned subject, uint64_t *ns)
{
    atomic_store(&c->page->waiting, 0);
    if (victim_start(c, subject) != 0 || victim_ready(c) != 0)
        return -1;
    crew_order(c, (struct order){.subject = subject, .pass = PASS_WAIT});
    if (waiter_sleeps(c) != 0) {
        if (bench_signal != 0)
            return -1;
        crew_complain("%s: the waiter does not sleep", subjects[subject]->name);
        return -1;
    }
    uint64_t begin = now_ns();
    kill(c->victim, SIGKILL);
    int rc = crew_wait(c, LATE_S);
    waitpid(c->victim, NULL, 0);
    c->victim = 0;
    if (rc != 0)
        return -1;
    uint64_t end = crew_slot(c, 0)->end_ns;
    *ns = end - begin;
    if (end > begin)
        return 0;
    crew_complain("%s: granted before its holder was killed",
        subjects[subject]->name);
    return -1;
}

static int kills(struct crew *c, unsigned subject, struct figures *f)
{
    double times[KILLS];

    for (unsigned k = 0; k < KILLS; k++) {
        uint64_t ns;
        if (kill_one(c, subject, &ns) != 0)
            return -1;
        hist_add(&f->hist, ns);
        times[k] = (double)ns;
    }
    f->longest[f->rounds] = greatest(times, KILLS);
    f->runs[f->rounds++] = 1e9 / median(times, KILLS);
    return 0;
}

/* The first death of each is not counted: it finds everything cold. */
int death_run(struct crew *c, const struct options *o, struct figures *f)
{
    uint64_t unused;

    for (unsigned i = 0; subjects[i] != NULL; i++)
        if (c->joins[i] && kill_one(c, i, &unused) != 0)
            return c->well = false, -1;
    for (unsigned r = 0; r < o->rounds; r++)
        for (unsigned i = 0; subjects[i] != NULL; i++)
            if (c->joins[i] && kills(c, i, &f[i]) != 0)
                return c->well = false, -1;
    return 0;
}
