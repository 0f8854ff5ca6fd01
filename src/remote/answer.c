/*
 * answer.c - remote: what a bridge says (see answer.h).
 */
#include "remote/answer.h"

#include <errno.h>
#include <string.h>

#define N(table) (sizeof(table) / sizeof((table)[0]))

/* --- replies and events --- */

/* Read, and then looked into. */
struct raw {
    struct answer a;
    struct scan_value *blocker, *limits;
    uint64_t ticket;
};

#define TOP(kind, name, member) FIELD(kind, name, struct raw, member)

/* PROTOCOL.md; in the order in which the bridge says them. */
static const struct field tops[] = {
    TOP(FIELD_TEXT, "RC", a.rc),
    TOP(FIELD_TEXT, "EVENT", a.event),
    TOP(FIELD_I32, "RESULT", a.result),
    TOP(FIELD_TEXT, "MSG", a.msg),
    TOP(FIELD_U64, "TICKET", ticket),
    TOP(FIELD_U64, "HANDLE", a.handle),
    TOP(FIELD_U64, "TOKEN", a.token),
    TOP(FIELD_U64, "reqUUID", a.number), /* of most replies the last */
    TOP(FIELD_VALUE, "GRANTS", a.grants),
    TOP(FIELD_U32, "INDEX", a.index),
    TOP(FIELD_TEXT, "OWNER", a.owner),
    TOP(FIELD_VALUE, "BLOCKER", blocker),
    TOP(FIELD_TEXT, "lockUUID", a.id),
    TOP(FIELD_I64, "TOTAL", a.total),
    TOP(FIELD_VALUE, "LOCKS", a.rows),
    TOP(FIELD_VALUE, "EDGES", a.edges),
    TOP(FIELD_VALUE, "STAT", a.stat),
    TOP(FIELD_I64, "FINDINGS", a.findings),
    TOP(FIELD_TEXT, "REPORT", a.report),
    TOP(FIELD_TEXT, "SESSION", a.session),
    TOP(FIELD_I64, "GRACE", a.grace_ms),
    TOP(FIELD_I64, "KEEPALIVE", a.keepalive_ms),
    TOP(FIELD_U8, "RESUMED", a.resumed),
    TOP(FIELD_VALUE, "LIMITS", limits),
};

#define BLOCKER(kind, name, member)                                            \
    FIELD(kind, name, struct enq_blocker, member)

static const struct field blockers[] = {
    BLOCKER(FIELD_CHARS, "owner", owner),
    BLOCKER(FIELD_CHARS, "id", id),
    BLOCKER(FIELD_I32, "pid", pid),
    BLOCKER(FIELD_MODE, "mode", mode),
    BLOCKER(FIELD_U8, "waiting", waiting),
    BLOCKER(FIELD_U8, "dying", dying),
    BLOCKER(FIELD_I64, "age", age_ms),
    BLOCKER(FIELD_I64, "ttl", ttl_left_ms),
    BLOCKER(FIELD_U32, "queue", queue),
};

static const struct field limits[] = {
    FIELD(FIELD_I64, "max-request", struct answer, request_bytes),
    FIELD(FIELD_I64, "list-max", struct answer, list_entries),
};

void answer_read(struct answer *a, struct scan_value *values, char *bytes)
{
    struct raw raw = {.a = {.bytes = bytes}};

    raw.a.msg = raw.a.owner = raw.a.id = raw.a.report = "";
    raw.a.total = raw.a.findings = raw.a.grace_ms = -1;
    raw.a.result = -EPROTO; /* unless it says */
    fields_read(raw.a.bytes, values, tops, N(tops), &raw);
    if (raw.blocker != NULL) {
        raw.a.has_blocker = true;
        fields_read(raw.a.bytes, raw.blocker, blockers, N(blockers),
            &raw.a.blocker);
    }
    if (raw.limits != NULL)
        fields_read(raw.a.bytes, raw.limits, limits, N(limits), &raw.a);
    if (raw.a.event != NULL)
        raw.a.number = raw.ticket;
    *a = raw.a;
}

static const struct field grant_fields[] = {
    FIELD(FIELD_U64, "HANDLE", struct enq_grant, handle),
    FIELD(FIELD_U64, "TOKEN", struct enq_grant, token),
};

void answer_grant(const struct answer *a, struct scan_value *v,
    struct enq_grant *out)
{
    out->handle = out->token = 0;
    out->blocker.owner[0] = '\0';
    fields_read(a->bytes, v, grant_fields, N(grant_fields), out);
}

bool answer_grants(const struct answer *a, struct enq_grant *out, size_t n)
{
    struct scan_value *at = fields_first(a->grants);
    size_t i = 0;

    for (; at != NULL && i < n; i++) {
        answer_grant(a, at, &out[i]);
        at = fields_next(a->grants, at);
    }
    return i == n && at == NULL;
}

/* --- lists --- */

struct row {
    struct enq_info info;
    struct scan_value *key;
};

#define ROW(kind, name, member) FIELD(kind, name, struct row, info.member)

static const struct field row_fields[] = {
    ROW(FIELD_U64, "handle", handle),
    ROW(FIELD_U64, "token", token),
    ROW(FIELD_CHARS, "id", id),
    ROW(FIELD_CHARS, "name", name),
    FIELD(FIELD_VALUE, "argument", struct row, key),
    ROW(FIELD_U32, "literal", literal),
    ROW(FIELD_MODE, "mode", mode),
    ROW(FIELD_CHARS, "owner", owner),
    ROW(FIELD_U8, "waiting", waiting),
    ROW(FIELD_U8, "orphaned", orphaned),
    ROW(FIELD_U8, "dying", dying),
    ROW(FIELD_DEATH, "onDeath", on_death),
    ROW(FIELD_I32, "pid", pid),
    ROW(FIELD_CHARS, "peer", peer),
    ROW(FIELD_I64, "granted", granted_ms),
    ROW(FIELD_I64, "age", age_ms),
    ROW(FIELD_I64, "timeout", ttl_ms),
    ROW(FIELD_I64, "left", ttl_left_ms),
};

static void read_key(char *bytes, struct scan_value *key, struct enq_info *out)
{
    struct scan_value *at = fields_first(key);
    size_t used = 0;

    for (; at != NULL; at = fields_next(key, at)) {
        const char *field = scan_text(at, bytes);
        size_t n = field == NULL ? 0 : strlen(field) + 1;

        if (n == 0 || n > sizeof(out->key) - used ||
            out->fields == ENQ_KEY_FIELDS_MAX)
            return; /* no bridge says that */
        memcpy(out->key + used, field, n);
        used += n;
        out->fields++;
    }
}

static void read_row(char *bytes, struct scan_value *v, struct enq_info *out)
{
    struct row row = {{0}, NULL};

    fields_read(bytes, v, row_fields, N(row_fields), &row);
    if (row.key != NULL)
        read_key(bytes, row.key, &row.info);
    *out = row.info;
}

size_t answer_rows(const struct answer *a, struct enq_info *out, size_t n)
{
    struct scan_value *at = fields_first(a->rows);
    size_t i = 0;

    for (; at != NULL && i < n; i++) {
        read_row(a->bytes, at, &out[i]);
        at = fields_next(a->rows, at);
    }
    return i;
}

struct ends {
    struct scan_value *waiter, *blocker;
};

static const struct field end_fields[] = {
    FIELD(FIELD_VALUE, "waiter", struct ends, waiter),
    FIELD(FIELD_VALUE, "blocker", struct ends, blocker),
};

size_t answer_edges(const struct answer *a, struct enq_edge *out, size_t n)
{
    struct scan_value *at = fields_first(a->edges);
    size_t i = 0;

    while (at != NULL && i < n) {
        struct ends ends = {NULL, NULL};

        fields_read(a->bytes, at, end_fields, N(end_fields), &ends);
        if (ends.waiter != NULL && ends.blocker != NULL) {
            read_row(a->bytes, ends.waiter, &out[i].waiter);
            read_row(a->bytes, ends.blocker, &out[i].blocker);
            i++;
        }
        at = fields_next(a->edges, at);
    }
    return i;
}

/* --- counters --- */

#define STAT(kind, name) FIELD(kind, #name, struct enq_stats, name)

static const struct field stat_fields[] = {
    STAT(FIELD_CHARS, space),
    STAT(FIELD_CHARS, uuid),
    STAT(FIELD_CHARS, compat),
    STAT(FIELD_CHARS, overflow_owner),
    STAT(FIELD_U32, layout),
    STAT(FIELD_U32, strict),
    STAT(FIELD_I64, created_ms),
    STAT(FIELD_U64, slots_max),
    STAT(FIELD_U64, held),
    STAT(FIELD_U64, waiting),
    STAT(FIELD_U64, orphaned),
    STAT(FIELD_U64, expired),
    STAT(FIELD_U64, sessions),
    STAT(FIELD_U64, sessions_max),
    STAT(FIELD_U64, threads),
    STAT(FIELD_U64, threads_max),
    STAT(FIELD_U64, bytes_max),
    STAT(FIELD_U64, bytes_used),
    STAT(FIELD_U64, grants),
    STAT(FIELD_U64, refusals),
    STAT(FIELD_U64, waits),
    STAT(FIELD_U64, wait_grants),
    STAT(FIELD_U64, timeouts),
    STAT(FIELD_U64, cancels),
    STAT(FIELD_U64, releases),
    STAT(FIELD_U64, expiries),
    STAT(FIELD_U64, promotes),
    STAT(FIELD_U64, promotes_refused),
    STAT(FIELD_U64, lost),
    STAT(FIELD_U64, forced),
    STAT(FIELD_U64, overflows),
    STAT(FIELD_U64, owner_deaths),
    STAT(FIELD_U64, recoveries),
    STAT(FIELD_U64, contended),
    STAT(FIELD_U32, unlinked),
};

void answer_stats(const struct answer *a, struct enq_stats *out)
{
    if (a->stat != NULL)
        fields_read(a->bytes, a->stat, stat_fields, N(stat_fields), out);
}
