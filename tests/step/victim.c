/*
 * victim.c - a process that does one operation and dies in it.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "step.h"

#define PATIENCE_MS 30000

struct enq *victim_e;
struct enq_grant victim_grant;
static const char *space;

int victim_open(void)
{
    return enq_open(&victim_e, space, NULL);
}

static void may_go(struct victim *v, uint32_t step)
{
    if (!bell_await(&v->bell, &v->step, step, PATIENCE_MS))
        _exit(1);
}

static void say(uint32_t *what)
{
    STORE(*what, 1);
    bell_ring(&ctl->bell);
}

/* One that dies before the operation, for others to meet what it leaves. */
static void __attribute__((noreturn)) earlier_main(const struct world *w)
{
    if (victim_open() != ENQ_OK)
        _exit(1);
    trap_arm();
    victim_hold_two(&w->state);
    trap_disarm();
    trap_die();
}

void victim_main(struct world *w, struct victim *v)
{
    int rc = ENQ_OK;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    space = w->space;
    trap_begin(v);
    trap_count_sleeps(&v->sleeps, &ctl->bell);
    if (v == &ctl->earlier)
        earlier_main(w);
    if (!w->op->opens)
        rc = victim_open();
    say(&v->open);
    may_go(v, 1);
    if (rc == ENQ_OK && w->op->hold != NULL)
        rc = w->op->hold(&w->state);
    say(&v->ready);
    may_go(v, 2);
    trap_arm();
    if (rc == ENQ_OK)
        rc = w->op->act(&w->state);
    trap_disarm();
    v->rc = rc;
    v->token = victim_grant.token;
    trap_die();
}
