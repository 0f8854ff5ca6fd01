/*
 * plot.c - the picture of a run, as SVG: bars of the rates, then the scales,
 * and under which conditions. It has a background of its own, so that it can
 * be read on any page.
 */
#include "report/plot.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <string.h>

enum { WIDTH = 1040, HEAD_H = 86, FOOT_H = 30, HEIGHT_MAX = 4000 };

struct scale scale_over(double least, double most)
{
    struct scale s = {.low = floor(log10(least)), .high = ceil(log10(most))};

    if (s.high <= s.low)
        s.high = s.low + 1;
    return s;
}

double scale_at(const struct scale *s, double value)
{
    double part = (log10(value) - s->low) / (s->high - s->low);

    return s->from + part * (s->to - s->from);
}

/* The colours tell three kinds apart: ours, the floor, the peers. */
const char *plot_colour(const struct subject *s)
{
    if (s == subjects[0])
        return "#1257c7";
    if (s == &subject_strict)
        return "#7ba7ee";
    if (s->floor)
        return "#7c8591";
    return "#cf7a1c";
}

/* What comes from outside may hold what SVG takes for its own. */
void plot_text(FILE *out, double x, double y, const char *format, ...)
{
    char text[512];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    fprintf(out, "<text x=\"%.1f\" y=\"%.1f\">", x, y);
    for (const char *c = text; *c != 0; c++)
        if (*c == '<' || *c == '&')
            fprintf(out, "&#%d;", *c);
        else
            fputc(*c, out);
    fprintf(out, "</text>\n");
}

void plot_title(const struct panel *p, const char *title, const char *unit)
{
    fprintf(p->out, "<g class=\"title\">");
    plot_text(p->out, p->x, p->y - 18, "%s", title);
    fprintf(p->out, "</g><g class=\"unit\">");
    plot_text(p->out, p->x, p->y - 5, "%s", unit);
    fprintf(p->out, "</g>\n");
}

static void style(FILE *out)
{
    fprintf(out,
        "<style>text{font:12px system-ui,'DejaVu Sans',sans-serif;"
        "fill:#1c2128}"
        ".head text{font-size:20px;font-weight:600}"
        ".title text{font-size:13px;font-weight:600}"
        ".unit text,.tick text{font-size:10.5px;fill:#57606a}"
        ".right text{text-anchor:end}.middle text{text-anchor:middle}"
        ".grid{stroke:#d8dee4;stroke-width:1}"
        ".curve{fill:none;stroke-width:2}</style>\n");
}

static void legend(FILE *out, double y)
{
    static const struct {
        const struct subject *subject;
        const char *text;
        int x;
    } kinds[] = {
        {&subject_enq, "libenq", 0},
        {&subject_strict, "libenq, strict space", 90},
        {&subject_mutex, "the floor: a bare lock", 250},
        {&subject_bdb, "peers", 420},
    };

    for (unsigned i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        double x = PANEL_GAP + kinds[i].x;
        fprintf(out,
            "<rect x=\"%.1f\" y=\"%.1f\" width=\"12\" height=\"12\" "
            "fill=\"%s\"/>\n",
            x, y - 10, plot_colour(kinds[i].subject));
        plot_text(out, x + 18, y, "%s", kinds[i].text);
    }
}

static void head(FILE *out, const struct machine *m)
{
    fprintf(out, "<g class=\"head\">");
    plot_text(out, PANEL_GAP, 34, "libenq beside its peers, in one run");
    fprintf(out, "</g>\n<g class=\"unit\">");
    plot_text(out, PANEL_GAP, 54, "%s, %d CPUs; %s; %s; commit %s; %s", m->cpu,
        m->cpus, m->kernel, m->compiler, m->commit[0] ? m->commit : "unknown",
        m->date);
    fprintf(out, "</g>\n");
    legend(out, 76);
}

/* The height is known only when all is drawn: a body first, then its frame. */
static int draw(FILE *out, const struct machine *m)
{
    FILE *body = tmpfile();
    char chunk[4096];
    size_t n;

    if (body == NULL)
        return -1;
    head(body, m);
    double y = HEAD_H;
    y += plot_bars(body, y);
    y += plot_curves(body, y);
    fprintf(out,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
        "height=\"%.0f\" viewBox=\"0 0 %d %.0f\">\n",
        WIDTH, y + FOOT_H, WIDTH, y + FOOT_H);
    style(out);
    fprintf(out,
        "<rect width=\"100%%\" height=\"100%%\" rx=\"6\" "
        "fill=\"#ffffff\"/>\n");
    rewind(body);
    while ((n = fread(chunk, 1, sizeof(chunk), body)) > 0)
        fwrite(chunk, 1, n, out);
    fprintf(out, "</svg>\n");
    return fclose(body) == 0 ? 0 : -1;
}

int plot_write(const char *path, const struct machine *m)
{
    FILE *out = fopen(path, "w");
    int rc = out == NULL ? -1 : draw(out, m);

    if (out != NULL && (ferror(out) != 0 || fclose(out) != 0))
        rc = -1;
    if (rc != 0)
        fprintf(stderr, "enq-bench: %s: %s\n", path, strerror(errno));
    return rc;
}
