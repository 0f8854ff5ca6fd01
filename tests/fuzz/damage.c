/*
 * damage.c - what another process may have written into a segment: an edit is
 * a place, a width and a value.
 *
 * Both are chosen so that a few bytes are enough to hit what matters: a field
 * of a slot, shard, line or entry that is in use, and a value that means
 * something there: a reference, a slot's number, a limit or one beside it.
 * Any byte can be given any value, too.
 */
#include <string.h>

#include "fuzz.h"
#include "store/page.h"

/* --- where --- */

static uint32_t some_shard(const struct arena *a, struct feed *f)
{
    uint8_t b = feed_byte(f);
    const struct entry *e;

    if (b & 0x80)
        return b & 0x40 ? SHARDS + b % ID_SHARDS : b;
    e = map_at(a->map,
        page_entry_ref(a->map, 0, b % SMALL_PER_PAGE, SMALL_UNITS) *
            (uint64_t)UNIT_BYTES);
    return shard_of_hash(e->hash);
}

static uint32_t some_gate(const struct arena *a, struct feed *f)
{
    uint8_t b = feed_byte(f);
    const struct entry *e;

    if (b & 0x80)
        return b;
    e = map_at(a->map,
        page_entry_ref(a->map, 0, b % SMALL_PER_PAGE, SMALL_UNITS) *
            (uint64_t)UNIT_BYTES);
    return gate_of_hash(e->name_hash);
}

/* Pages with memory behind them, the last of them as well. */
static uint32_t some_page(const struct arena *a, struct feed *f)
{
    uint64_t pages = (a->accessible - a->map->arena_at) / PAGE_BYTES;
    uint8_t b = feed_byte(f);

    return (uint32_t)(b < 0xf0 ? b % 6 : pages - 1 - b % 2);
}

static ref_t some_ref(const struct arena *a, struct feed *f)
{
    uint32_t page = some_page(a, f);

    return page_entry_ref(a->map, page, feed_byte(f) % SMALL_PER_PAGE,
        SMALL_UNITS);
}

static uint64_t place_in_entry(const struct arena *a, struct feed *f)
{
    uint64_t at = some_ref(a, f) * (uint64_t)UNIT_BYTES;

    return at + feed_byte(f) % (SMALL_UNITS * UNIT_BYTES);
}

static uint64_t place_in_index(const struct arena *a, struct feed *f)
{
    uint32_t shard = some_shard(a, f);
    uint8_t b = feed_byte(f);

    if (b & 0x80)
        return SEG_DIRS + shard * sizeof(struct shard_dir) +
            (b & 0x7f) * sizeof(ref_t);
    return SEG_BUCKETS +
        (shard * BUCKETS_FIRST + (b & 0x40 ? b % BUCKETS_FIRST : 0)) *
        sizeof(struct bucket) +
        b % sizeof(struct bucket);
}

static uint64_t place_in_slot(struct feed *f)
{
    uint8_t b = feed_byte(f);
    uint32_t slot = b & 0x40 ? (uint32_t)feed_word(f, 2) % THREADS_MAX : b % 4;

    return b & 0x80
        ? SEG_THREADS + slot * sizeof(struct thread_slot) + feed_byte(f) % 64
        : SEG_SESSIONS + slot * sizeof(struct session_slot) +
            feed_byte(f) % sizeof(struct session_slot);
}

/* What says of entries that they are a lock set, or were to be one: the ring
   of those that wait, their flag and ticket, and the journal. */
static uint64_t place_of_set(const struct arena *a, struct feed *f)
{
    const struct member *m = &a->of_set[feed_byte(f) % ARENA_SET];
    uint64_t e = map_ref(a->map, m->place.e) * (uint64_t)UNIT_BYTES;
    uint64_t t = SEG_THREADS + feed_byte(f) % 4 * sizeof(struct thread_slot);

    switch (feed_byte(f) % 6) {
    case 0:
    case 1:
        return e + offsetof(struct entry, token);
    case 2:
        return e + offsetof(struct entry, on_death);
    case 3:
        return e + offsetof(struct entry, ticket);
    case 4:
        return t + offsetof(struct thread_slot, set);
    default:
        return t + offsetof(struct thread_slot, set_of);
    }
}

/* A page's word, or its mark. */
static uint64_t place_in_directory(const struct arena *a, struct feed *f)
{
    uint32_t page = some_page(a, f);
    uint64_t at = feed_byte(f) % DIRECTORY_BYTES;
    uint64_t marks_at =
        SEG_FIXED_END + (uint64_t)a->map->pages_max * sizeof(struct page_info);

    if (at < sizeof(struct page_info))
        return SEG_FIXED_END + page * sizeof(struct page_info) + at;
    return marks_at + page * sizeof(page_mark_t) + at -
        sizeof(struct page_info);
}

static uint64_t place(const struct arena *a, struct feed *f)
{
    uint8_t b = feed_byte(f);

    if (b >= 0xe0 && a->set.n > 0)
        return place_of_set(a, f);
    switch (b % 10) {
    case 0:
        return offsetof(struct seg_header, recovery_latch) + feed_byte(f);
    case 1:
        return feed_word(f, 2) % sizeof(struct seg_header);
    case 2:
        return place_in_slot(f);
    case 3:
        return SEG_GATES + some_gate(a, f) * sizeof(struct gate) +
            feed_byte(f) % 24;
    case 4:
        return SEG_SHARDS + some_shard(a, f) * sizeof(struct shard) +
            feed_byte(f) % 32;
    case 5:
        return place_in_index(a, f);
    case 6:
        return place_in_directory(a, f);
    case 7:
    case 8:
        return place_in_entry(a, f);
    default:
        return feed_word(f, 4);
    }
}

/* --- what --- */

static uint64_t some_limit(const struct arena *a, struct feed *f)
{
    const uint64_t limits[] = {0, UINT64_MAX, INT64_MAX, (uint64_t)INT64_MIN,
        INT32_MAX, UINT32_MAX, 0x80000000u, a->map->pages_max,
        (a->accessible - a->map->arena_at) / PAGE_BYTES, THREADS_MAX,
        SESSIONS_MAX, SEGMENTS_MAX, buckets_in(SEGMENTS_MAX), LARGE_PAYLOAD,
        SMALL_PAYLOAD, ENQ_NAME_BYTES, ENQ_KEY_FIELDS_MAX,
        a->map->bytes / UNIT_BYTES, a->map->arena_at / UNIT_BYTES,
        (uint64_t)arena_now_ns};
    uint8_t b = feed_byte(f);

    return limits[b % LENGTH(limits)] + (uint64_t)(int64_t)(b / 64) - 1;
}

static uint64_t some_state(struct feed *f, uint64_t old)
{
    uint8_t b = feed_byte(f);

    return STATE(STATE_GENERATION(old) + (b >> 7), b % 6, b / 6 % 8,
        b >> 5 & 7);
}

static uint64_t value(const struct arena *a, struct feed *f, uint64_t old)
{
    switch (feed_byte(f) % 9) {
    case 0:
        return some_limit(a, f);
    case 1:
        return some_ref(a, f);
    case 2:
        return some_state(f, old);
    case 3: /* one that lives */
        return a->t->ref;
    case 4: /* a thread or session that is or was, and marks */
        return (uint64_t)feed_byte(f) % 4 | (uint64_t)feed_byte(f) % 4 << 12 |
            (uint64_t)feed_byte(f) % 4 << 30;
    case 5:
        return old ^ UINT64_C(1) << feed_byte(f) % 64;
    case 6:
        return old + (uint64_t)(int64_t)(int8_t)feed_byte(f);
    case 7: /* how a slot of the page directory looks */
        return (uint64_t)feed_byte(f) % 6 << 32 | a->at[0].e.session.ref;
    default:
        return feed_word(f, 8);
    }
}

void damage(struct arena *a, struct feed *f)
{
    uint64_t at = place(a, f), old = 0, now;
    unsigned width = 1u << feed_byte(f) % 4;

    /* fields stand where their size puts them: mostly that is what is hit */
    at -= at % width;
    if (at > a->accessible - 8)
        at %= a->accessible - 8;
    memcpy(&old, map_at(a->map, at), width);
    now = value(a, f, old);
    memcpy(map_at(a->map, at), &now, width);
    a->wild |= at >= SEG_SHARDS && at < SEG_FIXED_END;
    arena_lift(a);
}
