/*
 * graph.c - lockctl graph: who waits for whom, and the cycles in it.
 *
 * enq_graph() takes part in the space (it looks at each request under the
 * words of its key), so that the attachment is no read-only one.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "cycle.h"
#include "object.h"

static int no_memory(size_t n)
{
    say("out of memory for a graph of %zu edges", n);
    return FAILED;
}

/* The graph may grow between the calls; each try leaves it more room. */
static int fetch(const struct cli *cli, struct enq *e, struct graph *graph)
{
    size_t room = 64, total = 0;

    for (;;) {
        free(graph->edges);
        graph->edges = calloc(room, sizeof(graph->edges[0]));
        if (graph->edges == NULL)
            return no_memory(room);
        int rc = enq_graph(e, graph->edges, room, &total);
        if (rc != ENQ_OK)
            return say_why(cli, rc);
        graph->n = total;
        if (total <= room)
            return DONE;
        room = total + total / 8;
    }
}

static int find_cycles(struct graph *graph)
{
    graph->cycle = calloc(graph->n + 1, sizeof(graph->cycle[0]));
    if (graph->cycle == NULL ||
        !cycles_find(graph->edges, graph->n, graph->cycle, &graph->n_cycles))
        return no_memory(graph->n);
    return DONE;
}

/* A cycle goes through many objects: it is kept as a whole. Those that are
   left are numbered anew. */
static int keep_object(struct graph *graph, const struct object *object)
{
    uint32_t *number = calloc(graph->n_cycles + 1, sizeof(number[0])), n = 0;
    size_t kept = 0;

    if (number == NULL)
        return no_memory(graph->n);
    for (size_t i = 0; i < graph->n; i++) {
        uint32_t cycle = graph->cycle[i];
        if (cycle != 0 && number[cycle] == 0 &&
            object_selects(object, &graph->edges[i].waiter))
            number[cycle] = ++n;
    }
    for (size_t i = 0; i < graph->n; i++) {
        uint32_t cycle = number[graph->cycle[i]];
        if (cycle == 0 && !object_selects(object, &graph->edges[i].waiter))
            continue;
        graph->edges[kept] = graph->edges[i];
        graph->cycle[kept++] = cycle;
    }
    free(number);
    graph->n = kept;
    graph->n_cycles = n;
    return DONE;
}

/* By cycle, owner and place. */
static int naming_order(const void *a, const void *b, void *arg)
{
    const struct graph *graph = arg;
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    if (graph->cycle[x] != graph->cycle[y])
        return graph->cycle[x] < graph->cycle[y] ? -1 : 1;
    int order =
        strcmp(graph->edges[x].waiter.owner, graph->edges[y].waiter.owner);
    return order != 0 ? order : (x > y) - (x < y);
}

static bool is_named(const struct graph *graph, size_t x, size_t y)
{
    return graph->cycle[x] == graph->cycle[y] &&
        strcmp(graph->edges[x].waiter.owner, graph->edges[y].waiter.owner) == 0;
}

/* Which edge of a cycle is the first of its owner? */
static int find_names(struct graph *graph)
{
    size_t *order = calloc(graph->n + 1, sizeof(order[0]));

    graph->names = calloc(graph->n + 1, sizeof(graph->names[0]));
    if (order == NULL || graph->names == NULL) {
        free(order);
        return no_memory(graph->n);
    }
    for (size_t i = 0; i < graph->n; i++)
        order[i] = i;
    qsort_r(order, graph->n, sizeof(order[0]), naming_order, graph);
    for (size_t i = 0; i < graph->n; i++)
        graph->names[order[i]] =
            i == 0 || !is_named(graph, order[i - 1], order[i]);
    free(order);
    return DONE;
}

void graph_each_owner(const struct graph *graph, uint32_t cycle,
    void (*see)(const char *owner, bool first))
{
    bool first = true;

    for (size_t i = 0; i < graph->n; i++) {
        if (graph->cycle[i] != cycle || !graph->names[i])
            continue;
        see(graph->edges[i].waiter.owner, first);
        first = false;
    }
}

static int show(const struct cli *cli, const struct graph *graph)
{
    int rc = DONE;

    if (cli->json)
        graph_json(graph);
    else if (cli->dot)
        rc = graph_dot(graph);
    else
        graph_text(graph);
    if (rc != DONE)
        return rc;
    return cli->fail && graph->n_cycles > 0 ? DEADLOCKED : DONE;
}

static int graph_act(struct cli *cli)
{
    struct graph graph = {.edges = NULL};
    struct object object;
    struct enq *e;
    int rc = DONE;

    if (cli->dot && cli->json)
        return say_usage(cli, "give --dot or --json, not both");
    if (cli->name != NULL)
        rc = object_parse(cli, cli->name, &object);
    if (rc == DONE)
        rc = space_open(cli, ENQ_OPEN_EXISTING, &e);
    if (rc != DONE)
        return rc;
    rc = fetch(cli, e, &graph);
    if (rc == DONE)
        rc = find_cycles(&graph);
    if (rc == DONE && cli->name != NULL)
        rc = keep_object(&graph, &object);
    if (rc == DONE)
        rc = find_names(&graph);
    if (rc == DONE)
        rc = show(cli, &graph);
    free(graph.names);
    free(graph.cycle);
    free(graph.edges);
    enq_close(e);
    return rc;
}

static const struct opt graph_opts[] = {
    OPT_AS_IS('n', "name", "OBJ[/KEY...]",
        "only its waiters, and their deadlocks", name),
    OPT_AS_IS(0, "dot", NULL, "print it for Graphviz, dot(1)", dot),
    OPT_AS_IS(0, "fail", NULL, "exit code 76 if there is a deadlock", fail),
    OPT_END,
};

const struct command graph_command = {
    .name = "graph",
    .operands = "",
    .what = "Prints who waits for whom; deadlocks are marked.",
    .more = "Owners that wait for each other are a deadlock: it is printed "
            "last, and each of\nits lines is marked with *.",
    .opts = graph_opts,
    .least = 0,
    .most = 0,
    .act = graph_act,
};
