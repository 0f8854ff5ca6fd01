/*
 * main.c - lockctl: libenq's locks on the command line. Which command it is,
 * and what all commands have in common.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "args.h"
#include "commands.h"

static const struct command *const commands[] = {
    &lock_command,
    &unlock_command,
    &promote_command,
    &renew_command,
    &run_command,
    &list_command,
    &who_command,
    &wait_command,
    &watch_command,
    &graph_command,
    &stats_command,
    &doctor_command,
    &dump_command,
    &adopt_command,
    &break_command,
};

enum { N_COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static void print_help(void)
{
    printf("usage: lockctl [option]... COMMAND [word]...\n"
           "Takes, frees and shows enqueue locks in a lock space.\n\n"
           "commands (lockctl COMMAND --help):\n");
    for (size_t i = 0; i < N_COMMANDS; i++)
        printf("  %-8s %-24s %s\n", commands[i]->name, commands[i]->operands,
            commands[i]->what);
    printf("\noptions:\n");
    args_print_options(args_global);
    printf(
        "\nThe space is --space, else $ENQ_SPACE, else shm:enq. "
        "lockctl(1) has examples.\n"
        "Exit codes: 0 done, 64 usage, 69 no space, 70 space damaged, "
        "75 not obtained or held,\n76 deadlock, 77 no permission, 79 lock is "
        "gone, 124 time over (wait, watch),\n1 other failures; those of "
        "\"run\": see there.\n");
}

static void print_version(void)
{
    int v = enq_version();

    printf("lockctl %d.%d.%d (libenq %d.%d.%d)\n", ENQ_VERSION_MAJOR,
        ENQ_VERSION_MINOR, ENQ_VERSION_PATCH, v / 10000, v / 100 % 100,
        v % 100);
}

static const struct command *find_command(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (strcmp(commands[i]->name, name) == 0)
            return commands[i];
    return NULL;
}

static int unknown_command(const struct cli *cli, const char *name)
{
    struct guess guess = {.word = name};

    for (size_t i = 0; i < N_COMMANDS; i++)
        guess_try(&guess, commands[i]->name);
    return say_usage(cli, "unknown command \"%s\"%s", name,
        guess_text(&guess, ""));
}

static int run_command_line(struct cli *cli, int argc, char **argv)
{
    int at = 1, rc = args_environment(cli);

    if (rc == DONE)
        rc = args_parse(cli, argc, argv, &at);

    if (rc == DONE && at < argc && strcmp(argv[at], "help") == 0) {
        cli->help = true;
        at++;
    }
    if (rc == DONE && at < argc) {
        cli->command = find_command(argv[at]);
        if (cli->command == NULL)
            return unknown_command(cli, argv[at]);
        at++;
        rc = args_parse(cli, argc, argv, &at);
    }
    if (rc != DONE)
        return rc;
    if (cli->help) {
        cli->command != NULL ? args_print_help(cli->command) : print_help();
        return DONE;
    }
    if (cli->version) {
        print_version();
        return DONE;
    }
    if (cli->command == NULL)
        return say_usage(cli, "give a command");
    return cli->command->act(cli);
}

/* What could not be written was not said. A reader that went away knows. */
static int flush_output(int rc)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return rc;
    say("cannot write the output: %s", strerrordesc_np(errno));
    return rc == DONE ? FAILED : rc;
}

int main(int argc, char **argv)
{
    struct cli cli = {.grace_ms = 5000, .busy_status = NOT_OBTAINED};

    return flush_output(run_command_line(&cli, argc, argv));
}
