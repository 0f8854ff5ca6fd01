/*
 * spawn.c - base: threads of ours in a program of others (see spawn.h).
 */
#include "base/spawn.h"

#include <link.h>

#include "base/signals.h"

/* glibc takes the thread-local variables of the program and its libraries from
   the thread's stack. */
static int add_tls(struct dl_phdr_info *info, size_t size, void *bytes)
{
    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++)
        if (info->dlpi_phdr[i].p_type == PT_TLS)
            *(size_t *)bytes +=
                info->dlpi_phdr[i].p_memsz + info->dlpi_phdr[i].p_align;
    return 0;
}

int spawn_thread(pthread_t *thread, size_t stack, void *(*run)(void *),
    void *arg)
{
    pthread_attr_t attr;
    pthread_t unknown;
    sigset_t before;
    int rc = pthread_attr_init(&attr);

    if (rc != 0)
        return rc;
    dl_iterate_phdr(add_tls, &stack);
    pthread_attr_setstacksize(&attr, stack);
    if (thread == NULL)
        pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    signals_block(&before);
    rc = pthread_create(thread != NULL ? thread : &unknown, &attr, run, arg);
    signals_restore(&before);
    pthread_attr_destroy(&attr);
    return rc;
}
