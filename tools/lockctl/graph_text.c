/*
 * graph_text.c - the graph for people: the waiters, below each its blockers.
 */
#include <stdio.h>
#include <string.h>

#include "graph.h"
#include "key.h"
#include "rows.h"
#include "system.h"
#include "text.h"

#define BLOCKERS_SHOWN 5 /* of a request; those of a cycle always */

static void put_owner(const char *owner)
{
    char clean[TEXT_BYTES];

    text_quoted(clean, sizeof(clean), owner);
    fputs(owner[0] != '\0' ? clean : "an unnamed owner", stdout);
}

static void put_process(int32_t pid)
{
    char command[SYSTEM_COMMAND_BYTES], clean[TEXT_BYTES] = "";

    if (pid == 0) {
        printf("process gone");
        return;
    }
    if (system_command(pid, command))
        text_quoted(clean, sizeof(clean), command);
    printf("pid %d%s%s", (int)pid, clean[0] != '\0' ? " " : "", clean);
}

/* "* A has it: E order/4711, for 2m10s (pid 4711 worker)" */
static void put_line(const char *mark, const struct enq_info *info,
    const char *verb)
{
    char spec[KEY_SPEC_BYTES], age[32];
    struct key key;

    key_of_info(&key, info);
    key_spec(spec, &key);
    text_duration(age, sizeof(age), info->age_ms);
    fputs(mark, stdout);
    put_owner(info->owner);
    printf(" %s %c %s, for %s (", verb, row_mode(info), spec, age);
    put_process(info->pid);
    printf(")\n");
}

static void put_blocker(const struct graph *graph, size_t i)
{
    const struct enq_info *blocker = &graph->edges[i].blocker;

    put_line(graph->cycle[i] != 0 ? "  * " : "    ", blocker,
        blocker->waiting ? "waits ahead:" : "has it:");
}

/* The edges of one request, from `begin` on; where they end. */
static size_t put_request(const struct graph *graph, size_t begin)
{
    const struct enq_edge *edges = graph->edges;
    bool in_cycle = false;
    size_t end = begin, n_plain = 0;

    for (; end < graph->n &&
         edges[end].waiter.handle == edges[begin].waiter.handle;
         end++)
        in_cycle = in_cycle || graph->cycle[end] != 0;
    put_line(in_cycle ? "* " : "  ", &edges[begin].waiter, "waits for");
    for (size_t i = begin; i < end; i++)
        if (graph->cycle[i] != 0 || n_plain++ < BLOCKERS_SHOWN)
            put_blocker(graph, i);
    if (n_plain > BLOCKERS_SHOWN)
        printf("    and %zu more in its way\n", n_plain - BLOCKERS_SHOWN);
    return end;
}

static void put_cycle_owner(const char *owner, bool first)
{
    if (!first)
        printf(", ");
    put_owner(owner);
}

void graph_text(const struct graph *graph)
{
    if (graph->n == 0)
        printf("nobody waits\n");
    for (size_t i = 0; i < graph->n;)
        i = put_request(graph, i);
    for (uint32_t cycle = 1; cycle <= graph->n_cycles; cycle++) {
        printf("deadlock (*): these wait for each other in a cycle: ");
        graph_each_owner(graph, cycle, put_cycle_owner);
        printf("\n");
    }
}
