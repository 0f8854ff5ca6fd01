/*
 * hold.c - api: what can be done with a lock once there is one.
 */
#include "lock/hold.h"

#include <errno.h>
#include <string.h>

#include "api/attachment.h"
#include "api/audit.h"
#include "api/away.h"
#include "api/helper.h"
#include "lock/ids.h"
#include "lock/inherit.h"
#include "sync/life.h"

/* Outcomes that need no more words than their own. */
static int say(int rc, const char *verb)
{
    if (rc > 0)
        return why(rc, "cannot %s: %s", verb, enq_strerror(rc));
    if (rc == ENQ_ECORRUPT)
        return why(rc, "the segment is damaged: run lockctl doctor");
    return rc;
}

ENQ_API int enq_unlock(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (unlikely(rc != 0))
        return rc == ATTACHMENT_AWAY ? remote_unlock(e->remote, handle, token)
                                     : rc;
    rc = audit(e, t, hold_unlock(&e->session, t, handle, token));
    return likely(rc == ENQ_OK) ? rc : say(rc, "unlock");
}

static int explain_promote(int rc, const struct enq_blocker *b)
{
    if (b->owner[0] == '\0')
        return say(rc, "promote");
    return why(rc, "cannot promote: %s \"%s\"",
        rc == ENQ_LOST ? "lost to" : "locked by", b->owner);
}

ENQ_API int enq_promote(struct enq *e, enq_handle handle, uint64_t token,
    struct enq_grant *grant)
{
    struct enq_grant unwanted;
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc != 0)
        return rc;
    if (grant == NULL)
        grant = &unwanted;
    if (away) {
        rc = remote_promote(e->remote, handle, token, grant);
        return rc > 0 ? explain_promote(rc, &grant->blocker) : rc;
    }
    rc = hold_promote(&e->session, t, handle, &token, &grant->blocker);
    audit(e, t, rc);
    grant->handle = handle;
    if (rc != ENQ_OK)
        return explain_promote(rc, &grant->blocker);
    grant->token = token;
    return ENQ_OK;
}

ENQ_API int enq_demote(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? remote_demote(e->remote, handle, token)
                                     : rc;
    rc = audit(e, t, hold_demote(&e->session, t, handle, token));
    return say(rc, "demote");
}

ENQ_API int enq_renew(struct enq *e, enq_handle handle, uint64_t token,
    int64_t ttl_ms)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc != 0)
        return rc;
    if (ttl_ms < ENQ_FOREVER)
        return why(-EINVAL, "the ttl is negative (%lld ms)", (long long)ttl_ms);
    if (away)
        return remote_renew(e->remote, handle, token, ttl_ms);
    rc = hold_renew(&e->session, t, handle, token, ttl_ms);
    if (rc == ENQ_OK)
        helper_note(e, handle);
    return say(rc, "renew");
}

ENQ_API int enq_valid(struct enq *e, enq_handle handle)
{
    int rc = attachment_look(e);

    if (unlikely(rc != 0))
        return rc == ATTACHMENT_AWAY ? remote_valid(e->remote, handle) : rc;
    rc = hold_valid(e->map, &e->session, handle);
    return likely(rc == ENQ_OK) ? rc : say(rc, "rely on the lock");
}

/* --- by id --- */

static int judge_id(const char *id)
{
    if (id == NULL || id[0] == '\0')
        return why(-EINVAL, "no id");
    if (strnlen(id, ENQ_ID_BYTES) >= ENQ_ID_BYTES)
        return why(-ENAMETOOLONG, "the id \"%.32s...\" is longer than %d", id,
            ENQ_ID_BYTES - 1);
    return 0;
}

static int not_held(const char *id)
{
    return why(ENQ_NOTHELD, "there is no lock with id \"%.127s\"", id);
}

/* Without lock words: what a read-only attachment can do. */
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

static int find(struct enq *e, const char *id, enq_handle *handle)
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

ENQ_API int enq_find(struct enq *e, const char *id, enq_handle *handle)
{
    int rc = attachment_look(e);
    bool away = attachment_is_away(&rc);

    if (rc == 0)
        rc = judge_id(id);
    if (rc == 0 && handle == NULL)
        rc = why(-EINVAL, "nowhere to put the handle (NULL)");
    if (rc != 0)
        return rc;
    return away ? remote_find(e->remote, id, handle) : find(e, id, handle);
}

ENQ_API int enq_id(struct enq *e, enq_handle handle, char *id)
{
    struct entry *entry;
    uint64_t state;
    int rc = attachment_look(e);
    bool away = attachment_is_away(&rc);

    if (rc == 0 && id == NULL)
        rc = why(-EINVAL, "nowhere to put the id (NULL)");
    if (rc != 0 || away)
        return rc != 0 ? rc : remote_id(e->remote, handle, id);
    entry = entry_of_handle(e->map, handle, &state);
    if (entry == NULL || !state_is_live(state))
        return why(ENQ_NOTHELD, "the handle names no lock");
    ids_text(e->map, entry, state, id);
    if (entry_of_handle(e->map, handle, &state) == NULL)
        return why(ENQ_NOTHELD, "the handle names no lock");
    return ENQ_OK;
}

static int judge_adoption(const char *id, const struct enq_grant *grant)
{
    int rc = judge_id(id);

    if (rc == 0 && grant == NULL)
        rc = why(-EINVAL, "nowhere to put the grant (NULL)");
    return rc;
}

static int adopt(struct enq *e, struct thread *t, const char *id, uint64_t heir,
    struct enq_grant *grant)
{
    enq_handle handle;
    int rc = find(e, id, &handle);

    if (rc != 0)
        return rc;
    grant->blocker.owner[0] = '\0';
    rc = audit(e, t, hold_adopt(&e->session, t, handle, heir, grant));
    if (rc == ENQ_OK)
        helper_note(e, grant->handle);
    if (rc == ENQ_REFUSED)
        return why(rc, "lock \"%.127s\" is no orphan: its process lives", id);
    return say(rc, "adopt");
}

ENQ_API int enq_adopt(struct enq *e, const char *id, struct enq_grant *grant)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc == 0)
        rc = judge_adoption(id, grant);
    if (rc != 0)
        return rc;
    return away ? remote_adopt(e->remote, id, grant)
                : adopt(e, t, id, 0, grant);
}

ENQ_API int enq_adopt_for(struct enq *e, const char *id, uint64_t heir,
    struct enq_grant *grant)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc == 0)
        rc = judge_adoption(id, grant);
    if (rc == 0 && (heir == 0 || heir >= UINT64_C(1) << 63))
        rc = why(-EINVAL, "an heir is a number from 1 to 2^63 - 1");
    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_adopt_for()") : rc;
    return adopt(e, t, id, heir, grant);
}

ENQ_API int enq_inherit(struct enq *e, struct enq_info *out, size_t n,
    size_t *got)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (got != NULL)
        *got = 0;
    if (rc == 0 && (out == NULL || n == 0 || got == NULL))
        rc = why(-EINVAL, "no room for what there is to inherit (NULL, or 0)");
    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_inherit()") : rc;
    rc = audit(e, t, inherit(&e->session, t, out, n, got));
    for (size_t i = 0; i < *got; i++)
        helper_note(e, out[i].handle);
    return say(rc, "inherit");
}

ENQ_API int enq_inherit_lock(struct enq *e, enq_handle handle, uint64_t heir,
    struct enq_info *out)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc == 0 && out == NULL)
        rc = why(-EINVAL, "nowhere to tell what was inherited (NULL)");
    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_inherit_lock()")
                                     : rc;
    rc = audit(e, t, inherit_lock(&e->session, t, handle, heir, out));
    if (rc == ENQ_OK)
        helper_note(e, handle);
    if (rc == ENQ_REFUSED)
        return why(rc,
            "the lock was left by nobody: who holds it lives, or "
            "has abandoned it, or held it for himself or another heir");
    return say(rc, "inherit");
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
            "no room for the locks of the dead (NULL, or fewer than %d)",
            ENQ_ORPHANS_LEAST);
    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_orphans()") : rc;
    return orphans(e->map, at, out, n, got);
}

ENQ_API int enq_abandon(struct enq *e, enq_handle handle, uint64_t token)
{
    struct thread *t;
    int rc = attachment_enter(e, &t);

    if (rc != 0)
        return rc == ATTACHMENT_AWAY ? away_refuse(e, "enq_abandon()") : rc;
    rc = audit(e, t, abandon(&e->session, t, handle, token));
    if (rc == ENQ_REFUSED)
        return why(rc,
            "only a LEASE or KEEP lock of this attachment can be "
            "abandoned");
    return say(rc, "abandon");
}

ENQ_API int enq_break(struct enq *e, const char *id)
{
    struct thread *t;
    enq_handle handle;
    int rc = attachment_enter(e, &t);
    bool away = attachment_is_away(&rc);

    if (rc == 0)
        rc = judge_id(id);
    if (rc == 0 && away)
        return remote_break(e->remote, id);
    if (rc == 0)
        rc = find(e, id, &handle);
    if (rc != 0)
        return rc;
    return say(audit(e, t, hold_break(&e->session, t, handle)), "break");
}
