/*
 * look.h - remote: looking at the table of a bridge.
 */
#ifndef REMOTE_LOOK_H
#define REMOTE_LOOK_H

#include "enq.h"

struct remote;

int remote_list(struct remote *r, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total);
int remote_graph(struct remote *r, struct enq_edge *out, size_t n,
    size_t *total);
int remote_stat(struct remote *r, struct enq_stats *out);
int remote_doctor(struct remote *r, char *report, size_t n);

#endif
