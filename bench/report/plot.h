/*
 * plot.h - what the parts of the picture share: one SVG file in the making,
 * its panels, colours and logarithmic scales.
 */
#ifndef BENCH_REPORT_PLOT_H
#define BENCH_REPORT_PLOT_H

#include "harness/bench.h"

enum { PANEL_W = 460, PANEL_GAP = 40, BAR_H = 15, TITLE_H = 34 };

struct panel {
    FILE *out;
    double x, y, w, h; /* of what is drawn in, without title and labels */
};

/* From one power of ten to another, along some pixels. */
struct scale {
    double low, high; /* exponents */
    double from, to;
};

struct scale scale_over(double least, double most);
double scale_at(const struct scale *s, double value);

__attribute__((format(printf, 4, 5))) void plot_text(FILE *out, double x,
    double y, const char *format, ...);
void plot_title(const struct panel *p, const char *title, const char *unit);
const char *plot_colour(const struct subject *s);

/* Both return the height they took. */
double plot_bars(FILE *out, double top);
double plot_curves(FILE *out, double top);

#endif
