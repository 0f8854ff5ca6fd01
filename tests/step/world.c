/*
 * world.c - one space, its survivors, and victim after victim.
 */
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "lib/mark.h"
#include "step.h"

#define SLOTS 4032u
#define CASES 32     /* then a new segment, after a look for what is lost */
#define NUMBERS 100u /* no operation has more states in a usual run */
#define DEATH_MS 120000
#define STUCK_MS 10000
#define LATE_US 50000
#define SHORT 80   /* changes */
#define DUE_US 300 /* longer than a waiter may be overtaken */

struct ctl *ctl;

static void broken(struct world *w, enum fault kind, const char *text)
{
    w->broken = true;
    fault(kind, &ctl->now, "%s", text);
}

/* --- the controller's part of a state --- */

void world_hold(struct world *w, const struct want *want)
{
    int rc = want_lock(w->e, want, &w->mine[w->n_mine]);

    if (rc == ENQ_OK)
        w->n_mine++;
    else
        broken(w, FAULT_WRONG, enq_why());
}

/* They may have run out, or have been lost or broken by the victim. */
void world_release(struct world *w)
{
    while (w->n_mine > 0) {
        struct enq_grant *g = &w->mine[--w->n_mine];
        int rc = enq_unlock(w->e, g->handle, g->token);

        if (rc != ENQ_OK && rc != ENQ_EXPIRED && rc != ENQ_LOST &&
            rc != ENQ_FORCED)
            fault(FAULT_WRONG, &ctl->now, "the controller's unlock: %s",
                enq_result_name(rc));
    }
}

static bool is_queued(const struct world *w)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    return LOAD(ctl->waiter.answered) == LOAD(ctl->waiter.asked) ||
        (enq_stat(w->e, &stats) == ENQ_OK && stats.waiting > 0 &&
            LOAD(ctl->waiter.sleeps) > 0);
}

void world_wait(struct world *w, const struct want *want)
{
    int64_t until = now_us() + STUCK_MS * 1000;

    actor_ask(&ctl->waiter, TASK_WAIT, want);
    while (!is_queued(w)) {
        if (now_us() > until) {
            broken(w, FAULT_STUCK, "the waiter does not come to wait");
            return;
        }
        sched_yield();
    }
    if (w->state.due)
        nap_us(DUE_US);
}

static void begin_victim(struct world *w, struct victim *v,
    const struct aim *aim)
{
    pid_t pid;

    memset(v, 0, offsetof(struct victim, trap.log));
    v->aim = *aim;
    v->barge = v == &ctl->victim ? w->state.barge : BARGE_NOT;
    pid = fork();
    if (pid == 0)
        victim_main(w, v);
    v->pid = pid; /* not in the child, which would store 0 */
}

void world_bereave(struct world *w, struct aim aim)
{
    begin_victim(w, &ctl->earlier, &aim);
    process_ended(ctl->earlier.pid, DEATH_MS);
}

/* --- one victim --- */

static void let_go(struct victim *v, uint32_t step)
{
    STORE(v->step, step);
    bell_ring(&v->bell);
}

/* Until it dies; what it waits for is let go when it sleeps. */
static bool await_death(struct world *w, struct victim *v)
{
    int64_t until = now_us() + DEATH_MS * 1000;
    bool told = w->op->asleep == NULL;

    while (!LOAD(v->dying)) {
        uint32_t rings = LOAD(ctl->bell.rings);

        if (!told && LOAD(v->sleeps) > 0) {
            told = true;
            w->op->asleep(w);
        } else if (now_us() > until) {
            return false;
        } else if (!LOAD(v->dying)) {
            bell_sleep(&ctl->bell, rings);
        }
    }
    return true;
}

static bool set_up(struct world *w, struct victim *v)
{
    if (w->op->before != NULL)
        w->op->before(w);
    let_go(v, 1);
    if (!bell_await(&ctl->bell, &v->ready, 1, DEATH_MS))
        return false;
    if (w->op->after != NULL)
        w->op->after(w);
    let_go(v, 2);
    return true;
}

static void see_death(struct world *w, struct victim *v)
{
    bool died = set_up(w, v) && await_death(w, v);

    if (!died)
        broken(w, FAULT_STUCK, "the victim is stuck");
    if (v->barge == BARGE_AFTER)
        actor_ask(&ctl->barger, TASK_BARGE, &ctl->barger.want);
    if (!died || !process_ended(v->pid, DEATH_MS))
        kill(v->pid, SIGKILL);
    ctl->now.spot = v->trap.died;
    if (v->crashed)
        broken(w, FAULT_WRONG, "the victim met a fault of its own");
}

/* --- the survivors go on --- */

/* The controller may hold locks of that name, too; and "" lists all owners. */
static bool is_of_victim(const struct world *w, const struct enq_info *info)
{
    for (unsigned i = 0; i < w->n_mine; i++)
        if (w->mine[i].handle == info->handle)
            return false;
    return strcmp(info->owner, w->state.victim.owner) == 0;
}

/* Of a lock set all is there, or nothing. The list is of one moment, for which
   every word of the name is taken: what the dead began is undone by then. */
static void check_set(struct world *w)
{
    struct enq_info info[16];
    size_t n = 0;
    unsigned kept = 0;

    if (w->op->set == 0 ||
        enq_list(w->e, w->state.victim.name, w->state.victim.owner, info, 16,
            &n) != ENQ_OK)
        return;
    for (size_t i = 0; i < n && i < 16; i++)
        kept += is_of_victim(w, &info[i]) && !info[i].waiting &&
            info[i].on_death != ENQ_DEATH_RELEASE;
    if (kept != 0 && kept != w->op->set)
        fault(FAULT_WRONG, &ctl->now, "%u of %u locks of a set are kept", kept,
            w->op->set);
}

#define LISTED 16

/* What is there when the victim is over, not only dead: then it is an orphan. */
static size_t list_leftovers(struct world *w, struct enq_info info[LISTED])
{
    int64_t until = now_us() + STUCK_MS * 1000;
    bool dying;
    size_t n;

    do {
        n = 0;
        dying = false;
        if (enq_list(w->e, NULL, NULL, info, LISTED, &n) != ENQ_OK)
            return 0;
        for (size_t i = 0; i < n && i < LISTED; i++)
            dying |= info[i].dying;
        if (dying)
            sched_yield();
    } while (dying && now_us() < until);
    return n < LISTED ? n : LISTED;
}

/* What outlives its holder, an operator ends. It is nobody else's any more, so
   that it must be found by its id; if it is not, once more. */
static void break_leftovers(struct world *w)
{
    struct enq_info info[LISTED];
    size_t n = list_leftovers(w, info);

    for (size_t i = 0; i < n; i++) {
        int rc = ENQ_OK;

        if (!info[i].orphaned || info[i].on_death == ENQ_DEATH_RELEASE)
            continue;
        rc = enq_break(w->e, info[i].id);
        if (rc == ENQ_OK)
            continue;
        fault(FAULT_WRONG, &ctl->now, "the lock \"%s\" is listed, but: %s",
            info[i].id, enq_result_name(rc));
        enq_break(w->e, info[i].id);
    }
}

static void heed(struct world *w, struct actor *a, const char *who)
{
    uint64_t token;

    if (a->said[0] != '\0')
        fault(FAULT_WRONG, &ctl->now, "%s: %s", who, a->said);
    if (a->rc == ENQ_CANCELLED && !w->op->cancels)
        fault(FAULT_WRONG, &ctl->now, "%s was cancelled", who);
    a->rc = ENQ_OK;
    a->said[0] = '\0';
    token = a->token;
    a->token = 0;
    /* of other keys they are not to be compared */
    if (token > w->top_token && want_is_of_key(&a->want))
        w->top_token = token;
}

static void time_grant(int64_t from_us)
{
    int64_t took = ctl->waiter.answered_us - from_us;

    ADD(tally->grants, 1);
    if (took > LATE_US)
        ADD(tally->late, 1);
    if (took > (int64_t)LOAD(tally->latest_us))
        STORE(tally->latest_us, (uint64_t)took);
}

static bool is_answered(struct actor *a, unsigned ms)
{
    return bell_await(&ctl->bell, &a->answered, LOAD(a->asked), ms);
}

static void go_on(struct world *w)
{
    int64_t from = now_us();
    bool waits = LOAD(ctl->waiter.asked) != LOAD(ctl->waiter.answered);

    check_set(w);
    world_release(w);
    break_leftovers(w);
    if (!is_answered(&ctl->waiter, STUCK_MS))
        broken(w, FAULT_STUCK, "the waiter is not granted");
    else if (waits)
        time_grant(from);
    if (!is_answered(&ctl->barger, STUCK_MS))
        broken(w, FAULT_STUCK, "the barger does not come through");
    heed(w, &ctl->waiter, "the waiter");
    heed(w, &ctl->barger, "the barger");
    if (ctl->victim.token > w->top_token)
        w->top_token = ctl->victim.token;
}

/* A process that comes finds the dead at once; others within a second. */
static void undertake(struct world *w)
{
    int pipe_to[2];
    pid_t pid;

    if (w->broken || pipe(pipe_to) != 0)
        return;
    ctl->victim.open = 0;
    pid = fork();
    if (pid == 0) {
        struct enq *e;
        char c;
        int rc = enq_open(&e, w->space, NULL);

        close(pipe_to[1]);
        STORE(ctl->victim.open, 1);
        bell_ring(&ctl->bell);
        if (read(pipe_to[0], &c, 1) >= 0 && rc == ENQ_OK)
            enq_close(e);
        _exit(0);
    }
    close(pipe_to[0]);
    if (bell_await(&ctl->bell, &ctl->victim.open, 1, STUCK_MS))
        check_all(w, 1);
    else
        broken(w, FAULT_STUCK, "nobody can open the space");
    close(pipe_to[1]);
    process_ended(pid, DEATH_MS);
}

/* --- one kill --- */

static void count_kill(const struct world *w, const struct victim *v)
{
    struct op_tally *t = &tally->op[w->op - ops];
    const struct aim *aim = &v->aim;

    ADD(t->kills, 1);
    if (aim->kind == AIM_TRACE)
        return;
    if (v->trap.died.rip == 0) {
        ADD(tally->missed, 1);
        return;
    }
    ADD(t->points, 1);
    place_note((unsigned)(w->op - ops), v->trap.died.rip);
    if (aim->kind != AIM_SYSCALL && aim->n <= LOG_MAX &&
        v->trap.died.rip != ctl->whole.log[aim->n - 1].rip)
        ADD(tally->drifted, 1);
}

static void throw_state(struct world *w)
{
    state_make(&w->state, w->op, w->case_number);
    ctl->barger.want = w->state.waiter;
    ctl->barger.want.mode = ENQ_MODE_X;
    ctl->barger.want.wait_ms = 0;
    strcpy(ctl->barger.want.owner, "B");
}

/* The victim's coming has the one before it reaped, and shows what it left. */
static void come(struct world *w, const struct aim *aim)
{
    struct victim *v = &ctl->victim;

    if (w->op->opens)
        undertake(w);
    begin_victim(w, v, aim);
    if (!bell_await(&ctl->bell, &v->open, 1, DEATH_MS))
        broken(w, FAULT_STUCK, "the victim cannot open the space");
    if (!w->op->opens && !w->broken)
        check_all(w, 1);
}

static void kill_one(struct world *w, const struct aim *aim)
{
    ADD(ctl->heartbeats, 1);
    throw_state(w);
    come(w, aim);
    ctl->now = (struct point){.op = (uint32_t)(w->op - ops),
        .state = w->case_number,
        .kind = aim->kind,
        .n = aim->n};
    see_death(w, &ctl->victim);
    count_kill(w, &ctl->victim);
    if (!w->broken)
        go_on(w);
}

/* --- one case --- */

static uint32_t nth_in_page(uint32_t n)
{
    const struct spot *log = ctl->whole.log;
    uint32_t nth = 0;

    for (uint32_t i = 0; i < n; i++)
        nth += log[i].at / 4096 == log[n - 1].at / 4096;
    return nth;
}

/* In a short operation all changes are counted, in a long one those of a page:
   where the pages are the same each time that is as good, and faster. */
static struct aim aim_at(uint32_t kind, uint32_t n)
{
    struct aim aim = {.kind = kind, .n = n, .nth_in_page = n};

    if (n == 0 || n > LOG_MAX)
        aim.kind = AIM_TRACE;
    else if (kind == AIM_CHANGE && ctl->whole.changes <= SHORT) {
        aim.kind = AIM_ANY;
    } else if (kind == AIM_CHANGE) {
        aim.page = ctl->whole.log[n - 1].at / 4096;
        aim.nth_in_page = nth_in_page(n);
    }
    return aim;
}

/* All of them, or as many as the operation may have, evenly. */
static void kill_each(struct world *w, uint32_t kind, uint32_t n)
{
    uint32_t most = w->op->most, step = 0;
    uint32_t begin = (uint32_t)(dice(tally->seed, n, w->case_number) % 16);

    if (n > LOG_MAX)
        n = LOG_MAX;
    for (uint32_t i = 0; i < n && !w->broken && !LOAD(tally->stop); i++) {
        struct aim aim = aim_at(kind, i + 1);

        if (n > most && (i + begin) * most / n == step)
            continue;
        step = (i + begin) * most / n;
        kill_one(w, &aim);
    }
}

static void run_case(struct world *w, unsigned op, unsigned number)
{
    struct aim trace = {.kind = AIM_TRACE};
    struct op_tally *t = &tally->op[op];
    uint32_t failures = LOAD(tally->failures);
    int64_t began = now_us();

    w->op = &ops[op];
    w->top_token = 0;
    w->case_number = number;
    kill_one(w, &trace); /* leaves behind what all others find */
    if (!w->broken)
        kill_one(w, &trace);
    memcpy(&ctl->whole, &ctl->victim.trap, sizeof(ctl->whole));
    if (ctl->victim.rc < 0 && !w->broken)
        fault(FAULT_WRONG, &ctl->now, "the operation itself: %s",
            enq_result_name(ctl->victim.rc));
    if (tally->replay) {
        struct aim aim = aim_at(tally->only.kind, tally->only.n);
        kill_one(w, &aim);
    } else {
        kill_each(w, AIM_CHANGE, ctl->whole.changes);
        kill_each(w, AIM_SYSCALL, ctl->whole.syscalls);
    }
    undertake(w);
    ADD(t->cases, 1);
    ADD(t->took_us, (uint64_t)(now_us() - began));
    if (LOAD(tally->failures) != failures)
        ADD(t->failed, 1);
}

/* The usual states of all operations in turn; then more, if there is time. */
static bool next_case(unsigned *op, unsigned *number)
{
    for (;;) {
        unsigned next = ADD(tally->next, 1);

        *op = next % n_ops;
        *number = next / n_ops;
        if (tally->one_op && *op != tally->only.op && *number < NUMBERS)
            continue;
        if (*number < 1 + (ops[*op].states - 1) * tally->percent / 100)
            return true;
        if (*number >= NUMBERS && tally->until_us <= now_us())
            return false;
        if (tally->until_us > now_us())
            return true;
    }
}

static void run_cases(struct world *w)
{
    unsigned op, number;

    if (tally->replay) {
        run_case(w, tally->only.op, tally->only.state);
        return;
    }
    for (int i = 0; i < CASES && !w->broken && !LOAD(tally->stop) &&
         next_case(&op, &number);
         i++)
        run_case(w, op, number);
}

/* --- one world --- */

void world_space(unsigned number, pid_t parent, char space[64])
{
    snprintf(space, 64, "shm:enq-%sstep-%d-%u", test_mark(), (int)parent,
        number);
}

static void pin(unsigned number)
{
    cpu_set_t all, one;
    int cpu = 0;

    sched_getaffinity(0, sizeof(all), &all);
    for (unsigned left = number % (unsigned)CPU_COUNT(&all);; cpu++)
        if (CPU_ISSET(cpu, &all) && left-- == 0)
            break;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    sched_setaffinity(0, sizeof(one), &one);
}

static void begin_actor(struct world *w, struct actor *a)
{
    pid_t pid = fork();

    if (pid == 0)
        actor_main(a, w->space);
    a->pid = pid;
}

static void end_actor(struct actor *a)
{
    actor_ask(a, TASK_END, &a->want);
    if (!process_ended(a->pid, DEATH_MS))
        fault(FAULT_STUCK, &ctl->now, "a survivor does not end");
}

static void begin(struct world *w)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = SLOTS, .strict = w->number / 2 % 2};

    if (enq_open(&w->e, w->space, &opts) != ENQ_OK) {
        printf("cannot open %s: %s\n", w->space, enq_why());
        _exit(1);
    }
    ctl->waiter.answered = ctl->barger.answered = 1;
    begin_actor(w, &ctl->waiter);
    begin_actor(w, &ctl->barger);
    if (!bell_await(&ctl->bell, &ctl->waiter.answered, 0, DEATH_MS) ||
        !bell_await(&ctl->bell, &ctl->barger.answered, 0, DEATH_MS))
        _exit(1);
    check_begin(w);
}

void world_run(unsigned number, pid_t parent)
{
    struct world w = {.number = number};

    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    signal(SIGCHLD, SIG_IGN);
    pin(number);
    world_space(number, parent, w.space);
    begin(&w);
    run_cases(&w);
    if (w.broken) {
        fflush(stdout);
        _exit(
            0); /* the others are ended, and the space removed, from outside */
    }
    end_actor(&ctl->waiter);
    end_actor(&ctl->barger);
    check_room(&w);
    enq_close(w.e);
    fflush(stdout);
    _exit(0);
}
