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

#endif
