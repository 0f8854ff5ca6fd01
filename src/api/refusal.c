/*
 * refusal.c - api: see refusal.h.
 */
#include "api/refusal.h"

#include <stdio.h>

#include "rules/mode.h"
#include "rules/spec.h"

void refusal_owner(char out[REFUSAL_OWNER_BYTES], const char *owner)
{
    const char *quote = strpbrk(owner, " \"'(),;:") == NULL ? "" : "\"";

    if (owner[0] == '\0')
        snprintf(out, REFUSAL_OWNER_BYTES, "an unnamed owner");
    else
        snprintf(out, REFUSAL_OWNER_BYTES, "%s%s%s", quote, owner, quote);
}

static void put_process(const struct refusal *r, char *out, size_t n)
{
    if (r->dying)
        snprintf(out, n, "pid %d killed but not ended", (int)r->pid);
    else if (r->pid == 0)
        snprintf(out, n, "process gone");
    else
        snprintf(out, n, "pid %d", (int)r->pid);
}

static void put_ttl(const struct refusal *r, char *out, size_t n)
{
    char left[WHY_MS_BYTES];

    out[0] = '\0';
    if (r->waiting)
        return;
    why_ms(left, r->ttl_left_ms);
    if (r->ttl_left_ms == ENQ_FOREVER)
        snprintf(out, n, ", no ttl");
    else
        snprintf(out, n, ", ttl %s left", left);
}

static void put_by(const struct refusal *r, const char *owner, char *text,
    size_t n)
{
    char who[REFUSAL_OWNER_BYTES], age[WHY_MS_BYTES], process[48];
    char ttl[sizeof(", ttl  left") + WHY_MS_BYTES], queue[32] = "";

    refusal_owner(who, owner);
    why_ms(age, r->age_ms);
    put_process(r, process, sizeof(process));
    put_ttl(r, ttl, sizeof(ttl));
    if (r->queue > 0)
        snprintf(queue, sizeof(queue), "; %u waiting", r->queue);
    snprintf(text, n, "%s by %s (mode %c, %s, %s%s)%s",
        r->waiting ? "awaited" : "locked", who, mode_letter(r->mode), age,
        process, ttl, queue);
}

void refusal_words(const void *facts, char *text, size_t n)
{
    const struct refusal *r = facts;
    struct key key = {
        .bytes = r->texts, .fields = r->fields, .generic = r->generic};
    char what[SPEC_BYTES], by[512];

    spec_write(&key, what, sizeof(what));
    put_by(r, r->texts + r->key_bytes, by, sizeof(by));
    snprintf(text, n, "%s%s is %s",
        r->result == ENQ_TIMEDOUT ? "timed out: " : "", what, by);
}

void refusal_by(const struct enq_blocker *b, char *text, size_t n)
{
    struct refusal r = {
        .age_ms = b->age_ms,
        .ttl_left_ms = b->ttl_left_ms,
        .pid = b->pid,
        .queue = b->queue,
        .mode = b->mode,
        .waiting = b->waiting,
        .dying = b->dying,
    };

    put_by(&r, b->owner, text, n);
}

int refusal_promote(int rc, const struct enq_blocker *b)
{
    char owner[REFUSAL_OWNER_BYTES], text[512];

    if (rc == ENQ_LOST) {
        refusal_owner(owner, b->owner);
        return why(rc, "cannot promote: %s promoted first", owner);
    }
    refusal_by(b, text, sizeof(text));
    return why(rc, "cannot promote: the object is %s", text);
}
