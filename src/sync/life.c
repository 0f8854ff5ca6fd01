/*
 * life.c - sync: is it dead? (see life.h)
 */
#include "sync/life.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/why.h"
#include "segment/heirs.h"

/*
 * The child of a bare clone() has its parent's thread id in glibc's books,
 * which the kernel does not take for its own, and its parent's robust list,
 * to whose first element a lock of ours would write. A mutex that is on no
 * list tells.
 */
static bool glibc_knows_us(void)
{
    pthread_mutex_t mutex = PTHREAD_ERRORCHECK_MUTEX_INITIALIZER_NP;
    bool known;

    pthread_mutex_lock(&mutex);
    known = mutex.__data.__owner == gettid();
    pthread_mutex_unlock(&mutex);
    return known;
}

/* Does the kernel know glibc's robust list, on which the mutex is first? */
static bool kernel_has_first(const pthread_mutex_t *mutex)
{
    struct robust_list_head *head = NULL;
    const char *first;
    size_t bytes;

    if (syscall(SYS_get_robust_list, 0, &head, &bytes) == 0 && head != NULL) {
        first = (const char *)((uintptr_t)head->list.next & ~(uintptr_t)1);
        return first + head->futex_offset == (const char *)liveness_word(mutex);
    }
    /* asking is refused too: tell it again, and look at the answer */
    head = (void *)mutex->__data.__list.__prev;
    return syscall(SYS_set_robust_list, head, sizeof(*head)) == 0;
}

/* Makes a free robust mutex, of one process or shared: 0, or the errno of
   pthread_*. */
static int robust_init(pthread_mutex_t *mutex, int shared)
{
    pthread_mutexattr_t attr;
    int rc = pthread_mutexattr_init(&attr);

    if (rc != 0)
        return rc;
    rc = pthread_mutexattr_setpshared(&attr, shared);
    if (rc == 0)
        rc = pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    if (rc == 0)
        rc = pthread_mutex_init(mutex, &attr);
    pthread_mutexattr_destroy(&attr);
    return rc;
}

static int ask_kernel(bool *knows)
{
    pthread_mutex_t mutex;
    int rc = robust_init(&mutex, PTHREAD_PROCESS_PRIVATE);

    if (rc == 0)
        rc = pthread_mutex_lock(&mutex);
    if (rc != 0)
        return why(-rc, "cannot make a robust mutex: %s", strerror(rc));
    *knows = kernel_has_first(&mutex);
    pthread_mutex_unlock(&mutex);
    pthread_mutex_destroy(&mutex);
    return 0;
}

int life_possible(void)
{
    bool knows = false;
    int rc;

    if (!glibc_knows_us())
        return why(-EPERM,
            "a bare clone() made this thread, and the C library does not know "
            "it: use fork() or pthread_create()");
    rc = ask_kernel(&knows);
    if (rc != 0 || knows)
        return rc;
    return why(-EPERM,
        "the kernel would not notice this thread's death: set_robust_list(2) "
        "was refused (by a seccomp filter?)");
}

/* FUTEX_WAITERS is set after the lock: a death in between marks the word and
   wakes nobody, which is right, as nobody watches a slot without a `ref`. */
int life_begin(pthread_mutex_t *life)
{
    int rc = robust_init(life, PTHREAD_PROCESS_SHARED);

    if (rc == 0)
        rc = pthread_mutex_lock(life);
    if (rc != 0)
        return -rc;
    ENQ_POINT("life.begun");
    shm_or((uint32_t *)life, FUTEX_WAITERS);
    return 0;
}

void life_end(pthread_mutex_t *life)
{
    pthread_mutex_unlock(life);
    ENQ_POINT("life.ended");
}

enum sign { ALIVE, DEAD, GONE };

/*
 * Is the slot in use by `ref`? Then its liveness word, then `ref` again: if the
 * slot was given to another thread in between, the word says nothing about
 * `ref`, which is gone anyway. Partner of the word: the kernel's store at the
 * death; of `ref`: slot_claim() and slot_free().
 */
static enum sign look(const uint32_t *slot_ref, const pthread_mutex_t *life,
    uint32_t ref)
{
    uint32_t word;

    if (ref == 0 || shm_load_acquire(slot_ref) != ref)
        return GONE;
    word = shm_load_acquire(liveness_word(life));
    if (shm_load_acquire(slot_ref) != ref)
        return GONE;
    /* the kernel wipes out the owner's thread id; so does an owner that has to
       unlock before it gives up its slot (session_end). A damaged word may say
       that the owner died and still have an id: no thread waits for that */
    return (word & FUTEX_TID_MASK) == 0 || liveness_is_dead(word) ? DEAD
                                                                  : ALIVE;
}

static enum sign look_at_thread(const struct map *map, thread_ref_t ref)
{
    const struct thread_slot *slot = at_thread(map, ref);

    return look(&slot->ref, &slot->life, ref);
}

/* --- the end of a whole process --- */

#define LOOK_FIRST_NS 30000
#define LOOK_LAST_NS (10 * NS_PER_MS)

void life_of(const struct map *map, struct process *who)
{
    shm_store(&who->pid, map->self.pid);
    shm_store(&who->pid_space, map->self.pid_space);
    shm_store(&who->lock_at, map->self.lock_at);
    shm_store(&who->dying_ns, 0);
    shm_store(&who->look_ns, 0);
    shm_store(&who->over, 0);
}

/* How long not to look for the proof again: a quarter of the time that it has
   been dying. Its threads mostly end within microseconds of each other; but one
   may be held up in the kernel for ever. */
static int64_t pause_ns(const struct process *who, int64_t now_ns)
{
    int64_t ns = (now_ns - shm_load(&who->dying_ns)) / 4;

    if (ns < LOOK_FIRST_NS)
        return LOOK_FIRST_NS;
    return ns < LOOK_LAST_NS ? ns : LOOK_LAST_NS;
}

/* Of a thousand waiters for a process that lingers, the one that swaps
   `look_ns` looks. Both times are hints in shared memory: a clock that seems to
   go backwards (now < last: damage) is no reason to wait. */
static bool is_my_turn(struct process *who, bool at_once)
{
    int64_t now_ns = sys.now().ns, last = shm_load(&who->look_ns);

    if (shm_load(&who->dying_ns) == 0)
        shm_store(&who->dying_ns, now_ns);
    if (!at_once && now_ns >= last && now_ns - last < pause_ns(who, now_ns))
        return false;
    return shm_cas(&who->look_ns, &last, now_ns) || at_once;
}

/* The proof, looked for and noted. `ref` is the use of the slot that is meant:
   the note names it, so that it says nothing of the slot's next process. A
   read-only mapping cannot take notes: session_prove() keeps them in map->over,
   private to this process. */
static bool prove(const struct map *map, struct process *who, uint32_t ref,
    bool at_once)
{
    if (shm_load_acquire(&who->over) == ref)
        return true;
    if (!map->readonly && !is_my_turn(who, at_once))
        return false;
    if (!sys.ended(map, who))
        return false;
    ENQ_POINT("life.proved");
    if (!map->readonly)
        shm_store_release(&who->over, ref);
    return true;
}

bool session_is_over(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    if (shm_load_acquire(&slot->ref) != ref || ref == 0 ||
        shm_load_acquire(&slot->process.over) == ref)
        return true;
    return unlikely(map->over != NULL) && map->over[ref & SESSION_MASK] == ref;
}

bool session_prove(const struct map *map, session_ref_t ref, bool at_once)
{
    if (!session_is_dead(map, ref))
        return false;
    if (session_is_over(map, ref))
        return true;
    if (!prove(map, &at_session(map, ref)->process, ref, at_once))
        return false;
    if (map->over != NULL)
        map->over[ref & SESSION_MASK] = ref;
    return true;
}

void session_prove_all(const struct map *map)
{
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        session_ref_t ref = shm_load_acquire(&map->sessions[i].ref);

        if (ref != 0)
            session_prove(map, ref, true);
    }
}

mono_t session_look_again(const struct map *map, session_ref_t ref)
{
    const struct process *who = &at_session(map, ref)->process;
    mono_t now = sys.now();

    return mono_add_ns(now, pause_ns(who, now.ns));
}

bool session_dies_now(const struct map *map, session_ref_t ref)
{
    return session_look_again(map, ref).ns - sys.now().ns <= 3 * LOOK_FIRST_NS;
}

bool thread_is_dead(const struct map *map, thread_ref_t ref)
{
    thread_ref_t keeper = shm_load(&at_thread(map, ref)->keeper);

    if (look_at_thread(map, ref) != ALIVE)
        return true;
    /* DEAD, not GONE: a keeper whose slot is free says nothing. Its process has
       no attachment any more, or it was reclaimed after those that it kept */
    return keeper != 0 && look_at_thread(map, keeper) == DEAD &&
        prove(map, &at_thread(map, ref)->process, ref, false);
}

static enum sign look_at_session(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    return look(&slot->ref, &slot->life, ref);
}

bool session_is_forsaken(const struct map *map, session_ref_t ref)
{
    return look_at_session(map, ref) != ALIVE;
}

bool session_is_dead(const struct map *map, session_ref_t ref)
{
    enum sign sign = look_at_session(map, ref);

    if (unlikely(sign == DEAD && shm_load(&at_session(map, ref)->heirs) != 0))
        return !heirs_left(map, ref);
    return sign != ALIVE;
}

bool session_watch(const struct map *map, session_ref_t ref,
    struct sys_watch *watch)
{
    const struct session_slot *slot = at_session(map, ref);

    watch->word = liveness_word(&slot->life);
    watch->value = shm_load_acquire(watch->word);
    return !liveness_is_dead(watch->value) &&
        shm_load_acquire(&slot->ref) == ref;
}

static uint32_t place_of(const struct map *map, session_ref_t ref)
{
    return (uint32_t)(at_session(map, ref) - map->sessions);
}

/* Another process's: our own dies as a whole. */
static bool is_neighbour(const struct map *map, session_ref_t ref,
    session_ref_t own)
{
    return ref != 0 &&
        shm_load(&at_session(map, ref)->keeper) !=
        shm_load(&at_session(map, own)->keeper);
}

/* By the word of its helper's thread slot. The session's own word says the
   same, but there waiters sleep as well, of whom the kernel wakes one, which
   may be dying. Here sleep neighbours, and those few that wait for a latch of
   that very thread, who pass it on. */
static bool watch_neighbour(const struct map *map, session_ref_t ref,
    struct sys_watch *watch)
{
    thread_ref_t keeper = shm_load(&at_session(map, ref)->keeper);
    struct sys_watch session;

    watch->word = liveness_word(&at_thread(map, keeper)->life);
    watch->value = shm_load_acquire(watch->word);
    return keeper != 0 && !liveness_is_dead(watch->value) &&
        shm_load_acquire(&at_thread(map, keeper)->ref) == keeper &&
        session_watch(map, ref, &session);
}

bool session_watch_before(const struct map *map, session_ref_t own,
    session_ref_t *before, struct sys_watch *watch, bool *dead)
{
    uint32_t n = map_sessions(map), at = place_of(map, own), i = at;

    if (*before != 0 && watch_neighbour(map, *before, watch))
        return place_of(map, *before) < at;
    for (;;) {
        i = (i == 0 ? n : i) - 1;
        *before = i == at ? 0 : shm_load_acquire(&map->sessions[i].ref);
        if (i == at)
            return false;
        if (!is_neighbour(map, *before, own))
            continue;
        if (watch_neighbour(map, *before, watch))
            return i < at;
        *dead |= session_is_dead(map, *before);
    }
}

/* Our `ref` is there, and then its: one of the two sees the other, as
   notify_session() has a full fence. */
session_ref_t session_behind(const struct map *map, session_ref_t own)
{
    uint32_t n = map_sessions(map), at = place_of(map, own), i = at;
    struct sys_watch watch;
    session_ref_t ref;

    do {
        i = (i + 1) % n;
        ref = i == at ? 0 : shm_load_acquire(&map->sessions[i].ref);
    } while (i != at &&
        (!is_neighbour(map, ref, own) || !watch_neighbour(map, ref, &watch)));
    return ref;
}

void session_unwatch(const struct map *map, thread_ref_t keeper)
{
    sys.wake(liveness_word(&at_thread(map, keeper)->life), INT_MAX);
}

void session_wake_all(const struct map *map)
{
    for (uint32_t i = 0; i < map_sessions(map); i++) {
        struct session_slot *slot = &map->sessions[i];

        if (shm_load(&slot->ref) == 0)
            continue;
        sys.wake(liveness_word(&slot->life), INT_MAX); /* waiters */
        sys.wake(&slot->notifications, INT_MAX);
    }
}
