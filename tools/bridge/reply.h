/*
 * reply.h - what is said to a client.
 */
#ifndef BRIDGE_REPLY_H
#define BRIDGE_REPLY_H

#include "ask.h"
#include "wire/text.h"

/* To whom, and about what: a request, or one that has waited. */
struct reply {
    struct text *out;
    enum op op;
    const char *id; /* its reqUUID; NULL: as enqueue-server would say it */
    bool id_is_number;
};

/* A request that is none, or that cannot be served. Without an id. */
void reply_refuse(struct text *out, const char *why);
/* The same to one that may have an id. */
void reply_wrong(const struct reply *r, const char *why);
/* A limit was met. */
void reply_full(const struct reply *r, const char *why);

/*
 * The result of a call, with what it has told: handle and token on ENQ_OK, the
 * blocker on a refusal. @grant may be NULL. @why: enq_why(), or NULL.
 */
void reply_result(const struct reply *r, int result,
    const struct enq_grant *grant, const char *why);
/* A lock whose client chose no id is told which it has got. */
void reply_named(const struct reply *r, const struct enq_grant *grant,
    const char *id);

/* In parts: RC, RESULT and MSG; then what else there is; then the end. */
void reply_begin(const struct reply *r, int result, const char *why);
void reply_end(const struct reply *r);
/* ,"name":id - as the client wrote it: a text or a number. */
void reply_id(struct text *out, const char *name, const char *id, bool number);
/* ,"HANDLE":..,"TOKEN":.. and of a refusal ,"OWNER":..,"BLOCKER":.. */
void reply_grant(struct text *out, const struct enq_grant *grant);
const char *reply_mode(uint8_t mode);
void reply_blocker(struct text *out, const struct enq_blocker *b);
/* ,"GRANTS":[...], or ,"INDEX":n and the blocker. */
void reply_grants(struct text *out, int result, const struct enq_grant *grants,
    unsigned n);

/* An object without RC, up to its end. */
void reply_event(struct text *out, const char *kind, int result);
void reply_event_end(struct text *out);

#endif
