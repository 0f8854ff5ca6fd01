/*
 * ask.c - how an actor asks for locks, and what it notes of those it has.
 */
#include <stdio.h>
#include <string.h>

#include "crash.h"

/* One of the locks asked for at once. */
struct wish {
    const char *text;
    struct enq_req req;
    char id[24];
    uint64_t before; /* the newest token when it was asked for */
};

/* --- who has what, among the living --- */

/* A word for each of "a", "b", "c": how many have it in S, in O, in E or X.
   Marked after the grant and wiped out before it is given back; so that two
   marks that do not go together are a lock that was given twice. */
#define HAVE_S 1u
#define HAVE_O (1u << 8)
#define HAVE_X (1u << 16)

static uint32_t mark_of(unsigned mode)
{
    return mode == ENQ_MODE_S ? HAVE_S : mode == ENQ_MODE_O ? HAVE_O : HAVE_X;
}

static bool at_odds(uint32_t have)
{
    uint32_t s = have % HAVE_O, o = have / HAVE_O % 256, x = have / HAVE_X;

    return x > 1 || (x > 0) + (o > 0) + (s > 0) > 1;
}

static void pick_up(struct actor *a, unsigned i, unsigned mode)
{
    const char *names = "abc";

    a->had[i] = 0;
    if (strchr("vrdl", a->owner[0]) != NULL || !load(&a->box->watched) ||
        strchr("abc@", a->key[i]) == NULL)
        return;
    a->had[i] = mark_of(mode);
    for (unsigned at = 0; at < 3; at++)
        if ((a->key[i] == '@' || a->key[i] == names[at]) &&
            at_odds(__atomic_add_fetch(&a->box->have[at], a->had[i],
                __ATOMIC_SEQ_CST)))
            complain_of(a->box, FAULT_DOUBLE,
                "%s got %c though somebody else has it (%#x)", a->owner,
                names[at], load(&a->box->have[at]));
}

void put_down(struct actor *a, unsigned i)
{
    for (unsigned at = 0; at < 3; at++)
        if (a->key[i] == '@' || a->key[i] == "abc"[at])
            __atomic_sub_fetch(&a->box->have[at], a->had[i], __ATOMIC_SEQ_CST);
    a->had[i] = 0;
}

/* --- what is asked for --- */

static void set_key(const struct actor *a, char key, struct enq_req *req)
{
    static const char *const one[] = {"a", "b", "c", "@"};
    const char *at = strchr("abc@", key);

    if (at != NULL) {
        req->key[0] = one[at - "abc@"];
    } else if (key == '#') {
        req->key[0] = req->key[1] = "@";
    } else {
        req->key[0] = a->box->keys[a->box->n_keys - 1];
    }
}

static enum enq_mode mode_of(char letter)
{
    return (enum enq_mode)(1 + (strchr("SEXO", letter) - "SEXO"));
}

/* A text that makes the entry a large one. */
static const char *long_owner(const struct actor *a)
{
    static char text[ENQ_OWNER_BYTES];

    memset(text, '.', ENQ_OWNER_BYTES - 1);
    memcpy(text, a->owner, strlen(a->owner));
    return text;
}

static bool ends(char c)
{
    return c == '\0' || c == ';' || c == ' ';
}

/* Of one lock, though it be one of a set. */
static bool has(const char *wish, char modifier)
{
    for (wish += 2; !ends(*wish) && *wish != ','; wish++)
        if (*wish == modifier)
            return true;
    return false;
}

unsigned wish_locks(const char *wish)
{
    unsigned n = 1;

    for (; !ends(*wish); wish++)
        n += *wish == ',';
    return n;
}

static void set_more(const char *wish, struct enq_req *req)
{
    if (has(wish, 's'))
        req->ttl_ms = 1;
    if (has(wish, 'b')) {
        req->ttl_ms = 20;
        req->heartbeat_ms = 5;
    }
    if (has(wish, 'd') || has(wish, 'D'))
        req->delay_ms = has(wish, 'd') ? 5 : 10000;
    if (has(wish, 'f'))
        req->peer = "another";
}

/* The actor's, or one for the i-th lock alone. */
static void set_id(const struct actor *a, struct wish *w, unsigned i)
{
    if (has(w->text, 'i'))
        snprintf(w->id, sizeof(w->id), "id-%.4s", a->owner);
    else
        snprintf(w->id, sizeof(w->id), "id-%.4s-%u", a->owner, i);
    if (has(w->text, 'i') || has(w->text, 'n'))
        w->req.id = w->id;
}

static void make_wish(const struct actor *a, struct wish *w, unsigned i,
    int64_t wait_ms)
{
    struct enq_req *req = &w->req;

    *req = (struct enq_req){.size = sizeof(*req),
        .name = NAME,
        .owner = has(w->text, 'L') ? long_owner(a)
            : has(w->text, '0')    ? "w0"
                                   : a->owner,
        .mode = mode_of(w->text[0]),
        .flags = has(w->text, 'T') ? ENQ_TEST : 0,
        .wait_ms = wait_ms};
    if (has(w->text, 'k') || has(w->text, 'l'))
        req->on_death = has(w->text, 'k') ? ENQ_DEATH_KEEP : ENQ_DEATH_LEASE;
    set_more(w->text, req);
    set_id(a, w, i);
    set_key(a, w->text[1], req);
}

/* --- asking --- */

static void note_grant(struct actor *a, const struct wish *w,
    const struct enq_grant *g)
{
    char key = w->text[1];

    if (g->token <= w->before)
        complain_of(a->box, FAULT_DOUBLE,
            "%s got %c with token %llu, which is not above %llu", a->owner, key,
            (unsigned long long)g->token, (unsigned long long)w->before);
    note_token(a->box, key, g->token);
    a->key[a->n] = key;
    a->g[a->n] = *g;
    pick_up(a, a->n++, w->req.mode);
}

/* Requests that are started have their grants filled later. */
static int ask(struct actor *a, const struct wish *wishes, unsigned n,
    bool starts)
{
    const struct enq_req *reqs[LOCKS_OF_SET];
    int rc;

    for (unsigned i = 0; i < n; i++)
        reqs[i] = &wishes[i].req;
    if (n > 1)
        rc = starts ? enq_start_set(a->e, reqs, n, a->asked, &a->ticket)
                    : enq_lock_set(a->e, reqs, n, a->asked);
    else
        rc = starts ? enq_start(a->e, reqs[0], a->asked, &a->ticket)
                    : enq_lock(a->e, reqs[0], a->asked);
    for (unsigned i = 0; i < n && rc == ENQ_OK && reqs[0]->flags == 0; i++)
        note_grant(a, &wishes[i], &a->asked[i]);
    return rc;
}

static int lock_or_start(struct actor *a, const char *text, int64_t wait_ms,
    bool starts)
{
    struct wish wishes[LOCKS_OF_SET];
    unsigned n = wish_locks(text);

    for (unsigned i = 0; i < n && i < LOCKS_OF_SET; i++) {
        wishes[i].text = text;
        wishes[i].before = newest_token(a->box, text[1]);
        make_wish(a, &wishes[i], i, wait_ms);
        text += strcspn(text, ",") + 1;
    }
    return ask(a, wishes, n, starts);
}

int script_lock(struct actor *a, const char *wish, int64_t wait_ms)
{
    return lock_or_start(a, wish, wait_ms, false);
}

/* That it is pending is what was wanted. */
int script_start(struct actor *a, const char *wish)
{
    int rc = lock_or_start(a, wish, has(wish, 't') ? 1 : LONG_MS, true);

    return rc == ENQ_PENDING ? ENQ_OK : rc;
}

int64_t script_wait_ms(const struct actor *a, const char *wish)
{
    if (a->patient || has(wish, 'w'))
        return LONG_MS;
    return has(wish, 't') ? 1 : 0;
}

/* --- what becomes of it --- */

int script_unlock_all(struct actor *a)
{
    unsigned n = a->n;

    for (unsigned i = 0; i < n; i++)
        put_down(a, i);
    return enq_unlock_set(a->e, a->g, n);
}

int script_promote(struct actor *a, unsigned i)
{
    struct enq_grant g;
    uint64_t before = newest_token(a->box, a->key[i]);
    int rc;

    put_down(a, i);
    rc = enq_promote(a->e, a->g[i].handle, a->g[i].token, &g);
    if (rc != ENQ_OK)
        return rc;
    pick_up(a, i, ENQ_MODE_E);
    if (g.token <= before)
        complain_of(a->box, FAULT_DOUBLE, "a promotion of %c has an old token",
            a->key[i]);
    note_token(a->box, a->key[i], g.token);
    a->g[i].token = g.token;
    return rc;
}
