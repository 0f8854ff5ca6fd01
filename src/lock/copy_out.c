/*
 * copy_out.c - lock: copies of entries for callers (see copy_out.h).
 *
 * Most of this is done without a latch, or under latches that do not guard the
 * entry: request_same_id() tells of a lock of any key, and holds the latch of
 * its id. So each length is checked against what there is room for, each text
 * gets its end again after it was copied, and whether the copy is of one use of
 * the entry is asked afterwards.
 */
#include "lock/copy_out.h"

#include <string.h>
#include <time.h>

#include "base/bytes.h"
#include "base/point.h"
#include "lock/ids.h"
#include "sync/life.h"

/* The same word is a waiter's end of its bypass window, and no deadline. */
static int64_t ttl_left_ms(const struct entry *e, mono_t now)
{
    mono_t deadline = {shm_load(&e->deadline_ns)};
    int64_t left;

    if (mono_is_never(deadline) || entry_is(e, PHASE_WAITING))
        return ENQ_FOREVER;
    left = mono_ms_between(now, deadline);
    /* what was added for the coarse clock was not asked for */
    if (left > e->ttl_ms && left - sys_coarse_lag_ns / NS_PER_MS <= e->ttl_ms)
        left = e->ttl_ms;
    return left > 0 ? left : 0;
}

/* R12: the answer says whether the blocker's process is dying. Whether it is
   over is proved by system calls, and here latches are held: so the session is
   noted, and request_is_free_now() looks for the proof. So is one that somebody
   has proved over since its lock was found to be in the way: it is not any more,
   unless it outlives its session. A dead waiter needs no proof: the next scan
   drops it (R21). */
static __attribute__((noinline)) void tell_dead(struct scope *s,
    const struct entry *e, struct enq_blocker *out)
{
    session_ref_t ref = shm_load(&e->session);

    enq_assert(scope_is_entered(s));
    out->dying = !session_is_over(s->map, ref);
    if (!out->dying)
        out->pid = 0;
    if (entry_is(e, PHASE_HELD) &&
        (out->dying || entry_over(s->map, e, scope_clock(s)) != ENQ_OK))
        s->dying = ref;
}

void copy_blocker(struct scope *s, const struct entry *e, uint32_t queue,
    struct enq_blocker *out)
{
    mono_t now = scope_time(s);
    const char *owner;
    uint64_t state;
    size_t n;

    enq_assert(scope_is_entered(s));
    out->owner[0] = out->id[0] = '\0';
    owner = e == NULL ? NULL : entry_owner(s->map, e, &n);
    if (owner == NULL)
        return;
    state = shm_load(&e->state);
    bytes_copy(out->owner, owner, n);
    out->owner[n - 1] = '\0'; /* another process may have written it away */
    ids_text(s->map, e, state, out->id);
    out->pid = (int32_t)e->pid;
    out->dying = false;
    if (unlikely(session_is_dead(s->map, e->session)))
        tell_dead(s, e, out);
    out->mode = (uint8_t)STATE_MODE(state);
    out->waiting = STATE_PHASE(state) == PHASE_WAITING;
    out->age_ms = mono_ms_between((mono_t){e->since_ns}, now);
    if (out->age_ms < 0) /* by a coarser clock */
        out->age_ms = 0;
    out->ttl_left_ms = ttl_left_ms(e, now);
    out->queue = queue;
}

struct copy_clocks copy_clocks(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (struct copy_clocks){
        sys.now(), ts.tv_sec * 1000 + ts.tv_nsec / 1000000};
}

/* entry_ask() has checked all lengths. The zeros are stored once more, as the
   bytes may have changed behind the check, where no latch is held. */
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
    out->peer[0] = '\0';
    memcpy(out->peer, ask.peer, ask.peer_bytes);
    out->name[ENQ_NAME_BYTES - 1] = out->owner[ENQ_OWNER_BYTES - 1] = '\0';
    out->key[ENQ_KEY_BYTES - 1] = out->id[ENQ_ID_BYTES - 1] = '\0';
    out->peer[ENQ_PEER_BYTES - 1] = '\0';
    return true;
}

static void copy_numbers(const struct map *map, const struct entry *e,
    uint64_t state, const struct copy_clocks *clocks, struct enq_info *out)
{
    bool over = session_is_over(map, e->session);

    out->handle =
        (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS | map_ref(map, e);
    out->mode = (uint8_t)STATE_MODE(state);
    out->waiting = STATE_PHASE(state) == PHASE_WAITING;
    out->token = out->waiting ? 0 : shm_load(&e->token);
    out->orphaned = over && !out->waiting;
    out->dying = !over && session_is_dead(map, e->session);
    out->on_death = (uint8_t)ENTRY_DEATH(e->on_death);
    out->heir = out->waiting ? 0 : entry_heir(e);
    out->pid = over ? 0 : (int32_t)e->pid;
    out->age_ms = mono_ms_between((mono_t){e->since_ns}, clocks->now);
    if (out->age_ms < 0)
        out->age_ms = 0;
    out->granted_ms = out->waiting ? 0 : clocks->wall_ms - out->age_ms;
    out->ttl_ms = e->ttl_ms < 0 ? ENQ_FOREVER : e->ttl_ms;
    out->ttl_left_ms = ttl_left_ms(e, clocks->now);
}

/* The same request, as it stands now? It may have been promoted or demoted
   since it was found. One that waited then is told of as waiting. */
static bool is_there_still(const struct entry *e, uint64_t *state)
{
    uint64_t now = shm_load_acquire(&e->state);

    if (STATE_GENERATION(now) != STATE_GENERATION(*state) ||
        !state_is_live(now) || !mode_known(STATE_MODE(now)))
        return false;
    if (STATE_PHASE(now) == STATE_PHASE(*state))
        *state = now;
    return true;
}

/* As a reader of a seqlock: the state, the copy, the fence, the state again.
   The generation grows before an entry is filled anew, so that the same
   generation at the end means that all texts are of one use. Deadline and token
   are single words, and may be of a moment later. */
bool copy_info(const struct map *map, const struct entry *e, uint64_t state,
    const struct copy_clocks *clocks, struct enq_info *out)
{
    unsigned left = 8; /* no owner of a lock changes it for ever */
    uint64_t copied;

    if (!is_there_still(e, &state) || !copy_texts(map, e, state, out))
        return false;
    do {
        copied = state;
        copy_numbers(map, e, state, clocks, out);
        ENQ_POINT("info.copied");
        __atomic_thread_fence(__ATOMIC_ACQUIRE);
        if (!is_there_still(e, &state))
            return false;
    } while (!state_same(copied, state) && --left > 0);
    return true;
}

bool copy_matches(const struct map *map, const struct entry *e,
    const char *name, const char *owner, mono_t now)
{
    struct ask ask;

    return entry_ask(map, e, &ask) && entry_over(map, e, now) == ENQ_OK &&
        (name == NULL || strcmp(ask.key.bytes, name) == 0) &&
        (owner == NULL || strcmp(ask.owner, owner) == 0);
}

void copy_taker(const struct map *map, enq_handle handle,
    char owner[ENQ_OWNER_BYTES])
{
    uint64_t state;
    struct entry *e = entry_of_handle(map, handle, &state);
    struct ask ask;
    const char *taker;
    size_t n;

    if (e == NULL || STATE_GONE(state) != GONE_LOST || !entry_ask(map, e, &ask))
        return;
    taker = e->payload + ask_payload_bytes(&ask);
    n = e->taker_bytes;
    ENQ_POINT("taker.read");
    if (n > 0 && n <= entry_payload_room(map, e) - ask_payload_bytes(&ask) &&
        n <= ENQ_OWNER_BYTES && taker[n - 1] == '\0')
        memcpy(owner, taker, n);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (entry_of_handle(map, handle, &state) == NULL)
        owner[0] = '\0'; /* it was given back meanwhile, and filled anew */
}
