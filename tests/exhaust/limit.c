/*
 * limit.c - promise P12: every limit has a number and an error code, and is
 * tested at one below, at itself, and at one above (full.c has those of the
 * whole table).
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "lib/mark.h"
#include "limit.h"

static char letters[2048]; /* all 'x' */

static const char *of_length(size_t n)
{
    memset(letters, 'x', sizeof(letters) - 1);
    return letters + sizeof(letters) - 1 - n;
}

static int give_back(struct enq *e, int rc, const struct enq_grant *g)
{
    return rc == ENQ_OK ? enq_unlock(e, g->handle, g->token) : rc;
}

int ask(struct enq *e, const struct enq_req *req)
{
    struct enq_grant g;
    int rc = enq_lock(e, req, &g);

    return req->flags & ENQ_TEST ? rc : give_back(e, rc, &g);
}

/* --- texts --- */

static void name_lengths(void)
{
    struct enq *e = open_at(test_space());

    tried(-EINVAL, ask(e, ENQ_REQ(.name = "", .mode = ENQ_MODE_X)));
    for (size_t n = 1; n < ENQ_NAME_BYTES; n++)
        tried(ENQ_OK, ask(e, ENQ_REQ(.name = of_length(n), .mode = 1)));
    tried(-ENAMETOOLONG,
        ask(e, ENQ_REQ(.name = of_length(ENQ_NAME_BYTES), .mode = 1)));
    tried(-ENAMETOOLONG, ask(e, ENQ_REQ(.name = of_length(2000), .mode = 1)));
    must_be_healthy(e);
    enq_close(e);
}

static void owner_lengths(void)
{
    struct enq *e = open_at(test_space()), *other;
    struct enq_open_opts opts = {.size = sizeof(opts)};

    for (size_t n = 0; n < ENQ_OWNER_BYTES; n++)
        tried(ENQ_OK,
            ask(e, ENQ_REQ(.name = "n", .owner = of_length(n), .mode = 1)));
    tried(-ENAMETOOLONG,
        ask(e,
            ENQ_REQ(.name = "n", .owner = of_length(ENQ_OWNER_BYTES),
                .mode = 1)));
    opts.owner = of_length(ENQ_OWNER_BYTES - 1);
    tried(ENQ_OK, enq_open(&other, test_space(), &opts));
    tried(ENQ_OK, ask(other, ENQ_REQ(.name = "n", .mode = 1)));
    enq_close(other);
    opts.owner = of_length(ENQ_OWNER_BYTES);
    tried(-ENAMETOOLONG, enq_open(&other, test_space(), &opts));
    enq_close(e);
}

static void id_lengths(void)
{
    struct enq *e = open_at(test_space());
    enq_handle handle;

    tried(-EINVAL, ask(e, ENQ_REQ(.name = "n", .id = "", .mode = 1)));
    for (size_t n = 1; n < ENQ_ID_BYTES; n++) {
        tried(ENQ_OK,
            ask(e, ENQ_REQ(.name = "n", .id = of_length(n), .mode = 1)));
        tried(ENQ_NOTHELD, enq_find(e, of_length(n), &handle));
    }
    tried(-ENAMETOOLONG,
        ask(e, ENQ_REQ(.name = "n", .id = of_length(ENQ_ID_BYTES), .mode = 1)));
    tried(-ENAMETOOLONG, enq_find(e, of_length(ENQ_ID_BYTES), &handle));
    tried(-ENAMETOOLONG, enq_break(e, of_length(ENQ_ID_BYTES)));
    tried(-EINVAL, enq_break(e, ""));
    enq_close(e);
}

/* So many bytes in so many fields, each with its zero. */
static int ask_key(struct enq *e, unsigned fields, size_t bytes)
{
    struct enq_req req = {.size = sizeof(req), .name = "n", .mode = 1};

    for (unsigned i = 0; i + 1 < fields; i++)
        req.key[i] = "";
    if (fields > 0)
        req.key[fields - 1] = of_length(bytes - fields);
    return ask(e, &req);
}

static void key_bytes(void)
{
    struct enq *e = open_at(test_space());

    for (unsigned fields = 1; fields <= ENQ_KEY_FIELDS_MAX; fields++) {
        tried(ENQ_OK, ask_key(e, fields, fields));
        tried(ENQ_OK, ask_key(e, fields, ENQ_KEY_BYTES - 1));
        tried(ENQ_OK, ask_key(e, fields, ENQ_KEY_BYTES));
        tried(-ENAMETOOLONG, ask_key(e, fields, ENQ_KEY_BYTES + 1));
    }
    must_be_healthy(e);
    enq_close(e);
}

/* Where everything is as long as may be, an entry still has room; what is
   listed is what was asked for. */
static void all_texts_at_once(void)
{
    struct enq *e = open_at(test_space());
    struct enq_info info;
    struct enq_grant g;
    size_t total;

    tried(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = of_length(127), .owner = of_length(127),
                .id = of_length(127), .key = {of_length(ENQ_KEY_BYTES - 1)},
                .mode = ENQ_MODE_X),
            &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    must(total == 1 && strlen(info.name) == 127 && strlen(info.owner) == 127 &&
            strlen(info.id) == 127 && strlen(info.key) == ENQ_KEY_BYTES - 1,
        "a text is not listed whole");
    enq_close(e);
}

static int parse(unsigned fields)
{
    char spec[64] = "n", buf[ENQ_NAME_BYTES + ENQ_KEY_BYTES];
    struct enq_req req = {.size = sizeof(req)};

    for (unsigned i = 0; i < fields; i++)
        strcat(spec, "/f");
    return enq_spec_parse(spec, &req, buf, sizeof(buf));
}

static void specs(void)
{
    char buf[8];
    struct enq_req req = {.size = sizeof(req)};

    tried(ENQ_OK, parse(0));
    tried(ENQ_OK, parse(ENQ_KEY_FIELDS_MAX - 1));
    tried(ENQ_OK, parse(ENQ_KEY_FIELDS_MAX));
    tried(-EINVAL, parse(ENQ_KEY_FIELDS_MAX + 1));
    tried(-EINVAL, enq_spec_parse("abc/efg", &req, buf, 0));
    for (size_t n = 1; n < 8; n++)
        tried(-ENAMETOOLONG, enq_spec_parse("abc/efg", &req, buf, n));
    tried(ENQ_OK, enq_spec_parse("abc/efg", &req, buf, 8));
}

/* --- numbers --- */

/* A lock of 1 ms may have run out before it is given back. */
static int ask_with_ttl(struct enq *e, int64_t ttl_ms)
{
    int rc = ask(e, ENQ_REQ(.name = "n", .ttl_ms = ttl_ms, .mode = 1));

    return ttl_ms == 1 && rc == ENQ_EXPIRED ? ENQ_OK : rc;
}

static void times(void)
{
    static const int64_t fine[] = {
        ENQ_FOREVER, 0, 1, INT32_MAX, INT64_MAX - 1, INT64_MAX};
    static const int64_t bad[] = {-2, INT64_MIN, INT64_MIN + 1};
    struct enq *e = open_at(test_space());
    struct enq_grant g;

    want(ENQ_OK, lock_x(e, "renewed", &g));
    for (size_t i = 0; i < LENGTH(fine); i++) {
        tried(ENQ_OK, ask_with_ttl(e, fine[i]));
        tried(ENQ_OK,
            ask(e, ENQ_REQ(.name = "n", .wait_ms = fine[i], .mode = 1)));
        tried(ENQ_OK,
            enq_renew(e, g.handle, g.token, fine[i] == 1 ? 60000 : fine[i]));
        tried(ENQ_OK, enq_valid(e, g.handle));
    }
    for (size_t i = 0; i < LENGTH(bad); i++) {
        tried(-EINVAL, ask_with_ttl(e, bad[i]));
        tried(-EINVAL,
            ask(e, ENQ_REQ(.name = "n", .wait_ms = bad[i], .mode = 1)));
        tried(-EINVAL, enq_renew(e, g.handle, g.token, bad[i]));
    }
    must_be_healthy(e);
    enq_close(e);
}

/* The longest wait and the longest ttl do not wrap around. */
static void *cancel_soon(void *arg)
{
    struct enq *e = arg;
    struct enq_stats stats = {.size = sizeof(stats)};

    do {
        nap_us(1000);
        want(ENQ_OK, enq_stat(e, &stats));
    } while (stats.waiting == 0);
    nap_us(60000);
    want(ENQ_OK, enq_break(e, "waits"));
    return NULL;
}

static void long_waits(void)
{
    static const int64_t waits[] = {
        INT64_MAX, INT64_MAX / 1000000, INT64_MAX / 1000000 + 1, ENQ_FOREVER};
    struct enq *e = open_at(test_space());
    struct enq_grant g;
    pthread_t t;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = INT64_MAX), &g));
    for (size_t i = 0; i < LENGTH(waits); i++) {
        pthread_create(&t, NULL, cancel_soon, e);
        tried(ENQ_CANCELLED,
            ask(e,
                ENQ_REQ(.name = "n", .owner = "other", .id = "waits",
                    .mode = ENQ_MODE_X, .wait_ms = waits[i])));
        pthread_join(t, NULL);
    }
    want(ENQ_OK, enq_valid(e, g.handle));
    enq_close(e);
}

static void choices(void)
{
    struct enq *e = open_at(test_space());

    for (int mode = -1; mode <= 5; mode++)
        tried(mode >= 1 && mode <= 4 ? ENQ_OK : -EINVAL,
            ask(e, ENQ_REQ(.name = "n", .mode = (enum enq_mode)mode)));
    for (int death = -1; death <= 3; death++)
        tried(death >= 0 && death <= 2 ? ENQ_OK : -EINVAL,
            ask(e,
                ENQ_REQ(.name = "n", .mode = ENQ_MODE_S,
                    .on_death = (enum enq_death)death)));
    for (unsigned bit = 0; bit < 32; bit++)
        tried(bit <= 1 ? ENQ_OK : -EINVAL,
            ask(e,
                ENQ_REQ(.name = "n", .mode = ENQ_MODE_S,
                    .flags = bit == 0 ? 0 : 1u << bit)));
    enq_close(e);
}

static int open_with_size(size_t size)
{
    static char room[70000];
    struct enq_open_opts *opts = (struct enq_open_opts *)room;
    struct enq *e = NULL;
    int rc;

    opts->size = size;
    rc = enq_open(&e, test_space(), opts);
    enq_close(e);
    return rc;
}

static void struct_sizes(void)
{
    tried(-EINVAL, open_with_size(0));
    tried(-EINVAL, open_with_size(sizeof(size_t) - 1));
    tried(ENQ_OK, open_with_size(sizeof(size_t)));
    tried(ENQ_OK, open_with_size(sizeof(struct enq_open_opts) - 1));
    tried(ENQ_OK, open_with_size(sizeof(struct enq_open_opts)));
    tried(ENQ_OK, open_with_size(sizeof(struct enq_open_opts) + 1));
    tried(ENQ_OK, open_with_size(65536));
    tried(-EINVAL, open_with_size(65537));
}

static int open_named(const char *prefix, size_t n)
{
    char address[2048];
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 21};
    struct enq *e = NULL;
    int rc;

    snprintf(address, sizeof(address), "%s%s", prefix,
        of_length(n - strlen(prefix)));
    rc = enq_open(&e, address, &opts);
    enq_close(e);
    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlink(address));
    return rc;
}

static void addresses(void)
{
    char dir[256], prefix[64];
    size_t shm = strlen("shm:");

    snprintf(prefix, sizeof(prefix), "shm:enq-%sexhaust-%d-", test_mark(),
        (int)getpid());
    tried(-EINVAL, open_named("shm:", shm));
    tried(ENQ_OK, open_named(prefix, shm + 199));
    tried(ENQ_OK, open_named(prefix, shm + 200));
    tried(-EINVAL, open_named(prefix, shm + 201));
    test_path("", dir);
    tried(ENQ_OK, open_named(dir, 254));
    tried(ENQ_OK, open_named(dir, 255));
    tried(-ENAMETOOLONG, open_named(dir, 256));
    tried(-ENAMETOOLONG, open_named(dir, 2000));
}

static int open_slots(uint32_t slots, uint32_t mode)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .slots = slots, .mode = mode};
    struct enq *e = NULL;
    int rc = enq_open(&e, test_space(), &opts);

    enq_close(e);
    if (rc == ENQ_OK)
        want(ENQ_OK, enq_unlink(test_space()));
    return rc;
}

static void slots_and_permissions(void)
{
    tried(ENQ_OK, open_slots(0, 0));
    tried(ENQ_OK, open_slots(1, 0));
    tried(ENQ_OK, open_slots(99999999, 0));
    tried(ENQ_OK, open_slots(100000000, 0));
    tried(-EINVAL, open_slots(100000001, 0));
    tried(-EINVAL, open_slots(UINT32_MAX, 0));
    for (uint32_t mode = 1; mode <= 07777; mode++)
        if ((mode & 0600) != 0600 || (mode & ~0660u) != 0)
            want(-EINVAL, open_slots(1, mode));
    tried(ENQ_OK, open_slots(1, 0600));
    tried(ENQ_OK, open_slots(1, 0660));
}

static void rooms_of_callers(void)
{
    struct enq *e = open_at(test_space());
    struct enq_info infos[4];
    struct enq_grant g;
    char report[8];
    size_t total;

    for (int i = 0; i < 3; i++)
        want(ENQ_OK, enq_lock(e, ENQ_REQ(.name = "n", .mode = 1), &g));
    for (size_t n = 0; n <= 4; n++) {
        memset(infos, 0x55, sizeof(infos));
        tried(ENQ_OK, enq_list(e, NULL, NULL, infos, n, &total));
        must(total == 3, "%zu are listed", total);
        must(n >= 3 || infos[n].token == UINT64_C(0x5555555555555555),
            "more than %zu were written", n);
    }
    for (size_t n = 1; n < sizeof(report); n++)
        tried(ENQ_OK, enq_doctor(e, 0, report, n));
    tried(-EINVAL, enq_doctor(e, 0, report, 0));
    enq_close(e);
}

const struct test limit_tests[] = {
    {"P12: names of 0 to 128 bytes", name_lengths},
    {"P12: owners of 0 to 128 bytes", owner_lengths},
    {"P12: ids of 0 to 128 bytes", id_lengths},
    {"P12: keys of 511, 512 and 513 bytes in 1 to 16 fields", key_bytes},
    {"P12: everything as long as may be fits an entry", all_texts_at_once},
    {"P12: specs of 15, 16 and 17 fields, and their buffers", specs},
    {"P12: times of -2 to 2^63 - 1 ms", times},
    {"P12: the longest waits do not end at once", long_waits},
    {"P12: modes, deaths and flags", choices},
    {"P12: structs of all sizes", struct_sizes},
    {"P12: addresses", addresses},
    {"P12: slots and permissions of a new space", slots_and_permissions},
    {"P12: lists and reports stay in their room", rooms_of_callers},
    {NULL, NULL},
};
