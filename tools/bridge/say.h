/*
 * say.h - what an operator is told: lines on stderr, for the journal.
 */
#ifndef BRIDGE_SAY_H
#define BRIDGE_SAY_H

#include <stdbool.h>

extern bool say_verbose;

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* With --verbose only. */
void say_more(const char *format, ...) __attribute__((format(printf, 1, 2)));
_Noreturn void say_die(int status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* To systemd, where it has started us: "READY=1" (sd_notify(3)). */
void say_notify(const char *state);

#endif
