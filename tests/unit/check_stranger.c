/*
 * check_stranger.c - other users: whose segment is used, and whose is not.
 */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "segment/layout.h"
#include "unit.h"

struct visit {
    uid_t uid;
    uint32_t flags;
    int result;
    const char *words;
    const char *address; /* NULL: the test's space */
    const char *owner;   /* by the options */
};

static int visit_as(void *arg)
{
    const struct visit *v = arg;
    struct enq_open_opts opts = {
        .size = sizeof(opts), .flags = v->flags, .space_owner = v->owner};
    const char *address = v->address != NULL ? v->address : unit_space();
    struct enq *e = NULL;

    ck_assert_int_eq(setgroups(0, NULL), 0);
    ck_assert_int_eq(setresgid(v->uid, v->uid, v->uid), 0);
    ck_assert_int_eq(setresuid(v->uid, v->uid, v->uid), 0);
    want_why(v->result, enq_open(&e, address, &opts), v->words);
    enq_close(e);
    return 0;
}

/* In a directory where anyone could have put it, as in /dev/shm. */
static void belongs_to(uid_t uid, mode_t mode)
{
    enq_unlink(unit_space());
    enq_close(unit_open());
    ck_assert_int_eq(chown(unit_space(), uid, uid), 0);
    ck_assert_int_eq(chmod(unit_space(), mode), 0);
    ck_assert_int_eq(chmod(unit_dir(), 01777), 0);
}

TEST(a_segment_of_another_user_is_refused)
{
    struct visit v = {4712, 0, -EACCES, "Permission denied", NULL, NULL};

    belongs_to(4711, 0600);
    unit_join(unit_fork(visit_as, &v));
    belongs_to(4711, 0644);
    unit_join(unit_fork(visit_as, &v));
}

/* Anybody could have made it, to be believed. */
TEST(another_users_readable_segment_is_not_believed)
{
    struct visit v = {
        4712, ENQ_OPEN_READONLY, -EACCES, "user 4711", NULL, NULL};

    belongs_to(4711, 0644);
    unit_join(unit_fork(visit_as, &v));
}

TEST(roots_readable_segment_may_be_looked_at)
{
    struct visit v = {4712, ENQ_OPEN_READONLY, ENQ_OK, "", NULL, NULL};

    belongs_to(0, 0644);
    unit_join(unit_fork(visit_as, &v));
}

/* Root could open it, whatever its permissions: all the more reason. */
TEST(root_does_not_use_another_users_segment)
{
    static const uint32_t flags[] = {0, ENQ_OPEN_EXISTING, ENQ_OPEN_READONLY};

    for (size_t i = 0; i < LENGTH(flags); i++) {
        struct enq_open_opts opts = {.size = sizeof(opts), .flags = flags[i]};
        struct enq *e = NULL;
        char says[300];

        belongs_to(4711, i == 2 ? 0660 : 0600);
        snprintf(says, sizeof(says),
            "%s belongs to user 4711, and you are root (0)", unit_space());
        want_why(-EACCES, enq_open(&e, unit_space(), &opts), says);
        snprintf(says, sizeof(says), "%s?owner=4711", unit_space());
        want_why(-EACCES, enq_open(&e, unit_space(), &opts), says);
        ck_assert_ptr_null(e);
    }
}

/* It goes, but nothing is written into it. */
TEST(a_strangers_segment_is_removed_and_not_touched)
{
    struct seg_header header;
    int fd;

    belongs_to(4711, 0600);
    fd = open(unit_space(), O_RDONLY | O_CLOEXEC);
    want(ENQ_OK, enq_unlink(unit_space()));
    ck_assert_int_eq(access(unit_space(), F_OK), -1);
    ck_assert_int_eq(pread(fd, &header, sizeof(header), 0), sizeof(header));
    ck_assert_uint_eq(header.unlinked, 0);
    close(fd);
}

/* To be shared by a group, it is enough that its makers say so: but a user
   of the group must say whose space is meant, as anyone else of it may be first.
 */
TEST(a_segment_shared_with_the_group_is_used_by_who_names_its_owner)
{
    struct visit v = {4712, 0, -EACCES, "?owner=4711", NULL, NULL};
    char named[300];

    belongs_to(4711, 0660);
    ck_assert_int_eq(chown(unit_space(), 4711, 4712), 0);
    unit_join(unit_fork(visit_as, &v));
    v.flags = ENQ_OPEN_READONLY;
    unit_join(unit_fork(visit_as, &v));
    snprintf(named, sizeof(named), "%s?owner=4711", unit_space());
    v = (struct visit){4712, 0, ENQ_OK, "", named, NULL};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){4712, 0, ENQ_OK, "", unit_space(), "4711"};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){4712, 0, ENQ_OK, "", named, "4711"};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){4712, 0, -EACCES, "4711", unit_space(), "4713"};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){4712, 0, -EINVAL, "two owners", named, "4713"};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){
        4712, 0, -EINVAL, "unknown user", unit_space(), "nobody!"};
    unit_join(unit_fork(visit_as, &v));
}

TEST(the_environment_names_an_owner_as_well)
{
    struct enq *e;
    char named[300];

    belongs_to(4711, 0600);
    snprintf(named, sizeof(named), "%s?owner=4711", unit_space());
    ck_assert_int_eq(setenv("ENQ_SPACE", named, 1), 0);
    want(ENQ_OK, enq_open(&e, NULL, NULL));
    enq_close(e);
    want(ENQ_OK, enq_unlink(NULL));
}

/* Else the first to come would make it, and those that do not name that user
   would be refused. */
TEST(a_user_that_names_an_owner_leaves_the_space_to_that_one_to_make)
{
    struct visit v = {4712, 0, -ENOENT, "user 4711", NULL, "4711"};

    ck_assert_int_eq(chmod(unit_dir(), 01777), 0);
    unit_join(unit_fork(visit_as, &v));
    v.owner = "root";
    v.words = "no lock space";
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){0, 0, -ENOENT, "user 4711", NULL, "4711"};
    unit_join(unit_fork(visit_as, &v));
    v = (struct visit){4711, 0, ENQ_OK, "", NULL, "4711"};
    unit_join(unit_fork(visit_as, &v));
    ck_assert_int_eq(unlink(unit_space()), 0);
    v = (struct visit){0, 0, ENQ_OK, "", NULL, "root"};
    unit_join(unit_fork(visit_as, &v));
}

static const struct {
    uid_t uid;
    mode_t mode;
    int result;
} places[] = {
    {0, 0755, ENQ_OK},
    {0, 0700, ENQ_OK},
    {0, 01777, -EACCES},
    {0, 0777, -EACCES},
    {0, 0775, -EACCES},
    {0, 0757, -EACCES},
    {4711, 0755, -EACCES},
    {4712, 0700, -EACCES},
};

TEST(what_root_alone_can_have_placed_there_is_used)
{
    struct visit v = {0, 0, places[_i].result, "", NULL, NULL};

    belongs_to(4711, 0600);
    ck_assert_int_eq(chmod(unit_dir(), places[_i].mode), 0);
    ck_assert_int_eq(chown(unit_dir(), places[_i].uid, 0), 0);
    unit_join(unit_fork(visit_as, &v));
}

TEST(a_stranger_cannot_create_in_our_directory)
{
    struct visit v = {4712, 0, -EACCES, "cannot make", NULL, NULL};

    unit_join(unit_fork(visit_as, &v));
}

static int unlink_as_stranger(void *nothing)
{
    (void)nothing;
    ck_assert_int_eq(setresuid(4712, 4712, 4712), 0);
    want_why(-EACCES, enq_unlink(unit_space()), unit_space());
    return 0;
}

TEST(a_stranger_cannot_remove_our_segment)
{
    struct enq *e = unit_open();
    struct enq_grant g;

    unit_join(unit_fork(unlink_as_stranger, NULL));
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    enq_close(e);
}

int main(void)
{
    unit_begin("stranger");
    ADD_ROOT(a_segment_of_another_user_is_refused);
    ADD_ROOT(another_users_readable_segment_is_not_believed);
    ADD_ROOT(roots_readable_segment_may_be_looked_at);
    ADD_ROOT(root_does_not_use_another_users_segment);
    ADD_ROOT(a_strangers_segment_is_removed_and_not_touched);
    ADD_ROOT(a_segment_shared_with_the_group_is_used_by_who_names_its_owner);
    ADD_ROOT(the_environment_names_an_owner_as_well);
    ADD_ROOT(a_user_that_names_an_owner_leaves_the_space_to_that_one_to_make);
    ADD_ROOT(a_stranger_cannot_create_in_our_directory);
    ADD_ROOT(a_stranger_cannot_remove_our_segment);
    if (unit_is_root())
        ADD_LOOP(what_root_alone_can_have_placed_there_is_used, LENGTH(places));
    else
        unit_skip("what_root_alone_can_have_placed_there_is_used",
            "needs root");
    return unit_end();
}
