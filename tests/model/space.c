/*
 * space.c - the real table, driven by one thread (see space.h).
 */
#include "space.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/mark.h"
#include "recovery/reap.h"
#include "recovery/recover.h"
#include "segment/attach.h"
#include "segment/file.h"
#include "store/mark.h"
#include "sync/hooks.h"
#include "sync/life.h"

int64_t space_now_ns;
const uint32_t *space_wakes[SPACE_WAKES];
unsigned space_n_wakes;

/* --- the machine --- */

static mono_t now(void)
{
    return (mono_t){space_now_ns};
}

/* There is nobody else to wait for. */
static void block(void)
{
    fprintf(stderr, "model: a call that never blocks has blocked\n");
    abort();
}

static void wait_for(const struct sys_watch *watches, unsigned n, mono_t until)
{
    (void)watches, (void)n, (void)until;
    block();
}

static void sleep_on(const struct sys_watch *watch, unsigned n, mono_t until)
{
    (void)watch, (void)n, (void)until;
    block();
}

static void wake(const uint32_t *word, int how_many)
{
    (void)how_many;
    if (space_n_wakes < SPACE_WAKES)
        space_wakes[space_n_wakes++] = word;
}

void space_sleeps(const struct space *s, struct entry *e)
{
    shm_store(&e->asleep, ASLEEP_BY(s->t->ref, ASLEEP_THREAD));
    mark_page(s->map, e);
}

void space_wakes_up(const struct space *s, struct entry *e)
{
    shm_store(&e->asleep, ASLEEP_BY(s->t->ref, ASLEEP_LOOKING));
}

bool space_woke(const struct entry *e)
{
    for (unsigned i = 0; i < space_n_wakes; i++)
        if (space_wakes[i] == (const uint32_t *)&e->state)
            return true;
    return false;
}

/* --- the segment --- */

static bool attach(struct space *s, const struct map_wish *wish)
{
    static unsigned number;
    char address[64], path[FILE_PATH_BYTES];
    bool fresh;
    int rc;

    snprintf(address, sizeof(address), "shm:enq-%smodel-%d-%u", test_mark(),
        (int)getpid(), number++);
    rc = file_path(address, path, &(const char *){NULL});
    s->life = process_enter(&fresh);
    if (rc == 0)
        rc = map_attach(path, wish, &s->map);
    process_leave();
    if (rc != 0)
        return false;
    unlink(path);
    return true;
}

/* All sessions are this process's; one that is dead here has no thread. */
static bool ended(const struct map *map, const struct process *who)
{
    (void)map, (void)who;
    return true;
}

bool space_open(struct space *s, bool sap, bool strict)
{
    struct map_wish wish = {
        .make = {
            .slots = 20000, .compat = sap, .strict = strict, .mode = 0600}};

    sys = (struct sys_ops){now, now, wait_for, sleep_on, wake, ended};
    sys_coarse_lag_ns = 0;
    hooks.drop_magazines = slab_thread_ends;
    space_now_ns = 1000 * NS_PER_S;
    memset(s, 0, sizeof(*s));
    if (!attach(s, &wish))
        return false;
    hooks.recover = recover;
    s->watcher = (struct enq){.life = s->life, .map = s->map, .readonly = true};
    s->t = thread_enter(s->map);
    for (unsigned i = 0; i < SPACE_SESSIONS; i++)
        if (s->t == NULL || !space_begin(s, i))
            return false;
    return true;
}

void space_close(struct space *s)
{
    bool fresh;

    if (s->over != NULL) {
        space_close_over(s);
        return;
    }
    for (unsigned i = 0; i < SPACE_SESSIONS; i++)
        if (s->at[i].map != NULL)
            space_end(s, i);
    thread_leave(s->map);
    process_enter(&fresh);
    map_put(s->map);
    process_leave();
}

/* --- sessions --- */

bool space_begin(struct space *s, unsigned i)
{
    struct enq *e = &s->at[i];

    if (s->over != NULL)
        return space_begin_over(s, i);
    memset(e, 0, sizeof(*e));
    e->life = s->life;
    strcpy(e->owner, "A");
    strcpy(e->path, "the model's space");
    if (session_begin(&e->session, s->t, s->map) != 0)
        return false;
    e->map = s->map;
    /* its requests wait without a thread: a search for cycles is to see
       them */
    shm_store(&e->session.slot->started, 1);
    return true;
}

bool space_end(struct space *s, unsigned i)
{
    struct session *session = &s->at[i].session;
    int rc;

    if (s->over != NULL)
        return space_end_over(s, i);
    rc = retire(session, s->t);
    session_end(session);
    s->at[i].map = NULL;
    return rc == 0;
}

/* The word is left as the kernel leaves it. Unlocked first, so that this
   thread's robust list does not lead through a slot that is used anew. */
session_ref_t space_kill(struct space *s, unsigned i)
{
    struct session *session = &s->at[i].session;
    session_ref_t ref = session->ref;
    uint32_t *word = (uint32_t *)&session->slot->life;

    life_end(&session->slot->life);
    shm_store_release(word, FUTEX_OWNER_DIED | FUTEX_WAITERS);
    slab_session_fini(session);
    s->at[i].map = NULL;
    return ref;
}

/* --- looking --- */

void space_look(struct space *s)
{
    if (enq_list(space_looker(s), NULL, NULL, s->found, SPACE_ENTRIES,
            &s->n_found) != ENQ_OK)
        s->n_found = 0;
}

const struct enq_info *space_find(const struct space *s, enq_handle handle)
{
    for (size_t i = 0; i < s->n_found && i < SPACE_ENTRIES; i++)
        if (s->found[i].handle == handle)
            return &s->found[i];
    return NULL;
}

bool space_has(const struct space *s, enq_handle handle)
{
    uint64_t state;
    struct entry *e = entry_of_handle(s->map, handle, &state);

    return e != NULL && state_is_live(state);
}
