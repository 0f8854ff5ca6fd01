/*
 * full.c - store: a table that is known to have no room (see full.h).
 */
#include "store/full.h"

#include <string.h>

#include "store/page.h"
#include "sync/sys.h"

/* Each goes up when something is given back that this session may use. Down,
   too, when another takes it: a search more. */
static struct full_signs signs_of(const struct session *s)
{
    const struct map *map = s->map;

    return (struct full_signs){
        .loose = shm_load(&s->slot->loose),
        .given = shm_load(&map->h->given),
        .orphans = {shm_load(&orphans_of(map, PAGE_SMALL)->pages),
            shm_load(&orphans_of(map, PAGE_LARGE)->pages)},
    };
}

struct full full_begin(const struct session *s)
{
    return (struct full){sys.now(), signs_of(s)};
}

void full_note(struct session *s, enum page_kind kind, struct full search,
    int64_t next_ns)
{
    mono_t now = sys.now();
    int64_t rest = (now.ns - search.until.ns) * FULL_REST;

    search.until =
        mono_add_ns(now, rest < FULL_REST_MOST_NS ? rest : FULL_REST_MOST_NS);
    if (next_ns != 0)
        search.until = mono_min(search.until, (mono_t){next_ns});
    pthread_mutex_lock(&s->mutex);
    slab_depot(s, kind)->full = search;
    pthread_mutex_unlock(&s->mutex);
}

bool full_is_known(const struct session *s, const struct depot *depot)
{
    const struct full *full = &depot->full;
    struct full_signs signs;

    if (full->until.ns == 0 || mono_reached(full->until, sys.now()))
        return false;
    signs = signs_of(s);
    return memcmp(&signs, &full->signs, sizeof(signs)) == 0;
}
