/*
 * table.c - libenq's acts that concern the whole table: die with many
 * locks, attach, list, ask for an '@' lock over many.
 */
#include "enq/seat.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    ATTACHMENTS = 101,
    VICTIM_WAIT_MS = 30000,
    PREEMPTED_NS = 5000, /* without a processor one misses more than that */
};

/* The key of the fight first, then others. It may have to wait for those of
   the victim before, which are only just being reaped. */
int enq_hold_victim(struct seat *s)
{
    struct mine *m = s->mine;

    m->req.wait_ms = VICTIM_WAIT_MS;
    if (enq_take(s) != 0)
        return -1;
    m->req.key[0] = "others";
    for (uint64_t i = 1; i < s->trial->held; i++) {
        snprintf(m->field, sizeof(m->field), "%u", (unsigned)i);
        if (enq_take(s) != 0)
            return -1;
    }
    return 0;
}

/* Attach ------------------------------------------------------------------- */

/* In a process that never did: it pays for the mapping, its thread's slot and
   the library's helper thread. */
static _Noreturn void first_attach(const struct space *space, int fd)
{
    struct enq *e;
    uint64_t begin = now_ns();
    int rc = enq_open(&e, space->address, NULL);
    uint64_t ns = now_ns() - begin;

    if (rc != ENQ_OK || write(fd, &ns, sizeof(ns)) != sizeof(ns))
        _exit(EXIT_FAILED);
    enq_close(e);
    _exit(0);
}

static int attach_one(struct seat *s)
{
    int fd[2], status = -1;
    uint64_t ns = 0;

    if (pipe(fd) != 0)
        return seat_fail(s, "pipe: %s", strerror(errno));
    pid_t pid = fork();
    if (pid == 0)
        first_attach(s->arena, fd[1]);
    close(fd[1]);
    bool well = pid > 0 && read(fd[0], &ns, sizeof(ns)) == sizeof(ns);
    close(fd[0]);
    if (pid > 0)
        waitpid(pid, &status, 0);
    if (!well || status != 0)
        return seat_fail(s, "a new process could not attach");
    hist_add(&s->slot->hist, ns);
    return 0;
}

/* Memory that the segment's file has, with this one session. */
int enq_weigh_empty(struct seat *s)
{
    struct mine *m = s->mine;
    struct enq_stats stats = {.size = sizeof(stats)};
    struct stat file;

    int rc = enq_stat(m->e, &stats);
    if (rc != ENQ_OK)
        return enq_failed(s, "enq_stat", rc);
    if (stat(stats.space, &file) != 0)
        return seat_fail(s, "%s: %s", stats.space, strerror(errno));
    s->slot->bytes = (double)file.st_blocks * 512;
    for (int i = 0; i < ATTACHMENTS; i++)
        if (attach_one(s) != 0)
            return -1;
    return 0;
}

/* List --------------------------------------------------------------------- */

/* The bystander may have its lock while we look. */
int enq_prepare_list(struct seat *s)
{
    struct mine *m = s->mine;

    if (seat_aside(s))
        return 0;
    m->n_infos = s->trial->held + 2;
    m->infos = calloc(m->n_infos, sizeof(*m->infos));
    if (m->infos == NULL)
        return seat_fail(s, "no memory for %zu infos", m->n_infos);
    return enq_hold_many(s);
}

int enq_list_batch(struct seat *s, uint32_t n)
{
    struct mine *m = s->mine;
    bool all = s->trial->scenario->work == WORK_LIST;

    for (uint32_t i = 0; i < n; i++) {
        size_t total = 0;
        int rc = enq_list(m->e, all ? NULL : m->req.name, NULL, m->infos,
            m->n_infos, &total);
        if (rc != ENQ_OK)
            return enq_failed(s, "enq_list", rc);
        if (total < s->trial->held)
            return seat_fail(s, "enq_list found %zu of %llu", total,
                (unsigned long long)s->trial->held);
    }
    return 0;
}

int enq_list_once(struct seat *s)
{
    return enq_list_batch(s, 1);
}

/* How long a locker stops where nobody lists. */
int enq_list_none(struct seat *s, uint32_t n)
{
    struct timespec ms = {.tv_nsec = 1000000};

    (void)s;
    for (uint32_t i = 0; i < n; i++)
        clock_nanosleep(CLOCK_MONOTONIC, 0, &ms, NULL);
    return 0;
}

/* How often the kernel took the processor away. */
static long preempted(void)
{
    struct rusage use;

    return getrusage(RUSAGE_THREAD, &use) == 0 ? use.ru_nivcsw : 0;
}

/* A stop is a pair that took long although we were left our processor: what
   other programs of the machine do is not the lister's doing. */
int enq_list_beside(struct seat *s)
{
    long known = preempted();

    while (atomic_load_explicit(s->stop, memory_order_relaxed) == 0) {
        uint64_t begin = now_ns();
        if (enq_pair_batch(s, 1) != 0)
            return -1;
        uint64_t ns = now_ns() - begin;
        if (ns < PREEMPTED_NS)
            continue;
        long now = preempted();
        if (now == known && ns > s->slot->longest_ns)
            s->slot->longest_ns = ns;
        known = now;
    }
    return 0;
}

/* Wide --------------------------------------------------------------------- */

/* All are S, so that each has to be looked at before the answer is yes. */
int enq_prepare_wide(struct seat *s)
{
    struct mine *m = s->mine;

    m->req.owner = "holder";
    if (enq_hold_many(s) != 0)
        return -1;
    m->req.owner = m->owner;
    snprintf(m->field, sizeof(m->field), "@");
    return 0;
}
