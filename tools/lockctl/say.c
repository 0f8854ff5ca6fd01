/*
 * say.c - messages and exit codes: the one place where a result of libenq
 * becomes a line and a number.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lockctl.h"
#include "system.h"
#include "text.h"

#define LINE_BYTES 4096

static const struct {
    int result;
    enum status status;
} statuses[] = {
    {ENQ_OK, DONE},
    {ENQ_BUSY, NOT_OBTAINED},
    {ENQ_TIMEDOUT, NOT_OBTAINED},
    {ENQ_EXISTS, NOT_OBTAINED},
    {ENQ_REFUSED, NOT_OBTAINED},
    {ENQ_DEADLOCK, DEADLOCKED},
    {ENQ_CANCELLED, NOT_OBTAINED},
    {ENQ_NOTHELD, LOST},
    {ENQ_EXPIRED, LOST},
    {ENQ_LOST, LOST},
    {ENQ_FORCED, LOST},
    {ENQ_OWNERDIED, LOST},
    {-EINVAL, USAGE},
    {-ENAMETOOLONG, USAGE},
    {-EOPNOTSUPP, USAGE},
    {-ENOENT, NO_SPACE},
    {ENQ_EGONE, NO_SPACE},
    {ENQ_ELEASE, NO_SPACE},
    {ENQ_EDIFFERS, USAGE},
    {ENQ_ENAMESPACE, NO_SPACE},
    {-ECONNREFUSED, NO_SPACE}, /* of a bridge, to the end */
    {-ECONNRESET, NO_SPACE},
    {-EHOSTUNREACH, NO_SPACE},
    {-ENETUNREACH, NO_SPACE},
    {-ENOTCONN, NO_SPACE},
    {-ETIMEDOUT, NO_SPACE},
    {-EPROTO, NO_SPACE},
    {ENQ_ECORRUPT, DAMAGED},
    {ENQ_EVERSION, DAMAGED},
    {-EACCES, NO_PERMISSION},
    {-EPERM, NO_PERMISSION},
    {-EROFS, NO_PERMISSION},
};

int status_of(int result)
{
    for (size_t i = 0; i < sizeof(statuses) / sizeof(statuses[0]); i++)
        if (statuses[i].result == result)
            return statuses[i].status;
    return FAILED;
}

/* Names in a message come from anybody: none may act upon the terminal. */
static void put_line(const char *text)
{
    char clean[4 * LINE_BYTES];

    text_clean(clean, sizeof(clean), text);
    fprintf(stderr, "lockctl: %s\n", clean);
}

void say(const char *format, ...)
{
    char text[LINE_BYTES];
    va_list args;

    va_start(args, format);
    text_vformat(text, sizeof(text), format, args);
    va_end(args);
    put_line(text);
}

int say_usage(const struct cli *cli, const char *format, ...)
{
    const char *name = cli->command != NULL ? cli->command->name : NULL;
    char text[LINE_BYTES];
    va_list args;

    va_start(args, format);
    text_vformat(text, sizeof(text), format, args);
    va_end(args);
    say("%s%s%s (see lockctl %s%s--help)", name ? name : "", name ? ": " : "",
        text, name ? name : "", name ? " " : "");
    return USAGE;
}

/* Blockers ---------------------------------------------------------------- */

static char mode_letter(uint8_t mode)
{
    return mode >= ENQ_MODE_S && mode <= ENQ_MODE_O ? "?SEXO"[mode] : '?';
}

static void holder_process(char *out, size_t n, int32_t pid, bool dying)
{
    char command[SYSTEM_COMMAND_BYTES], name[TEXT_BYTES];

    if (dying) {
        text_format(out, n, "pid %d killed but not ended", (int)pid);
    } else if (pid == 0) {
        snprintf(out, n, "process gone");
    } else if (system_command(pid, command)) {
        text_quoted(name, sizeof(name), command);
        text_format(out, n, "pid %d %s", (int)pid, name);
    } else {
        snprintf(out, n, "pid %d", (int)pid);
    }
}

static void holder_ttl(char *out, size_t n, const struct enq_blocker *blocker)
{
    char left[32];

    text_time(left, sizeof(left), blocker->ttl_left_ms);
    if (blocker->ttl_left_ms == ENQ_FOREVER)
        snprintf(out, n, ", no ttl");
    else
        snprintf(out, n, ", ttl %s left", left);
}

void say_blocker_text(char *out, size_t n, const struct enq_blocker *blocker)
{
    char age[32], process[512], ttl[48] = "", owner[TEXT_BYTES];

    text_time(age, sizeof(age), blocker->age_ms);
    holder_process(process, sizeof(process), blocker->pid, blocker->dying != 0);
    if (!blocker->waiting)
        holder_ttl(ttl, sizeof(ttl), blocker);
    text_quoted(owner, sizeof(owner), blocker->owner);
    text_format(out, n, "%s by %s (mode %c, %s, %s%s)",
        blocker->waiting ? "awaited" : "locked",
        owner[0] != '\0' ? owner : "an unnamed owner",
        mode_letter(blocker->mode), age, process, ttl);
}

/* Refusals ---------------------------------------------------------------- */

static void put_json_blocker(const struct enq_blocker *blocker)
{
    char mode[] = {mode_letter(blocker->mode), '\0'};

    json_key("blocker");
    json_open('{');
    json_key_string("owner", blocker->owner);
    json_key_string("id", blocker->id);
    json_key_number("pid", blocker->pid);
    json_key_string("mode", mode);
    json_key_string("state",
        blocker->waiting     ? "waiting"
            : blocker->dying ? "dying"
                             : "held");
    json_key_number("age_ms", blocker->age_ms);
    json_key_ttl("ttl_left_ms", blocker->ttl_left_ms);
    json_key_number("queue", blocker->queue);
    json_close('}');
}

/* enq.h sets a blocker on these, and on the last two not always. */
static bool names_blocker(const struct refusal *refusal)
{
    switch (refusal->result) {
    case ENQ_BUSY:
    case ENQ_TIMEDOUT:
    case ENQ_EXISTS:
    case ENQ_REFUSED:
    case ENQ_LOST:
        return refusal->blocker != NULL && refusal->blocker->id[0] != '\0';
    default:
        return false;
    }
}

static void put_json(const struct refusal *refusal, const char *message)
{
    json_open('{');
    json_key_string("result", enq_result_name(refusal->result));
    json_key_string("message", message);
    if (names_blocker(refusal))
        put_json_blocker(refusal->blocker);
    json_close('}');
    json_end();
}

static void blocked_message(char *out, size_t n, const struct refusal *refusal)
{
    const struct enq_blocker *blocker = refusal->blocker;
    char holder[LINE_BYTES], queue[48] = "";

    say_blocker_text(holder, sizeof(holder), blocker);
    if (blocker->queue > 0)
        snprintf(queue, sizeof(queue), "; %u waiting", blocker->queue);
    text_format(out, n, "%s%s is %s%s",
        refusal->result == ENQ_TIMEDOUT ? "timed out: " : "", refusal->object,
        holder, queue);
}

/* The cycle is libenq's to tell; its reader wants to know what next. */
static void deadlock_message(char *out, size_t n, const struct refusal *refusal)
{
    text_format(out, n,
        "%s; unlock what others wait for, then ask again (\"lockctl graph\" "
        "shows who waits)",
        refusal->why);
}

int say_refusal(const struct cli *cli, const struct refusal *refusal)
{
    bool program_prints = cli->command->starts_program;
    char message[LINE_BYTES];

    if (names_blocker(refusal) && refusal->object != NULL)
        blocked_message(message, sizeof(message), refusal);
    else if (refusal->result == ENQ_DEADLOCK)
        deadlock_message(message, sizeof(message), refusal);
    else
        text_format(message, sizeof(message), "%s", refusal->why);
    if (!cli->quiet || refusal->result < 0)
        put_line(message);
    if (cli->json && !program_prints)
        put_json(refusal, message);
    return status_of(refusal->result);
}

int say_why(const struct cli *cli, int result)
{
    struct refusal refusal = {.result = result, .why = enq_why()};

    return say_refusal(cli, &refusal);
}

/* The space --------------------------------------------------------------- */

static int say_no_space(const struct cli *cli)
{
    char why[LINE_BYTES];
    struct refusal refusal = {.result = -ENOENT, .why = why};

    text_format(why, sizeof(why),
        "%s: the first \"lockctl lock\", \"lockctl run\" or enq_open() makes "
        "it",
        enq_why());
    return say_refusal(cli, &refusal);
}

static bool space_begins(const struct cli *cli, const char *with)
{
    const char *space = cli->space != NULL ? cli->space : getenv("ENQ_SPACE");

    return space != NULL && strncmp(space, with, strlen(with)) == 0;
}

int space_open(const struct cli *cli, uint32_t flags, struct enq **out)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .flags = flags};
    int rc = enq_open(out, cli->space, &opts);

    if (space_begins(cli, "tcp:"))
        system_is_elsewhere();
    if (rc == ENQ_OK)
        return DONE;
    /* A socket that is not there: no lock brings it into being. */
    if (rc == -ENOENT && (flags & ENQ_OPEN_EXISTING) != 0 &&
        !space_begins(cli, "unix:"))
        return say_no_space(cli);
    return say_why(cli, rc);
}
