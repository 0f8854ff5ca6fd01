/*
 * answer.h - channel: what a bridge says: a reply, or an event. Pure.
 */
#ifndef CHANNEL_ANSWER_H
#define CHANNEL_ANSWER_H

#include <stdbool.h>

#include "channel/fields.h"
#include "enq.h"

/* All texts point into what was scanned. */
struct answer {
    char *bytes;
    uint64_t number;   /* reqUUID, or of a result TICKET; 0: none */
    const char *event; /* NULL: a reply */
    const char *rc;    /* NULL: no reply either */
    int32_t result;
    const char *msg; /* "": none */
    enq_handle handle;
    uint64_t token;
    const char *owner; /* "": not told */
    bool has_blocker;
    struct enq_blocker blocker;
    uint32_t index; /* whose blocker it is, of a set */
    const char *id; /* lockUUID */
    int64_t total, findings;
    const char *report;

    const char *session; /* of hello, to the end */
    int64_t grace_ms;    /* -1: not told */
    int64_t keepalive_ms, request_bytes, list_entries;
    uint8_t resumed;

    struct scan_value *grants, *rows, *edges, *stat; /* NULL: none */
};

/* One object. */
void answer_read(struct answer *a, struct scan_value *values, char *bytes);

/* One element of its grants. */
void answer_grant(const struct answer *a, struct scan_value *v,
    struct enq_grant *out);
/* Of a set: @n grants. False: there are not as many. */
bool answer_grants(const struct answer *a, struct enq_grant *out, size_t n);

/* As many rows or edges as there are, at most @n. */
size_t answer_rows(const struct answer *a, struct enq_info *out, size_t n);
size_t answer_edges(const struct answer *a, struct enq_edge *out, size_t n);
void answer_stats(const struct answer *a, struct enq_stats *out);

#endif
