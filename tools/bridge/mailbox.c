/*
 * mailbox.c - what one loop has to tell another (see mailbox.h).
 */
#include "mailbox.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bridge.h"
#include "say.h"

bool mailbox_begin(struct mailbox *mailbox)
{
    pthread_mutex_init(&mailbox->mutex, NULL);
    CDS_INIT_LIST_HEAD(&mailbox->messages);
    mailbox->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return mailbox->fd >= 0;
}

void mailbox_end(struct mailbox *mailbox)
{
    close(mailbox->fd);
    pthread_mutex_destroy(&mailbox->mutex);
}

/* If there are messages, its loop has been rung for, or is about to look. */
void mailbox_send(struct bridge *to, struct message *message)
{
    const uint64_t one = 1;
    bool first;

    pthread_mutex_lock(&to->mailbox.mutex);
    first = cds_list_empty(&to->mailbox.messages);
    cds_list_add_tail(&message->node, &to->mailbox.messages);
    pthread_mutex_unlock(&to->mailbox.mutex);
    if (first && write(to->mailbox.fd, &one, sizeof(one)) < 0)
        say("cannot wake another loop: %s", strerror(errno));
}

void mailbox_take(struct bridge *b)
{
    CDS_LIST_HEAD(messages);
    uint64_t n;

    if (read(b->mailbox.fd, &n, sizeof(n)) < 0)
        return;
    pthread_mutex_lock(&b->mailbox.mutex);
    cds_list_splice(&b->mailbox.messages, &messages);
    CDS_INIT_LIST_HEAD(&b->mailbox.messages);
    pthread_mutex_unlock(&b->mailbox.mutex);
    while (!cds_list_empty(&messages)) {
        struct message *message =
            cds_list_first_entry(&messages, struct message, node);

        cds_list_del(&message->node);
        message->open(b, message);
    }
}
