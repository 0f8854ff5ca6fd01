/*
 * goals.c - what libenq is meant to reach, and whether it did in this run. A
 * goal is a figure of ours, or its ratio to another figure of the same run.
 * A missed goal is shown; it does not fail the run.
 */
#include "harness/bench.h"

enum measure {
    RATE,
    EACH, /* ns for one operation */
    P50,
    WORST,
    FAIR,
    LONGEST,
    LONGEST_USUAL, /* the median of the rounds */
    COST,          /* ns of one operation, as the scales show it */
    TIMES_BASE,    /* time, compared with the base's */
    BYTES,
};

struct goal {
    const char *text;
    enum measure measure;
    struct which of, per; /* per nothing: the figure itself */
    bool at_least;
    double limit;
    const char *unit;
};

#define ENQ(name, ...)                                                         \
    {                                                                          \
        .scenario = name, .subject = "enq", __VA_ARGS__                        \
    }
#define PEER(name, peer, ...)                                                  \
    {                                                                          \
        .scenario = name, .subject = peer, __VA_ARGS__                         \
    }

static const struct goal goals[] = {
    {"1 process, one key: against Berkeley DB", RATE, ENQ("pair"),
        PEER("pair", "bdb"), true, 3, "x"},
    {"1 process, one key: time of a robust mutex's", EACH, ENQ("pair"),
        PEER("pair", "robust-mutex"), false, 5, "x"},
    {"1 process, one key: a pair", EACH, ENQ("pair"), {0}, false, 50, "ns"},
    {"on top of one's own: against Berkeley DB", RATE, ENQ("cumulate"),
        PEER("cumulate", "bdb"), true, 3, "x"},
    {"on top of one's own: time of a robust mutex's pair", EACH,
        ENQ("cumulate"), PEER("pair", "robust-mutex"), false, 5, "x"},
    {"on top of one's own: a pair", EACH, ENQ("cumulate"), {0}, false, 50,
        "ns"},
    {"100,000 held: against Berkeley DB", RATE, ENQ("random", .held = 100000),
        PEER("random", "bdb", .held = 100000), true, 2, "x"},
    {"1,000,000 held: a pair", EACH, ENQ("random", .held = 1000000), {0}, false,
        250, "ns"},
    {"1,000,000 held: time with 100,000", EACH, ENQ("random", .held = 1000000),
        ENQ("random", .held = 100000), false, 2.5, "x"},
    {"2 processes, keys of one name: against 1 process", RATE,
        ENQ("distinct", .procs = 2), ENQ("distinct", .procs = 1), true, 1.8,
        "x"},
    {"2 processes, keys of one name: against Berkeley DB", RATE,
        ENQ("distinct", .procs = 2), PEER("distinct", "bdb", .procs = 2), true,
        6, "x"},
    {"2 processes, S on one key: against Berkeley DB", RATE,
        ENQ("shared", .procs = 2), PEER("shared", "bdb", .procs = 2), true, 2,
        "x"},
    {"2 processes, one key: against Berkeley DB", RATE, ENQ("one", .procs = 2),
        PEER("one", "bdb", .procs = 2), true, 20, "x"},
    {"16 processes, one key: against Berkeley DB", RATE,
        ENQ("one", .procs = 16), PEER("one", "bdb", .procs = 16), true, 10,
        "x"},
    {"2 processes, one key: fewest / most grants", FAIR, ENQ("one", .procs = 2),
        {0}, true, 0.8, ""},
    {"16 processes, one key: fewest / most grants", FAIR,
        ENQ("one", .procs = 16), {0}, true, 0.8, ""},
    {"2 processes, one key: longest wait", LONGEST, ENQ("one", .procs = 2), {0},
        false, 5e6, "ns"},
    {"16 processes, one key: longest wait", LONGEST, ENQ("one", .procs = 16),
        {0}, false, 5e6, "ns"},
    {"refused: time of a grant's", TIMES_BASE, ENQ("busy"), {0}, false, 1.5,
        "x"},
    {"enq_valid", EACH, ENQ("valid"), {0}, false, 2, "ns"},
    {"an '@' lock elsewhere: time of a pair without", TIMES_BASE,
        ENQ("generic"), {0}, false, 3, "x"},
    {"an '@' lock of another name: time without", TIMES_BASE,
        ENQ("generic-apart"), {0}, false, 1.1, "x"},
    {"'@' request over 10,000 locks", EACH, ENQ("wide", .held = 10000), {0},
        false, 2e6, "ns"},
    {"'@' request: 100,000 against 10,000 locks", EACH,
        ENQ("wide", .held = 100000), ENQ("wide", .held = 10000), false, 15,
        "x"},
    {"list 100,000 locks", EACH, ENQ("list", .held = 100000), {0}, false, 50e6,
        "ns"},
    {"list 100,000 locks: longest stop of a locker", LONGEST_USUAL,
        ENQ("list", .held = 100000), {0}, false, 1e6, "ns"},
    {"list 100,000 of one name", EACH, ENQ("list-name", .held = 100000), {0},
        false, 50e6, "ns"},
    {"list 100,000 of one name: longest stop", LONGEST_USUAL,
        ENQ("list-name", .held = 100000), {0}, false, 1e6, "ns"},
    {"8 locks as a set: time of 8 pairs", TIMES_BASE, ENQ("set"), {0}, false, 1,
        "x"},
    {"the same, random keys, 100,000 held", TIMES_BASE,
        ENQ("set-random", .held = 100000), {0}, false, 1, "x"},
    {"memory for each lock", BYTES, ENQ("memory", .held = 100000), {0}, false,
        256, "bytes"},
    {"attach to an empty space", P50, ENQ("attach"), {0}, false, 1e6, "ns"},
    {"memory of an empty space", BYTES, ENQ("attach"), {0}, false, 1048576,
        "bytes"},
    {"holder killed: median until the waiter has it", P50,
        ENQ("death", .held = 1), {0}, false, 150e3, "ns"},
    {"the same, it held 100,000", P50, ENQ("death", .held = 100000), {0}, false,
        150e3, "ns"},
    {"holder killed: worst", WORST, ENQ("death", .held = 1), {0}, false, 50e6,
        "ns"},
    {"the same, it held 100,000", WORST, ENQ("death", .held = 100000), {0},
        false, 50e6, "ns"},
    {"TCP, 16 connections, depth 1: Redis, SET + DEL", RATE,
        ENQ("remote", .count = 16), PEER("remote", "redis-del", .count = 16),
        true, 1.1, "x"},
    {"TCP, 16 connections, depth 1: Redis, a safe release", RATE,
        ENQ("remote", .count = 16), PEER("remote", "redis", .count = 16), true,
        1.4, "x"},
    {"TCP, 16 connections, depth 16: Redis, SET + DEL", RATE,
        ENQ("remote-deep", .count = 16),
        PEER("remote-deep", "redis-del", .count = 16), true, 1.7, "x"},
    {"TCP, 16 connections, depth 16: Redis, a safe release", RATE,
        ENQ("remote-deep", .count = 16),
        PEER("remote-deep", "redis", .count = 16), true, 2.5, "x"},
    {"TCP, 64 connections, depth 1: Redis, SET + DEL", RATE,
        ENQ("remote", .count = 64), PEER("remote", "redis-del", .count = 64),
        true, 1.1, "x"},
    {"TCP, 64 connections, depth 1: Redis, a safe release", RATE,
        ENQ("remote", .count = 64), PEER("remote", "redis", .count = 64), true,
        1.4, "x"},
    {"TCP, 64 connections, depth 16: Redis, SET + DEL", RATE,
        ENQ("remote-deep", .count = 64),
        PEER("remote-deep", "redis-del", .count = 64), true, 1.7, "x"},
    {"TCP, 64 connections, depth 16: Redis, a safe release", RATE,
        ENQ("remote-deep", .count = 64),
        PEER("remote-deep", "redis", .count = 64), true, 2.5, "x"},
    {"unix socket, 16 connections, depth 1: Redis, SET + DEL", RATE,
        ENQ("remote-unix", .count = 16),
        PEER("remote-unix", "redis-del", .count = 16), true, 1.1, "x"},
    {"unix socket, 16 connections, depth 1: Redis, a safe release", RATE,
        ENQ("remote-unix", .count = 16),
        PEER("remote-unix", "redis", .count = 16), true, 1.4, "x"},
    {"unix socket, 16 connections, depth 16: Redis, SET + DEL", RATE,
        ENQ("remote-unix-deep", .count = 16),
        PEER("remote-unix-deep", "redis-del", .count = 16), true, 1.7, "x"},
    {"unix socket, 16 connections, depth 16: Redis, a safe release", RATE,
        ENQ("remote-unix-deep", .count = 16),
        PEER("remote-unix-deep", "redis", .count = 16), true, 2.5, "x"},
    {"unix socket, 64 connections, depth 1: Redis, SET + DEL", RATE,
        ENQ("remote-unix", .count = 64),
        PEER("remote-unix", "redis-del", .count = 64), true, 1.1, "x"},
    {"unix socket, 64 connections, depth 1: Redis, a safe release", RATE,
        ENQ("remote-unix", .count = 64),
        PEER("remote-unix", "redis", .count = 64), true, 1.4, "x"},
    {"unix socket, 64 connections, depth 16: Redis, SET + DEL", RATE,
        ENQ("remote-unix-deep", .count = 64),
        PEER("remote-unix-deep", "redis-del", .count = 64), true, 1.7, "x"},
    {"unix socket, 64 connections, depth 16: Redis, a safe release", RATE,
        ENQ("remote-unix-deep", .count = 64),
        PEER("remote-unix-deep", "redis", .count = 64), true, 2.5, "x"},
    {"1,000 threads wait: a hand-over with 10", COST,
        ENQ("scale-waiters", .count = 1000), ENQ("scale-waiters", .count = 10),
        false, 1.5, "x"},
    {"10,000 threads wait: a hand-over with 10", COST,
        ENQ("scale-waiters", .count = 10000), ENQ("scale-waiters", .count = 10),
        false, 1.5, "x"},
    {"the same, nobody overtakes", COST,
        PEER("scale-waiters", "enq-strict", .count = 10000),
        PEER("scale-waiters", "enq-strict", .count = 10), false, 1.5, "x"},
    {"10,000 started requests wait: one with 10", COST,
        ENQ("scale-started", .count = 10000), ENQ("scale-started", .count = 10),
        false, 2, "x"},
    {"10,000 others hold S: an S pair with 10", COST,
        ENQ("scale-holders", .count = 10000), ENQ("scale-holders", .count = 10),
        false, 2, "x"},
    {"on top of 10,000 of one's own: on top of 10", COST,
        ENQ("scale-cumulated", .count = 10000),
        ENQ("scale-cumulated", .count = 10), false, 2, "x"},
    {"a deadlock, 10,000 wait", COST, ENQ("scale-search", .count = 10000), {0},
        false, 1e6, "ns"},
    {"'@' over 1,000,000 of its name", COST, ENQ("scale-wide", .held = 1000000),
        {0}, false, 60e6, "ns"},
    {"'@' beside 1,000,000 of other names", COST,
        ENQ("scale-wide-apart", .held = 1000000), {0}, false, 3e6, "ns"},
    {"an id of one's own, 1,000,000 held: without", TIMES_BASE,
        ENQ("scale-ids", .held = 1000000), {0}, false, 1.5, "x"},
    {"120 processes, keys of their own: 2 processes", RATE,
        ENQ("scale-procs", .procs = 120), ENQ("scale-procs", .procs = 2), true,
        0.9, "x"},
    {"500 processes, keys of their own: 2 processes", RATE,
        ENQ("scale-procs", .procs = 500), ENQ("scale-procs", .procs = 2), true,
        0.9, "x"},
    {"2,048 processes, keys of their own: 2 processes", RATE,
        ENQ("scale-procs", .procs = 2048), ENQ("scale-procs", .procs = 2), true,
        0.9, "x"},
    {"500 processes, keys of their own: Berkeley DB", RATE,
        ENQ("scale-procs", .procs = 500),
        PEER("scale-procs", "bdb", .procs = 500), true, 3, "x"},
    {"refused by a full table of 1,000,000", COST,
        ENQ("scale-full", .held = 1000000), {0}, false, 20e3, "ns"},
    {"npm's client, 16 at once: what enqueue-server claims", RATE,
        ENQ("remote-npm"), PEER("remote-npm", "enqueue-server"), true, 1, "x"},
    {"our client, TCP: time of the bare round trips", TIMES_BASE,
        ENQ("remote-client"), {0}, false, 1.1, "x"},
};

unsigned goals_count(void)
{
    return sizeof(goals) / sizeof(goals[0]);
}

/* 0: it has none. */
static double figure(const struct result *r, enum measure m)
{
    switch (m) {
    case RATE:
        return r->rate;
    case EACH:
        return r->rate > 0 ? 1e9 / r->rate : 0;
    case P50:
        return r->p50;
    case WORST:
        return r->worst;
    case FAIR:
        return r->fairness;
    case LONGEST:
        return r->longest_worst;
    case LONGEST_USUAL:
        return r->longest;
    case COST:
        return result_cost(r);
    case TIMES_BASE:
        return r->rate > 0 ? r->base_rate / r->rate : 0;
    case BYTES:
        return r->bytes;
    }
    return 0;
}

/* Whose figure of the goal's two it is that this run has not, or NULL. */
static const char *missing(const struct goal *g)
{
    if (result_find(&g->of) == NULL)
        return g->of.subject;
    if (g->per.scenario != NULL && result_find(&g->per) == NULL)
        return g->per.subject;
    return NULL;
}

struct verdict goal_judge(unsigned index)
{
    const struct goal *g = &goals[index];
    struct verdict v = {.scenario = g->of.scenario,
        .text = g->text,
        .unit = g->unit,
        .limit = g->limit,
        .at_least = g->at_least,
        .ours = result_find(&g->of) != NULL,
        .missing = missing(g)};

    if (v.missing != NULL)
        return v;
    double per =
        g->per.scenario == NULL ? 1 : figure(result_find(&g->per), g->measure);
    v.value = per > 0 ? figure(result_find(&g->of), g->measure) / per : 0;
    v.met =
        per > 0 && (g->at_least ? v.value >= g->limit : v.value <= g->limit);
    return v;
}
