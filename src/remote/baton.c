/*
 * baton.c - remote: who reads the socket. All of it under the mutex.
 *
 * Who waits for an answer reads it himself if nobody else reads: so a call pays
 * for no wake-up of another thread. He takes what comes for others as well, and
 * wakes them. When he goes he wakes one of those who wait still; without any,
 * and if the reader sleeps without an eye on the socket, that one.
 */
#include <sys/socket.h>

#include "remote/client.h"

/* After a lost connection only the reader reads, until there is a new one. */
bool baton_take(struct remote *r)
{
    if (r->reading || r->lost || r->phase != LINK_UP)
        return false;
    r->reading = true;
    r->n_readings++;
    return true;
}

void baton_put(struct remote *r)
{
    r->reading = false;
    if (r->lost)
        pthread_cond_broadcast(&r->turn);
}

void baton_offer(struct remote *r)
{
    if (r->reading || r->lost || r->phase != LINK_UP)
        return;
    if (!cds_list_empty(&r->sleepers)) {
        pthread_cond_signal(
            &cds_list_first_entry(&r->sleepers, struct call, asleep)->done);
    } else if (r->deaf) {
        r->deaf = false;
        remote_ring(r);
    }
}

void baton_lost(struct remote *r)
{
    if (!r->lost)
        remote_ring(r);
    r->lost = true;
}

void baton_withdraw(struct remote *r)
{
    r->lost = true;
    if (r->reading)
        shutdown(r->fd, SHUT_RDWR);
    while (r->reading)
        pthread_cond_wait(&r->turn, &r->mutex);
}
