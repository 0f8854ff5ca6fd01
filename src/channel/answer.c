/*
 * answer.c - channel: what a bridge says (see answer.h).
 */
#include "channel/answer.h"

#include <errno.h>
#include <string.h>

#include "wire/names.h"
#include "wire/value.h"

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
    TOP(FIELD_TEXT, WIRE_RC, a.rc),
    TOP(FIELD_TEXT, WIRE_EVENT, a.event),
    TOP(FIELD_I32, WIRE_RESULT, a.result),
    TOP(FIELD_TEXT, WIRE_MSG, a.msg),
    TOP(FIELD_U64, WIRE_TICKET, ticket),
    TOP(FIELD_U64, WIRE_HANDLE, a.handle),
    TOP(FIELD_U64, WIRE_TOKEN, a.token),
    TOP(FIELD_U64, WIRE_reqUUID, a.number), /* of most replies the last */
    TOP(FIELD_VALUE, WIRE_GRANTS, a.grants),
    TOP(FIELD_U32, WIRE_INDEX, a.index),
    TOP(FIELD_TEXT, WIRE_OWNER, a.owner),
    TOP(FIELD_VALUE, WIRE_BLOCKER, blocker),
    TOP(FIELD_TEXT, WIRE_lockUUID, a.id),
    TOP(FIELD_I64, WIRE_TOTAL, a.total),
    TOP(FIELD_VALUE, WIRE_LOCKS, a.rows),
    TOP(FIELD_VALUE, WIRE_EDGES, a.edges),
    TOP(FIELD_VALUE, WIRE_STAT, a.stat),
    TOP(FIELD_I64, WIRE_FINDINGS, a.findings),
    TOP(FIELD_TEXT, WIRE_REPORT, a.report),
    TOP(FIELD_TEXT, WIRE_SESSION, a.session),
    TOP(FIELD_I64, WIRE_GRACE, a.grace_ms),
    TOP(FIELD_I64, WIRE_KEEPALIVE, a.keepalive_ms),
    TOP(FIELD_U8, WIRE_RESUMED, a.resumed),
    TOP(FIELD_VALUE, WIRE_LIMITS, limits),
};

#define BLOCKER(kind, name, member)                                            \
    FIELD(kind, name, struct enq_blocker, member)

static const struct field blockers[] = {
    BLOCKER(FIELD_CHARS, WIRE_owner, owner),
    BLOCKER(FIELD_CHARS, WIRE_id, id),
    BLOCKER(FIELD_I32, WIRE_pid, pid),
    BLOCKER(FIELD_MODE, WIRE_mode, mode),
    BLOCKER(FIELD_U8, WIRE_waiting, waiting),
    BLOCKER(FIELD_U8, WIRE_dying, dying),
    BLOCKER(FIELD_I64, WIRE_age, age_ms),
    BLOCKER(FIELD_I64, WIRE_ttl, ttl_left_ms),
    BLOCKER(FIELD_U32, WIRE_queue, queue),
};

static const struct field limits[] = {
    FIELD(FIELD_I64, WIRE_max_request, struct answer, request_bytes),
    FIELD(FIELD_I64, WIRE_list_max, struct answer, list_entries),
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
    FIELD(FIELD_U64, WIRE_HANDLE, struct enq_grant, handle),
    FIELD(FIELD_U64, WIRE_TOKEN, struct enq_grant, token),
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
    ROW(FIELD_U64, WIRE_handle, handle),
    ROW(FIELD_U64, WIRE_token, token),
    ROW(FIELD_CHARS, WIRE_id, id),
    ROW(FIELD_CHARS, WIRE_name, name),
    FIELD(FIELD_VALUE, WIRE_argument, struct row, key),
    ROW(FIELD_U32, WIRE_literal, literal),
    ROW(FIELD_MODE, WIRE_mode, mode),
    ROW(FIELD_CHARS, WIRE_owner, owner),
    ROW(FIELD_U8, WIRE_waiting, waiting),
    ROW(FIELD_U8, WIRE_orphaned, orphaned),
    ROW(FIELD_U8, WIRE_dying, dying),
    ROW(FIELD_DEATH, WIRE_onDeath, on_death),
    ROW(FIELD_I32, WIRE_pid, pid),
    ROW(FIELD_CHARS, WIRE_peer, peer),
    ROW(FIELD_I64, WIRE_granted, granted_ms),
    ROW(FIELD_I64, WIRE_age, age_ms),
    ROW(FIELD_I64, WIRE_timeout, ttl_ms),
    ROW(FIELD_I64, WIRE_left, ttl_left_ms),
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
    FIELD(FIELD_VALUE, WIRE_waiter, struct ends, waiter),
    FIELD(FIELD_VALUE, WIRE_blocker, struct ends, blocker),
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

static const struct field stat_fields[] = {
    FIELD(FIELD_CHARS, WIRE_space, struct enq_stats, space),
#define TEXT(name) FIELD(FIELD_CHARS, #name, struct enq_stats, name),
#define NUMBER(kind, name) FIELD(FIELD_##kind, #name, struct enq_stats, name),
    STAT_MAP(TEXT, NUMBER)
#undef NUMBER
#undef TEXT
};

void answer_stats(const struct answer *a, struct enq_stats *out)
{
    if (a->stat != NULL)
        fields_read(a->bytes, a->stat, stat_fields, N(stat_fields), out);
}
