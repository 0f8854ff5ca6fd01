/*
 * survive.c - P1: any process may be killed at any moment, also one that clears
 * up after others; the rest go on, without opening anew, in the same file.
 *
 * Victims make every call there is, and are killed in each: half of them by
 * their own hand at some store inside the call that it is their turn to die in,
 * half from outside whenever it happens. One that finds something to repair may
 * die over that. Survivors have opened once, before all that, and must get
 * every lock that they ask for.
 */
#include <sys/stat.h>

#include "base/point.h"
#include "dice.h"
#include "victim.h"

#define KILLS_EACH 3
#define KILLS_MIN 400
#define PLAY_MS 4000
#define PLAY_MOST_MS 120000

/* --- the killer --- */

static struct victims {
    pid_t pid[VICTIMS];
    double until_ms[VICTIMS];
    uint32_t lives;
} victims;

static void begin_life(unsigned place)
{
    uint32_t life = victims.lives++;
    pid_t pid;

    scene->inside[place] = scene->at_repair[place] = 0;
    pid = fork();
    must(pid >= 0);
    if (pid == 0)
        victim_live(place, life);
    victims.pid[place] = pid;
    victims.until_ms[place] = env_ms() + (DIES_BY_ITSELF(life) ? 20 : life % 8);
}

static void note_death(unsigned place)
{
    uint32_t inside = scene->inside[place];

    scene->kills++;
    scene->repairers += scene->at_repair[place];
    if (inside > 0)
        scene->killed_in[inside - 1]++;
}

static void look_after(unsigned place)
{
    int status;

    if (env_ms() >= victims.until_ms[place])
        kill(victims.pid[place], SIGKILL);
    if (waitpid(victims.pid[place], &status, WNOHANG) == 0)
        return;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        victim_fault("a victim ended by itself", status);
    note_death(place);
    begin_life(place);
}

static uint32_t fewest_kills(void)
{
    uint32_t fewest = UINT32_MAX;

    for (size_t i = 0; i < N_CALLS; i++)
        if (scene->killed_in[i] < fewest)
            fewest = scene->killed_in[i];
    return fewest;
}

static bool is_enough(double took_ms)
{
    return took_ms > PLAY_MOST_MS ||
        (took_ms > PLAY_MS && fewest_kills() >= KILLS_EACH &&
            scene->kills >= KILLS_MIN && scene->repairers > 0);
}

static void kill_again_and_again(void)
{
    double began = env_ms();

    for (unsigned p = 0; p < VICTIMS; p++)
        begin_life(p);
    while (!is_enough(env_ms() - began)) {
        for (unsigned p = 0; p < VICTIMS; p++)
            look_after(p);
        env_nap(0.2);
    }
    for (unsigned p = 0; p < VICTIMS; p++) {
        kill(victims.pid[p], SIGKILL);
        env_killed(victims.pid[p]);
        note_death(p);
    }
}

/* --- a survivor --- */

static int survive(void *arg)
{
    static const char *const fields[] = {"a", "b", "c", "@"};
    unsigned place = (unsigned)((uint64_t *)arg - scene->takes);
    struct enq *e = env_open();
    struct enq_grant g;

    shm_add(&scene->ready, 1);
    while (!shm_load(&scene->stop)) {
        const char *field = fields[scene->takes[place]++ % LENGTH(fields)];
        double began = env_ms(), took;

        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "env", .key = {field},
                    .mode = field[0] == '@' ? ENQ_MODE_S : ENQ_MODE_X,
                    .ttl_ms = ENQ_FOREVER, .wait_ms = WAIT_MS),
                &g));
        took = env_ms() - began;
        if (took > scene->worst_ms[place])
            scene->worst_ms[place] = took;
        want(ENQ_OK, enq_valid(e, g.handle));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        env_nap(0.2);
    }
    enq_close(e);
    return 0;
}

static void take_each_key(struct enq *e)
{
    static const char *const fields[] = {"a", "b", "c", "@"};
    struct enq_grant g;

    for (size_t i = 0; i < LENGTH(fields); i++) {
        want(ENQ_OK, env_take(e, fields[i], WAIT_MS, &g));
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
}

static void end_what_was_kept(struct enq *e)
{
    char id[16];

    for (unsigned p = 0; p < VICTIMS; p++) {
        snprintf(id, sizeof(id), "kept-%u", p);
        enq_break(e, id);
    }
}

/* At rest: nothing is left of the dead. */
static void expect_peace(struct enq *e)
{
    take_each_key(e);
    end_what_was_kept(e);
    eventually(env_stat(e).sessions == 1);
    must(env_stat(e).waiting == 0);
    eventually(env_stat(e).held == 0);
    env_healthy(e);
}

static ino_t file_of_space(void)
{
    struct stat st;

    must(stat(env_space_path(), &st) == 0 && st.st_nlink == 1);
    return st.st_ino;
}

static void tell_survivors(struct enq *e)
{
    uint64_t takes = 0;
    double worst_ms = 0;

    for (unsigned i = 0; i < SURVIVORS; i++) {
        takes += scene->takes[i];
        worst_ms =
            worst_ms > scene->worst_ms[i] ? worst_ms : scene->worst_ms[i];
        must(scene->takes[i] > 100);
    }
    env_say("%u kills, of each call %u or more, %u in the middle of a repair; "
            "%llu repairs; %d survivors took %llu locks, the longest wait "
            "%.1f ms",
        scene->kills, fewest_kills(), scene->repairers,
        (unsigned long long)env_stat(e).recoveries, SURVIVORS,
        (unsigned long long)takes, worst_ms);
}

static void killed_in_every_call(void)
{
    struct enq *e = env_open();
    ino_t file = file_of_space();
    pid_t pids[SURVIVORS];

    scene = env_shared(sizeof(*scene));
    for (unsigned i = 0; i < SURVIVORS; i++)
        pids[i] = env_child(survive, &scene->takes[i]);
    eventually(shm_load(&scene->ready) == SURVIVORS);
    kill_again_and_again();
    shm_store(&scene->stop, 1);
    for (unsigned i = 0; i < SURVIVORS; i++)
        env_join(pids[i]);
    tell_survivors(e);
    must(scene->faults == 0 && scene->repairers > 0);
    must(scene->kills >= KILLS_MIN && fewest_kills() >= KILLS_EACH);
    expect_peace(e);
    must(file_of_space() == file);
    env_figure("promise-kills", scene->kills);
}

/* --- all at once --- */

#define ROUNDS 40

static void kill_all_at_once(uint64_t *dice)
{
    for (unsigned p = 0; p < VICTIMS; p++)
        begin_life(p);
    env_nap(1 + (double)dice_below(dice, 20));
    for (unsigned p = 0; p < VICTIMS; p++)
        kill(victims.pid[p], SIGKILL);
    for (unsigned p = 0; p < VICTIMS; p++) {
        env_killed(victims.pid[p]);
        note_death(p);
    }
}

static int come_after(void *nothing)
{
    (void)nothing;
    take_each_key(env_open());
    return 0;
}

/* No process is left that has the file open. */
static void killed_all_at_once(void)
{
    uint64_t dice = dice_of(99);
    ino_t file;
    double began, worst_ms = 0;

    scene = env_shared(sizeof(*scene));
    env_join(env_child(come_after, NULL));
    file = file_of_space();
    for (unsigned i = 0; i < ROUNDS; i++) {
        kill_all_at_once(&dice);
        began = env_ms();
        env_join(env_child(come_after, NULL));
        if (env_ms() - began > worst_ms)
            worst_ms = env_ms() - began;
        must(file_of_space() == file);
    }
    env_say("%u kills in %u rounds; the next had every key within %.1f ms",
        scene->kills, ROUNDS, worst_ms);
    must(scene->faults == 0);
    expect_peace(env_open());
}

/* --- one repairer after the other --- */

#define CHAINS 25
#define DEPTH 8
#define REPAIR_STORES 60

static uint64_t stores_left;

static void die_repairing(const struct point *p)
{
    if (victim_repairs(p) && stores_left-- == 0)
        kill(getpid(), SIGKILL);
}

static int die_inside(void *nothing)
{
    struct enq *e = env_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, env_take(e, "a", WAIT_MS, &g));
    env_at_point("unlock.unlinked", SIGKILL);
    enq_unlock(e, g.handle, g.token);
    return 1;
}

static int repair_and_die(void *dice)
{
    struct enq *e;
    struct enq_grant g;

    stores_left = dice_below(dice, REPAIR_STORES);
    point_hook = die_repairing;
    e = env_open();
    want(ENQ_OK, env_take(e, "a", WAIT_MS, &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return 0;
}

/* How many died over it, until one came through. */
static unsigned chain(uint64_t *dice)
{
    unsigned n;
    int status;

    env_killed(env_child(die_inside, NULL));
    for (n = 0; n < DEPTH; n++) {
        dice_roll(dice);
        status = env_status(env_child(repair_and_die, dice));
        must(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : status == 0);
        if (status == 0)
            break;
    }
    return n;
}

static void killed_while_repairing(void)
{
    uint64_t dice = dice_of(55);
    struct enq *e = env_open();
    ino_t file = file_of_space();
    unsigned deaths = 0, longest = 0;
    double worst_ms = 0;

    for (unsigned i = 0; i < CHAINS; i++) {
        unsigned n;
        double began;

        enq_close(e); /* its helper would be told of the death, and repair */
        n = chain(&dice);
        began = env_ms();
        e = env_open();
        take_each_key(e);
        if (env_ms() - began > worst_ms)
            worst_ms = env_ms() - began;
        deaths += n;
        longest = n > longest ? n : longest;
    }
    env_say("%u died repairing what others left, up to %u one after the other; "
            "the survivor had every key within %.1f ms",
        deaths, longest, worst_ms);
    must(deaths >= CHAINS && longest >= 3);
    expect_peace(e);
    must(file_of_space() == file);
}

const struct env_case survive_cases[] = {
    {"P1: any process, killed at any moment of any call, stops nobody else",
        killed_in_every_call, true},
    {"P1: all are killed at once, and the next go on in the same file",
        killed_all_at_once, true},
    {"P1: who repairs what another left is killed, and so is the next",
        killed_while_repairing, true},
    {0},
};
