/*
 * spec.h - rules: the one-string form of a request's object and key.
 */
#ifndef RULES_SPEC_H
#define RULES_SPEC_H

#include <stddef.h>

#include "enq.h"
#include "rules/key.h"

/* The spec that spec_parse() reads as this key; if n is too few, the beginning
   of it and "...". SPEC_BYTES are enough for any. */
#define SPEC_BYTES (4 * KEY_BYTES_MAX)
void spec_write(const struct key *key, char *out, size_t n);

/* As enq_spec_parse(). */
int spec_parse(const char *spec, struct enq_req *req, char *buf, size_t n);

#endif
