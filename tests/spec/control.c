/*
 * control.c - the steps about processes rather than locks: dying, stopping,
 * forking, exec, namespaces, and everybody going home at the end.
 */
#include "spec.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool dies(struct scene *scene, struct worker *worker)
{
    return worker_kill(worker) || fail(scene, "it does not die");
}

static bool stops(struct scene *scene, struct worker *worker)
{
    return worker_stop(worker) || fail(scene, "it does not stop");
}

static bool continues(struct scene *scene, struct worker *worker)
{
    worker->stopped = false;
    return kill(worker->pid, SIGCONT) == 0 || fail(scene, "it is gone");
}

/* Ends without closing: exit(3) with an attachment open. */
static bool exits(struct scene *scene, struct worker *worker)
{
    const struct order order = {.verb = VERB_EXITS};
    int status;

    if (!worker_ask(scene, worker, &order))
        return false;
    if (!worker_reap(worker, PATIENCE_MS, &status))
        return fail(scene, "it does not exit");
    return status == 0 || fail(scene, "it ended with status %x", status);
}

/* The same process, a new program: only the hello tells that it went well. */
static bool execs(struct scene *scene, struct worker *worker)
{
    static struct answer answer;
    const struct order order = {.verb = VERB_EXECS};

    if (!worker_ask(scene, worker, &order))
        return false;
    if (worker_hear(worker, &answer, PATIENCE_MS) <= 0)
        return fail(scene, "it did not come back from exec");
    return answer.result == ENQ_OK || fail(scene, "exec failed");
}

static bool forks(struct scene *scene, struct worker *worker)
{
    const struct step *step = scene->step;

    if (step->n_words != 2 || step->words[1][1] != 0 ||
        step->words[1][0] < 'A' || step->words[1][0] > 'Z')
        return fail(scene, "forks whom?");
    return worker_fork(scene, worker, step->words[1][0]);
}

static bool in(struct scene *scene, struct worker *worker)
{
    const struct step *step = scene->step;

    if (step->n_words != 2 || strcmp(step->words[1], "pidns") != 0)
        return fail(scene, "in what? (pidns)");
    if (worker->pid != 0)
        return fail(scene, "it has started already");
    if (geteuid() != 0)
        return skip(scene, "needs root for a PID namespace");
    worker->pidns = true;
    return true;
}

static const struct {
    const char *verb;
    bool (*step)(struct scene *, struct worker *);
    bool alive; /* only a started process can */
} controls[] = {
    {"dies", dies, true},
    {"stops", stops, true},
    {"continues", continues, true},
    {"exits", exits, true},
    {"execs", execs, true},
    {"forks", forks, true},
    {"in", in, false},
};

/* *done tells whether the step was one of these. */
bool control_step(struct scene *scene, struct worker *worker, bool *done)
{
    const char *verb = scene->step->words[0];

    for (size_t i = 0; i < sizeof(controls) / sizeof(controls[0]); i++) {
        if (strcmp(controls[i].verb, verb) != 0)
            continue;
        *done = true;
        if (controls[i].alive && worker->pid == 0)
            return fail(scene, "%c has not started", worker->letter);
        return controls[i].step(scene, worker);
    }
    *done = false;
    return true;
}

static bool go_home(struct scene *scene, struct worker *worker)
{
    static struct answer answer;
    const struct order closes = {.verb = VERB_CLOSES};

    if (worker->asked)
        return fail(scene, "%c has not answered yet", worker->letter);
    if (worker->stopped)
        return fail(scene, "%c is still stopped", worker->letter);
    if (!worker_ask(scene, worker, &closes))
        return false;
    if (worker_hear(worker, &answer, PATIENCE_MS) <= 0)
        return fail(scene, "%c does not close", worker->letter);
    return exits(scene, worker);
}

bool control_close_all(struct scene *scene)
{
    for (char letter = 'A'; letter <= 'Z'; letter++) {
        struct worker *worker = worker_of(scene, letter);

        if (worker->pid != 0 && !go_home(scene, worker))
            return false;
    }
    return bridge_stop(scene);
}
