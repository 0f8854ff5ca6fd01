/*
 * failures.c - every call of enq.h, with every n-th call that it makes failing:
 * once, and from then on.
 *
 * Each case is a process of its own. It makes the scene, arms the failure,
 * does the act, and judges: the answer is the usual one, or a documented fault
 * with a text about it; what was held is held; the table is in order. Then the
 * act is done again, and succeeds. At the end everything is closed, and no
 * descriptor, mapping, thread, block, slot or page is left. How many blocks
 * remain in the best case says the same act without a failure.
 */
#include <errno.h>
#include <pwd.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "api/attachment.h"
#include "base/atomic.h"
#include "documented.h"
#include "inject.h"
#include "scene.h"

#define TIMES 4 /* that a failing act is repeated, so that a leak adds up */

/* What a call of a kind may fail with. */
static const struct {
    enum kind kind;
    int error;
    bool once_only; /* for ever, the library rightly tries for ever */
} errors[] = {
    {KIND_MEMORY, ENOMEM, false},
    {KIND_MMAP, ENOMEM, false},
    {KIND_MADVISE, ENOMEM, false},
    {KIND_OPEN, EMFILE, false},
    {KIND_OPEN, ENFILE, false},
    {KIND_OPEN, ENOMEM, false},
    {KIND_OPEN, ENOSPC, false},
    {KIND_FOPEN, EMFILE, false},
    {KIND_FOPEN, ENOMEM, false},
    {KIND_FSTAT, ENOMEM, false},
    {KIND_STAT, ENOMEM, false},
    {KIND_FCHMOD, EPERM, false},
    {KIND_FTRUNCATE, ENOMEM, false},
    {KIND_FTRUNCATE, EFBIG, false},
    {KIND_FALLOCATE, ENOSPC, false},
    {KIND_FALLOCATE, ENOMEM, false},
    {KIND_FALLOCATE, EINTR, true},
    {KIND_LINK, ENOENT, false}, /* no /proc */
    {KIND_LINK, ENOSPC, false},
    {KIND_LINK, ENOMEM, false},
    {KIND_RENAME, ENOSPC, false},
    {KIND_RENAME, ENOMEM, false},
    {KIND_UNLINK, EACCES, false},
    {KIND_FLOCK, ENOMEM, false},
    {KIND_FLOCK, EINTR, true},
    {KIND_FCNTL, ENOLCK, false},
    {KIND_FCNTL, EINTR, true},
    {KIND_READ, EIO, false},
    {KIND_WRITE, ENOSPC, false},
    {KIND_WRITE, EINTR, true},
    {KIND_THREAD, EAGAIN, false},
    {KIND_ATTR, ENOMEM, false},
    {KIND_MUTEX_INIT, ENOMEM, false},
    {KIND_ROBUST, EAGAIN, false},
    {KIND_KEY, EAGAIN, false},
    {KIND_SPECIFIC, ENOMEM, false},
    {KIND_FUTEX, ENOSYS, false},
    {KIND_FUTEX, EPERM, false},
    {KIND_FUTEX, ENOMEM, false},
    {KIND_RANDOM, EINTR, true},
    {KIND_RANDOM, ENOSYS, false},
    {KIND_HOST, EFAULT, false},
};

struct outcome {
    unsigned fired;
    long blocks;
    char text[1024];   /* what ended it */
    char answer[1024]; /* what is wrong with the answer */
};

struct trial {
    const struct op *op;
    struct shot shot;
    struct outcome *verdict;
    long blocks_fine;
};

/* --- what is left in this process, and in the table --- */

static unsigned mappings_of(const char *path)
{
    FILE *f = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned n = 0;

    while (fgets(line, sizeof(line), f) != NULL)
        n += strstr(line, path) != NULL;
    fclose(f);
    return n;
}

/* Pages of a session that it does not know of are lost while it lives; those
   of none that lives are lost for ever. */
static void no_page_is_lost(const struct scene *s, const struct map *map)
{
    for (uint32_t i = 0; i < map->h->pages_used; i++) {
        uint32_t owner = map->pages[i].owner;
        bool known = owner == 0 || map->pages[i].kind == PAGE_BUCKETS;

        for (unsigned k = 0; k < s->n_open && !known; k++) {
            const struct session *session = &s->open[k]->session;
            known = session->ref == owner;
            for (uint32_t p = 0; known && p <= session->n_pages; p++) {
                must(p < session->n_pages,
                    "page %u was claimed and then forgotten", i);
                if (session->pages[p] == i)
                    break;
            }
        }
        must(known, "page %u belongs to a session that has ended", i);
    }
}

/* What left locks is dead: its session may still have to be reaped. */
static bool dead_are_reaped(struct enq *w)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    char report[1024];

    want(ENQ_OK, enq_stat(w, &stats));
    return enq_doctor(w, ENQ_DOCTOR_FIX, report, sizeof(report)) == 0;
}

static void what_was_held_is_held(const struct scene *s, struct enq *w)
{
    enq_handle handle;
    char id[16];

    for (int i = 0; s->left && i < SCENE_LEFT; i++) {
        snprintf(id, sizeof(id), "keep-%d", i);
        want(ENQ_OK, enq_find(w, id, &handle));
    }
    for (unsigned i = s->used; i < SCENE_MINE && s->mine[0].handle != 0; i++)
        want(ENQ_OK, enq_valid(w, s->mine[i].handle));
}

static void table_is_in_order(struct scene *s)
{
    struct enq *w = open_at(s->path);

    eventually(dead_are_reaped(w));
    must_be_healthy(w);
    what_was_held_is_held(s, w);
    s->open[s->n_open++] = w;
    no_page_is_lost(s, w->map);
    enq_close(s->open[--s->n_open]);
}

static void nobody_is_left(struct scene *s)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq *w = open_at(s->path);

    s->open[0] = w;
    s->n_open = 1;
    eventually(dead_are_reaped(w));
    no_page_is_lost(s, w->map);
    want(ENQ_OK, enq_stat(w, &stats));
    must(stats.sessions == 1 && stats.threads <= 2,
        "%llu sessions and %llu threads are left",
        (unsigned long long)stats.sessions, (unsigned long long)stats.threads);
    must(stats.waiting == 0, "a waiter is left");
    enq_close(w);
    s->n_open = 0;
}

/* --- one case --- */

/* Words of the call before: they must not be given out as those of this. */
static const char *stale_words(struct scene *s)
{
    char id[ENQ_ID_BYTES];

    if (s->n_open > 0)
        enq_id(s->open[0], 0, id);
    else
        enq_open(NULL, NULL, NULL);
    return enq_why();
}

/* Noted, and the rest is looked at all the same. */
#define complain(...)                                                          \
    snprintf(t->verdict->answer, sizeof(t->verdict->answer), __VA_ARGS__)

/* What these answer says more than their errno: that the descriptor is not
   ours any more, that deaths would not be noticed. */
static bool may_be_translated(enum kind kind)
{
    return kind == KIND_FSTAT || kind == KIND_STAT || kind == KIND_FOPEN ||
        kind == KIND_READ || kind == KIND_MUTEX_INIT || kind == KIND_ROBUST;
}

static void is_a_good_code(const struct trial *t, const char *text, int rc)
{
    if (rc > 0)
        complain("the answer is %s", enq_result_name(rc));
    else if (!documented(t->op->call, rc))
        complain("%s (\"%s\") is no documented fault of enq_%s",
            enq_result_name(rc), text, t->op->call);
    else if (rc != -t->shot.error && !may_be_translated(t->shot.kind) &&
        documented(t->op->call, -t->shot.error))
        complain("%s (\"%s\") is said to be %s", enq_strerror(-t->shot.error),
            text, enq_result_name(rc));
}

static void is_a_good_text(const struct trial *t, const char *text,
    const char *stale)
{
    if (text[0] == '\0' || strcmp(text, stale) == 0 ||
        strstr(text, "there is no lock space") != NULL)
        complain("it is explained by \"%s\"", text);
    else if (strchr(text, '/') == NULL && strstr(text, "memory") == NULL &&
        strstr(text, "thread") == NULL && strstr(text, "mutex") == NULL &&
        strstr(text, "dump") == NULL)
        complain("\"%s\" names nothing", text);
}

static int act_with(const struct trial *t, struct scene *s, unsigned *fired)
{
    const char *text;
    char stale[512];
    int rc;

    snprintf(stale, sizeof(stale), "%s", stale_words(s));
    inject_arm(&t->shot);
    s->job_why[0] = '\0';
    rc = t->op->act(s);
    *fired = inject_disarm();
    text = s->job_why[0] != '\0' ? s->job_why : enq_why();
    if (rc == t->op->natural)
        return rc;
    is_a_good_text(t, text, stale);
    is_a_good_code(t, text, rc);
    return rc;
}

static void no_file_is_left(const struct scene *s)
{
    char dir[256];

    snprintf(dir, sizeof(dir), "%s", s->path);
    *strrchr(dir, '/') = '\0';
    must(entries_of(dir) <= (access(s->path, F_OK) == 0),
        "a file is left in the directory");
}

/* A descriptor of which fstat() says nothing may be another's by now, and is
   not closed. */
static void nothing_is_left(struct scene *s, unsigned fds, enum kind kind)
{
    eventually(entries_of("/proc/self/task") == 1);
    if (kind != KIND_FSTAT)
        eventually(entries_of("/proc/self/fd") == fds);
    must(mappings_of(s->path) == 0, "it is still mapped");
}

static void run_case(void *arg)
{
    struct trial *t = arg;
    struct scene s = {0};
    unsigned fds = entries_of("/proc/self/fd"), fired;
    int rc = -1;

    fail_into(t->verdict->text, sizeof(t->verdict->text));
    alarm(120); /* it hangs */
    test_path("space", s.path);
    t->op->prepare(&s);
    for (int i = 0; i < TIMES && rc < 0; i++) {
        rc = act_with(t, &s, &fired);
        t->verdict->fired += fired;
        if (fired == 0)
            break;
    }
    no_file_is_left(&s);
    if (t->verdict->fired > 0 || t->shot.kind == KIND_NONE)
        table_is_in_order(&s);
    want(t->op->natural, t->op->act(&s));
    scene_end(&s);
    nothing_is_left(&s, fds, t->shot.kind);
    t->verdict->blocks = live_blocks();
    must(t->shot.kind == KIND_NONE || t->verdict->fired == 0 ||
            t->verdict->blocks <= t->blocks_fine + (rc < 0 ? 2 : 0),
        "%ld blocks of memory are left, %ld without a failure",
        t->verdict->blocks, t->blocks_fine);
    nobody_is_left(&s);
    nothing_is_left(&s, fds, t->shot.kind);
}

/* --- all cases of a call --- */

struct tally {
    unsigned cases, bad;
    char shown[2][1024]; /* those are not repeated */
};

static void show(const struct trial *t, struct tally *tally, int status)
{
    const struct shot *shot = &t->shot;
    const struct outcome *v = t->verdict;

    tally->bad++;
    if (strcmp(tally->shown[0], v->text) == 0 &&
        strcmp(tally->shown[1], v->answer) == 0)
        return;
    memcpy(tally->shown[0], v->text, sizeof(v->text));
    memcpy(tally->shown[1], v->answer, sizeof(v->answer));
    printf("%s: %s %u fails with %s%s:\n", t->op->name, kind_name(shot->kind),
        shot->nth, enq_result_name(-shot->error), shot->on ? " for ever" : "");
    if (v->answer[0] != '\0')
        printf("    %s\n", v->answer);
    if (status != 0)
        printf("    %s (status %#x)\n", v->text, (unsigned)status);
}

static bool one_case(struct trial *t, struct tally *tally)
{
    char space[256];
    int status;

    memset(t->verdict, 0, sizeof(*t->verdict));
    status = collect(spawn(run_case, t));
    unlink(test_path("space", space));
    tally->cases += t->verdict->fired > 0;
    if (t->verdict->fired > 0)
        count(FIGURE_FAILURES);
    if (status != 0 || t->verdict->answer[0] != '\0')
        show(t, tally, status);
    return t->verdict->fired > 0;
}

static void each_nth(struct trial *t, struct tally *tally)
{
    for (t->shot.nth = 1; one_case(t, tally); t->shot.nth++)
        must(t->shot.nth < 100000, "there is no end");
}

/* What libc does at the first time only is not the library's. */
static void warm_up(void)
{
    struct passwd entry, *found;
    char buf[1024];

    getpwuid_r(geteuid(), &entry, buf, sizeof(buf), &found);
}

void fail_all(const void *arg)
{
    const struct op *op = arg;
    struct outcome *verdict = shared_memory(sizeof(*verdict));
    struct trial t = {.op = op, .verdict = verdict};
    struct tally tally = {.cases = 0};

    warm_up();
    one_case(&t, &tally);
    must(tally.bad == 0, "%s does not even work when nothing fails", op->name);
    t.blocks_fine = verdict->blocks;
    for (size_t i = 0; i < LENGTH(errors); i++) {
        t.shot = (struct shot){errors[i].kind, 1, errors[i].error, false};
        each_nth(&t, &tally);
        t.shot.on = true;
        if (!errors[i].once_only)
            each_nth(&t, &tally);
    }
    must(tally.bad == 0, "%u of %u failures are not survived", tally.bad,
        tally.cases);
}
