/*
 * story.c - the quiet scenes, each with a few actors and one point to make.
 */
#include "demo.h"

#include <stdio.h>
#include <string.h>

enum { RACES = 200, TTL_MS = 250 };

static struct order lock_order(const char *name, const char *key,
    enum enq_mode mode, int64_t wait_ms)
{
    return (struct order){.verb = DO_LOCK,
        .name = name,
        .key = key,
        .mode = mode,
        .wait_ms = wait_ms};
}

static struct order unlock_order(const struct actor *a)
{
    return (struct order){.verb = DO_UNLOCK, .grant = a->answer.grant};
}

static int give_back(struct stage *st, struct actor *a)
{
    if (actor_do(a, unlock_order(a)) != 0)
        return -1;
    expect(st->page, a->answer.rc == ENQ_OK, "a held lock is given back");
    return 0;
}

static bool refused_by(const struct actor *asker, const struct actor *holder)
{
    return asker->answer.rc == ENQ_BUSY &&
        strcmp(asker->answer.grant.blocker.owner, holder->owner) == 0 &&
        asker->answer.grant.blocker.pid == holder->pid;
}

/* The seed's example: user B is told that A holds it. */
int scene_told(struct stage *st)
{
    struct actor *a = &st->page->actors[0], *b = &st->page->actors[1];
    char took[24];

    say_scene("A edits a product, B wants to");
    if (actor_do(a, lock_order("product", "Computer", ENQ_MODE_E, 0)) != 0)
        return -1;
    expect(st->page, a->answer.rc == ENQ_OK, "A gets the free lock");
    say("A (process %d) locks product [Computer], mode E, and edits.",
        (int)a->pid);
    if (actor_do(b, lock_order("product", "Computer", ENQ_MODE_E, 0)) != 0)
        return -1;
    expect(st->page, refused_by(b, a), "B is refused, and A is named");
    say("B (process %d) wants it too, and is told:", (int)b->pid);
    say_quote("The product Computer is now locked by %s",
        b->answer.grant.blocker.owner);
    struct order give = unlock_order(a);
    actor_begin(b, lock_order("product", "Computer", ENQ_MODE_E, 5000));
    if (stage_pause(0.05) != 0 || actor_do(a, give) != 0 || actor_end(b) != 0)
        return -1;
    expect(st->page, a->answer.rc == ENQ_OK, "A gives its lock back");
    expect(st->page, b->answer.rc == ENQ_OK, "B gets it when A is done");
    say("So B waits for it. A saves and unlocks: B has the lock %s later.",
        show_ns(took, sizeof(took), b->answer.ended_ns - a->answer.began_ns));
    return give_back(st, b);
}

/* "@" stands for every key: against what is held, and for what comes. */
int scene_generic(struct stage *st)
{
    struct actor *a = &st->page->actors[0], *b = &st->page->actors[1];
    struct actor *c = &st->page->actors[2];

    say_scene("C wants all products at once: product [@]");
    if (actor_do(a, lock_order("product", "Async", ENQ_MODE_E, 0)) != 0 ||
        actor_do(c, lock_order("product", "@", ENQ_MODE_E, 0)) != 0)
        return -1;
    expect(st->page, refused_by(c, a), "[@] is refused while [Async] is held");
    say("A holds product [Async], so C is told that %s is in the way.",
        c->answer.grant.blocker.owner);
    if (give_back(st, a) != 0 ||
        actor_do(c, lock_order("product", "@", ENQ_MODE_E, 0)) != 0 ||
        actor_do(b, lock_order("product", "Lamp", ENQ_MODE_S, 0)) != 0)
        return -1;
    expect(st->page, c->answer.rc == ENQ_OK, "[@] is granted when all is free");
    expect(st->page, refused_by(b, c), "[Lamp] is refused while [@] is held");
    say("A unlocks, C gets product [@]. Now B may not even look at product "
        "[Lamp]:");
    say_quote("The product Lamp is now locked by %s",
        b->answer.grant.blocker.owner);
    if (actor_do(b, lock_order("customer", "Lamp", ENQ_MODE_S, 0)) != 0)
        return -1;
    expect(st->page, b->answer.rc == ENQ_OK, "another name is not affected");
    say("customer [Lamp] is another name: B gets it.");
    return give_back(st, b) != 0 ? -1 : give_back(st, c);
}

/* Both hold O and promote at the same instant. */
static int race_run(struct stage *st, struct actor *const both[2])
{
    struct order promote = {.verb = DO_PROMOTE};

    for (int i = 0; i < 2; i++) {
        struct order o = lock_order("product", "Price list", ENQ_MODE_O, 0);
        if (actor_do(both[i], o) != 0 ||
            !expect(st->page, both[i]->answer.rc == ENQ_OK,
                "an O is granted beside an O (%s)",
                enq_result_name(both[i]->answer.rc)))
            return -1;
    }
    promote.at_ns = now_ns() + 100000;
    for (int i = 0; i < 2; i++) {
        promote.grant = both[i]->answer.grant;
        actor_begin(both[i], promote);
    }
    return actor_end(both[0]) != 0 ? -1 : actor_end(both[1]);
}

/* Returns the winner, 0 or 1; -1: the show cannot go on. */
static int race(struct stage *st, struct actor *const both[2])
{
    if (race_run(st, both) != 0)
        return -1;
    int won = both[0]->answer.rc == ENQ_OK ? 0 : 1;
    const struct actor *winner = both[won], *loser = both[1 - won];
    const char *named = loser->answer.grant.blocker.owner;
    bool fair = expect(st->page,
        winner->answer.rc == ENQ_OK && loser->answer.rc == ENQ_LOST,
        "of two promoters exactly one wins (%s %s, %s %s)", winner->owner,
        enq_result_name(winner->answer.rc), loser->owner,
        enq_result_name(loser->answer.rc));
    fair &= expect(st->page, strcmp(named, winner->owner) == 0,
        "the loser is told who won (\"%s\")", named);
    fair &= expect(st->page,
        winner->answer.grant.token > winner->order.grant.token &&
            winner->answer.grant.token > loser->order.grant.token,
        "the winner's token is the newest");
    return fair && give_back(st, both[won]) == 0 ? won : -1;
}

int scene_optimistic(struct stage *st)
{
    struct actor *both[2] = {&st->page->actors[0], &st->page->actors[1]};
    int won[2] = {0, 0};

    say_scene("Two optimists change the price list");
    say("A and B both read it with mode O; both promote to E at the same "
        "instant.");
    for (int i = 0; i < RACES; i++) {
        int first = race(st, both);
        if (first < 0)
            return -1;
        if (i == 0)
            say("%s wins and writes; %s is told that %s was faster, and reads "
                "again.",
                both[first]->owner, both[1 - first]->owner,
                both[1 - first]->answer.grant.blocker.owner);
        won[first]++;
    }
    say("In %d such races A won %d and B %d: never both, never neither.", RACES,
        won[0], won[1]);
    return 0;
}

int scene_expiry(struct stage *st)
{
    struct actor *a = &st->page->actors[0], *b = &st->page->actors[1];
    struct order lease = lock_order("customer", "Miller", ENQ_MODE_X, 0);

    say_scene("A goes to lunch");
    lease.ttl_ms = TTL_MS;
    if (actor_do(a, lease) != 0)
        return -1;
    uint64_t began = a->answer.began_ns;
    struct order late = unlock_order(a);
    if (actor_do(b, lock_order("customer", "Miller", ENQ_MODE_X, 5000)) != 0 ||
        actor_do(a, late) != 0)
        return -1;
    double ms = (double)(b->answer.ended_ns - began) / 1e6;
    expect(st->page, b->answer.rc == ENQ_OK, "B gets what has expired");
    expect(st->page, ms >= TTL_MS, "nothing expires before its time");
    expect(st->page, a->answer.rc == ENQ_EXPIRED, "A is told that it expired");
    say("A locks customer [Miller] for %d ms and forgets it. B waits, and has "
        "it after %.1f ms.",
        TTL_MS, ms);
    say("When A comes back to unlock, it is told: %s.",
        enq_strerror(a->answer.rc));
    return give_back(st, b);
}
