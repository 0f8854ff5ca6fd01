/*
 * plot_curves.c - the scales: what one operation costs against the number of
 * locks, waiters, sessions, '@' locks. Both axes are logarithmic; none (0) is
 * drawn one step left of 1.
 */
#include "report/plot.h"

#include <math.h>
#include <string.h>

enum { CURVE_H = 190, AXIS_W = 56, LABEL_W = 92, POINTS_MAX = 16 };

struct wanted {
    const char *scenario, *title, *unit;
};

static const struct wanted panels[] = {
    {"scale-ids", "A pair with an id of its own",
        "ns a pair, random keys; locks held"},
    {"scale-full", "Refused by a full table", "ns a refusal; locks held"},
    {"scale-wide", "An '@' lock over locks of its name",
        "ns a pair; locks of its name"},
    {"scale-wide-apart", "An '@' lock beside locks of other names",
        "ns a pair; locks of other names"},
    {"scale-list-one", "List a name with one lock",
        "ns a list; locks of other names"},
    {"scale-holders", "An S pair against the holders of its key",
        "ns a pair; others that hold S"},
    {"scale-cumulated", "A pair on top of one's own",
        "ns a pair; one's own locks of the key"},
    {"scale-started", "A hand-over among started requests",
        "ns from holder to holder; requests that wait"},
    {"scale-search", "Refused as it would deadlock",
        "ns a refusal; requests that wait for us"},
    {"scale-death", "From a kill to the waiter's grant",
        "ns, median; locks that the killed one held"},
    {"scale-held", "A pair against the number of locks held",
        "ns a pair, random keys; locks held"},
    {"scale-waiters", "A hand-over against the length of the queue",
        "ns from holder to holder; threads that wait"},
    {"scale-sessions", "A pair against the number of sessions",
        "ns a pair; sessions, each with a lock"},
    {"scale-procs", "A pair against the number of processes",
        "ns a pair, all together; processes, each on keys of its own"},
    {"scale-generic", "A pair against the number of '@' locks of its name",
        "ns a pair; '@' locks held elsewhere that do not overlap"},
    {"scale-apart", "A pair against the '@' locks of another name",
        "ns a pair; '@' locks of another name"},
    {"scale-remote", "A pair over TCP against the connections",
        "ns a pair, all together; connections, one request at a time on each"},
};

struct axes {
    struct scale x, y;
};

struct curve {
    const struct subject *subject;
    unsigned n;
    double x[POINTS_MAX], y[POINTS_MAX];
    double label_y;
};

static double number_of(const struct result *r)
{
    uint64_t n = result_number(r);

    return n > 0 ? (double)n : 0.1;
}

static struct curve collect(const char *scenario, const struct subject *s)
{
    struct curve c = {.subject = s};

    for (const struct result *r = result_next(NULL); r != NULL;
         r = result_next(r)) {
        if (r->subject != s || result_cost(r) <= 0 || c.n == POINTS_MAX ||
            strcmp(r->trial.scenario->name, scenario) != 0)
            continue;
        c.x[c.n] = number_of(r);
        c.y[c.n++] = result_cost(r);
    }
    return c;
}

static unsigned collect_all(const char *scenario, struct curve *out)
{
    unsigned n = 0;

    for (unsigned i = 0; subjects[i] != NULL; i++) {
        out[n] = collect(scenario, subjects[i]);
        n += out[n].n > 0;
    }
    return n;
}

static struct axes axes_of(const struct panel *p, const struct curve *c,
    unsigned n)
{
    double least_x = 1e300, most_x = 0, least_y = 1e300, most_y = 0;
    struct axes a;

    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < c[i].n; k++) {
            least_x = fmin(least_x, c[i].x[k]);
            most_x = fmax(most_x, c[i].x[k]);
            least_y = fmin(least_y, c[i].y[k]);
            most_y = fmax(most_y, c[i].y[k]);
        }
    a.x = scale_over(least_x, most_x);
    a.y = scale_over(least_y, most_y);
    a.x.from = p->x + AXIS_W;
    a.x.to = p->x + p->w - LABEL_W;
    a.y.from = p->y + p->h;
    a.y.to = p->y;
    return a;
}

static void line(FILE *out, double x1, double y1, double x2, double y2)
{
    fprintf(out,
        "<line class=\"grid\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" "
        "y2=\"%.1f\"/>",
        x1, y1, x2, y2);
}

static const char *show_number(char *out, size_t n, double value)
{
    if (value < 1)
        snprintf(out, n, "0");
    else if (value >= 1e6)
        snprintf(out, n, "%g M", value / 1e6);
    else if (value >= 1e4)
        snprintf(out, n, "%g k", value / 1e3);
    else
        snprintf(out, n, "%g", value);
    return out;
}

static void axis_x(const struct panel *p, const struct axes *a)
{
    char text[24];

    fprintf(p->out, "<g class=\"tick\"><g class=\"middle\">");
    for (int e = (int)a->x.low; e <= (int)a->x.high; e++) {
        double x = scale_at(&a->x, pow(10, e));
        line(p->out, x, p->y, x, p->y + p->h);
        plot_text(p->out, x, p->y + p->h + 15, "%s",
            show_number(text, sizeof(text), pow(10, e)));
    }
    fprintf(p->out, "</g></g>\n");
}

static void axis_y(const struct panel *p, const struct axes *a)
{
    char text[24];

    fprintf(p->out, "<g class=\"tick\"><g class=\"right\">");
    for (int e = (int)a->y.low; e <= (int)a->y.high; e++) {
        double y = scale_at(&a->y, pow(10, e));
        line(p->out, a->x.from, y, a->x.to, y);
        plot_text(p->out, a->x.from - 6, y + 4, "%s",
            show_round_ns(text, sizeof(text), pow(10, e)));
    }
    fprintf(p->out, "</g></g>\n");
}

static void draw_curve(const struct panel *p, const struct axes *a,
    const struct curve *c)
{
    const char *colour = plot_colour(c->subject);

    fprintf(p->out, "<polyline class=\"curve\" stroke=\"%s\" points=\"",
        colour);
    for (unsigned k = 0; k < c->n; k++)
        fprintf(p->out, "%.1f,%.1f ", scale_at(&a->x, c->x[k]),
            scale_at(&a->y, c->y[k]));
    fprintf(p->out, "\"/>\n");
    for (unsigned k = 0; k < c->n; k++)
        fprintf(p->out,
            "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" "
            "fill=\"%s\"/>",
            scale_at(&a->x, c->x[k]), scale_at(&a->y, c->y[k]), colour);
    fprintf(p->out, "\n<g fill=\"%s\">", colour);
    plot_text(p->out, scale_at(&a->x, c->x[c->n - 1]) + 8, c->label_y + 4, "%s",
        c->subject->name);
    fprintf(p->out, "</g>\n");
}

/* The highest of those that are not placed yet. */
static unsigned highest(const struct curve *c, const bool *placed, unsigned n)
{
    unsigned best = n;

    for (unsigned i = 0; i < n; i++)
        if (!placed[i] && (best == n || c[i].label_y < c[best].label_y))
            best = i;
    return best;
}

/* Labels stand beside the ends of their curves, but not on each other: from
   the top down each keeps its distance from the one above. */
static void place_labels(const struct axes *a, struct curve *c, unsigned n)
{
    enum { APART = 13 };
    bool placed[SUBJECTS_MAX] = {false};
    double above = -1e9;

    for (unsigned i = 0; i < n; i++)
        c[i].label_y = scale_at(&a->y, c[i].y[c[i].n - 1]);
    for (unsigned done = 0; done < n; done++) {
        unsigned next = highest(c, placed, n);
        placed[next] = true;
        c[next].label_y = fmax(c[next].label_y, above + APART);
        above = c[next].label_y;
    }
}

static bool draw_panel(struct panel *p, const struct wanted *w)
{
    struct curve c[SUBJECTS_MAX];
    unsigned n = collect_all(w->scenario, c);

    if (n == 0)
        return false;
    struct axes a = axes_of(p, c, n);
    place_labels(&a, c, n);
    plot_title(&(struct panel){.out = p->out, .x = p->x, .y = p->y - 6},
        w->title, w->unit);
    axis_x(p, &a);
    axis_y(p, &a);
    for (unsigned i = n; i-- > 0;)
        draw_curve(p, &a, &c[i]);
    return true;
}

double plot_curves(FILE *out, double top)
{
    const int row_h = CURVE_H + TITLE_H + 34;
    int drawn = 0;

    for (unsigned i = 0; i < sizeof(panels) / sizeof(panels[0]); i++) {
        int row = drawn / 2, column = drawn % 2;
        struct panel p = {.out = out,
            .x = PANEL_GAP + column * (PANEL_W + PANEL_GAP),
            .y = top + TITLE_H + 16 + row * row_h,
            .w = PANEL_W,
            .h = CURVE_H};
        drawn += draw_panel(&p, &panels[i]);
    }
    int rows = (drawn + 1) / 2;
    return rows * row_h + 16;
}
