/*
 * history.c - one random history, run on the model and the real table.
 */
#include "history.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "lib/dice.h"
#include "lib/starved.h"
#include "recovery/check.h"

#define CHECK_EVERY 32 /* steps between two checks of the whole table */
#define SLACK_MS 5000  /* where time is real: a busy machine */

/* --- dice --- */

unsigned draw(struct history *h, unsigned n)
{
    return (unsigned)(dice_roll(&h->dice) % n);
}

bool chance(struct history *h, unsigned percent)
{
    return draw(h, 100) < percent;
}

/* --- words --- */

void say(struct history *h, const char *format, ...)
{
    char *line = h->log[h->logged++ % LOG_LINES];
    va_list args;

    va_start(args, format);
    vsnprintf(line, LOG_BYTES, format, args);
    va_end(args);
    if (h->talk)
        printf("    %s\n", line);
}

void fail(struct history *h, const char *format, ...)
{
    va_list args;

    if (h->failed)
        return; /* the first difference is the one that tells */
    h->failed = true;
    h->kind = format;
    va_start(args, format);
    vsnprintf(h->fault, sizeof(h->fault), format, args);
    va_end(args);
}

/* Two at once, for messages that name two locks. */
const char *lock_text(struct history *h, const struct m_lock *l)
{
    static char texts[2][200];
    static unsigned turn;
    static const char *const phases[] = {"-", "waiting", "held", "gone"};
    char *text = texts[turn++ % 2];

    snprintf(text, sizeof(texts[0]),
        "#%d %c %s owner \"%s\" %s%s session %u.%u since %lld us",
        (int)(l - h->m.locks), l->mode, h->m.keys[l->key].text, l->owner,
        phases[l->phase], m_over(&h->m, l) ? ", over," : "", l->session,
        l->born, (long long)(h->m.now_ns - l->since_ns) / 1000);
    return text;
}

void show_both(struct history *h)
{
    printf("    the model:\n");
    for (unsigned i = 0; i < M_LOCKS; i++)
        if (m_live(&h->m, &h->m.locks[i]))
            printf("      %s id %s\n", lock_text(h, &h->m.locks[i]),
                h->m.locks[i].id);
    printf("    the table:\n");
    for (size_t i = 0; i < h->s.n_found && i < SPACE_ENTRIES; i++) {
        const struct enq_info *info = &h->s.found[i];
        const struct m_lock *l = m_find(&h->m, info->handle);

        printf("      #%d %c %s/%s%s owner \"%s\" %s id %s\n",
            l == NULL ? -1 : (int)(l - h->m.locks), "?SEXO"[info->mode % 5],
            info -> name, info -> key, info -> fields > 1 ? "/..." : "",
            info->owner, info->waiting ? "waiting" : "held", info->id);
    }
}

/* --- steps --- */

static const struct {
    unsigned weight;
    bool adds;
    void (*step)(struct history *h);
    bool local; /* not through a bridge: it takes time, or a waiter */
} kinds[] = {
    {180, true, step_lock, false},
    {180, true, step_wait, true},
    {40, false, step_test, false},
    {50, true, step_lock_set, false},
    {70, true, step_wait_set, true},
    {160, false, step_look, true},
    {4, false, step_look_all, true},
    {190, false, step_unlock, false},
    {40, false, step_promote, false},
    {25, false, step_demote, false},
    {30, false, step_renew, false},
    {20, false, step_valid, false},
    {12, false, step_adopt, false},
    {10, false, step_break, false},
    {12, false, step_find, false},
    {140, false, step_time, true},
    {4, false, step_close, false},
    {6, false, step_die, true},
    {4, false, step_reap, true},
    {12, false, step_open, false},
    {2, false, step_recover, true},
    {6, false, step_list, false},
};

#define KINDS (sizeof(kinds) / sizeof(kinds[0]))

static unsigned weight_of(const struct history *h, unsigned kind)
{
    return h->s.over != NULL && kinds[kind].local ? 0 : kinds[kind].weight;
}

static unsigned draw_kind(struct history *h)
{
    unsigned sum = 0, left, i;

    for (i = 0; i < KINDS; i++)
        sum += weight_of(h, i);
    left = draw(h, sum);
    for (i = 0; left >= weight_of(h, i); i++)
        left -= weight_of(h, i);
    return i;
}

static unsigned live(const struct history *h)
{
    unsigned n = 0;

    for (unsigned i = 0; i < M_LOCKS; i++)
        n += m_live(&h->m, &h->m.locks[i]);
    return n;
}

static void check_whole(struct history *h)
{
    char text[1024] = "";
    struct check_report report = {text, sizeof(text), 0, 0};

    if (h->s.over != NULL) {
        if (enq_doctor(h->s.looker, 0, text, sizeof(text)) != 0)
            fail(h, "the table is not sound: %s", text);
        return;
    }
    if (check_table(h->s.map, h->s.t, &report) != 0 || report.findings > 0)
        fail(h, "the table is not sound: %s", text);
}

void step_done(struct history *h)
{
    compare(h);
    h->compared++;
    if (h->compared % CHECK_EVERY == 0 && !h->failed)
        check_whole(h);
    space_n_wakes = 0;
    h->roused = h->entered = false;
    h->n_own = 0;
    memset(h->could_go, 0, sizeof(h->could_go));
    h->winner = h->cut = NULL;
    memset(h->left, 0, sizeof(h->left));
    memset(h->granted, 0, sizeof(h->granted));
    memset(h->granted_set, 0, sizeof(h->granted_set));
}

bool history_step(struct history *h, uint64_t word)
{
    unsigned kind;

    h->dice = word;
    if (h->s.over != NULL)
        h->m.now_ns = sys.now().ns;
    kind = draw_kind(h);
    if (kinds[kind].adds && live(h) >= h->config->load->live && chance(h, 80))
        step_unlock(h);
    else
        kinds[kind].step(h);
    step_done(h);
    return !h->failed;
}

/* --- begin and end --- */

static void fill_keys(struct model *m, const char *const *keys)
{
    for (; keys[m->n_keys] != NULL; m->n_keys++)
        m_key_parse(&m->keys[m->n_keys], keys[m->n_keys]);
    for (unsigned a = 0; a < m->n_keys; a++)
        for (unsigned b = 0; b < m->n_keys; b++)
            m->overlap[a][b] = m_keys_overlap(&m->keys[a], &m->keys[b]);
}

bool history_begin(struct history *h, const struct config *config)
{
    bool talk = h->talk;

    memset(h, 0, sizeof(*h));
    h->talk = talk;
    h->config = config;
    if (config->over != NULL
            ? !space_open_over(&h->s, config->over, config->sap, config->strict)
            : !space_open(&h->s, config->sap, config->strict))
        return false;
    h->m.sap = config->sap;
    h->m.strict = config->strict;
    h->m.now_ns = space_now_ns;
    if (config->over != NULL) {
        h->m.slack_ms = SLACK_MS;
        h->m.starved_ms = test_starved_ms;
        h->m.starved_before_ms = test_starved_ms();
    }
    fill_keys(&h->m, config->load->keys);
    for (unsigned i = 0; i < M_SESSIONS; i++)
        h->m.sessions[i].open = true;
    return true;
}

void history_end(struct history *h)
{
    space_close(&h->s);
}
