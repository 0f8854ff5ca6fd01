/*
 * process.c - floor 0: which process is this (see process.h).
 */
#include "base/process.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>

#include "base/atomic.h"

#define RENEWING UINT64_MAX

uint64_t *process_page;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t mutex;
static uint64_t lives;

static void make_page(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (page != MAP_FAILED && madvise(page, 4096, MADV_WIPEONFORK) == 0)
        process_page = page;
}

/* The page is wiped: a new life begins, by exactly one of those who see it.
   The parent's mutex may have been copied locked. */
static bool begin_life(void)
{
    uint64_t wiped = 0;

    if (!shm_cas(process_page, &wiped, RENEWING))
        return false;
    pthread_mutex_init(&mutex, NULL);
    lives++;
    shm_store_release(process_page, lives);
    return true;
}

uint64_t process_enter(bool *fresh)
{
    pthread_once(&once, make_page);
    if (process_page == NULL)
        return 0;
    *fresh = begin_life();
    while (shm_load_acquire(process_page) == RENEWING)
        sched_yield();
    pthread_mutex_lock(&mutex);
    return shm_load(process_page);
}

void process_leave(void)
{
    pthread_mutex_unlock(&mutex);
}
