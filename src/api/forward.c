/*
 * forward.c - api: requests for locks of a bridge (see forward.h).
 */
#include "api/forward.h"

#include "api/acquisition.h"
#include "remote/hold.h"
#include "remote/lock.h"
#include "remote/open.h"

int forward_refuse(const struct enq *e, const char *what)
{
    return why(-EOPNOTSUPP,
        "%s is a bridge: %s needs an attachment to the space itself",
        remote_name(e->remote), what);
}

/* --- what is asked for --- */

/* As acquisition_prepare(), without a table. Its key and texts are in *c. */
static int take_sound(struct acquisition *c, const struct ask *lead)
{
    int rc = take_request(c, lead);

    return rc != 0
        ? rc
        : key_pack(&c->ask->key, c->bytes, sizeof(c->bytes), c->req, 0);
}

static int check_one(struct acquisition *c)
{
    c->ask = &c->own;
    return take_sound(c, NULL);
}

static int check_member(struct acquisition *c, const struct enq_req *first,
    struct ask *lead, bool is_first)
{
    int rc = take_sound(c, is_first ? NULL : lead);

    if (rc == 0 && is_first)
        *lead = *c->ask;
    else if (rc == 0)
        rc = lock_set_unity(first, lead, c->req, c->ask);
    return rc;
}

/* Each of this version of the header from now: itself, or a copy. */
struct members {
    const struct enq_req *reqs[ENQ_SET_MAX];
    struct enq_req copies[ENQ_SET_MAX];
};

static int check_set(struct enq *e, struct members *m,
    const struct enq_req *const *reqs, size_t n)
{
    struct acquisition c = {.e = e};
    struct ask lead;
    int rc = 0;

    c.ask = &c.own;
    for (unsigned i = 0; i < n; i++) {
        m->reqs[i] = reqs[i];
        rc = lock_copy_request(&m->reqs[i], &m->copies[i]);
        c.req = m->reqs[i];
        if (rc == 0)
            rc = check_member(&c, m->reqs[0], &lead, i == 0);
        if (rc != 0)
            return lock_set_explain(rc, i);
    }
    return rc;
}

/* --- asking --- */

/* Again and again, if wanted. */
static int attempts(struct enq *e, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants, uint32_t *retries)
{
    bool set = n > 1;
    int64_t step_ms = acquisition_first_step_ms(reqs[0]);
    uint64_t dice = (uintptr_t)grants ^ (uint64_t)sys.now().ns;
    int rc = remote_lock(e->remote, reqs, n, grants, set);

    for (*retries = 0; rc == ENQ_BUSY && *retries < reqs[0]->retries;
         ++*retries) {
        acquisition_pause(&step_ms, &dice);
        rc = remote_lock(e->remote, reqs, n, grants, set);
    }
    return rc;
}

/* In the words of this host's table; of other results the bridge has said why.
 */
static int explain(int rc, const struct ask *ask, const struct enq_grant *grant)
{
    bool known = (rc == ENQ_BUSY || rc == ENQ_TIMEDOUT) &&
        grant->blocker.owner[0] != '\0';

    return known ? acquisition_explain(rc, ask, &grant->blocker) : rc;
}

int forward_lock(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint32_t *retries)
{
    struct enq_grant unwanted;
    struct enq_req copy;
    struct acquisition c = {.e = e};
    int rc = lock_copy_request(&req, &copy);

    *retries = 0;
    if (rc == 0 && grant == NULL && !(req->flags & ENQ_TEST))
        rc = why(-EINVAL, "the pointer for the grant is NULL");
    c.req = req;
    if (rc == 0)
        rc = check_one(&c);
    if (rc != 0)
        return rc;
    if (grant == NULL)
        grant = &unwanted;
    grant->blocker.owner[0] = '\0';
    rc = attempts(e, &req, 1, grant, retries);
    return explain(rc, &c.own, grant);
}

int forward_lock_set(struct enq *e, const struct enq_req *const *reqs, size_t n,
    struct enq_grant *grants)
{
    struct enq_grant unwanted[ENQ_SET_MAX];
    struct members m;
    uint32_t retries;
    int rc = lock_set_check(reqs, n, grants);

    if (rc == 0)
        rc = check_set(e, &m, reqs, n);
    if (rc != 0)
        return rc;
    return attempts(e, m.reqs, n, grants != NULL ? grants : unwanted, &retries);
}

int forward_start(struct enq *e, const struct enq_req *req,
    struct enq_grant *grant, uint64_t *ticket)
{
    struct acquisition c = {.e = e, .req = req};
    int rc = check_one(&c);

    if (rc != 0)
        return rc;
    rc = remote_start(e->remote, &req, 1, grant, false, ticket);
    return explain(rc, &c.own, grant);
}

int forward_start_set(struct enq *e, const struct enq_req *const *reqs,
    size_t n, struct enq_grant *grants, uint64_t *ticket)
{
    struct members m;
    int rc = check_set(e, &m, reqs, n);

    return rc != 0 ? rc
                   : remote_start(e->remote, m.reqs, n, grants, true, ticket);
}

int forward_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant)
{
    int rc = remote_promote(e->remote, handle, token, grant);

    if (rc > 0 && grant->blocker.owner[0] != '\0')
        return refusal_promote(rc, &grant->blocker);
    return rc > 0 ? why(rc, "cannot promote: %s", enq_strerror(rc)) : rc;
}
