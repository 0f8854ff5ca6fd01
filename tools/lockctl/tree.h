/*
 * tree.h - the descendants of this process, whatever group or session they
 * have moved to.
 *
 * A process that calls tree_adopt() becomes the parent of each descendant
 * whose own parent ends, so that none gets out of sight, and all of them have
 * ended when it has no child any more.
 */
#ifndef TREE_H
#define TREE_H

#include <stdbool.h>
#include <sys/types.h>

#include "signals.h"

void tree_adopt(void);

/* Called for each that has ended. */
typedef void tree_ended(void *context, pid_t pid, int status);

/* Takes note of those that have ended, without waiting. Is any child left? */
bool tree_reap(tree_ended *ended, void *context);

/* Sends a signal to each descendant but `except` (0: none); one that is started
   meanwhile may be missed. How many there were; -1 where /proc does not show
   them. */
int tree_signal(int number, pid_t except);

/* Kills all of them, and returns when they are gone. */
void tree_end(const struct signals *signals, tree_ended *ended, void *context);

#endif
