/*
 * object.c - see object.h.
 */
#include "object.h"

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
