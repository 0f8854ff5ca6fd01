/*
 * check_open.c - options and attachments: structs of other headers, defaults,
 * many attachments, a segment that is removed under us.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "api/options.h"
#include "fake.h"

/* --- structs of another header --- */

/* A newer header's options: ours, and more. */
struct newer_opts {
    struct enq_open_opts ours;
    uint64_t more[4];
};

TEST(options_of_a_newer_header_are_fine_while_their_new_part_is_zero)
{
    struct newer_opts opts = {.ours = {.size = sizeof(opts), .slots = 10}};
    struct enq *e;

    want(ENQ_OK, enq_open(&e, unit_space(), &opts.ours));
    enq_close(e);
}

TEST(options_of_a_newer_header_that_ask_for_more_are_refused)
{
    struct newer_opts opts = {.ours = {.size = sizeof(opts), .slots = 10}};
    struct enq *e = NULL;

    ((uint8_t *)opts.more)[_i] = 1;
    want_why(-E2BIG, enq_open(&e, unit_space(), &opts.ours), "options");
    ck_assert_ptr_null(e);
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
}

TEST(options_of_an_older_header_have_defaults_for_the_rest)
{
    struct enq_open_opts opts = {.size = offsetof(struct enq_open_opts, compat),
        .slots = 10,
        .mode = 0660,
        .compat = "nonsense",
        .flags = ~0u};
    struct enq_stats s = {.size = sizeof(s)};
    struct enq *e;

    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    want(ENQ_OK, enq_stat(e, &s));
    ck_assert_uint_eq(s.slots_max, 10);
    ck_assert_str_eq(s.compat, "enqueue");
    enq_close(e);
}

TEST(options_without_a_size_are_refused)
{
    static const size_t sizes[] = {0, 1, 7, 65537, SIZE_MAX};
    struct enq_open_opts opts = {.size = sizes[_i]};
    struct enq *e = NULL;

    want_why(-EINVAL, enq_open(&e, unit_space(), &opts), "size");
}

TEST(a_struct_is_read_only_as_far_as_it_says)
{
    char bytes[sizeof(struct enq_open_opts)] = "", zeros[512] = "";
    struct enq_open_opts ours;

    for (size_t n = sizeof(size_t); n < sizeof(zeros); n++)
        want(0,
            options_copy(&ours, sizeof(ours), unit_at_edge(zeros, n), n,
                "options"));
    want(0, options_copy(&ours, sizeof(ours), bytes, sizeof(bytes), "o"));
}

/* --- values --- */

TEST(nowhere_to_put_the_attachment_is_refused)
{
    want_why(-EINVAL, enq_open(NULL, unit_space(), NULL), "NULL");
}

TEST(unknown_values_are_refused_and_named)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 10};
    const char *words = "";
    struct enq *e = NULL;

    switch (_i) {
    case 0:
        opts.compat = "oracle", words = "oracle";
        break;
    case 1:
        opts.compat = "", words = "mode table";
        break;
    case 2:
        opts.flags = 4, words = "0x4";
        break;
    case 3:
        opts.flags = ~0u, words = "flags";
        break;
    case 4:
        opts.slots = 100000001, words = "100000001";
        break;
    default:
        opts.slots = UINT32_MAX, words = "slots";
        break;
    }
    want_why(-EINVAL, enq_open(&e, unit_space(), &opts), words);
    ck_assert_ptr_null(e);
}

TEST(the_default_owner_has_a_longest_length)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 10};
    char owner[ENQ_OWNER_BYTES + 2];
    struct enq *e;

    memset(owner, 'o', sizeof(owner));
    opts.owner = owner;
    owner[ENQ_OWNER_BYTES - 1] = '\0';
    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    enq_close(e);
    owner[ENQ_OWNER_BYTES - 1] = 'o';
    owner[ENQ_OWNER_BYTES] = '\0';
    want_why(-ENAMETOOLONG, enq_open(&e, unit_space(), &opts), "oooo");
    snprintf(owner, sizeof(owner), "longer than %d", ENQ_OWNER_BYTES - 1);
    ck_assert_ptr_nonnull(strstr(enq_why(), owner));
}

static void owner_is(const char *owner)
{
    struct enq *e;
    struct enq_grant g;
    struct enq_info info;

    want(ENQ_OK, enq_open(&e, unit_space(), NULL));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, NULL));
    ck_assert_msg(strstr(info.owner, owner) != NULL, "%s", info.owner);
    enq_close(e);
}

TEST(the_environment_gives_the_default_owner)
{
    char pid[16];

    enq_close(unit_open());
    snprintf(pid, sizeof(pid), ":%d", (int)getpid());
    owner_is(pid);
    setenv("ENQ_OWNER", "transaction 5", 1);
    owner_is("transaction 5");
}

/* What a space was made with, what is asked for later, and the two words that
   a refusal names: NULL, there is none. */
static const struct {
    struct enq_open_opts made, asked;
    const char *is, *wanted;
} again[] = {
    {{.compat = "sap"}, {.compat = NULL}, NULL, NULL},
    {{.compat = "sap"}, {.compat = "sap"}, NULL, NULL},
    {{.compat = "sap"}, {.compat = "enqueue"}, "\"sap\"", "\"enqueue\""},
    {{.compat = "enqueue"}, {.compat = "sap"}, "\"enqueue\"", "\"sap\""},
    {{.compat = NULL}, {.compat = "sap"}, "\"enqueue\"", "\"sap\""},
    {{.compat = NULL}, {.compat = "enqueue"}, NULL, NULL},
    {{.strict = 1}, {.strict = 0}, NULL, NULL},
    {{.strict = 1}, {.strict = 1}, NULL, NULL},
    {{.strict = 1}, {.strict = 2}, "is strict", "one that is not"},
    {{.strict = 2}, {.strict = 1}, "is not strict", "a strict one"},
    {{.strict = 0}, {.strict = 1}, "is not strict", "a strict one"},
    {{.strict = 0}, {.strict = 2}, NULL, NULL},
    {{.slots = 99}, {.slots = 0}, NULL, NULL},
    {{.slots = 99}, {.slots = 98}, NULL, NULL},
    {{.slots = 99}, {.slots = 99}, NULL, NULL},
    {{.slots = 99}, {.slots = 100}, "99 locks", "for 100"},
    {{.mode = 0}, {.mode = 0600}, NULL, NULL},
    {{.mode = 0}, {.mode = 0660}, NULL, NULL},
    {{.mode = 0660}, {.mode = 0}, NULL, NULL},
    {{.mode = 0660}, {.mode = 0660}, NULL, NULL},
    {{.mode = 0660}, {.mode = 0600}, "0660", "0600"},
    {{.mode = 0660}, {.mode = 0640}, "0660", "0640"},
    {{.mode = 0640}, {.mode = 0600}, "0640", "0600"},
};

static void opened_again(unsigned i, uint32_t flags)
{
    struct enq_open_opts made = again[i].made, asked = again[i].asked;
    struct enq *first, *e = NULL;
    int rc;

    made.size = asked.size = sizeof(made);
    asked.flags = flags;
    want(ENQ_OK, enq_open(&first, unit_space(), &made));
    rc = enq_open(&e, unit_space(), &asked);
    if (again[i].is == NULL) {
        ck_assert_int_eq(rc, ENQ_OK);
    } else {
        ck_assert_int_eq(rc, ENQ_EDIFFERS);
        ck_assert_ptr_nonnull(strstr(enq_why(), again[i].is));
        ck_assert_ptr_nonnull(strstr(enq_why(), again[i].wanted));
        ck_assert_ptr_nonnull(strstr(enq_why(), unit_space()));
    }
    enq_close(e);
    enq_close(first);
}

TEST(what_was_asked_for_and_differs_is_refused)
{
    opened_again((unsigned)_i, 0);
}

TEST(who_only_looks_is_refused_the_same)
{
    opened_again((unsigned)_i, ENQ_OPEN_READONLY);
}

/* Sure to be followed by a request: the goodbye, if by no other. */
static void *open_and_close(void *arg)
{
    struct asker *a = arg;

    asker_open(a);
    enq_close(a->e);
    return NULL;
}

static void say_what_it_is(struct fake *f, const struct enq_open_opts *made)
{
    char members[200];

    snprintf(members, sizeof(members),
        DONE ",\"STAT\":{\"compat\":\"%s\",\"strict\":%d,\"slots_max\":"
             "\"%u\"}",
        made->compat != NULL ? made->compat : "enqueue", made->strict == 1,
        made->slots != 0 ? made->slots : 1000);
    fake_answer(f, members);
}

/* Who asks for nothing is not kept waiting for what the bridge would say. The
   permissions are none of a client's: they are of a file of its host. */
TEST(a_bridge_is_asked_only_for_what_might_differ)
{
    const struct enq_open_opts *asked = &again[_i].asked;
    bool matters = asked->compat != NULL || asked->strict != 0 || asked->slots;
    bool differs = again[_i].is != NULL && asked->mode == 0;
    struct fake fake;
    struct asker a = {.f = &fake, .opts = *asked};

    fake_begin(&fake);
    asker_run(&a, NULL, open_and_close);
    fake_greet(&fake, "one", false);
    fake_hear_past_pings(&fake,
        matters ? "\"OP\":\"stat\"" : "\"OP\":\"goodbye\"");
    if (matters)
        say_what_it_is(&fake, &again[_i].made);
    else
        fake_answer(&fake, DONE);
    fake.is_leaving = true;
    while (fake_hear_within(&fake, 10000))
        fake_answer(&fake, DONE);
    asker_end(&a, differs ? ENQ_EDIFFERS : ENQ_OK);
    if (differs) {
        ck_assert_ptr_nonnull(strstr(a.why, again[_i].is));
        ck_assert_ptr_nonnull(strstr(a.why, again[_i].wanted));
    }
    fake_end(&fake);
}

/* Else it would be said to differ, from what was asked for, in nothing. */
TEST(a_bridge_that_does_not_say_what_it_is_is_not_opened)
{
    struct asker a = {.opts = {.slots = 10}};
    struct fake fake;

    a.f = &fake;
    fake_begin(&fake);
    asker_run(&a, NULL, asker_open);
    fake_greet(&fake, "one", false);
    fake_hear_past_pings(&fake, "\"OP\":\"stat\"");
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":-12,\"MSG\":\"no memory\"");
    fake.is_leaving = true;
    while (fake_hear_within(&fake, 10000))
        fake_answer(&fake, DONE);
    asker_end(&a, -ENOMEM);
    ck_assert_str_eq(a.why, "no memory");
    fake_end(&fake);
}

/* The file may have been opened to others since. */
TEST(the_permissions_are_those_of_now)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .mode = 0600};
    struct enq *first, *e;

    want(ENQ_OK, enq_open(&first, unit_space(), &opts));
    ck_assert_int_eq(chmod(unit_space(), 0660), 0);
    want_why(ENQ_EDIFFERS, enq_open(&e, unit_space(), &opts), "0660");
    opts.mode = 0660;
    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    enq_close(e);
    enq_close(first);
}

TEST(an_owner_in_the_environment_that_is_too_long_is_refused)
{
    char owner[ENQ_OWNER_BYTES + 1] = "";
    struct enq *e;

    memset(owner, 'o', ENQ_OWNER_BYTES);
    setenv("ENQ_OWNER", owner, 1);
    want_why(-ENAMETOOLONG, enq_open(&e, unit_space(), NULL), "ENQ_OWNER");
    ck_assert_int_ne(access(unit_space(), F_OK), 0);
    owner[ENQ_OWNER_BYTES - 1] = '\0';
    setenv("ENQ_OWNER", owner, 1);
    enq_close(unit_open());
    owner_is(owner);
}

TEST(a_table_may_have_one_slot_or_a_hundred_million)
{
    static const uint32_t slots[] = {1, 21, 100000000};
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = slots[_i]};
    struct enq_grant g;
    struct enq *e;

    want(ENQ_OK, enq_open(&e, unit_space(), &opts));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    unit_healthy(e);
    enq_close(e);
}

TEST(closing_nothing_is_fine)
{
    enq_close(NULL);
}

TEST(closing_releases_what_ends_with_the_session)
{
    struct enq *a = unit_open(), *b = unit_open();
    struct enq_grant g[3], h;

    for (int i = 0; i < 3; i++)
        want(ENQ_OK,
            enq_lock(a,
                ENQ_REQ(.name = "n",
                    .key = {i == 0   ? "0"
                            : i == 1 ? "1"
                                     : "2"},
                    .mode = ENQ_MODE_X, .on_death = i),
                &g[i]));
    enq_close(a);
    want(ENQ_OK, unit_lock(b, "n", "0", ENQ_MODE_X, &h));
    want(ENQ_BUSY, unit_lock(b, "n", "1", ENQ_MODE_X, &h));
    want(ENQ_BUSY, unit_lock(b, "n", "2", ENQ_MODE_X, &h));
    ck_assert_int_eq(h.blocker.pid, 0);
    enq_close(b);
}

/* --- removed under us --- */

static void removed(void (*remove_it)(void), const char *words)
{
    struct enq *e = unit_open(), *other;
    struct enq_stats s = {.size = sizeof(s)};
    struct enq_grant g, more;
    char report[1024];
    size_t total;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    remove_it();
    eventually(unit_lock(e, "n", "g", ENQ_MODE_S, &more) == ENQ_EGONE);
    want_why(ENQ_EGONE, unit_lock(e, "n", "h", ENQ_MODE_S, &more), words);
    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    ck_assert_uint_ge(total, 1);
    want(ENQ_OK, enq_valid(e, g.handle));
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 0));
    want(ENQ_OK, enq_stat(e, &s));
    ck_assert_uint_eq(s.unlinked, 1);
    ck_assert_int_gt(enq_doctor(e, 0, report, sizeof(report)), 0);
    ck_assert_ptr_nonnull(strstr(report, "name"));
    other = unit_open();
    want(ENQ_OK, unit_lock(other, "n", "f", ENQ_MODE_X, &more));
    ck_assert_uint_gt(more.token, g.token);
    want(ENQ_NOTHELD, enq_unlock(other, g.handle, 0));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    want(ENQ_OK, enq_valid(other, more.handle));
    enq_close(e);
    want(ENQ_OK, enq_valid(other, more.handle));
    enq_close(other);
}

static void unlink_it(void)
{
    want(ENQ_OK, enq_unlink(unit_space()));
}

static void remove_the_file(void)
{
    ck_assert_int_eq(unlink(unit_space()), 0);
}

TEST(an_unlinked_space_gives_no_new_locks_but_takes_old_ones_back)
{
    removed(unlink_it, unit_space());
}

TEST(from_when_a_space_is_unlinked_nobody_is_granted_a_lock_in_it)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    unlink_it();
    want_why(ENQ_EGONE, unit_lock(e, "n", "g", ENQ_MODE_S, &g), "removed");
    enq_close(e);
}

static bool nothing_goes;

int unlink(const char *path)
{
    if (!nothing_goes)
        return (int)syscall(SYS_unlink, path);
    errno = EACCES;
    return -1;
}

TEST(a_space_that_could_not_be_unlinked_is_used_on)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    nothing_goes = true;
    want_why(-EACCES, enq_unlink(unit_space()), "cannot remove");
    nothing_goes = false;
    want(ENQ_OK, unit_lock(e, "n", "g", ENQ_MODE_S, &g));
    enq_close(e);
}

TEST(a_space_whose_file_is_removed_is_noticed)
{
    removed(remove_the_file, "removed");
}

static void *keep_opening(void *count)
{
    for (int i = 0; i < 200; i++)
        enq_close(unit_open());
    __atomic_add_fetch((uint32_t *)count, 1, __ATOMIC_SEQ_CST);
    return NULL;
}

TEST(threads_may_open_and_close_at_once)
{
    pthread_t threads[4];
    uint32_t done = 0;

    unit_space(); /* which the test's first thread names */
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_create(&threads[i], NULL, keep_opening, &done);
    for (size_t i = 0; i < LENGTH(threads); i++)
        pthread_join(threads[i], NULL);
    ck_assert_uint_eq(done, 4);
}

int main(void)
{
    unit_begin("open");
    ADD(options_of_a_newer_header_are_fine_while_their_new_part_is_zero);
    ADD_LOOP(options_of_a_newer_header_that_ask_for_more_are_refused, 32);
    ADD(options_of_an_older_header_have_defaults_for_the_rest);
    ADD_LOOP(options_without_a_size_are_refused, 5);
    ADD(a_struct_is_read_only_as_far_as_it_says);
    ADD(nowhere_to_put_the_attachment_is_refused);
    ADD_LOOP(unknown_values_are_refused_and_named, 6);
    ADD(the_default_owner_has_a_longest_length);
    ADD(the_environment_gives_the_default_owner);
    ADD_LOOP(what_was_asked_for_and_differs_is_refused, LENGTH(again));
    ADD_LOOP(who_only_looks_is_refused_the_same, LENGTH(again));
    ADD_LOOP(a_bridge_is_asked_only_for_what_might_differ, LENGTH(again));
    ADD(a_bridge_that_does_not_say_what_it_is_is_not_opened);
    ADD(the_permissions_are_those_of_now);
    ADD(an_owner_in_the_environment_that_is_too_long_is_refused);
    ADD_LOOP(a_table_may_have_one_slot_or_a_hundred_million, 3);
    ADD(closing_nothing_is_fine);
    ADD(closing_releases_what_ends_with_the_session);
    ADD(an_unlinked_space_gives_no_new_locks_but_takes_old_ones_back);
    ADD(from_when_a_space_is_unlinked_nobody_is_granted_a_lock_in_it);
    ADD(a_space_that_could_not_be_unlinked_is_used_on);
    ADD(a_space_whose_file_is_removed_is_noticed);
    ADD(threads_may_open_and_close_at_once);
    return unit_end();
}
