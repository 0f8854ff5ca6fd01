/*
 * object.c - see object.h.
 */
#include "object.h"

#include <string.h>

int object_parse(const struct cli *cli, const char *spec, struct object *object)
{
    object->spec = spec;
    object->req = (struct enq_req){.size = sizeof(object->req)};
    int rc =
        enq_spec_parse(spec, &object->req, object->buf, sizeof(object->buf));
    if (rc != ENQ_OK)
        return say_why(cli, rc);
    key_of_req(&object->key, &object->req);
    return DONE;
}

int object_parse_set(const struct cli *cli, struct object *object, unsigned *n)
{
    int rc = object_parse(cli, cli->operand[0], &object[0]);

    for (*n = 1; rc == DONE && *n <= cli->n_also; ++*n)
        rc = object_parse(cli, cli->also[*n - 1], &object[*n]);
    return rc;
}

bool object_selects(const struct object *object, const struct enq_info *info)
{
    struct key key;

    key_of_info(&key, info);
    if (object == NULL || strcmp(object->key.name, key.name) != 0)
        return object == NULL;
    return object->key.n == 0 || key_overlap(&key, &object->key);
}
