/*
 * spec.c - floor 1: "product/Computer/@" (see enq_lock_spec). Pure.
 */
#include "rules/spec.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/why.h"

struct spec {
    const char *at; /* what is left of the string */
    char *out;      /* where the next part goes */
    char *end;
};

/* Copies one part up to the next bare '/' or the end. *escaped: some byte of
   it was escaped, so that an "@" is meant literally. */
static int take_part(struct spec *s, const char **part, bool *escaped)
{
    *part = s->out;
    *escaped = false;
    for (; *s->at != '\0' && *s->at != '/'; s->at++) {
        if (*s->at == '\\') {
            *escaped = true;
            if (*++s->at == '\0')
                return why(-EINVAL, "the spec ends in a lone backslash");
        }
        if (s->out + 1 >= s->end)
            return why(-ENAMETOOLONG, "the spec is too long");
        *s->out++ = *s->at;
    }
    *s->out++ = '\0';
    return 0;
}

static int take_fields(struct spec *s, struct enq_req *req)
{
    bool escaped;
    unsigned i = 0;

    while (*s->at == '/') {
        s->at++;
        if (i == ENQ_KEY_FIELDS_MAX)
            return why(-EINVAL, "the spec has more than %d key fields",
                ENQ_KEY_FIELDS_MAX);
        if (s->out >= s->end)
            return why(-ENAMETOOLONG, "the spec is too long");
        int rc = take_part(s, &req->key[i], &escaped);
        if (rc != 0)
            return rc;
        if (escaped)
            req->literal |= 1u << i;
        i++;
    }
    return 0;
}

int spec_parse(const char *spec, struct enq_req *req, char *buf, size_t n)
{
    struct spec s = {.at = spec, .out = buf};
    bool escaped;
    int rc;

    if (spec == NULL || buf == NULL || n < 1)
        return why(-EINVAL, "no spec, or no room for it");
    s.end = buf + n;
    memset(req->key, 0, sizeof(req->key));
    req->literal = 0;
    rc = take_part(&s, &req->name, &escaped);
    if (rc == 0 && req->name[0] == '\0')
        rc = why(-EINVAL, "the spec \"%.64s\" has no object name", spec);
    return rc != 0 ? rc : take_fields(&s, req);
}
