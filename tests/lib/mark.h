/*
 * mark.h - what the names of spaces and files begin with, behind "enq-": those
 * of one run of tests/run are told from everybody else's by it.
 */
#ifndef LIB_MARK_H
#define LIB_MARK_H

#include <stdlib.h>

static inline const char *test_mark(void)
{
    const char *mark = getenv("ENQ_TEST_MARK");

    return mark != NULL ? mark : "";
}

/* Where files are made. Not /tmp itself: a process with a PID namespace of its
   own has the PIDs, and so the names, of others that have one. */
static inline const char *test_tmp(void)
{
    const char *dir = getenv("TMPDIR");

    return dir != NULL ? dir : "/tmp";
}

#endif
