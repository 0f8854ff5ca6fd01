/*
 * remote.c - libenq for clients that are not on this host: enq-bridge over
 * the bench's own space, asked by raw sockets (load.h), by npm's client and by
 * our own.
 *
 * A single request at a time is enqueue-server's, as its client sends it. With
 * many under way on a connection they have a reqUUID. A session's locks end
 * with it, its requests may be sent again, and locks go by handle and token:
 * for that there is a row of its own, as Redis has nothing like it.
 */
#include "enq/seat.h"
#include "load/load.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

/* --- the bridge --- */

/* Beside this program. */
static const char *program(void)
{
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);
    char *slash;

    if (n <= 0)
        return NULL;
    path[n] = '\0';
    slash = strrchr(path, '/');
    if (slash == NULL || sizeof(path) - (size_t)(slash - path) < 16)
        return NULL;
    strcpy(slash, "/enq-bridge");
    return access(path, X_OK) == 0 ? path : NULL;
}

const char *enq_remote_declines(const struct trial *t)
{
    (void)t;
    return program() == NULL ? "enq-bridge is not built" : NULL;
}

/* Subjects that take turns are silent in between: none is taken for gone. */
int enq_bridge_start(struct space *space)
{
    struct server *server = &space->bridge;
    char path[PATH_MAX], tcp[64], local[8 + SERVER_PATH_BYTES];
    char *argv[] = {path, "--space", space->address, "--listen", tcp,
        "--listen", local, "--keepalive", "3600000", NULL};
    int rc = server_pick_port(server);

    snprintf(path, sizeof(path), "%s", program());
    snprintf(tcp, sizeof(tcp), "tcp:" SERVER_HOST ":%s", server->port);
    snprintf(server->path, sizeof(server->path), "/tmp/enq-bench-%d.socket",
        (int)getpid());
    snprintf(local, sizeof(local), "unix:%s", server->path);
    return rc == 0 ? server_start(server, argv, server_listens, server) : rc;
}

/* --- raw sockets --- */

static void put_lock(struct load_text *t, const char *owner)
{
    load_put(t,
        "{\"OP\":\"1\",\"eleLock\":{\"name\":\"product\","
        "\"argument\":[\"Computer\",\"");
    load_put_key(t);
    load_put(t, "\"],\"mode\":\"E\",\"owner\":\"");
    load_put(t, owner);
    load_put(t, "\"");
}

/* By an id that the client has chosen, up to their last braces. */
static void put_named(struct load_text *lock, struct load_text *unlock,
    const char *owner)
{
    put_lock(lock, owner);
    load_put(lock, ",\"uuid\":\"");
    load_put_serial(lock);
    load_put(lock, "\"}");
    load_put(unlock, "{\"OP\":\"2\",\"lockUUID\":\"");
    load_put_serial(unlock);
    load_put(unlock, "\"");
}

static void write_old(struct load_text *lock, struct load_text *unlock,
    const void *owner)
{
    put_named(lock, unlock, owner);
    load_put(lock, "}");
    load_put(unlock, "}");
}

static int hear_old(const struct load_lane *lanes, unsigned *lane,
    const char *at, size_t n)
{
    static const char done[] = "{\"RC\":\"0\"}";
    size_t whole = sizeof(done) - 1;

    (void)lanes;
    (void)lane;
    if (memcmp(at, done, n < whole ? n : whole) != 0)
        return -1;
    return n < whole ? 0 : (int)whole;
}

/* A reqUUID is the letter of its lane and a serial number. */
static void put_id(struct load_text *t)
{
    load_put(t, ",\"reqUUID\":\"");
    load_put_lane(t);
    load_put_serial(t);
    load_put(t, "\"");
}

/* A number of its own has no request here: the lane tells them apart. */
static void write_deep(struct load_text *lock, struct load_text *unlock,
    const void *owner)
{
    put_named(lock, unlock, owner);
    load_put(lock, ",\"reqUUID\":\"");
    load_put_lane(lock);
    load_put(lock, "\"}");
    load_put(unlock, ",\"reqUUID\":\"");
    load_put_lane(unlock);
    load_put(unlock, "\"}");
}

static void write_new(struct load_text *lock, struct load_text *unlock,
    const void *owner)
{
    put_lock(lock, owner);
    load_put(lock, "}");
    put_id(lock);
    load_put(lock, "}");
    load_put(unlock, "{\"OP\":\"2\"");
    put_id(unlock);
    unlock->end = "}";
}

#define DONE "{\"RC\":\"0\",\"RESULT\":0"
#define ID ",\"reqUUID\":\""
#define NUMBERED (LOAD_LETTERS + 1) /* bytes of a reqUUID with its number */

/* A line that ends with a reqUUID of @id bytes, the first of them its lane. */
static int hear_line(unsigned *lane, const char *at, size_t n, int id)
{
    const char *end = memchr(at, '\n', n);
    int whole = (int)sizeof(DONE) + (int)sizeof(ID) + id;

    if (end == NULL)
        return 0;
    if (end - at < whole || memcmp(at, DONE, sizeof(DONE) - 1) != 0)
        return -1;
    *lane = (unsigned)(end[-id - 2] - 'a'); /* then come a quote and a brace */
    return (int)(end + 1 - at);
}

static int hear_deep(const struct load_lane *lanes, unsigned *lane,
    const char *at, size_t n)
{
    (void)lanes;
    return hear_line(lane, at, n, 1);
}

static int hear_new(const struct load_lane *lanes, unsigned *lane,
    const char *at, size_t n)
{
    (void)lanes;
    return hear_line(lane, at, n, NUMBERED);
}

/* ,"HANDLE":"...","TOKEN":"..." stands between what is always there. */
static void note_new(struct load_lane *w, const char *at, size_t n)
{
    size_t before = sizeof(DONE) - 1,
           behind = sizeof(ID) - 1 + NUMBERED + sizeof("\"}\n") - 1;

    n = n > before + behind ? n - before - behind : 0;
    w->grant_n = (uint8_t)(n <= sizeof(w->grant) ? n : 0);
    memcpy(w->grant, at + before, w->grant_n);
}

static const struct load_dialect old = {.write = write_old, .hear = hear_old},
                                 deep = {.write = write_deep,
                                     .hear = hear_deep},
                                 new = {.write = write_new,
                                     .hear = hear_new,
                                     .note = note_new,
                                     .hello = "{\"OP\":\"hello\","
                                              "\"version\":1,"
                                              "\"reqUUID\":\"hello\"}\n",
                                     .renumber = true};

int enq_prepare_remote(struct seat *s)
{
    const struct scenario *sc = s->trial->scenario;
    struct load_dialect d = sc->session ? new : sc->depth > 1 ? deep : old;
    const struct space *space = s->arena;
    struct mine *m = s->mine;

    d.arg = m->owner;
    m->load = load_new(s, &space->bridge, &d);
    return m->load == NULL ? -1 : 0;
}

int enq_remote_batch(struct seat *s, uint32_t n)
{
    const struct mine *m = s->mine;

    (void)n;
    return load_run(s, m->load);
}
