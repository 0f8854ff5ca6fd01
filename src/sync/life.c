/*
 * life.c - floor 3: is it dead? (see life.h)
 */
#include "sync/life.h"

#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/why.h"

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

/* Is this glibc's list, with the mutex first on it, and the kernel's too? */
static bool kernel_has_first(const pthread_mutex_t *mutex)
{
    struct robust_list_head *head = NULL;
    const char *first;
    size_t bytes;

    if (syscall(SYS_get_robust_list, 0, &head, &bytes) == 0 && head != NULL) {
        first = (const char *)((uintptr_t)head->list.next & ~(uintptr_t)1);
        return first + head->futex_offset == (const char *)life_word(mutex);
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
        return why(-rc, "no robust mutex: %s", strerror(rc));
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
            "this thread was made by a bare clone(), of which the C library "
            "knows nothing: use fork() or pthread_create()");
    rc = ask_kernel(&knows);
    if (rc != 0 || knows)
        return rc;
    return why(-EPERM,
        "the kernel would not notice this thread's death: set_robust_list(2) "
        "was refused, by a seccomp filter?");
}

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

/* Slot in use by `ref`? Then its word, then again: a slot that was given to
   another in between says nothing about us. */
static enum sign look(const uint32_t *slot_ref, const pthread_mutex_t *life,
    uint32_t ref)
{
    uint32_t word;

    if (ref == 0 || shm_load_acquire(slot_ref) != ref)
        return GONE;
    word = shm_load_acquire(life_word(life));
    if (shm_load_acquire(slot_ref) != ref)
        return GONE;
    /* the kernel wipes the owner's id out; so does he, where he had to unlock
       it before he gave up his slot: see session_end(). A word that is damaged
       may say that he died and have his id: nobody waits for that (word.c) */
    return (word & FUTEX_TID_MASK) == 0 || life_word_is_dead(word) ? DEAD
                                                                   : ALIVE;
}

static enum sign look_at_thread(const struct map *map, thread_ref_t ref)
{
    const struct thread_slot *slot = at_thread(map, ref);

    return look(&slot->ref, &slot->life, ref);
}

#define FORSAKEN_NS (500 * NS_PER_MS)

/* SIGKILL reaches the threads of a process one after the other: for some
   microseconds one may run on whose keeper is dead, and as much longer as a
   hypervisor stops the killer in between. */
static bool is_long_forsaken(const struct map *map, struct thread_slot *slot)
{
    int64_t since = shm_load(&slot->forsaken_ns), now = sys.now().ns;

    if (since == 0 && !map->readonly)
        shm_store(&slot->forsaken_ns, now);
    return since != 0 && now - since > FORSAKEN_NS;
}

bool thread_is_dead(const struct map *map, thread_ref_t ref)
{
    thread_ref_t keeper = shm_load(&at_thread(map, ref)->keeper);

    if (look_at_thread(map, ref) != ALIVE)
        return true;
    /* one that is gone says nothing: its process has no attachment, or it was
       cleaned up, after those that it kept */
    return keeper != 0 && look_at_thread(map, keeper) == DEAD &&
        is_long_forsaken(map, at_thread(map, ref));
}

bool session_is_dead(const struct map *map, session_ref_t ref)
{
    const struct session_slot *slot = at_session(map, ref);

    return look(&slot->ref, &slot->life, ref) != ALIVE;
}

bool session_watch(const struct map *map, session_ref_t ref,
    struct sys_watch *watch)
{
    const struct session_slot *slot = at_session(map, ref);

    watch->word = life_word(&slot->life);
    watch->value = shm_load_acquire(watch->word);
    return !life_word_is_dead(watch->value) &&
        shm_load_acquire(&slot->ref) == ref;
}
