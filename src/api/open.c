/*
 * open.c - api: enq_open, enq_close, enq_unlink.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/attachment.h"
#include "api/options.h"
#include "async/bell.h"
#include "async/helper.h"
#include "base/user.h"
#include "recovery/reap.h"
#include "recovery/recover.h"
#include "remote/look.h"
#include "remote/open.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "store/slab.h"
#include "sync/hooks.h"
#include "sync/life.h"

/* --- options --- */

static int check_compat(const char *compat, struct header_wish *make)
{
    int number = mode_table_find(compat == NULL ? "enqueue" : compat);

    if (number < 0)
        return why(-EINVAL,
            "unknown mode table \"%.64s%s\": \"enqueue\" or \"sap\"",
            WHY_CUT(compat));
    make->compat = (uint32_t)number;
    return 0;
}

static int check_opts(const struct enq_open_opts *o, struct map_wish *wish)
{
    wish->make.slots = o->slots == 0 ? SLOTS_DEFAULT : o->slots;
    wish->make.mode = o->mode == 0 ? 0600 : o->mode;
    wish->make.strict = o->strict == ENQ_STRICT_YES;
    wish->readonly = (o->flags & ENQ_OPEN_READONLY) != 0;
    wish->existing = wish->readonly || (o->flags & ENQ_OPEN_EXISTING) != 0;
    if (o->flags & ~(uint32_t)(ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING))
        return why(-EINVAL, "unknown flags %#x in the options", o->flags);
    if (o->strict > ENQ_STRICT_NO)
        return why(-EINVAL,
            "unknown strict %u: %d for yes, %d for no, 0 for as the space is",
            o->strict, ENQ_STRICT_YES, ENQ_STRICT_NO);
    if (wish->make.slots > SLOTS_MAX)
        return why(-EINVAL, "%u slots are too many: at most %u", o->slots,
            SLOTS_MAX);
    if ((wish->make.mode & 0600) != 0600 || wish->make.mode & ~0660u)
        return why(-EINVAL,
            "permissions %04o are not possible: the owner reads and writes, "
            "the group may, others must not",
            o->mode);
    return check_compat(o->compat, &wish->make);
}

/* user@host:pid. Nothing of it is cut: a user with a long name is told by
   number, and no host's name is longer than 64 bytes. */
static void own_owner(char owner[ENQ_OWNER_BYTES])
{
    char host[65] = "localhost", user[USER_NAME_BYTES];

    gethostname(host, sizeof(host) - 1);
    host[sizeof(host) - 1] = '\0';
    user_name(geteuid(), user);
    snprintf(owner, ENQ_OWNER_BYTES, "%s@%s:%d", user, host, (int)getpid());
}

/* The user whose file may be used besides our own and root's: @said by the
   address, or the options. That user makes it: one of ours would be
   refused there. */
static int check_space_owner(const char *said, const char *opted,
    struct map_wish *wish)
{
    const char *user = opted != NULL ? opted : said;
    int rc;

    if (user == NULL)
        return 0;
    if (said != NULL && strcmp(said, user) != 0)
        return why(-EINVAL,
            "the space has two owners: \"%.64s%s\" in the address, \"%.64s%s\" "
            "in the options",
            WHY_CUT(said), WHY_CUT(opted));
    rc = user_find(user, &wish->trusted);
    if (rc == 0 && wish->trusted != geteuid())
        wish->existing = true;
    return rc;
}

static int check_owner(const char *owner, const char *whose)
{
    if (owner == NULL || strnlen(owner, ENQ_OWNER_BYTES) < ENQ_OWNER_BYTES)
        return 0;
    return why(-ENAMETOOLONG,
        "the owner \"%.32s...\"%s is longer than %d bytes", owner, whose,
        ENQ_OWNER_BYTES - 1);
}

static int default_owner(const char *wanted, char owner[ENQ_OWNER_BYTES])
{
    const char *named = wanted != NULL ? wanted : getenv("ENQ_OWNER");
    int rc = check_owner(named, wanted != NULL ? "" : " in $ENQ_OWNER");

    if (rc == 0 && named != NULL)
        memcpy(owner, named, strlen(named) + 1);
    else if (rc == 0)
        own_owner(owner);
    return rc;
}

/* --- what a space is that exists --- */

/* As it was made, by whomever; and as its file is now. */
struct made {
    const char *compat;
    bool strict;
    uint64_t slots;
    uint32_t mode; /* 0: not to be known here */
};

/* What was left at its default is never refused. Fewer slots than asked for
   would be felt when it is too late; more are no harm. The same with users
   that the file keeps out, and those that it lets in. */
static int check_made(const struct enq *e, const struct enq_open_opts *o,
    const struct made *made)
{
    if (o->compat != NULL && strcmp(o->compat, made->compat) != 0)
        return why(ENQ_EDIFFERS,
            "%s has the mode table \"%s\"; you asked for \"%s\"",
            attachment_name(e), made->compat, o->compat);
    if (o->strict != 0 && (o->strict == ENQ_STRICT_YES) != made->strict)
        return why(ENQ_EDIFFERS, "%s is %s; you asked for %s",
            attachment_name(e), made->strict ? "strict" : "not strict",
            made->strict ? "one that is not" : "a strict one");
    if (o->slots > made->slots)
        return why(ENQ_EDIFFERS, "%s has room for %llu locks; you asked for %u",
            attachment_name(e), (unsigned long long)made->slots, o->slots);
    if (o->mode != 0 && (made->mode & ~o->mode) != 0)
        return why(ENQ_EDIFFERS,
            "%s has the permissions %04o; you asked for no more than %04o",
            attachment_name(e), made->mode, o->mode);
    return 0;
}

static int check_space(const struct enq *e, const struct enq_open_opts *o)
{
    const struct seg_header *h = e->map->h;
    struct made made = {e->map->modes->name, e->map->strict, h->slots_max, 0};
    struct stat st;

    if (o->mode != 0 && fstat(e->map->fd, &st) == 0)
        made.mode = st.st_mode & 0777;
    return check_made(e, o, &made);
}

/* Its bridge is asked only where that matters. */
static int check_remote(const struct enq *e, const struct enq_open_opts *o)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc;

    if (o->compat == NULL && o->strict == 0 && o->slots == 0)
        return 0;
    rc = remote_stat(e->remote, &stats);
    if (rc != 0)
        return rc;
    return check_made(e, o,
        &(struct made){stats.compat, stats.strict != 0, stats.slots_max, 0});
}

/* --- open and close --- */

/* To be left again. 0: out of memory, explained. */
static uint64_t enter_process(void)
{
    bool fresh;
    uint64_t life = process_enter(&fresh);

    if (life == 0)
        why(-ENOMEM, "out of memory");
    else if (fresh) {
        map_forget_all();
        helper_forget();
    }
    return life;
}

/* The only place: see sync/hooks.h. Between enter and leave. */
static void set_hooks(void)
{
    if (hooks.recover == NULL)
        hooks = (struct hooks){recover, slab_thread_ends, helper_report_death};
}

static int get_map(struct enq *e, const struct map_wish *wish)
{
    int rc;

    e->life = enter_process();
    if (e->life == 0)
        return -ENOMEM;
    set_hooks();
    rc = map_attach(e->path, wish, &e->map);
    if (rc == 0)
        shm_store(&e->map->attachments, e->map->attachments + 1);
    process_leave();
    return rc;
}

static void put_map(struct enq *e)
{
    bool fresh;

    process_enter(&fresh);
    if (e->life_fd >= 0)
        close(e->life_fd);
    shm_store(&e->map->attachments, e->map->attachments - 1);
    map_put(e->map);
    process_leave();
    thread_leave_idle();
}

/* In the child of a fork the parent may have been changing its lists: they are
   left alone. */
static void discard(struct enq *e)
{
    if (e->life == 0 || e->life == LIFE_REMOTE ||
        process_is(e->life)) /* 0: refused before it began */
        async_end(&e->async);
    else
        async_forget(&e->async);
    free(e);
}

static int begin(struct enq *e, const struct map_wish *wish,
    const struct enq_open_opts *o)
{
    /* before anything is made */
    int rc = e->readonly ? 0 : life_possible();

    if (rc == 0)
        rc = get_map(e, wish);
    if (rc != 0)
        return rc;
    rc = check_space(e, o);
    if (rc == 0 && !e->readonly)
        rc = helper_begin(e);
    if (rc != 0)
        put_map(e);
    return rc;
}

/* A bridge's space exists. */
static int begin_remote(struct enq *e, const char *address,
    const struct enq_open_opts *o)
{
    int rc;
    struct remote_wish wish = {
        enter_process(), address, e->owner, o->token, o->grace_ms};

    if (wish.life == 0)
        return -ENOMEM;
    process_leave();
    e->life = LIFE_REMOTE;
    if (o->cafile != NULL || o->certfile != NULL || o->keyfile != NULL)
        return why(-EOPNOTSUPP,
            "this version has no encryption: give no certificates");
    if (o->grace_ms < 0)
        return why(-EINVAL, "the grace period is negative (%lld ms)",
            (long long)o->grace_ms);
    rc = remote_open(&e->remote, &wish);
    if (rc != 0)
        return rc;
    rc = check_remote(e, o);
    if (rc != 0)
        remote_close(e->remote);
    return rc;
}

static int begin_here(struct enq *e, const char *address,
    const struct enq_open_opts *o, struct map_wish *wish)
{
    const char *owner;
    int rc = file_path(address, e->path, &owner);

    if (rc == 0)
        rc = check_space_owner(owner, o->space_owner, wish);
    return rc == 0 ? begin(e, wish, o) : rc;
}

ENQ_API int enq_open(struct enq **out, const char *address,
    const struct enq_open_opts *opts)
{
    struct enq_open_opts o = {0};
    struct map_wish wish = {0};
    struct enq *e;
    int rc;

    if (out == NULL)
        return why(-EINVAL, "the pointer for the attachment is NULL");
    rc = opts == NULL
        ? 0
        : options_copy(&o, sizeof(o), opts, opts->size, "options");
    if (rc == 0)
        rc = check_opts(&o, &wish);
    if (rc != 0)
        return rc;
    e = calloc(1, sizeof(*e));
    if (e == NULL)
        return why(-ENOMEM, "out of memory");
    e->readonly = wish.readonly;
    e->life_fd = -1;
    async_begin(&e->async);
    address = file_address(address);
    rc = default_owner(o.owner, e->owner);
    if (rc == 0)
        rc = remote_is_named(address) ? begin_remote(e, address, &o)
                                      : begin_here(e, address, &o, &wish);
    if (rc != 0)
        discard(e);
    else
        *out = e;
    return rc;
}

ENQ_API void enq_close(struct enq *e)
{
    struct thread *t;

    if (e == NULL)
        return;
    if (e->remote != NULL)
        remote_close(e->remote);
    else if (process_is(e->life)) {
        if (!e->readonly) {
            t = thread_enter(e->map);
            if (t != NULL)
                retire(&e->session, t);
            helper_end(e);
        }
        put_map(e);
    }
    discard(e);
}

/* --- unlink --- */

/*
 * Those attached are told by a flag in the segment, before the name is free for
 * another: else both would give locks, and tokens, for a moment. It is taken
 * back if the file stays; after a death in between the helpers of the others do
 * that, as they look each second whether the name is gone.
 */
/* Somebody's file at the end of a mistyped path. What was cut off, or is all
   zeros, may be what is left of a space. */
static bool is_strange(const char *path)
{
    uint64_t magic = LAYOUT_MAGIC, none = 0, begin;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    ssize_t n;

    if (fd < 0)
        return false;
    n = read(fd, &begin, sizeof(begin));
    close(fd);
    return n > 0 && memcmp(&begin, &magic, (size_t)n) != 0 &&
        memcmp(&begin, &none, (size_t)n) != 0;
}

static int remove_and_tell(const char *path, const struct map_wish *wish)
{
    struct map *map = NULL;
    int rc = 0;

    /* NULL still: it is damaged, or a stranger's, and goes all the same */
    (void)map_attach(path, wish, &map);
    if (map == NULL && is_strange(path))
        return why(-EINVAL, "%s is not a lock space: it was not removed", path);
    if (map != NULL)
        shm_store_fence(&map->h->unlinked, 1);
    ENQ_POINT("unlink.told");
    if (unlink(path) != 0)
        rc = why(-errno, "cannot remove %s: %s", path, strerror(errno));
    if (map != NULL) /* again: somebody may have taken it back meanwhile */
        shm_store(&map->h->unlinked, rc == 0);
    if (map != NULL)
        map_put(map);
    return rc;
}

ENQ_API int enq_unlink(const char *address)
{
    struct map_wish wish = {.existing = true};
    char path[FILE_PATH_BYTES];
    const char *owner;
    int rc = file_path(address, path, &owner);

    if (rc == 0)
        rc = check_space_owner(owner, NULL, &wish);
    if (rc != 0)
        return rc;
    if (enter_process() == 0)
        return -ENOMEM;
    rc = remove_and_tell(path, &wish);
    process_leave();
    return rc;
}
