/*
 * look.c - api: looking at the table of this host (see look.h).
 */
#include "api/look.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/copy_out.h"
#include "lock/hold.h"
#include "lock/hold_end.h"
#include "lock/moment.h"
#include "lock/table_scan.h"
#include "recovery/check.h"
#include "recovery/reap.h"
#include "recovery/recover.h"
#include "store/page.h"
#include "store/walk.h"
#include "sync/life.h"

/* Looks for the proof of dead sessions first: no other process may be there to
   find out that they are over. */
static int begin_look(const struct map *map)
{
    int rc = map_check_whole(map);

    if (rc == 0)
        session_prove_all(map);
    return rc;
}

/* --- list --- */

struct list {
    struct table_scan_filter filter;
    struct table_scan_found *found;
    size_t room, total;
};

static int list_room(struct list *l, size_t expected)
{
    l->room = expected + expected / 8 + 256;
    free(l->found);
    l->found = table_scan_memory(l->room * sizeof(*l->found));
    if (l->found == NULL)
        return why(-ENOMEM, "out of memory for a list of %zu locks", l->room);
    return 0;
}

/* The texts are written whole, up to their zeros: what is behind them is the
   caller's. */
static bool copy_one(const struct map *map,
    const struct table_scan_found *found, const struct copy_clocks *clocks,
    struct enq_info *out)
{
    if (found->copy != NULL) {
        *out = *found->copy;
        return true;
    }
    memset(out, 0, offsetof(struct enq_info, owner));
    return copy_info(map, found->e, found->state, clocks, out);
}

/* Copies of the first n; those that have changed since are left out. */
static void copy_out(const struct map *map, struct list *l,
    struct enq_info *out, size_t n)
{
    struct copy_clocks clocks = copy_clocks();
    size_t copied = 0, gone = 0;

    for (size_t i = 0; i < l->total && copied < n; i++) {
        if (copy_one(map, &l->found[i], &clocks, &out[copied]))
            copied++;
        else
            gone++;
    }
    l->total -= gone;
}

/* The table may have grown since it was counted: then once more. */
static int gather(const struct map *map, struct list *l)
{
    int rc;

    do {
        rc = list_room(l, l->total);
        if (rc != 0)
            return rc;
        l->total = table_scan_list(map, &l->filter, l->found, l->room);
    } while (l->total > l->room);
    return 0;
}

static void tell(const struct map *map, struct list *l, struct enq_info *out,
    size_t n)
{
    qsort(l->found, l->total, sizeof(*l->found), table_scan_by_arrival);
    copy_out(map, l, out, n);
}

static int list_all(const struct map *map, struct list *l, struct enq_info *out,
    size_t n)
{
    int rc = gather(map, l);

    if (rc == 0)
        tell(map, l, out, n);
    return rc;
}

/* All of a name at one moment. */
static int list_name(struct enq *e, struct list *l, struct enq_info *out,
    size_t n)
{
    struct moment m;
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc;
    rc = moment_take(&m, e->map, t, &l->filter);
    if (rc == 0)
        rc = list_room(l, m.n);
    for (uint32_t i = 0; i < m.n && rc == 0; i++)
        if (m.rows[i].round != 0)
            l->found[l->total++] = m.rows[i].found;
    if (rc == 0)
        tell(e->map, l, out, n);
    moment_free(&m);
    return rc;
}

int local_list(struct enq *e, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total)
{
    struct list l = {.filter = {name, owner}};
    int rc = begin_look(e->map);

    if (rc == 0)
        rc = name == NULL || e->readonly ? list_all(e->map, &l, out, n)
                                         : list_name(e, &l, out, n);
    if (rc == 0 && total != NULL)
        *total = l.total;
    free(l.found);
    return rc;
}

int local_look(struct enq *e, enq_handle handle, struct enq_info *out)
{
    const struct copy_clocks clocks = copy_clocks();
    const struct entry *entry;
    uint64_t state;

    hold_prove(e->map, handle);
    entry = entry_of_handle(e->map, handle, &state);
    if (entry == NULL || !state_is_live(state) ||
        !copy_info(e->map, entry, state, &clocks, out))
        return why(ENQ_NOTHELD, "no lock has this handle");
    return ENQ_OK;
}

int local_stat(struct enq *e, struct enq_stats *out)
{
    int rc = begin_look(e->map);

    if (rc == 0)
        table_scan_stats(e->map, out);
    return rc;
}

/* --- doctor --- */

static void look_for_dead(const struct map *map, struct check_report *report)
{
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref != 0 && session_is_dead(map, ref) &&
            shm_load(&map->sessions[i].ref) == ref)
            check_note(report,
                "the session of process %u is dead, and not "
                "cleaned up yet",
                map->sessions[i].process.pid);
    }
}

static void look_at_room(const struct map *map, struct check_report *report)
{
    struct enq_stats stats = {.size = sizeof(stats)};

    table_scan_stats(map, &stats);
    if (stats.unlinked)
        check_note(report,
            "%s has lost its name: no new locks are granted; restart its "
            "users",
            map->path);
    if ((stats.held + stats.waiting) * 10 > (uint64_t)map->entries_max * 9)
        check_note(report, "the table is nearly full: %llu of %u",
            (unsigned long long)(stats.held + stats.waiting), map->entries_max);
    else if (!page_is_left(map))
        check_note(report,
            "no page is left: sessions that need one more get ENQ_EFULL");
}

static int mend(struct session *s, struct thread *t)
{
    int rc;

    reap_dead(s, t);
    rc = recover_all(s->map, t);
    if (rc == 0)
        hold_sweep_all(s, t);
    return rc;
}

static int examine(struct enq *e, uint32_t flags, struct check_report *report)
{
    struct thread *t;
    int rc;

    look_for_dead(e->map, report);
    if (e->readonly) {
        look_at_room(e->map, report);
        check_quiet(e->map, report);
        return 0;
    }
    rc = attachment_enter(e, &t);
    if (rc == 0 && flags & ENQ_DOCTOR_FIX)
        rc = mend(&e->session, t);
    if (rc == 0) {
        look_at_room(e->map, report); /* wrong counts are right by now */
        rc = check_table(e->map, t, report);
    }
    return rc;
}

int local_doctor(struct enq *e, uint32_t flags, char *report, size_t n)
{
    struct check_report r = {report, n, 0, 0};
    int rc = begin_look(e->map);

    if (rc == 0)
        rc = examine(e, flags, &r);
    if (rc != 0)
        return rc;
    if (r.findings > 0)
        why((int)r.findings, "%u findings in %s", r.findings, e->path);
    return (int)r.findings;
}

/* --- dump --- */

struct dump {
    const struct map *map;
    int fd, rc;
};

static void put(struct dump *d, const char *text)
{
    size_t n = strlen(text);

    while (d->rc == 0 && n > 0) {
        ssize_t wrote = write(d->fd, text, n);

        if (wrote < 0 && errno != EINTR)
            d->rc = -errno;
        if (wrote < 0)
            continue;
        text += wrote;
        n -= (size_t)wrote;
    }
}

static void dump_header(struct dump *d)
{
    const struct seg_header *h = d->map->h;
    char text[768];

    snprintf(text, sizeof(text),
        "segment %s\nlayout %u hash %08x bytes %llu slots %u compat %u strict "
        "%u mode %04o unlinked %u\npages used %u ready %u max %u slabs %u max "
        "%u orphans %u\nwords: recovery %08x grow %08x\ntickets %llu tokens "
        "from %llu\n",
        d->map->path, h->layout_version, h->layout_hash,
        (unsigned long long)h->bytes, h->slots_max, h->compat, h->strict,
        h->mode, h->unlinked, h->pages_used, h->pages_ready, h->pages_max,
        h->slab_pages, h->slab_pages_max,
        h->orphans[0].pages + h->orphans[1].pages, h->recovery_latch,
        h->grow_latch, (unsigned long long)h->ticket,
        (unsigned long long)h->token_base);
    put(d, text);
}

static void dump_slots(struct dump *d)
{
    const struct map *map = d->map;
    char text[256];

    for (uint32_t i = 0; i < map_sessions(map); i++) {
        const struct session_slot *s = &map->sessions[i];
        if (s->ref == 0)
            continue;
        snprintf(text, sizeof(text), "session %08x pid %u%s loose %u\n", s->ref,
            s->process.pid,
            !session_is_dead(map, s->ref)      ? ""
                : session_is_over(map, s->ref) ? " DEAD"
                                               : " DYING",
            s->loose);
        put(d, text);
    }
    for (uint32_t i = 0; i < map_threads(map); i++) {
        const struct thread_slot *t = &map->threads[i];
        if (t->ref == 0)
            continue;
        snprintf(text, sizeof(text), "thread %08x pid %u%s\n", t->ref,
            t->process.pid, thread_is_dead(map, t->ref) ? " DEAD" : "");
        put(d, text);
    }
}

/* One that is latched: by whom it is, a stopped thread perhaps. */
static bool dump_bucket(void *d, uint32_t shard, struct bucket *bucket)
{
    char text[128];

    if (bucket->latch != 0) {
        snprintf(text, sizeof(text), "bucket of shard %u latch %08x more %x\n",
            shard, bucket->latch, bucket->more);
        put(d, text);
    }
    return true;
}

static void dump_parts(struct dump *d)
{
    const struct map *map = d->map;
    char text[256];

    for (uint32_t i = 0; i < SHARDS_ALL; i++) {
        const struct shard *s = &map->shards[i];
        if (s->latch != 0 || s->n_segments > 1) {
            snprintf(text, sizeof(text),
                "shard %u latch %08x buckets %u segments %u\n", i, s->latch,
                shard_buckets(s), s->n_segments);
            put(d, text);
        }
        map_each_bucket(map, i, dump_bucket, d);
    }
    for (uint32_t i = 0; i < GATES; i++) {
        const struct gate *g = &map->gates[i];
        if (g->latch == 0 && g->raised == 0)
            continue;
        snprintf(text, sizeof(text),
            "gate %u latch %08x raised %u waiting %u head %x\n", i, g->latch,
            g->raised & GATE_COUNT, g->n_waiting, g->head);
        put(d, text);
    }
}

/* Names and owners are anybody's bytes: what a terminal might take for more
   than text is shown as \x... */
static const char *printable(const char *text, char *out, size_t n)
{
    size_t used = 0;

    for (; *text != '\0' && used + 5 < n; text++) {
        unsigned char c = (unsigned char)*text;

        if (c >= ' ' && c < 0x7f && c != '"' && c != '\\')
            out[used++] = (char)c;
        else
            used += (size_t)snprintf(out + used, n - used, "\\x%02x", c);
    }
    out[used] = '\0';
    return out;
}

static void dump_texts(struct dump *d, const struct entry *e)
{
    char name[4 * ENQ_NAME_BYTES + 8], owner[4 * ENQ_OWNER_BYTES + 8];
    char text[sizeof(name) + sizeof(owner) + 64];
    struct ask ask;

    if (!entry_ask(d->map, e, &ask))
        ask.key.bytes = ask.owner = "(damaged)";
    snprintf(text, sizeof(text), " name \"%s\" fields %u owner \"%s\"\n",
        printable(ask.key.bytes, name, sizeof(name)), e->fields,
        printable(ask.owner, owner, sizeof(owner)));
    put(d, text);
}

static bool dump_entry(void *context, struct entry *e, uint64_t state)
{
    static const char *const phases[] = {
        "free", "cached", "waiting", "held", "gone"};
    struct dump *d = context;
    char text[384];

    if (STATE_PHASE(state) < PHASE_WAITING || STATE_PHASE(state) > PHASE_GONE)
        return d->rc == 0;
    snprintf(text, sizeof(text),
        "entry %x %s %c gone %u generation %u session %08x token %llu ticket "
        "%llu shard %u next %x prev %x",
        map_ref(d->map, e), phases[STATE_PHASE(state)],
        mode_letter(STATE_MODE(state)), STATE_GONE(state),
        STATE_GENERATION(state), e->session, (unsigned long long)e->token,
        (unsigned long long)e->ticket, shard_of_hash(e->hash), e->next,
        e->prev);
    put(d, text);
    dump_texts(d, e);
    return d->rc == 0;
}

int local_dump(struct enq *e, int fd)
{
    struct dump d = {.map = e->map, .fd = fd};
    int rc = begin_look(e->map);

    if (rc != 0)
        return rc;
    dump_header(&d);
    dump_slots(&d);
    dump_parts(&d);
    slab_each(e->map, dump_entry, &d);
    if (d.rc != 0)
        return why(d.rc, "cannot write the dump: %s", strerror(-d.rc));
    return ENQ_OK;
}
