/*
 * args.h - the words of the command line, and help made of the same tables.
 */
#ifndef ARGS_H
#define ARGS_H

#include "lockctl.h"

/* Options that every command has. */
extern const struct opt args_global[];

/* What is to hold without being said each time; options come after it. */
int args_environment(struct cli *cli);

/*
 * args_parse - read the options of `cli->command` (NULL: only the global
 * ones, up to the first operand) from argv[*at] on.
 *
 * Without a command *at is left at the first operand; with one, the operands
 * are in cli->operand, checked by number. Returns DONE or, said, USAGE.
 */
int args_parse(struct cli *cli, int argc, char **argv, int *at);

/* The nearest of several words to a mistyped one. */
struct guess {
    const char *word;
    const char *best; /* NULL: none is near */
    int distance;
};
void guess_try(struct guess *guess, const char *candidate);
/* "; did you mean --mode?", or nothing. */
const char *guess_text(const struct guess *guess, const char *dashes);

void args_print_help(const struct command *command);
void args_print_options(const struct opt *opts);

#endif
