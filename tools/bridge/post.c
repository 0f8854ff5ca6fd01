/*
 * post.c - what one loop has to tell another (see post.h).
 */
#include "post.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "bridge.h"
#include "say.h"

bool post_begin(struct post *post)
{
    pthread_mutex_init(&post->mutex, NULL);
    CDS_INIT_LIST_HEAD(&post->letters);
    post->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    return post->fd >= 0;
}

void post_end(struct post *post)
{
    close(post->fd);
    pthread_mutex_destroy(&post->mutex);
}

/* Who finds letters there has been rung for, or is about to look. */
void post_send(struct bridge *to, struct letter *letter)
{
    const uint64_t one = 1;
    bool first;

    pthread_mutex_lock(&to->post.mutex);
    first = cds_list_empty(&to->post.letters);
    cds_list_add_tail(&letter->node, &to->post.letters);
    pthread_mutex_unlock(&to->post.mutex);
    if (first && write(to->post.fd, &one, sizeof(one)) < 0)
        say("cannot tell another loop: %s", strerror(errno));
}

void post_take(struct bridge *b)
{
    CDS_LIST_HEAD(letters);
    uint64_t n;

    if (read(b->post.fd, &n, sizeof(n)) < 0)
        return;
    pthread_mutex_lock(&b->post.mutex);
    cds_list_splice(&b->post.letters, &letters);
    CDS_INIT_LIST_HEAD(&b->post.letters);
    pthread_mutex_unlock(&b->post.mutex);
    while (!cds_list_empty(&letters)) {
        struct letter *letter =
            cds_list_first_entry(&letters, struct letter, node);

        cds_list_del(&letter->node);
        letter->open(b, letter);
    }
}
