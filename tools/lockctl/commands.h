/*
 * commands.h - every command of lockctl.
 */
#ifndef COMMANDS_H
#define COMMANDS_H

#include "lockctl.h"

extern const struct command lock_command, unlock_command, promote_command,
    renew_command, adopt_command, break_command, run_command, list_command,
    who_command, wait_command, watch_command, graph_command, stats_command,
    doctor_command, dump_command;

#endif
