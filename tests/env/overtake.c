/*
 * overtake.c - P6: no waiter is overtaken past its bypass window, and none
 * starves.
 *
 * Processes that wait and processes that barge write down each of their grants:
 * when they asked, when they were in the queue, when they had it, and its
 * token. The order of grants that overlap is that of their tokens. So a request
 * that came after a waiter was due, is kept out by what that waits for, and has
 * the smaller token, has overtaken it.
 *
 * When a waiter is due at the latest follows from R7, and from how the window
 * grows in a queue: 200 us after it came, or 50 us after the one before is due,
 * or after 5 ms in any case. In a strict space: at once.
 */
#include <time.h>

#include "base/point.h"
#include "dice.h"
#include "env.h"

#define PLACES 6
#define LOG_MAX 40000
#define PLAY_MS 1000
#define WINDOW_NS 200000
#define TURN_NS 50000
#define MOST_NS 5000000

struct op {
    int64_t begin_ns, queued_ns, end_ns; /* queued_ns: 0 = it did not wait */
    uint64_t token;
    unsigned place;
};

/* What a process does: it asks for one thing, and waits, or tries again. */
struct role {
    enum enq_mode mode;
    const char *field;
    bool waits;
};

static struct yard {
    struct role roles[PLACES];
    bool strict;
    uint32_t stop, waited, n[PLACES];
    struct op log[PLACES][LOG_MAX];
} * yard;

/* --- what they do --- */

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_BOOTTIME, &ts);
    return ts.tv_sec * INT64_C(1000000000) + ts.tv_nsec;
}

/* By now it is in the queue, and all that ask later find it there. */
static int64_t queued_ns;

static void note_queued(const struct point *p)
{
    if (strcmp(p->name, "lock.queued") == 0)
        queued_ns = now_ns();
}

static struct enq *open_space(bool strict)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = 4000, .strict = strict};
    struct enq *e = NULL;

    want(ENQ_OK, enq_open(&e, env_space(), &opts));
    return e;
}

static int ask(struct enq *e, const struct role *r, const char *owner,
    struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = "env", .key = {r->field}, .mode = r->mode,
            .owner = owner, .ttl_ms = ENQ_FOREVER,
            .wait_ms = r->waits ? ENQ_FOREVER : 0),
        g);
}

static void dwell(uint64_t *dice)
{
    int64_t end = now_ns() + 4000 + (int64_t)dice_below(dice, 12000);

    while (now_ns() < end)
        continue;
}

/* Once in a while it leaves the field to the others. */
static void rest(const struct role *r, uint64_t *dice)
{
    if (dice_below(dice, r->waits ? 4 : 64) == 0)
        env_nap((double)dice_below(dice, 600) / 1000);
}

static int play(void *arg)
{
    unsigned place = (unsigned)((struct role *)arg - yard->roles);
    const struct role *r = arg;
    uint64_t dice = dice_of(place);
    char owner[2] = {(char)('p' + place), '\0'};
    struct enq *e = open_space(yard->strict);
    struct enq_grant g;

    point_hook = note_queued;
    while (!__atomic_load_n(&yard->stop, __ATOMIC_RELAXED)) {
        struct op *op = &yard->log[place][yard->n[place]];

        queued_ns = 0;
        *op = (struct op){.begin_ns = now_ns(), .place = place};
        if (ask(e, r, owner, &g) != ENQ_OK)
            continue;
        op->end_ns = now_ns();
        op->queued_ns = queued_ns;
        op->token = g.token;
        dwell(&dice);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
        if (queued_ns != 0)
            shm_add(&yard->waited, 1);
        if (shm_add(&yard->n[place], 1) == LOG_MAX)
            shm_store(&yard->stop, 1);
        rest(r, &dice);
    }
    return 0;
}

static void begin_yard(const struct role *roles, bool strict)
{
    yard = env_shared(sizeof(*yard));
    memcpy(yard->roles, roles, sizeof(yard->roles));
    yard->strict = strict;
}

/* Of the waiters: one that does not wait has no place to keep. */
static uint32_t fewest_grants(void)
{
    uint32_t fewest = LOG_MAX;

    for (unsigned p = 0; p < PLACES; p++)
        if (yard->roles[p].waits && shm_load(&yard->n[p]) < fewest)
            fewest = shm_load(&yard->n[p]);
    return fewest;
}

/* What must have been seen: on a machine that does something else that takes
   longer. */
#define WAITS 500
#define GRANTS_EACH 10

static bool enough(void)
{
    return shm_load(&yard->stop) ||
        (shm_load(&yard->waited) > WAITS && fewest_grants() > GRANTS_EACH);
}

static void play_all(void)
{
    double end = env_ms() + PLAY_MS;
    pid_t pids[PLACES];

    for (unsigned p = 0; p < PLACES; p++)
        pids[p] = env_child(play, &yard->roles[p]);
    while (env_ms() < end || !enough())
        env_nap(2);
    shm_store(&yard->stop, 1);
    for (unsigned p = 0; p < PLACES; p++)
        env_join(pids[p]);
}

/* --- which was before which --- */

static struct {
    const struct op *begun[PLACES * LOG_MAX], *queued[PLACES * LOG_MAX];
    size_t n, n_queued;
    unsigned overtaken, within, told; /* so many are told */
    int64_t longest_ns;
} tale = {.told = 3};

static int by_begin(const void *a, const void *b)
{
    const struct op *p = *(const struct op *const *)a;
    const struct op *q = *(const struct op *const *)b;

    return p->begin_ns < q->begin_ns ? -1 : p->begin_ns > q->begin_ns;
}

static int by_queued(const void *a, const void *b)
{
    const struct op *p = *(const struct op *const *)a;
    const struct op *q = *(const struct op *const *)b;

    return p->queued_ns < q->queued_ns ? -1 : p->queued_ns > q->queued_ns;
}

static void gather(void)
{
    for (unsigned p = 0; p < PLACES; p++) {
        for (uint32_t i = 0; i < yard->n[p]; i++) {
            const struct op *op = &yard->log[p][i];

            tale.begun[tale.n++] = op;
            if (op->queued_ns != 0)
                tale.queued[tale.n_queued++] = op;
        }
    }
    qsort(tale.begun, tale.n, sizeof(tale.begun[0]), by_begin);
    qsort(tale.queued, tale.n_queued, sizeof(tale.queued[0]), by_queued);
}

/* All have owners of their own, and have one lock at a time. */
static bool excludes(const struct op *a, const struct op *b)
{
    const struct role *p = &yard->roles[a->place], *q = &yard->roles[b->place];

    if (p->mode == ENQ_MODE_S && q->mode == ENQ_MODE_S)
        return false;
    return strcmp(p->field, q->field) == 0 || strcmp(p->field, "@") == 0 ||
        strcmp(q->field, "@") == 0;
}

struct latest {
    const struct op *op;
    int64_t due_ns;
};

static int64_t due_at(const struct op *w, const struct latest *last)
{
    int64_t due = w->queued_ns + WINDOW_NS;

    if (yard->strict)
        return w->queued_ns;
    for (unsigned p = 0; p < PLACES; p++)
        if (last[p].op != NULL && last[p].op->end_ns > w->queued_ns &&
            last[p].due_ns + TURN_NS > due)
            due = last[p].due_ns + TURN_NS;
    return due < w->queued_ns + MOST_NS ? due : w->queued_ns + MOST_NS;
}

static size_t first_after(int64_t ns)
{
    size_t from = 0, to = tale.n;

    while (from < to) {
        size_t mid = (from + to) / 2;

        if (tale.begun[mid]->begin_ns < ns)
            from = mid + 1;
        else
            to = mid;
    }
    return from;
}

static void judge_waiter(const struct op *w, int64_t due_ns)
{
    size_t i = first_after(w->queued_ns);

    for (; i < tale.n && tale.begun[i]->begin_ns < w->end_ns; i++) {
        const struct op *r = tale.begun[i];

        if (r->place == w->place || r->token > w->token || !excludes(w, r))
            continue;
        if (r->begin_ns < due_ns) {
            tale.within++;
            continue;
        }
        if (tale.overtaken++ < tale.told)
            dprintf(1,
                "%u waited from %lld ns, due at +%lld, and %u asked at "
                "+%lld and had it first\n",
                w->place, (long long)w->queued_ns,
                (long long)(due_ns - w->queued_ns), r->place,
                (long long)(r->begin_ns - w->queued_ns));
    }
    if (w->end_ns - w->begin_ns > tale.longest_ns)
        tale.longest_ns = w->end_ns - w->begin_ns;
}

static void judge_all(void)
{
    struct latest last[PLACES] = {0};

    gather();
    for (size_t i = 0; i < tale.n_queued; i++) {
        const struct op *w = tale.queued[i];
        int64_t due_ns = due_at(w, last);

        last[w->place] = (struct latest){w, due_ns};
        judge_waiter(w, due_ns);
    }
}

#define WAIT_MOST_MS 2000

static void expect_turns(const struct role *roles, bool strict)
{
    begin_yard(roles, strict);
    env_lag_begin();
    play_all();
    judge_all();
    env_say("%zu grants, %zu of them after a wait, the longest %.1f ms; "
            "fewest to one process %u; overtaken within the window %u, "
            "beyond it %u",
        tale.n, tale.n_queued, (double)tale.longest_ns / 1e6, fewest_grants(),
        tale.within, tale.overtaken);
    must(tale.overtaken == 0);
    must(tale.n_queued > WAITS && fewest_grants() > GRANTS_EACH);
    must((double)tale.longest_ns / 1e6 < WAIT_MOST_MS + env_lag_end_ms());
    must(!strict || tale.within == 0);
}

/* --- histories --- */

static const struct role barging[PLACES] = {
    {ENQ_MODE_X, "a", true},
    {ENQ_MODE_X, "a", true},
    {ENQ_MODE_E, "a", true},
    {ENQ_MODE_X, "a", false},
    {ENQ_MODE_E, "a", false},
    {ENQ_MODE_O, "a", false},
};

static const struct role readers[PLACES] = {
    {ENQ_MODE_X, "a", true},
    {ENQ_MODE_S, "a", true},
    {ENQ_MODE_S, "a", true},
    {ENQ_MODE_S, "a", false},
    {ENQ_MODE_S, "a", false},
    {ENQ_MODE_S, "a", false},
};

static const struct role generic[PLACES] = {
    {ENQ_MODE_X, "@", true},
    {ENQ_MODE_S, "@", true},
    {ENQ_MODE_X, "a", true},
    {ENQ_MODE_X, "b", true},
    {ENQ_MODE_X, "a", false},
    {ENQ_MODE_S, "b", false},
};

static void within_the_window(void)
{
    expect_turns(barging, false);
    must(tale.within > 0); /* so it is looked for where it happens */
    env_figure("promise-waits-judged", tale.n_queued);
}

static void strict_never(void)
{
    expect_turns(barging, true);
}

static void writer_among_readers(void)
{
    expect_turns(readers, false);
}

static void writer_among_readers_strict(void)
{
    expect_turns(readers, true);
}

static void generic_among_concrete(void)
{
    expect_turns(generic, false);
}

static void generic_among_concrete_strict(void)
{
    expect_turns(generic, true);
}

/* The same history, read as if its space had been a strict one. */
static void found_out(void)
{
    begin_yard(barging, false);
    play_all();
    yard->strict = true;
    tale.told = 0;
    judge_all();
    env_say("%u were overtaken, were the window none", tale.overtaken);
    must(tale.overtaken > 0);
}

/* --- one after the other --- */

#define LINE 6

static struct line {
    bool strict;
    uint32_t stop, barged, tries;
    uint64_t token[LINE];
    uint32_t number;
} * line;

static int stand_in_line(void *nothing)
{
    uint32_t number = line->number;
    struct enq *e = open_space(line->strict);
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, ask(e, &(struct role){ENQ_MODE_X, "a", true}, "", &g));
    line->token[number] = g.token;
    env_nap(1);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return 0;
}

static int barge(void *arg)
{
    struct enq *e = open_space(line->strict);
    struct enq_grant g;

    while (!shm_load(&line->stop)) {
        shm_add(&line->tries, 1);
        if (ask(e, arg, "", &g) != ENQ_OK)
            continue;
        shm_add(&line->barged, 1);
        want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    }
    return 0;
}

/* Each is due, a moment after it came at the latest, before the next comes. */
static void fill_line(struct enq *e, pid_t *pids)
{
    for (uint32_t i = 0; i < LINE; i++) {
        line->number = i;
        pids[i] = env_child(stand_in_line, NULL);
        eventually(env_stat(e).waiting == i + 1);
        env_nap(MOST_NS / 1e6 + 1);
    }
}

static void expect_order(bool strict)
{
    static struct role asks[] = {
        {ENQ_MODE_X, "a", false}, {ENQ_MODE_S, "@", false}};
    pid_t pids[LINE], bargers[LENGTH(asks)];
    struct enq *e = open_space(strict);
    struct enq_grant g;
    uint32_t before;

    line = env_shared(sizeof(*line));
    line->strict = strict;
    want(ENQ_OK, ask(e, &asks[0], "", &g));
    fill_line(e, pids);
    for (size_t i = 0; i < LENGTH(asks); i++)
        bargers[i] = env_child(barge, &asks[i]);
    eventually(shm_load(&line->tries) > 20);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    before = shm_load(&line->tries);
    for (size_t i = 0; i < LINE - 1; i++)
        env_join(pids[i]);
    env_join(pids[LINE - 1]);
    env_say("%u tries to pass meanwhile", shm_load(&line->tries) - before);
    eventually(shm_load(&line->barged) > 0);
    shm_store(&line->stop, 1);
    for (size_t i = 0; i < LENGTH(asks); i++)
        env_join(bargers[i]);
    for (size_t i = 0; i < LINE; i++)
        must(line->token[i] == g.token + 1 + i);
}

static void order_of_arrival(void)
{
    expect_order(false);
}

static void order_of_arrival_strict(void)
{
    expect_order(true);
}

/* --- the exceptions --- */

static int wait_and_leave(void *arg)
{
    struct enq *e = env_open();
    struct enq_grant g;

    want(ENQ_OK, ask(e, arg, "", &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return 0;
}

/* Bob waits for X[a]. Ann has it, and asks again. */
static void expect_exceptions(bool strict, enum enq_mode mode)
{
    struct role bobs = {ENQ_MODE_X, "a", true}, one = {mode, "a", false},
                all = {mode, "@", false};
    struct enq *e = open_space(strict);
    struct enq_grant g[3], other;
    pid_t bob;

    want(ENQ_OK, ask(e, &one, "ann", &g[0]));
    bob = env_child(wait_and_leave, &bobs);
    eventually(env_stat(e).waiting == 1);
    env_nap(MOST_NS / 1e6 + 1);
    want(ENQ_BUSY, ask(e, &one, "cid", &other));
    must(other.blocker.waiting == (mode == ENQ_MODE_S));
    want(ENQ_BUSY, ask(e, &one, "", &other));
    want(ENQ_BUSY, ask(e, &all, "cid", &other));
    want(ENQ_OK, ask(e, &one, "ann", &g[1]));
    want(ENQ_OK, ask(e, &all, "ann", &g[2]));
    for (size_t i = 0; i < LENGTH(g); i++) {
        must(env_stat(e).waiting == 1); /* each of them is in Bob's way */
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    }
    env_join(bob);
}

/* Bob waits for Ann, and Dan behind Bob, for what nobody has. Ann takes both:
   Dan does not wait for her, and yet is not in her way. */
static void cumulation_over_more(void)
{
    struct role asks[] = {{ENQ_MODE_X, "@", true}, {ENQ_MODE_X, "b", true}},
                one = {ENQ_MODE_E, "a", false}, all = {ENQ_MODE_E, "@", false};
    struct enq *e = open_space(false);
    struct enq_grant g[2], other;
    pid_t pids[LENGTH(asks)];

    want(ENQ_OK, ask(e, &one, "ann", &g[0]));
    for (uint32_t i = 0; i < LENGTH(asks); i++) {
        pids[i] = env_child(wait_and_leave, &asks[i]);
        eventually(env_stat(e).waiting == i + 1);
        env_nap(MOST_NS / 1e6 + 1);
    }
    want(ENQ_BUSY, ask(e, &all, "cid", &other));
    want(ENQ_OK, ask(e, &all, "ann", &g[1]));
    for (size_t i = 0; i < LENGTH(g); i++)
        want(ENQ_OK, enq_unlock(e, g[i].handle, g[i].token));
    for (size_t i = 0; i < LENGTH(pids); i++)
        env_join(pids[i]);
}

static void cumulation(void)
{
    expect_exceptions(false, ENQ_MODE_E);
}

static void cumulation_strict(void)
{
    expect_exceptions(true, ENQ_MODE_E);
}

static void for_this_very_owner(void)
{
    expect_exceptions(false, ENQ_MODE_S);
}

static void for_this_very_owner_strict(void)
{
    expect_exceptions(true, ENQ_MODE_S);
}

const struct env_case overtake_cases[] = {
    {"P6: who waits is overtaken within the window, and never beyond it",
        within_the_window, true},
    {"P6: nobody who waits is overtaken in a strict space", strict_never, true},
    {"P6: a writer among readers has its turn", writer_among_readers, true},
    {"P6: a writer among readers has its turn in a strict space",
        writer_among_readers_strict, true},
    {"P6: generic and concrete requests do not pass each other",
        generic_among_concrete, true},
    {"P6: generic and concrete do not pass each other in a strict space",
        generic_among_concrete_strict, true},
    {"P6: being overtaken is found out by these very tests", found_out, true},
    {"P6: those who are due have it in the order they came", order_of_arrival,
        false},
    {"P6: those who wait in a strict space have it in the order they came",
        order_of_arrival_strict, false},
    {"P6: cumulation waits behind nobody (R6)", cumulation, false},
    {"P6: cumulation over more waits behind nobody (R6)", cumulation_over_more,
        false},
    {"P6: cumulation waits behind nobody in a strict space (R6)",
        cumulation_strict, false},
    {"P6: who is waited for does not wait behind the waiter (R7)",
        for_this_very_owner, false},
    {"P6: nor is it so in a strict space (R7)", for_this_very_owner_strict,
        false},
    {0},
};
