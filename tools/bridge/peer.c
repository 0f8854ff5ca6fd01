/*
 * peer.c - whose connections, sessions, waits and locks there are (see peer.h).
 */
#include "peer.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>

#include "tag.h"

/* So many locks of no session are looked at in a tick. */
#define LOOKS 1024u

/* A lock of no session. */
struct loose {
    struct table_node by_handle;
    struct cds_list_head node;
    struct peer *from;
};

/* Only several loops are in each other's way. */
static void enter(struct share *share)
{
    if (share->n > 1)
        pthread_mutex_lock(&share->peers.mutex);
}

static void leave(struct share *share)
{
    if (share->n > 1)
        pthread_mutex_unlock(&share->peers.mutex);
}

/* --- addresses --- */

/* A host with an IPv6 address has the 2^64 of its network. */
static void network_of(const char *name, char out[PEER_BYTES])
{
    struct in6_addr a;

    snprintf(out, PEER_BYTES, "%s", name);
    if (inet_pton(AF_INET6, name, &a) != 1 || IN6_IS_ADDR_V4MAPPED(&a))
        return;
    memset(a.s6_addr + 8, 0, 8);
    inet_ntop(AF_INET6, &a, out, PEER_BYTES);
}

static struct peer *find(struct share *share, const char *name)
{
    struct table_node *node =
        table_find(&share->peers.by_name, table_hash(name));

    for (; node != NULL; node = table_next(node)) {
        struct peer *peer = TABLE_OF(node, struct peer, by_name);
        if (strcmp(peer->name, name) == 0)
            return peer;
    }
    return NULL;
}

static struct peer *find_or_make(struct share *share, const char *name)
{
    struct peer *peer = find(share, name);

    if (peer == NULL) {
        peer = calloc(1, sizeof(*peer));
        if (peer == NULL)
            return NULL;
        strcpy(peer->name, name);
        table_add(&share->peers.by_name, &peer->by_name, table_hash(name));
    }
    return peer;
}

struct peer *peer_comes(struct share *share, const char *name, int64_t most)
{
    char network[PEER_BYTES];
    struct peer *peer;

    network_of(name, network);
    enter(share);
    peer = find_or_make(share, network);
    if (peer != NULL && peer->conns >= most) {
        peer = NULL;
    } else if (peer != NULL) {
        peer->conns++;
        peer->uses++;
    }
    leave(share);
    return peer;
}

/* By whom it was used; under the mutex. */
static void let_go(struct share *share, struct peer *peer)
{
    if (--peer->uses > 0)
        return;
    table_remove(&share->peers.by_name, &peer->by_name);
    free(peer);
}

void peer_goes(struct share *share, struct peer *peer)
{
    enter(share);
    peer->conns--;
    let_go(share, peer);
    leave(share);
}

struct peer *peer_has_session(struct share *share, struct peer *peer,
    uint32_t locks)
{
    enter(share);
    peer->uses++;
    leave(share);
    peer_count(share, &peer->sessions, 1);
    peer_count(share, &peer->locks, locks);
    return peer;
}

void peer_ends_session(struct share *share, struct peer *peer, uint32_t locks)
{
    peer_count(share, &peer->sessions, -1u);
    peer_count(share, &peer->locks, -locks);
    enter(share);
    let_go(share, peer);
    leave(share);
}

/* --- locks of no session --- */

static struct loose *find_loose(struct share *share, enq_handle handle)
{
    struct table_node *node = table_find(&share->peers.loose, handle);

    return node == NULL ? NULL : TABLE_OF(node, struct loose, by_handle);
}

static void forget(struct share *share, struct loose *l)
{
    table_remove(&share->peers.loose, &l->by_handle);
    cds_list_del(&l->node);
    share->peers.n_loose--;
    peer_count(share, &l->from->locks, -1u);
    let_go(share, l->from);
    free(share->peers.spare);
    share->peers.spare = l;
}

/* Most are held for a moment only: one is kept for the next. */
static struct loose *make_loose(struct share *share)
{
    struct loose *spare = share->peers.spare;

    share->peers.spare = NULL;
    return spare != NULL ? spare : malloc(sizeof(*spare));
}

/* Under the mutex. Without memory it is not counted. */
static void add(struct share *share, struct peer *from, enq_handle handle)
{
    struct loose *l = from == NULL ? NULL : make_loose(share);

    if (l == NULL)
        return;
    l->from = from;
    from->uses++;
    peer_count(share, &from->locks, 1);
    table_add(&share->peers.loose, &l->by_handle, handle);
    cds_list_add_tail(&l->node, &share->peers.all_loose);
    share->peers.n_loose++;
}

void peer_has_lock(struct bridge *b, struct peer *from, enq_handle handle)
{
    char id[ENQ_ID_BYTES];

    enter(b->share);
    add(b->share, from, handle);
    leave(b->share);
    if (b->share->n > 1 && enq_id(b->space, handle, id) != ENQ_OK)
        peer_lost_lock(b->share, handle); /* by another loop, before this */
}

void peer_inherits(struct bridge *b, const char *tag, enq_handle handle)
{
    char name[PEER_BYTES], network[PEER_BYTES];
    size_t n = tag_peer_bytes(tag);

    if (n >= sizeof(name))
        return;
    snprintf(name, sizeof(name), "%.*s", (int)n, tag);
    network_of(name, network);
    enter(b->share);
    if (find_loose(b->share, handle) == NULL)
        add(b->share, find_or_make(b->share, network), handle);
    leave(b->share);
}

void peer_lost_lock(struct share *share, enq_handle handle)
{
    struct loose *l;

    if (share->peers.n_loose == 0)
        return;
    enter(share);
    l = find_loose(share, handle);
    if (l != NULL)
        forget(share, l);
    leave(share);
}

/* Those that have not been looked at for longest are in front. */
void peer_tick(struct bridge *b)
{
    struct share *share = b->share;
    char id[ENQ_ID_BYTES];

    if (b->index != 0 || share->peers.n_loose == 0)
        return;
    enter(share);
    for (size_t n = share->peers.n_loose < LOOKS ? share->peers.n_loose : LOOKS;
         n > 0; n--) {
        struct loose *l =
            cds_list_first_entry(&share->peers.all_loose, struct loose, node);

        cds_list_del(&l->node);
        cds_list_add_tail(&l->node, &share->peers.all_loose);
        if (enq_id(b->space, l->by_handle.key, id) != ENQ_OK)
            forget(share, l);
    }
    leave(share);
}

/* --- begin and end --- */

bool peer_begin(struct share *share)
{
    pthread_mutex_init(&share->peers.mutex, NULL);
    CDS_INIT_LIST_HEAD(&share->peers.all_loose);
    return table_begin(&share->peers.by_name) &&
        table_begin(&share->peers.loose);
}

void peer_end(struct share *share)
{
    while (!cds_list_empty(&share->peers.all_loose))
        forget(share,
            cds_list_first_entry(&share->peers.all_loose, struct loose, node));
    free(share->peers.spare);
    table_end(&share->peers.by_name);
    table_end(&share->peers.loose);
}
