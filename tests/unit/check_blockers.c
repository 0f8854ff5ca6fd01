/*
 * check_blockers.c - what a waiter has seen while it slept: who hears of a
 * death.
 */
#include "wait/blockers.h"

#include "api/attachment.h"
#include "sync/hooks.h"
#include "sync/life.h"
#include "unit.h"

static unsigned reports;
static struct session *reported;

static void count_report(struct session *s)
{
    reports++;
    reported = s;
}

/* What a look and the sleep after it have found. */
static const struct found {
    bool own_dead, watched_dead, last_dead; /* words */
    bool dead, dying, known;
    unsigned told;
} finds[] = {
    {.told = 0},
    {.watched_dead = true, .told = 1},
    {.last_dead = true, .told = 1},
    {.watched_dead = true, .last_dead = true, .told = 1},
    {.own_dead = true, .told = 0}, /* a state, and no liveness word */
    {.dead = true, .told = 1},
    {.dying = true, .told = 1},
    {.known = true, .told = 0},
    {.dying = true, .known = true, .told = 0},
    {.watched_dead = true, .dying = true, .known = true, .told = 1},
};

static uint32_t word_of(bool dead)
{
    return dead ? FUTEX_OWNER_DIED : 77;
}

static void pass_on(const struct found *f, struct enq *e)
{
    uint32_t words[] = {
        word_of(f->own_dead), word_of(f->watched_dead), word_of(f->last_dead)};
    struct blockers b = {.n = LENGTH(words), .own = 1};

    b.dead = f->dead;
    b.n_dying = f->dying;
    for (unsigned i = 0; i < b.n; i++)
        b.watch[i] = (struct sys_watch){&words[i], 77};
    shm_store(&e->map->dying, f->known);
    blockers_pass_on_deaths(&b, &e->session);
    shm_store(&e->map->dying, 0);
}

/* Else each of the dead would keep its room, and whoever has no part in its
   locks would hear of it, until the helper's next round. */
TEST(the_helper_is_told_of_a_death_once_and_of_none_that_was_not)
{
    struct enq *e = unit_open();
    struct hooks before = hooks;

    hooks.report_death = count_report;
    pass_on(&finds[_i], e);
    hooks = before;
    ck_assert_uint_eq(reports, finds[_i].told);
    ck_assert_ptr_eq(reported, reports > 0 ? &e->session : NULL);
    enq_close(e);
}

TEST(a_death_is_noticed_where_there_is_no_helper)
{
    struct enq *e = unit_open();
    struct hooks before = hooks;

    hooks.report_death = NULL;
    for (size_t i = 0; i < LENGTH(finds); i++)
        pass_on(&finds[i], e);
    hooks = before;
    enq_close(e);
}

int main(void)
{
    unit_begin("blockers");
    ADD_LOOP(the_helper_is_told_of_a_death_once_and_of_none_that_was_not,
        LENGTH(finds));
    ADD(a_death_is_noticed_where_there_is_no_helper);
    return unit_end();
}
