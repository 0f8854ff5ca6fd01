/*
 * points.c - was there a death at every crash point?
 *
 * A name may stand for several places: a store in a function that the compiler
 * has put into many others. One of them will do.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crash.h"

#define LIST "tests/crash/unreached"

static uint16_t number_of[POINTS_MAX]; /* of the first with the same name */
static bool excepted[POINTS_MAX], of_pairs[POINTS_MAX], rare[POINTS_MAX],
    perhaps[POINTS_MAX];
bool points_cut_short;
static int stale_exceptions;

static const char *name_at(unsigned number)
{
    return __start_enq_points[number].name;
}

static unsigned n_points(void)
{
    return (unsigned)(__stop_enq_points - __start_enq_points);
}

unsigned point_number(const struct point *p)
{
    return number_of[p - __start_enq_points];
}

bool point_is_new(unsigned number)
{
    return __atomic_load_n(&tally->at[number], __ATOMIC_RELAXED) == 0;
}

static bool does_line_contain(const char *path, int number, const char *text)
{
    char line[256] = "";
    FILE *f = fopen(path, "re");

    while (f != NULL && number-- > 0 && fgets(line, sizeof(line), f) != NULL)
        continue;
    if (f != NULL)
        fclose(f);
    return strstr(line, text) != NULL;
}

/* Does this line of a source file, or of one of several of that name, contain
   the text? */
static bool line_contains(const char *file, int number, const char *text)
{
    char pattern[96];
    glob_t found;
    bool does = false;

    snprintf(pattern, sizeof(pattern), "src/*/%s", file);
    if (glob(pattern, 0, NULL, &found) != 0)
        return false;
    for (size_t i = 0; i < found.gl_pathc; i++)
        does |= does_line_contain(found.gl_pathv[i], number, text);
    globfree(&found);
    return does;
}

/* A store is called after its line, which moves: by its text it is found. */
static bool is_meant(const char *name, const char *file, const char *text)
{
    size_t n = strlen(file);

    if (text[0] == '\0')
        return strcmp(name, file) == 0;
    return strncmp(name, file, n) == 0 && name[n] == ':' &&
        line_contains(file, atoi(name + n + 1), text);
}

static void list(bool *listed, const char *file, const char *text)
{
    unsigned n = 0;

    for (unsigned i = 0; i < n_points(); i++)
        if (number_of[i] == i && is_meant(name_at(i), file, text)) {
            listed[i] = true;
            n++;
        }
    if (n == 0)
        stale_exceptions +=
            printf("%s: %s %s is no crash point\n", LIST, file, text);
}

static bool skip_word(const char **at, const char *word)
{
    size_t n = strlen(word);
    bool is = strncmp(*at, word, n) == 0;

    *at += is ? n : 0;
    return is;
}

/* Lines: a name, or a file and in quotes what stands in its line; a reason.
   "pairs" in front: of two that die one after the other the second must get
   there. "rarely": chance decides; it may be missed where time was short.
   "perhaps": where it never was. */
static void read_exceptions(void)
{
    FILE *f = fopen(LIST, "re");
    char line[256], file[64], text[64];

    while (f != NULL && fgets(line, sizeof(line), f) != NULL) {
        const char *at = line;
        bool *listed = skip_word(&at, "pairs ") ? of_pairs
            : skip_word(&at, "rarely ")         ? rare
            : skip_word(&at, "perhaps ")        ? perhaps
                                                : excepted;

        text[0] = '\0';
        if (sscanf(at, "%63s \"%63[^\"]\"", file, text) > 0 && file[0] != '#')
            list(listed, file, text);
    }
    if (f != NULL)
        fclose(f);
}

static bool exceptions_are_right(void)
{
    bool fine = stale_exceptions == 0;

    for (unsigned i = 0; i < n_points(); i++) {
        if (!excepted[i] || point_is_new(i))
            continue;
        printf("%s: %s is reached\n", LIST, name_at(i));
        fine = false;
    }
    return fine;
}

/* Before the workers are forked. */
void points_begin(void)
{
    for (unsigned i = 0; i < n_points() && i < POINTS_MAX; i++) {
        unsigned first = 0;

        while (strcmp(name_at(first), name_at(i)) != 0)
            first++;
        number_of[i] = (uint16_t)first;
    }
    read_exceptions();
}

static bool is_missed(unsigned i)
{
    return point_is_new(i) && !excepted[i] && !perhaps[i];
}

/* By those that die alone. */
unsigned points_missing(void)
{
    unsigned n = 0;

    for (unsigned i = 0; i < n_points(); i++)
        n += number_of[i] == i && is_missed(i) && !of_pairs[i];
    return n;
}

void points_print_missing(void)
{
    for (unsigned i = 0; i < n_points(); i++)
        if (number_of[i] == i && is_missed(i) && !of_pairs[i])
            printf("  %s\n", name_at(i));
}

bool points_report(void)
{
    unsigned names = 0, reached = 0, missed = 0;
    bool fine = exceptions_are_right();

    for (unsigned i = 0; i < n_points(); i++) {
        if (number_of[i] != i)
            continue;
        names++;
        reached += !point_is_new(i);
        if (!is_missed(i) || (of_pairs[i] && options.points))
            continue;
        printf("nobody died at %s\n", name_at(i));
        missed += !(rare[i] && points_cut_short) &&
            !(of_pairs[i] && options.turns > TURNS);
    }
    printf("%u of %u crash points are reached, %u excepted\n", reached, names,
        names - reached - missed);
    printf("figure crash-points-reached %u\n", reached);
    return fine && missed == 0;
}
