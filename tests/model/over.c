/*
 * over.c - the real table through a bridge (see space.h).
 *
 * Every session is an attachment to one enq-bridge, and the model looks at the
 * segment itself. So nothing waits, and nobody dies, of which the model says
 * when: time is real. What is different by design, and allowed where it is
 * judged:
 *
 * - pid is the bridge's, and RELEASE is LEASE in the table: there nothing ends
 *   with a bridge (compare_lock);
 * - to the table all sessions are one: why a lock is gone may have been told to
 *   another session, and its own is told that it is not held (gone_answers);
 * - that a lock of its own is gone, is told to a client a moment later: until
 *   then it is valid; and from then on it remembers why (step_valid).
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "lib/mark.h"
#include "space.h"

#define READY_MS 10000

static bool make(struct space *s, bool sap, bool strict)
{
    struct enq_open_opts opts = {.size = sizeof(opts),
        .slots = 20000,
        .compat = sap ? "sap" : NULL,
        .strict = strict};
    static unsigned number;

    snprintf(s->address, sizeof(s->address), "shm:enq-%smodel-%d-%u",
        test_mark(), (int)getpid(), number++);
    return enq_open(&s->looker, s->address, &opts) == ENQ_OK;
}

static bool start_bridge(struct space *s)
{
    bool local = strcmp(s->over, "unix") == 0;

    snprintf(s->listens, sizeof(s->listens), "unix:%s/%s", test_tmp(),
        s->address + 4);
    if (!bridge_launch(&s->bridge, s->address,
            local ? s->listens : "tcp:127.0.0.1:0"))
        return false;
    if (bridge_wait(&s->bridge, READY_MS) != BRIDGE_READY) {
        printf("enq-bridge is not ready: %s\n", s->bridge.text);
        return false;
    }
    if (!local)
        snprintf(s->listens, sizeof(s->listens), "tcp://127.0.0.1:%u",
            bridge_port(&s->bridge));
    return true;
}

bool space_open_over(struct space *s, const char *over, bool sap, bool strict)
{
    memset(s, 0, sizeof(*s));
    s->over = over;
    if (!make(s, sap, strict) || !start_bridge(s))
        return false;
    s->map = s->looker->map;
    for (unsigned i = 0; i < SPACE_SESSIONS; i++)
        if (!space_begin_over(s, i))
            return false;
    return true;
}

void space_close_over(struct space *s)
{
    for (unsigned i = 0; i < SPACE_SESSIONS; i++)
        if (s->away[i] != NULL)
            space_end_over(s, i);
    if (s->bridge.pid > 0) {
        kill(s->bridge.pid, SIGTERM);
        bridge_reap(&s->bridge);
    }
    enq_close(s->looker);
    enq_unlink(s->address);
    if (strncmp(s->listens, "unix:", 5) == 0)
        unlink(s->listens + 5);
}

bool space_begin_over(struct space *s, unsigned i)
{
    const struct enq_open_opts opts = {.size = sizeof(opts), .owner = "A"};

    return enq_open(&s->away[i], s->listens, &opts) == ENQ_OK;
}

bool space_end_over(struct space *s, unsigned i)
{
    enq_close(s->away[i]);
    s->away[i] = NULL;
    return true;
}
