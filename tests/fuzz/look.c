/*
 * look.c - a damaged segment is listed, counted, searched, checked, dumped and
 * repaired.
 */
#include <fcntl.h>

#include "fuzz.h"
#include "recovery/check.h"

#define EDITS_MOST 16

static int nowhere(void)
{
    static int fd = -1;

    if (fd < 0)
        fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    return fd;
}

static void list(struct enq *e, const char *name, const char *owner)
{
    struct enq_info out[24];
    size_t total;

    if (enq_list(e, name, owner, out, LENGTH(out), &total) == ENQ_OK &&
        total > 100 * 1000)
        fuzz_fail("a list of %zu", total);
}

static void statistics(struct enq *e)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    enq_stat(e, &stats);
}

static void doctor(struct enq *e, uint32_t flags, size_t room)
{
    char report[2048];

    enq_doctor(e, flags, report, room);
}

static void names(struct arena *a, struct enq *e)
{
    char id[ENQ_ID_BYTES];
    struct enq_info info;
    enq_handle handle;

    for (unsigned i = 0; i < a->n_handles; i++)
        if (enq_id(e, a->handles[i], id) == ENQ_OK)
            enq_find(e, id, &handle);
    for (unsigned i = 0; i < a->n_handles; i++)
        enq_look(e, a->handles[i], &info);
    enq_find(e, "id-2", &handle);
}

static void look(struct arena *a, struct enq *e, uint8_t what)
{
    if (what & 1)
        list(e, NULL, NULL);
    if (what & 2)
        list(e, "a", "ann");
    if (what & 4)
        statistics(e);
    if (what & 8)
        names(a, e);
    if ((what & 0x30) == 0x30)
        enq_dump(e, nowhere());
    if (what & 0x40)
        doctor(e, 0, 2048);
    if (what & 0x80 && !e->readonly)
        doctor(e, ENQ_DOCTOR_FIX, what);
}

void fuzz_look(const uint8_t *data, size_t n)
{
    struct feed f = {data, data + n};
    uint8_t how = feed_byte(&f), what = feed_byte(&f);
    struct arena *a = arena_get(how & 1 ? ARENA_TINY : ARENA_BUSY);

    for (unsigned i = 0; i < EDITS_MOST && feed_more(&f); i++)
        damage(a, &f);
    look(a, how & 2 ? &a->at[0].e : &a->watcher, what);
    arena_restore(a);
}
