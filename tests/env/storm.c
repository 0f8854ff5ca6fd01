/*
 * storm.c - eight processes in eight PID namespaces, all with the same pid and
 * the same thread ids, fight over few keys; each is killed every few
 * milliseconds, and another with its very numbers takes its place.
 *
 * Exclusion is proved from outside: the holder of a key writes its serial
 * number into the key's guard, and finds it there when it leaves. What it finds
 * when it comes is nothing, or the number of one that was being killed.
 */
#include <fcntl.h>
#include <time.h>

#include "dice.h"
#include "env.h"

#define NAMESPACES 8
#define KEYS 3
#define STUCK_MS 8000

struct guard {
    uint64_t inside;        /* the serial number of the key's holder */
    uint64_t token;         /* its newest */
    uint64_t first, second; /* equal, unless somebody is inside, or died so */
};

static struct storm {
    uint64_t seed;
    uint32_t stop, target, kills, attached;
    uint32_t grants, violations, stuck, faults;
    uint32_t doomed[NAMESPACES]; /* up to this life it is killed */
    struct guard guards[KEYS];
} * storm;

/* --- a life --- */

static uint64_t serial_of(uint32_t place, uint32_t life)
{
    return (uint64_t)(place + 1) << 32 | life;
}

static bool was_being_killed(uint64_t serial)
{
    uint32_t place = (uint32_t)(serial >> 32) - 1;

    return (uint32_t)serial <= shm_load_acquire(&storm->doomed[place]);
}

static void violation(const char *what, uint64_t me, uint64_t other)
{
    shm_add(&storm->violations, 1);
    dprintf(1, "storm: %s: %#llx and %#llx\n", what, (unsigned long long)me,
        (unsigned long long)other);
}

static void enter(struct guard *g, uint64_t me, uint64_t token)
{
    uint64_t other = shm_load_acquire(&g->inside);

    if (other != 0 && !was_being_killed(other))
        violation("two are inside", me, other);
    shm_store(&g->inside, me);
    if (token <= shm_load(&g->token))
        violation("a token did not grow", token, g->token);
    shm_store(&g->token, token);
    shm_store(&g->first, shm_load(&g->first) + 1);
}

static void leave(struct guard *g, uint64_t me)
{
    uint64_t other = shm_load(&g->inside);

    if (other != me)
        violation("another came while one was inside", me, other);
    shm_store(&g->second, shm_load(&g->first));
    shm_store_release(&g->inside, 0);
}

static void be_inside(size_t from, size_t to, uint64_t me, uint64_t token,
    unsigned spins)
{
    for (size_t i = from; i < to; i++)
        enter(&storm->guards[i], me, token);
    for (volatile unsigned i = 0; i < spins; i++)
        continue;
    for (size_t i = from; i < to; i++)
        leave(&storm->guards[i], me);
}

static int ask(struct enq *e, const char *field, uint64_t *dice,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "storm", .key = {field},
            .mode = dice_roll(dice) % 2 ? ENQ_MODE_X : ENQ_MODE_E,
            .ttl_ms = ENQ_FOREVER, .wait_ms = STUCK_MS),
        g);
}

/* One key, or now and then all of them. */
static void fight(struct enq *e, uint64_t me, uint64_t *dice)
{
    bool all = dice_roll(dice) % 64 == 0;
    size_t key = dice_roll(dice) % KEYS;
    char field[4] = {(char)('a' + key), '\0'};
    struct enq_grant g;
    int rc = ask(e, all ? "@" : field, dice, &g);

    if (rc == ENQ_TIMEDOUT) {
        shm_add(&storm->stuck, 1);
        dprintf(1, "storm: stuck behind %s\n", g.blocker.owner);
        return;
    }
    if (rc == ENQ_OK) {
        shm_add(&storm->grants, 1);
        be_inside(all ? 0 : key, all ? KEYS : key + 1, me, g.token,
            (unsigned)(dice_roll(dice) % 3000));
        rc = enq_unlock(e, g.handle, g.token);
    }
    if (rc != ENQ_OK) {
        shm_add(&storm->faults, 1);
        dprintf(1, "storm: %s: %s\n", enq_result_name(rc), enq_why());
    }
}

static int live(uint32_t place, uint32_t life)
{
    uint64_t me = serial_of(place, life), dice = storm->seed ^ me << 8;
    char owner[32];
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 4000, .owner = owner};
    struct enq *e = NULL;

    snprintf(owner, sizeof(owner), "%u.%u", place, life);
    if (enq_open(&e, env_space(), &opts) != ENQ_OK) {
        shm_add(&storm->faults, 1);
        dprintf(1, "storm: open: %s\n", enq_why());
        return 1;
    }
    shm_add(&storm->attached, 1);
    for (;;)
        fight(e, me, &dice);
}

/* --- the killer --- */

/* Each life has the pid and, but for those killed early, the thread ids that
   all others have had, here and in the other namespaces. */
static pid_t begin_life(uint32_t place, uint32_t life)
{
    int fd = open("/proc/sys/kernel/ns_last_pid", O_WRONLY | O_CLOEXEC);
    pid_t pid;

    must(fd >= 0 && write(fd, "1", 1) == 1);
    close(fd);
    pid = fork();
    if (pid == 0)
        _exit(live(place, life));
    must(pid == 2);
    return pid;
}

static int kill_again_and_again(void *arg)
{
    uint32_t place = *(uint32_t *)arg;
    uint64_t dice = storm->seed + place;
    int status;

    for (uint32_t life = 1; !shm_load(&storm->stop); life++) {
        pid_t pid = begin_life(place, life);

        env_nap((double)(dice_roll(&dice) % 12000) / 1000);
        shm_store_release(&storm->doomed[place], life);
        must(kill(pid, SIGKILL) == 0);
        must(waitpid(pid, &status, 0) == pid);
        if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
            shm_add(&storm->kills, 1);
        else
            shm_add(&storm->faults, 1);
    }
    return 0;
}

/* --- the end --- */

/* At rest: nothing is left of anybody, and every key can be had. */
static void expect_peace(void)
{
    struct enq *e = env_open();
    struct enq_stats s;
    struct enq_grant g;

    for (size_t i = 0; i < KEYS; i++) {
        char field[4] = {(char)('a' + i), '\0'};
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = "storm", .key = {field}, .mode = ENQ_MODE_X,
                    .wait_ms = 2000),
                &g));
        must(g.token > storm->guards[i].token);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    eventually(env_stat(e).sessions == 1);
    eventually(env_stat(e).threads <= 2);
    s = env_stat(e);
    must(s.held == 0 && s.waiting == 0);
    env_healthy(e);
    printf("storm: %u kills, %u attached, %u grants, %llu recoveries; "
           "%u violations, %u stuck, %u faults\n",
        storm->kills, storm->attached, storm->grants,
        (unsigned long long)s.recoveries, storm->violations, storm->stuck,
        storm->faults);
    enq_close(e);
}

static int peace(void *nothing)
{
    (void)nothing;
    expect_peace();
    fflush(stdout);
    return 0;
}

static void end_storm(const pid_t *pids)
{
    shm_store_release(&storm->stop, 1);
    for (uint32_t i = 0; i < NAMESPACES; i++)
        env_join(pids[i]);
}

/* As many grants, too: where a fork takes longer, more are killed on their way. */
static bool is_enough(unsigned kills)
{
    return shm_load(&storm->kills) >= kills &&
        shm_load(&storm->grants) >= kills;
}

int storm_run(unsigned kills, uint64_t seed)
{
    static uint32_t places[NAMESPACES];
    pid_t pids[NAMESPACES];
    double patience_ms = env_ms() + 60000 + 60.0 * kills;
    int status;

    env_new_space();
    storm = env_shared(sizeof(*storm));
    storm->seed = seed;
    for (uint32_t i = 0; i < NAMESPACES; i++) {
        places[i] = i;
        pids[i] = env_child_in_pidns(kill_again_and_again, &places[i]);
    }
    while (!is_enough(kills) && env_ms() < patience_ms)
        env_nap(10);
    end_storm(pids);
    status = env_status(env_child(peace, NULL));
    enq_unlink(env_space());
    printf("figure pidns-kills %u\n", storm->kills);
    return status != 0 ||
        storm->violations + storm->stuck + storm->faults > 0 ||
        !is_enough(kills);
}
