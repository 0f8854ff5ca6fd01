/*
 * look.c - remote: looking at the table of a bridge (see look.h).
 */
#include "remote/look.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/why.h"
#include "channel/answer.h"
#include "channel/ask.h"
#include "remote/await.h"
#include "remote/client.h"
#include "remote/held.h"
#include "remote/pending.h"

struct listing {
    struct enq_info *infos; /* or */
    struct enq_edge *edges;
    size_t n, got, total;
};

static void take_list(struct remote *r, struct pending *c,
    const struct answer *a)
{
    struct listing *l = c->to;

    (void)r;
    if (a->result != ENQ_OK)
        return;
    l->total = a->total < 0 ? 0 : (size_t)a->total;
    l->got = l->edges != NULL ? answer_edges(a, l->edges, l->n)
                              : answer_rows(a, l->infos, l->n);
}

/* The bridge has a limit of its own. */
static int check(struct remote *r, const struct listing *l)
{
    if (l->got >= l->n || l->got >= l->total)
        return ENQ_OK;
    return why(-EMSGSIZE,
        "%s lists at most %zu entries (--list-max), but there are %zu", r->name,
        l->got, l->total);
}

static int ask_list(struct remote *r, struct pending *c, struct listing *l,
    size_t *total)
{
    int rc;

    text_member_number(&c->ask, WIRE_limit, (int64_t)l->n);
    c->take = take_list;
    c->to = l;
    rc = pending_ask(r, c, 0, SLACK_LOOK_MS);
    if (rc == ENQ_OK)
        rc = check(r, l);
    if (rc == ENQ_OK && total != NULL)
        *total = l->total;
    return rc;
}

int remote_list(struct remote *r, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total)
{
    struct listing l = {out, NULL, n, 0, 0};
    struct pending *c;
    int rc = ask_check("name", name);

    if (rc == 0)
        rc = ask_check("owner", owner);
    if (rc != 0)
        return rc;
    c = pending_new(OP_LIST);
    if (c == NULL)
        return -ENOMEM;
    if (name != NULL)
        text_member_text(&c->ask, WIRE_lockName, name);
    if (owner != NULL)
        text_member_text(&c->ask, WIRE_lockOwner, owner);
    return ask_list(r, c, &l, total);
}

int remote_graph(struct remote *r, struct enq_edge *out, size_t n,
    size_t *total)
{
    struct listing l = {NULL, out, n, 0, 0};
    struct pending *c = pending_new(OP_GRAPH);

    return c == NULL ? -ENOMEM : ask_list(r, c, &l, total);
}

static void take_stat(struct remote *r, struct pending *c,
    const struct answer *a)
{
    (void)r;
    if (a->result == ENQ_OK)
        answer_stats(a, c->to);
}

int remote_stat(struct remote *r, struct enq_stats *out)
{
    struct pending *c = pending_new(OP_STAT);

    if (c == NULL)
        return -ENOMEM;
    c->take = take_stat;
    c->to = out;
    return pending_ask(r, c, 0, SLACK_LOOK_MS);
}

struct examination {
    char *report;
    size_t n;
    int64_t findings;
};

static void take_report(struct remote *r, struct pending *c,
    const struct answer *a)
{
    struct examination *x = c->to;

    (void)r;
    x->findings = a->findings;
    snprintf(x->report, x->n, "%s", a->report);
}

int remote_doctor(struct remote *r, char *report, size_t n)
{
    struct examination x = {report, n, 0};
    struct pending *c = pending_new(OP_DOCTOR);
    int rc;

    if (c == NULL)
        return -ENOMEM;
    c->take = take_report;
    c->to = &x;
    rc = pending_ask(r, c, 0, SLACK_LOOK_MS);
    if (rc == ENQ_OK && x.findings > 0)
        return why((int)x.findings, "%lld findings at %s",
            (long long)x.findings, r->name);
    return rc;
}
