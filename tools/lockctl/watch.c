/*
 * watch.c - lockctl watch: a line for each thing that happens in the table, or
 * to an object.
 *
 * libenq tells events to those whom they concern, and an onlooker holds
 * nothing. So this looks at the table, read-only and in nobody's way, again
 * and again, and tells what is different.
 */
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include "changes.h"
#include "commands.h"
#include "json.h"
#include "object.h"
#include "system.h"
#include "text.h"
#include "values.h"

#define INTERVAL_MS 200

struct watch {
    const struct cli *cli;
    const struct object *object; /* NULL: all */
    struct enq *e;
    struct rows before;
    int64_t until_ms; /* ENQ_FOREVER: any time */
};

/* Lines ------------------------------------------------------------------- */

static void put_json(const struct change_seen *seen, const char *at)
{
    json_open('{');
    json_key_string("at", at);
    json_key_string("event", seen->event);
    json_key("lock");
    rows_json_info(seen->info);
    json_close('}');
    json_end();
}

static void put_process(int32_t pid)
{
    char command[SYSTEM_COMMAND_BYTES], clean[TEXT_BYTES];

    if (pid == 0 || !system_command(pid, command)) {
        printf("  pid %d", (int)pid);
        return;
    }
    text_name(clean, sizeof(clean), command);
    printf("  pid %d %s", (int)pid, clean);
}

static void put_text(const struct change_seen *seen, const char *at)
{
    const struct enq_info *info = seen->info;
    char spec[KEY_SPEC_BYTES], clean[TEXT_BYTES];
    struct key key;

    key_of_info(&key, info);
    key_spec(spec, &key);
    printf("%s  %-8s  %c  %s", at, seen->event, row_mode(info), spec);
    text_name(clean, sizeof(clean), info->owner);
    printf("  %s", clean);
    put_process(info->pid);
    text_name(clean, sizeof(clean), info->id);
    printf("  %s\n", clean);
}

static void show(const struct change_seen *seen, const void *arg)
{
    const struct cli *cli = arg;
    char at[40];

    text_wall_clock(at, sizeof(at), system_wall_ms());
    if (cli->json)
        put_json(seen, at);
    else
        put_text(seen, at);
}

/* Looks ------------------------------------------------------------------- */

static bool keeps(const struct enq_info *info, const void *arg)
{
    return object_selects(arg, info);
}

static int look(const struct watch *w, struct rows *rows)
{
    const char *name = w->object != NULL ? w->object->req.name : NULL;
    int rc = rows_fetch(w->cli, w->e, name, rows);

    if (rc == DONE)
        rows_filter(rows, keeps, w->object);
    return rc;
}

static void show_start(const struct watch *w)
{
    for (size_t i = 0; i < w->before.n; i++) {
        const struct enq_info *info = w->before.row[i].info;
        struct change_seen seen = {row_state(info), info};
        show(&seen, w->cli);
    }
}

static int show_changes(struct watch *w)
{
    struct rows now = {.info = NULL};
    int rc = look(w, &now);

    system_forget(); /* a number may be another process's by now */
    if (rc == DONE && !changes_each(w->e, &w->before, &now, show, w->cli)) {
        say("out of memory to compare %zu locks", now.n);
        rc = FAILED;
    }
    rows_free(&w->before);
    w->before = now;
    return rc;
}

static int check_space(const struct watch *w)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    int rc = enq_stat(w->e, &stats);

    if (rc != ENQ_OK)
        return say_why(w->cli, rc);
    if (stats.unlinked == 0)
        return DONE;
    say("the space %s was removed", stats.space);
    return NO_SPACE;
}

/* Until the next look is due, or the end: then false. */
static bool pause_well(const struct watch *w)
{
    int64_t ms = w->cli->interval_ms > 0 ? w->cli->interval_ms : INTERVAL_MS;

    if (w->until_ms != ENQ_FOREVER) {
        int64_t left = w->until_ms - system_now_ms();
        if (left <= 0)
            return false;
        ms = left < ms ? left : ms;
    }
    struct timespec ts = {
        .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&ts, NULL);
    return true;
}

/* Ends with a signal, with its reader, in time, or with the space. */
static int go_on(struct watch *w)
{
    int rc = look(w, &w->before);

    if (rc == DONE)
        show_start(w);
    while (rc == DONE) {
        if (fflush(stdout) != 0)
            return FAILED;
        if (!pause_well(w))
            return TIME_OVER;
        rc = show_changes(w);
        if (rc == DONE)
            rc = check_space(w);
    }
    return rc;
}

static int watch_act(struct cli *cli)
{
    struct watch w = {.cli = cli, .until_ms = ENQ_FOREVER};
    struct object object;
    int rc = DONE;

    if (cli->n_operands > 0) {
        rc = object_parse(cli, cli->operand[0], &object);
        w.object = &object;
    }
    if (rc == DONE)
        rc = space_open(cli, ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING, &w.e);
    if (rc != DONE)
        return rc;
    if (cli->limited && cli->wait_ms != ENQ_FOREVER)
        w.until_ms = system_now_ms() + cli->wait_ms;
    rc = go_on(&w);
    rows_free(&w.before);
    enq_close(w.e);
    return rc;
}

static const struct opt watch_opts[] = {
    OPT_AS_IS('o', "owner", "OWNER", "only locks of this owner", owner),
    OPT('i', "interval", "SEC", "poll every SEC seconds (0.2)", set_interval),
    OPT('w', "wait", "SEC", "end after: 10s, 2m, forever (the default)",
        set_limit),
    OPT_END,
};

const struct command watch_command = {
    .name = "watch",
    .operands = "[OBJ[/KEY...]]",
    .what = "Prints a line for each lock that comes, goes or changes.",
    .more =
        "It begins with the locks that are held, polls every 0.2 s, and blocks "
        "nobody.\nA lock taken and released between two polls is not seen.",
    .opts = watch_opts,
    .least = 0,
    .most = 1,
    .act = watch_act,
};
