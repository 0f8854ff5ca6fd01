/*
 * calls.c - api: the calls of enq.h, but for those that open and close, and
 * where it is decided who answers: the table of this host, or a bridge.
 *
 * Each has the same shape. The attachment is entered; arguments are checked;
 * then the table is asked (local_*() of the files beside this one), or the
 * bridge (forward.h where a request has to be checked for it as well, else
 * remote_*() of remote/). What only processes of the space's own host can do
 * ends in only_local().
 */
#include <string.h>

#include "api/forward.h"
#include "api/graph.h"
#include "api/hold.h"
#include "api/life.h"
#include "api/lock.h"
#include "api/look.h"
#include "api/set.h"
#include "api/start.h"
#include "async/event.h"
#include "lock/inherit.h"
#include "remote/event.h"
#include "remote/hold.h"
#include "remote/lock.h"
#include "remote/look.h"
#include "remote/next.h"

/* Could it not be entered? Where it is a bridge's *t is NULL instead. */
static int enter(struct enq *e, struct thread **t)
{
    int rc = attachment_enter(e, t);

    return rc == ATTACHMENT_REMOTE ? 0 : rc;
}

static int look(const struct enq *e)
{
    int rc = attachment_look(e);

    return rc == ATTACHMENT_REMOTE ? 0 : rc;
}

static inline bool is_remote(const struct enq *e)
{
    return e->remote != NULL;
}

static int only_local(const struct enq *e, int rc, const char *what)
{
    return rc == ATTACHMENT_REMOTE ? forward_refuse(e, what) : rc;
}

static int check_pointer(int rc, const void *pointer, const char *what)
{
    return rc != 0 || pointer != NULL
        ? rc
        : why(-EINVAL, "the pointer for the %s is NULL", what);
}

/* Of several, as many as a set may have. */
static int without_blocker(int rc, struct enq_grant *grants, size_t n)
{
    return likely(rc >= 0) ? rc : acquisition_fault(rc, grants, n);
}

/* --- locks are asked for --- */

ENQ_API int enq_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant)
{
    struct acquisition c;
    int rc = attachment_enter(e, &c.t);

    if (unlikely(rc != 0))
        return without_blocker(rc == ATTACHMENT_REMOTE
                ? forward_lock(e, req, grant, &c.retries)
                : rc,
            grant, 1);
    c.e = e;
    return lock_with_arguments(&c, req, grant);
}

ENQ_API int enq_lock_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc == ATTACHMENT_REMOTE)
        rc = forward_lock_set(e, reqs, n, grants);
    else if (likely(rc == 0))
        rc = local_lock_set(e, t, reqs, n, grants);
    return without_blocker(rc, grants, n);
}

static int check_retries(const struct enq_req *req)
{
    return req->retries == 0 ? 0
                             : why(-EINVAL,
                                   "an async request waits in the queue: "
                                   "retries are for enq_lock()");
}

static bool may_wait(const struct enq_req *req)
{
    return req->wait_ms != 0 && (req->flags & ENQ_TEST) == 0;
}

ENQ_API int enq_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket)
{
    struct enq_req copy;
    struct thread *t;
    int rc = enter(e, &t);

    if (ticket != NULL)
        *ticket = 0;
    if (rc == 0)
        rc = lock_copy_request(&req, &copy);
    if (rc == 0 && (grant == NULL || ticket == NULL))
        rc = why(-EINVAL, "the pointer for the grant or the ticket is NULL");
    if (rc == 0)
        rc = check_retries(req);
    if (rc == 0 && !may_wait(req))
        return enq_lock(e, req, grant);
    if (rc == 0)
        rc = is_remote(e) ? forward_start(e, req, grant, ticket)
                          : start_request(e, t, req, grant, ticket);
    return without_blocker(rc, grant, 1);
}

ENQ_API int enq_start_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants, uint64_t *ticket)
{
    const struct enq_req *first = NULL;
    struct enq_req copy;
    struct thread *t;
    int rc = enter(e, &t);

    if (ticket != NULL)
        *ticket = 0;
    if (rc == 0)
        rc = lock_set_check(reqs, n, grants);
    if (rc == 0 && (grants == NULL || ticket == NULL))
        rc = why(-EINVAL, "the pointer for the grants or the ticket is NULL");
    if (rc == 0) {
        first = reqs[0];
        rc = lock_copy_request(&first, &copy);
    }
    if (rc == 0)
        rc = check_retries(first);
    if (rc == 0 && !may_wait(first))
        return enq_lock_set(e, reqs, n, grants);
    if (rc == 0)
        rc = is_remote(e) ? forward_start_set(e, reqs, n, grants, ticket)
                          : local_start_set(e, t, reqs, n, grants, ticket);
    return without_blocker(rc, grants, n);
}

ENQ_API int enq_cancel(struct enq *e, uint64_t ticket)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_cancel(e->remote, ticket)
                        : local_cancel(e, t, ticket);
}

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
    struct thread *t;
    uint32_t retries = 0;
    int rc;

    if (n_retries != NULL)
        *n_retries = 0;
    if (fn == NULL)
        return why(-EINVAL, "the function to run is NULL");
    if (req != NULL && (req->flags & ENQ_TEST) != 0)
        return why(-EINVAL,
            "ENQ_TEST takes no lock, so nothing can run under it");
    rc = enter(e, &t);
    if (rc == 0)
        rc = is_remote(e) ? forward_lock(e, req, &grant, &retries)
                          : local_lock_counting(e, t, req, &grant, &retries);
    if (n_retries != NULL)
        *n_retries = retries;
    return rc != ENQ_OK ? rc : run_and_release(e, &grant, fn, arg, fn_result);
}

/* --- a lock that is held --- */

ENQ_API int enq_unlock(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (unlikely(rc != 0))
        return rc == ATTACHMENT_REMOTE ? remote_unlock(e->remote, handle, token)
                                       : rc;
    return local_unlock(e, t, handle, token);
}

ENQ_API int enq_unlock_set(struct enq *e, const struct enq_grant *grants,
    size_t n)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (likely(rc == 0) && grants == NULL && n > 0)
        rc = why(-EINVAL, "the grants are NULL");
    if (unlikely(rc != 0))
        return rc;
    return unlikely(is_remote(e)) ? remote_unlock_set(e->remote, grants, n)
                                  : local_unlock_set(e, t, grants, n);
}

ENQ_API int enq_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant)
{
    struct enq_grant unwanted;
    struct thread *t;
    int rc = enter(e, &t);

    if (grant == NULL)
        grant = &unwanted;
    if (rc != 0)
        return without_blocker(rc, grant, 1);
    return is_remote(e) ? forward_promote(e, handle, token, grant)
                        : local_promote(e, t, handle, token, grant);
}

ENQ_API int enq_demote(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_demote(e->remote, handle, token)
                        : local_demote(e, t, handle, token);
}

ENQ_API int enq_renew(struct enq *e, enq_handle handle, uint64_t token,
    int64_t ttl_ms)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc != 0)
        return rc;
    if (ttl_ms < ENQ_FOREVER)
        return why(-EINVAL, "the ttl is negative (%lld ms)", (long long)ttl_ms);
    return is_remote(e) ? remote_renew(e->remote, handle, token, ttl_ms)
                        : local_renew(e, t, handle, token, ttl_ms);
}

ENQ_API int enq_valid(struct enq *e, enq_handle handle)
{
    int rc = attachment_look(e);

    if (unlikely(rc != 0))
        return rc == ATTACHMENT_REMOTE ? remote_valid(e->remote, handle) : rc;
    return local_valid(e, handle);
}

ENQ_API int enq_check(struct enq *e, const char *name, const char *const *key,
    uint64_t token)
{
    struct enq_req req = {.size = sizeof(req), .name = name};
    char bytes[KEY_BYTES_MAX];
    struct thread *t;
    struct key packed;
    int rc = enter(e, &t);

    for (unsigned i = 0; key != NULL && key[i] != NULL; i++) {
        if (i == ENQ_KEY_FIELDS_MAX)
            return why(-EINVAL, "the key has more than %d fields",
                ENQ_KEY_FIELDS_MAX);
        req.key[i] = key[i];
    }
    if (rc == 0)
        rc = key_pack(&packed, bytes, sizeof(bytes), &req,
            is_remote(e) ? 0 : e->map->hash_seed);
    if (rc == 0)
        rc = is_remote(e) ? remote_check(e->remote, name, key, token)
                          : hold_check(&e->session, t, &packed, token);
    if (rc == ENQ_LOST)
        return why(rc, "token %llu is not the newest of \"%s\"",
            (unsigned long long)token, name);
    if (rc == ENQ_NOTHELD)
        return why(rc, "no lock with token %llu is held on \"%s\"",
            (unsigned long long)token, name);
    return rc;
}

/* --- by id --- */

static int check_id(const char *id)
{
    if (id == NULL || id[0] == '\0')
        return why(-EINVAL, "no id");
    if (strnlen(id, ENQ_ID_BYTES) >= ENQ_ID_BYTES)
        return why(-ENAMETOOLONG, "the id \"%.32s...\" is longer than %d bytes",
            id, ENQ_ID_BYTES - 1);
    return 0;
}

ENQ_API int enq_find(struct enq *e, const char *id, enq_handle *handle)
{
    int rc = look(e);

    if (rc == 0)
        rc = check_id(id);
    rc = check_pointer(rc, handle, "handle");
    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_find(e->remote, id, handle)
                        : local_find(e, id, handle);
}

ENQ_API int enq_id(struct enq *e, enq_handle handle, char *id)
{
    int rc = check_pointer(look(e), id, "id");

    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_id(e->remote, handle, id)
                        : local_id(e, handle, id);
}

ENQ_API int enq_break(struct enq *e, const char *id)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc == 0)
        rc = check_id(id);
    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_break(e->remote, id) : local_break(e, t, id);
}

/* --- locks of those who are gone --- */

static int check_adoption(const char *id, const struct enq_grant *grant)
{
    return check_pointer(check_id(id), grant, "grant");
}

ENQ_API int enq_adopt(struct enq *e, const char *id, struct enq_grant *grant)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc == 0)
        rc = check_adoption(id, grant);
    if (rc != 0)
        return without_blocker(rc, grant, 1);
    return is_remote(e) ? remote_adopt(e->remote, id, grant)
                        : local_adopt(e, t, id, 0, grant);
}

ENQ_API int enq_adopt_for(struct enq *e, const char *id, uint64_t heir,
    struct enq_grant *grant)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc == 0)
        rc = check_adoption(id, grant);
    if (rc == 0 && (heir == 0 || heir >= UINT64_C(1) << 63))
        rc = why(-EINVAL, "the heir must be a number from 1 to 2^63 - 1");
    if (rc != 0)
        return without_blocker(only_local(e, rc, "enq_adopt_for()"), grant, 1);
    return local_adopt(e, t, id, heir, grant);
}

ENQ_API int enq_inherit(struct enq *e, struct enq_info *out, size_t n,
    size_t *got)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (got != NULL)
        *got = 0;
    if (rc == 0 && (out == NULL || n == 0 || got == NULL))
        rc = why(-EINVAL, "the array for the inherited locks is NULL or empty");
    return rc != 0 ? only_local(e, rc, "enq_inherit()")
                   : local_inherit(e, t, out, n, got);
}

ENQ_API int enq_inherit_lock(struct enq *e, enq_handle handle, uint64_t heir,
    struct enq_info *out)
{
    struct thread *t;
    int rc = check_pointer(attachment_enter(e, &t), out, "inherited lock");

    return rc != 0 ? only_local(e, rc, "enq_inherit_lock()")
                   : local_inherit_lock(e, t, handle, heir, out);
}

ENQ_API int enq_orphans(struct enq *e, uint64_t *at, struct enq_orphan *out,
    size_t n, size_t *got)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (got != NULL)
        *got = 0;
    if (rc == 0 &&
        (at == NULL || out == NULL || n < ENQ_ORPHANS_LEAST || got == NULL))
        rc = why(-EINVAL,
            "the array for the locks of the dead is NULL or has room for fewer "
            "than %d",
            ENQ_ORPHANS_LEAST);
    return rc != 0 ? only_local(e, rc, "enq_orphans()")
                   : orphans(e->map, at, out, n, got);
}

ENQ_API int enq_abandon(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    return rc != 0 ? only_local(e, rc, "enq_abandon()")
                   : local_abandon(e, t, handle, token);
}

ENQ_API int enq_life_fd(struct enq *e)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    return rc != 0 ? only_local(e, rc, "enq_life_fd()") : local_life_fd(e);
}

/* --- events --- */

ENQ_API int enq_fd(struct enq *e)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_fd(e->remote) : event_fd(e);
}

ENQ_API int enq_next(struct enq *e, struct enq_event *event)
{
    struct thread *t;
    int rc = check_pointer(enter(e, &t), event, "event");

    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_next(e->remote, event) : event_next(e, event);
}

/* --- a look --- */

static const char *or_all(const char *text)
{
    return text == NULL || text[0] == '\0' ? NULL : text;
}

/* No lock has such a name or owner: not to be taken for an empty table. */
static int check_filter(const char *what, const char *text, size_t most)
{
    if (text == NULL || strnlen(text, most) < most)
        return 0;
    return why(-ENAMETOOLONG, "the %s \"%.64s...\" is longer than %zu bytes",
        what, text, most - 1);
}

ENQ_API int enq_list(struct enq *e, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total)
{
    int rc = look(e);

    name = or_all(name);
    owner = or_all(owner);
    if (n > 0)
        rc = check_pointer(rc, out, "list");
    if (rc == 0)
        rc = check_filter("object name", name, ENQ_NAME_BYTES);
    if (rc == 0)
        rc = check_filter("owner", owner, ENQ_OWNER_BYTES);
    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_list(e->remote, name, owner, out, n, total)
                        : local_list(e, name, owner, out, n, total);
}

ENQ_API int enq_look(struct enq *e, enq_handle handle, struct enq_info *out)
{
    int rc = check_pointer(attachment_look(e), out, "lock");

    return rc != 0 ? only_local(e, rc, "enq_look()")
                   : local_look(e, handle, out);
}

ENQ_API int enq_graph(struct enq *e, struct enq_edge *out, size_t n,
    size_t *total)
{
    struct thread *t;
    int rc = enter(e, &t);

    if (n > 0)
        rc = check_pointer(rc, out, "edges");
    if (rc != 0)
        return rc;
    return is_remote(e) ? remote_graph(e->remote, out, n, total)
                        : local_graph(e, t, out, n, total);
}

ENQ_API int enq_stat(struct enq *e, struct enq_stats *out)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = look(e);

    if (rc == 0 && (out == NULL || out->size < sizeof(size_t)))
        rc = why(-EINVAL,
            "the pointer for the statistics is NULL, or their size is not set");
    if (rc == 0)
        rc = is_remote(e) ? remote_stat(e->remote, &stats)
                          : local_stat(e, &stats);
    if (rc != 0)
        return rc;
    stats.size = out->size;
    if (out->size > sizeof(stats)) {
        memset((char *)out + sizeof(stats), 0, out->size - sizeof(stats));
        memcpy(out, &stats, sizeof(stats));
    } else {
        memcpy(out, &stats, out->size);
    }
    return ENQ_OK;
}

ENQ_API int enq_doctor(struct enq *e, uint32_t flags, char *report, size_t n)
{
    int rc = look(e);

    if (rc != 0)
        return rc;
    if (report == NULL || n == 0)
        return why(-EINVAL, "the pointer for the report is NULL");
    if (flags & ~(uint32_t)ENQ_DOCTOR_FIX)
        return why(-EINVAL, "unknown flags %#x", flags);
    if (e->readonly && flags != 0)
        return attachment_refuse(e);
    report[0] = '\0';
    if (is_remote(e))
        return flags != 0 ? forward_refuse(e, "mending")
                          : remote_doctor(e->remote, report, n);
    return local_doctor(e, flags, report, n);
}

ENQ_API int enq_dump(struct enq *e, int fd)
{
    int rc = attachment_look(e);

    return rc != 0 ? only_local(e, rc, "a dump") : local_dump(e, fd);
}
