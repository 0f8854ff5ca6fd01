/*
 * spec.h - floor 1: the one-string form of a request's object and key.
 */
#ifndef RULES_SPEC_H
#define RULES_SPEC_H

#include <stddef.h>

#include "enq.h"

/* As enq_spec_parse(). */
int spec_parse(const char *spec, struct enq_req *req, char *buf, size_t n);

#endif
