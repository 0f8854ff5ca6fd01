/*
 * check_dump.c - a dump, line by line: each part that there is, and no other.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "api/attachment.h"
#include "unit.h"

static const char *dumped(struct enq *e)
{
    static char text[65536];
    char path[256];
    int fd = open(unit_path("dump", path), O_RDWR | O_CREAT | O_TRUNC, 0600);

    memset(text, 0, sizeof(text));
    want(ENQ_OK, enq_dump(e, fd));
    ck_assert_int_gt((int)pread(fd, text, sizeof(text) - 1, 0), 0);
    close(fd);
    return text;
}

/* How many of its lines begin so? */
static unsigned lines(struct enq *e, const char *format, ...)
{
    const char *text = dumped(e);
    char begin[1024] = "\n";
    unsigned n = 0;
    va_list args;

    va_start(args, format);
    vsnprintf(begin + 1, sizeof(begin) - 1, format, args);
    va_end(args);
    while ((text = strstr(text, begin)) != NULL)
        n++, text++;
    return n;
}

static struct enq_grant lock_of(struct enq *e, const char *name,
    const char *field, const char *owner)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = name, .key = {field}, .mode = ENQ_MODE_S,
                .owner = owner),
            &g));
    return g;
}

TEST(a_dump_shows_the_gates_that_are_raised_or_latched_and_no_others)
{
    struct enq *e = unit_open();
    struct gate *gates = e->map->gates;

    lock_of(e, "a", "x", "you");
    ck_assert_uint_eq(lines(e, "gate "), 0);
    lock_of(e, "b", "@", "you");
    ck_assert_uint_eq(lines(e, "gate "), 1);
    gates[0].latch = gates[GATES - 1].latch = 7;
    ck_assert_uint_eq(lines(e, "gate 0 latch 00000007 raised 0 waiting 0"), 1);
    ck_assert_uint_eq(lines(e, "gate %u latch 00000007 raised 0", GATES - 1),
        1);
    gates[0].latch = gates[GATES - 1].latch = 0;
    enq_close(e);
}

/* Of what a list has noted in that word nothing is shown. */
TEST(a_dump_shows_by_how_many_a_gate_is_raised)
{
    struct enq *e = unit_open();

    e->map->gates[5].raised = 3 | GATE_LISTED(0);
    ck_assert_uint_eq(lines(e, "gate 5 latch 00000000 raised 3 waiting 0 "), 1);
    e->map->gates[5].raised = 0;
    enq_close(e);
}

TEST(a_dump_shows_the_shards_that_are_latched_or_have_grown_and_no_others)
{
    struct enq *e = unit_open();
    struct shard *shards = e->map->shards, *last = &shards[SHARDS_ALL - 1];

    ck_assert_uint_eq(lines(e, "shard "), 0);
    shards[0].latch = 7;
    last->n_segments = 2;
    ck_assert_uint_eq(lines(e, "shard "), 2);
    ck_assert_uint_eq(lines(e, "shard 0 latch 00000007 buckets %u segments 1\n",
                          BUCKETS_FIRST),
        1);
    ck_assert_uint_eq(lines(e,
                          "shard %u latch 00000000 buckets %u segments 2\n",
                          SHARDS_ALL - 1, BUCKETS_FIRST),
        1);
    shards[0].latch = 0;
    last->n_segments = 1;
    enq_close(e);
}

TEST(a_dump_shows_the_buckets_that_are_latched)
{
    struct enq *e = unit_open();
    struct bucket *a = at_bucket(e->map, 3, 1);
    struct bucket *b = at_bucket(e->map, SHARDS_ALL - 1, BUCKETS_FIRST - 1);

    ck_assert_uint_eq(lines(e, "bucket "), 0);
    a->latch = b->latch = 7;
    b->more = 0x123;
    ck_assert_uint_eq(lines(e, "bucket "), 2);
    ck_assert_uint_eq(lines(e, "bucket of shard 3 latch 00000007 more 0\n"), 1);
    ck_assert_uint_eq(lines(e, "bucket of shard %u latch 00000007 more 123\n",
                          SHARDS_ALL - 1),
        1);
    a->latch = b->latch = b->more = 0;
    enq_close(e);
}

static int hold_and_stay(void *ready)
{
    lock_of(unit_open(), "b", "x", "other");
    unit_stay(ready);
}

/* Two were closed before, and left slots that nobody has. */
TEST(a_dump_shows_who_is_there_and_who_is_dead)
{
    struct enq *e, *closed[2] = {unit_open(), unit_open()};
    uint32_t *ready = unit_shared(sizeof(*ready));
    session_ref_t mine;
    pid_t pid;

    e = unit_open();
    enq_close(closed[0]);
    enq_close(closed[1]);
    mine = e->session.ref;
    pid = unit_fork(hold_and_stay, ready);
    eventually(shm_load_acquire(ready));
    ck_assert_uint_eq(lines(e, "session "), 2);
    ck_assert_uint_eq(lines(e, "session %08x pid %d loose ", mine, getpid()),
        1);
    ck_assert_uint_eq(lines(e, "session 00000000"), 0);
    ck_assert_uint_eq(lines(e, "thread 00000000"), 0);
    ck_assert_uint_eq(lines(e, "thread "), unit_stats(e).threads);
    unit_stop(pid);
    ck_assert_ptr_null(strstr(dumped(e), " D"));
    unit_kill(pid);
    enq_close(e);
}

/* Up to the last that was ever used, whose number is the header's. */
TEST(a_dump_shows_no_slot_that_is_free_or_was_never_used)
{
    struct enq *e = unit_open();
    struct seg_header *h = e->map->h;
    session_ref_t *session = &e->map->sessions[h->sessions_high].ref;
    thread_ref_t *thread = &e->map->threads[h->threads_high].ref;

    *session = *thread = 0x5001;
    ck_assert_uint_eq(lines(e, "session 00005001"), 0);
    ck_assert_uint_eq(lines(e, "thread 00005001"), 0);
    *session = *thread = 0;
    h->sessions_high++;
    h->threads_high++;
    ck_assert_uint_eq(lines(e, "session 00000000"), 0);
    ck_assert_uint_eq(lines(e, "thread 00000000"), 0);
    h->sessions_high--;
    h->threads_high--;
    enq_close(e);
}

TEST(a_dump_shows_the_orphans_of_both_sizes)
{
    struct enq *e = unit_open();
    struct seg_header *h = e->map->h;

    h->orphans[0].pages = 3;
    h->orphans[1].pages = 5;
    ck_assert_ptr_nonnull(strstr(dumped(e), " orphans 8\n"));
    h->orphans[0].pages = h->orphans[1].pages = 0;
    enq_close(e);
}

TEST(a_dump_shows_what_is_held_with_all_its_numbers)
{
    struct enq *e = unit_open();
    struct enq_grant g = lock_of(e, "a", "x", "you");
    uint64_t state = 0;
    struct entry *entry = entry_of_handle(e->map, g.handle, &state);

    ck_assert_uint_eq(lines(e, "entry "), 1);
    ck_assert_uint_eq(
        lines(e,
            "entry %x held S gone 0 generation %u session %08x token %llu "
            "ticket %llu shard %u next %x prev %x name \"a\" fields 1 owner "
            "\"you\"\n",
            map_ref(e->map, entry), STATE_GENERATION(state), e->session.ref,
            (unsigned long long)g.token, (unsigned long long)entry->ticket,
            shard_of_hash(entry->hash), entry->next, entry->prev),
        1);
    want(ENQ_OK, enq_unlock(e, g.handle, 0));
    ck_assert_uint_eq(lines(e, "entry "), 0);
    enq_close(e);
}

/* What the holder has not asked for yet: the reason stands beside it. */
TEST(a_dump_shows_what_is_gone)
{
    struct enq *e = unit_open(), *other = unit_open();
    struct enq_grant g = lock_of(e, "a", "x", "you");
    char id[ENQ_ID_BYTES];

    want(ENQ_OK, enq_id(e, g.handle, id));
    want(ENQ_OK, enq_break(other, id));
    ck_assert_uint_eq(lines(e, "entry "), 1);
    ck_assert_ptr_nonnull(strstr(dumped(e), " gone S gone "));
    want(ENQ_FORCED, enq_unlock(e, g.handle, 0));
    enq_close(other);
    enq_close(e);
}

static void fill(char *text, size_t n, const char *with)
{
    text[0] = '\0';
    while (strlen(text) + strlen(with) < n)
        strcat(text, with);
}

/* However long it gets by that. */
TEST(a_dump_shows_what_a_terminal_might_take_for_more_by_its_number)
{
    struct enq *e = unit_open();
    char name[ENQ_NAME_BYTES], owner[ENQ_OWNER_BYTES], shown[4000], all[9000];

    fill(name, sizeof(name), "\x1b");
    fill(owner, sizeof(owner), "\"");
    lock_of(e, name, "x", owner);
    fill(shown, 4 * (sizeof(name) - 1) + 1, "\\x1b");
    snprintf(all, sizeof(all), " name \"%s\" fields 1 owner \"", shown);
    fill(shown, 4 * (sizeof(owner) - 1) + 1, "\\x22");
    snprintf(all + strlen(all), sizeof(all) - strlen(all), "%s\"\n", shown);
    ck_assert_msg(strstr(dumped(e), all) != NULL, "%s", dumped(e));
    lock_of(e, "a\x7f~ \\", "x", "o");
    ck_assert_ptr_nonnull(strstr(dumped(e), " name \"a\\x7f~ \\x5c\" fields"));
    enq_close(e);
}

TEST(a_dump_shows_what_is_damaged_without_its_texts)
{
    struct enq *e = unit_open();
    struct enq_grant g = lock_of(e, "a", "x", "you");
    struct entry *entry = entry_of_handle(e->map, g.handle, &(uint64_t){0});
    uint16_t bytes = entry->name_bytes;

    entry->name_bytes = 60000;
    ck_assert_ptr_nonnull(strstr(dumped(e),
        " name \"(damaged)\" fields 1 owner \"(damaged)\"\n"));
    entry->name_bytes = bytes;
    enq_close(e);
}

int main(void)
{
    unit_begin("dump");
    ADD(a_dump_shows_the_gates_that_are_raised_or_latched_and_no_others);
    ADD(a_dump_shows_by_how_many_a_gate_is_raised);
    ADD(a_dump_shows_the_shards_that_are_latched_or_have_grown_and_no_others);
    ADD(a_dump_shows_the_buckets_that_are_latched);
    ADD_IF(!UNIT_TSAN, "the thread sanitizer cannot fork",
        a_dump_shows_who_is_there_and_who_is_dead);
    ADD(a_dump_shows_no_slot_that_is_free_or_was_never_used);
    ADD(a_dump_shows_the_orphans_of_both_sizes);
    ADD(a_dump_shows_what_is_held_with_all_its_numbers);
    ADD(a_dump_shows_what_is_gone);
    ADD(a_dump_shows_what_a_terminal_might_take_for_more_by_its_number);
    ADD(a_dump_shows_what_is_damaged_without_its_texts);
    return unit_end();
}
