/*
 * graph_forms.c - the graph for programs: JSON, and Graphviz's dot.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "json.h"
#include "key.h"
#include "rows.h"
#include "text.h"

/* JSON -------------------------------------------------------------------- */

static void json_owner(const char *owner, bool first)
{
    (void)first;
    json_string(owner);
}

static void json_cycles(const struct graph *graph)
{
    json_key("cycles");
    json_open('[');
    for (uint32_t cycle = 1; cycle <= graph->n_cycles; cycle++) {
        json_open('{');
        json_key_number("cycle", cycle);
        json_key("owners");
        json_open('[');
        graph_each_owner(graph, cycle, json_owner);
        json_close(']');
        json_close('}');
    }
    json_close(']');
}

static void json_edge(const struct enq_edge *edge, uint32_t cycle)
{
    json_break();
    json_open('{');
    json_key_string("because", edge->blocker.waiting ? "before" : "has");
    json_key("cycle");
    if (cycle != 0)
        json_number(cycle);
    else
        json_null();
    json_key("waiter");
    rows_json_info(&edge->waiter);
    json_key("blocker");
    rows_json_info(&edge->blocker);
    json_close('}');
}

void graph_json(const struct graph *graph)
{
    json_open('{');
    json_key_bool("deadlock", graph->n_cycles > 0);
    json_cycles(graph);
    json_key("edges");
    json_open('[');
    for (size_t i = 0; i < graph->n; i++)
        json_edge(&graph->edges[i], graph->cycle[i]);
    json_close(']');
    json_close('}');
    json_end();
}

/* dot --------------------------------------------------------------------- */

/* One end of an edge: an owner's name makes it the same node everywhere, a
   nobody is one for each entry. */
struct end {
    const struct enq_info *info;
    uint32_t cycle;
    size_t at; /* edge * 2, + 1 the blocker's */
};

static int end_order(const void *a, const void *b)
{
    const struct end *x = a, *y = b;
    int order = strcmp(x->info->owner, y->info->owner);

    if (order == 0 && x->info->owner[0] == '\0')
        order = (x->info->handle > y->info->handle) -
            (x->info->handle < y->info->handle);
    return order;
}

/* Within a label dot reads entities as well as backslashes. */
static void dot_text(const char *clean)
{
    for (const char *c = clean; *c != '\0'; c++) {
        if (*c == '&')
            fputs("&amp;", stdout);
        else if (*c == '"' || *c == '\\')
            printf("\\%c", *c);
        else
            putchar(*c);
    }
}

static void dot_node(size_t number, const char *owner, bool in_cycle)
{
    char clean[TEXT_BYTES];

    text_quoted(clean, sizeof(clean), owner);
    printf("  n%zu [label=\"", number);
    dot_text(owner[0] != '\0' ? clean : "an unnamed owner");
    printf("\"%s];\n", in_cycle ? ", color=red, penwidth=2" : "");
}

/* Prints the nodes; number[] tells that of each end. */
static void dot_nodes(struct end *ends, size_t n, size_t *number)
{
    size_t n_nodes = 0;

    qsort(ends, n, sizeof(ends[0]), end_order);
    for (size_t i = 0; i < n; n_nodes++) {
        const struct end *first = &ends[i];
        bool in_cycle = false;
        for (; i < n && end_order(first, &ends[i]) == 0; i++) {
            number[ends[i].at] = n_nodes;
            in_cycle = in_cycle || ends[i].cycle != 0;
        }
        dot_node(n_nodes, first->info->owner, in_cycle);
    }
}

static void dot_edge(const struct enq_edge *edge, uint32_t cycle,
    const size_t *number)
{
    char spec[KEY_SPEC_BYTES], age[32];
    struct key key;

    key_of_info(&key, &edge->waiter);
    key_spec(spec, &key);
    printf("  n%zu -> n%zu [label=\"%c ", number[0], number[1],
        row_mode(&edge->waiter));
    dot_text(spec);
    text_duration(age, sizeof(age), edge->waiter.age_ms);
    printf("\\nfor %s", age);
    key_of_info(&key, &edge->blocker);
    key_spec(spec, &key);
    printf("\\n%s %c ",
        edge->blocker.waiting ? "behind" : "held:", row_mode(&edge->blocker));
    dot_text(spec);
    printf("\"%s%s];\n", edge->blocker.waiting ? ", style=dashed" : "",
        cycle != 0 ? ", color=red, penwidth=2" : "");
}

static bool dot_body(const struct graph *graph)
{
    struct end *ends = calloc(2 * graph->n + 1, sizeof(ends[0]));
    size_t *number = calloc(2 * graph->n + 1, sizeof(number[0]));
    bool ok = ends != NULL && number != NULL;

    for (size_t i = 0; ok && i < graph->n; i++) {
        const struct enq_edge *edge = &graph->edges[i];
        uint32_t cycle = graph->cycle[i];
        ends[2 * i] = (struct end){&edge->waiter, cycle, 2 * i};
        ends[2 * i + 1] = (struct end){&edge->blocker, cycle, 2 * i + 1};
    }
    if (ok)
        dot_nodes(ends, 2 * graph->n, number);
    for (size_t i = 0; ok && i < graph->n; i++)
        dot_edge(&graph->edges[i], graph->cycle[i], &number[2 * i]);
    free(number);
    free(ends);
    return ok;
}

static void dot_cycle_owner(const char *owner, bool first)
{
    if (!first)
        printf(", ");
    dot_text(owner);
}

/* The title says what red means. */
static void dot_title(const struct graph *graph)
{
    printf("  label=\"");
    for (uint32_t cycle = 1; cycle <= graph->n_cycles; cycle++) {
        printf("deadlock (red): a cycle of ");
        graph_each_owner(graph, cycle, dot_cycle_owner);
        printf("\\n");
    }
    printf("%s\";\n", graph->n == 0 ? "nobody waits" : "");
}

int graph_dot(const struct graph *graph)
{
    printf("digraph lockctl {\n");
    dot_title(graph);
    bool ok = dot_body(graph);
    printf("}\n");
    if (ok)
        return DONE;
    say("out of memory for a graph of %zu edges", graph->n);
    return FAILED;
}
