/*
 * scene.c - one death, from the setting of the scene to the last look.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/time.h"
#include "crash.h"
#include "lib/mark.h"
#include "recovery/reap.h"

/* Nothing takes so long, even on a busy machine. */
#define HANG_NS INT64_C(20000000000)
/* By then a thread sleeps that wants a word that is not given back. */
#define SLEEPY_NS 3000000

/* --- the space and its cast --- */

static const uint32_t slots_of[] = {
    [STAGE_USUAL] = 4200,
    [STAGE_STRICT] = 4200,
    [STAGE_TIGHT] = 7 * SMALL_PER_PAGE,
    [STAGE_FRESH] = 420,
    [STAGE_BUCKETS] = 4200,
    [STAGE_TIGHT_ONCE] = 7 * SMALL_PER_PAGE,
};

static bool start_crew(struct scene *s)
{
    s->waiters = crew_fork();
    if (s->waiters == 0)
        waiters_main(s->box);
    s->barger = crew_fork();
    if (s->barger == 0)
        barger_main(s->box);
    return s->waiters > 0 && s->barger > 0;
}

static void order(struct scene *s, unsigned i, const char *wish)
{
    struct waiter *w = &s->box->waiters[i];

    memset(w->wish, 0, sizeof(w->wish));
    memcpy(w->wish, wish, strcspn(wish, " "));
    store(&w->leave, 0);
    store(&w->phase, WAITER_ASKS);
    bump(&w->order);
    word_wake(&w->order);
}

static void send_home(struct scene *s)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        store(&s->box->waiters[i].leave, 1);
        word_wake(&s->box->waiters[i].leave);
    }
}

/* Each of them locks once: their thread slots and pages are there from now
   on. */
static bool warm_up(struct scene *s)
{
    while (load(&s->box->done) == 0 && s->box->complaint[0] == '\0')
        word_wait(&s->box->done, 0, 5000000);
    for (unsigned i = 0; i < WAITERS; i++)
        order(s, i, "Ob");
    send_home(s);
    if (!wait_for_waiters(s, true))
        return false;
    script_run(&s->teller, "+Ob;-0");
    s->teller.n = 0;
    scene_park(s, true);
    return verify_rest(s);
}

bool scene_begin(struct scene *s, enum stage stage)
{
    struct box *box = s->box;
    static unsigned number;

    scene_end(s);
    memset(box->waiters, 0, sizeof(box->waiters));
    memset(box->newest, 0, sizeof(box->newest));
    memset(box->have, 0, sizeof(box->have));
    box->watched = box->promotes = 0; /* what is O may be lost as all warm up */
    snprintf(box->space, sizeof(box->space), "shm:enq-%scrash-%d-%u",
        test_mark(), (int)getpid(), number++);
    box->slots = slots_of[stage];
    box->strict = stage == STAGE_STRICT;
    box->complaint[0] = '\0';
    box->kept = 0;
    box->done = 0;
    store(&box->parked, 0);
    store(&box->park, stage == STAGE_FRESH);
    s->stage = stage;
    s->base_sessions = 0;
    s->teller = (struct actor){.box = box, .owner = "h", .patient = true};
    if (script_open(&s->teller, box->space) != ENQ_OK) {
        complain(box, "cannot open %s: %s", box->space, enq_why());
        return false;
    }
    s->open = true;
    box->n_keys = 0;
    polite(box);
    return start_crew(s) && (stage == STAGE_FRESH || warm_up(s));
}

static void end_process(pid_t *pid)
{
    if (*pid > 0) {
        kill(*pid, SIGKILL);
        waitpid(*pid, NULL, 0);
    }
    *pid = 0;
}

void scene_end(struct scene *s)
{
    victims_clear(s->box);
    end_process(&s->barger);
    end_process(&s->waiters);
    if (!s->open)
        return;
    enq_unlink(s->box->space);
    enq_close(s->teller.e);
    s->open = false;
}

void scene_park(struct scene *s, bool park)
{
    int64_t end = now_ns() + HANG_NS;

    store(&s->box->park, park);
    word_wake(&s->box->park);
    while (park && !load(&s->box->parked)) {
        uint32_t event = load(&s->box->event);

        if (!load(&s->box->parked))
            word_wait(&s->box->event, event, 5000000);
        if (now_ns() > end) {
            complain(s->box, "the barger hangs");
            return;
        }
    }
}

/* --- setting the scene --- */

/* Each in the queue, or granted, before the next one asks. */
static bool queue_up(struct scene *s, const char *wishes, unsigned from)
{
    int64_t end = now_ns() + HANG_NS;

    for (unsigned i = from; *wishes != '\0'; i++) {
        order(s, i, wishes);
        while (load(&s->box->waiters[i].phase) == WAITER_ASKS) {
            uint32_t event = load(&s->box->event);

            if (load(&s->box->waiters[i].phase) == WAITER_ASKS)
                word_wait(&s->box->event, event, 20000000);
            if (now_ns() > end) {
                complain(s->box, "w%u cannot queue", i);
                return false;
            }
        }
        wishes += strcspn(wishes, " ");
        wishes += *wishes == ' ';
    }
    return true;
}

static unsigned count_wishes(const char *wishes)
{
    unsigned n = *wishes != '\0';

    for (; *wishes != '\0'; wishes++)
        n += *wishes == ' ';
    return n;
}

/* A process that will be dead before it all begins. */
static bool start_dead(struct scene *s, const struct plan *plan)
{
    struct victim *v = &s->box->victims[DEAD];
    bool inside = (plan->op->flags & OP_INSIDE) != 0;

    v->k = 0;
    v->name = !inside                            ? NULL
        : strchr(plan->state->dead, ',') != NULL ? "set.member_held"
                                                 : "lock.latched";
    v->stays = inside;
    v->owner = "d";
    v->all_threads = false;
    if (plan->state->dead[0] == '\0')
        return true;
    if (!inside)
        return victim_start(s->box, DEAD, plan->state->dead, "", false);
    if (!victim_start(s->box, DEAD, "", plan->state->dead, false))
        return false;
    victim_go(s->box, DEAD);
    return victim_stops(s->box, DEAD);
}

/* As if its time had come. */
static void run_out(struct scene *s, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(s->teller.e->map, handle, &state);

    if (e != NULL)
        __atomic_store_n(&e->deadline_ns, 1, __ATOMIC_SEQ_CST);
}

static bool start_victims(struct scene *s, const struct plan *plan)
{
    for (unsigned i = 0; i < plan->victims; i++) {
        struct victim *v = &s->box->victims[i];

        v->k = plan->k[i];
        v->name = i == 0 ? plan->name : NULL;
        v->owner = i == 0 ? "v" : "r";
        v->all_threads = i == 0 && (plan->op->flags & OP_THREADS) != 0;
        v->stays = false;
        if (!victim_start(s->box, i, i == 0 ? plan->op->prepare : "",
                i == 0 ? plan->op->run : plan->rescue,
                i == 0 && (plan->op->flags & OP_FIRST) != 0))
            return false;
    }
    return true;
}

/* What outlives the dead, and is swept up when its time has come. */
static void run_out_orphans(struct scene *s)
{
    static struct look l;

    reap_dead(&s->teller.e->session, thread_enter(s->teller.e->map));
    if (!look_around(s, &l, false))
        return;
    for (size_t i = 0; i < l.n; i++)
        if (l.info[i].on_death == ENQ_DEATH_LEASE)
            run_out(s, l.info[i].handle);
    __atomic_store_n(&s->teller.e->map->h->leases_due_ns, 1, __ATOMIC_SEQ_CST);
}

static void let_time_pass(struct scene *s, const struct plan *plan)
{
    /* as if there had never been a lease */
    __atomic_store_n(&s->teller.e->map->h->leases_due_ns, 0, __ATOMIC_SEQ_CST);
    if (plan->op->flags & OP_ACCUSED)
        store(&s->teller.e->map->h->unlinked, 1);
    if (plan->op->flags & OP_SWEEPS)
        run_out_orphans(s);
    if (plan->op->flags & OP_OWN_EXPIRES)
        run_out(s, s->box->victims[0].handle);
    for (unsigned i = 0; plan->op->flags & OP_EXPIRES && i < s->teller.n; i++)
        run_out(s, s->teller.g[i].handle);
    for (unsigned i = 0; plan->op->flags & OP_EXPIRES && i < s->box->ear.n; i++)
        run_out(s, s->box->ear.of[i].handle);
}

/* What the barger may do: it takes no O of others, and raises the gate where
   that hides nothing. */
static void let_it(struct scene *s, const struct plan *plan)
{
    store(&s->box->promotes,
        strchr(plan->op->prepare, 'O') == NULL &&
            strchr(plan->op->run, 'O') == NULL &&
            strchr(plan->state->holds, 'O') == NULL &&
            strchr(plan->state->listens, 'O') == NULL);
    store(&s->box->wide, plan->k[0] % 4 == 3);
    store(&s->box->watched, (plan->op->flags & (OP_HURTS | OP_EXPIRES)) == 0);
}

/* A victim's helper thread reaps the dead that it finds when it begins; so
   that there are any, they die after that, unless their locks are in the way of
   what the victim prepares. */
static bool dies_late(const struct plan *plan)
{
    return plan->op->prepare[0] == '\0';
}

static bool others_wait(const struct plan *plan)
{
    return plan->victims > 1 || (plan->op->flags & OP_RECOVERS) != 0;
}

/* The victim is to be the first that takes a page, waits, or waits for a
   word. */
static bool is_quiet(const struct scene *s, const struct plan *plan)
{
    unsigned flags = plan->op->flags;

    return s->stage == STAGE_FRESH || flags & OP_FIRST ||
        plan->state->listens[0] != '\0' ||
        (flags & OP_INSIDE && flags & OP_DIES);
}

static bool set_scene(struct scene *s, const struct plan *plan)
{
    const struct state *state = plan->state;
    bool quiet = state->dead[0] != '\0' || is_quiet(s, plan);

    if (plan->op->flags & OP_CREATES)
        snprintf(s->box->other, sizeof(s->box->other), "%s-other",
            s->box->space);
    s->teller.n = 0;
    s->teller.patient = true; /* the barger may be at a key just now */
    let_it(s, plan);
    scene_park(s, quiet);
    if (script_run(&s->teller, state->holds) != ENQ_OK) {
        complain(s->box, "the holder cannot hold: %s", enq_why());
        return false;
    }
    neighbours_are_looked_at(s);
    s->box->held = s->teller.g[0].handle;
    if (!start_dead(s, plan))
        return false;
    if (!dies_late(plan))
        victim_kill(s->box, DEAD);
    if (!queue_up(s, state->waits, 0) || !start_victims(s, plan) ||
        !listener_start(s, plan) ||
        !queue_up(s, plan->op->behind, count_wishes(state->waits)))
        return false;
    store(&s->box->recoverer, others_wait(plan));
    if (plan->op->flags & OP_LATE)
        nanosleep(&(struct timespec){0, SLEEPY_NS}, NULL);
    if (!(plan->op->flags & OP_DIES))
        victim_kill(s->box, DEAD);
    let_time_pass(s, plan);
    return s->box->complaint[0] == '\0';
}

/* --- the deaths --- */

/* The victim waits: the holder gives back, or its request is cancelled. */
static void take_from_victim(struct scene *s, bool breaks)
{
    static struct look l;

    if (!look_around(s, &l, false))
        return;
    for (size_t i = 0; i < l.n; i++) {
        if (strcmp(l.info[i].owner, "v") != 0)
            continue;
        if (breaks)
            enq_break(s->teller.e, l.info[i].id);
        else
            enq_unlock(s->teller.e, l.info[i].handle, 0);
    }
}

static void act_on_waiting(struct scene *s, unsigned flags)
{
    if (flags & OP_DIES)
        victim_kill(s->box, DEAD);
    if (flags & OP_GRANTED)
        script_run(&s->teller, s->teller.n > 1 ? "-1" : "-0");
    if (flags & OP_TAKES)
        script_run(&s->teller, "p0");
    if (flags & OP_ASKS)
        queue_up(s, "Xa", 0);
    if (flags & (OP_CANCELLED | OP_BROKEN))
        take_from_victim(s, (flags & OP_BROKEN) != 0);
}

static void watch_first(struct scene *s, const struct op *op)
{
    struct victim *v = &s->box->victims[0];
    unsigned flags = op->flags;
    bool queues = strpbrk(op->run, "+>$") != NULL;

    if (!(flags & OP_ACTS))
        return;
    while (queues) {
        uint32_t event = load(&s->box->event);

        if (load(&v->phase) == VICTIM_ENDED || load(&v->queued))
            break;
        word_wait(&s->box->event, event,
            flags & OP_INSIDE ? SLEEPY_NS : 20000000);
        if (flags & OP_INSIDE)
            break;
    }
    act_on_waiting(s, flags);
}

static bool kill_all(struct scene *s, const struct plan *plan)
{
    bool fine = true;

    for (unsigned i = 0; i < plan->victims && fine; i++) {
        store(&s->box->recoverer, others_wait(plan));
        if (!is_quiet(s, plan))
            scene_park(s, false);
        ring_barger(s->box);
        victim_go(s->box, i);
        if (i == 0)
            watch_first(s, plan->op);
        fine = victim_join(s->box, i);
        scene_park(s, false);
    }
    store(&s->box->recoverer, 0);
    word_wake(&s->box->recoverer);
    return fine;
}

/* --- afterwards --- */

static bool give_back(struct scene *s, const struct plan *plan)
{
    bool surely = !(plan->op->flags & (OP_HURTS | OP_EXPIRES | OP_GRANTED));

    for (unsigned i = 0; i < s->teller.n; i++) {
        const struct enq_grant *g = &s->teller.g[i];
        int rc;

        put_down(&s->teller, i);
        rc = enq_unlock(s->teller.e, g->handle, g->token);

        if (rc != ENQ_OK && surely)
            complain(s->box, "the holder's unlock is %s", enq_result_name(rc));
    }
    s->teller.n = 0;
    return s->box->complaint[0] == '\0';
}

/* KEEP and LEASE locks of the dead. */
static bool break_orphans(struct scene *s)
{
    static struct look l;

    if (!look_around(s, &l, false))
        return false;
    for (size_t i = 0; i < l.n; i++)
        if (l.info[i].orphaned && enq_break(s->teller.e, l.info[i].id) != 0)
            complain(s->box, "cannot break a lock of the dead: %s", enq_why());
    return s->box->complaint[0] == '\0';
}

/* In a cycle one is refused: the youngest, or one that saw it while the
   youngest was kept from looking. */
static bool may_be_told(const struct plan *plan, int rc)
{
    return rc == ENQ_OK ||
        (rc == ENQ_CANCELLED && plan->op->flags & OP_HURTS) ||
        (rc == ENQ_DEADLOCK && strncmp(plan->state->name, "cycle", 5) == 0);
}

static bool judge_waiters(struct scene *s, const struct plan *plan)
{
    for (unsigned i = 0; i < WAITERS; i++) {
        int rc = s->box->waiters[i].result;

        s->box->waiters[i].result = ENQ_OK;
        if (!may_be_told(plan, rc))
            complain(s->box, "w%u was told %s", i, enq_result_name(rc));
    }
    return s->box->complaint[0] == '\0';
}

static bool probe(struct scene *s)
{
    if (script_run(&s->teller, "+Xa;+Xb;+Xc;-0;-1;-2") != ENQ_OK)
        complain_of(s->box, FAULT_LEAK, "a key cannot be taken and freed: %s",
            enq_why());
    s->teller.n = 0;
    if (s->box->complaint[0] == '\0' &&
        script_run(&s->teller, "+X@;-0") != ENQ_OK)
        complain_of(s->box, FAULT_LEAK,
            "all keys cannot be taken and freed: %s", enq_why());
    s->teller.n = 0;
    return s->box->complaint[0] == '\0';
}

/* The space that the victim was making, or made. */
static bool look_at_created(struct scene *s)
{
    struct actor a = {.box = s->box, .owner = "o", .patient = true};

    if (script_run(&a, "O") != ENQ_OK || script_run(&a, "+X#;-0;Z;F") != 0)
        complain(s->box, "the space half made is unfit: %s", enq_why());
    enq_close(a.e);
    enq_unlink(s->box->other);
    s->box->other[0] = '\0';
    return s->box->complaint[0] == '\0';
}

/* Until its process is known to have ended. */
static void wait_for_forsaken(struct scene *s)
{
    nanosleep(&(struct timespec){0, 550000000}, NULL);
    reap_dead(&s->teller.e->session, thread_enter(s->teller.e->map));
}

static bool clear_up(struct scene *s, const struct plan *plan)
{
    if (plan->op->flags & OP_CREATES && !look_at_created(s))
        return false;
    listener_end(s);
    send_home(s);
    if (!give_back(s, plan) || !break_orphans(s) || !wait_for_waiters(s, true))
        return false;
    if (!judge_waiters(s, plan))
        return false;
    if (plan->op->flags & OP_UNLINKS)
        return true;
    if (!probe(s))
        return false;
    scene_park(s, true);
    if (plan->op->flags & OP_FORSAKEN)
        wait_for_forsaken(s);
    return s->stage == STAGE_FRESH || verify_rest(s);
}

static void tell_story(struct box *box, const struct plan *plan)
{
    int n = snprintf(box->story, sizeof(box->story), "--op %s --state %s",
        plan->op->name, plan->state->name);

    if (plan->name != NULL)
        n += snprintf(box->story + n, sizeof(box->story) - (size_t)n,
            " --at %s", plan->name);
    else
        n += snprintf(box->story + n, sizeof(box->story) - (size_t)n, " --k %u",
            plan->k[0]);
    if (plan->rescue != NULL)
        snprintf(box->story + n, sizeof(box->story) - (size_t)n,
            " --rescue '%s' --j %u --i %u", plan->rescue, plan->k[1],
            plan->k[2]);
}

bool play(struct scene *s, const struct plan *plan)
{
    bool single = plan->op->stage >= STAGE_FRESH, fine;

    tell_story(s->box, plan);
    bump(&s->box->heartbeats);
    fine = (s->open && s->stage == plan->op->stage && !single) ||
        scene_begin(s, plan->op->stage);
    if (fine)
        find_neighbours(s, plan);
    fine = fine && set_scene(s, plan) && kill_all(s, plan) &&
        verify_table(s, plan) && clear_up(s, plan);
    if (!fine)
        scene_end(s);
    return fine;
}
