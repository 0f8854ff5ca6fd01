/*
 * check.c - after a death: is the table sound, is nothing left, is the key to
 * be had?
 */
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "segment/layout.h"
#include "step.h"

#define REAPED_US 3000000
#define TURN_US 20000
#define ROOM_MOST 4200u

static struct enq_stats stat_of(const struct world *w)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    enq_stat(w->e, &stats);
    return stats;
}

void check_begin(struct world *w)
{
    struct enq_stats stats;
    struct enq_grant g;

    if (enq_lock(w->e, ENQ_REQ(.name = "home", .mode = ENQ_MODE_S), &g) ==
        ENQ_OK)
        enq_unlock(w->e, g.handle, g.token);
    stats = stat_of(w);
    w->sessions = stats.sessions;
    w->threads = stats.threads;
}

static bool is_settled(const struct world *w, unsigned more)
{
    struct enq_stats s = stat_of(w);

    return s.sessions == w->sessions + more && s.threads == w->threads + more &&
        s.held == 0 && s.waiting == 0;
}

/* All of what is left, for whoever looks for the fault. */
static void show_left(const struct world *w, unsigned more)
{
    struct enq_stats s = stat_of(w);

    fault(FAULT_LEAK, &ctl->now,
        "left over: %d sessions, %d threads, %u held, %u waiting",
        (int)(s.sessions - w->sessions - more),
        (int)(s.threads - w->threads - more), (unsigned)s.held,
        (unsigned)s.waiting);
    enq_dump(w->e, STDOUT_FILENO);
}

/* A turn counts for TURN_US at most: where the machine stands still, so does
   who should have cleared away. */
static void check_settled(struct world *w, unsigned more)
{
    int64_t last = now_us(), now, waited = 0;

    while (!is_settled(w, more)) {
        if (waited >= REAPED_US) {
            w->broken = true;
            show_left(w, more);
            return;
        }
        sched_yield();
        now = now_us();
        waited += now - last < TURN_US ? now - last : TURN_US;
        last = now;
    }
}

static void check_sound(struct world *w)
{
    char report[1024];
    int n = enq_doctor(w->e, 0, report, sizeof(report));

    if (n == 0)
        return;
    w->broken = true;
    fault(FAULT_FINDING, &ctl->now, "the doctor (%d): %s", n, report);
}

static void check_key(struct world *w, const char *field)
{
    struct enq_grant g;
    int rc = enq_lock(w->e,
        ENQ_REQ(.name = "n", .key = {field}, .mode = ENQ_MODE_X,
            .owner = "check"),
        &g);

    if (rc != ENQ_OK) {
        w->broken = true;
        fault(FAULT_STUCK, &ctl->now, "%s cannot be taken: %s (%s)", field,
            enq_result_name(rc), enq_why());
        return;
    }
    if (g.token <= w->top_token)
        fault(FAULT_WRONG, &ctl->now, "%s: token %llu after %llu", field,
            (unsigned long long)g.token, (unsigned long long)w->top_token);
    w->top_token = g.token;
    rc = enq_unlock(w->e, g.handle, g.token);
    if (rc != ENQ_OK)
        fault(FAULT_WRONG, &ctl->now, "unlock: %s", enq_result_name(rc));
}

void check_all(struct world *w, unsigned more)
{
    check_settled(w, more);
    if (!w->broken)
        check_sound(w);
    if (!w->broken && ctl->barger.want.key[0][0] != '\0')
        check_key(w, ctl->barger.want.key[0]);
    if (!w->broken && w->checks++ % 4 == 0)
        check_key(w, "@");
}

/* Takes locks of this size until there is no room. */
static unsigned fill(struct world *w, const char *owner, struct enq_grant *g)
{
    unsigned n = 0;
    char field[16];
    int rc = ENQ_OK;

    while (rc == ENQ_OK && n < ROOM_MOST) {
        snprintf(field, sizeof(field), "r%u", n);
        rc = enq_lock(w->e,
            ENQ_REQ(.name = "room", .key = {field}, .mode = ENQ_MODE_S,
                .owner = owner),
            &g[n]);
        n += rc == ENQ_OK;
    }
    return rc == ENQ_EFULL ? n : 0;
}

/* All that the table has room for can still be had: nothing was lost. A page
   stays with the size of entries that it was first used for. */
void check_room(struct world *w)
{
    static struct enq_grant g[2 * ROOM_MOST];
    char owner[LONG_OWNER + 1] = "";
    struct enq_stats stats = stat_of(w);
    unsigned small, large;

    memset(owner, 'l', LONG_OWNER);
    small = fill(w, "s", g);
    large = fill(w, owner, g + small);
    if (small + large * (SMALL_PER_PAGE / LARGE_PER_PAGE) < stats.slots_max)
        fault(FAULT_LEAK, &ctl->now, "room for %u + %u of %u locks", small,
            large, (unsigned)stats.slots_max);
    for (unsigned i = 0; i < small + large; i++)
        enq_unlock(w->e, g[i].handle, g[i].token);
}
