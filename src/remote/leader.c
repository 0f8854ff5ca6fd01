/*
 * leader.c - remote: which thread reads the socket. Under the mutex.
 *
 * A caller that waits for an answer reads it itself if nobody else reads: so a
 * request pays for no wake-up of another thread. It takes what comes for others
 * as well, and wakes them. When it goes it wakes one of those that still wait;
 * if there is none, and the reader sleeps without an eye on the socket, the
 * reader.
 */
#include "remote/leader.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "remote/client.h"
#include "remote/pending.h"

/* No signal interrupts it: an eventfd with EFD_NONBLOCK does not sleep. */
void remote_ring(struct remote *r)
{
    uint64_t one = 1;

    (void)syscall(SYS_write, r->bell, &one, sizeof(one));
}

/* After a lost connection only the reader reads, until there is a new one. */
bool leader_take(struct remote *r)
{
    if (r->reading || r->lost || r->phase != LINK_UP)
        return false;
    r->reading = true;
    r->n_readings++;
    return true;
}

void leader_put(struct remote *r)
{
    r->reading = false;
    if (r->lost)
        pthread_cond_broadcast(&r->turn);
}

void leader_offer(struct remote *r)
{
    if (r->reading || r->lost || r->phase != LINK_UP)
        return;
    if (!cds_list_empty(&r->sleepers)) {
        pthread_cond_signal(
            &cds_list_first_entry(&r->sleepers, struct pending, asleep)->done);
    } else if (r->deaf) {
        r->deaf = false;
        remote_ring(r);
    }
}

void leader_lost(struct remote *r)
{
    if (!r->lost)
        remote_ring(r);
    r->lost = true;
}

void leader_withdraw(struct remote *r)
{
    r->lost = true;
    if (r->reading)
        shutdown(r->fd, SHUT_RDWR);
    while (r->reading)
        pthread_cond_wait(&r->turn, &r->mutex);
}
