/*
 * exclude.c - P2: mutual exclusion, as the holders of the locks see it.
 *
 * The library is not asked who holds what. A holder writes down its claim,
 * looks at all others, and takes the claim back just before it unlocks: of two
 * that hold at once what excludes each other the second sees the first. Beside
 * that, X adds to a counter of each thing that it has, in two steps, and no
 * other holder of the thing may see it move.
 *
 * A key of two fields stands for a set of cells, a bit each; two keys overlap
 * when they share one.
 *
 * An O may be lost to a promotion, and its holder learns that when it unlocks.
 * So a claim of O that is in the way is accused, and its holder tells: if the
 * unlock finds the lock still there, both were held.
 */
#include "dice.h"
#include "env.h"

#define PLACES 6
#define SLOTS 2 /* locks that one has at once */
#define CELLS 9
#define PLAY_MS 1500
#define STUCK_MS 6000

enum { NOBODY, OWNERS = 4 };
static const char *const owners[OWNERS] = {"", "ann", "bob", "cid"};

/* --- the rules, a second time --- */

static const struct key {
    const char *name, *first, *second;
    uint32_t literal;
    unsigned cells;
} keys[] = {
    {"env", "a", "x", 0, 0001},
    {"env", "a", "y", 0, 0002},
    {"env", "b", "x", 0, 0004},
    {"env", "b", "y", 0, 0010},
    {"env", "@", "x", 1, 0020},
    {"env", "@", "y", 1, 0040},
    {"env", "a", "@", 0, 0003},
    {"env", "b", "@", 0, 0014},
    {"env", "@", "@", 1, 0060},
    {"env", "@", "x", 0, 0025},
    {"env", "@", "y", 0, 0052},
    {"env", "@", "@", 0, 0077},
    {"env", "a", NULL, 0, 0100},
    {"env", "b", NULL, 0, 0200},
    {"env", "@", NULL, 0, 0300},
    {"vne", "a", "x", 0, 0400},
    {"vne", "@", "@", 0, 0400},
};

/* Which modes stand beside each other: of two owners, of the same one. */
static const char *const together[2][2] = {
    {"SS OO", "SS EE OO"},
    {"SS SO OS OO", "SS SE SO ES EE EO OS OE OO"},
};

struct claim {
    uint16_t cells;
    uint8_t mode, owner : 4, demoted : 1, promoting : 1;
    uint32_t serial; /* life, and number of the lock */
};

union word {
    struct claim c;
    uint64_t bits;
};

static struct arena {
    uint64_t claims[PLACES * SLOTS];
    uint32_t accused[PLACES * SLOTS];
    uint32_t doomed[PLACES]; /* up to this life they are being killed */
    uint64_t value[CELLS], added[CELLS];
    uint32_t stop, violations, faults, stuck;
    uint32_t grants, beside, promoted, lost, kills;
    bool sap, one_does_not_ask;
} * arena;

static bool beside_each_other(char held, char asked, bool same)
{
    char pair[3] = {held, asked, '\0'};

    return strstr(together[arena->sap][same], pair) != NULL;
}

static char letter(unsigned mode)
{
    return "?SEXO"[mode];
}

/* The older one is the held one; which that is cannot be told. */
static bool may_be_beside(char a, char b, bool same)
{
    return beside_each_other(a, b, same) || beside_each_other(b, a, same);
}

static bool conflict(const struct claim *a, const struct claim *b)
{
    bool same = a->owner == b->owner && a->owner != NOBODY;

    if (same && (a->demoted || b->demoted))
        return false; /* one of two cumulated E's */
    if (may_be_beside(letter(a->mode), letter(b->mode), same))
        return false;
    if (a->promoting)
        return !may_be_beside('E', letter(b->mode), same);
    return !b->promoting || !may_be_beside(letter(a->mode), 'E', same);
}

/* --- claims --- */

struct lock {
    struct enq *e;
    struct enq_grant g;
    struct claim claim;
    unsigned slot;
    uint64_t seen[CELLS];
    bool asked; /* false: it acts as if it had been granted */
};

static void put(unsigned slot, struct claim claim)
{
    union word w = {.c = claim};

    __atomic_store_n(&arena->claims[slot], w.bits, __ATOMIC_SEQ_CST);
}

static struct claim claim_in(unsigned slot)
{
    union word w;

    w.bits = __atomic_load_n(&arena->claims[slot], __ATOMIC_SEQ_CST);
    return w.c;
}

static bool is_doomed(unsigned slot, const struct claim *c)
{
    uint32_t life =
        __atomic_load_n(&arena->doomed[slot / SLOTS], __ATOMIC_SEQ_CST);

    return c->serial >> 20 <= life;
}

static void violation(const struct claim *a, const struct claim *b)
{
    if (shm_add(&arena->violations, 1) > 3 || arena->one_does_not_ask)
        return;
    dprintf(1, "%c %#o of \"%s\" beside %c %#o of \"%s\"\n", letter(a->mode),
        a->cells, owners[a->owner], letter(b->mode), b->cells,
        owners[b->owner]);
}

static void accuse(unsigned slot, const struct claim *c)
{
    __atomic_store_n(&arena->accused[slot], c->serial, __ATOMIC_SEQ_CST);
}

static void look_at(struct lock *l, unsigned slot)
{
    struct claim c = claim_in(slot);

    if ((c.cells & l->claim.cells) == 0)
        return;
    if (!conflict(&c, &l->claim))
        shm_add(&arena->beside, 1);
    else if (is_doomed(slot, &c))
        return;
    else if (c.mode == ENQ_MODE_O)
        accuse(slot, &c);
    else if (l->claim.mode == ENQ_MODE_O)
        accuse(l->slot, &l->claim);
    else
        violation(&c, &l->claim);
}

static void look_around(struct lock *l)
{
    for (unsigned slot = 0; slot < PLACES * SLOTS; slot++)
        if (slot != l->slot)
            look_at(l, slot);
}

/* --- the counters --- */

static void dwell(uint64_t *dice)
{
    for (volatile uint64_t i = dice_below(dice, 1500); i > 0; i--)
        continue;
}

static void begin_with(struct lock *l)
{
    for (unsigned c = 0; c < CELLS; c++)
        l->seen[c] = __atomic_load_n(&arena->value[c], __ATOMIC_RELAXED);
}

static bool have_moved(const struct lock *l)
{
    for (unsigned c = 0; c < CELLS; c++)
        if (l->claim.cells >> c & 1 &&
            l->seen[c] != __atomic_load_n(&arena->value[c], __ATOMIC_RELAXED))
            return true;
    return false;
}

static void add_to_all(struct lock *l)
{
    for (unsigned c = 0; c < CELLS; c++) {
        if (!(l->claim.cells >> c & 1))
            continue;
        __atomic_store_n(&arena->value[c], ++l->seen[c], __ATOMIC_RELAXED);
        __atomic_add_fetch(&arena->added[c], 1, __ATOMIC_RELAXED);
    }
}

/* --- a lock --- */

static void fault(const char *what, int rc)
{
    shm_add(&arena->faults, 1);
    dprintf(1, "%s: %s (%s)\n", what, enq_result_name(rc), enq_why());
}

static bool take(struct lock *l, uint64_t *dice, int64_t wait_ms)
{
    const struct key *key = &keys[dice_below(dice, LENGTH(keys))];
    int rc = ENQ_OK;

    l->claim.mode = (uint8_t)(ENQ_MODE_S + dice_below(dice, 4));
    l->claim.owner = dice_below(dice, OWNERS) & 15;
    l->claim.demoted = l->claim.promoting = 0;
    l->claim.cells = (uint16_t)key->cells;
    l->claim.serial++;
    if (l->asked)
        rc = enq_lock(l->e,
            ENQ_REQ(.name = key->name, .key = {key->first, key->second},
                .literal = key->literal, .mode = l->claim.mode,
                .owner = owners[l->claim.owner], .ttl_ms = ENQ_FOREVER,
                .wait_ms = wait_ms),
            &l->g);
    if (rc == ENQ_TIMEDOUT)
        shm_add(&arena->stuck, 1);
    else if (rc < 0 || (rc > ENQ_TIMEDOUT && rc != ENQ_DEADLOCK))
        fault("lock", rc);
    if (rc != ENQ_OK)
        return false;
    put(l->slot, l->claim);
    shm_add(&arena->grants, 1);
    begin_with(l);
    look_around(l);
    return true;
}

static void give_back(struct lock *l)
{
    bool moved = have_moved(l), was_o = l->claim.mode == ENQ_MODE_O;
    int rc = ENQ_OK;

    look_around(l);
    if (l->claim.mode == ENQ_MODE_X)
        add_to_all(l);
    put(l->slot, (struct claim){0});
    if (l->asked)
        rc = enq_unlock(l->e, l->g.handle, l->g.token);
    if (was_o && (rc == ENQ_LOST || rc == ENQ_NOTHELD)) {
        shm_add(&arena->lost, 1);
        return;
    }
    if (rc != ENQ_OK)
        fault("unlock", rc);
    if (moved ||
        __atomic_load_n(&arena->accused[l->slot], __ATOMIC_SEQ_CST) ==
            l->claim.serial)
        violation(&l->claim, &l->claim);
}

/* False: it has been lost. */
static bool promote(struct lock *l)
{
    int rc;

    l->claim.promoting = 1;
    put(l->slot, l->claim);
    rc = enq_promote(l->e, l->g.handle, l->g.token, &l->g);
    l->claim.promoting = 0;
    if (rc == ENQ_OK) {
        l->claim.mode = ENQ_MODE_E;
        shm_add(&arena->promoted, 1);
    } else if (rc != ENQ_REFUSED) {
        put(l->slot, (struct claim){0});
        if (rc != ENQ_LOST && rc != ENQ_NOTHELD)
            fault("promote", rc);
        return false;
    }
    put(l->slot, l->claim);
    look_around(l);
    return true;
}

static void demote(struct lock *l)
{
    int rc;

    l->claim.demoted = 1;
    l->claim.mode = ENQ_MODE_S; /* others may come from now on */
    put(l->slot, l->claim);
    rc = enq_demote(l->e, l->g.handle, l->g.token);
    if (rc != ENQ_OK)
        fault("demote", rc);
}

/* False: it has been lost. */
static bool change(struct lock *l, uint64_t *dice)
{
    if (!l->asked || dice_below(dice, 4) != 0)
        return true;
    if (l->claim.mode == ENQ_MODE_O)
        return promote(l);
    if (l->claim.mode == ENQ_MODE_E || l->claim.mode == ENQ_MODE_X)
        demote(l);
    return true;
}

/* Two at once now and then; for the second it does not wait, as others may be
   waiting for the first. */
static void play_once(struct lock l[SLOTS], uint64_t *dice)
{
    bool second;

    if (!take(&l[0], dice, dice_below(dice, 3) == 0 ? 0 : STUCK_MS))
        return;
    second = dice_below(dice, 2) == 0 && take(&l[1], dice, 0);
    dwell(dice);
    if (second && change(&l[1], dice))
        give_back(&l[1]);
    if (change(&l[0], dice)) {
        dwell(dice);
        give_back(&l[0]);
    }
}

/* --- all of them --- */

static void play(unsigned place, uint32_t life)
{
    uint64_t dice = dice_of(place << 16 | life);
    struct lock l[SLOTS] = {0};
    struct enq_open_opts opts = {.size = sizeof(opts),
        .slots = 4000,
        .compat = arena->sap ? "sap" : NULL};
    struct enq *e = NULL;

    want(ENQ_OK, enq_open(&e, env_space(), &opts));
    for (unsigned i = 0; i < SLOTS; i++) {
        l[i].e = e;
        l[i].slot = place * SLOTS + i;
        l[i].claim.serial = life << 20;
        l[i].asked = !arena->one_does_not_ask || place > 0;
    }
    while (!shm_load(&arena->stop))
        play_once(l, &dice);
    enq_close(e);
}

static pid_t begin_life(unsigned place, uint32_t life)
{
    pid_t pid = fork();

    must(pid >= 0);
    if (pid != 0)
        return pid;
    play(place, life);
    _exit(0);
}

static void kill_one(pid_t *pids, uint32_t *lives, unsigned place)
{
    __atomic_store_n(&arena->doomed[place], lives[place], __ATOMIC_SEQ_CST);
    env_kill(pids[place]);
    shm_add(&arena->kills, 1);
    for (unsigned i = 0; i < SLOTS; i++)
        put(place * SLOTS + i, (struct claim){0});
    pids[place] = begin_life(place, ++lives[place]);
}

/* What must have been seen: on a machine that does something else that takes
   longer. */
enum {
    GRANTS = 5000,
    BESIDE = 20,
    KILLS = 50,
    VIOLATIONS = 20,
};

static bool enough(bool kills)
{
    if (shm_load(&arena->faults) > 0 || shm_load(&arena->stuck) > 0)
        return true;
    if (arena->one_does_not_ask)
        return shm_load(&arena->violations) > VIOLATIONS;
    return shm_load(&arena->violations) > 0 ||
        (shm_load(&arena->grants) > GRANTS &&
            shm_load(&arena->beside) > BESIDE &&
            shm_load(&arena->promoted) > 0 && shm_load(&arena->lost) > 0 &&
            (!kills || shm_load(&arena->kills) > KILLS));
}

static void play_all(bool kills)
{
    uint64_t dice = dice_of(77);
    double end = env_ms() + PLAY_MS;
    uint32_t lives[PLACES];
    pid_t pids[PLACES];

    for (unsigned p = 0; p < PLACES; p++)
        pids[p] = begin_life(p, lives[p] = 1);
    while (env_ms() < end || !enough(kills)) {
        env_nap((double)dice_below(&dice, kills ? 6 : 20));
        if (kills)
            kill_one(pids, lives, (unsigned)dice_below(&dice, PLACES));
    }
    shm_store(&arena->stop, 1);
    for (unsigned p = 0; p < PLACES; p++)
        env_join(pids[p]);
}

static void begin_arena(void)
{
    arena = env_shared(sizeof(*arena));
}

static void expect_exclusion(void)
{
    env_say("%u grants, %u beside others, %u promoted, %u lost; %u killed; "
            "%u violations",
        arena->grants, arena->beside, arena->promoted, arena->lost,
        arena->kills, arena->violations);
    must(arena->violations == 0 && arena->faults == 0 && arena->stuck == 0);
    must(arena->grants > GRANTS && arena->beside > BESIDE);
    must(arena->promoted > 0 && arena->lost > 0);
}

static void exclude_by_the_table(bool sap)
{
    begin_arena();
    arena->sap = sap;
    play_all(false);
    for (unsigned c = 0; c < CELLS; c++)
        must(arena->added[c] > 0 && arena->value[c] == arena->added[c]);
    expect_exclusion();
}

static void by_the_table(void)
{
    exclude_by_the_table(false);
    env_figure("promise-exclusion-grants", arena->grants);
}

static void by_the_table_of_sap(void)
{
    exclude_by_the_table(true);
}

static void while_they_are_killed(void)
{
    begin_arena();
    play_all(true);
    must(arena->kills > KILLS);
    expect_exclusion();
    env_healthy(env_open());
}

static void who_does_not_ask(void)
{
    begin_arena();
    arena->one_does_not_ask = true;
    play_all(false);
    env_say("%u violations, as one does not ask", arena->violations);
    must(arena->violations > VIOLATIONS);
}

const struct env_case exclude_cases[] = {
    {"P2: what excludes each other is never held at once", by_the_table, true},
    {"P2: nor is it by SAP's table of modes", by_the_table_of_sap, true},
    {"P2: nor is it while the holders are killed", while_they_are_killed, true},
    {"P2: who does not ask is found out by these very tests", who_does_not_ask,
        true},
    {0},
};
