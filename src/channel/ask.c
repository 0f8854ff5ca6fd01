/*
 * ask.c - channel: requests as the bridge wants them (see ask.h).
 */
#include "channel/ask.h"

#include <errno.h>
#include <stdio.h>

#include "base/why.h"
#include "rules/mode.h"

/* What a request begins with, by its operation. */
static const struct {
    const char *text;
    size_t n;
} begins[] = {
#define BEGIN(word) "{" WIRE_KEY(WIRE_OP) "\"" word "\""
#define X(name, word) [OP_##name] = {BEGIN(word), sizeof(BEGIN(word)) - 1},
    OP_MAP(X)
#undef X
#undef BEGIN
};

void ask_begin(struct text *t, enum op op)
{
    t->n = 0;
    text_put(t, begins[op].text, begins[op].n);
}

void ask_end(struct text *t, uint64_t number)
{
    text_member_big(t, WIRE_reqUUID, number);
    TEXT_PUT(t, "}\n");
}

/* What is no text on the wire would come out as another. */
int ask_check(const char *what, const char *text)
{
    return text == NULL || text_is_utf8(text)
        ? 0
        : why(-EILSEQ, "the %s \"%.64s%s\" is not UTF-8: a bridge needs that",
              what, WHY_CUT(text));
}

/* --- members --- */

void ask_grant(struct text *t, enq_handle handle, uint64_t token)
{
    text_member_big(t, WIRE_HANDLE, handle);
    if (token != 0)
        text_member_big(t, WIRE_TOKEN, token);
}

void ask_timeout(struct text *t, int64_t ms)
{
    if (ms == ENQ_FOREVER)
        text_member_text(t, WIRE_timeout, WIRE_none);
    else
        text_member_number(t, WIRE_timeout, ms);
}

static void put_fields(struct text *t, const char *const *key)
{
    text_member(t, WIRE_argument);
    TEXT_PUT(t, "[");
    for (unsigned i = 0; i < ENQ_KEY_FIELDS_MAX && key[i] != NULL; i++) {
        if (i > 0)
            TEXT_PUT(t, ",");
        text_quote(t, key[i]);
    }
    TEXT_PUT(t, "]");
}

void ask_key(struct text *t, const char *name, const char *const *key)
{
    text_member_text(t, WIRE_name, name);
    put_fields(t, key);
}

size_t ask_grants(struct text *t, const struct enq_grant *grants, size_t n)
{
    size_t told = 0;

    text_member(t, WIRE_GRANTS);
    TEXT_PUT(t, "[");
    for (size_t i = 0; i < n; i++) {
        if (grants[i].handle == 0)
            continue;
        if (told > 0)
            TEXT_PUT(t, ",");
        TEXT_PUT(t, "{" WIRE_KEY(WIRE_HANDLE) "\"");
        text_unsigned(t, grants[i].handle);
        TEXT_PUT(t, "\"");
        if (grants[i].token != 0)
            text_member_big(t, WIRE_TOKEN, grants[i].token);
        TEXT_PUT(t, "}");
        told++;
    }
    TEXT_PUT(t, "]");
    return told;
}

/* --- locks --- */

/* Room for any number: what is left are blanks, so that it can be another
   when the request is sent again. */
#define WAIT_BYTES 20

static size_t put_wait(struct text *t, int64_t ms)
{
    if (ms == 0)
        return 0;
    if (ms == ENQ_FOREVER) {
        text_member_text(t, WIRE_waitTime, WIRE_forever);
        return 0;
    }
    text_member(t, WIRE_waitTime);
    TEXT_PUT(t, "                    ");
    if (t->failed)
        return 0;
    ask_set_wait(t, t->n - WAIT_BYTES, ms);
    return t->n - WAIT_BYTES;
}

void ask_set_wait(struct text *t, size_t at, int64_t ms)
{
    char number[WAIT_BYTES + 1];
    int n = snprintf(number, sizeof(number), "%lld", (long long)ms);

    memset(t->bytes + at, ' ', WAIT_BYTES);
    memcpy(t->bytes + at, number, (size_t)n);
}

static void put_rest(struct text *t, const struct enq_req *req)
{
    static const char *const deaths[] = WIRE_DEATHS;

    if (req->literal != 0)
        text_member_number(t, WIRE_literal, req->literal);
    if (req->on_death != ENQ_DEATH_RELEASE)
        text_member_text(t, WIRE_onDeath, deaths[req->on_death]);
    if (req->delay_ms != 0)
        text_member_number(t, WIRE_delay, req->delay_ms);
    if (req->id != NULL)
        text_member_text(t, WIRE_uuid, req->id);
    if (req->ttl_ms != 0)
        ask_timeout(t, req->ttl_ms);
}

static size_t put_lock(struct text *t, const struct enq_req *req,
    const char *owner)
{
    const char mode[] = {mode_letter(req->mode), '\0'};
    size_t wait_at;

    TEXT_PUT(t, "{" WIRE_KEY(WIRE_mode));
    text_quote(t, mode);
    ask_key(t, req->name, req->key);
    text_member_text(t, WIRE_owner, req->owner != NULL ? req->owner : owner);
    wait_at = put_wait(t, req->wait_ms);
    put_rest(t, req);
    TEXT_PUT(t, "}");
    return wait_at;
}

size_t ask_locks(struct text *t, const struct enq_req *const *reqs, size_t n,
    bool set, const char *owner)
{
    size_t wait_at;

    text_member(t, set ? WIRE_locks : WIRE_eleLock);
    if (set)
        TEXT_PUT(t, "[");
    wait_at = put_lock(t, reqs[0], owner);
    for (size_t i = 1; i < n; i++) {
        struct enq_req req = *reqs[i];

        req.wait_ms = 0; /* the first one's counts */
        TEXT_PUT(t, ",");
        put_lock(t, &req, owner);
    }
    if (set)
        TEXT_PUT(t, "]");
    return wait_at;
}
