/*
 * tell.c - floor 4: copies of entries for callers.
 */
#include "table/tell.h"

#include <string.h>
#include <time.h>

#include "sync/life.h"
#include "table/ids.h"

static int64_t ttl_left_ms(const struct entry *e, mono_t now)
{
    mono_t deadline = {shm_load(&e->deadline_ns)};
    int64_t left;

    if (mono_is_never(deadline))
        return ENQ_FOREVER;
    left = mono_ms_between(now, deadline);
    /* the coarse clock's margin is no part of what he asked for */
    if (left > e->ttl_ms && left <= e->ttl_ms + sys_coarse_lag_ns / NS_PER_MS)
        left = e->ttl_ms;
    return left > 0 ? left : 0;
}

void tell_blocker(struct scope *s, const struct entry *e, uint32_t queue,
    struct enq_blocker *out)
{
    uint64_t state;
    struct ask ask;

    out->owner[0] = out->id[0] = '\0';
    if (e == NULL || !entry_ask(s->map, e, &ask))
        return;
    state = shm_load(&e->state);
    memcpy(out->owner, ask.owner, ask.owner_bytes);
    ids_text(s->map, e, state, out->id);
    out->pid = session_is_dead(s->map, e->session) ? 0 : (int32_t)e->pid;
    out->mode = (uint8_t)STATE_MODE(state);
    out->waiting = STATE_PHASE(state) == PHASE_WAITING;
    out->age_ms = mono_ms_between((mono_t){e->since_ns}, scope_clock(s));
    out->ttl_left_ms = ttl_left_ms(e, scope_clock(s));
    out->queue = queue;
}

struct tell_clocks tell_clocks(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (struct tell_clocks){
        sys.now(), ts.tv_sec * 1000 + ts.tv_nsec / 1000000};
}

static bool copy_texts(const struct map *map, const struct entry *e,
    uint64_t state, struct enq_info *out)
{
    struct ask ask;

    if (!entry_ask(map, e, &ask) || ask.key.name_bytes > ENQ_NAME_BYTES ||
        ask.key.field_bytes > ENQ_KEY_BYTES)
        return false;
    memcpy(out->name, ask.key.bytes, ask.key.name_bytes);
    memcpy(out->key, ask.key.bytes + ask.key.name_bytes, ask.key.field_bytes);
    memcpy(out->owner, ask.owner, ask.owner_bytes);
    out->fields = ask.key.fields;
    /* a concrete "@" means itself, however it was asked for */
    out->literal = ask.key.literal;
    ids_text(map, e, state, out->id);
    out->name[ENQ_NAME_BYTES - 1] = out->owner[ENQ_OWNER_BYTES - 1] = '\0';
    out->key[ENQ_KEY_BYTES - 1] = out->id[ENQ_ID_BYTES - 1] = '\0';
    return true;
}

static void copy_numbers(const struct map *map, const struct entry *e,
    uint64_t state, const struct tell_clocks *clocks, struct enq_info *out)
{
    bool dead = session_is_dead(map, e->session);

    out->handle =
        (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS | map_ref(map, e);
    out->token = shm_load(&e->token);
    out->mode = (uint8_t)STATE_MODE(state);
    out->waiting = STATE_PHASE(state) == PHASE_WAITING;
    out->orphaned = dead && !out->waiting;
    out->on_death = e->on_death;
    out->pid = dead ? 0 : (int32_t)e->pid;
    out->age_ms = mono_ms_between((mono_t){e->since_ns}, clocks->now);
    if (out->age_ms < 0)
        out->age_ms = 0;
    out->granted_ms = out->waiting ? 0 : clocks->wall_ms - out->age_ms;
    out->ttl_ms = e->ttl_ms < 0 ? ENQ_FOREVER : e->ttl_ms;
    out->ttl_left_ms = ttl_left_ms(e, clocks->now);
}

bool tell_info(const struct map *map, const struct entry *e, uint64_t state,
    const struct tell_clocks *clocks, struct enq_info *out)
{
    if (shm_load_acquire(&e->state) != state ||
        !mode_known(STATE_MODE(state)) || !copy_texts(map, e, state, out))
        return false;
    copy_numbers(map, e, state, clocks, out);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return shm_load(&e->state) == state;
}

bool tell_matches(const struct map *map, const struct entry *e,
    const char *name, const char *owner, mono_t now)
{
    struct ask ask;

    return entry_ask(map, e, &ask) && entry_over(map, e, now) == ENQ_OK &&
        (name == NULL || strcmp(ask.key.bytes, name) == 0) &&
        (owner == NULL || strcmp(ask.owner, owner) == 0);
}
