/*
 * script.c - from the bytes of a .spec file to its steps. Knows the form of a
 * line, not what its words mean. Pure but for reading the file.
 */
#include "spec.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char must_fail[] = "# must fail:";

static char *read_file(const char *file)
{
    FILE *f = fopen(file, "r");
    char *bytes = NULL;
    size_t n = 0;
    ssize_t got;

    if (f == NULL)
        return NULL;
    got = getdelim(&bytes, &n, 0, f);
    fclose(f);
    if (got >= 0)
        return bytes;
    free(bytes);
    return NULL;
}

static char *trim(char *text)
{
    char *end;

    while (isspace((unsigned char)*text))
        text++;
    end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    return text;
}

/* "A B: verb ..." - cuts the letters off; a line without any is left alone */
static char *take_letters(char *line, struct step *step)
{
    size_t n = 0;
    char *p = line;

    for (; isupper((unsigned char)*p) && (p[1] == ' ' || p[1] == ':'); p++) {
        if (n < LETTERS)
            step->letters[n++] = *p;
        while (p[1] == ' ')
            p++;
        if (p[1] == ':')
            return p + 2;
    }
    step->letters[0] = 0;
    return line;
}

static bool read_step(char *line, struct step *step)
{
    char *arrow = strstr(line, "->");

    if (arrow != NULL) {
        *arrow = 0;
        step->expect = trim(arrow + 2);
    }
    line = take_letters(line, step);
    step->n_words = split(line, step->words, WORDS_MAX);
    if (step->n_words < 0)
        return false;
    return step->n_words > 0 || (step->letters[0] != 0 && step->expect != NULL);
}

static void read_comment(char *line, struct script *script)
{
    if (strncmp(line, must_fail, sizeof(must_fail) - 1) == 0)
        script->must_fail = trim(line + sizeof(must_fail) - 1);
    else if (script->title == NULL)
        script->title = trim(line + 1);
}

static bool add_step(struct script *script, char *line, int number)
{
    size_t size = (script->n_steps + 1) * sizeof(struct step);
    struct step *steps = realloc(script->steps, size);

    if (steps == NULL)
        return false;
    script->steps = steps;
    memset(&steps[script->n_steps], 0, sizeof(struct step));
    steps[script->n_steps].line = number;
    return read_step(line, &steps[script->n_steps++]);
}

bool script_read(const char *file, struct script *script, char why[200])
{
    int number = 0;
    char *line, *rest;

    *script = (struct script){.bytes = read_file(file)};
    if (script->bytes == NULL) {
        snprintf(why, 200, "cannot be read, or is empty");
        return false;
    }
    rest = script->bytes;
    while ((line = strsep(&rest, "\n")) != NULL) {
        number++;
        line = trim(line);
        if (line[0] == '#')
            read_comment(line, script);
        else if (line[0] != 0 && !add_step(script, line, number)) {
            snprintf(why, 200, "line %d is not a step", number);
            return false;
        }
    }
    if (script->title != NULL && script->n_steps > 0)
        return true;
    snprintf(why, 200, "has no title (first comment) or no steps");
    return false;
}

void script_free(struct script *script)
{
    free(script->steps);
    free(script->bytes);
    *script = (struct script){0};
}
