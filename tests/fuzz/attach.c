/*
 * attach.c - a file that may be anything is attached to, for looking and for
 * writing; what attaches is looked at, locked in, and left.
 *
 * The file is made once, as it should be, and edited for each execution;
 * what was written is put back afterwards.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "fuzz.h"
#include "lib/mark.h"
#include "recovery/check.h"
#include "recovery/reap.h"
#include "recovery/recover.h"
#include "segment/attach.h"
#include "sync/hooks.h"

#define EDITS_MOST 24
#define EDIT_BYTES 8

static struct {
    char path[64];
    int fd;
    off_t bytes;
    struct seg_header header;
} file = {.fd = -1};

struct undo {
    off_t at;
    uint8_t was[EDIT_BYTES];
};

static void remove_file(void)
{
    unlink(file.path);
}

static void make_file(void)
{
    struct map_wish wish = {.make = {.slots = 64, .mode = 0600}};
    struct stat st;
    struct map *map;
    bool fresh;

    snprintf(file.path, sizeof(file.path), ATTACH_FILE, test_mark(),
        (int)getpid());
    process_enter(&fresh);
    if (map_attach(file.path, &wish, &map) != 0)
        fuzz_fail("%s", enq_why());
    map_put(map);
    process_leave();
    atexit(remove_file);
    file.fd = open(file.path, O_RDWR | O_CLOEXEC);
    if (file.fd < 0 || fstat(file.fd, &st) != 0 ||
        pread(file.fd, &file.header, sizeof(file.header), 0) !=
            sizeof(file.header))
        fuzz_fail("cannot read %s", file.path);
    file.bytes = st.st_size;
}

/* --- damage --- */

/* The header mostly: the rest is look.c's and hostile.c's. */
static off_t place(struct feed *f)
{
    uint8_t b = feed_byte(f);

    if (b < 0xa0)
        return b;
    if (b < 0xc0)
        return (off_t)(offsetof(struct seg_header, recovery_latch) +
            feed_byte(f));
    if (b < 0xd0)
        return (off_t)(SEG_THREADS + feed_byte(f) * 4);
    if (b < 0xe0)
        return (off_t)(SEG_SESSIONS + feed_byte(f) * 4);
    return (off_t)feed_word(f, 4) % (file.bytes - EDIT_BYTES);
}

static void edit(struct feed *f, struct undo *undo)
{
    unsigned n = 1u << feed_byte(f) % 4;
    uint8_t now[EDIT_BYTES];

    undo->at = place(f);
    for (unsigned i = 0; i < n; i++)
        now[i] = feed_byte(f);
    if (pread(file.fd, undo->was, EDIT_BYTES, undo->at) != EDIT_BYTES ||
        pwrite(file.fd, now, n, undo->at) != (ssize_t)n)
        fuzz_fail("cannot edit the file");
}

/* As an attacker would. */
static void sign(void)
{
    const size_t from = offsetof(struct seg_header, layout_version);
    const size_t to = offsetof(struct seg_header, checksum);
    struct seg_header h;

    if (pread(file.fd, &h, sizeof(h), 0) != sizeof(h))
        fuzz_fail("cannot read the header");
    h.checksum =
        (uint32_t)hash_bytes((const char *)&h + from, to - from, LAYOUT_MAGIC);
    if (pwrite(file.fd, &h.checksum, sizeof(h.checksum), (off_t)to) !=
        sizeof(h.checksum))
        fuzz_fail("cannot sign the header");
}

static void put_back(const struct undo *undo, unsigned n)
{
    if (ftruncate(file.fd, file.bytes) != 0)
        fuzz_fail("ftruncate");
    while (n-- > 0)
        if (pwrite(file.fd, undo[n].was, EDIT_BYTES, undo[n].at) != EDIT_BYTES)
            fuzz_fail("cannot put the file back");
    if (pwrite(file.fd, &file.header, sizeof(file.header), 0) !=
        sizeof(file.header))
        fuzz_fail("cannot put the header back");
}

/* --- use --- */

static void look(struct enq *e)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    char report[512];

    enq_stat(e, &stats);
    enq_list(e, NULL, NULL, NULL, 0, NULL);
    if (e->readonly)
        enq_doctor(e, 0, report, sizeof(report));
}

static void use(struct enq *e)
{
    struct thread *t = thread_enter(e->map);
    struct enq_grant grant;

    if (t == NULL)
        return;
    if (session_begin(&e->session, t, e->map) == 0) {
        if (enq_lock_spec(e, "a/1", "E", "me", 0, 0, &grant) == ENQ_OK)
            enq_unlock(e, grant.handle, grant.token);
        look(e);
        retire(&e->session, t);
        session_end(&e->session);
    }
    thread_leave(e->map);
}

static void attach(bool readonly)
{
    struct map_wish wish = {.readonly = readonly, .existing = true};
    struct enq e = {.readonly = readonly, .owner = "me", .path = "a file"};
    bool fresh;
    int rc;

    e.life = process_enter(&fresh);
    rc = map_attach(file.path, &wish, &e.map);
    process_leave();
    if (rc != 0)
        return;
    if (e.map->bytes != (uint64_t)file.bytes)
        fuzz_fail("attached to more or less than the file has");
    arena_guard(e.map);
    hooks.recover = recover;
    e.map->attachments = 1;
    if (readonly)
        look(&e);
    else
        use(&e);
    process_enter(&fresh);
    arena_unguard(e.map);
    process_leave();
}

void fuzz_attach(const uint8_t *data, size_t n)
{
    struct feed f = {data, data + n};
    uint8_t how = feed_byte(&f);
    struct undo undo[EDITS_MOST];
    unsigned edits = 0;

    if (file.fd < 0)
        make_file();
    arena_machine(NULL);
    while (edits < EDITS_MOST && feed_more(&f))
        edit(&f, &undo[edits++]);
    if (how & 1)
        sign();
    if ((how & 0x3c) == 0x3c &&
        ftruncate(file.fd, file.bytes * (how >> 6) / 3) != 0)
        fuzz_fail("ftruncate");
    attach(how & 2);
    put_back(undo, edits);
}
