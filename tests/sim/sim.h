/*
 * sim.h - the simulated machine: processes, the scheduler, the kernel under
 * them.
 *
 * The library's sources are compiled for this program with the thread
 * sanitizer's instrumentation, but linked with access.c in its place: so each
 * access of the library to the segment passes through sim_step(). There the
 * scheduler may take the processor away for good (death), for long (stop) or
 * for a moment, and everything that follows is a function of the seed.
 *
 * A process is one thread; or two, where the library's helper thread runs in
 * it (private.c): what is private to a process is then swapped with the
 * processor.
 */
#ifndef SIM_SIM_H
#define SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api/attachment.h"
#include "sim/coro.h"
#include "sync/sys.h"

#define PROCS_MAX 32  /* threads, that is */
#define LIVES_MAX 4   /* life mutexes of one process */
#define BUFFER_MAX 24 /* stores on their way to memory */
#define WEAKENED_MAX 128
#define EARLY_MAX 64
#define STEP_NS 5     /* virtual time that a step takes */
#define HOLDS_MAX 256 /* of one process */
#define KEYS_MAX 320
#define TICKETS_MAX 40 /* requests that one process has started */
#define PARTED_MAX 64  /* locks that it has given back lately */
#define MUTEXES_MAX 8  /* private ones, held at once in one process */
#define HELPER_BYTES 256
#define SET_MAX 12  /* locks of a set */
#define ASKED_MAX 8 /* sets that one process has asked for, and not got yet */

/* --- processes --- */

enum proc_state {
    PROC_NONE,
    PROC_READY,
    PROC_ASLEEP,
    PROC_ENDED, /* came to its own end */
    PROC_DEAD,  /* never to run again */
};

/* A lock that this process believes to have. */
struct hold {
    enq_handle handle;
    uint64_t token;
    int64_t until_ns; /* it cannot have run out before */
    int64_t ttl_ms;
    int64_t heartbeat_ms; /* it is renewed so often; 0: it is not */
    int64_t lost_ns;      /* sim.lost_ns when it was asked for */
    uint8_t mode;
    unsigned set;             /* with whom it was asked for; 0: alone */
    bool asked;               /* an event has said that somebody waits for it */
    unsigned nears, renewals; /* told that its ttl is near; by its holder */
};

/* What the oracle knows of a lock set (whole.c). */
struct known;

/* A lock set that this process has asked for. The library writes the grants of
   one that was started when its result is taken. */
struct asked_set {
    bool used;
    unsigned n;
    struct hold hold[SET_MAX];
    struct enq_grant grants[SET_MAX];
    struct known *known;
};

/* A request that was started, and whose result has not come yet. */
struct ticket {
    uint64_t number;
    int64_t began_ns, wait_ms;
    struct hold hold; /* what it will be */
    enq_handle queued;
    bool cancelled;
    bool looks;            /* for cycles */
    struct asked_set *set; /* or NULL: one lock */
};

/* A store that the processor has not written to memory yet. While its process
   runs, memory has its value, and this is what was there before. */
struct buffered {
    void *at;
    uint64_t value;
    unsigned bytes;
    bool atomic, release;
    int64_t began_ns;     /* the call that stored it */
    struct known *asking; /* and the lock set that it was for */
};

/* A liveness word that the kernel has yet to mark. */
struct mark {
    uint32_t *word;
    int64_t at_ns;
};

struct early {
    char *at;
    uint64_t value;
    unsigned bytes;
};

struct proc {
    struct coro coro;
    enum proc_state state;
    unsigned number;
    struct proc *process; /* its first thread, which has what they share */
    uint64_t life;        /* which process the library believes to be in */
    struct thread *thread_last, *threads;
    struct map *map; /* the process's */
    struct enq enq;
    bool session;       /* its private memory is there */
    int64_t retires_ns; /* since then, it does not come back */
    bool told;          /* a watcher has reported a death */
    void (*body)(struct proc *p);

    int64_t die_in;         /* steps; 0: it does not */
    bool dies_next;         /* when it has to leave the processor */
    int64_t stopped_until;  /* SIGSTOP */
    uint64_t stalled_until; /* step: while others can run, they do */
    int64_t began_ns;       /* its call, or its last sleep's end */
    int64_t called_ns;      /* its call */
    unsigned priority;      /* of strategy PRIORITIES */
    const uint32_t *lives[LIVES_MAX];
    unsigned n_lives;
    struct mark marks[LIVES_MAX];
    unsigned n_marks;

    struct sys_watch watch[SYS_WATCHES_MAX];
    unsigned n_watches;
    int64_t wake_ns;
    bool registry;     /* sleeps until the registry lock is free */
    const void *wants; /* or until this mutex or condition is */

    struct buffered buffer[BUFFER_MAX];
    unsigned n_buffer;
    uint64_t linger; /* until this step nothing leaves it by itself */
    bool loses;      /* when it dies, what is in it */

    struct early early[EARLY_MAX]; /* what others overwrite: weaken.c */
    unsigned n_early, early_bytes;
    const void *early_at;
    bool keeps;

    struct hold holds[HOLDS_MAX];
    unsigned n_holds;

    /* of its process, if that has a helper thread */
    bool threaded, doomed; /* doomed: one of its threads was killed */
    struct map own_map;
    _Alignas(16) char helper[HELPER_BYTES];
    struct {
        const void *mutex;
        const struct proc *by;
    } mutexes[MUTEXES_MAX];
    unsigned n_mutexes;
    void *(*start)(void *context); /* a thread's */
    void *context;

    uint64_t readable; /* the count of its descriptor */
    bool listens;
    struct ticket tickets[TICKETS_MAX];
    unsigned n_tickets;
    enq_handle parted[PARTED_MAX];
    unsigned n_parted;
    struct asked_set sets[ASKED_MAX];
    struct known *asking; /* the set that it is in the call for */

    /* for the judges of cycles */
    bool looks; /* is in a call that looks for them */
    enq_handle queued;
    int64_t cycle_ns;
};

/* --- the machine --- */

/* Faults of the virtual machine, to see that the checks find them. */
enum fault {
    FAULT_NONE,
    FAULT_WAKES,  /* wake-ups get lost */
    FAULT_FENCES, /* a full barrier does nothing */
    FAULT_CAS,    /* a compare-and-swap succeeds that should fail */
    FAULT_MARKS,  /* the kernel does not mark liveness words */
    FAULTS
};

enum strategy { WALK, PRIORITIES, PREEMPT, STRATEGIES };

struct sim {
    /* read at each access */
    uintptr_t base;
    size_t bytes; /* 0: nobody runs, nothing is an access */
    int64_t left; /* accesses until the scheduler is asked */
    uint64_t steps, trace;

    uint64_t seed, dice;
    enum fault fault;
    struct map *map;
    struct coro root;
    struct proc procs[PROCS_MAX];
    unsigned n_procs;
    struct proc *me;      /* NULL: the scheduler itself */
    struct proc *by;      /* whose store it is that is being judged */
    struct known *asking; /* made in the call for this set; or NULL */
    struct proc *registry;

    int64_t clock_ns; /* but for the steps */
    enum strategy strategy;
    unsigned quantum, gap, preemptions;
    uint64_t next_change, next_chaos;
    bool buffers;   /* stores pass through a buffer */
    bool weak;      /* and leave it in any order that is allowed */
    unsigned drain; /* one of it leaves it once in so many turns */
    uintptr_t weakened[WEAKENED_MAX]; /* places in the program: --weaken */
    unsigned n_weakened;
    bool pairs;     /* of unordered accesses are looked for: --unordered */
    unsigned edges; /* switch at one in so many atomic accesses; 0: not more */
    bool stops;     /* processes are stopped at times */
    unsigned deaths, lowest;
    int64_t lost_ns; /* time in which nobody could run, or somebody could not */
    bool promoted, broken; /* somebody has tried to */
    int64_t latest_ns;     /* grant, of all that were late */
    bool failed, talks;
    char why[512];
};

extern struct sim sim;

/* --- dice (main.c) --- */
uint64_t dice(void);
static inline uint64_t below(uint64_t n)
{
    return n == 0 ? 0 : dice() % n;
}
static inline bool chance(uint64_t n)
{
    return dice() % n == 0;
}
/* 1 .. most, each order of magnitude as often. */
uint64_t log_below(uint64_t most);

/* --- failing: the schedule ends at the next step --- */
void sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, because of what a process was told: one that is being killed may
   be told that its session is dead. */
void sim_misled(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- telling what happens, with --tell --- */
void sim_say(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* --- scheduler (sched.c) --- */
void sched_begin(void);
/* Until every process has ended or died, or something failed. */
void sched_run(void);
struct proc *sched_spawn(void (*body)(struct proc *p));
void sched_leave(void); /* the caller's state says why */
void sched_wake(struct proc *p);
int64_t sched_lost_ns(void);
void sched_kill(struct proc *p);
/* The same for all threads of its process. */
void sched_kill_process(struct proc *p);
bool sched_process_is_dead(const struct proc *p);
void sched_forget(void); /* the private memory of the dead */

/* --- kernel (kernel.c) --- */
void kernel_begin(void);
int64_t kernel_now_ns(void);
void kernel_pause(int64_t ns);
void kernel_died(struct proc *p);
/* What is due by now: marks of the dead, timeouts, ends of stops. */
void kernel_due(void);
/* When that is next; INT64_MAX: never. */
int64_t kernel_next_ns(void);
void kernel_point(void); /* may be preempted here */
void kernel_sleep(int64_t until_ns);

/* --- processes of two threads (threads.c) --- */
/* The running process's from now on: a thread of the library's may come. */
void threads_allow(void);
int threads_lock(const void *mutex);
int threads_trylock(const void *mutex);
int threads_unlock(const void *mutex);
/* Until its descriptor is readable, or for so long. */
void threads_poll(int64_t ns);

/* --- what is private to a process (private.c) --- */
void private_begin(void);
void private_fresh(struct proc *p);
/* The library's private memory is that of `p` from now on. */
void private_enter(struct proc *p);
void private_leave(struct proc *p);

/* --- memory (access.c) --- */
/* It is as this process sees it itself from now on, or no more. */
void memory_enter(struct proc *p);
void memory_leave(struct proc *p);
void memory_drain(struct proc *p);
void memory_drain_one(struct proc *p);
/* As it will be once what this process has stored is in memory. */
uint64_t memory_seen_by(const struct proc *p, const uint64_t *at);

/* --- places without order (weaken.c) --- */
bool weaken_is_at(uintptr_t called_from);
void weaken_linger(void);
void weaken_early(const void *at, unsigned bytes);
void weaken_barrier(const void *at, unsigned bytes);
void weaken_no_more(void);
void weaken_written(void *at, uint64_t before, unsigned bytes);
void weaken_enter(struct proc *p);
void weaken_leave(struct proc *p);

/* --- what happens before what (before.c) --- */
void before_begin(void);
void before_spawned(const struct proc *p);
void before_plain(const void *at, unsigned bytes, bool write, uintptr_t from);
void before_load(const void *at, unsigned bytes, int order, uintptr_t from);
void before_store(const void *at, unsigned bytes, int order, uintptr_t from);
void before_both(const void *at, unsigned bytes, int order, uintptr_t from);
void before_fence(int order);
/* A mutex was taken, is about to be given back; a dead thread's liveness word
   is marked; the kernel says that this one has ended. */
void before_taken(const void *at);
void before_given(const void *at);
void before_marked(const struct proc *dead, const uint32_t *word);
void before_ended(const struct proc *dead);
void before_tell(void);

/* --- the segment (segment.c) --- */
bool segment_open(void);
/* A death that is met is told to the finder, until a helper thread begins. */
void segment_listen(void);
void segment_reset(void);

static inline size_t sim_offset(const void *p)
{
    return (uintptr_t)p - (uintptr_t)sim.map->h;
}

static inline bool sim_in_segment(const void *p)
{
    return sim_offset(p) < sim.map->bytes;
}

static inline void sim_step(uintptr_t offset, unsigned kind)
{
    sim.steps++;
    sim.trace =
        (sim.trace ^ (offset << 2 | kind)) * UINT64_C(0x9e3779b97f4a7c15);
    if (__builtin_expect(--sim.left <= 0, 0))
        sched_leave();
}

/* Private memory that two threads share. */
static inline void sim_private(void)
{
    if (sim.me != NULL && sim.me->process->threaded)
        kernel_point();
}

/* Most of what can go wrong goes wrong beside atomic accesses: some schedules
   switch there more often than elsewhere, and let others run for long. */
static inline void sim_edge(void)
{
    if (sim.edges == 0 || !chance(sim.edges))
        return;
    sim.left = 1;
    if (chance(4))
        sim.me->stalled_until = sim.steps + log_below(1000);
}

/* --- what must be true (oracle.c, rest.c) --- */
void oracle_begin(bool sap);
/* An entry's state was stored, by a call that began at `began_ns`. */
void oracle_stored(struct entry *e, uint64_t before, int64_t began_ns);
/* Nobody can run: the clock is about to be moved. */
void oracle_idle(int64_t by_ns);
/* A call returned a grant, an answer about a hold. */
void oracle_granted(struct proc *p, const struct hold *h);
void oracle_lost(struct proc *p, const struct hold *h, int rc);
bool oracle_may_say(const struct proc *p, const struct hold *h, int rc);
struct entry *oracle_any(void); /* held or waiting; NULL: nobody */
unsigned oracle_live(void);
struct entry *oracle_entry(unsigned i);
bool oracle_any_stopped(void);
/* Nobody can be blamed for being late. */
bool oracle_excuses(void);
int64_t oracle_latest_allowed(void);
/* Of a lock set, all or none (whole.c). */
void whole_begin(void);
/* This process asks for a set from now on; NULL: there is no room for more. */
struct known *whole_ask(struct proc *p, unsigned n);
void whole_answered(struct proc *p, struct known *k, int rc);
void whole_changed(struct entry *e, uint64_t before);
void whole_idle(int64_t by_ns);
bool whole_in_the_middle(void); /* is the one that stores now? */
/* Cycles (graph.c). */
void graph_begin(bool wanted);
void graph_changed(struct entry *e, uint64_t before);
void graph_idle(int64_t by_ns);
bool graph_had_cycle(enq_handle request);
/* What helper threads must have seen (async.c). */
void async_all_begin(void);
void async_all_idle(int64_t by_ns);
/* All have gone but `p`: is there anything left? */
void rest_check(struct thread *t);
/* And when that has gone as well. */
void rest_check_empty(void);

/* --- what an application does with started requests (events.c) --- */
struct figures {
    uint64_t started, results, events, cycles;
    uint64_t sets_asked, sets, sets_waited, sets_undone;
};
extern struct figures figures;
void events_begin(void);
/* Asks without waiting; cancels one; takes what there is; waits for more. */
void events_start(struct proc *p);
void events_cancel(struct proc *p);
void events_take(struct proc *p);
void events_wait(struct proc *p, int64_t most_ns);
void events_listen(struct proc *p);
/* It will not be told of this lock any more, except what is under way. */
void events_part(struct proc *p, enq_handle handle);
/* Everything that must come has come. */
void events_finish(struct proc *p);

/* --- what it does with lock sets (sets.c) --- */
void sets_lock(struct proc *p, uint32_t flags);
void sets_start(struct proc *p);
void sets_unlock(struct proc *p);
/* The result of a started one, but for whether it may be that. */
void sets_result(struct proc *p, struct asked_set *set,
    const struct enq_event *event);

/* --- coming and going (attach.c) --- */
bool session_come(struct proc *p);
void session_go(struct proc *p);
bool attachment_come(struct proc *p);
void attachment_go(struct proc *p);

/* --- cleaning up (janitor.c) --- */
/* By so many, of which all but the last may die at it. */
void janitor_begin(unsigned n);
bool janitor_next(void);

/* --- workloads (work.c) --- */
/* A random request of this kind of schedule. */
void work_ask(struct proc *p, struct enq_req *req);
void work_refused(struct proc *p, const struct enq_req *req, int64_t began_ns,
    int rc);
void work_granted(struct proc *p, const struct hold *h);
void work_forget(struct proc *p, unsigned i); /* a hold */
int64_t work_start_wait(int64_t wait_ms);
unsigned work_set_size(void);
struct hold work_hold(const struct enq_req *req, int64_t began_ns);
void work_choose_key(struct enq_req *req);
void work_committed(void); /* an entry's state was stored */
void work_begin(void);
void work_spawn(void);   /* somebody in place of the dead */
bool work_goes_on(void); /* spawns the next; false: all is done */
unsigned work_kinds(void);
bool work_has_ttl(void); /* short ones */
const char *work_name(unsigned kind);

#endif
