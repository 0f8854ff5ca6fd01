/*
 * with.c - api: enq_with, a critical section; and enq_check, for those who
 * are told a token.
 */
#include <string.h>

#include "api/attachment.h"
#include "api/lock.h"
#include "lock/hold.h"

/* --- a critical section --- */

/* The answer of the unlock says whether it was ours to the end. */
static int run_and_release(struct enq *e, const struct enq_grant *grant,
    int (*fn)(void *arg, const struct enq_grant *grant), void *arg,
    int *fn_result)
{
    int result = fn(arg, grant);

    if (fn_result != NULL)
        *fn_result = result;
    return enq_unlock(e, grant->handle, 0);
}

ENQ_API int enq_with(struct enq *e, const struct enq_req *req,
    int (*fn)(void *arg, const struct enq_grant *grant), void *arg,
    int *fn_result, uint32_t *n_retries)
{
    struct enq_grant grant;
    uint32_t retries = 0;
    int rc;

    if (n_retries != NULL)
        *n_retries = 0;
    if (fn == NULL)
        return why(-EINVAL, "no function to run (NULL)");
    if (req != NULL && (req->flags & ENQ_TEST) != 0)
        return why(-EINVAL, "a test takes no lock to run anything under");
    rc = lock_counting(e, req, &grant, &retries);
    if (n_retries != NULL)
        *n_retries = retries;
    return rc != ENQ_OK ? rc : run_and_release(e, &grant, fn, arg, fn_result);
}

/* --- a third party --- */

ENQ_API int enq_check(struct enq *e, const char *name, const char *const *key,
    uint64_t token)
{
    struct enq_req req = {.size = sizeof(req), .name = name};
    char bytes[KEY_BYTES_MAX];
    struct thread *t;
    struct key packed;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    for (unsigned i = 0; key != NULL && key[i] != NULL; i++) {
        if (i == ENQ_KEY_FIELDS_MAX)
            return why(-EINVAL, "the key has more than %d fields",
                ENQ_KEY_FIELDS_MAX);
        req.key[i] = key[i];
    }
    if (rc == 0)
        rc = key_pack(&packed, bytes, sizeof(bytes), &req,
            away ? 0 : e->map->hash_seed);
    if (rc == 0 && away)
        rc = remote_check(e->remote, name, key, token);
    else if (rc == 0)
        rc = hold_check(&e->session, t, &packed, token);
    if (rc == ENQ_LOST)
        return why(rc, "token %llu is not the newest of \"%s\"",
            (unsigned long long)token, name);
    if (rc == ENQ_NOTHELD)
        return why(rc, "no lock with token %llu is held on \"%s\"",
            (unsigned long long)token, name);
    return rc;
}
