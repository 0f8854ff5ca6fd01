/*
 * look.h - api: looking at the table of this host: local_*().
 */
#ifndef API_LOOK_H
#define API_LOOK_H

#include "api/attachment.h"

/* @name, @owner NULL: all. */
int local_list(struct enq *e, const char *name, const char *owner,
    struct enq_info *out, size_t n, size_t *total);
int local_look(struct enq *e, enq_handle handle, struct enq_info *out);
int local_stat(struct enq *e, struct enq_stats *out);
int local_doctor(struct enq *e, uint32_t flags, char *report, size_t n);
int local_dump(struct enq *e, int fd);

#endif
