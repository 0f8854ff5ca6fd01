/*
 * args.c - a small parser of options: "-w 5", "-w5", "--wait 5", "--wait=5",
 * switches in one word ("-nq"), "--" ends the options. No abbreviations, so
 * that a new option never changes what an old script means.
 */
#include "args.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

const struct opt args_global[] = {
    OPT_AS_IS('S', "space", "ADDRESS",
        "the lock space: shm:NAME or /path (another's: ?owner=USER)", space),
    OPT_AS_IS(0, "json", NULL, "print JSON", json),
    OPT(0, "color", "WHEN", "auto, always or never", set_color),
    OPT_AS_IS('q', "quiet", NULL, "do not explain refusals", quiet),
    OPT_AS_IS('v', "verbose", NULL, "say what is done", verbose),
    OPT_AS_IS('h', "help", NULL, "print help", help),
    OPT_AS_IS('V', "version", NULL, "print the version", version),
    OPT_END,
};

struct parser {
    struct cli *cli;
    int argc, at;
    char **argv;
    int n_operands;
};

/* Guesses ----------------------------------------------------------------- */

#define GUESS_BYTES 24

static int least_of(int a, int b, int c)
{
    int ab = a < b ? a : b;

    return ab < c ? ab : c;
}

/* Levenshtein's distance; words of more than GUESS_BYTES are not near. */
static int distance(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    int row[GUESS_BYTES + 1];

    if (n > GUESS_BYTES || m > GUESS_BYTES)
        return GUESS_BYTES;
    for (size_t j = 0; j <= m; j++)
        row[j] = (int)j;
    for (size_t i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= m; j++) {
            int above = row[j];
            row[j] = least_of(above + 1, row[j - 1] + 1,
                diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[m];
}

void guess_try(struct guess *guess, const char *candidate)
{
    size_t n = strlen(guess->word);
    int d = distance(guess->word, candidate);
    int limit = n < 4 ? 1 : n < 8 ? 2 : 3;

    if (n >= 3 && strncmp(guess->word, candidate, n) == 0)
        d = 1;
    if (d <= limit && (guess->best == NULL || d < guess->distance)) {
        guess->best = candidate;
        guess->distance = d;
    }
}

const char *guess_text(const struct guess *guess, const char *dashes)
{
    static char text[64];

    if (guess->best == NULL)
        return "";
    snprintf(text, sizeof(text), "; did you mean %s%s?", dashes, guess->best);
    return text;
}

/* Options ----------------------------------------------------------------- */

static const struct opt no_options[] = {OPT_END};

static const struct opt *own_options(const struct parser *p)
{
    return p->cli->command != NULL ? p->cli->command->opts : no_options;
}

static const struct opt *find_letter(const struct opt *opts, char letter)
{
    for (; opts->name != NULL; opts++)
        if (opts->letter == letter)
            return opts;
    return NULL;
}

static const struct opt *find_name(const struct opt *opts, const char *name,
    size_t n)
{
    for (; opts->name != NULL; opts++)
        if (strlen(opts->name) == n && memcmp(opts->name, name, n) == 0)
            return opts;
    return NULL;
}

static int store(struct cli *cli, const struct opt *opt, const char *value)
{
    void *member = (char *)cli + opt->at;

    if (opt->arg == NULL)
        *(bool *)member = true;
    else
        *(const char **)member = value;
    return DONE;
}

/* @value: the rest of the option's own word, or NULL: the next word. */
static int apply(struct parser *p, const struct opt *opt, const char *value)
{
    char shown[2] = {opt->letter, '\0'};

    if (opt->arg != NULL && value == NULL) {
        if (p->at == p->argc)
            return say_usage(p->cli, "option --%s needs a value: %s", opt->name,
                opt->arg);
        value = p->argv[p->at++];
    }
    if (opt->set == NULL)
        return store(p->cli, opt, value);
    const char *wrong = opt->set(p->cli, value);
    if (wrong == NULL)
        return DONE;
    return say_usage(p->cli, "%s%s%s--%s: \"%s\" is %s", opt->letter ? "-" : "",
        shown, opt->letter ? "/" : "", opt->name, value, wrong);
}

static int unknown_name(const struct parser *p, const char *name, size_t n)
{
    char word[GUESS_BYTES + 1];
    struct guess guess = {.word = word};

    snprintf(word, sizeof(word), "%.*s", (int)n, name);
    for (const struct opt *o = own_options(p); o->name != NULL; o++)
        guess_try(&guess, o->name);
    for (const struct opt *o = args_global; o->name != NULL; o++)
        guess_try(&guess, o->name);
    return say_usage(p->cli, "unknown option --%.*s%s", (int)n, name,
        guess_text(&guess, "--"));
}

static int take_name(struct parser *p, const char *text)
{
    size_t n = strcspn(text, "=");
    const char *value = text[n] == '=' ? text + n + 1 : NULL;
    const struct opt *opt = find_name(own_options(p), text, n);

    if (opt == NULL)
        opt = find_name(args_global, text, n);
    if (opt == NULL)
        return unknown_name(p, text, n);
    if (opt->arg == NULL && value != NULL)
        return say_usage(p->cli, "option --%s takes no value", opt->name);
    return apply(p, opt, value);
}

static int take_letters(struct parser *p, const char *text)
{
    int rc = DONE;

    while (rc == DONE && *text != '\0') {
        char letter = *text++;
        const struct opt *opt = find_letter(own_options(p), letter);
        if (opt == NULL)
            opt = find_letter(args_global, letter);
        if (opt == NULL)
            return say_usage(p->cli, "unknown option -%c", letter);
        if (opt->arg != NULL)
            return apply(p, opt, *text != '\0' ? text : NULL);
        rc = apply(p, opt, NULL);
    }
    return rc;
}

/* The environment --------------------------------------------------------- */

/* $LOCKCTL_JSON and so on; --space has $ENQ_SPACE, which all programs have. */
static const char *variable(const struct opt *opt, char name[32])
{
    snprintf(name, 32, "LOCKCTL_%s", opt->name);
    for (char *at = name; *at != '\0'; at++)
        *at = (char)toupper((unsigned char)*at);
    return getenv(name);
}

static int take_variable(struct cli *cli, const struct opt *opt)
{
    char name[32];
    const char *value = variable(opt, name), *wrong = NULL;

    if (value == NULL || value[0] == '\0')
        return DONE;
    if (opt->set != NULL)
        wrong = opt->set(cli, value);
    else if (strcmp(value, "1") == 0)
        return store(cli, opt, value);
    else if (strcmp(value, "0") != 0)
        wrong = "neither 0 nor 1";
    if (wrong == NULL)
        return DONE;
    return say_usage(cli, "$%s: \"%s\" is %s", name, value, wrong);
}

int args_environment(struct cli *cli)
{
    static const char *const others[] = {"space", "help", "version"};
    int rc = DONE;

    for (const struct opt *o = args_global; rc == DONE && o->name != NULL; o++)
        if (strcmp(o->name, others[0]) != 0 &&
            strcmp(o->name, others[1]) != 0 && strcmp(o->name, others[2]) != 0)
            rc = take_variable(cli, o);
    return rc;
}

/* Operands ---------------------------------------------------------------- */

/* Moves the words that are no options to the front, in order. */
static void keep_operand(struct parser *p)
{
    p->cli->operand[p->n_operands++] = p->argv[p->at++];
}

/* OBJ, perhaps "--", and then the program, whose words are its own. */
static int take_program(struct parser *p)
{
    keep_operand(p);
    if (p->at < p->argc && strcmp(p->argv[p->at], "--") == 0)
        p->at++;
    else if (p->at < p->argc && p->argv[p->at][0] == '-')
        return say_usage(p->cli,
            "option %s must come before the object; write a program of that "
            "name after --",
            p->argv[p->at]);
    while (p->at < p->argc)
        keep_operand(p);
    return DONE;
}

static int take_words(struct parser *p)
{
    bool only_operands = false;
    int rc = DONE;

    while (rc == DONE && p->at < p->argc) {
        const char *word = p->argv[p->at];
        if (only_operands || word[0] != '-' || word[1] == '\0') {
            if (p->cli->command == NULL)
                return DONE;
            if (p->cli->command->starts_program)
                return take_program(p);
            keep_operand(p);
            continue;
        }
        p->at++;
        if (word[1] != '-')
            rc = take_letters(p, word + 1);
        else if (word[2] != '\0')
            rc = take_name(p, word + 2);
        else
            only_operands = true;
    }
    return rc;
}

static int check_number(const struct cli *cli)
{
    const struct command *command = cli->command;

    if (cli->help || cli->version)
        return DONE;
    if (cli->n_operands < command->least)
        return say_usage(cli, "too few arguments: %s %s", command->name,
            command->operands);
    if (command->most >= 0 && cli->n_operands > command->most)
        return say_usage(cli, "\"%s\" is one argument too many",
            cli->operand[command->most]);
    return DONE;
}

int args_parse(struct cli *cli, int argc, char **argv, int *at)
{
    struct parser p = {.cli = cli, .argc = argc, .at = *at, .argv = argv};

    cli->operand = argv + *at;
    int rc = take_words(&p);
    *at = p.at;
    cli->n_operands = p.n_operands;
    if (rc != DONE || cli->command == NULL)
        return rc;
    cli->operand[p.n_operands] = NULL; /* where execvp(3) stops */
    return check_number(cli);
}

/* Help -------------------------------------------------------------------- */

void args_print_options(const struct opt *opts)
{
    char left[40];

    for (; opts->name != NULL; opts++) {
        char letter[] = {'-', opts->letter, ',', ' ', '\0'};
        snprintf(left, sizeof(left), "%s--%s%s%s",
            opts->letter ? letter : "    ", opts->name, opts->arg ? " " : "",
            opts->arg ? opts->arg : "");
        printf("  %-22s %s\n", left, opts->help);
    }
}

void args_print_help(const struct command *command)
{
    bool has_options = command->opts->name != NULL;

    printf("usage: lockctl %s%s%s%s\n%s\n", command->name,
        has_options ? " [option]..." : "", command->operands[0] ? " " : "",
        command->operands, command->what);
    if (command->more != NULL)
        printf("%s\n", command->more);
    if (has_options) {
        printf("\n");
        args_print_options(command->opts);
    }
    printf("\nevery command:\n");
    args_print_options(args_global);
}
