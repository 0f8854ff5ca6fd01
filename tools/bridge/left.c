/*
 * left.c - what bridges that are gone have left at our space (see left.h).
 */
#include "left.h"

#include <stdio.h>
#include <stdlib.h>

#include "handoff.h"
#include "loop.h"
#include "over.h"
#include "peer.h"
#include "say.h"
#include "session.h"
#include "tag.h"

#define NS_PER_MS INT64_C(1000000)

/* How often we look; for how long at a time; and how much at once. */
#define LOOK_NS INT64_C(1000000000)
#define LOOK_MOST_NS INT64_C(2000000)
#define ORPHANS_AT_ONCE 256u

/* Of one session, seldom more than one: a bridge is killed, too, while it takes
   over what another has left. */
#define HOLDERS_KNOWN 4u

struct left_lock {
    enq_handle handle;
    bool is_adopted;
};

/* A session, as far as the table tells. */
struct left {
    struct table_node by_heir;
    struct cds_list_head node; /* of bridge.left.all */
    uint64_t heir;
    uint64_t holders[HOLDERS_KNOWN]; /* processes that are gone */
    unsigned n_holders;              /* that there ever were */
    int64_t noticed_ns, grace_ms;
    uint32_t walk; /* in which it was seen last */
    struct left_lock *locks;
    size_t n, room;
    char name[SESSION_BYTES]; /* its begin, if it has but adopted locks */
};

/* --- remembered --- */

static struct left *find(struct bridge *b, uint64_t heir)
{
    struct table_node *node = table_find(&b->left.by_heir, heir);

    return node == NULL ? NULL : TABLE_OF(node, struct left, by_heir);
}

/* How long its client may be away its adopted locks do not tell. */
static struct left *make(struct bridge *b, uint64_t heir)
{
    struct left *l = calloc(1, sizeof(*l));

    if (l == NULL)
        return NULL;
    l->heir = heir;
    l->grace_ms = session_grace(b, -1);
    tag_of_heir(heir, l->name);
    cds_list_add_tail(&l->node, &b->left.all);
    table_add(&b->left.by_heir, &l->by_heir, heir);
    return l;
}

static void forget(struct bridge *b, struct left *l)
{
    table_remove(&b->left.by_heir, &l->by_heir);
    cds_list_del(&l->node);
    free(l->locks);
    free(l);
}

/* Without memory it is found by the next walk. */
static void add_lock(struct left *l, enq_handle handle, bool is_adopted)
{
    size_t room = l->room == 0 ? 4 : 2 * l->room;
    struct left_lock *locks;

    if (l->n == l->room) {
        locks = realloc(l->locks, room * sizeof(*locks));
        if (locks == NULL)
            return;
        l->locks = locks;
        l->room = room;
    }
    l->locks[l->n++] = (struct left_lock){handle, is_adopted};
}

static bool is_known(const struct left *l, uint64_t holder)
{
    for (unsigned i = 0; i < l->n_holders && i < HOLDERS_KNOWN; i++)
        if (l->holders[i] == holder)
            return true;
    return false;
}

/* Its time begins when we notice; anew, when somebody had it meanwhile and is
   gone as well. @tag: NULL, if it has adopted this one. */
static void note(struct bridge *b, const struct enq_orphan *orphan,
    uint64_t heir, const struct tag_found *tag)
{
    struct left *l = find(b, heir);

    if (l == NULL)
        l = make(b, heir);
    if (l == NULL) {
        say("out of memory for a session of another bridge");
        return;
    }
    if (l->walk != b->left.walk)
        l->n = 0;
    l->walk = b->left.walk;
    if (!is_known(l, orphan->holder)) {
        l->holders[l->n_holders++ % HOLDERS_KNOWN] = orphan->holder;
        l->noticed_ns = bridge_clock();
    }
    if (tag != NULL) {
        l->grace_ms = session_grace(b, tag->grace_ms);
        strcpy(l->name, tag->session);
    }
    add_lock(l, orphan->handle, tag == NULL);
}

/* --- looking --- */

/* Without a session: its id says all. */
static void take_loose(struct bridge *b, enq_handle handle)
{
    struct enq_info info;

    if (enq_inherit_lock(b->space, handle, 0, &info) == ENQ_OK)
        peer_inherits(b, info.peer, info.handle);
}

static void see(struct bridge *b, const struct enq_orphan *orphan)
{
    struct tag_found tag;
    bool is_tagged = orphan->heir == 0 && tag_read(orphan->peer, &tag);
    uint64_t heir = is_tagged ? tag_heir(tag.session) : orphan->heir;

    if (heir == 0 && b->index == 0)
        take_loose(b, orphan->handle);
    else if (tag_is_heir(heir) && handoff_home(b, heir) == b->index)
        note(b, orphan, heir, is_tagged ? &tag : NULL);
}

/* Some of it; ENQ_PENDING: there is more. */
static int look(struct bridge *b)
{
    struct enq_orphan *found = b->left.found;
    size_t got;
    int rc;

    if ((uint32_t)b->left.at == 0)
        b->left.walk++;
    rc = enq_orphans(b->space, &b->left.at, found, ORPHANS_AT_ONCE, &got);
    for (size_t i = 0; i < got; i++)
        see(b, &found[i]);
    b->left.is_looking = rc == ENQ_PENDING;
    if (rc < 0)
        say("cannot look for the locks that other bridges left: %s", enq_why());
    return rc;
}

static void look_at_all(struct bridge *b)
{
    while (look(b) == ENQ_PENDING)
        continue;
}

/* A walk that is under way may have passed what is left since. */
static void look_anew(struct bridge *b)
{
    if (b->left.is_looking)
        look_at_all(b);
    look_at_all(b);
}

/* --- taken over --- */

/* What it says of itself: 0 if it is none of ours. */
static bool read_lock(const struct left *l, const struct enq_info *info,
    struct tag_found *tag)
{
    if (info->heir == 0)
        return tag_read(info->peer, tag) && strcmp(tag->session, l->name) == 0;
    *tag = (struct tag_found){.on_death = ENQ_DEATH_LEASE};
    strcpy(tag->session, l->name);
    return true;
}

static bool take(struct bridge *b, const struct left *l,
    const struct enq_info *info, struct session **s)
{
    struct tag_found tag;
    struct held h = {
        .handle = info->handle, .token = info->token, .mode = info->mode};

    if (!read_lock(l, info, &tag))
        return false;
    if (*s == NULL)
        *s = session_inherit(b, &tag, l->grace_ms);
    if (*s == NULL)
        return false;
    h.on_death = tag.on_death;
    h.delayed = tag.delayed;
    h.member = (uint16_t)tag.member;
    h.request = tag.request;
    h.was_adopted = info->heir != 0;
    if (!held_room(b, 1)) {
        enq_unlock(b->space, h.handle, h.token);
        return false;
    }
    held_add(b, *s, &h);
    return true;
}

/* While the table has this lock, no other bridge takes the session over: it
   would see a part of its locks as left, and take it. It ends with us.
   ENQ_BUSY: another bridge is at it. */
static int claim(struct bridge *b, uint64_t heir, struct enq_grant *grant)
{
    char name[HEIR_BYTES];

    tag_of_heir(heir, name);
    return enq_lock(b->space,
        ENQ_REQ(.name = "enq-bridge", .key = {"session", name},
            .mode = ENQ_MODE_X, .ttl_ms = ENQ_FOREVER),
        grant);
}

static void disclaim(struct bridge *b, const struct enq_grant *grant)
{
    enq_unlock(b->space, grant->handle, grant->token);
}

/* What is not there any more another bridge has, or has been adopted. */
static struct session *take_all(struct bridge *b, struct left *l)
{
    struct session *s = NULL;
    struct enq_info info;

    for (size_t i = 0; i < l->n; i++)
        if (enq_inherit_lock(b->space, l->locks[i].handle,
                l->locks[i].is_adopted ? l->heir : 0, &info) == ENQ_OK)
            (void)take(b, l, &info, &s);
    forget(b, l);
    return s;
}

static struct session *look_and_take(struct bridge *b, const char *name)
{
    struct session *s;
    struct left *l;

    look_anew(b);
    l = find(b, tag_heir(name));
    if (l != NULL)
        strcpy(l->name, name);
    s = l == NULL ? NULL : take_all(b, l);
    if (s != NULL)
        say_more("resumed session %s of another bridge, with %u locks", s->name,
            s->n_held);
    return s;
}

bool left_resume(struct bridge *b, const char *name, struct session **s)
{
    struct enq_grant grant;
    int rc = claim(b, tag_heir(name), &grant);

    *s = NULL;
    if (rc < 0)
        say("cannot take over a session: %s", enq_why());
    if (rc != ENQ_OK)
        return rc > 0;
    *s = look_and_take(b, name);
    disclaim(b, &grant);
    return true;
}

static bool is_late(const struct bridge *b, const struct left *l)
{
    return b->now_ns >= l->noticed_ns + l->grace_ms * NS_PER_MS;
}

static bool some_are_late(const struct bridge *b)
{
    struct left *l;

    cds_list_for_each_entry (l, &b->left.all, node)
        if (is_late(b, l))
            return true;
    return false;
}

/* Where another is at it, the next tick sees what is left then. A table without
   room for the claim gets some by this. */
static void end_late(struct bridge *b)
{
    struct left *l, *next;
    struct enq_grant grant;
    struct session *s;
    int rc;

    cds_list_for_each_entry_safe (l, next, &b->left.all, node) {
        if (!is_late(b, l))
            continue;
        rc = claim(b, l->heir, &grant);
        if (rc > 0)
            continue;
        s = take_all(b, l);
        if (rc == ENQ_OK)
            disclaim(b, &grant);
        if (s != NULL)
            session_end(b, s);
    }
}

/* --- when --- */

void left_tick(struct bridge *b)
{
    int64_t begin = b->now_ns;

    if (b->left.is_looking || b->now_ns >= b->left.due_ns) {
        b->left.due_ns = b->now_ns + LOOK_NS;
        while (look(b) == ENQ_PENDING && bridge_clock() - begin < LOOK_MOST_NS)
            continue;
    }
    if (some_are_late(b)) { /* or somebody had it since and is gone as well */
        look_anew(b);
        end_late(b);
    }
}

int left_patience(struct bridge *b)
{
    int64_t ms = (b->left.due_ns - b->now_ns) / NS_PER_MS + 1;

    if (b->left.is_looking || !cds_list_empty(&b->left.all))
        return 100;
    return ms < 1 ? 1 : (int)ms;
}

bool left_begin(struct share *share)
{
    size_t locks = 0, sessions = 0;

    for (unsigned i = 0; i < share->n; i++) {
        struct bridge *b = &share->loops[i];
        struct left *l;

        CDS_INIT_LIST_HEAD(&b->left.all);
        b->left.found = calloc(ORPHANS_AT_ONCE, sizeof(*b->left.found));
        if (b->left.found == NULL || !table_begin(&b->left.by_heir))
            return false;
        look_at_all(b);
        cds_list_for_each_entry (l, &b->left.all, node) {
            locks += l->n;
            sessions++;
        }
    }
    if (sessions > 0)
        say("other bridges left %zu locks of %zu sessions, which can be "
            "resumed",
            locks, sessions);
    return true;
}

void left_end(struct bridge *b)
{
    struct left *l, *next;

    cds_list_for_each_entry_safe (l, next, &b->left.all, node)
        forget(b, l);
    table_end(&b->left.by_heir);
    free(b->left.found);
}
