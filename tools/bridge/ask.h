/*
 * ask.h - a request as it came over the wire: from the values of a JSON object
 * to what it means. Pure: it knows neither connection nor table.
 */
#ifndef BRIDGE_ASK_H
#define BRIDGE_ASK_H

#include "wire/scan.h"
#include <enq.h>

#define ASK_ID_BYTES 65 /* of a reqUUID, with its zero */

/* OP, and the number under which a request may give it. */
#define OP_MAP(X)                                                              \
    X(LOCK, "1")                                                               \
    X(UNLOCK, "2")                                                             \
    X(PROMOTE, "3")                                                            \
    X(LIST, "4")                                                               \
    X(SET, "set")                                                              \
    X(UNSET, "unset")                                                          \
    X(DEMOTE, "demote")                                                        \
    X(RENEW, "renew")                                                          \
    X(VALID, "valid")                                                          \
    X(FIND, "find")                                                            \
    X(ID, "id")                                                                \
    X(ADOPT, "adopt")                                                          \
    X(BREAK, "break")                                                          \
    X(CHECK, "check")                                                          \
    X(CANCEL, "cancel")                                                        \
    X(GRAPH, "graph")                                                          \
    X(STAT, "stat")                                                            \
    X(DOCTOR, "doctor")                                                        \
    X(HELLO, "hello")                                                          \
    X(PING, "ping")                                                            \
    X(GOODBYE, "goodbye")

enum op {
    OP_NONE,
#define X(name, text) OP_##name,
    OP_MAP(X)
#undef X
};

/* One lock of a request. */
struct ask_lock {
    struct enq_req req;      /* on_death is set by whoever asks the library */
    enum enq_death death;    /* as it was told */
    bool has_death, has_key; /* told: onDeath, argument */
    char word[ENQ_KEY_FIELDS_MAX + 2][SCAN_WORD_BYTES]; /* of numbers */
};

/*
 * All texts point into the bytes of the request, or at the words here. NULL:
 * not given.
 */
struct ask {
    enum op op;
    char id[ASK_ID_BYTES]; /* reqUUID; id[0] = 0: none */
    bool has_id, id_is_number;
    const char *wrong; /* what is wrong with it: nothing is done */

    struct ask_lock *locks; /* room for ENQ_SET_MAX, the caller's */
    unsigned n_locks;
    struct enq_grant *grants; /* the same: handles and tokens of OP_UNSET */
    unsigned n_grants;
    bool has_object; /* eleLock or locks */

    const char *uuid, *name, *owner, *ticket, *session, *secret;
    struct ask_lock key; /* name and argument of OP_CHECK */
    enq_handle handle;
    uint64_t token;
    int64_t timeout_ms, limit, grace_ms, version;
    bool start, test, no_deadlock;
    char uuid_word[SCAN_WORD_BYTES];
};

/*
 * @v, @bytes: as scan() found them. The texts among @bytes are changed in
 * place. What is wrong is told by ask->wrong; op, id and has_id are set as far
 * as they could be read.
 *
 * @session: of a client that has said hello: "forever" and "none" may be said,
 * and a missing owner is NULL instead of nobody.
 */
void ask_read(struct ask *ask, struct scan_value *v, char *bytes, bool session);

const char *ask_op_name(enum op op);

#endif
