/*
 * events.c - what lockctl is told of the lock that it holds (ask_events() of
 * ask.h): the lines for people, with -v, and those for programs.
 */
#include <stdio.h>
#include <string.h>

#include "ask.h"
#include "json.h"
#include "text.h"

static const char *event_name(enum enq_event_kind kind)
{
    switch (kind) {
    case ENQ_EVENT_EXPIRING:
        return "expiring";
    case ENQ_EVENT_BLOCKING:
        return "blocking";
    case ENQ_EVENT_EXPIRED:
        return "expired";
    default:
        return "lost";
    }
}

static void put_json(const struct ask *ask, const struct enq_event *event)
{
    char owner[TEXT_BYTES];

    text_quoted(owner, sizeof(owner), event->grant.blocker.owner);

    json_open('{');
    json_key_string("event", event_name(event->kind));
    json_key_string("id", ask->id[ask->at]);
    json_key_token("token", event->grant.token);
    json_key_string("spec", ask->object[ask->at].spec);
    if (event->kind == ENQ_EVENT_EXPIRED || event->kind == ENQ_EVENT_LOST)
        json_key_string("result", enq_result_name(event->result));
    if (owner[0] != '\0')
        json_key_string("owner", owner);
    json_close('}');
    json_end();
    fflush(stdout);
}

static void say_event(const struct ask *ask, const struct enq_event *event)
{
    char owner[TEXT_BYTES];

    text_quoted(owner, sizeof(owner), event->grant.blocker.owner);
    if (event->kind == ENQ_EVENT_EXPIRING)
        say("the ttl of %s is nearly over: \"lockctl renew %s\" extends it",
            ask->object[ask->at].spec, ask->id[ask->at]);
    else if (event->kind == ENQ_EVENT_BLOCKING)
        say("%s waits for %s, which is held here (id %s)",
            owner[0] != '\0' ? owner : "somebody", ask->object[ask->at].spec,
            ask->id[ask->at]);
}

/* It is gone: why, and of a promotion which owner has it. */
static int explain_end(struct ask *ask, const struct enq_event *event)
{
    int result = event->kind == ENQ_EVENT_EXPIRED ? ENQ_EXPIRED : event->result;
    char owner[TEXT_BYTES];

    text_quoted(owner, sizeof(owner), event->grant.blocker.owner);

    if (result == ENQ_NOTHELD)
        text_format(ask->why, sizeof(ask->why), "somebody else unlocked it");
    else
        text_format(ask->why, sizeof(ask->why), "%s%s%s", enq_strerror(result),
            owner[0] != '\0' ? " of " : "", owner);
    return result;
}

static int take_event(struct ask *ask, const struct enq_event *event)
{
    if (ask->cli->json && !ask->cli->command->starts_program)
        put_json(ask, event);
    if (ask->cli->verbose)
        say_event(ask, event);
    if (event->kind == ENQ_EVENT_EXPIRED || event->kind == ENQ_EVENT_LOST)
        return explain_end(ask, event);
    return ENQ_OK;
}

/* Is it of one of the locks? Of which? */
static bool is_ours(struct ask *ask, const struct enq_event *event)
{
    for (ask->at = 0; ask->at < ask->n; ask->at++)
        if (event->grant.handle == ask->grant[ask->at].handle)
            return true;
    ask->at = 0;
    return false;
}

/* Its bridge has not answered for long enough that it may be another's by now: it
   is not ours to rely on, as if it were lost. Others end by their ttl alone. */
static bool is_suspect(struct ask *ask, const struct enq_event *event)
{
    if (event->kind != ENQ_EVENT_SESSION || event->result != ENQ_ELEASE)
        return false;
    for (ask->at = 0; ask->at < ask->n; ask->at++)
        if (enq_valid(ask->e, ask->grant[ask->at].handle) == ENQ_ELEASE) {
            snprintf(ask->why, sizeof(ask->why), "%s", enq_why());
            return true;
        }
    ask->at = 0;
    return false;
}

int ask_events(struct ask *ask)
{
    struct enq_event event;
    int rc;

    while ((rc = enq_next(ask->e, &event)) == ENQ_OK) {
        if (is_suspect(ask, &event))
            return ENQ_ELEASE;
        if (!is_ours(ask, &event))
            continue;
        rc = take_event(ask, &event);
        if (rc != ENQ_OK)
            return rc;
    }
    if (rc == ENQ_PENDING)
        return ENQ_OK;
    text_format(ask->why, sizeof(ask->why), "%s", enq_why());
    return rc;
}
