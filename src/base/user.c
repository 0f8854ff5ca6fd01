/*
 * user.c - base: users, by number and by name (see user.h).
 */
#include "base/user.h"

#include <errno.h>
#include <pwd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"

#define RECORD_BYTES 4096 /* of /etc/passwd, or what stands for it */

void user_name(uid_t uid, char text[USER_NAME_BYTES])
{
    struct passwd entry, *found = NULL;
    char record[RECORD_BYTES];

    getpwuid_r(uid, &entry, record, sizeof(record), &found);
    if (found != NULL && strlen(found->pw_name) < USER_NAME_BYTES)
        snprintf(text, USER_NAME_BYTES, "%s", found->pw_name);
    else
        snprintf(text, USER_NAME_BYTES, "%u", (unsigned)uid);
}

void user_text(uid_t uid, char text[USER_TEXT_BYTES])
{
    size_t n;

    user_name(uid, text);
    n = strlen(text);
    if (text[0] < '0' || text[0] > '9')
        snprintf(text + n, USER_TEXT_BYTES - n, " (%u)", (unsigned)uid);
}

/* -1, as a number, is nobody's: the kernel takes it for "as it is". */
static bool is_number(const char *text, uid_t *uid)
{
    unsigned long long n;
    char *end;

    if (text[0] < '0' || text[0] > '9')
        return false;
    errno = 0;
    n = strtoull(text, &end, 10);
    *uid = (uid_t)n;
    return errno == 0 && *end == '\0' && n == *uid && *uid != (uid_t)-1;
}

int user_find(const char *text, uid_t *uid)
{
    struct passwd entry, *found = NULL;
    char record[RECORD_BYTES];

    if (is_number(text, uid))
        return 0;
    getpwnam_r(text, &entry, record, sizeof(record), &found);
    if (found == NULL)
        return why(-EINVAL,
            "unknown user \"%.64s%s\": give a name that this host knows, or a "
            "number",
            WHY_CUT(text));
    *uid = found->pw_uid;
    return 0;
}
