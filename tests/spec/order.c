/*
 * order.c - from the words of a step to an order for the process of a letter.
 * Labels (names for handles, known to the whole scenario) are resolved here,
 * so a process can be told to unlock what another one holds.
 */
#include "spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const verbs[] = {
#define X(name, text) text,
    VERB_MAP(X)
#undef X
};

static bool is_request(enum verb verb)
{
    return verb == VERB_LOCK || verb == VERB_TEST || verb == VERB_LOCKSPEC;
}

static struct label *label_named(struct scene *scene, const char *name)
{
    for (size_t i = 0; i < scene->n_labels; i++)
        if (strcmp(scene->labels[i].name, name) == 0)
            return &scene->labels[i];
    return NULL;
}

/* A letter alone stands for its newest label. */
struct label *label_find(struct scene *scene, const char *name)
{
    if (name[0] >= 'A' && name[0] <= 'Z' && name[1] == 0)
        name = worker_of(scene, name[0])->last;
    return label_named(scene, name);
}

/* Where the grant of this order is to be remembered; NULL: no room. */
struct label *label_set(struct scene *scene, struct worker *worker,
    const struct order *order)
{
    struct label *label = label_named(scene, order->label);

    if (label == NULL) {
        if (scene->n_labels == LABELS_MAX)
            return NULL;
        label = &scene->labels[scene->n_labels++];
        memset(label, 0, sizeof(*label));
        snprintf(label->name, sizeof(label->name), "%s", order->label);
    }
    snprintf(worker->last, sizeof(worker->last), "%s", label->name);
    label->object = order->object;
    return label;
}

static bool put(struct scene *scene, char *to, size_t size, const char *from)
{
    from = bare(from);
    if (strlen(from) >= size)
        return fail(scene, "'%.40s...' is too long", from);
    strcpy(to, from);
    return true;
}

/* "[Computer \@ @]" -> fields, each with its zero; a backslash: literal */
static bool parse_key(struct scene *scene, char *word, struct object *object)
{
    char copy[ENQ_KEY_BYTES + 64], *fields[WORDS_MAX];
    size_t n = strlen(word), used = 0;
    int n_fields;

    if (n < 2 || word[0] != '[' || word[n - 1] != ']' || n > sizeof(copy))
        return fail(scene, "'%s' is not a key: [field ...]", word);
    snprintf(copy, sizeof(copy), "%.*s", (int)n - 2, word + 1);
    n_fields = split(copy, fields, ENQ_KEY_FIELDS_MAX);
    if (n_fields < 0)
        return fail(scene, "too many fields");
    object->fields = (uint32_t)n_fields;
    for (int i = 0; i < n_fields; i++) {
        bool literal = fields[i][0] == '\\';
        const char *field = bare(fields[i] + literal);

        object->literal |= (uint32_t)literal << i;
        if (used + strlen(field) >= sizeof(object->key))
            return fail(scene, "key too long");
        strcpy(object->key + used, field);
        used += strlen(field) + 1;
    }
    return true;
}

static bool parse_death(const char *value, struct order *order)
{
    static const char *const names[] = {"release", "lease", "keep"};

    for (int i = 0; i < 3; i++)
        if (strcmp(value, names[i]) == 0) {
            order->on_death = (enum enq_death)i;
            return true;
        }
    return false;
}

/* wait=5s and its like; *known is false when the word is something else */
static bool parse_duration(const char *word, struct order *order, bool *known)
{
    const struct {
        const char *key;
        int64_t *ms;
    } durations[] = {
        {"wait", &order->wait_ms},
        {"ttl", &order->ttl_ms},
        {"heartbeat", &order->heartbeat_ms},
        {"delay", &order->delay_ms},
        {"retry", &order->retry_ms},
    };

    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        const char *value = value_of(word, durations[i].key);

        if (value == NULL)
            continue;
        *known = true;
        return parse_ms(value, durations[i].ms);
    }
    *known = false;
    return true;
}

static bool parse_text(struct scene *scene, const char *word,
    struct order *order, bool *known)
{
    const char *value;

    *known = true;
    if ((value = value_of(word, "owner")) != NULL) {
        order->has_owner = true;
        return put(scene, order->owner, sizeof(order->owner), value);
    }
    if ((value = value_of(word, "id")) != NULL) {
        order->has_id = true;
        return put(scene, order->id, sizeof(order->id), value);
    }
    *known = false;
    return true;
}

static bool parse_flag(const char *word, struct order *order)
{
    const char *value;

    if (strcmp(word, "nodeadlock") == 0)
        order->flags |= ENQ_NO_DEADLOCK;
    else if (strcmp(word, "test") == 0)
        order->flags |= ENQ_TEST;
    else if (strcmp(word, "readonly") == 0)
        order->open_flags |= ENQ_OPEN_READONLY;
    else if (strcmp(word, "existing") == 0)
        order->open_flags |= ENQ_OPEN_EXISTING;
    else if ((value = value_of(word, "retries")) != NULL)
        order->retries = (uint32_t)strtoul(value, NULL, 10);
    else if ((value = value_of(word, "death")) != NULL)
        return parse_death(value, order);
    else
        return false;
    return true;
}

/* token=0: do not compare; token=LABEL: the token that label saw */
static bool parse_token(struct scene *scene, const char *value,
    struct order *order)
{
    struct label *label = label_find(scene, value);

    if (label == NULL && strcmp(value, "0") != 0)
        return fail(scene, "no lock is labelled '%s'", value);
    order->token = label != NULL ? label->token : 0;
    return true;
}

static bool parse_option(struct scene *scene, const char *word,
    struct order *order)
{
    const char *value = value_of(word, "token");
    bool known;

    if (value != NULL)
        return parse_token(scene, value, order);
    if (!parse_duration(word, order, &known))
        return fail(scene, "'%s' has no duration", word);
    if (known)
        return true;
    if (!parse_text(scene, word, order, &known))
        return false;
    if (known || parse_flag(word, order))
        return true;
    return fail(scene, "unknown option '%s'", word);
}

/* the rest of the words: options, and "as LABEL" */
static bool parse_options(struct scene *scene, char *const *words, int n,
    struct order *order)
{
    for (int i = 0; i < n; i++) {
        if (strcmp(words[i], "as") != 0) {
            if (!parse_option(scene, words[i], order))
                return false;
            continue;
        }
        if (++i == n)
            return fail(scene, "'as' what?");
        if (!put(scene, order->label, sizeof(order->label), words[i]))
            return false;
    }
    return true;
}

/* MODE name [key] options, or for lockspec: MODE name/field/field options */
static bool parse_request(struct scene *scene, char *const *words, int n,
    struct order *order)
{
    bool spec = order->verb == VERB_LOCKSPEC;
    int used = spec ? 2 : 3;

    if (n < used)
        return fail(scene, "a request needs a mode, a name and a [key]");
    order->mode = mode_of(words[0]);
    if (order->mode == 0)
        return fail(scene, "'%s' is no mode", words[0]);
    if (order->verb == VERB_TEST)
        order->flags |= ENQ_TEST;
    if (spec && !put(scene, order->text, sizeof(order->text), words[1]))
        return false;
    if (!spec &&
        (!put(scene, order->object.name, ENQ_NAME_BYTES, words[1]) ||
            !parse_key(scene, words[2], &order->object)))
        return false;
    return parse_options(scene, words + used, n - used, order);
}

static void use_label(struct order *order, const struct label *label)
{
    order->handle = label->handle;
    order->token = label->token;
    order->object = label->object;
    snprintf(order->id, sizeof(order->id), "%s", label->id);
    snprintf(order->label, sizeof(order->label), "%s", label->name);
}

/* what unlock, renew, ... act on: [LABEL] options; default: the letter's own */
static bool parse_subject(struct scene *scene, struct worker *worker,
    char *const *words, struct order *order)
{
    int n = 0;
    char name[2] = {worker->letter, 0};
    const char *wanted = name;
    struct label *label;

    while (words[n] != NULL)
        n++;
    if (n > 0 && strchr(words[0], '=') == NULL && strcmp(words[0], "as") != 0) {
        wanted = *words++;
        n--;
    }
    label = label_find(scene, wanted);
    if (label != NULL)
        use_label(order, label);
    else if (n == 0 || value_of(words[0], "id") == NULL)
        return fail(scene, "no lock is labelled '%s'", wanted);
    else
        snprintf(order->label, sizeof(order->label), "%s", wanted);
    return parse_options(scene, words, n, order);
}

static bool parse_list(struct scene *scene, char *const *words, int n,
    struct order *order)
{
    if (n > 0 && strchr(words[0], '=') == NULL) {
        const char *name = strcmp(words[0], "*") == 0 ? "" : words[0];

        if (!put(scene, order->object.name, ENQ_NAME_BYTES, name))
            return false;
        words++;
        n--;
    }
    return parse_options(scene, words, n, order);
}

static bool find_verb(const char *word, enum verb *verb)
{
    for (int i = 0; i < VERBS; i++)
        if (strcmp(verbs[i], word) == 0) {
            *verb = (enum verb)i;
            return true;
        }
    return false;
}

bool order_parse(struct scene *scene, struct worker *worker,
    struct order *order)
{
    const struct step *step = scene->step;
    char *const *words = step->words + 1;
    int n = step->n_words - 1;

    memset(order, 0, sizeof(*order));
    snprintf(order->label, sizeof(order->label), "%c", worker->letter);
    if (!find_verb(step->words[0], &order->verb))
        return fail(scene, "unknown verb '%s'", step->words[0]);
    if (is_request(order->verb))
        return parse_request(scene, words, n, order);
    if (order->verb == VERB_LIST)
        return parse_list(scene, words, n, order);
    if (order->verb == VERB_ARMED)
        return n == 1 ? put(scene, order->text, sizeof(order->text), words[0])
                      : fail(scene, "armed at which point?");
    if (order->verb < VERB_ARMED)
        return parse_options(scene, words, n, order);
    return parse_subject(scene, worker, words, order);
}
