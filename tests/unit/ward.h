/*
 * ward.h - a table with everything in it: locks of one owner, of objects and of
 * many keys, and what the doctor says of them.
 */
#ifndef WARD_H
#define WARD_H

#include <stdio.h>

#include "api/attachment.h"
#include "unit.h"

#define WARD_CONCRETE 40
#define WARD_GENERIC 5
#define WARD_HELD (WARD_CONCRETE + WARD_GENERIC)

struct ward {
    struct enq *e;
    struct map *map;
    struct enq_grant g[WARD_HELD];
};

static inline int ward_lock_at(struct ward *w, int i)
{
    char field[16], id[16];

    snprintf(field, sizeof(field), "%d", i);
    snprintf(id, sizeof(id), "id-%d", i);
    return enq_lock(w->e,
        ENQ_REQ(.name = "n", .key = {i < WARD_CONCRETE ? field : "@", "x"},
            .mode = ENQ_MODE_S, .id = i % 3 == 0 ? id : NULL),
        &w->g[i]);
}

static inline struct ward ward_fill(void)
{
    struct ward w = {.e = unit_open()};

    w.map = w.e->map;
    for (int i = 0; i < WARD_HELD; i++)
        want(ENQ_OK, ward_lock_at(&w, i));
    unit_healthy(w.e);
    return w;
}

static inline struct entry *ward_entry(const struct ward *w, int i)
{
    uint64_t state;

    return entry_of_handle(w->map, w->g[i].handle, &state);
}

static inline int ward_look(struct ward *w, uint32_t flags, char report[8192])
{
    return enq_doctor(w->e, flags, report, 8192);
}

#endif
