/*
 * crew.c - the supervisor (see crew.h).
 */
#include "crew.h"

#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* --- the machine's pulse --- */

/*
 * A process on each CPU that does nothing but sleep for 2 ms. What it
 * oversleeps, others lacked too. The scheduler prefers what sleeps most of the
 * time to what loses the CPU with a latch in hand: so this is a little nicer
 * than the workers are.
 */
#define PULSE_NICE 5
#define PULSE_NS (2 * NS_MS)
#define PULSES_MAX 16

static struct {
    struct book *book; /* where to note it */
} * pulse;
static pid_t pulses[PULSES_MAX];
static unsigned n_pulses;

static void note_heartbeat(int64_t from, int64_t to)
{
    struct book *b = __atomic_load_n(&pulse->book, __ATOMIC_ACQUIRE);
    uint32_t i;

    if (b == NULL)
        return;
    i = __atomic_fetch_add(&b->n_heartbeats, 1, __ATOMIC_RELAXED);
    if (i < HEARTBEATS_MAX)
        b->heartbeats[i] = (struct pause){from, to};
    else
        __atomic_store_n(&b->n_heartbeats, HEARTBEATS_MAX, __ATOMIC_RELAXED);
}

static void pulse_run(unsigned cpu)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    sched_setaffinity(0, sizeof(set), &set);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    setpriority(PRIO_PROCESS, 0, PULSE_NICE);
    for (;;) {
        int64_t from = now_ns(), to;

        nap_us(PULSE_NS / 1000);
        to = now_ns();
        if (to - from > 2 * PULSE_NS)
            note_heartbeat(from + PULSE_NS, to);
    }
}

void crew_init(void)
{
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    sigset_t chld;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    pulse = log_shared(sizeof(*pulse));
    for (long i = 0; i < cpus && i < PULSES_MAX; i++) {
        pid_t pid = fork();

        if (pid == 0)
            pulse_run((unsigned)i);
        pulses[n_pulses++] = pid;
    }
}

void crew_fini(void)
{
    for (unsigned i = 0; i < n_pulses; i++) {
        kill(pulses[i], SIGKILL);
        waitpid(pulses[i], NULL, 0);
    }
}

/* --- births --- */

/* An elder's session mostly outlives its bridge; of the others few do: their
   locks are in everybody's way. */
static void be_remote(struct crew *c, struct life *life, unsigned place)
{
    bool patient = place < ELDERS || dice_below(&c->dice, 8) == 0;

    life->remote = true;
    life->grace_ms = patient ? 200 : 0;
}

static void start(struct crew *c, unsigned place)
{
    struct book *b = c->book;
    struct part part = {
        .backend = c->plan.backend,
        .stage = c->stage,
        .book = b,
        .place = place,
        .life = b->n_lives,
        .ops_max = c->plan.ops_max,
        .seed = dice_roll(&c->dice),
    };
    pid_t pid;

    if (b->n_lives == LIVES_MAX)
        return;
    b->lives[b->n_lives++] = (struct life){0};
    if (place_is_remote(c->plan.backend, place))
        be_remote(c, &b->lives[part.life], place);
    pid = fork();
    if (pid == 0) {
        if (place == JANITOR)
            janitor_run(&part);
        worker_run(&part);
    }
    if (pid < 0) {
        perror("fork");
        exit(1);
    }
    b->lives[part.life].pid = pid;
    c->pid[place] = pid;
    c->life[place] = part.life;
    c->stopped_until[place] = 0;
}

/* --- deaths --- */

static void end_stop(struct crew *c, unsigned place)
{
    if (c->stopped_until[place] == 0)
        return;
    c->stopped_until[place] = 0;
    c->book->stops[c->stop_at[place]].to_ns = now_ns();
}

static void note_end(struct crew *c, unsigned place, int status)
{
    struct life *life = &c->book->lives[c->life[place]];

    life->gone_seq = seq_next();
    life->gone_ns = now_ns();
    c->pid[place] = 0;
    end_stop(c, place);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) {
        c->tally.kills++;
        c->tally.clients += life->remote;
        c->killed++;
    } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        c->tally.crashes++;
        printf("VIOLATION worker %u ended with status %#x\n", place,
            (unsigned)status);
    }
}

/* A worker that is gone is replaced, as long as the round goes on. */
static void reap(struct crew *c)
{
    int status;
    pid_t pid;

    for (unsigned p = 0; p < PLACES; p++) {
        if (c->pid[p] == 0)
            continue;
        pid = waitpid(c->pid[p], &status, WNOHANG);
        if (pid != c->pid[p])
            continue;
        note_end(c, p, status);
        if (c->stage->phase == ROUND_PLAY)
            start(c, p);
    }
}

static void kill_one(struct crew *c, unsigned place)
{
    struct life *life = &c->book->lives[c->life[place]];

    if (c->pid[place] != 0 && life_doom(life))
        kill(c->pid[place], SIGKILL);
}

static unsigned choose(struct crew *c)
{
    unsigned place = (unsigned)dice_below(&c->dice, WORKERS);

    if (place < ELDERS && dice_below(&c->dice, 8) != 0)
        place = ELDERS + (unsigned)dice_below(&c->dice, WORKERS - ELDERS);
    return place;
}

static void kill_some(struct crew *c, unsigned n)
{
    unsigned first = choose(c);
    bool spare = dice_below(&c->dice, 8) != 0;

    c->tally.bursts += n > 1;
    for (unsigned i = 0; i < n; i++) {
        unsigned place = (first + i) % WORKERS;

        if (i == 0 || place >= ELDERS || !spare)
            kill_one(c, place);
    }
}

#define RECOVERER_NS (NS_MS / 2)

/* Kills one, and then the one that sets out to recover what it has left. */
static void kill_recoverer(struct crew *c)
{
    int64_t until = now_ns() + RECOVERER_NS;
    pid_t first, pid;
    unsigned place = choose(c);

    first = c->pid[place];
    kill_one(c, place);
    do {
        pid = c->plan.backend->recoverer();
        if (keeper_kill_recoverer(c, pid))
            return;
        for (unsigned p = 0; p < WORKERS; p++)
            if (pid != 0 && pid != first && c->pid[p] == pid) {
                kill_one(c, p);
                c->tally.recoverers++;
                return;
            }
    } while (now_ns() < until);
}

/* --- stops --- */

static void stop_one(struct crew *c)
{
    unsigned p = (unsigned)dice_below(&c->dice, WORKERS);
    struct book *b = c->book;

    if (c->pid[p] == 0 || c->stopped_until[p] != 0 || b->n_stops == STOPS_MAX ||
        b->lives[c->life[p]].kill_seq != 0)
        return;
    c->stop_at[p] = b->n_stops++;
    b->stops[c->stop_at[p]] = (struct pause){now_ns(), 0};
    c->stopped_until[p] =
        now_ns() + (1 + (int64_t)dice_below(&c->dice, 40)) * NS_MS;
    kill(c->pid[p], SIGSTOP);
    c->tally.stops++;
}

static void wake_stopped(struct crew *c, bool all)
{
    for (unsigned p = 0; p < WORKERS; p++) {
        if (c->stopped_until[p] == 0 ||
            (!all && now_ns() < c->stopped_until[p]))
            continue;
        kill(c->pid[p], SIGCONT);
        end_stop(c, p);
    }
}

/* --- a round --- */

static void strike(struct crew *c)
{
    uint64_t d = dice_below(&c->dice, 200);

    if (c->plan.stops && d < 2)
        stop_one(c);
    else if (d < 10)
        kill_some(c, 2 + (unsigned)dice_below(&c->dice, 3));
    else if (d < 12)
        kill_some(c, WORKERS);
    else if (d < 60 && c->plan.backend->recoverer != NULL)
        kill_recoverer(c);
    else
        kill_some(c, 1);
}

/* Sleeps, but not longer than until somebody dies. */
static void doze(int64_t ns)
{
    struct timespec ts = {ns / NS_S, ns % NS_S};
    sigset_t chld;

    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    if (ns > 0)
        sigtimedwait(&chld, NULL, &ts);
}

static void play(struct crew *c)
{
    int64_t end = now_ns() + c->plan.round_ns, next = now_ns(), now;

    while (c->killed < c->plan.kills && (now = now_ns()) < end &&
        c->book->n_lives < LIVES_MAX - PLACES) {
        if (now >= next) {
            strike(c);
            next = now +
                (int64_t)dice_below(&c->dice, 2 * c->plan.kill_every) * 1000;
        }
        doze(next - now_ns());
        reap(c);
        wake_stopped(c, false);
        keeper_tend(c);
    }
}

static bool any_worker(const struct crew *c)
{
    for (unsigned p = 0; p < WORKERS; p++)
        if (c->pid[p] != 0)
            return true;
    return false;
}

static void set_phase(struct crew *c, int phase)
{
    __atomic_store_n(&c->stage->phase, phase, __ATOMIC_RELEASE);
}

/* Those that are stuck have no end in the book: they are not killed before it
   was read. */
static void drain(struct crew *c)
{
    int64_t limit = now_ns() + c->plan.drain_ns;

    wake_stopped(c, true);
    keeper_spare(c);
    set_phase(c, ROUND_DRAIN);
    if (c->plan.backend->full)
        start(c, JANITOR);
    while (any_worker(c) && now_ns() < limit) {
        doze(NS_MS);
        reap(c);
        keeper_tend(c);
    }
    c->book->stuck = any_worker(c);
    c->book->rest_ns = c->book->end_ns = now_ns();
}

static void kill_the_stuck(struct crew *c)
{
    for (unsigned p = 0; p < PLACES; p++) {
        if (c->pid[p] == 0)
            continue;
        kill(c->pid[p], SIGKILL);
        waitpid(c->pid[p], NULL, 0);
        c->pid[p] = 0;
    }
    c->tally.stuck++;
}

static void rest(struct crew *c)
{
    int status;

    set_phase(c, ROUND_REST);
    if (c->pid[JANITOR] == 0)
        return;
    waitpid(c->pid[JANITOR], &status, 0);
    note_end(c, JANITOR, status);
}

static void begin_book(struct crew *c, struct book *b)
{
    memset(b->n_ops, 0, sizeof(b->n_ops));
    b->n_lives = b->n_stops = b->n_heartbeats = b->n_rest = 0;
    b->n_sightings = b->n_serves = b->n_deaths = 0;
    b->stuck = false;
    b->compat = c->plan.backend->compat;
    b->strict = c->plan.backend->strict;
    b->begin_ns = now_ns();
    c->book = b;
    c->killed = 0;
    memset(c->pid, 0, sizeof(c->pid));
}

void crew_round(struct crew *c, struct book *b)
{
    begin_book(c, b);
    __atomic_store_n(&pulse->book, b, __ATOMIC_RELEASE);
    keeper_begin(c);
    set_phase(c, ROUND_PLAY);
    for (unsigned p = 0; p < WORKERS; p++)
        start(c, p);
    play(c);
    drain(c);
    if (b->stuck)
        kill_the_stuck(c);
    keeper_end(c);
    if (!b->stuck)
        rest(c);
    __atomic_store_n(&pulse->book, NULL, __ATOMIC_RELEASE);
}
