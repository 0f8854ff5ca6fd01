/*
 * rows.c - what a list says (see rows.h).
 */
#include "rows.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tag.h"

bool rows_wish(struct rows_wish *w, const char *name, const char *owner)
{
    w->name = name == NULL || name[0] == '\0' ? NULL : strdup(name);
    w->owner = owner == NULL || owner[0] == '\0' ? NULL : strdup(owner);
    if ((name == NULL || name[0] == '\0' || w->name != NULL) &&
        (owner == NULL || owner[0] == '\0' || w->owner != NULL))
        return true;
    rows_forget(w);
    return false;
}

void rows_forget(struct rows_wish *w)
{
    free(w->name);
    free(w->owner);
}

static void put_flag(struct text *out, const char *name, bool flag)
{
    text_member(out, name);
    text_put(out, flag ? "true" : "false", flag ? 4 : 5);
}

/* Not what is behind '#': it is a bridge's own. */
static void put_peer(struct text *out, const char *tag)
{
    char peer[ENQ_PEER_BYTES];
    size_t n = tag_peer_bytes(tag);

    memcpy(peer, tag, n);
    peer[n] = '\0';
    text_member_text(out, WIRE_peer, peer);
}

/* --- as enqueue-server lists --- */

static void put_argument(struct text *out, const struct enq_info *i)
{
    char joined[ENQ_KEY_BYTES];
    const char *at = i->key;
    size_t n = 0;

    for (unsigned f = 0; f < i->fields; f++) {
        size_t bytes = strlen(at);

        if (f > 0)
            joined[n++] = ',';
        memcpy(joined + n, at, bytes);
        n += bytes;
        at += bytes + 1;
    }
    joined[n] = '\0';
    text_member_text(out, WIRE_argument, joined);
}

/* As JavaScript's toLocaleString() for "en-US". */
static void put_timestamp(struct text *out, int64_t ms)
{
    time_t seconds = (time_t)(ms / 1000);
    char date[32], time[16], all[64];
    struct tm tm;

    gmtime_r(&seconds, &tm);
    strftime(date, sizeof(date), "%-m/%-d/%Y", &tm);
    strftime(time, sizeof(time), "%-I:%M:%S %p", &tm);
    strcpy(all, date);
    strcat(all, ", ");
    strcat(all, time);
    text_member_text(out, WIRE_timestamp, all);
}

static int64_t wall_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

/* As its client calls it: its own as it gave it. Another that it might have
   given as well has a slash before it (serving_handle()). */
static void put_id(struct text *out, const struct rows_wish *w, const char *id)
{
    char space[ENQ_ID_BYTES + 1] = "/";
    size_t n = strlen(w->peer);

    if (n > 0 && strncmp(id, w->peer, n) == 0 && id[n] == '/') {
        text_quote(out, id + n + 1);
    } else if (n > 0 && strchr(id, '/') == NULL && strlen(id) != 36) {
        text_quote(out, strcat(space, id));
    } else {
        text_quote(out, id);
    }
}

static void put_old_row(struct text *out, const struct rows_wish *w,
    const struct enq_info *i)
{
    TEXT_PUT(out, "{" WIRE_KEY(WIRE_uuid));
    put_id(out, w, i->id);
    text_member_text(out, WIRE_name, i->name);
    put_argument(out, i);
    text_member_text(out, WIRE_mode, reply_mode(i->mode));
    text_member_text(out, WIRE_owner, i->owner);
    text_member_number(out, WIRE_waitTime, tag_wait_ms(i->peer));
    text_member_number(out, WIRE_timeout, i->ttl_ms);
    put_timestamp(out, i->waiting ? wall_ms() - i->age_ms : i->granted_ms);
    text_member_text(out, WIRE_state,
        i->waiting        ? WIRE_waiting
            : i->dying    ? WIRE_dying
            : i->orphaned ? WIRE_orphaned
                          : WIRE_held);
    text_member_big(out, WIRE_token, i->token);
    text_member_number(out, WIRE_pid, i->pid);
    put_peer(out, i->peer);
    TEXT_PUT(out, "}");
}

/* --- in full --- */

static const char *const deaths[] = WIRE_DEATHS;

static void put_fields(struct text *out, const struct enq_info *i)
{
    const char *at = i->key;

    text_member(out, WIRE_argument);
    TEXT_PUT(out, "[");
    for (unsigned f = 0; f < i->fields; f++, at += strlen(at) + 1) {
        if (f > 0)
            TEXT_PUT(out, ",");
        text_quote(out, at);
    }
    TEXT_PUT(out, "]");
}

/* Of a session's lock what was asked for: in the table none ends with us. */
static const char *death(const struct enq_info *i)
{
    struct tag_found tag;

    if (tag_read(i->peer, &tag))
        return deaths[tag.on_death];
    return deaths[i->on_death <= ENQ_DEATH_KEEP ? i->on_death : 0];
}

static void put_row(struct text *out, const struct enq_info *i)
{
    TEXT_PUT(out, "{" WIRE_KEY(WIRE_handle) "\"");
    text_unsigned(out, i->handle);
    TEXT_PUT(out, "\"");
    text_member_big(out, WIRE_token, i->token);
    text_member_text(out, WIRE_id, i->id);
    text_member_text(out, WIRE_name, i->name);
    put_fields(out, i);
    text_member_number(out, WIRE_literal, i->literal);
    text_member_text(out, WIRE_mode, reply_mode(i->mode));
    text_member_text(out, WIRE_owner, i->owner);
    put_flag(out, WIRE_waiting, i->waiting);
    put_flag(out, WIRE_orphaned, i->orphaned);
    if (i->dying)
        put_flag(out, WIRE_dying, true);
    text_member_text(out, WIRE_onDeath, death(i));
    text_member_number(out, WIRE_pid, i->pid);
    put_peer(out, i->peer);
    text_member_number(out, WIRE_granted, i->granted_ms);
    text_member_number(out, WIRE_age, i->age_ms);
    text_member_number(out, WIRE_timeout, i->ttl_ms);
    text_member_number(out, WIRE_left, i->ttl_left_ms);
    TEXT_PUT(out, "}");
}

/* --- lists --- */

/* Its length in four bytes, which are not known before. */
static void put_old_list(const struct rows_wish *w, const struct reply *r,
    const struct enq_info *rows, size_t n)
{
    size_t at = r->out->n, length;

    TEXT_PUT(r->out, "\0\0\0\0[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            TEXT_PUT(r->out, ",");
        put_old_row(r->out, w, &rows[i]);
    }
    TEXT_PUT(r->out, "]");
    if (r->out->failed)
        return;
    length = r->out->n - at - 4;
    for (unsigned i = 0; i < 4; i++)
        r->out->bytes[at + i] = (char)(length >> 8 * i & 0xff);
}

static void put_list(const struct reply *r, const struct enq_info *rows,
    size_t n, size_t total)
{
    reply_begin(r, ENQ_OK, NULL);
    text_member_number(r->out, WIRE_TOTAL, (int64_t)total);
    text_member(r->out, WIRE_LOCKS);
    TEXT_PUT(r->out, "[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            TEXT_PUT(r->out, ",");
        put_row(r->out, &rows[i]);
    }
    TEXT_PUT(r->out, "]");
    reply_end(r);
}

/* There may be more by the time that there is room for them. */
static int list(struct enq *space, const struct rows_wish *w,
    struct enq_info **rows, size_t *n, size_t *total)
{
    size_t room;
    int rc = enq_list(space, w->name, w->owner, NULL, 0, total);

    if (rc != ENQ_OK)
        return rc;
    room = *total + *total / 8 + 16;
    if (room > w->most)
        room = w->most;
    *rows = calloc(room + 1, sizeof(**rows));
    if (*rows == NULL)
        return -12; /* ENOMEM */
    rc = enq_list(space, w->name, w->owner, *rows, room, total);
    *n = *total < room ? *total : room;
    return rc;
}

static void make_list(struct enq *space, const struct rows_wish *w,
    const struct reply *r)
{
    struct enq_info *rows = NULL;
    size_t n = 0, total = 0;
    int rc = list(space, w, &rows, &n, &total);

    if (rc != ENQ_OK && r->id == NULL)
        n = 0; /* its client knows no refusal */
    if (r->id == NULL)
        put_old_list(w, r, rows, n);
    else if (rc == ENQ_OK)
        put_list(r, rows, n, total);
    else
        reply_result(r, rc, NULL, enq_why());
    free(rows);
}

/* --- the graph --- */

static void put_edges(const struct reply *r, const struct enq_edge *edges,
    size_t n, size_t total)
{
    reply_begin(r, ENQ_OK, NULL);
    text_member_number(r->out, WIRE_TOTAL, (int64_t)total);
    text_member(r->out, WIRE_EDGES);
    TEXT_PUT(r->out, "[");
    for (size_t i = 0; i < n; i++) {
        if (i > 0)
            TEXT_PUT(r->out, ",");
        TEXT_PUT(r->out, "{" WIRE_KEY(WIRE_waiter));
        put_row(r->out, &edges[i].waiter);
        TEXT_PUT(r->out, "," WIRE_KEY(WIRE_blocker));
        put_row(r->out, &edges[i].blocker);
        TEXT_PUT(r->out, "}");
    }
    TEXT_PUT(r->out, "]");
    reply_end(r);
}

static void make_graph(struct enq *space, const struct rows_wish *w,
    const struct reply *r)
{
    struct enq_edge *edges;
    size_t total = 0, room;
    int rc = enq_graph(space, NULL, 0, &total);

    room = total + total / 8 + 16;
    if (room > w->most)
        room = w->most;
    edges = calloc(room + 1, sizeof(*edges));
    if (edges == NULL)
        rc = -12; /* ENOMEM */
    if (rc == ENQ_OK)
        rc = enq_graph(space, edges, room, &total);
    if (rc == ENQ_OK)
        put_edges(r, edges, total < room ? total : room, total);
    else
        reply_result(r, rc, NULL, enq_why());
    free(edges);
}

/* --- counters --- */

static void put_stats(struct text *out, const struct enq_stats *s)
{
    TEXT_PUT(out, "{" WIRE_KEY(WIRE_space));
    text_quote(out, s->space);
#define TEXT(name) text_member_text(out, #name, s->name);
#define NUMBER(kind, name) text_member_number(out, #name, (int64_t)s->name);
    STAT_MAP(TEXT, NUMBER)
#undef NUMBER
#undef TEXT
    TEXT_PUT(out, "}");
}

static void make_stat(struct enq *space, const struct reply *r)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = enq_stat(space, &stats);

    reply_begin(r, rc, enq_why());
    if (rc == ENQ_OK) {
        text_member(r->out, WIRE_STAT);
        put_stats(r->out, &stats);
    }
    reply_end(r);
}

static void make_doctor(struct enq *space, const struct reply *r)
{
    static const size_t room = 65536;
    char *report = calloc(1, room);
    int findings = -12; /* ENOMEM */

    if (report != NULL)
        findings = enq_doctor(space, 0, report, room);
    reply_begin(r, findings < 0 ? findings : ENQ_OK, enq_why());
    text_member_number(r->out, WIRE_FINDINGS, findings);
    text_member_text(r->out, WIRE_REPORT, report == NULL ? "" : report);
    reply_end(r);
    free(report);
}

void rows_make(struct enq *space, const struct rows_wish *w,
    const struct reply *r)
{
    switch (r->op) {
    case OP_GRAPH:
        make_graph(space, w, r);
        break;
    case OP_STAT:
        make_stat(space, r);
        break;
    case OP_DOCTOR:
        make_doctor(space, r);
        break;
    default:
        make_list(space, w, r);
        break;
    }
}
