/*
 * open.c - floor 5: enq_open, enq_close, enq_unlink.
 */
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/helper.h"
#include "api/options.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "table/heal.h"

int attachment_refuse(const struct enq *e)
{
    if (e == NULL)
        return why(-EINVAL, "no attachment (NULL)");
    if (!process_is(e->life))
        return why(ENQ_EFORKED,
            "the attachment to %s was made by the parent of this process: open "
            "another one here",
            e->path);
    return why(-EROFS, "the attachment to %s is for looking only", e->path);
}

/* --- options --- */

static int judge_compat(const char *compat, struct header_wish *make)
{
    int number = mode_table_find(compat == NULL ? "enqueue" : compat);

    if (number < 0)
        return why(-EINVAL,
            "there is no mode table \"%.64s\": \"enqueue\", "
            "\"sap\"",
            compat);
    make->compat = (uint32_t)number;
    return 0;
}

static int judge_opts(const struct enq_open_opts *o, struct map_wish *wish)
{
    wish->make.slots = o->slots == 0 ? SLOTS_DEFAULT : o->slots;
    wish->make.mode = o->mode == 0 ? 0600 : o->mode;
    wish->make.strict = o->strict != 0;
    wish->readonly = (o->flags & ENQ_OPEN_READONLY) != 0;
    wish->existing = wish->readonly || (o->flags & ENQ_OPEN_EXISTING) != 0;
    if (o->flags & ~(uint32_t)(ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING))
        return why(-EINVAL, "unknown flags %#x in the options", o->flags);
    if (wish->make.slots > SLOTS_MAX)
        return why(-EINVAL, "%u slots are more than %u", o->slots, SLOTS_MAX);
    if ((wish->make.mode & 0600) != 0600 || wish->make.mode & ~0660u)
        return why(-EINVAL,
            "permissions %04o: the owner reads and writes, the group may, "
            "nobody else",
            o->mode);
    if (o->owner != NULL &&
        strnlen(o->owner, ENQ_OWNER_BYTES) >= ENQ_OWNER_BYTES)
        return why(-ENAMETOOLONG, "the owner \"%.32s...\" is longer than %d",
            o->owner, ENQ_OWNER_BYTES - 1);
    return judge_compat(o->compat, &wish->make);
}

/* user@host:pid, cut if need be where it is least telling. */
static void default_owner(const char *wanted, char owner[ENQ_OWNER_BYTES])
{
    char host[65] = "localhost", user[33];
    struct passwd entry, *found = NULL;
    char buf[1024];

    if (wanted == NULL)
        wanted = getenv("ENQ_OWNER");
    if (wanted != NULL && strlen(wanted) < ENQ_OWNER_BYTES) {
        memcpy(owner, wanted, strlen(wanted) + 1);
        return;
    }
    gethostname(host, sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    getpwuid_r(geteuid(), &entry, buf, sizeof(buf), &found);
    if (found != NULL)
        snprintf(user, sizeof(user), "%s", found->pw_name);
    else
        snprintf(user, sizeof(user), "%u", (unsigned)geteuid());
    snprintf(owner, ENQ_OWNER_BYTES, "%s@%s:%d", user, host, (int)getpid());
}

/* --- open and close --- */

static int get_map(struct enq *e, const struct map_wish *wish)
{
    bool fresh;
    int rc;

    e->life = process_enter(&fresh);
    if (e->life == 0)
        return why(-ENOMEM, "out of memory");
    if (fresh) {
        map_forget_all();
        helper_forget();
    }
    rc = map_attach(e->path, wish, &e->map);
    if (rc == 0) {
        e->map->heal = heal;
        shm_store(&e->map->attachments, e->map->attachments + 1);
    }
    process_leave();
    return rc;
}

static void put_map(struct enq *e)
{
    bool fresh;

    process_enter(&fresh);
    shm_store(&e->map->attachments, e->map->attachments - 1);
    map_put(e->map);
    process_leave();
    thread_leave_idle();
}

static int begin(struct enq *e, const struct map_wish *wish)
{
    int rc = get_map(e, wish);

    if (rc != 0 || e->readonly)
        return rc;
    rc = helper_begin(e);
    if (rc != 0)
        put_map(e);
    return rc;
}

ENQ_API int enq_open(struct enq **out, const char *address,
    const struct enq_open_opts *opts)
{
    struct enq_open_opts o = {0};
    struct map_wish wish = {0};
    struct enq *e;
    int rc;

    if (out == NULL)
        return why(-EINVAL, "nowhere to put the attachment (NULL)");
    rc = opts == NULL
        ? 0
        : options_copy(&o, sizeof(o), opts, opts->size, "options");
    if (rc == 0)
        rc = judge_opts(&o, &wish);
    if (rc != 0)
        return rc;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return why(-ENOMEM, "out of memory");
    e->readonly = wish.readonly;
    default_owner(o.owner, e->owner);
    rc = file_path(address, e->path);
    if (rc == 0)
        rc = begin(e, &wish);
    if (rc != 0)
        free(e);
    else
        *out = e;
    return rc;
}

ENQ_API void enq_close(struct enq *e)
{
    struct thread *t;

    if (e == NULL)
        return;
    if (process_is(e->life)) {
        if (!e->readonly) {
            t = thread_enter(e->map);
            if (t != NULL)
                retire(&e->session, t);
            helper_end(e);
        }
        put_map(e);
    }
    free(e);
}

/* --- unlink --- */

/* Those attached are told at once, by a flag in the segment; if somebody else
   removes the file, their helper threads notice within a second. */
static void tell_attached(const char *path)
{
    struct map_wish wish = {.existing = true};
    struct map *map;
    bool fresh;

    if (process_enter(&fresh) == 0)
        return;
    if (fresh) {
        map_forget_all();
        helper_forget();
    }
    if (map_attach(path, &wish, &map) == 0) {
        shm_store(&map->h->unlinked, 1);
        map_put(map);
    }
    process_leave();
}

ENQ_API int enq_unlink(const char *address)
{
    char path[FILE_PATH_BYTES];
    int rc = file_path(address, path);

    if (rc != 0)
        return rc;
    tell_attached(path);
    if (unlink(path) != 0)
        return why(-errno, "cannot remove %s: %s", path, strerror(errno));
    return ENQ_OK;
}
