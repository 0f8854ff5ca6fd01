/*
 * unit.h - what the unit tests share: the frame of a program, places for
 * spaces that are removed at the end, child processes, and patience.
 *
 * A program is one suite of Check, each test in a process of its own:
 *
 *	TEST(two_and_two_make_four) { ck_assert_int_eq(2 + 2, 4); }
 *
 *	int main(void)
 *	{
 *	    unit_begin("sums");
 *	    ADD(two_and_two_make_four);
 *	    return unit_end();
 *	}
 *
 * With UNIT_ONLY=two_and_two_make_four in the environment it is just that one.
 */
#ifndef UNIT_H
#define UNIT_H

#include <check.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/types.h>

#include "enq.h"
#include "lib/runner.h"
#include "lib/starved.h"

#define TEST(name) START_TEST(name)
#define ADD(name) ADD_FROM_TO(name, 0, 1)
#define ADD_LOOP(name, n) ADD_FROM_TO(name, 0, (int)(n))
#define ADD_FROM_TO(name, from, to)                                            \
    do {                                                                       \
        if (unit_wants(#name))                                                 \
            runner_add(name, 0, from, to);                                     \
    } while (0)
/* It is ended by this signal, or has failed. */
#define ADD_ENDED_BY(signal, name)                                             \
    do {                                                                       \
        if (unit_wants(#name))                                                 \
            runner_add(name, signal, 0, 1);                                    \
    } while (0)
/* Counted as skipped, with its reason, where `can` is false. */
#define ADD_IF(can, reason, name)                                              \
    do {                                                                       \
        if (can)                                                               \
            ADD(name);                                                         \
        else                                                                   \
            unit_skip(#name, reason);                                          \
    } while (0)
#define ADD_ROOT(name) ADD_IF(unit_is_root(), "needs root", name)

/* Check writes down where a test is for each condition that holds, and reads it
   all at the end: most of the time of a test that has thousands of them in a loop.
   Of a line that is repeated the first time is enough. */
void unit_is_at(const char *file, int line);
#define _mark_point(file, line) unit_is_at(file, line)

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* The call gives this result; and explains itself with these words. */
#define want(expected, call)                                                   \
    do {                                                                       \
        int want_ = (expected), got_ = (call);                                 \
        ck_assert_msg(got_ == want_, "%s is %s (%s), not %s", #call,           \
            enq_result_name(got_), enq_why(), enq_result_name(want_));         \
    } while (0)
#define want_why(expected, call, words)                                        \
    do {                                                                       \
        want(expected, call);                                                  \
        ck_assert_msg(strstr(enq_why(), words) != NULL,                        \
            "\"%s\" does not say \"%s\"", enq_why(), words);                   \
    } while (0)

/* Waits for a condition that must come true; looks 10,000 times a second. */
#define eventually(condition)                                                  \
    do {                                                                       \
        int64_t give_up_ = unit_now_ms() + unit_patience_ms();                 \
        bool came_ = (condition);                                              \
        while (!came_ && unit_now_ms() < give_up_) {                           \
            unit_nap();                                                        \
            came_ = (condition);                                               \
        }                                                                      \
        ck_assert_msg(came_, "never came true: %s", #condition);               \
    } while (0)

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define UNIT_TSAN 1
#endif
#if __has_feature(address_sanitizer)
#define UNIT_ASAN 1
#endif
#endif
#ifndef UNIT_TSAN
#define UNIT_TSAN 0 /* no threads in a child of a process with threads */
#endif
#ifndef UNIT_ASAN
#define UNIT_ASAN 0
#endif
#define UNIT_SANITIZED (UNIT_ASAN || UNIT_TSAN)

void unit_begin(const char *module);
bool unit_wants(const char *test); /* $UNIT_ONLY wants no other */
void unit_skip(const char *test, const char *reason);
bool unit_is_root(void);
/* Runs all, prints the suite line. The exit status of the program. */
int unit_end(void);

/* A directory on a tmpfs, of this test; and paths in it. */
const char *unit_dir(void);
const char *unit_space(void);
const char *unit_path(const char *name, char path[256]);

/* Opens the space of this test, a new one with these options if need be. */
struct enq *unit_open(void);
struct enq *unit_open_with(const struct enq_open_opts *opts);
/* One field, no wait: the result; the grant. */
int unit_lock(struct enq *e, const char *name, const char *field,
    enum enq_mode mode, struct enq_grant *g);
struct enq_stats unit_stats(struct enq *e);
/* Of a space behind a bridge. */
struct remote *unit_remote(struct enq *e);
/* What is derived is what the truth says. */
void unit_healthy(struct enq *e);

/* A child that runs `f`: its result is the exit status. */
pid_t unit_fork(int (*f)(void *), void *arg);
void unit_join(pid_t pid);   /* it must end with status 0 */
void unit_join_all(int n);   /* so must these */
void unit_kill(pid_t pid);   /* SIGKILL, and it is gone */
void unit_killed(pid_t pid); /* it kills itself */
void unit_stop(pid_t pid);   /* SIGSTOP, and it stands still */
/* A child has done its part, and waits for its end. */
void unit_stay(uint32_t *ready) __attribute__((noreturn));

/* Zeroed memory that children share. */
void *unit_shared(size_t bytes);

/* Bytes that end where no memory is: one too far traps. */
char *unit_at_edge(const void *bytes, size_t n);

int64_t unit_now_ms(void);
int64_t unit_patience_ms(void);
void unit_nap(void);
unsigned unit_count_dir(const char *path); /* /proc/self/fd and the like */

/* Random numbers from $ENQ_SEED or the clock; printed, to be replayed. */
uint64_t unit_seed(void);

/* At the begin of a test whose subject is what is looked at by the clock alone:
   it has ticks in the suite without them (ENQ_TICK_MS), too. */
void unit_with_ticks(void);
uint64_t unit_random(uint64_t *dice);

#endif
