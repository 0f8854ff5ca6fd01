/*
 * play.c - plays the steps of one scenario in order, until one fails.
 */
#include "spec.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/starved.h"

/* Always false, so that a step can return it. The first reason stays. */
bool fail(struct scene *scene, const char *format, ...)
{
    va_list args;

    if (scene->failed || scene->skipped)
        return false;
    scene->failed = true;
    scene->starved_ms = test_starved_ms();
    va_start(args, format);
    vsnprintf(scene->why, sizeof(scene->why), format, args);
    va_end(args);
    return false;
}

bool skip(struct scene *scene, const char *why)
{
    scene->skipped = true;
    snprintf(scene->why, sizeof(scene->why), "%s", why);
    return false;
}

static const char *expected(const struct scene *scene)
{
    return scene->step->expect != NULL ? scene->step->expect : "ok";
}

static bool died(struct scene *scene, struct worker *worker)
{
    char letter = worker->letter;
    int status = 0;

    if (!worker_reap(worker, PATIENCE_MS, &status))
        return fail(scene, "%c closed its socket, but lives", letter);
    return fail(scene, "expected %s, got the death of %c (%s %d)",
        expected(scene), letter, WIFSIGNALED(status) ? "signal" : "status",
        WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
}

static bool keep_token(struct scene *scene, const struct label *label)
{
    if (label->token == 0)
        return true;
    if (scene->n_tokens == TOKENS_MAX)
        return fail(scene, "too many tokens for one scenario");
    scene->tokens[scene->n_tokens++] =
        (struct token_seen){label->object, label->token};
    return true;
}

/* After a grant, promotion, adoption or find: the label knows the lock. */
static bool remember(struct scene *scene, struct worker *worker,
    const struct answer *answer)
{
    const struct order *order = &worker->order;
    bool names = order->verb == VERB_LOCK || order->verb == VERB_LOCKSPEC ||
        order->verb == VERB_PROMOTE || order->verb == VERB_ADOPT ||
        order->verb == VERB_FIND;
    struct label *label;

    if (!names || answer->result != ENQ_OK || order->flags & ENQ_TEST)
        return true;
    label = label_set(scene, worker, order);
    if (label == NULL)
        return fail(scene, "too many labels");
    label->handle = answer->grant.handle;
    if (label->handle == 0)
        label->handle = order->handle;
    label->token = answer->grant.token;
    snprintf(label->id, sizeof(label->id), "%s",
        answer->id[0] != 0 ? answer->id : order->id);
    return keep_token(scene, label);
}

static bool answered(struct scene *scene, struct worker *worker,
    const struct answer *answer)
{
    if (worker->order.verb == VERB_LIST)
        return rows_expect(scene, answer->rows, answer->n_rows);
    return expect_answer(scene, worker, answer) &&
        remember(scene, worker, answer);
}

/* Behind a bridge it is known a moment later that a lock is gone, or its
   holder; and later by what our processes had no processor for. */
static bool is_early(const struct scene *scene, const struct worker *worker,
    const struct answer *answer)
{
    bool good = strncmp(expected(scene), "ok", 2) == 0;

    if (scene->over == NULL ||
        now_ms() > worker->asked_ms + EVENT_MS + test_starved_ms())
        return false;
    return (worker->order.verb == VERB_VALID && !good &&
               answer->result == ENQ_OK) ||
        (worker->order.verb == VERB_ADOPT && good &&
            answer->result == ENQ_REFUSED);
}

static int hear(struct scene *scene, struct worker *worker,
    struct answer *answer, int64_t within)
{
    int64_t asked_ms = worker->asked_ms;
    int heard = worker_hear(worker, answer, within);

    while (heard == 1 && is_early(scene, worker, answer)) {
        struct order order = worker->order;

        poll(NULL, 0, 1);
        if (!worker_ask(scene, worker, &order))
            return 0;
        worker->asked_ms = asked_ms;
        heard = worker_hear(worker, answer, within);
    }
    return heard;
}

static bool collect(struct scene *scene, struct worker *worker)
{
    static struct answer answer;
    int64_t after, within;

    if (worker->order.verb == VERB_LIST)
        within = PATIENCE_MS;
    else if (!expect_bounds(scene, &after, &within))
        return false;
    switch (hear(scene, worker, &answer, within)) {
    case 1:
        return answered(scene, worker, &answer);
    case 0:
        return fail(scene, "expected %s, got no answer within %lldms",
            expected(scene), (long long)within);
    default:
        return died(scene, worker);
    }
}

/* The label of a waiting request: others can cancel it by that. */
static bool label_waiter(struct scene *scene, struct worker *worker,
    const struct enq_info *row)
{
    struct label *label = label_set(scene, worker, &worker->order);

    if (label == NULL)
        return fail(scene, "too many labels");
    label->handle = row->handle;
    label->token = 0;
    snprintf(label->id, sizeof(label->id), "%s", row->id);
    return true;
}

/* No answer comes, and the table shows the request waiting. */
static bool waits(struct scene *scene, struct worker *worker)
{
    static struct answer answer;
    int64_t end = now_ms() + PATIENCE_MS;
    struct enq_info row;
    char text[400];

    do {
        bool listed = table_waits(scene, worker, &row);
        int heard = worker_hear(worker, &answer, listed ? 0 : 1);

        if (heard < 0)
            return died(scene, worker);
        if (heard > 0) {
            answer_text(&answer, text, sizeof(text));
            return fail(scene, "expected it to wait, got %s", text);
        }
        if (listed)
            return label_waiter(scene, worker, &row);
    } while (now_ms() < end && !scene->failed);
    return fail(scene, "expected it to wait, got neither answer nor entry");
}

/*
 * By its own crash point: nobody else sends that SIGKILL. Another thread than
 * the asked one may pass the point, so an answer may come first.
 */
static bool dies_itself(struct scene *scene, struct worker *worker)
{
    static struct answer answer;
    char text[400] = "no answer";
    int heard, status;

    while ((heard = worker_hear(worker, &answer, DEATH_MS)) > 0)
        answer_text(&answer, text, sizeof(text));
    if (heard == 0)
        return fail(scene, "expected its death, got %s", text);
    if (!worker_reap(worker, PATIENCE_MS, &status))
        return fail(scene, "expected its death, it lives");
    return (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) ||
        fail(scene, "expected SIGKILL, got status %x", status);
}

static bool settle(struct scene *scene, struct worker *worker)
{
    const char *expect = expected(scene);

    if (strcmp(expect, "later") == 0)
        return true;
    if (strcmp(expect, "waits") == 0)
        return waits(scene, worker);
    if (strcmp(expect, "dies") == 0)
        return dies_itself(scene, worker);
    return collect(scene, worker);
}

static bool one_step(struct scene *scene, struct worker *worker)
{
    const struct step *step = scene->step;
    struct order order;
    bool done;

    if (step->n_words == 0)
        return worker->asked
            ? settle(scene, worker)
            : fail(scene, "%c was asked nothing", worker->letter);
    if (!control_step(scene, worker, &done) || done)
        return !scene->failed && !scene->skipped;
    if (!order_parse(scene, worker, &order))
        return false;
    if (order.verb == VERB_ARMED && !HAS_POINTS)
        return skip(scene, "needs crash points (profile crash)");
    return worker_ask(scene, worker, &order) && settle(scene, worker);
}

static bool gather(struct scene *scene, int *n_ok, const char *others)
{
    static struct answer answer;
    char text[400];

    for (const char *p = scene->step->letters; *p != 0; p++) {
        struct worker *worker = worker_of(scene, *p);
        int heard = worker_hear(worker, &answer, PATIENCE_MS);

        if (heard <= 0)
            return heard < 0 ? died(scene, worker)
                             : fail(scene, "%c does not answer", *p);
        if (!remember(scene, worker, &answer))
            return false;
        *n_ok += answer.result == ENQ_OK;
        answer_text(&answer, text, sizeof(text));
        if (answer.result != ENQ_OK &&
            strcmp(result_word(answer.result), others) != 0)
            return fail(scene, "expected %s, got %s for %c", others, text, *p);
    }
    return true;
}

/* "A B C: promote -> one ok, others lost": all are told before any is heard */
static bool many_step(struct scene *scene)
{
    static const char one_ok[] = "one ok, others ";
    const struct step *step = scene->step;
    struct order order;
    int n_ok = 0;

    if (step->expect == NULL ||
        strncmp(step->expect, one_ok, sizeof(one_ok) - 1) != 0)
        return fail(scene, "several letters expect: one ok, others RESULT");
    for (const char *p = step->letters; *p != 0; p++) {
        struct worker *worker = worker_of(scene, *p);

        if (!order_parse(scene, worker, &order) ||
            !worker_ask(scene, worker, &order))
            return false;
    }
    if (!gather(scene, &n_ok, step->expect + sizeof(one_ok) - 1))
        return false;
    return n_ok == 1 || fail(scene, "expected one ok, got %d", n_ok);
}

/* space [strict|barging] [compat=NAME] [slots=N]: before any process */
static bool step_space(struct scene *scene)
{
    const struct step *step = scene->step;
    const char *value;

    for (int i = 1; i < step->n_words; i++) {
        if (strcmp(step->words[i], "strict") == 0)
            scene->opts.strict = 1;
        else if ((value = value_of(step->words[i], "compat")) != NULL)
            scene->opts.compat = value;
        else if ((value = value_of(step->words[i], "slots")) != NULL)
            scene->opts.slots = (uint32_t)strtoul(value, NULL, 10);
        else if (strcmp(step->words[i], "barging") != 0)
            return fail(scene, "unknown kind of space '%s'", step->words[i]);
    }
    return true;
}

static bool step_sleep(struct scene *scene)
{
    const struct step *step = scene->step;
    int64_t ms;

    if (step->n_words != 2 || !parse_ms(step->words[1], &ms) || ms < 0)
        return fail(scene, "sleep how long?");
    poll(NULL, 0, (int)ms);
    return true;
}

/* list NAME|* [owner=O] [within 1s] -> rows; without a bound: at once */
static bool step_list(struct scene *scene)
{
    static struct enq_info rows[ROWS_MAX];
    const struct step *step = scene->step;
    const char *name = NULL, *owner = NULL;
    int64_t end = now_ms(), ms;
    bool good;

    for (int i = 1; i < step->n_words; i++) {
        if (value_of(step->words[i], "owner") != NULL)
            owner = bare(value_of(step->words[i], "owner"));
        else if (strcmp(step->words[i], "within") != 0)
            name = strcmp(step->words[i], "*") == 0 ? NULL : step->words[i];
        else if (++i < step->n_words && parse_ms(step->words[i], &ms))
            end += ms;
        else
            return fail(scene, "within what?");
    }
    do {
        scene->failed = false;
        good = rows_expect(scene, rows, table_rows(scene, name, owner, rows));
    } while (!good && now_ms() < end && poll(NULL, 0, 1) == 0);
    return good;
}

static bool step_unlink(struct scene *scene)
{
    return enq_unlink(scene->address) == ENQ_OK ||
        fail(scene, "enq_unlink: %s", enq_why());
}

/* check [leaves=N]: everybody closes, then the table is empty and sound */
static bool step_check(struct scene *scene)
{
    const struct step *step = scene->step;
    size_t leaves = 0;

    if (step->n_words > 1) {
        const char *value = value_of(step->words[1], "leaves");

        if (value == NULL)
            return fail(scene, "check what?");
        leaves = strtoul(value, NULL, 10);
    }
    scene->checked = true;
    return control_close_all(scene) && table_check(scene, leaves);
}

static bool own_step(struct scene *scene)
{
    static const struct {
        const char *verb;
        bool (*step)(struct scene *);
    } steps[] = {
        {"space", step_space},
        {"sleep", step_sleep},
        {"list", step_list},
        {"stat", table_stats},
        {"unlink", step_unlink},
        {"check", step_check},
    };

    for (size_t i = 0; i < sizeof(steps) / sizeof(steps[0]); i++)
        if (strcmp(steps[i].verb, scene->step->words[0]) == 0)
            return steps[i].step(scene);
    return fail(scene, "unknown step '%s'", scene->step->words[0]);
}

static bool play_step(struct scene *scene)
{
    const char *letters = scene->step->letters;

    if (letters[0] == 0)
        return own_step(scene);
    if (letters[1] != 0)
        return many_step(scene);
    return one_step(scene, worker_of(scene, letters[0]));
}

void play(struct scene *scene)
{
    const struct script *script = scene->script;
    bool good = true;

    for (size_t i = 0; i < script->n_steps && good; i++) {
        scene->step = &script->steps[i];
        good = play_step(scene);
    }
    if (good && !scene->checked)
        fail(scene, "a scenario ends with check");
    if (scene->failed) {
        printf("%s:%d: %s\n", scene->file, scene->step->line, scene->why);
        table_print(scene);
    }
    crew_end(scene);
    bridge_end(scene);
    enq_close(scene->view);
}
