/*
 * ask.h - a request as it came over the wire: from the values of a JSON object
 * to what it means. Pure: it knows neither connection nor table.
 */
#ifndef BRIDGE_ASK_H
#define BRIDGE_ASK_H

#include "wire/names.h"
#include "wire/value.h"
#include <enq.h>

#define ASK_ID_BYTES 65 /* of a reqUUID, with its zero */

/* One lock of a request. */
struct ask_lock {
    struct enq_req req;      /* on_death is set where the library is asked */
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
