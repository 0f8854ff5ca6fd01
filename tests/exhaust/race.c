/*
 * race.c - creators of a space that race, and are killed at random.
 *
 * In each race some processes open the same new space at once. Some of them
 * are killed at a random time, at a random crash point, or before a random call
 * of libc. Afterwards all that live have the same segment, it works and is in
 * order, and nothing but it lies in the directory. Races are of three kinds:
 * there is nothing; there is a segment of an earlier boot; somebody removes the
 * space meanwhile.
 */
#include <dirent.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "api/attachment.h"
#include "base/hash.h"
#include "frame.h"
#include "inject.h"
#include "lib/dice.h"

#define RACERS_MAX 3

enum ground { NOTHING, STALE, REMOVED };
enum death { LIVES, AT_A_TIME, AT_A_POINT, AT_A_CALL, DEATHS };

struct race {
    uint32_t go;
    enum ground ground;
    unsigned n;
    struct racer {
        pid_t pid;
        enum death death;
        unsigned when;   /* us, points or calls */
        uint32_t opened; /* stored last */
        uint8_t uuid[16];
        uint64_t token;
    } racers[RACERS_MAX];
};

/* --- a racer --- */

static unsigned points_left;

static void die_at_point(const struct point *p)
{
    (void)p;
    if (__atomic_add_fetch(&points_left, -1, __ATOMIC_SEQ_CST) == 0)
        kill(getpid(), SIGKILL);
}

static void arm(const struct racer *me)
{
    if (me->death == AT_A_CALL)
        inject_kill(1 + me->when % 60);
    if (me->death != AT_A_POINT)
        return;
    points_left = 1 + me->when % 100;
    point_hook = die_at_point;
}

static void race_once(struct race *race, struct racer *me)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 1000, .owner = "racer"};
    struct enq_grant g;
    struct enq *e;

    while (shm_load_acquire(&race->go) == 0)
        syscall(SYS_futex, &race->go, FUTEX_WAIT, 0, NULL, NULL, 0);
    arm(me);
    want(ENQ_OK, enq_open(&e, test_space(), &opts));
    memcpy(me->uuid, e->map->h->uuid, 16);
    /* where it was removed meanwhile, that is the answer */
    if (enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_S), &g) == ENQ_OK)
        me->token = g.token;
    else
        must(race->ground == REMOVED, "no lock: %s", enq_why());
    shm_store_release(&me->opened, 1);
    if (me->death != LIVES)
        for (;;)
            pause(); /* the kill is on its way, or comes at the end */
    enq_close(e);
}

static void begin_racer(struct race *race, unsigned i)
{
    struct racer *me = &race->racers[i];

    pid_t pid = fork();

    must(pid >= 0, "fork: %m");
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        race_once(race, me);
        _exit(0);
    }
    me->pid = pid; /* not in the child: the race is shared */
}

/* --- what they find --- */

static void leave_stale_file(void *nothing)
{
    struct enq *e = open_at(test_space());
    struct seg_header *h = e->map->h;
    const char *from = (const char *)&h->layout_version;

    (void)nothing;
    h->boot_id[0] = 'x';
    h->checksum = (uint32_t)hash_bytes(from,
        (size_t)((const char *)&h->checksum - from), LAYOUT_MAGIC);
}

/* --- a race --- */

static void plan_race(struct race *race, uint64_t seed)
{
    memset(race, 0, sizeof(*race));
    if (dice_roll(&seed) % 6 == 0)
        race->ground = STALE;
    else if (dice_roll(&seed) % 8 == 0)
        race->ground = REMOVED;
    race->n = dice_roll(&seed) % 3 == 0 ? RACERS_MAX : 2;
    for (unsigned i = 0; i < race->n; i++) {
        if (dice_roll(&seed) % 5 < 3)
            race->racers[i].death = (enum death)(dice_roll(&seed) % DEATHS);
        race->racers[i].when = (unsigned)(dice_roll(&seed) % 1500);
    }
}

/* Those whose time has come; and those that lived longer than they should. */
static void kill_victims(struct race *race)
{
    unsigned passed_us = 0;

    for (unsigned i = 0; i < race->n; i++) {
        struct racer *r = &race->racers[i];

        if (r->death != AT_A_TIME)
            continue;
        if (r->when > passed_us) {
            nap_us(r->when - passed_us);
            passed_us = r->when;
        }
        kill(r->pid, SIGKILL);
    }
    for (unsigned i = 0; i < race->n; i++) {
        struct racer *r = &race->racers[i];
        siginfo_t gone;

        while (r->death > AT_A_TIME && !shm_load_acquire(&r->opened)) {
            gone.si_pid = 0;
            waitid(P_PID, (id_t)r->pid, &gone, WEXITED | WNOHANG | WNOWAIT);
            if (gone.si_pid != 0)
                break;
            nap_us(50);
        }
        if (r->death > AT_A_TIME)
            kill(r->pid, SIGKILL);
    }
}

static void end_race(struct race *race)
{
    for (unsigned i = 0; i < race->n; i++) {
        struct racer *r = &race->racers[i];
        int status = collect(r->pid);

        must(r->death != LIVES ? WIFSIGNALED(status) : status == 0,
            "a racer ended with status %#x", (unsigned)status);
    }
}

/* All that were granted a lock have one and the same segment, and no two have
   the same token. */
static void all_agree(const struct race *race, const uint8_t uuid[16])
{
    for (unsigned i = 0; i < race->n; i++) {
        const struct racer *r = &race->racers[i];

        if (!shm_load_acquire(&r->opened))
            continue;
        must(race->ground == REMOVED || memcmp(r->uuid, uuid, 16) == 0,
            "racers have different segments");
        for (unsigned k = 0; k < i; k++)
            must(r->token == 0 || race->racers[k].token != r->token,
                "two have the token %llu", (unsigned long long)r->token);
    }
}

static void look_at_result(void *arg)
{
    const struct race *race = arg;
    struct enq *e = open_at(test_space());
    struct enq_grant g;
    char report[1024];

    all_agree(race, e->map->h->uuid);
    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .wait_ms = 2000),
            &g));
    for (unsigned i = 0; i < race->n; i++)
        must(g.token > race->racers[i].token,
            "the token %llu comes after %llu (removed meanwhile: %s)",
            (unsigned long long)g.token,
            (unsigned long long)race->racers[i].token,
            race->ground == REMOVED ? "yes" : "no");
    eventually(enq_doctor(e, ENQ_DOCTOR_FIX, report, sizeof(report)) == 0);
    enq_close(e);
}

static void remove_space(void *nothing)
{
    int rc = enq_unlink(test_space());

    (void)nothing;
    must(rc == ENQ_OK || rc == -ENOENT, "enq_unlink: %s", enq_why());
}

static void run_race(struct race *race)
{
    if (race->ground == STALE)
        apart(leave_stale_file, NULL);
    for (unsigned i = 0; i < race->n; i++)
        begin_racer(race, i);
    shm_store_release(&race->go, 1);
    syscall(SYS_futex, &race->go, FUTEX_WAKE, RACERS_MAX, NULL, NULL, 0);
    if (race->ground == REMOVED) {
        /* by the library: attached processes give no lock any more from then
           on, which no rm(1) could see to */
        nap_us(race->racers[0].when);
        apart(remove_space, NULL);
    }
    kill_victims(race);
    end_race(race);
    apart(look_at_result, race);
    must(unlink(test_space()) == 0, "the space is gone: %m");
}

/* What the dead have left beside the space: how many files. */
static unsigned tidy(void)
{
    DIR *d = opendir(test_dir());
    struct dirent *file;
    char path[256];
    unsigned n = 0;

    while ((file = readdir(d)) != NULL)
        n += unlink(test_path(file->d_name, path)) == 0;
    closedir(d);
    return n;
}

/* --- many: two tests, as there are two at a time --- */

static bool more(unsigned done)
{
    return done < (options.count + 1) / 2 || now_ms() < options.until_ms;
}

static void many_races(uint64_t seed)
{
    struct race *race = shared_memory(sizeof(*race));
    uint64_t next = seed, first_seed = 0;
    unsigned left, races_with = 0;

    test_space(); /* of this process, and not of each racer */
    for (unsigned done = 0; more(done); done++) {
        fail_note("--seed %llu --count 1: ", (unsigned long long)seed);
        plan_race(race, seed);
        run_race(race);
        count(FIGURE_RACES);
        left = tidy();
        if (left > 0 && races_with++ == 0)
            first_seed = seed;
        seed = dice_roll(&next);
    }
    fail_note("--seed %llu --count 1: ", (unsigned long long)first_seed);
    must(races_with == 0, "in %u races the dead have left files behind",
        races_with);
}

static void one_half(void)
{
    many_races(options.seed);
}

static void the_other_half(void)
{
    many_races(~options.seed);
}

const struct test race_tests[] = {
    {"creators that race and die leave one good segment", one_half},
    {"and so do others", the_other_half},
    {NULL, NULL},
};
