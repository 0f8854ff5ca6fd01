/*
 * spec.c - api: requests that are written as a text, "order/4711".
 */
#include "rules/spec.h"

#include "api/acquisition.h"
#include "rules/key.h"
#include "rules/mode.h"

ENQ_API int enq_spec_parse(const char *spec, struct enq_req *req, char *buf,
    size_t n)
{
    if (req == NULL)
        return why(-EINVAL, "the request is NULL");
    return spec_parse(spec, req, buf, n);
}

ENQ_API int enq_lock_spec(struct enq *e, const char *spec, const char *mode,
    const char *owner, int64_t wait_ms, int64_t ttl_ms, struct enq_grant *grant)
{
    char buf[KEY_BYTES_MAX + ENQ_KEY_FIELDS_MAX];
    struct enq_req req = {.size = sizeof(req),
        .owner = owner,
        .wait_ms = wait_ms,
        .ttl_ms = ttl_ms};
    int rc = spec_parse(spec, &req, buf, sizeof(buf));

    if (rc == 0)
        req.mode = mode == NULL ? 0 : mode_from_letter(mode);
    if (rc == 0 && req.mode == 0)
        rc = why(-EINVAL, "unknown mode \"%.64s%s\": S, E, X or O",
            WHY_CUT(mode == NULL ? "" : mode));
    return rc == 0 ? enq_lock(e, &req, grant) : acquisition_fault(rc, grant, 1);
}
