/*
 * check_user.c - users of this host, by number and by name.
 */
#include "base/user.h"

#include <errno.h>
#include <pwd.h>

#include "unit.h"

#define SOMEONE_ELSE ((uid_t)4711) /* what is there before it is found */

static uid_t found(const char *text)
{
    uid_t uid = SOMEONE_ELSE;

    want(0, user_find(text, &uid));
    return uid;
}

TEST(a_user_is_found_by_name)
{
    ck_assert_uint_eq(found("root"), 0);
}

TEST(a_user_is_found_by_number)
{
    ck_assert_uint_eq(found("0"), 0);
    ck_assert_uint_eq(found("1000"), 1000);
    ck_assert_uint_eq(found("4294967294"), UINT32_MAX - 1);
}

/* Not the last of the numbers either: the kernel does not take it for a user. */
TEST(what_is_neither_a_name_nor_a_number_is_refused)
{
    static const char *const none[] = {"", "nobody!", "-1", "4294967295",
        "4294967296", "18446744073709551616", "12x"};
    uid_t uid;

    for (size_t i = 0; i < LENGTH(none); i++)
        want_why(-EINVAL, user_find(none[i], &uid), none[i]);
}

TEST(a_user_without_a_name_is_shown_by_number)
{
    char text[USER_TEXT_BYTES], name[USER_NAME_BYTES];
    uid_t uid = UINT32_MAX - 1;

    while (getpwuid(uid) != NULL)
        uid--;
    user_name(uid, name);
    user_text(uid, text);
    ck_assert_str_eq(text, name);
    ck_assert_uint_eq(found(name), uid);
    user_text(0, text);
    ck_assert_str_eq(text, "root (0)");
}

int main(void)
{
    unit_begin("user");
    ADD(a_user_is_found_by_name);
    ADD(a_user_is_found_by_number);
    ADD(what_is_neither_a_name_nor_a_number_is_refused);
    ADD(a_user_without_a_name_is_shown_by_number);
    return unit_end();
}
