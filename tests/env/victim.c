/*
 * victim.c - makes every call there is, until it is killed (see victim.h).
 */
#include "victim.h"

#include <fcntl.h>

#include "base/point.h"
#include "dice.h"

struct scene *scene;

static const char *const call_names[] = {
#define X(name) #name,
    CALLS(X)
#undef X
};

void victim_fault(const char *what, int rc)
{
    if (shm_add(&scene->faults, 1) <= 3)
        dprintf(1, "%s: %s (%s)\n", what, enq_result_name(rc), enq_why());
}

static struct victim {
    unsigned place;
    enum call last; /* the call to die in */
    bool by_itself;
    uint64_t stores;  /* in it, after so many of them */
    uint64_t repairs; /* after so many stores of a repair */
    uint64_t dice;
    struct enq *e;
    int null; /* /dev/null */
} me;

bool victim_repairs(const struct point *p)
{
    static const char *const places[] = {
        "recover.", "noted.c:", "mend.c:", "reap.c:"};

    for (size_t i = 0; i < LENGTH(places); i++)
        if (strncmp(p->name, places[i], strlen(places[i])) == 0)
            return true;
    return false;
}

/* Two counts, each down to 0 once. */
static bool is_time(bool repairs, uint32_t inside)
{
    if (repairs && me.repairs-- == 0)
        return true;
    return me.by_itself && inside == me.last + 1u && me.stores-- == 0;
}

static void die_here(const struct point *p)
{
    uint32_t inside =
        __atomic_load_n(&scene->inside[me.place], __ATOMIC_RELAXED);
    bool repairs = victim_repairs(p);

    if (inside == 0 || !is_time(repairs, inside))
        return;
    __atomic_store_n(&scene->at_repair[me.place], repairs, __ATOMIC_RELAXED);
    kill(getpid(), SIGKILL);
}

static void enter(enum call call)
{
    __atomic_store_n(&scene->inside[me.place], call + 1, __ATOMIC_RELAXED);
}

static void leave(enum call call, int rc)
{
    __atomic_store_n(&scene->inside[me.place], 0, __ATOMIC_RELAXED);
    if (rc < 0)
        victim_fault(call_names[call], rc);
}

/* A victim that only looks stores nothing, and is quick: it looks until it is
   killed. */
static bool again(enum call call)
{
    return call == me.last && !me.by_itself &&
        (call == TEST || call == VALID || call == FIND || call == ID ||
            call >= LIST);
}

#define IN(call, what)                                                         \
    __extension__({                                                            \
        int rc_;                                                               \
        do {                                                                   \
            enter(call);                                                       \
            rc_ = (what);                                                      \
            leave(call, rc_);                                                  \
        } while (again(call));                                                 \
        rc_;                                                                   \
    })

static void open_and_close(void)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4000};

    if (me.e != NULL) {
        enter(CLOSE);
        enq_close(me.e);
        leave(CLOSE, 0);
    }
    IN(OPEN, enq_open(&me.e, env_space(), &opts));
}

static int take(enum call call, const char *field, enum enq_mode mode,
    int64_t wait_ms, struct enq_grant *g)
{
    return IN(call,
        enq_lock(me.e,
            ENQ_REQ(.name = "env", .key = {field}, .mode = mode,
                .ttl_ms = ENQ_FOREVER, .wait_ms = wait_ms,
                .flags = call == TEST ? ENQ_TEST : 0),
            g));
}

static void give(const struct enq_grant *g)
{
    IN(UNLOCK, enq_unlock(me.e, g->handle, g->token));
}

static const char *some_field(void)
{
    static const char *const fields[] = {"a", "b", "c"};

    return fields[dice_below(&me.dice, LENGTH(fields))];
}

static void locks(void)
{
    struct enq_grant g;

    if (take(LOCK, some_field(), ENQ_MODE_X, 0, &g) == ENQ_OK)
        give(&g);
    if (take(LOCK_WAIT, some_field(), ENQ_MODE_X, WAIT_MS, &g) == ENQ_OK)
        give(&g);
    if (take(LOCK_GENERIC, "@", ENQ_MODE_S, WAIT_MS, &g) == ENQ_OK)
        give(&g);
    take(TEST, some_field(), ENQ_MODE_E, 0, &g);
}

static void changes(void)
{
    char id[ENQ_ID_BYTES];
    enq_handle handle;
    struct enq_grant g;

    if (take(LOCK_WAIT, some_field(), ENQ_MODE_E, WAIT_MS, &g) == ENQ_OK) {
        IN(RENEW, enq_renew(me.e, g.handle, g.token, 0));
        IN(VALID, enq_valid(me.e, g.handle));
        if (IN(ID, enq_id(me.e, g.handle, id)) == ENQ_OK)
            IN(FIND, enq_find(me.e, id, &handle));
        IN(DEMOTE, enq_demote(me.e, g.handle, g.token));
        give(&g);
    }
    if (take(LOCK_WAIT, some_field(), ENQ_MODE_O, WAIT_MS, &g) == ENQ_OK) {
        IN(PROMOTE, enq_promote(me.e, g.handle, g.token, &g));
        IN(UNLOCK, enq_unlock(me.e, g.handle, 0));
    }
}

/* What outlives its process has an object of its own, where nobody waits. */
static void kept(void)
{
    char field[8], id[16];
    struct enq_grant g = {0};
    int rc;

    snprintf(field, sizeof(field), "%d", (int)dice_below(&me.dice, VICTIMS));
    snprintf(id, sizeof(id), "kept-%s", field);
    rc = IN(LOCK_WITH_ID,
        enq_lock(me.e,
            ENQ_REQ(.name = "kept", .key = {field}, .mode = ENQ_MODE_X,
                .id = id, .on_death = ENQ_DEATH_KEEP),
            &g));
    if (rc == ENQ_EXISTS)
        rc = IN(ADOPT, enq_adopt(me.e, id, &g));
    if (rc == ENQ_OK && dice_below(&me.dice, 2) == 0)
        give(&g);
    else if (rc == ENQ_OK)
        IN(BREAK, enq_break(me.e, id));
}

static void looks(void)
{
    static char report[4000];
    struct enq_info info[10];
    struct enq_stats s = {.size = sizeof(s)};

    IN(LIST, enq_list(me.e, "env", NULL, info, LENGTH(info), NULL));
    IN(STAT, enq_stat(me.e, &s));
    IN(DOCTOR, enq_doctor(me.e, 0, report, sizeof(report)));
    IN(REPAIR, enq_doctor(me.e, ENQ_DOCTOR_FIX, report, sizeof(report)));
    IN(DUMP, enq_dump(me.e, me.null));
}

static void (*const groups[])(void) = {
    open_and_close, locks, changes, kept, looks};
#define N_GROUPS LENGTH(groups)

/* Most of the time each makes the calls around the one to die in. */
static size_t group_of(enum call call)
{
    if (call <= CLOSE)
        return 0;
    if (call <= TEST)
        return call == LOCK_WITH_ID ? 3 : 1;
    if (call <= ID)
        return 2;
    return call <= BREAK ? 3 : 4;
}

void victim_live(unsigned place, uint32_t life)
{
    uint64_t dice = dice_of((uint64_t)place << 24 | life);

    me = (struct victim){.place = place,
        .last = (enum call)(life % N_CALLS),
        .by_itself = DIES_BY_ITSELF(life),
        .stores = dice_below(&dice, life % N_CALLS == REPAIR ? 3000 : 30),
        .repairs =
            dice_below(&dice, 8) == 0 ? dice_below(&dice, 100) : UINT64_MAX,
        .dice = dice,
        .null = open("/dev/null", O_WRONLY | O_CLOEXEC)};
    point_hook = die_here;
    open_and_close();
    for (;;)
        groups[dice_below(&me.dice, 4) > 0 ? group_of(me.last)
                                           : dice_below(&me.dice, N_GROUPS)]();
}
