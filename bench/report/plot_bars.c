/*
 * plot_bars.c - bars of operations a second, a panel for each scenario, all
 * on the same logarithmic axis.
 */
#include "report/plot.h"

#include <stdlib.h>

enum { NAME_W = 104, VALUE_W = 56, BARS_TOP = 8 };

struct wanted {
    const char *title;
    struct which which;
};

static const struct wanted panels[] = {
    {"1 process, one key", {.scenario = "pair"}},
    {"1 process, on top of its own lock", {.scenario = "cumulate"}},
    {"1 process, 100,000 other locks held",
        {.scenario = "random", .held = 100000}},
    {"1 process, 1,000,000 other locks held",
        {.scenario = "random", .held = 1000000}},
    {"2 processes, keys of one name", {.scenario = "distinct", .procs = 2}},
    {"2 processes, shared locks on one key",
        {.scenario = "shared", .procs = 2}},
    {"2 processes fight for one key", {.scenario = "one", .procs = 2}},
    {"16 processes fight for one key", {.scenario = "one", .procs = 16}},
};

/* In the order of the subjects; returns how many. */
static unsigned collect(const struct wanted *w, const struct result **out)
{
    const struct result *first = result_find(&w->which);
    unsigned n = 0;

    for (unsigned i = 0; first != NULL && subjects[i] != NULL; i++) {
        const struct result *r = result_peer(first, subjects[i]);
        if (r != NULL && r->rate > 0)
            out[n++] = r;
    }
    return n;
}

static struct scale scale_of_all(void)
{
    double least = 1e300, most = 0;

    for (const struct result *r = result_next(NULL); r != NULL;
         r = result_next(r)) {
        if (r->rate <= 0 || r->trial.scenario->manner != MANNER_RATE)
            continue;
        least = r->rate < least ? r->rate : least;
        most = r->rate > most ? r->rate : most;
    }
    return scale_over(least < most ? least : 1, most > 0 ? most : 10);
}

static void bar(const struct panel *p, const struct scale *s, double y,
    const struct result *r)
{
    char rate[24];
    double end = scale_at(s, r->rate);

    fprintf(p->out, "<g class=\"right\">");
    plot_text(p->out, p->x + NAME_W - 8, y + 11, "%s", r->subject->name);
    fprintf(p->out, "</g>");
    fprintf(p->out,
        "<rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" "
        "fill=\"%s\"%s/>",
        s->from, y + 1, end > s->from ? end - s->from : 1, BAR_H - 3,
        plot_colour(r->subject), r->measured ? "" : " opacity=\"0.4\"");
    plot_text(p->out, end + 5, y + 11, "%s%s",
        show_rate(rate, sizeof(rate), r->rate),
        r->measured ? "" : " (claimed)");
}

static void grid(const struct panel *p, const struct scale *s)
{
    for (int e = (int)s->low; e <= (int)s->high; e++) {
        double x =
            s->from + (e - s->low) / (s->high - s->low) * (s->to - s->from);
        fprintf(p->out,
            "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
            "y2=\"%.1f\"/>\n",
            x, p->y, x, p->y + p->h);
    }
}

static void panel(const struct panel *p, const struct wanted *w,
    const struct result *const *r, unsigned n)
{
    struct scale s = scale_of_all();

    s.from = p->x + NAME_W;
    s.to = p->x + p->w - VALUE_W;
    plot_title(p, w->title, "operations a second, each line ten times more");
    grid(p, &s);
    for (unsigned i = 0; i < n; i++)
        bar(p, &s, p->y + i * BAR_H, r[i]);
}

double plot_bars(FILE *out, double top)
{
    const struct result *r[SUBJECTS_MAX];
    double y = top + BARS_TOP, height = 0;
    unsigned column = 0;

    for (unsigned i = 0; i < sizeof(panels) / sizeof(panels[0]); i++) {
        unsigned n = collect(&panels[i], r);
        if (n == 0)
            continue;
        struct panel p = {.out = out,
            .x = PANEL_GAP + column * (PANEL_W + PANEL_GAP),
            .y = y + TITLE_H,
            .w = PANEL_W,
            .h = n * BAR_H};
        panel(&p, &panels[i], r, n);
        height = p.h > height ? p.h : height;
        column = 1 - column;
        if (column == 0) {
            y += height + TITLE_H + BARS_TOP;
            height = 0;
        }
    }
    return (column == 1 ? y + height + TITLE_H : y) - top;
}
