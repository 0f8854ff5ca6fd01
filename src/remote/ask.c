/*
 * ask.c - remote: requests as the bridge wants them (see ask.h).
 */
#include "remote/ask.h"

#include <errno.h>
#include <stdio.h>

#include "base/why.h"
#include "rules/mode.h"

void ask_begin(struct text *t, const char *op)
{
    t->n = 0;
    TEXT_PUT(t, "{\"OP\":\"");
    text_put(t, op, strlen(op));
    TEXT_PUT(t, "\"");
}

void ask_end(struct text *t, uint64_t number)
{
    text_member_big(t, "reqUUID", number);
    TEXT_PUT(t, "}\n");
}

/* What is no text on the wire would come out as another. */
int ask_judge(const char *what, const char *text)
{
    return text == NULL || text_is_utf8(text)
        ? 0
        : why(-EILSEQ, "the %s \"%.64s%s\" is not UTF-8, which a bridge needs",
              what, WHY_CUT(text));
}

/* --- members --- */

void ask_grant(struct text *t, enq_handle handle, uint64_t token)
{
    text_member_big(t, "HANDLE", handle);
    if (token != 0)
        text_member_big(t, "TOKEN", token);
}

void ask_timeout(struct text *t, int64_t ms)
{
    if (ms == ENQ_FOREVER)
        text_member_text(t, "timeout", "none");
    else
        text_member_number(t, "timeout", ms);
}

static void put_fields(struct text *t, const char *const *key)
{
    text_member(t, "argument");
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
    text_member_text(t, "name", name);
    put_fields(t, key);
}

size_t ask_grants(struct text *t, const struct enq_grant *grants, size_t n)
{
    size_t told = 0;

    text_member(t, "GRANTS");
    TEXT_PUT(t, "[");
    for (size_t i = 0; i < n; i++) {
        if (grants[i].handle == 0)
            continue;
        if (told > 0)
            TEXT_PUT(t, ",");
        TEXT_PUT(t, "{\"HANDLE\":\"");
        text_unsigned(t, grants[i].handle);
        TEXT_PUT(t, "\"");
        if (grants[i].token != 0)
            text_member_big(t, "TOKEN", grants[i].token);
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
        text_member_text(t, "waitTime", "forever");
        return 0;
    }
    text_member(t, "waitTime");
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
    static const char *const deaths[] = {"release", "lease", "keep"};

    if (req->literal != 0)
        text_member_number(t, "literal", req->literal);
    if (req->on_death != ENQ_DEATH_RELEASE)
        text_member_text(t, "onDeath", deaths[req->on_death]);
    if (req->delay_ms != 0)
        text_member_number(t, "delay", req->delay_ms);
    if (req->id != NULL)
        text_member_text(t, "uuid", req->id);
    if (req->ttl_ms != 0)
        ask_timeout(t, req->ttl_ms);
}

static size_t put_lock(struct text *t, const struct enq_req *req,
    const char *owner)
{
    const char mode[] = {mode_letter(req->mode), '\0'};
    size_t wait_at;

    TEXT_PUT(t, "{\"mode\":");
    text_quote(t, mode);
    ask_key(t, req->name, req->key);
    text_member_text(t, "owner", req->owner != NULL ? req->owner : owner);
    wait_at = put_wait(t, req->wait_ms);
    put_rest(t, req);
    TEXT_PUT(t, "}");
    return wait_at;
}

size_t ask_locks(struct text *t, const struct enq_req *const *reqs, size_t n,
    bool set, const char *owner)
{
    size_t wait_at;

    text_member(t, set ? "locks" : "eleLock");
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
