/*
 * say.c - what the audience sees. Colour only on a terminal that has it and
 * whose user wants it (NO_COLOR, TERM=dumb).
 */
#include "demo.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define BOLD "\033[1m"
#define CYAN "\033[36m"
#define GREEN "\033[32m"
#define RED "\033[1;31m"

static bool coloured;
static int scene;

uint64_t now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

const char *show_ns(char *out, size_t n, uint64_t ns)
{
    if (ns < 1000)
        snprintf(out, n, "%u ns", (unsigned)ns);
    else if (ns < 1000000)
        snprintf(out, n, "%.1f us", (double)ns / 1e3);
    else
        snprintf(out, n, "%.1f ms", (double)ns / 1e6);
    return out;
}

void say_begin(void)
{
    const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

    coloured = isatty(STDOUT_FILENO) && (no == NULL || *no == 0) &&
        term != NULL && strcmp(term, "dumb") != 0;
}

static void tell(const char *before, const char *colour, const char *format,
    va_list args)
{
    fputs(before, stdout);
    if (coloured)
        fputs(colour, stdout);
    vprintf(format, args);
    puts(coloured && *colour != 0 ? "\033[0m" : "");
    fflush(stdout);
}

void say_scene(const char *title)
{
    printf("\n%s%d. %s%s\n", coloured ? BOLD : "", ++scene, title,
        coloured ? "\033[0m" : "");
    fflush(stdout);
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell("   ", "", format, args);
    va_end(args);
}

void say_quote(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell("       ", CYAN, format, args);
    va_end(args);
}

void say_good(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell("", GREEN, format, args);
    va_end(args);
}

void say_alarm(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    tell("!! ", RED, format, args);
    va_end(args);
}

static void broken_note(struct page *p, const char *text)
{
    uint32_t n = atomic_fetch_add(&p->broken, 1);

    if (n < BROKEN_TOLD)
        snprintf(p->broken_text[n], TEXT_BYTES, "%s", text);
}

/* Any process may report; the first ones keep their words. */
void broken(struct page *p, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    broken_note(p, text);
}

/* In the story: told at once as well. Returns @held. */
bool expect(struct page *p, bool held, const char *format, ...)
{
    char text[TEXT_BYTES];
    va_list args;

    if (held)
        return true;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    broken_note(p, text);
    say_alarm("not so: %s", text);
    return false;
}

int broken_report(struct page *p)
{
    uint32_t n = atomic_load(&p->broken);

    for (uint32_t i = 0; i < n && i < BROKEN_TOLD; i++)
        say_alarm("INVARIANT BROKEN: %s", p->broken_text[i]);
    if (n > BROKEN_TOLD)
        say_alarm("INVARIANT BROKEN: and %u more", n - BROKEN_TOLD);
    return (int)n;
}
