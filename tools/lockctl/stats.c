/*
 * stats.c - lockctl stats: the counters of a space, once or again and again.
 */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <time.h>

#include "commands.h"
#include "json.h"
#include "text.h"
#include "values.h"

#define TITLE_EVERY 20 /* lines */

static const struct {
    const char *name;
    size_t at;
} counters[] = {
#define COUNTER(member)                                                        \
    {                                                                          \
#member, offsetof(struct enq_stats, member)                            \
    }
    COUNTER(held),
    COUNTER(waiting),
    COUNTER(orphaned),
    COUNTER(expired),
    COUNTER(slots_max),
    COUNTER(sessions),
    COUNTER(sessions_max),
    COUNTER(threads),
    COUNTER(threads_max),
    COUNTER(bytes_used),
    COUNTER(bytes_max),
    COUNTER(grants),
    COUNTER(refusals),
    COUNTER(waits),
    COUNTER(wait_grants),
    COUNTER(timeouts),
    COUNTER(cancels),
    COUNTER(releases),
    COUNTER(expiries),
    COUNTER(promotes),
    COUNTER(promotes_refused),
    COUNTER(lost),
    COUNTER(forced),
    COUNTER(overflows),
    COUNTER(owner_deaths),
    COUNTER(recoveries),
    COUNTER(contended),
#undef COUNTER
};

enum { N_COUNTERS = sizeof(counters) / sizeof(counters[0]) };

static uint64_t counter(const struct enq_stats *s, size_t i)
{
    return *(const uint64_t *)(const void *)((const char *)s + counters[i].at);
}

/* Once -------------------------------------------------------------------- */

static void print_json(const struct enq_stats *s)
{
    char created[40];

    text_wall_clock(created, sizeof(created), s->created_ms);
    json_open('{');
    json_key_string("space", s->space);
    json_key_string("uuid", s->uuid);
    json_key_string("compat", s->compat);
    json_key_number("layout", s->layout);
    json_key_bool("strict", s->strict != 0);
    json_key_string("created_at", created);
    json_key_bool("unlinked", s->unlinked != 0);
    json_key_string("overflow_owner", s->overflow_owner);
    for (size_t i = 0; i < N_COUNTERS; i++) {
        json_key(counters[i].name);
        json_unsigned(counter(s, i));
    }
    json_close('}');
    json_end();
}

static void print_line(const char *name, const char *value)
{
    char clean[TEXT_BYTES];

    text_clean(clean, sizeof(clean), value);
    printf("%-18s%s\n", name, clean);
}

static void print_text(const struct enq_stats *s)
{
    char created[40];

    text_wall_clock(created, sizeof(created), s->created_ms);
    print_line("space", s->space);
    print_line("uuid", s->uuid);
    print_line("created_at", created);
    print_line("compat", s->compat);
    print_line("fair", s->strict != 0 ? "strict" : "bypass");
    if (s->unlinked != 0)
        print_line("unlinked", "yes: its name is gone, it takes no new locks");
    for (size_t i = 0; i < N_COUNTERS; i++)
        printf("%-18s%" PRIu64 "\n", counters[i].name, counter(s, i));
    if (s->overflow_owner[0] != '\0')
        print_line("overflow_owner", s->overflow_owner);
}

/* Again and again --------------------------------------------------------- */

struct series {
    const struct cli *cli;
    struct enq_stats before;
    int n_buckets;
};

static double rate(const struct series *r, uint64_t before, uint64_t now)
{
    return (double)(now - before) * 1000.0 / (double)r->cli->interval_ms;
}

static void print_rates(struct series *r, const struct enq_stats *now)
{
    const struct enq_stats *was = &r->before;

    if (r->n_buckets++ % TITLE_EVERY == 0)
        printf("%10s %10s %12s %12s %12s %12s %12s\n", "HELD", "WAITING",
            "GRANTS/s", "RELEASES/s", "REFUSALS/s", "WAITS/s", "EXPIRIES/s");
    printf("%10" PRIu64 " %10" PRIu64 " %12.1f %12.1f %12.1f %12.1f %12.1f\n",
        now->held, now->waiting, rate(r, was->grants, now->grants),
        rate(r, was->releases, now->releases),
        rate(r, was->refusals, now->refusals), rate(r, was->waits, now->waits),
        rate(r, was->expiries, now->expiries));
}

static void pause_ms(int64_t ms)
{
    struct timespec ts = {
        .tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};

    nanosleep(&ts, NULL);
}

/* Ends with a signal, with its reader, or when the space is removed. */
static int print_series(const struct cli *cli, struct enq *e,
    const struct enq_stats *first)
{
    struct series series = {.cli = cli, .before = *first};
    struct enq_stats now = {.size = sizeof(now)};

    for (;;) {
        pause_ms(cli->interval_ms);
        int rc = enq_stat(e, &now);
        if (rc != ENQ_OK)
            return say_why(cli, rc);
        cli->json ? print_json(&now) : print_rates(&series, &now);
        if (fflush(stdout) != 0)
            return FAILED;
        if (now.unlinked != 0) {
            say("the space %s was removed", now.space);
            return NO_SPACE;
        }
        series.before = now;
    }
}

static int stats_act(struct cli *cli)
{
    struct enq_stats stats = {.size = sizeof(stats)};
    struct enq *e;
    int rc = space_open(cli, ENQ_OPEN_READONLY | ENQ_OPEN_EXISTING, &e);

    if (rc != DONE)
        return rc;
    int answer = enq_stat(e, &stats);
    if (answer != ENQ_OK)
        rc = say_why(cli, answer);
    else if (cli->interval_ms > 0)
        rc = print_series(cli, e, &stats);
    else
        cli->json ? print_json(&stats) : print_text(&stats);
    enq_close(e);
    return rc;
}

static const struct opt stats_opts[] = {
    OPT('i', "interval", "SEC", "again each SEC, as rates", set_interval),
    OPT_END,
};

const struct command stats_command = {
    .name = "stats",
    .operands = "",
    .what =
        "Prints counters since the space was created, and its current size.",
    .opts = stats_opts,
    .least = 0,
    .most = 0,
    .act = stats_act,
};
