/*
 * object.h - the OBJ[/KEY...] of a command line.
 */
#ifndef OBJECT_H
#define OBJECT_H

#include "key.h"
#include "lockctl.h"

struct object {
    const char *spec; /* as the user wrote it */
    struct enq_req req;
    struct key key;
    char buf[ENQ_NAME_BYTES + ENQ_KEY_BYTES];
};

/* Returns DONE or, said, an exit code. The object must not be moved. */
int object_parse(const struct cli *cli, const char *spec,
    struct object *object);

/* The first operand and what --also names: object[0] to object[*n - 1], of
   ENQ_SET_MAX. Returns as object_parse(). */
int object_parse_set(const struct cli *cli, struct object *object, unsigned *n);

/* "product" alone selects everything of that name, "product/Computer" what
   overlaps it. NULL: everything. */
bool object_selects(const struct object *object, const struct enq_info *info);

#endif
