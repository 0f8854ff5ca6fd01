/*
 * rush.c - the loud scene: all workers at once, one of them killed while it
 * holds what others wait for, then the sums.
 */
#include "demo.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 5000 };

static int workers_begin(struct stage *st)
{
    for (unsigned i = 0; i < st->workers; i++) {
        struct tally *t = &st->page->tallies[i];
        pid_t pid = stage_fork();
        if (pid == 0)
            worker_run(st->page, i, st->seed);
        t->pid = pid; /* the parent alone writes it: it will be killed */
        if (pid > 0)
            continue;
        say_alarm("a worker does not start: %s", strerror(errno));
        return -1;
    }
    return 0;
}

/* Until the test holds; false when it does not within our patience. */
static bool await(struct stage *st, bool (*test)(struct stage *st))
{
    for (int ms = 0; ms < PATIENCE_MS; ms++) {
        if (test(st))
            return true;
        if (stage_pause(0.001) != 0)
            return false;
    }
    return false;
}

static struct tally *victim(struct stage *st)
{
    return &st->page->tallies[st->workers - 1];
}

static bool victim_posed(struct stage *st)
{
    return atomic_load(&victim(st)->posed);
}

/* For the hot object, or for all that it is one of. */
static bool waits_for_hot(const struct tally *t)
{
    uint32_t object = atomic_load(&t->waits_for);

    return object != 0 && objects[object - 1].first == OBJECT_HOT;
}

static bool someone_waits(struct stage *st)
{
    static unsigned seen;
    bool waits = false;

    for (unsigned i = 0; i + 1 < st->workers; i++)
        waits |= waits_for_hot(&st->page->tallies[i]);
    seen = waits ? seen + 1 : 0;
    return seen > 10; /* ms: not just on its way into the queue */
}

static bool heir_found(struct stage *st)
{
    return atomic_load(&st->page->heir_ns) != 0;
}

static int kill_holder(struct stage *st)
{
    struct page *p = st->page;
    char took[24];

    atomic_store(&victim(st)->pose, true);
    if (!await(st, victim_posed) || !await(st, someone_waits)) {
        expect(p, stage_signal() != 0, "a holder and a waiter are found");
        return -1;
    }
    pid_t pid = victim(st)->pid;
    atomic_store(&victim(st)->condemned, true);
    atomic_store(&p->kill_ns, now_ns());
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
    victim(st)->pid = 0;
    if (!await(st, heir_found)) {
        expect(p, stage_signal() != 0, "the dead holder's lock is passed on");
        return -1;
    }
    say("Worker %c (process %d) is killed with SIGKILL while it holds product "
        "[Computer].",
        (int)('A' + st->workers - 1), (int)pid);
    say("Worker %c, which waited for it, has the lock %s after the kill.",
        (int)('A' + atomic_load(&p->heir)),
        show_ns(took, sizeof(took), p->heir_ns - p->kill_ns));
    return 0;
}

static void worker_ended(struct stage *st, unsigned i, int status)
{
    st->page->tallies[i].pid = 0;
    if (WIFSIGNALED(status))
        broken(st->page, "worker %c died: %s", (int)('A' + i),
            strsignal(WTERMSIG(status)));
    else if (status != 0)
        broken(st->page, "worker %c did not end well", (int)('A' + i));
}

static bool workers_ended(struct stage *st)
{
    bool all = true;

    for (unsigned i = 0; i < st->workers; i++) {
        int status, pid = st->page->tallies[i].pid;
        if (pid == 0)
            continue;
        if (waitpid(pid, &status, WNOHANG) == pid)
            worker_ended(st, i, status);
        else
            all = false;
    }
    return all;
}

static int by_size(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

    return (x > y) - (x < y);
}

static void say_latency(struct stage *st, uint64_t longest)
{
    uint32_t *all = malloc(sizeof(*all) * SAMPLES * st->workers);
    char p50[24], p99[24], most[24];
    size_t n = 0;

    for (unsigned i = 0; i < st->workers && all != NULL; i++) {
        const struct tally *t = &st->page->tallies[i];
        size_t own = t->n_samples < SAMPLES ? t->n_samples : SAMPLES;
        memcpy(all + n, t->sample_ns, own * sizeof(*all));
        n += own;
    }
    if (n > 0) {
        qsort(all, n, sizeof(*all), by_size);
        say("Time to the lock, waits included: p50 %s, p99 %s, longest %s.",
            show_ns(p50, sizeof(p50), all[n / 2]),
            show_ns(p99, sizeof(p99), all[n - 1 - n / 100]),
            show_ns(most, sizeof(most), longest));
    }
    free(all);
}

static void say_sums(struct stage *st, const struct tally *sum, double seconds)
{
    const uint64_t *g = sum->grants;
    double all =
        (double)(g[ENQ_MODE_S] + g[ENQ_MODE_E] + g[ENQ_MODE_X] + g[ENQ_MODE_O]);

    say("%.0f locks granted and given back in %.1f s: %.0f a second.", all,
        seconds, all / seconds);
    say("S %llu, E %llu (%llu on top of one's own, %llu as product [@]), X "
        "%llu, O %llu.",
        (unsigned long long)g[ENQ_MODE_S], (unsigned long long)g[ENQ_MODE_E],
        (unsigned long long)sum->cumulated, (unsigned long long)sum->generic,
        (unsigned long long)g[ENQ_MODE_X], (unsigned long long)g[ENQ_MODE_O]);
    say("%llu refused at once, the holder named; %llu promoted, %llu lost to "
        "a promotion.",
        (unsigned long long)sum->refused, (unsigned long long)sum->promoted,
        (unsigned long long)sum->lost);
    say_latency(st, sum->longest_ns);
}

/* No write may have been lost: the counters agree with the workers' counts. */
static void writes_agree(struct stage *st, const struct tally *sum)
{
    uint64_t all = 0;

    for (unsigned i = 0; i < OBJECTS; i++) {
        uint64_t writes = st->page->guards[i].writes;
        all += writes;
        if (writes != sum->wrote[i])
            broken(st->page, "%s [%s]: %llu writes, %llu of them lost",
                objects[i].name, objects[i].key,
                (unsigned long long)sum->wrote[i],
                (unsigned long long)(sum->wrote[i] - writes));
    }
    if (atomic_load(&st->page->broken) == 0)
        say("%llu guarded writes, none lost; no two conflicting holders; "
            "tokens only grew.",
            (unsigned long long)all);
}

static void add_up(struct stage *st, struct tally *sum)
{
    for (unsigned i = 0; i < st->workers; i++) {
        const struct tally *t = &st->page->tallies[i];
        for (unsigned m = ENQ_MODE_S; m <= ENQ_MODE_O; m++)
            sum->grants[m] += t->grants[m];
        for (unsigned o = 0; o < OBJECTS; o++)
            sum->wrote[o] += t->wrote[o];
        sum->generic += t->generic;
        sum->cumulated += t->cumulated;
        sum->refused += t->refused;
        sum->promoted += t->promoted;
        sum->lost += t->lost;
        if (t->longest_ns > sum->longest_ns)
            sum->longest_ns = t->longest_ns;
    }
}

int scene_rush(struct stage *st)
{
    static struct tally sum;

    say_scene("The rush");
    say("%u workers lock %d objects in all four modes for %g s (seed %llu).",
        st->workers, OBJECTS - 1, st->seconds, (unsigned long long)st->seed);
    uint64_t begin = now_ns();
    if (workers_begin(st) != 0 || stage_pause(st->seconds / 2) != 0 ||
        kill_holder(st) != 0 || stage_pause(st->seconds / 2) != 0)
        return -1;
    atomic_store(&st->page->stop, 1);
    if (!await(st, workers_ended)) {
        expect(st->page, stage_signal() != 0, "all workers end when told");
        return -1;
    }
    double seconds = (double)(now_ns() - begin) / 1e9;
    add_up(st, &sum);
    say_sums(st, &sum, seconds);
    writes_agree(st, &sum);
    return 0;
}
