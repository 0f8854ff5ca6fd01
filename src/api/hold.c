/*
 * hold.c - api: what can be done with a lock of this host's table (see hold.h).
 */
#include "api/hold.h"

#include <errno.h>
#include <string.h>

#include "api/refusal.h"
#include "async/bell.h"
#include "lock/convert.h"
#include "lock/ids.h"
#include "lock/inherit.h"
#include "store/walk.h"
#include "sync/life.h"

int local_explain(int rc, const char *verb)
{
    if (rc > 0)
        return why(rc, "cannot %s: %s", verb, enq_strerror(rc));
    if (rc == ENQ_ECORRUPT)
        return why(rc, "the space is damaged: run lockctl doctor");
    return rc;
}

int local_unlock_set(struct enq *e, struct thread *t,
    const struct enq_grant *grants, size_t n)
{
    int rc = audit(e, t, hold_unlock_set(&e->session, t, grants, n));

    if (unlikely(rc > 0))
        why(rc, "cannot unlock all of the set: %s", enq_strerror(rc));
    else if (unlikely(rc < 0))
        why(rc, "the space is damaged: run lockctl doctor");
    return rc;
}

int local_promote(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token, struct enq_grant *grant)
{
    int rc = convert_promote(&e->session, t, handle, &token, &grant->blocker);

    audit(e, t, rc);
    grant->handle = handle;
    if (rc == ENQ_OK)
        grant->token = token;
    else if (grant->blocker.owner[0] != '\0')
        refusal_promote(rc, &grant->blocker);
    else
        local_explain(rc, "promote");
    return rc;
}

int local_demote(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token)
{
    int rc = audit(e, t, convert_demote(&e->session, t, handle, token));

    return local_explain(rc, "demote");
}

int local_renew(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token, int64_t ttl_ms)
{
    int rc = hold_renew(&e->session, t, handle, token, ttl_ms);

    if (rc == ENQ_OK)
        helper_note(e, handle);
    return local_explain(rc, "renew");
}

/* --- by id --- */

static int not_held(const char *id)
{
    return why(ENQ_NOTHELD, "no lock has the id \"%.127s\"", id);
}

/* Without latches: what a read-only attachment can do. */
struct id_search {
    const struct map *map;
    const char *id;
    enq_handle handle;
};

static bool see_id(void *context, struct entry *e, uint64_t state)
{
    struct id_search *search = context;
    char text[ENQ_ID_BYTES];

    if (!state_is_live(state))
        return true;
    ids_text(search->map, e, state, text);
    if (strcmp(text, search->id) != 0)
        return true;
    search->handle = (uint64_t)STATE_GENERATION(state) << HANDLE_REF_BITS |
        map_ref(search->map, e);
    return false;
}

int local_find(struct enq *e, const char *id, enq_handle *handle)
{
    struct id_search search = {e->map, id, 0};
    struct thread *t;
    int rc;

    if (e->readonly) {
        session_prove_all(e->map);
        slab_each(e->map, see_id, &search);
        *handle = search.handle;
        return *handle != 0 ? ENQ_OK : not_held(id);
    }
    rc = attachment_enter(e, &t);
    if (rc != 0)
        return rc;
    if (ids_find(e->map, t, id, handle) == NULL)
        return not_held(id);
    rc = hold_alive(e->map, *handle);
    if (rc == ENQ_NOTHELD)
        return not_held(id);
    return rc == ENQ_OK ? rc
                        : why(rc, "lock \"%.127s\": %s", id, enq_strerror(rc));
}

int local_id(struct enq *e, enq_handle handle, char *id)
{
    struct entry *entry;
    uint64_t state;

    entry = entry_of_handle(e->map, handle, &state);
    if (entry == NULL || !state_is_live(state))
        return why(ENQ_NOTHELD, "no lock has this handle");
    ids_text(e->map, entry, state, id);
    if (entry_of_handle(e->map, handle, &state) == NULL)
        return why(ENQ_NOTHELD, "no lock has this handle");
    return ENQ_OK;
}

int local_adopt(struct enq *e, struct thread *t, const char *id, uint64_t heir,
    struct enq_grant *grant)
{
    enq_handle handle;
    int rc = local_find(e, id, &handle);

    grant->blocker.owner[0] = '\0';
    if (rc != 0)
        return rc;
    rc = audit(e, t, hold_adopt(&e->session, t, handle, heir, grant));
    if (rc == ENQ_OK)
        helper_note(e, grant->handle);
    if (rc == ENQ_REFUSED)
        return why(rc, "lock \"%.127s\" is not an orphan: its process is alive",
            id);
    return local_explain(rc, "adopt");
}

int local_inherit(struct enq *e, struct thread *t, struct enq_info *out,
    size_t n, size_t *got)
{
    int rc = audit(e, t, inherit(&e->session, t, out, n, got));

    for (size_t i = 0; i < *got; i++)
        helper_note(e, out[i].handle);
    return local_explain(rc, "inherit");
}

int local_inherit_lock(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t heir, struct enq_info *out)
{
    int rc = audit(e, t, inherit_lock(&e->session, t, handle, heir, out));

    if (rc == ENQ_OK)
        helper_note(e, handle);
    if (rc == ENQ_REFUSED)
        return why(rc,
            "nobody left this lock: its holder is alive, or abandoned it, or "
            "held it for itself or for another heir");
    return local_explain(rc, "inherit");
}

int local_abandon(struct enq *e, struct thread *t, enq_handle handle,
    uint64_t token)
{
    int rc = audit(e, t, abandon(&e->session, t, handle, token));

    if (rc == ENQ_REFUSED)
        return why(rc,
            "only a LEASE or KEEP lock of this attachment can be "
            "abandoned");
    return local_explain(rc, "abandon");
}

int local_break(struct enq *e, struct thread *t, const char *id)
{
    enq_handle handle;
    int rc = local_find(e, id, &handle);

    if (rc != 0)
        return rc;
    return local_explain(audit(e, t, hold_break(&e->session, t, handle)),
        "break");
}
