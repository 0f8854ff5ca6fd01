/*
 * env.h - what the cases about the environment share.
 *
 * A case is a function whose name is a sentence. It runs in a process of its
 * own, in a process group of its own, with a space of its own (env_space()),
 * which the frame ends and removes. What it says with must() ends it.
 */
#ifndef ENV_H
#define ENV_H

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/atomic.h"
#include "enq.h"

struct env_case {
    const char *name;
    void (*run)(void);
    bool alone; /* it measures: nothing else runs meanwhile */
};
#define CASE(name)                                                             \
    {                                                                          \
#name, name, false                                                     \
    }
#define ALONE(name)                                                            \
    {                                                                          \
#name, name, true                                                      \
    }
#define LENGTH(array) (sizeof(array) / sizeof((array)[0]))

/* Each file's cases, ended by one without a name. */
extern const struct env_case clock_cases[], timens_cases[], stop_cases[],
    promise_cases[], token_cases[], pid_cases[], filter_cases[], robust_cases[],
    family_cases[], exec_cases[], thread_cases[], end_cases[], load_cases[],
    cred_cases[], survive_cases[], exclude_cases[], overtake_cases[],
    dying_cases[];

/* A program of ours that a case execs: `--role NAME ARGUMENT`. Its exit
   status is the answer. */
struct env_role {
    const char *name;
    int (*run)(const char *argument);
};
extern const struct env_role filter_roles[], family_roles[];

/* Runs all cases whose name contains `only`. How many failed. */
unsigned env_run_all(const char *only);
extern unsigned env_passed, env_failed;

/* Of all cases: processes killed while they wrote, when it has been seen that
   none of their locks was another's before that was done. */
extern uint32_t *env_dying_kills;
int env_role(const char *name, const char *argument);

/* A line of the case that runs: its name, and what it has counted. */
__attribute__((format(printf, 1, 2))) void env_say(const char *format, ...);
/* What tests/run collects. */
void env_figure(const char *name, uint64_t value);

/* The kills of storm.c; 0 when nothing went wrong. */
int storm_run(unsigned kills, uint64_t seed);

/* --- what a case says --- */

__attribute__((noreturn, format(printf, 3, 4))) void env_fail(const char *file,
    int line, const char *format, ...);

#define must(condition)                                                        \
    do {                                                                       \
        if (!(condition))                                                      \
            env_fail(__FILE__, __LINE__, "not so: %s (errno %s)", #condition,  \
                strerrorname_np(errno));                                       \
    } while (0)
#define want(expected, call)                                                   \
    do {                                                                       \
        int want_ = (expected), got_ = (call);                                 \
        if (got_ != want_)                                                     \
            env_fail(__FILE__, __LINE__, "%s is %s (%s), not %s", #call,       \
                enq_result_name(got_), enq_why(), enq_result_name(want_));     \
    } while (0)
#define want_why(expected, call, words)                                        \
    do {                                                                       \
        want(expected, call);                                                  \
        if (strstr(enq_why(), words) == NULL)                                  \
            env_fail(__FILE__, __LINE__, "\"%s\" does not say \"%s\"",         \
                enq_why(), words);                                             \
    } while (0)
#define within(ms, condition)                                                  \
    do {                                                                       \
        double give_up_ = env_ms() + (ms);                                     \
        bool came_ = (condition);                                              \
        while (!came_ && env_ms() < give_up_) {                                \
            env_nap(0.1);                                                      \
            came_ = (condition);                                               \
        }                                                                      \
        if (!came_)                                                            \
            env_fail(__FILE__, __LINE__, "not within %d ms: %s", (int)(ms),    \
                #condition);                                                   \
    } while (0)
#define eventually(condition) within(8000, condition)

/* A measured time: of real seconds, whatever the clocks are told below. */
double env_ms(void);
void env_nap(double ms);

/* How much later than asked this machine wakes anybody up, at worst, since
   env_lag_begin(): what a promise "on an idle machine" is allowed on top. */
void env_lag_begin(void);
double env_lag_end_ms(void);

/* --- spaces and locks --- */

void env_new_space(void); /* the frame's, for each case */
const char *env_space(void);
const char *env_space_path(void);
const char *env_other_space(void);
struct enq *env_open(void);
/* X on the object's field, for an owner of this attachment's own. */
int env_take(struct enq *e, const char *field, int64_t wait_ms,
    struct enq_grant *g);
struct enq_stats env_stat(struct enq *e);
void env_healthy(struct enq *e);

/* --- processes --- */

void *env_shared(size_t bytes);
void env_reach(uint32_t *flag);
void env_await(uint32_t *flag);
bool env_reached(uint32_t *flag);

pid_t env_child(int (*f)(void *), void *arg);
/* The same in a new PID namespace, as its first process. */
pid_t env_child_in_pidns(int (*f)(void *), void *arg);
int env_status(pid_t pid);  /* as waitpid() gives it */
void env_join(pid_t pid);   /* it ends with status 0 */
void env_kill(pid_t pid);   /* SIGKILL, and it is reaped */
void env_killed(pid_t pid); /* it kills itself */
void env_stop(pid_t pid);   /* SIGSTOP, and all its threads stand */
void env_continue(pid_t pid);
__attribute__((noreturn)) void env_exec(const char *role, const char *argument);

/* Where to die, or stop, by the name of a crash point; NULL: nowhere. */
void env_at_point(const char *name, int signal);

/* --- clocks: clock_gettime() of this program, as told --- */

struct env_clocks {
    int64_t wall_step_ns; /* added to CLOCK_REALTIME */
    int64_t suspended_ns; /* added to CLOCK_BOOTTIME, as a suspend would */
    uint64_t wall_readings;
};
extern struct env_clocks *env_clocks; /* shared by all processes */
void env_clocks_init(void);

#endif
