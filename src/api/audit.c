/*
 * audit.c - api: debug builds look at the whole table after calls.
 */
#include "api/audit.h"

#ifdef ENQ_DEBUG
#include <stdio.h>
#include <stdlib.h>

#include "recovery/check.h"

#define EVERY 16

/* Passes the result of the audited call through. */
int audit(struct enq *e, struct thread *t, int rc)
{
    static __thread unsigned calls;
    char text[4096] = "";
    struct check_report report = {text, sizeof(text), 0, 0};

    if (rc < 0 || ++calls % EVERY != 0)
        return rc;
    if (check_table(e->map, t, &report) == 0 && report.findings > 0) {
        fprintf(stderr, "libenq: %u findings after a call:\n%s",
            report.findings, text);
        abort();
    }
    return rc;
}
#endif
