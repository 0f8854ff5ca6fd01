/*
 * ask.c - a request as it came over the wire (see ask.h).
 */
#include "ask.h"

#include <string.h>

struct reader {
    struct ask *ask;
    char *bytes;
    bool session;
    const char **wrong;      /* where the first thing is told */
    const char *wrong_locks; /* of the last eleLock or locks */
};

static const char *const op_names[] = {"none",
#define X(name, text) text,
    OP_MAP(X)
#undef X
};

const char *ask_op_name(enum op op)
{
    return op_names[op];
}

/* The first thing that is wrong is told. */
static void wrong(struct reader *r, const char *what)
{
    if (*r->wrong == NULL)
        *r->wrong = what;
}

/* --- values --- */

static const char *text_of(struct reader *r, struct scan_value *v,
    const char *complaint)
{
    const char *text = scan_text(v, r->bytes);

    if (text == NULL && v->kind != SCAN_NULL)
        wrong(r, complaint);
    return text;
}

/* Of a list: what JavaScript takes for false filters nothing. */
static const char *filter_of(struct reader *r, struct scan_value *v,
    const char *complaint)
{
    char word[SCAN_WORD_BYTES];
    const char *text =
        v->kind == SCAN_NUMBER ? scan_word(v, r->bytes, word) : NULL;

    if (v->kind == SCAN_FALSE || (text != NULL && strcmp(text, "0") == 0))
        return NULL;
    return text_of(r, v, complaint);
}

/* A number, true or false as JavaScript would write it. */
static const char *word_of(struct reader *r, struct scan_value *v, char *word,
    const char *complaint)
{
    const char *text = v->kind == SCAN_TEXT ? scan_text(v, r->bytes)
                                            : scan_word(v, r->bytes, word);

    if (text == NULL)
        wrong(r, complaint);
    return text;
}

static bool is_true(const struct scan_value *v)
{
    return v->kind == SCAN_TRUE;
}

static bool says(struct reader *r, struct scan_value *v, const char *word)
{
    const char *text = scan_text(v, r->bytes);

    return text != NULL && strcmp(text, word) == 0;
}

static void read_unsigned(struct reader *r, struct scan_value *v, uint64_t *out,
    const char *complaint)
{
    if (!scan_unsigned(v, r->bytes, out) && v->kind != SCAN_NULL)
        wrong(r, complaint);
}

static void read_amount(struct reader *r, struct scan_value *v, int64_t *out,
    const char *complaint)
{
    if ((!scan_integer(v, r->bytes, out) || *out < 0) && v->kind != SCAN_NULL)
        wrong(r, complaint);
}

/* --- a lock --- */

static void read_field(struct reader *r, struct ask_lock *l, unsigned i,
    struct scan_value *v)
{
    if (i == ENQ_KEY_FIELDS_MAX) {
        wrong(r, "Lock argument has more than 16 fields");
        return;
    }
    l->req.key[i] = v->kind == SCAN_TEXT ? scan_text(v, r->bytes)
                                         : scan_word(v, r->bytes, l->word[i]);
    if (l->req.key[i] != NULL)
        return;
    l->req.key[i] = "";
    wrong(r,
        v->kind == SCAN_TEXT ? "A lock argument has a zero byte"
                             : "A lock argument is an array or object");
}

static void read_argument(struct reader *r, struct ask_lock *l,
    struct scan_value *v)
{
    struct scan_value *field = v + 1, *end = v + v->span;
    unsigned n = 0;

    if (l->req.key[0] != NULL) /* of one that comes twice the last counts */
        memset(l->req.key, 0, sizeof(l->req.key));
    l->has_key = v->kind == SCAN_ARRAY;
    for (; l->has_key && field < end && *r->wrong == NULL;
         n++, field += field->span)
        read_field(r, l, n, field);
}

static void read_mode(struct reader *r, struct ask_lock *l,
    struct scan_value *v)
{
    static const char letters[] = "SEXO";
    const char *text = scan_text(v, r->bytes), *at = NULL;

    if (text != NULL && text[0] != '\0' && text[1] == '\0')
        at = strchr(letters, text[0]);
    if (at == NULL)
        wrong(r, "Unknown lock mode: S, E, X or O");
    else
        l->req.mode = (enum enq_mode)(at - letters + 1);
}

static void read_wait(struct reader *r, struct ask_lock *l,
    struct scan_value *v)
{
    int64_t ms = 0;

    if (r->session && says(r, v, WIRE_forever))
        ms = ENQ_FOREVER;
    else if (!scan_integer(v, r->bytes, &ms) || ms < 0)
        ms = 0;
    l->req.wait_ms = ms;
}

static void read_timeout(struct reader *r, int64_t *ms, struct scan_value *v)
{
    *ms = 0;
    if (v->kind == SCAN_NULL)
        return;
    if (r->session && says(r, v, WIRE_none))
        *ms = ENQ_FOREVER;
    else if (!scan_integer(v, r->bytes, ms) || *ms < 0)
        wrong(r, "Invalid timeout");
}

static void read_death(struct reader *r, struct ask_lock *l,
    struct scan_value *v)
{
    l->has_death = true;
    if (says(r, v, WIRE_release))
        l->death = ENQ_DEATH_RELEASE;
    else if (says(r, v, WIRE_lease))
        l->death = ENQ_DEATH_LEASE;
    else if (says(r, v, WIRE_keep))
        l->death = ENQ_DEATH_KEEP;
    else
        wrong(r, "Unknown onDeath: release, lease or keep");
}

static void read_literal(struct reader *r, struct ask_lock *l,
    struct scan_value *v)
{
    uint64_t bits = 0;

    read_unsigned(r, v, &bits, "literal must be a number");
    if (bits > UINT32_MAX)
        wrong(r, "literal has more than 32 bits");
    l->req.literal = (uint32_t)bits;
}

/* A member's name. There is no need of a zero behind it. */
static const char *name_of(struct reader *r, struct scan_value *v)
{
    return v->escaped ? scan_text(v, r->bytes) : r->bytes + v->begin;
}

/* Of a member's @name, which stands before its value @v: without a call, as
   nearly all of these comparisons end with the length. */
#define IS(literal)                                                            \
    (v[-1].bytes == sizeof(literal) - 1 &&                                     \
        memcmp(name, literal, sizeof(literal) - 1) == 0)

static void read_lock_member(struct reader *r, struct ask_lock *l,
    const char *name, struct scan_value *v)
{
    if (IS(WIRE_name))
        l->req.name = word_of(r, v, l->word[ENQ_KEY_FIELDS_MAX],
            "Lock name must be a text");
    else if (IS(WIRE_argument))
        read_argument(r, l, v);
    else if (IS(WIRE_mode))
        read_mode(r, l, v);
    else if (IS(WIRE_owner))
        l->req.owner = v->kind == SCAN_NULL
            ? NULL
            : word_of(r, v, l->word[ENQ_KEY_FIELDS_MAX + 1],
                  "Lock owner must be a text");
    else if (IS(WIRE_uuid))
        l->req.id = v->kind == SCAN_NULL
            ? NULL
            : word_of(r, v, r->ask->uuid_word, "Lock uuid must be a text");
    else if (IS(WIRE_waitTime))
        read_wait(r, l, v);
    else if (IS(WIRE_timeout))
        read_timeout(r, &l->req.ttl_ms, v);
    else if (IS(WIRE_onDeath))
        read_death(r, l, v);
    else if (IS(WIRE_literal))
        read_literal(r, l, v);
    else if (IS(WIRE_delay))
        read_amount(r, v, &l->req.delay_ms, "delay must be a number of ms");
}

/* In three pieces: to set the whole to zeros at once takes as long as to read
   it (rep stos). */
static void begin_lock(struct ask_lock *l)
{
    size_t rest = offsetof(struct enq_req, literal);

    l->req.size = sizeof(l->req);
    l->req.name = NULL;
    memset(l->req.key, 0, sizeof(l->req.key));
    memset((char *)&l->req + rest, 0, sizeof(l->req) - rest);
    l->has_death = l->has_key = false;
}

static void read_lock(struct reader *r, struct scan_value *v)
{
    struct scan_value *at = v + 1, *end = v + v->span;
    struct ask_lock *l = &r->ask->locks[r->ask->n_locks++];

    begin_lock(l);
    if (v->kind != SCAN_OBJECT) {
        wrong(r, "The lock is not a JSON object");
        return;
    }
    for (; at < end; at += 1 + at[1].span) {
        const char *name = name_of(r, at);

        if (name != NULL)
            read_lock_member(r, l, name, at + 1);
    }
    if (l->req.name == NULL)
        wrong(r, "The lock has no name");
    if (!l->has_key)
        wrong(r, "Lock argument must be array!");
    if (l->req.mode == 0)
        wrong(r, "The lock has no mode: S, E, X or O");
}

static void read_locks(struct reader *r, struct scan_value *v)
{
    struct scan_value *at = v + 1, *end = v + v->span;

    r->ask->n_locks = 0;
    if (v->kind != SCAN_ARRAY || at == end)
        wrong(r, "locks must be an array of locks");
    for (; v->kind == SCAN_ARRAY && at < end; at += at->span) {
        if (r->ask->n_locks == ENQ_SET_MAX) {
            wrong(r, "A set has at most 64 locks");
            return;
        }
        read_lock(r, at);
    }
}

/* --- grants --- */

static void read_grant(struct reader *r, struct scan_value *v)
{
    struct scan_value *at = v + 1, *end = v + v->span;
    struct enq_grant *g = &r->ask->grants[r->ask->n_grants++];

    g->handle = g->token = 0;
    if (v->kind != SCAN_OBJECT) {
        wrong(r, "A grant is not a JSON object");
        return;
    }
    for (; at < end; at += 1 + at[1].span) {
        if (says(r, at, WIRE_HANDLE))
            read_unsigned(r, at + 1, &g->handle, "HANDLE must be a number");
        else if (says(r, at, WIRE_TOKEN))
            read_unsigned(r, at + 1, &g->token, "TOKEN must be a number");
    }
}

static void read_grants(struct reader *r, struct scan_value *v)
{
    struct scan_value *at = v + 1, *end = v + v->span;

    r->ask->n_grants = 0;
    if (v->kind != SCAN_ARRAY)
        wrong(r, "GRANTS must be an array");
    for (; v->kind == SCAN_ARRAY && at < end; at += at->span) {
        if (r->ask->n_grants == ENQ_SET_MAX) {
            wrong(r, "GRANTS has more than 64 locks");
            return;
        }
        read_grant(r, at);
    }
}

/* --- the request --- */

_Static_assert(OP_LOCK == 1 && OP_LIST == 4, "as enqueue-server numbers them");

static void read_op(struct reader *r, struct scan_value *v)
{
    char word[SCAN_WORD_BYTES];
    const char *text = v->kind == SCAN_TEXT ? scan_text(v, r->bytes)
                                            : scan_word(v, r->bytes, word);

    r->ask->op = OP_NONE;
    if (text != NULL && text[0] >= '1' && text[0] <= '4' && text[1] == '\0')
        r->ask->op = (enum op)(text[0] - '0');
    for (size_t op = 1; text != NULL && r->ask->op == OP_NONE &&
         op < sizeof(op_names) / sizeof(*op_names);
         op++)
        if (text[0] == op_names[op][0] && strcmp(text, op_names[op]) == 0)
            r->ask->op = (enum op)op;
}

static void read_id(struct reader *r, struct scan_value *v)
{
    struct ask *ask = r->ask;
    char word[SCAN_WORD_BYTES];
    const char *text = v->kind == SCAN_TEXT ? scan_text(v, r->bytes)
        : v->kind == SCAN_NUMBER            ? scan_word(v, r->bytes, word)
                                            : NULL;

    size_t n = text == NULL    ? 0
        : v->kind == SCAN_TEXT ? v->bytes
                               : strlen(text);

    /* of what is too large for a number there are only words, and no JSON */
    if (v->kind == SCAN_NUMBER && text != NULL && strchr(text, 'I') != NULL)
        n = 0;
    if (n == 0 || n >= ASK_ID_BYTES) {
        wrong(r, "reqUUID must be a text of 1 to 64 bytes, or a number");
        return;
    }
    memcpy(ask->id, text, n);
    ask->id[n] = '\0'; /* that of the text was written just now */
    ask->has_id = true;
    ask->id_is_number = v->kind == SCAN_NUMBER;
}

static void read_key_member(struct reader *r, const char *name,
    struct scan_value *v)
{
    if (r->ask->key.req.size == 0)
        begin_lock(&r->ask->key);
    read_lock_member(r, &r->ask->key, name, v);
}

/* If it comes again, what came first does not count. */
static void read_object(struct reader *r, struct scan_value *v, bool one)
{
    r->ask->has_object = true;
    r->ask->n_locks = 0;
    r->wrong_locks = NULL;
    r->wrong = &r->wrong_locks;
    if (one)
        read_lock(r, v);
    else
        read_locks(r, v);
    r->wrong = &r->ask->wrong;
}

/* Of those that come with locks often first. */
static bool read_common(struct reader *r, const char *name,
    struct scan_value *v)
{
    struct ask *ask = r->ask;

    if (IS(WIRE_OP))
        read_op(r, v);
    else if (IS(WIRE_reqUUID))
        read_id(r, v);
    else if (IS(WIRE_eleLock) || IS(WIRE_locks)) {
        read_object(r, v, name[0] == 'e');
    } else if (IS(WIRE_HANDLE))
        read_unsigned(r, v, &ask->handle, "HANDLE must be a number");
    else if (IS(WIRE_TOKEN))
        read_unsigned(r, v, &ask->token, "TOKEN must be a number");
    else if (IS(WIRE_lockUUID))
        ask->uuid = v->kind == SCAN_NULL
            ? NULL
            : word_of(r, v, ask->uuid_word, "lockUUID must be a text");
    else if (IS(WIRE_start))
        ask->start = is_true(v);
    else if (IS(WIRE_test))
        ask->test = is_true(v);
    else if (IS(WIRE_noDeadlock))
        ask->no_deadlock = is_true(v);
    else
        return false;
    return true;
}

static void read_rare(struct reader *r, const char *name, struct scan_value *v)
{
    struct ask *ask = r->ask;

    if (IS(WIRE_lockName))
        ask->name = filter_of(r, v, "lockName must be a text");
    else if (IS(WIRE_lockOwner) || IS(WIRE_owner))
        ask->owner = filter_of(r, v, "The owner must be a text");
    else if (IS(WIRE_GRANTS))
        read_grants(r, v);
    else if (IS(WIRE_timeout))
        read_timeout(r, &ask->timeout_ms, v);
    else if (IS(WIRE_limit))
        read_amount(r, v, &ask->limit, "limit must be a number");
    else if (IS(WIRE_ticket))
        ask->ticket = word_of(r, v, ask->uuid_word, "ticket must be a text");
    else if (IS(WIRE_session))
        ask->session = text_of(r, v, "session must be a text");
    else if (IS(WIRE_token))
        ask->secret = text_of(r, v, "token must be a text");
    else if (IS(WIRE_grace))
        read_amount(r, v, &ask->grace_ms, "grace must be a number of ms");
    else if (IS(WIRE_version))
        read_amount(r, v, &ask->version, "version must be a number");
    else if (IS(WIRE_name) || IS(WIRE_argument))
        read_key_member(r, name, v);
}

static void begin(struct ask *ask)
{
    struct ask_lock *locks = ask->locks;
    struct enq_grant *grants = ask->grants;

    ask->op = OP_NONE;
    ask->id[0] = '\0';
    ask->has_id = ask->id_is_number = ask->has_object = false;
    ask->start = ask->test = ask->no_deadlock = false;
    ask->wrong = NULL;
    ask->n_locks = ask->n_grants = 0;
    ask->uuid = ask->name = ask->owner = ask->ticket = NULL;
    ask->session = ask->secret = NULL;
    ask->key.req.size = 0; /* nothing of it was told: hardly anybody does */
    ask->handle = ask->token = 0;
    ask->timeout_ms = 0;
    ask->limit = ask->grace_ms = ask->version = -1;
    ask->locks = locks;
    ask->grants = grants;
}

/* What an operation cannot do without. */
static void judge(struct reader *r)
{
    struct ask *ask = r->ask;

    if (r->wrong_locks != NULL)
        wrong(r, r->wrong_locks);
    if (ask->op == OP_NONE)
        wrong(r, "Unknown OP");
    else if (ask->op == OP_LOCK && ask->n_locks != 1)
        wrong(r, "The request has no eleLock");
    else if (ask->op == OP_SET && ask->n_locks == 0)
        wrong(r, "The request has no locks");
    else if (ask->op == OP_UNSET && ask->n_grants == 0)
        wrong(r, "The request has no GRANTS");
    else if (ask->op == OP_CHECK &&
        (ask->key.req.size == 0 || ask->key.req.name == NULL))
        wrong(r, "The request has no name");
}

void ask_read(struct ask *ask, struct scan_value *v, char *bytes, bool session)
{
    struct reader r = {ask, bytes, session, &ask->wrong, NULL};
    struct scan_value *at = v + 1, *end = v + v->span;

    begin(ask);
    if (v->kind != SCAN_OBJECT) {
        wrong(&r, "The request is not a JSON object");
        return;
    }
    for (; at < end; at += 1 + at[1].span) {
        const char *name = name_of(&r, at);

        if (name != NULL && !read_common(&r, name, at + 1))
            read_rare(&r, name, at + 1);
    }
    if (ask->op == OP_NONE)
        ask->wrong = r.wrong_locks = NULL; /* nothing else is of interest */
    judge(&r);
}
