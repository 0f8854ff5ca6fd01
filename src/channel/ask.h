/*
 * ask.h - channel: requests as the bridge wants them (PROTOCOL.md). Each is
 * begun here, ended by ask_end(). Pure but for the memory of the text.
 */
#ifndef CHANNEL_ASK_H
#define CHANNEL_ASK_H

#include "enq.h"
#include "wire/names.h"
#include "wire/text.h"

/* May it be told at all? NULL may. 0, or -EILSEQ, explained. */
int ask_check(const char *what, const char *text);

/* {"OP":"op" */
void ask_begin(struct text *t, enum op op);

/* ,"HANDLE":..,"TOKEN":.. - a token 0 is not told. */
void ask_grant(struct text *t, enq_handle handle, uint64_t token);

/* ,"timeout":.. */
void ask_timeout(struct text *t, int64_t ms);

/* ,"name":..,"argument":[..] */
void ask_key(struct text *t, const char *name, const char *const *key);

/* ,"GRANTS":[..] - those with a handle. How many. */
size_t ask_grants(struct text *t, const struct enq_grant *grants, size_t n);

/*
 * ,"eleLock":{..} or ,"locks":[..]
 *
 * @owner  of the attachment: for a request that names none
 * Returns: where its waitTime stands, see ask_set_wait(); 0: it does not wait.
 */
size_t ask_locks(struct text *t, const struct enq_req *const *reqs, size_t n,
    bool set, const char *owner);

/* So long shall it wait from now: it is sent a second time. */
void ask_set_wait(struct text *t, size_t at, int64_t ms);

/* ,"reqUUID":..} and a newline. */
void ask_end(struct text *t, uint64_t number);

#endif
