/*
 * process.c - base: which process is this (see process.h).
 */
#include "base/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/atomic.h"

#define RENEWING UINT64_MAX

uint64_t *process_page;
static pthread_mutex_t mutex;
static uint64_t lives;
static bool inherited;    /* what the mutex guards is the parent's still */
static int cancel_before; /* of the thread that has the mutex */

/* Not by pthread_once(): what failed for want of memory is tried again. */
static bool have_page(void)
{
    uint64_t *none = NULL;
    void *page;

    if (shm_load_acquire(&process_page) != NULL)
        return true;
    page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
        -1, 0);
    if (page == MAP_FAILED)
        return false;
    if (madvise(page, 4096, MADV_WIPEONFORK) != 0 ||
        !shm_cas(&process_page, &none, page))
        munmap(page, 4096); /* or another thread was quicker */
    return shm_load_acquire(&process_page) != NULL;
}

/* The page is wiped: a new life begins, by exactly one of the threads that see
   it. The mutex is made anew, as it may have been copied locked; and
   `inherited` tells the first thread inside to forget the parent's lists. */
static void begin_life(void)
{
    uint64_t *page = shm_once(process_page);
    uint64_t wiped = 0;

    if (!shm_cas(page, &wiped, RENEWING))
        return;
    pthread_mutex_init(&mutex, NULL);
    inherited = true;
    lives++;
    shm_store_release(page, lives);
}

/* Files are opened and locked under the mutex, which are points at which a
   thread may be cancelled. */
uint64_t process_enter(bool *fresh)
{
    int before;

    if (!have_page())
        return 0;
    begin_life();
    while (shm_load_acquire(shm_once(process_page)) == RENEWING)
        sched_yield();
    ENQ_POINT("process.renewed");
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_mutex_lock(&mutex);
    cancel_before = before;
    *fresh = inherited; /* of two that come at once, the first inside */
    inherited = false;
    return process_life();
}

void process_leave(void)
{
    int before = cancel_before;

    pthread_mutex_unlock(&mutex);
    pthread_setcancelstate(before, NULL);
}
