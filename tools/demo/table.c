/*
 * table.c - the last scenes: a still life of held and waiting locks as
 * lockctl shows it, and what has to be left when all is over: nothing.
 */
#include "demo.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static struct order lock_order(const char *name, const char *key,
    enum enq_mode mode)
{
    return (struct order){.verb = DO_LOCK,
        .name = name,
        .key = key,
        .mode = mode,
        .wait_ms = 5000};
}

static int lockctl_list(struct stage *st)
{
    int status = 0;
    pid_t pid = stage_fork();

    if (pid == 0) {
        execl(st->lockctl, "lockctl", "-S", stage_space(), "list",
            (char *)NULL);
        fprintf(stderr, "%s: %s\n", st->lockctl, strerror(errno));
        _exit(127);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        continue;
    expect(st->page, pid > 0 && status == 0, "lockctl list ends with 0");
    return stage_signal() != 0 ? -1 : 0;
}

/* The two that wait are in the queue when the table counts them. */
static int await_waiters(struct stage *st, uint64_t n)
{
    struct enq_stats now = {.size = sizeof(now)};

    for (int ms = 0; ms < 5000; ms++) {
        if (enq_stat(st->e, &now) != ENQ_OK || stage_pause(0.001) != 0)
            return -1;
        if (now.waiting == n)
            return 0;
    }
    expect(st->page, false, "both waiters stand in the queue");
    return 0;
}

int scene_table(struct stage *st)
{
    struct actor *a = &st->page->actors[0], *b = a + 1, *c = a + 2, *d = a + 3;
    struct order give = {.verb = DO_UNLOCK};

    say_scene("The table, as an operator sees it: lockctl list");
    say("A edits product [Computer], B and D wait for it; A and C look at "
        "customer [Miller].");
    if (stage_look(st) != 0 ||
        actor_do(a, lock_order("product", "Computer", ENQ_MODE_E)) != 0)
        return -1;
    give.grant = a->answer.grant;
    if (actor_do(a, lock_order("customer", "Miller", ENQ_MODE_S)) != 0 ||
        actor_do(c, lock_order("customer", "Miller", ENQ_MODE_S)) != 0)
        return -1;
    actor_begin(b, lock_order("product", "Computer", ENQ_MODE_E));
    if (await_waiters(st, 1) != 0)
        return -1;
    actor_begin(d, lock_order("product", "Computer", ENQ_MODE_S));
    if (await_waiters(st, 2) != 0)
        return -1;
    puts("");
    if (lockctl_list(st) != 0 || actor_do(a, give) != 0 || actor_end(b) != 0)
        return -1;
    expect(st->page, b->answer.rc == ENQ_OK, "B is served first");
    give.grant = b->answer.grant;
    if (actor_do(b, give) != 0 || actor_end(d) != 0)
        return -1;
    expect(st->page, d->answer.rc == ENQ_OK, "D is served after B");
    return 0;
}

static void table_is_clean(struct stage *st)
{
    struct enq_stats s = {.size = sizeof(s)};
    char report[2048] = "";
    int rc = enq_stat(st->e, &s);

    expect(st->page, rc == ENQ_OK && s.held == 0 && s.waiting == 0,
        "all locks end with their processes (%llu held, %llu waiting)",
        (unsigned long long)s.held, (unsigned long long)s.waiting);
    rc = enq_doctor(st->e, 0, report, sizeof(report));
    if (!expect(st->page, rc == 0, "the table is sound (enq_doctor: %d)", rc))
        say("%s", report);
}

static bool anything_left(void)
{
    const char *ours = strchr(stage_space(), ':') + 1;
    DIR *dir = opendir("/dev/shm");
    bool left = false;

    for (struct dirent *d; dir != NULL && (d = readdir(dir)) != NULL;)
        left |= strstr(d->d_name, ours) != NULL;
    if (dir != NULL)
        closedir(dir);
    return left;
}

int scene_end(struct stage *st)
{
    actors_end(st);
    if (stage_signal() != 0)
        return -1;
    table_is_clean(st);
    stage_end(st);
    expect(st->page, !anything_left(), "nothing is left in /dev/shm");
    return 0;
}
