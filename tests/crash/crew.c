/*
 * crew.c - the processes of a scene: the barger, the waiters, the victims.
 */
#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crash.h"
#include "lib/at_hand.h"
#include "lib/dice.h"
#include "recovery/recover.h"
#include "sync/hooks.h"

/* How long the barger pauses when nobody rings for it; how long a victim lets
   it act before it dies; how long others leave the recovery to a victim. */
#define PAUSE_NS 300000
#define BARGE_NS 60000
#define DEFER_NS 500000

/* --- shared words --- */

void word_wait(const uint32_t *word, uint32_t value, int64_t ns)
{
    struct timespec ts = {ns / 1000000000, ns % 1000000000};

    syscall(SYS_futex, word, FUTEX_WAIT, value, &ts, NULL, 0);
}

void word_wake(const uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, 1 << 20, NULL, NULL, 0);
}

int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

void box_ring(struct box *box)
{
    bump(&box->event);
    word_wake(&box->event);
}

void complain_of(struct box *box, enum fault fault, const char *format, ...)
{
    va_list args;

    if (box->complaint[0] != '\0')
        return;
    box->fault = fault;
    va_start(args, format);
    vsnprintf(box->complaint, sizeof(box->complaint), format, args);
    va_end(args);
}

static unsigned token_place(char key)
{
    const char *at = strchr("abc@", key);

    return at == NULL ? LENGTH(((struct box *)0)->newest)
                      : (unsigned)(at - "abc@");
}

/* Of all that overlap this key. */
uint64_t newest_token(struct box *box, char key)
{
    unsigned place = token_place(key), any = token_place('@');
    uint64_t newest = load(&box->newest[any]);

    if (place > any)
        return 0;
    for (unsigned i = 0; i < any; i++)
        if ((i == place || place == any) && load(&box->newest[i]) > newest)
            newest = load(&box->newest[i]);
    return newest;
}

void note_token(struct box *box, char key, uint64_t token)
{
    unsigned place = token_place(key);
    uint64_t seen;

    if (place >= LENGTH(box->newest))
        return;
    seen = load(&box->newest[place]);
    while (seen < token &&
        !__atomic_compare_exchange_n(&box->newest[place], &seen, token, false,
            __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

/* --- every process --- */

/* The program is linked statically, which the real one is not made for: it
   loads libraries. Owners are named here; a user is not. */
int getpwuid_r(uid_t uid, struct passwd *entry, char *buf, size_t bytes,
    struct passwd **found)
{
    (void)uid;
    (void)entry;
    (void)buf;
    (void)bytes;
    *found = NULL;
    return 0;
}

/* A child that does not outlive us, and whose short sleeps are short. */
pid_t crew_fork(void)
{
    pid_t parent = getpid(), pid = fork();

    if (pid != 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    prctl(PR_SET_TIMERSLACK, 1);
    if (getppid() != parent)
        _exit(1);
    return 0;
}

static struct box *polite_box;
static void (*report_death)(struct session *s);

/* A victim is to meet what another has left half done: it may go first. But
   not for ever, as it may wait for a word that we hold. */
static void let_go_first(struct box *box)
{
    if (load(&box->recoverer) != 0)
        word_wait(&box->recoverer, 1, DEFER_NS);
}

static int polite_recover(struct map *map, struct thread *me)
{
    let_go_first(polite_box);
    return recover(map, me);
}

/* Helpers are woken by a death and would find it first, a victim's own, too. */
static void polite_point(const struct point *p)
{
    if (p->name[0] == 'r' && strcmp(p->name, "reap.looks") == 0)
        let_go_first(polite_box);
}

static void polite_report(struct session *s)
{
    if (load(&polite_box->recoverer) == 0)
        report_death(s);
}

void polite(struct box *box)
{
    polite_box = box;
    hooks.recover = polite_recover;
    point_hook = polite_point;
    if (hooks.report_death != polite_report)
        report_death = hooks.report_death;
    store(&hooks.report_death, polite_report);
}

static unsigned at_hand(const struct enq *e)
{
    return in_magazine(&e->session, thread_enter(e->map)) +
        in_depot(&e->session);
}

static void open_or_die(struct actor *a, struct box *box)
{
    if (script_open(a, box->space) != ENQ_OK) {
        complain(box, "%s cannot open %s: %s", a->owner, box->space, enq_why());
        box_ring(box);
        _exit(1);
    }
    polite(box);
}

/* --- the barger --- */

static void barge(struct actor *a, uint64_t *seed)
{
    uint64_t n = dice_roll(seed);
    char wish[6] = {"SEXXXOO"[n % 7], "aaaaabbc"[n / 8 % 8], 0};
    int rc;

    if (load(&a->box->wide) && n / 64 % 8 == 0)
        wish[1] = '@';
    if (n / 1024 % 8 == 0)
        strcpy(wish, n / 8192 % 2 == 0 ? "Xa,Xb" : "Eb,Sa");
    a->n = 0;
    rc = script_lock(a, wish, n / 512 % 2 == 0 ? 0 : 2);
    if (rc == ENQ_OK && wish[0] == 'O' && load(&a->box->promotes))
        script_run(a, "p0");
    if (rc == ENQ_OK)
        rc = script_run(a, a->n > 1 ? "_" : "-0");
    if (rc < 0 && rc != ENQ_EGONE)
        complain(a->box, "the barger's %s is %s: %s", wish, enq_result_name(rc),
            enq_why());
}

static void barger_rests(struct actor *a)
{
    struct box *box = a->box;

    box->kept = at_hand(a->e);
    store(&box->parked, 1);
    box_ring(box);
    while (load(&box->park))
        word_wait(&box->park, 1, 1000000000);
    store(&box->parked, 0);
}

void barger_main(struct box *box)
{
    static struct actor a = {.owner = "b"};
    uint64_t seed = options.seed;

    a.box = box;
    open_or_die(&a, box);
    for (;;) {
        uint32_t seen = load(&box->go);

        if (load(&box->park)) {
            barger_rests(&a);
            continue;
        }
        barge(&a, &seed);
        bump(&box->done);
        word_wake(&box->done);
        word_wait(&box->go, seen, PAUSE_NS);
    }
}

void ring_barger(struct box *box)
{
    bump(&box->go);
    word_wake(&box->go);
}

/* --- waiters --- */

static __thread struct waiter *this_waiter;
static struct actor waiting[WAITERS];

static void see_queued(const struct point *p)
{
    struct waiter *w = this_waiter;

    polite_point(p);
    if (w == NULL || load(&w->phase) != WAITER_ASKS || p->name[0] != 'l' ||
        strcmp(p->name, "lock.queued") != 0)
        return;
    store(&w->phase, WAITER_QUEUED);
    box_ring(polite_box);
}

static void wait_once(struct actor *a, struct waiter *w)
{
    a->n = 0;
    w->result = script_lock(a, w->wish, ENQ_FOREVER);
    store(&w->phase, WAITER_ENDED);
    box_ring(a->box);
    while (!load(&w->leave))
        word_wait(&w->leave, 0, 1000000000);
    if (w->result == ENQ_OK)
        script_run(a, a->n > 1 ? "_" : "-0");
    w->kept = in_magazine(&a->e->session, thread_enter(a->e->map));
    store(&w->phase, WAITER_IDLE);
    box_ring(a->box);
}

static void *waiter_thread(void *actor)
{
    struct actor *a = actor;
    struct waiter *w = &a->box->waiters[a - waiting];
    uint32_t order = 0;

    for (;;) {
        word_wait(&w->order, order, 1000000000);
        if (load(&w->order) == order)
            continue;
        order = load(&w->order);
        this_waiter = w;
        wait_once(a, w);
    }
    return NULL;
}

void waiters_main(struct box *box)
{
    static const char *const owners[] = {"w0", "w1", "w2", "w3"};
    pthread_t thread;

    waiting[0] = (struct actor){.box = box, .owner = "w"};
    open_or_die(&waiting[0], box);
    point_hook = see_queued;
    for (unsigned i = 0; i < WAITERS; i++) {
        waiting[i] =
            (struct actor){.box = box, .owner = owners[i], .e = waiting[0].e};
        pthread_create(&thread, NULL, waiter_thread, &waiting[i]);
    }
    for (;;)
        pause();
}

/* --- victims --- */

static struct victim *me;
static struct box *my_box;
static __thread bool is_main;

/* Between the store and the death another one acts: were it a free latch, it
   would have it before those that sleep on it are woken. */
static void let_barge(void)
{
    uint32_t done = load(&my_box->done);

    if (load(&my_box->parked))
        return;
    ring_barger(my_box);
    word_wait(&my_box->done, done, BARGE_NS);
}

static void die_here(const struct point *p)
{
    me->at = p;
    if (me->stays)
        me->at = NULL;
    else if (me->k % 2 == 0)
        let_barge();
    store(&me->phase, VICTIM_ENDED);
    box_ring(my_box);
    if (!me->stays)
        kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

static void count_pass(const struct point *p)
{
    uint32_t pass;

    if (!is_main && !me->all_threads) {
        polite_point(p);
        return;
    }
    pass = bump(&me->passes);
    me->trace[pass % POINTS_MAX] = (uint16_t)point_number(p);
    if (p->name[0] == 'l' && strcmp(p->name, "lock.queued") == 0) {
        store(&me->queued, 1);
        box_ring(my_box);
    }
    if (p->name[0] == 's' && strcmp(p->name, "set.committed") == 0)
        store(&me->committed, 1);
    if (pass == me->k || (me->name != NULL && strcmp(p->name, me->name) == 0))
        die_here(p);
}

static __attribute__((noreturn)) void victim_main(const char *prepare,
    const char *run)
{
    static struct actor a;
    int rc = 0;

    a = (struct actor){.box = my_box, .patient = true, .owner = me->owner};
    polite_box = my_box;
    point_hook = polite_point;
    if (run[0] != 'O')
        rc = script_open(&a, my_box->space);
    if (rc == 0)
        rc = script_run(&a, prepare);
    if (rc != 0)
        complain(my_box, "a victim cannot prepare: %s", enq_why());
    a.patient = false;
    me->handle = a.g[0].handle;
    store(&me->phase, VICTIM_READY);
    box_ring(my_box);
    while (!load(&me->go))
        word_wait(&me->go, 0, 1000000000);
    is_main = true;
    point_hook = count_pass;
    me->result = script_run(&a, run);
    point_hook = NULL;
    store(&me->phase, VICTIM_ENDED);
    box_ring(my_box);
    for (;;)
        pause();
}

/* --- spares --- */

static pid_t spares[SPARES];
static unsigned spares_used;

void spares_begin(struct box *box)
{
    box->called = spares_used = 0;
    for (unsigned i = 0; i < SPARES; i++) {
        spares[i] = crew_fork();
        if (spares[i] != 0)
            continue;
        for (uint32_t n; (n = load(&box->called)) <= i;)
            word_wait(&box->called, n, 1000000000);
        my_box = box;
        me = &box->victims[0];
        victim_main(box->prepare, box->run);
    }
}

void spares_end(void)
{
    for (; spares_used < SPARES; spares_used++) {
        kill(spares[spares_used], SIGKILL);
        waitpid(spares[spares_used], NULL, 0);
    }
}

static pid_t call_spare(struct box *box, const char *prepare, const char *run)
{
    box->prepare = prepare;
    box->run = run;
    bump(&box->called);
    word_wake(&box->called);
    return spares[spares_used++];
}

/* --- the teller's side of a victim --- */

/* Ready to run. A victim that is about to open has nothing to prepare. */
bool victim_start(struct box *box, unsigned i, const char *prepare,
    const char *run, bool first)
{
    struct victim *v = &box->victims[i];
    uint32_t event;
    int status;
    pid_t pid;

    v->phase = VICTIM_STARTS;
    v->go = v->queued = v->passes = v->committed = 0;
    v->at = NULL;
    me = v;
    my_box = box;
    pid = first && spares_used < SPARES ? call_spare(box, prepare, run)
                                        : crew_fork();
    if (pid == 0)
        victim_main(prepare, run);
    v->pid = pid;
    for (;;) {
        event = load(&box->event);
        if (load(&v->phase) != VICTIM_STARTS)
            return box->complaint[0] == '\0';
        word_wait(&box->event, event, 20000000);
        if (waitpid(v->pid, &status, WNOHANG) == v->pid) {
            v->pid = 0;
            complain(box, "victim %u ended with status %#x as it prepared", i,
                (unsigned)status);
            return false;
        }
    }
}

void victim_go(struct box *box, unsigned i)
{
    store(&box->victims[i].go, 1);
    word_wake(&box->victims[i].go);
}

/* Reaped just now; at a point? */
static void count_kill(const struct victim *v)
{
    if (v->at == NULL)
        return;
    __atomic_add_fetch(&tally->kills, 1, __ATOMIC_RELAXED);
    __atomic_add_fetch(&tally->at[point_number(v->at)], 1, __ATOMIC_RELAXED);
}

/* It has died, or come to its end, or to where it stops; nothing else may have
   ended it. */
bool victim_stops(struct box *box, unsigned i)
{
    struct victim *v = &box->victims[i];
    int status;
    uint32_t event;

    for (;;) {
        event = load(&box->event);
        if (load(&v->phase) == VICTIM_ENDED)
            break;
        word_wait(&box->event, event, 20000000);
        if (waitpid(v->pid, &status, WNOHANG) != v->pid)
            continue;
        v->pid = 0;
        count_kill(v);
        if (load(&v->phase) == VICTIM_ENDED)
            break;
        complain(box, "victim %u ended with status %#x", i, (unsigned)status);
        return false;
    }
    return true;
}

bool victim_join(struct box *box, unsigned i)
{
    bool fine = victim_stops(box, i);

    if (fine)
        victim_kill(box, i);
    return fine;
}

void victim_kill(struct box *box, unsigned i)
{
    struct victim *v = &box->victims[i];

    if (v->pid == 0)
        return;
    kill(v->pid, SIGKILL);
    waitpid(v->pid, NULL, 0);
    v->pid = 0;
    count_kill(v);
}

void victims_clear(struct box *box)
{
    for (unsigned i = 0; i <= LISTENER; i++)
        victim_kill(box, i);
}
