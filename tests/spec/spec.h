/*
 * spec.h - the nouns of the scenario runner (spec-run).
 *
 * A scenario is a text file: one letter per real process, one step per line,
 * the expectation on the same line. README.md beside this file is the
 * language; this header is what the parts of the runner share:
 *
 *	words.c   durations, splitting, result names: pure
 *	script.c  a file into steps: pure
 *	order.c   the words of a step into an order for one process
 *	crew.c    the processes behind the letters, seen from outside
 *	worker.c  the process behind a letter, seen from inside
 *	expect.c  an answer against an expectation
 *	table.c   the runner's own, read-only look at the lock table
 *	bridge.c  the same for processes at the other end of a socket
 *	play.c    plays the steps; control.c the steps about processes
 *	main.c    runs many scenarios, two at a time, and counts
 *
 * The runner knows nothing of the library but enq.h.
 */
#ifndef SPEC_H
#define SPEC_H

#include "bridge.h"
#include <enq.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum {
    LETTERS = 26,
    WORDS_MAX = 24,
    LABELS_MAX = 64,
    TOKENS_MAX = 256,
    ROWS_MAX = 64,
    PATIENCE_MS = 5000, /* for an answer, where a step names no bound */
    DEATH_MS = 2000,    /* for a death at a crash point */
    EVENT_MS = 1000,    /* for what a bridge tells without being asked */
    EXIT_SKIP = 77,
    EXIT_STARVED = 78, /* it failed, and its processes had no processor */
    STARVED_MS = 200,  /* for so long */
};

#ifdef ENQ_POINTS
enum { HAS_POINTS = 1 };
#else
enum { HAS_POINTS = 0 };
#endif

/* What a worker can be told. */
#define VERB_MAP(X)                                                            \
    X(OPENS, "opens")                                                          \
    X(CLOSES, "closes")                                                        \
    X(EXITS, "exits")                                                          \
    X(FORKS, "forks")                                                          \
    X(EXECS, "execs")                                                          \
    X(ARMED, "armed")                                                          \
    X(LOCK, "lock")                                                            \
    X(TEST, "test")                                                            \
    X(LOCKSPEC, "lockspec")                                                    \
    X(UNLOCK, "unlock")                                                        \
    X(PROMOTE, "promote")                                                      \
    X(DEMOTE, "demote")                                                        \
    X(RENEW, "renew")                                                          \
    X(VALID, "valid")                                                          \
    X(FIND, "find")                                                            \
    X(ID, "id")                                                                \
    X(ADOPT, "adopt")                                                          \
    X(BREAK, "break")                                                          \
    X(LIST, "list")

enum verb {
#define X(name, text) VERB_##name,
    VERB_MAP(X)
#undef X
        VERBS
};

/* Name and key, packed as struct enq_info packs them. */
struct object {
    char name[ENQ_NAME_BYTES];
    char key[ENQ_KEY_BYTES];
    uint32_t fields, literal;
};

/* One command to a worker: flat, for it crosses a socket as it is. */
struct order {
    enum verb verb;
    enq_handle handle;
    uint64_t token;
    struct object object;
    char text[ENQ_KEY_BYTES]; /* lockspec: the one-string form; armed: where */
    char owner[ENQ_OWNER_BYTES], id[ENQ_ID_BYTES], label[16];
    bool has_owner, has_id;
    enum enq_mode mode;
    enum enq_death on_death;
    uint32_t flags, open_flags, retries;
    int64_t wait_ms, ttl_ms, heartbeat_ms, delay_ms, retry_ms;
};

/* Its answer; also sent unasked once, when a worker has started. */
struct answer {
    int result;
    int32_t pid; /* hello: its own; forks: the child's */
    struct enq_grant grant;
    char id[ENQ_ID_BYTES];
    char why[200];
    size_t n_rows;
    struct enq_info rows[ROWS_MAX];
};

struct step {
    int line;
    char letters[LETTERS + 1]; /* empty: the runner's own step */
    char *words[WORDS_MAX];    /* the verb first; [key words] are one word */
    int n_words;
    char *expect; /* after "->", or NULL */
};

struct script {
    char *bytes; /* what all strings below point into */
    const char *title;
    const char *must_fail; /* self-tests: part of the message, or NULL */
    struct step *steps;
    size_t n_steps;
};

struct label {
    char name[16];
    enq_handle handle;
    uint64_t token;
    char id[ENQ_ID_BYTES];
    struct object object;
};

/* The process behind a letter. */
struct worker {
    char letter;
    pid_t pid;       /* as the runner numbers it; 0 = none */
    int32_t own_pid; /* as it numbers itself: what the table shows */
    int fd, spare;   /* spare: the socket of a later fork child */
    bool pidns, orphan, stopped, asked;
    int64_t asked_ms;
    struct order order; /* the last one; unanswered while .asked */
    char last[16];      /* its newest label */
};

struct token_seen {
    struct object object;
    uint64_t token;
};

struct scene {
    const char *file;
    const struct script *script;
    const struct step *step; /* being played */
    char address[64];
    const char *over; /* "unix", "tcp": of a bridge; NULL: none */
    char served[220]; /* its address */
    struct bridge bridge;
    struct enq_open_opts opts;
    struct enq *view; /* read-only; NULL until there is a segment */
    struct worker crew[LETTERS];
    struct label labels[LABELS_MAX];
    size_t n_labels;
    struct token_seen tokens[TOKENS_MAX];
    size_t n_tokens;
    bool checked, failed, skipped;
    int64_t starved_ms; /* when it failed: it and its workers */
    char why[600];
};

/* words.c */
int64_t now_ms(void);
bool parse_ms(const char *text, int64_t *ms);
bool parse_range(const char *text, int64_t *low, int64_t *high);
int split(char *text, char **words, int max);
const char *value_of(const char *word, const char *key);
const char *bare(const char *word); /* "" written as two quotes */
const char *result_word(int result);
bool result_known(const char *word);
char mode_letter(int mode);
enum enq_mode mode_of(const char *word);
bool objects_overlap(const struct object *a, const struct object *b);

/* script.c */
bool script_read(const char *file, struct script *script, char why[200]);
void script_free(struct script *script);

/* order.c */
bool order_parse(struct scene *scene, struct worker *worker,
    struct order *order);
struct label *label_find(struct scene *scene, const char *name);
struct label *label_set(struct scene *scene, struct worker *worker,
    const struct order *order);

/* crew.c */
bool worker_start(struct scene *scene, struct worker *worker);
bool worker_fork(struct scene *scene, struct worker *worker, char letter);
bool worker_ask(struct scene *scene, struct worker *worker,
    const struct order *order);
int worker_hear(struct worker *worker, struct answer *answer, int64_t ms);
bool worker_kill(struct worker *worker);
bool worker_reap(struct worker *worker, int64_t ms, int *status);
bool worker_stop(struct worker *worker);
void crew_end(struct scene *scene);
struct worker *worker_of(struct scene *scene, char letter);

/* bridge.c: each does nothing where there is to be none */
bool bridge_start(struct scene *scene);
bool bridge_stop(struct scene *scene);
void bridge_end(struct scene *scene);
const char *bridge_address(const struct scene *scene);

/* worker.c */
int worker_main(int argc, char **argv);

/* expect.c */
bool expect_bounds(struct scene *scene, int64_t *after, int64_t *within);
bool expect_answer(struct scene *scene, struct worker *worker,
    const struct answer *answer);
void answer_text(const struct answer *answer, char *text, size_t n);

/* table.c */
size_t table_rows(struct scene *scene, const char *name, const char *owner,
    struct enq_info rows[ROWS_MAX]);
bool table_waits(struct scene *scene, struct worker *worker,
    struct enq_info *row);
bool rows_expect(struct scene *scene, const struct enq_info *rows, size_t n);
bool table_stats(struct scene *scene);
void table_print(struct scene *scene);
bool table_check(struct scene *scene, size_t leaves);

/* control.c */
bool control_step(struct scene *scene, struct worker *worker, bool *done);
bool control_close_all(struct scene *scene);

/* play.c */
void play(struct scene *scene);
bool fail(struct scene *scene, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
bool skip(struct scene *scene, const char *why);

#endif /* SPEC_H */
