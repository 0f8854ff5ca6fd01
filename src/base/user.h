/*
 * user.h - base: users, by number and by name.
 */
#ifndef BASE_USER_H
#define BASE_USER_H

#include <sys/types.h>

#define USER_NAME_BYTES 33
#define USER_TEXT_BYTES (USER_NAME_BYTES + 16)

/* "alice (1000)", or "1000" where this host has no name for it; for people. */
void user_text(uid_t uid, char text[USER_TEXT_BYTES]);

/* What ?owner= takes for it: "alice", or "1000". */
void user_name(uid_t uid, char text[USER_NAME_BYTES]);

/* The user of this name or number. -EINVAL, explained: there is none. */
int user_find(const char *text, uid_t *uid);

#endif
