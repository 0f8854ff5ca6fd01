/*
 * system.h - what lockctl asks the system: names of processes, clocks.
 */
#ifndef SYSTEM_H
#define SYSTEM_H

#include <stdbool.h>
#include <stdint.h>

#define SYSTEM_COMMAND_BYTES 72 /* of the kernel's own: 64 */

/* The name of a living process. It names itself (prctl(2)), so that its name
   is no safer to print than an owner's. */
bool system_command(int32_t pid, char out[SYSTEM_COMMAND_BYTES]);

/* From now on numbers of processes are another host's: none has a name here. */
void system_is_elsewhere(void);

/* Names are remembered, for a long list names the same few again and again;
   a number that was looked up long ago may be another process's. */
void system_forget(void);

/* Since some start, never set back. */
int64_t system_now_ms(void);

/* Since 1970. */
int64_t system_wall_ms(void);

#endif
