/*
 * lockctl.h - what the files of lockctl share: the settings of one call, the
 * shape of a command, exit codes. lockctl sees enq.h and nothing else of
 * libenq.
 */
#ifndef LOCKCTL_H
#define LOCKCTL_H

#include <enq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum status {
    DONE = 0,
    FAILED = 1,
    USAGE = 64,
    NO_SPACE = 69,
    DAMAGED = 70,
    NOT_OBTAINED = 75,
    DEADLOCKED = 76,
    NO_PERMISSION = 77,
    LOST = 79,
    TIME_OVER = 124,
    RUN_FAILED = 125,
    RUN_UNABLE = 126,
    RUN_NOT_FOUND = 127,
    SIGNALLED = 128, /* + the signal's number */
};

enum color_rule { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct cli;

/* An option without `set` goes into a member of struct cli as it is: a switch
   into a bool, a text into a string. */
struct opt {
    char letter; /* 0: long only */
    const char *name;
    const char *arg; /* NULL: a switch */
    const char *help;
    /* Takes the value over; else what is wrong with it, to follow `is`. */
    const char *(*set)(struct cli *cli, const char *value);
    size_t at; /* offset in struct cli */
};
#define OPT(letter, name, arg, help, set)                                      \
    {                                                                          \
        letter, name, arg, help, set, 0                                        \
    }
#define OPT_AS_IS(letter, name, arg, help, member)                             \
    {                                                                          \
        letter, name, arg, help, NULL, offsetof(struct cli, member)            \
    }
#define OPT_END                                                                \
    {                                                                          \
        0, NULL, NULL, NULL, NULL, 0                                           \
    }

struct command {
    const char *name;
    const char *operands;
    const char *what;       /* one line */
    const char *more;       /* or NULL */
    const struct opt *opts; /* ended by one without a name */
    int least, most;        /* operands; most < 0: any number */
    bool starts_program;    /* options end at the first operand */
    int (*act)(struct cli *cli);
};

/* One call of lockctl: what its words mean. */
struct cli {
    const struct command *command; /* NULL: none named yet */
    const char *space;             /* NULL = $ENQ_SPACE or the default */
    enum color_rule color;
    bool json, quiet, verbose, help, version;
    char **operand;
    int n_operands;

    enum enq_mode mode; /* 0: none given */
    const char *owner, *sort, *only, *confirm, *name;
    const char *also[ENQ_SET_MAX - 1]; /* the rest of a lock set */
    unsigned n_also;
    int64_t wait_ms, ttl_ms, grace_ms, interval_ms;
    int64_t heartbeat_ms; /* 0: not given; ENQ_FOREVER: none */
    uint64_t token;
    int32_t pid;
    int busy_status;
    bool keep, waiting, foreground, fix, kill;
    bool no_deadlock, dot, fail;
    bool limited; /* wait_ms was given where there is no limit without */
};

/* Messages, on stderr, with control characters made visible --------------- */

void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A usage error; names the help to look at. Returns USAGE. */
int say_usage(const struct cli *cli, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* An answer of libenq other than ENQ_OK. */
struct refusal {
    int result;
    const char *why;
    const char *object; /* that was asked for, NULL: the lock was named by id */
    const struct enq_blocker *blocker; /* NULL: nobody to name */
};

/* Says it (ordinary outcomes not when quiet), on stdout too as an object
   when JSON is asked for. Returns the exit code. */
int say_refusal(const struct cli *cli, const struct refusal *refusal);

/* The same for a call that failed in this thread just now. */
int say_why(const struct cli *cli, int result);

/* "locked by A (mode E, 2 min 10 s, pid 4711 worker, ttl 12 min 50 s left)". */
void say_blocker_text(char *out, size_t n, const struct enq_blocker *blocker);

int status_of(int result);

/* Attaches to the space that the user named. Returns DONE, or says why not
   and returns the exit code. @flags: enum enq_open_flags. */
int space_open(const struct cli *cli, uint32_t flags, struct enq **out);

#endif
