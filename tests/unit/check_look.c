/*
 * check_look.c - looking at the table: lists, counts, doctor, dump; and the
 * attachment that only looks.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/attachment.h"
#include "lock/table_scan.h"
#include "sync/sys.h"
#include "unit.h"

static int lock_by(struct enq *e, const char *name, const char *field,
    const char *owner, struct enq_grant *g)
{
    return enq_lock(e,
        ENQ_REQ(.name = name, .key = {field}, .mode = ENQ_MODE_S,
            .owner = owner),
        g);
}

/* --- list --- */

TEST(an_entry_is_told_as_it_was_asked_for)
{
    struct enq *e = unit_open();
    struct enq_info info;
    struct enq_grant g;
    size_t total;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "product", .key = {"@", "@", "", "x"}, .literal = 2,
                .mode = ENQ_MODE_E, .owner = "A", .id = "i", .ttl_ms = 5000,
                .on_death = ENQ_DEATH_KEEP),
            &g));
    want(ENQ_OK, enq_list(e, NULL, NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    ck_assert_uint_eq(info.handle, g.handle);
    ck_assert_uint_eq(info.token, g.token);
    ck_assert_str_eq(info.name, "product");
    ck_assert_int_eq(memcmp(info.key, "@\0@\0\0x", 7), 0);
    ck_assert_uint_eq(info.fields, 4);
    ck_assert_uint_eq(info.literal, 2);
    ck_assert_str_eq(info.owner, "A");
    ck_assert_str_eq(info.id, "i");
    ck_assert_uint_eq(info.mode, ENQ_MODE_E);
    ck_assert_uint_eq(info.on_death, ENQ_DEATH_KEEP);
    ck_assert_uint_eq(info.waiting + info.orphaned, 0);
    ck_assert_int_eq(info.pid, getpid());
    ck_assert_int_eq(info.ttl_ms, 5000);
    ck_assert(info.ttl_left_ms > 0 && info.ttl_left_ms <= 5020);
    ck_assert_int_gt(info.granted_ms, INT64_C(1600000000000));
    enq_close(e);
}

static const struct {
    const char *name, *owner;
    size_t total;
} filters[] = {
    {NULL, NULL, 30},
    {"", "", 30},
    {"a", NULL, 15},
    {"a", "", 15},
    {NULL, "me", 10},
    {"", "you", 20},
    {"a", "me", 5},
    {"b", "you", 10},
    {"c", NULL, 0},
    {NULL, "ME", 0},
    {"a ", NULL, 0},
};

/* Two objects; the id says which was first. */
static void fill(struct enq *e)
{
    struct enq_grant g;
    char id[8];

    for (int i = 0; i < 30; i++) {
        snprintf(id, sizeof(id), "%d", i);
        want(ENQ_OK,
            enq_lock(e,
                ENQ_REQ(.name = i % 2 ? "a" : "b", .mode = ENQ_MODE_S,
                    .owner = i % 3 ? "you" : "me", .id = id),
                &g));
    }
}

TEST(a_list_has_what_matches_each_object_by_arrival)
{
    struct enq *e = unit_open();
    struct enq_info info[40];
    size_t total = 99;

    fill(e);
    want(ENQ_OK,
        enq_list(e, filters[_i].name, filters[_i].owner, info, 40, &total));
    ck_assert_uint_eq(total, filters[_i].total);
    for (size_t i = 1; i < total; i++)
        for (size_t k = 0; k < i; k++)
            if (strcmp(info[k].name, info[i].name) == 0)
                ck_assert_int_lt(atoi(info[k].id), atoi(info[i].id));
    enq_close(e);
}

/* Grants of one tick of the coarse clock arrive at the same time. */
TEST(a_list_is_by_arrival_over_all_objects)
{
    struct enq *e = unit_open();
    struct enq_info info[10];
    struct enq_grant g;
    char field[8];

    for (int i = 0; i < 10; i++) {
        mono_t before = sys.coarse();

        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, lock_by(e, "n", field, "me", &g));
        eventually(sys.coarse().ns != before.ns);
    }
    want(ENQ_OK, enq_list(e, NULL, NULL, info, 10, NULL));
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(atoi(info[i].key), i);
    enq_close(e);
}

TEST(a_list_that_is_too_short_says_how_many_there_are)
{
    struct enq *e = unit_open();
    struct enq_info info[31];
    size_t total;

    fill(e);
    for (size_t n = 0; n < 31; n += 5) {
        memset(info, 0x55, sizeof(info));
        want(ENQ_OK, enq_list(e, NULL, NULL, n ? info : NULL, n, &total));
        ck_assert_uint_eq(total, 30);
        ck_assert_uint_eq(info[n].mode, 0x55);
    }
    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, NULL));
    want_why(-EINVAL, enq_list(e, NULL, NULL, NULL, 1, &total), "list");
    enq_close(e);
}

static void *wait_a_while(void *e)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "a", .key = {"0"}, .mode = ENQ_MODE_X,
                .wait_ms = ENQ_FOREVER),
            &g));
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    return NULL;
}

TEST(waiters_are_listed_after_holders)
{
    struct enq *e = unit_open();
    struct enq_info info[8];
    pthread_t thread[2];
    struct enq_grant g[3];
    size_t total;

    want(ENQ_OK, lock_by(e, "a", "0", "A", &g[0]));
    for (unsigned i = 0; i < 2; i++) {
        pthread_create(&thread[i], NULL, wait_a_while, e);
        eventually(unit_stats(e).waiting == i + 1);
    }
    want(ENQ_OK, lock_by(e, "a", "1", "B", &g[1]));
    for (int named = 0; named < 2; named++) {
        want(ENQ_OK, enq_list(e, named ? "a" : NULL, NULL, info, 8, &total));
        ck_assert_uint_eq(total, 4);
        for (unsigned i = 0; i < 4; i++)
            ck_assert_uint_eq(info[i].waiting, i >= 2);
        ck_assert_int_eq(info[2].granted_ms, 0);
        ck_assert_int_ge(info[2].age_ms, info[3].age_ms);
    }
    want(ENQ_OK, enq_unlock(e, g[0].handle, 0));
    for (unsigned i = 0; i < 2; i++)
        pthread_join(thread[i], NULL);
    enq_close(e);
}

TEST(thousands_are_listed)
{
    enum { N = 3000 };
    struct enq_info *info = calloc(N + 1, sizeof(*info));
    struct enq *e = unit_open();
    struct enq_grant g;
    char field[8];
    size_t total;

    for (int i = 0; i < N; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, lock_by(e, "n", field, "o", &g));
    }
    for (int named = 0; named < 2; named++) {
        want(ENQ_OK, enq_list(e, named ? "n" : NULL, "o", info, N + 1, &total));
        ck_assert_uint_eq(total, N);
        for (int i = 1; i < N; i++)
            ck_assert_int_ge(info[i - 1].age_ms, info[i].age_ms);
    }
    free(info);
    enq_close(e);
}

/* --- stat --- */

TEST(what_happens_is_counted)
{
    struct enq *e = unit_open();
    struct enq_grant a, b;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_O, &a));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_O, &b));
    want(ENQ_BUSY, unit_lock(e, "n", "f", ENQ_MODE_X, &b));
    want(ENQ_OK, enq_promote(e, a.handle, 0, NULL));
    want(ENQ_REFUSED, enq_promote(e, a.handle, 0, NULL));
    want(ENQ_TIMEDOUT,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .wait_ms = 1),
            &b));
    want(ENQ_OK, enq_unlock(e, a.handle, 0));
    ck_assert_uint_eq(unit_stats(e).grants, 2);
    ck_assert_uint_eq(unit_stats(e).refusals, 1);
    ck_assert_uint_eq(unit_stats(e).timeouts, 1);
    ck_assert_uint_eq(unit_stats(e).promotes, 1);
    ck_assert_uint_eq(unit_stats(e).promotes_refused, 1);
    ck_assert_uint_eq(unit_stats(e).lost, 1);
    ck_assert_uint_eq(unit_stats(e).releases, 1);
    ck_assert_uint_eq(unit_stats(e).held, 0);
    ck_assert_uint_eq(unit_stats(e).sessions, 1);
    ck_assert_uint_eq(unit_stats(e).slots_max, 10000);
    ck_assert_str_eq(unit_stats(e).space, unit_space());
    ck_assert_uint_eq(strlen(unit_stats(e).uuid), 36);
    enq_close(e);
}

TEST(statistics_are_written_only_as_far_as_there_is_room)
{
    struct enq *e = unit_open();
    char zeros[1200] = "";

    for (size_t n = sizeof(size_t); n < sizeof(struct enq_stats); n += 8) {
        struct enq_stats *s = (void *)unit_at_edge(zeros, n);

        memcpy(s, &n, sizeof(n));
        want(ENQ_OK, enq_stat(e, s));
        ck_assert_uint_eq(*(size_t *)s, n);
    }
    enq_close(e);
}

TEST(statistics_need_a_place_with_a_size)
{
    struct enq_stats s = {.size = 0};
    struct enq *e = unit_open();

    want_why(-EINVAL, enq_stat(e, NULL), "statistics");
    want_why(-EINVAL, enq_stat(e, &s), "size");
    s.size = 7;
    want(-EINVAL, enq_stat(e, &s));
    enq_close(e);
}

/* --- doctor --- */

/* Also where a slab is a great part of a table. */
TEST(a_table_that_is_nearly_empty_is_healthy)
{
    static const uint32_t slots[] = {42, 100, 210, 1000, 10000};
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = slots[_i]};
    struct enq *e = unit_open_with(&opts);
    char report[4096];
    struct enq_grant g;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    ck_assert_msg(enq_doctor(e, 0, report, sizeof(report)) == 0, "%s", report);
    ck_assert_str_eq(report, "");
    enq_close(e);
}

TEST(a_table_that_is_nearly_full_is_a_finding)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 210};
    struct enq *e = unit_open_with(&opts);
    char report[4096], field[8];
    struct enq_grant g;

    for (int i = 0; i < 205; i++) {
        snprintf(field, sizeof(field), "%d", i);
        want(ENQ_OK, unit_lock(e, "n", field, ENQ_MODE_X, &g));
    }
    ck_assert_int_eq(enq_doctor(e, 0, report, sizeof(report)), 1);
    ck_assert_ptr_nonnull(strstr(report, "nearly full"));
    enq_close(e);
}

/* As somebody may do to a file that is in use: what is gone would trap. */
TEST(a_table_that_was_cut_off_is_not_looked_at)
{
    struct enq_stats s = {.size = sizeof(s)};
    struct enq *e = unit_open();
    char report[200];
    struct stat st;
    size_t total;

    ck_assert_int_eq(stat(unit_space(), &st), 0);
    ck_assert_int_eq(truncate(unit_space(), st.st_size - 4096), 0);
    want_why(ENQ_ECORRUPT, enq_list(e, NULL, NULL, NULL, 0, &total), "cut off");
    want_why(ENQ_ECORRUPT, enq_stat(e, &s), "cut off");
    want_why(ENQ_ECORRUPT, enq_doctor(e, 0, report, sizeof(report)), "cut off");
    ck_assert_int_eq(truncate(unit_space(), st.st_size), 0);
    want(ENQ_OK, enq_list(e, NULL, NULL, NULL, 0, &total));
    unit_healthy(e);
    enq_close(e);
}

TEST(a_report_fits_its_room)
{
    struct enq *e = unit_open();
    char room[64];

    want(ENQ_OK, enq_unlink(unit_space()));
    for (size_t n = 1; n < sizeof(room); n++) {
        char *report;

        memset(room, 'r', sizeof(room));
        report = unit_at_edge(room, n);
        ck_assert_int_eq(enq_doctor(e, 0, report, n), 1);
        ck_assert_uint_lt(strnlen(report, n), n);
    }
    want_why(-EINVAL, enq_doctor(e, 0, NULL, 10), "report");
    want(-EINVAL, enq_doctor(e, 0, room, 0));
    want_why(-EINVAL, enq_doctor(e, 2, room, sizeof(room)), "0x2");
    enq_close(e);
}

/* --- dump --- */

TEST(a_dump_shows_what_there_is)
{
    struct enq *e = unit_open();
    char path[256], text[65536] = "";
    int fd = open(unit_path("dump", path), O_RDWR | O_CREAT, 0600);

    fill(e);
    want(ENQ_OK, enq_dump(e, fd));
    ck_assert_int_gt((int)pread(fd, text, sizeof(text) - 1, 0), 1000);
    ck_assert_ptr_nonnull(strstr(text, unit_space()));
    ck_assert_ptr_nonnull(strstr(text, "held S"));
    ck_assert_ptr_nonnull(strstr(text, "owner \"you\""));
    close(fd);
    enq_close(e);
}

static pthread_barrier_t all_hold; /* and then: all may end */

static void *lock_and_stay(void *e)
{
    struct enq_grant g;

    want(ENQ_OK, lock_by(e, "a", "x", "you", &g));
    pthread_barrier_wait(&all_hold);
    pthread_barrier_wait(&all_hold);
    return NULL;
}

static int times(const char *word, const char *text)
{
    int n = 0;

    while ((text = strstr(text, word)) != NULL)
        n++, text++;
    return n;
}

TEST(a_dump_shows_each_session_and_each_thread)
{
    static char text[65536];
    struct enq *e[3];
    pthread_t threads[3];
    char path[256];
    int fd = open(unit_path("dump", path), O_RDWR | O_CREAT, 0600);

    pthread_barrier_init(&all_hold, NULL, 4);
    for (int i = 0; i < 3; i++) {
        e[i] = unit_open();
        pthread_create(&threads[i], NULL, lock_and_stay, e[i]);
    }
    pthread_barrier_wait(&all_hold);
    want(ENQ_OK, enq_dump(e[0], fd));
    pthread_barrier_wait(&all_hold);
    ck_assert_int_gt((int)pread(fd, text, sizeof(text) - 1, 0), 0);
    ck_assert_int_eq(times("\nsession ", text), 3);
    ck_assert_int_ge(times("\nthread ", text), 3);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        enq_close(e[i]);
    }
    close(fd);
}

TEST(a_dump_that_cannot_be_written_is_a_fault)
{
    struct enq *e = unit_open();
    int fd = open("/dev/full", O_WRONLY), pipes[2];

    fill(e);
    want_why(-ENOSPC, enq_dump(e, fd), "dump");
    close(fd);
    want(-EBADF, enq_dump(e, fd));
    want(-EBADF, enq_dump(e, -1));
    ck_assert_int_eq(pipe2(pipes, O_NONBLOCK), 0);
    while (write(pipes[1], "x", 1) == 1)
        continue;
    want(-EAGAIN, enq_dump(e, pipes[1]));
    enq_close(e);
    close(pipes[0]);
    close(pipes[1]);
}

/* --- only looking --- */

static struct enq *open_to_look(void)
{
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = ENQ_OPEN_READONLY};

    return unit_open_with(&opts);
}

TEST(an_attachment_that_only_looks_sees_everything)
{
    struct enq *e = unit_open(), *r = open_to_look();
    int nowhere = open("/dev/null", O_WRONLY);
    struct enq_grant g;
    char id[ENQ_ID_BYTES], report[1024];
    struct enq_info info;
    enq_handle h;
    size_t total;

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    want(ENQ_OK, enq_valid(r, g.handle));
    want(ENQ_OK, enq_id(r, g.handle, id));
    want(ENQ_OK, enq_find(r, id, &h));
    ck_assert_uint_eq(h, g.handle);
    want(ENQ_NOTHELD, enq_find(r, "nonsense", &h));
    want(ENQ_OK, enq_list(r, "n", NULL, &info, 1, &total));
    ck_assert_uint_eq(total, 1);
    ck_assert_uint_eq(unit_stats(r).sessions, 1);
    ck_assert_int_eq(enq_doctor(r, 0, report, sizeof(report)), 0);
    want(ENQ_OK, enq_dump(r, nowhere));
    close(nowhere);
    enq_close(r);
    enq_close(e);
}

/* Its entry, with the id, is kept until its holder has been told. */
TEST(who_only_looks_does_not_find_a_lock_that_was_broken)
{
    struct enq *e = unit_open(), *r = open_to_look();
    struct enq_grant g;
    enq_handle h;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .key = {"f"}, .mode = ENQ_MODE_X,
                .id = "mine"),
            &g));
    want(ENQ_OK, enq_find(r, "mine", &h));
    ck_assert_uint_eq(h, g.handle);
    want(ENQ_OK, enq_break(e, "mine"));
    want_why(ENQ_NOTHELD, enq_find(r, "mine", &h), "mine");
    want(ENQ_FORCED, enq_unlock(e, g.handle, g.token));
    enq_close(r);
    enq_close(e);
}

static int hold_for_ever(void *nothing)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    (void)nothing;
    want(ENQ_OK, lock_by(e, "a", "x", "you", &g));
    return pause();
}

/* A reader does not clean up, and nobody else is there: of three that are
   stopped as they die none can bury the others. */
TEST(each_who_is_dead_and_not_cleaned_up_is_a_finding)
{
    struct enq *e = unit_open(), *r = open_to_look();
    char report[1024], words[64];
    pid_t dead[3];

    for (int i = 0; i < 3; i++)
        dead[i] = unit_fork(hold_for_ever, NULL);
    eventually(unit_stats(r).held == 3);
    enq_close(e);
    for (int i = 0; i < 3; i++)
        unit_stop(dead[i]);
    for (int i = 0; i < 3; i++)
        unit_kill(dead[i]);
    ck_assert_int_eq(enq_doctor(r, 0, report, sizeof(report)), 3);
    for (int i = 0; i < 3; i++) {
        snprintf(words, sizeof(words), "process %d is dead", (int)dead[i]);
        ck_assert_ptr_nonnull(strstr(report, words));
    }
    enq_close(r);
}

TEST(an_attachment_that_only_looks_changes_nothing)
{
    struct enq *e = unit_open(), *r = open_to_look();
    struct enq_grant g, h;
    char report[256];

    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_O, &g));
    want_why(-EROFS, unit_lock(r, "n", "g", ENQ_MODE_S, &h), "read-only");
    want(-EROFS, enq_unlock(r, g.handle, g.token));
    want(-EROFS, enq_promote(r, g.handle, g.token, &h));
    want(-EROFS, enq_demote(r, g.handle, g.token));
    want(-EROFS, enq_renew(r, g.handle, g.token, 0));
    want(-EROFS, enq_adopt(r, "x", &h));
    want(-EROFS, enq_break(r, "x"));
    want(-EROFS, enq_doctor(r, ENQ_DOCTOR_FIX, report, sizeof(report)));
    want(-EROFS, enq_lock_spec(r, "n", "X", NULL, 0, 0, &h));
    want(ENQ_OK, enq_valid(e, g.handle));
    enq_close(e);
    want(ENQ_NOTHELD, enq_valid(r, g.handle));
    enq_close(r);
}

int main(void)
{
    unit_begin("look");
    ADD(an_entry_is_told_as_it_was_asked_for);
    ADD_LOOP(a_list_has_what_matches_each_object_by_arrival, LENGTH(filters));
    ADD(a_list_is_by_arrival_over_all_objects);
    ADD(a_list_that_is_too_short_says_how_many_there_are);
    ADD(waiters_are_listed_after_holders);
    ADD(thousands_are_listed);
    ADD(what_happens_is_counted);
    ADD(statistics_are_written_only_as_far_as_there_is_room);
    ADD(statistics_need_a_place_with_a_size);
    ADD_LOOP(a_table_that_is_nearly_empty_is_healthy, 5);
    ADD(a_table_that_is_nearly_full_is_a_finding);
    ADD(a_table_that_was_cut_off_is_not_looked_at);
    ADD(a_report_fits_its_room);
    ADD(a_dump_shows_what_there_is);
    ADD(a_dump_shows_each_session_and_each_thread);
    ADD(a_dump_that_cannot_be_written_is_a_fault);
    ADD(an_attachment_that_only_looks_sees_everything);
    ADD(who_only_looks_does_not_find_a_lock_that_was_broken);
    ADD(each_who_is_dead_and_not_cleaned_up_is_a_finding);
    ADD(an_attachment_that_only_looks_changes_nothing);
    return unit_end();
}
