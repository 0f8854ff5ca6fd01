/*
 * rest.c - at rest: is the table sound, and is nothing left over?
 */
#include <string.h>

#include "api/audit.h"
#include "recovery/check.h"
#include "sim/sim.h"
#include "store/page.h"
#include "store/walk.h"

/* In place of the library's own: once, at the end, is enough. */
int audit(struct enq *e, struct thread *t, int rc)
{
    (void)e, (void)t;
    return rc;
}

void rest_check(struct thread *t)
{
    char text[400] = "";
    struct check_report report = {text, sizeof(text), 0, 0};
    size_t bytes = sim.bytes;
    int rc;

    memory_drain(sim.me);
    sim.bytes = 0; /* nobody is left to interfere: these are no steps */
    rc = check_table(sim.map, t, &report);
    sim.bytes = bytes;
    if (rc != 0)
        sim_fail("the table check says %s", enq_result_name(rc));
    else if (report.findings > 0)
        sim_fail("%u findings: %s", report.findings, text);
    if (oracle_live() > 0)
        sim_fail("%u entries are left", oracle_live());
}

static void want_zero(uint64_t value, const char *what, uint32_t of)
{
    if (value != 0)
        sim_fail("%s of %u is %llu at rest", what, of,
            (unsigned long long)value);
}

static bool check_bucket(void *context, uint32_t shard, struct bucket *bucket)
{
    (void)context;
    want_zero(bucket->latch, "bucket latch", shard);
    want_zero(bucket->more, "spilled", shard);
    for (unsigned i = 0; i < BUCKET_SLOTS; i++)
        want_zero(bucket->tag[i], "slot", shard);
    return true;
}

static void check_words(const struct map *map)
{
    for (uint32_t i = 0; i < GATES; i++) {
        want_zero(map->gates[i].latch, "gate latch", i);
        /* a list that died may have left its mark */
        want_zero(map->gates[i].raised & GATE_COUNT, "raised", i);
        want_zero(map->gates[i].head, "gate head", i);
        want_zero(map->gates[i].n_waiting, "gate n_waiting", i);
    }
    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        want_zero(map->shards[i].latch, "shard latch", i);
        map_each_bucket(map, i, check_bucket, NULL);
    }
    want_zero(map->h->grow_latch, "grow latch", 0);
    want_zero(map->h->recovery_latch, "recovery latch", 0);
    if (sim.deaths > 0) /* a death beside them leaves one too many */
        return;
    want_zero(map->h->listeners, "listeners", 0);
    want_zero(map->h->owners_untold, "waiting owners", 0);
    for (uint32_t i = 0; i < OWNER_WORDS; i++)
        want_zero(map->owners[i], "waiting owners", i);
}

static void check_slots(const struct map *map)
{
    for (uint32_t i = 0; i < map->h->threads_high; i++) {
        want_zero(map->threads[i].ref, "thread slot", i);
        want_zero(map->threads[i].set, "journal of slot", i);
    }
    for (uint32_t i = 0; i < map->h->sessions_high; i++)
        want_zero(map->sessions[i].ref, "session slot", i);
}

static bool check_free(void *context, struct entry *e, uint64_t state)
{
    unsigned phase = STATE_PHASE(state);

    if (phase != PHASE_FREE && phase != PHASE_GONE)
        sim_fail("entry %u is leaked in phase %u", map_ref(context, e), phase);
    return !sim.failed;
}

void rest_check_empty(void)
{
    struct map *map = sim.map;

    check_words(map);
    check_slots(map);
    for (uint32_t i = 0; i < map->h->pages_used; i++)
        if (map->pages[i].kind == PAGE_SMALL ||
            map->pages[i].kind == PAGE_LARGE)
            want_zero(map->pages[i].owner, "owner of page", i);
    slab_each(map, check_free, map);
}
