/*
 * change.c - lockctl unlock, promote, renew, adopt, break: what is done to a
 * lock that is there.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "json.h"
#include "rows.h"
#include "text.h"
#include "values.h"

/* They all name their lock by its id. */
struct change {
    const struct cli *cli;
    struct enq *e;
    const char *id;
    enq_handle handle; /* 0 where only the id is used */
    struct enq_grant grant;
};

static int change_open(struct cli *cli, struct change *c)
{
    *c = (struct change){.cli = cli, .id = cli->operand[0]};
    return space_open(cli, ENQ_OPEN_EXISTING, &c->e);
}

/* libenq knows a handle here: the user's name for the lock goes before. */
static int say_change(const struct change *c, int rc)
{
    char why[TEXT_BYTES];
    struct refusal refusal = {
        .result = rc,
        .why = why,
        .blocker = &c->grant.blocker,
    };

    text_format(why, sizeof(why), "%s%s%s", c->handle != 0 ? c->id : "",
        c->handle != 0 ? ": " : "", enq_why());
    return say_refusal(c->cli, &refusal);
}

/* What changed, for programs; people see a new token, or nothing. */
static void print_change(const struct change *c)
{
    if (c->cli->json) {
        json_open('{');
        json_key_string("result", enq_result_name(ENQ_OK));
        json_key_string("id", c->id);
        if (c->grant.token != 0)
            json_key_token("token", c->grant.token);
        json_close('}');
        json_end();
    } else if (c->grant.token != 0) {
        printf("%s %" PRIu64 "\n", c->id, c->grant.token);
    }
    if (c->cli->verbose)
        say("%s: %s done", c->id, c->cli->command->name);
}

static int change_end(struct change *c, int rc)
{
    int status = DONE;

    if (rc == ENQ_OK)
        print_change(c);
    else
        status = say_change(c, rc);
    enq_close(c->e);
    return status;
}

/* By handle --------------------------------------------------------------- */

typedef int change_fn(struct change *c);

static int change_by_handle(struct cli *cli, change_fn *fn)
{
    struct change c;
    int status = change_open(cli, &c);

    if (status != DONE)
        return status;
    int rc = enq_find(c.e, c.id, &c.handle);
    return change_end(&c, rc == ENQ_OK ? fn(&c) : rc);
}

static int unlock_it(struct change *c)
{
    return enq_unlock(c->e, c->handle, c->cli->token);
}

static int unlock_act(struct cli *cli)
{
    return change_by_handle(cli, unlock_it);
}

static const struct opt unlock_opts[] = {
    OPT(0, "token", "N", "only if the lock still has this token", set_token),
    OPT_END,
};

const struct command unlock_command = {
    .name = "unlock",
    .operands = "ID",
    .what = "Releases a lock, or cancels a waiting request.",
    .opts = unlock_opts,
    .least = 1,
    .most = 1,
    .act = unlock_act,
};

static int promote_it(struct change *c)
{
    return enq_promote(c->e, c->handle, c->cli->token, &c->grant);
}

static int promote_act(struct cli *cli)
{
    return change_by_handle(cli, promote_it);
}

const struct command promote_command = {
    .name = "promote",
    .operands = "ID",
    .what = "Turns an optimistic lock into an exclusive one; prints its token.",
    .more = "All other optimistic locks that overlap it are lost.",
    .opts = unlock_opts,
    .least = 1,
    .most = 1,
    .act = promote_act,
};

static int renew_it(struct change *c)
{
    return enq_renew(c->e, c->handle, c->cli->token, c->cli->ttl_ms);
}

static int renew_act(struct cli *cli)
{
    return change_by_handle(cli, renew_it);
}

static const struct opt renew_opts[] = {
    OPT('t', "ttl", "TTL", "a new ttl: 90, 10s, 15m, 2h, none", set_ttl),
    OPT(0, "token", "N", "only if the lock still has this token", set_token),
    OPT_END,
};

const struct command renew_command = {
    .name = "renew",
    .operands = "ID",
    .what = "Restarts the ttl of a lock.",
    .opts = renew_opts,
    .least = 1,
    .most = 1,
    .act = renew_act,
};

/* By id ------------------------------------------------------------------- */

static int adopt_act(struct cli *cli)
{
    struct change c;
    int status = change_open(cli, &c);

    if (status != DONE)
        return status;
    return change_end(&c, enq_adopt(c.e, c.id, &c.grant));
}

static const struct opt no_opts[] = {OPT_END};

const struct command adopt_command = {
    .name = "adopt",
    .operands = "ID",
    .what = "Takes over a kept lock whose process is gone; prints its token.",
    .more = "The old token is void from then on, and the ttl restarts.",
    .opts = no_opts,
    .least = 1,
    .most = 1,
    .act = adopt_act,
};

/* For people: a program that asked for JSON has the id, and can list it. */
static int show_victim(const struct cli *cli, const struct rows *rows,
    enq_handle handle)
{
    const struct row *row = rows_find(rows, handle);

    if (row != NULL && !cli->json) {
        struct row copy = {.info = row->info};
        struct row *top = &copy;
        table_print(cli, &top, 1);
        fflush(stdout);
    }
    return say_usage(cli,
        "this would break %s for its holder: confirm it with --confirm=%s",
        cli->operand[0], cli->operand[0]);
}

static int break_unconfirmed(const struct cli *cli, struct change *c)
{
    struct rows rows = {.info = NULL};
    int rc = enq_find(c->e, c->id, &c->handle);

    if (rc != ENQ_OK)
        return say_change(c, rc);
    int status = rows_fetch(cli, c->e, NULL, &rows);
    if (status == DONE)
        status = show_victim(cli, &rows, c->handle);
    rows_free(&rows);
    return status;
}

/* The id said twice, as a slip of the hand breaks somebody's work. */
static int break_act(struct cli *cli)
{
    struct change c;
    int status = change_open(cli, &c);

    if (status != DONE)
        return status;
    if (cli->confirm == NULL || strcmp(cli->confirm, c.id) != 0) {
        status = break_unconfirmed(cli, &c);
        enq_close(c.e);
        return status;
    }
    return change_end(&c, enq_break(c.e, c.id));
}

static const struct opt break_opts[] = {
    OPT_AS_IS(0, "confirm", "ID", "the same id again, as confirmation",
        confirm),
    OPT_END,
};

const struct command break_command = {
    .name = "break",
    .operands = "ID",
    .what = "Removes a lock or a waiting request in any state.",
    .more = "Without --confirm=ID it only shows what it would remove.",
    .opts = break_opts,
    .least = 1,
    .most = 1,
    .act = break_act,
};
