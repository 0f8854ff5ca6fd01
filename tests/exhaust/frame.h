/*
 * frame.h - what the exhaustion tests share: a runner with a process for each
 * test, directories that are removed, children, figures and chance.
 */
#ifndef EXHAUST_FRAME_H
#define EXHAUST_FRAME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "enq.h"

#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

#define SKIPPED 77 /* status of a test that could not run */

struct test {
    const char *name;
    void (*run)(void);
};

/* A suite is a file's tests, ended by one without a name. */
extern const struct test room_tests[], rlimit_tests[], full_tests[],
    limit_tests[], set_tests[], file_tests[], race_tests[], kernel_tests[];

/* What the command line says. */
extern struct options {
    uint64_t seed;
    int64_t until_ms; /* the random ones go on until then */
    unsigned count;   /* races, at least */
    const char *only; /* tests whose names contain it */
} options;

/* --- in a test --- */

/* Without root it ends as skipped. */
void needs_root(void);

/* Ends the process as failed, having said why. */
void fail_at(const char *file, int line, const char *format, ...)
    __attribute__((noreturn, format(printf, 3, 4)));

/* What it says first, from now on: how to do it again, say. */
void fail_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* From now on that reason is left there, and not printed. */
void fail_into(char *text, size_t n);

#define must(condition, ...)                                                   \
    do {                                                                       \
        if (!(condition))                                                      \
            fail_at(__FILE__, __LINE__, __VA_ARGS__);                          \
    } while (0)

/* The call gives this result; and explains itself with these words. */
#define want(expected, call)                                                   \
    do {                                                                       \
        int want_ = (expected), got_ = (call);                                 \
        must(got_ == want_, "%s is %s (%s), not %s", #call,                    \
            enq_result_name(got_), enq_why(), enq_result_name(want_));         \
    } while (0)
#define want_why(expected, call, words)                                        \
    do {                                                                       \
        want(expected, call);                                                  \
        must(strstr(enq_why(), words) != NULL, "\"%s\" does not say \"%s\"",   \
            enq_why(), words);                                                 \
    } while (0)

/* Waits some seconds for what must come true. */
#define eventually(condition)                                                  \
    do {                                                                       \
        int64_t give_up_ = now_ms() + 5000;                                    \
        while (!(condition)) {                                                 \
            must(now_ms() < give_up_, "never came true: %s", #condition);      \
            nap_us(100);                                                       \
        }                                                                      \
    } while (0)

/* A directory on a tmpfs, of this test, and a path in it. */
const char *test_dir(void);
const char *test_space(void);
const char *test_path(const char *name, char path[256]);

/* Opens a space of 1,000 slots, a new one if need be. */
struct enq *open_at(const char *path);
struct enq *open_small(const char *path, uint32_t slots);
int lock_x(struct enq *e, const char *name, struct enq_grant *g);
/* `enq_doctor` finds nothing. */
void must_be_healthy(struct enq *e);

/* Children: `f` in a process of its own; the wait status. */
pid_t spawn(void (*f)(void *), void *arg);
int collect(pid_t pid);
void join(pid_t pid); /* it must end well */
/* `f` in a child, which must end well. */
void apart(void (*f)(void *), void *arg);

/* A namespace of mounts of our own, and in it a tmpfs with these options at
   test_path("fs"). */
const char *own_tmpfs(const char *options);

void *shared_memory(size_t bytes);
unsigned entries_of(const char *directory); /* without . and .. */
int64_t now_ms(void);
void nap_us(int64_t us);

/* Figures, counted over all processes. */
enum figure { FIGURE_FAILURES, FIGURE_RACES, FIGURE_LIMITS, FIGURES };
void count(enum figure what);
uint64_t counted(enum figure what);

#endif
