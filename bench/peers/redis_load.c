/*
 * redis_load.c - what the load says to Redis: SET NX PX, and DEL, or the script
 * that releases a lock that is still ours.
 */
#include "load/load.h"
#include "peers/peer.h"

/* An argument of a request in Redis's protocol, all but its bytes. */
static void put_head(struct load_text *t, size_t bytes)
{
    char head[32];

    snprintf(head, sizeof(head), "$%zu\r\n", bytes);
    load_put(t, head);
}

static void put_arg(struct load_text *t, const char *arg)
{
    put_head(t, strlen(arg));
    load_put(t, arg);
    load_put(t, "\r\n");
}

static void put_key(struct load_text *t)
{
    put_head(t, PEER_KEY_LEN);
    load_put(t, PEER_KEY_FIXED);
    load_put_key(t);
    load_put(t, "\r\n");
}

static void put_token(struct load_text *t)
{
    put_head(t, LOAD_LETTERS);
    load_put_serial(t);
    load_put(t, "\r\n");
}

static void write_set(struct load_text *t)
{
    load_put(t, "*6\r\n");
    put_arg(t, "SET");
    put_key(t);
    put_token(t);
    put_arg(t, "NX");
    put_arg(t, "PX");
    put_arg(t, "900000");
}

static void write_del(struct load_text *lock, struct load_text *unlock,
    const void *arg)
{
    (void)arg;
    write_set(lock);
    load_put(unlock, "*2\r\n");
    put_arg(unlock, "DEL");
    put_key(unlock);
}

static void write_safe(struct load_text *lock, struct load_text *unlock,
    const void *sha)
{
    write_set(lock);
    load_put(unlock, "*5\r\n");
    put_arg(unlock, "EVALSHA");
    put_arg(unlock, sha);
    put_arg(unlock, "1");
    put_key(unlock);
    put_token(unlock);
}

static int hear(const struct load_lane *lanes, unsigned *lane, const char *at,
    size_t n)
{
    const char *done = lanes[*lane].held ? ":1\r\n" : "+OK\r\n";
    size_t whole = strlen(done);

    if (memcmp(at, done, n < whole ? n : whole) != 0)
        return -1;
    return n < whole ? 0 : (int)whole;
}

struct load_dialect load_redis_del(void)
{
    return (struct load_dialect){.write = write_del, .hear = hear};
}

struct load_dialect load_redis_safe(const char *sha)
{
    return (struct load_dialect){.write = write_safe, .hear = hear, .arg = sha};
}
