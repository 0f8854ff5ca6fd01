/*
 * expect.c - an answer against an expectation such as
 *
 *	busy by a mode=E pid=A queue=2 left=1s..2s
 *	ok token grows within 1s
 *	expired|notheld
 *
 * A word it does not know is a failure of the scenario, never passed over.
 */
#include "spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPECT_BYTES = 400 };

/* Cursor over the words of one expectation. */
struct reader {
    struct scene *scene;
    const struct worker *worker;
    const struct answer *answer;
    char *words[WORDS_MAX];
    int n, at;
};

static bool read_words(struct scene *scene, char copy[EXPECT_BYTES],
    struct reader *r)
{
    const char *text = scene->step->expect;

    *r = (struct reader){.scene = scene};
    if (text == NULL)
        text = "ok";
    if (strlen(text) >= EXPECT_BYTES)
        return fail(scene, "expectation too long");
    strcpy(copy, text);
    r->n = split(copy, r->words, WORDS_MAX);
    return r->n > 0 || fail(scene, "empty expectation");
}

/* "after 100ms" and "within 1s", wherever they stand */
bool expect_bounds(struct scene *scene, int64_t *after, int64_t *within)
{
    char copy[EXPECT_BYTES];
    struct reader r;

    *after = 0;
    *within = PATIENCE_MS;
    if (!read_words(scene, copy, &r))
        return false;
    for (int i = 0; i < r.n; i++) {
        int64_t *bound = strcmp(r.words[i], "after") == 0 ? after
            : strcmp(r.words[i], "within") == 0           ? within
                                                          : NULL;
        if (bound == NULL)
            continue;
        if (++i == r.n || !parse_ms(r.words[i], bound))
            return fail(scene, "bad duration");
    }
    return true;
}

/* Elsewhere the blocker is not set: whatever it holds means nothing. */
static bool has_blocker(const struct answer *answer)
{
    return answer->result == ENQ_BUSY || answer->result == ENQ_TIMEDOUT ||
        answer->result == ENQ_REFUSED || answer->result == ENQ_EXISTS ||
        answer->result == ENQ_LOST;
}

void answer_text(const struct answer *answer, char *text, size_t n)
{
    const struct enq_blocker *b = &answer->grant.blocker;
    const char *word = result_word(answer->result);

    if (has_blocker(answer) && (b->mode != 0 || b->owner[0] != 0))
        snprintf(text, n,
            "%s by %s mode=%c %s pid=%d id=%s queue=%u left=%lldms", word,
            b->owner, mode_letter(b->mode), b->waiting ? "waiting" : "holding",
            (int)b->pid, b->id, b->queue, (long long)b->ttl_left_ms);
    else if (answer->result == ENQ_OK)
        snprintf(text, n, "%s token=%llu id=%s", word,
            (unsigned long long)answer->grant.token, answer->id);
    else
        snprintf(text, n, "%s (%s)", word, answer->why);
}

static bool differs(struct reader *r)
{
    char text[400];

    answer_text(r->answer, text, sizeof(text));
    return fail(r->scene, "expected %s, got %s", r->scene->step->expect, text);
}

/* One of "a|b|c", each of which must be a result that exists. */
static bool check_result(struct reader *r)
{
    char *word, *rest = r->words[r->at++];
    bool found = false;

    while ((word = strsep(&rest, "|")) != NULL) {
        if (!result_known(word))
            return fail(r->scene, "'%s' is no result", word);
        found |= strcmp(result_word(r->answer->result), word) == 0;
    }
    return found || differs(r);
}

/* Greater than every token that any overlapping lock of the scenario got. */
static bool check_token_grows(struct reader *r)
{
    const struct scene *scene = r->scene;
    uint64_t token = r->answer->grant.token;

    for (size_t i = 0; i < scene->n_tokens; i++) {
        const struct token_seen *seen = &scene->tokens[i];

        if (!objects_overlap(&seen->object, &r->worker->order.object))
            continue;
        if (seen->token >= token)
            return fail(r->scene,
                "expected a greater token, got %llu after %llu",
                (unsigned long long)token, (unsigned long long)seen->token);
    }
    return token != 0 || fail(r->scene, "expected a token, got 0");
}

static bool check_range(struct reader *r, const char *value, int64_t ms)
{
    int64_t low, high;

    if (!parse_range(value, &low, &high))
        return fail(r->scene, "'%s' is no duration", value);
    return (ms >= low && ms <= high) || differs(r);
}

static bool check_pid(struct reader *r, const char *value)
{
    const struct enq_blocker *b = &r->answer->grant.blocker;
    const struct worker *w;

    if (strcmp(value, "0") == 0)
        return b->pid == 0 || differs(r);
    if (value[0] < 'A' || value[0] > 'Z')
        return fail(r->scene, "pid of whom?");
    w = worker_of(r->scene, value[0]);
    return b->pid == w->own_pid || differs(r);
}

static bool check_id(struct reader *r, const char *value)
{
    const struct label *label = label_find(r->scene, value);
    const char *got = r->answer->id;

    if (has_blocker(r->answer))
        got = r->answer->grant.blocker.id;
    return strcmp(label != NULL ? label->id : value, got) == 0 || differs(r);
}

static bool check_pair(struct reader *r, const char *word)
{
    const struct enq_blocker *b = &r->answer->grant.blocker;
    const char *value;

    if ((value = value_of(word, "mode")) != NULL)
        return mode_of(value) == b->mode || differs(r);
    if ((value = value_of(word, "queue")) != NULL)
        return strtoul(value, NULL, 10) == b->queue || differs(r);
    if ((value = value_of(word, "pid")) != NULL)
        return check_pid(r, value);
    if ((value = value_of(word, "id")) != NULL)
        return check_id(r, value);
    if ((value = value_of(word, "age")) != NULL)
        return check_range(r, value, b->age_ms);
    if ((value = value_of(word, "left")) != NULL)
        return check_range(r, value, b->ttl_left_ms);
    return fail(r->scene, "unknown expectation '%s'", word);
}

static bool check_is(struct reader *r, const char *name)
{
    const struct label *label = label_find(r->scene, name);

    if (label == NULL)
        return fail(r->scene, "no lock is labelled '%s'", name);
    return label->handle == r->answer->grant.handle ||
        fail(r->scene, "expected the handle of %s, got another", name);
}

static bool check_state(struct reader *r, const char *word)
{
    bool waiting = strcmp(word, "waiting") == 0;

    return r->answer->grant.blocker.waiting == waiting || differs(r);
}

/* One attribute: some take the next word too. */
static bool check_attribute(struct reader *r)
{
    const char *word = r->words[r->at++];
    const char *next = r->at < r->n ? r->words[r->at] : "";

    if (strcmp(word, "waiting") == 0 || strcmp(word, "holding") == 0)
        return check_state(r, word);
    if (strchr(word, '=') != NULL)
        return check_pair(r, word);
    r->at++;
    if (strcmp(word, "after") == 0 || strcmp(word, "within") == 0)
        return true;
    if (strcmp(word, "by") == 0)
        return strcmp(bare(next), r->answer->grant.blocker.owner) == 0 ||
            differs(r);
    if (strcmp(word, "is") == 0)
        return check_is(r, next);
    if (strcmp(word, "token") == 0 && strcmp(next, "grows") == 0)
        return check_token_grows(r);
    return fail(r->scene, "unknown expectation '%s %s'", word, next);
}

static bool check_after(struct reader *r)
{
    int64_t after, within, elapsed = now_ms() - r->worker->asked_ms;

    if (!expect_bounds(r->scene, &after, &within))
        return false;
    return elapsed >= after ||
        fail(r->scene, "expected after %lldms, got it after %lldms",
            (long long)after, (long long)elapsed);
}

bool expect_answer(struct scene *scene, struct worker *worker,
    const struct answer *answer)
{
    char copy[EXPECT_BYTES];
    struct reader r;

    if (!read_words(scene, copy, &r))
        return false;
    r.worker = worker;
    r.answer = answer;
    if (!check_after(&r) || !check_result(&r))
        return false;
    while (r.at < r.n)
        if (!check_attribute(&r))
            return false;
    return true;
}
