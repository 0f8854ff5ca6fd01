/*
 * options.c - api: structs of callers that were built with another header.
 */
#include "api/options.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "base/why.h"
#include "enq.h"

#define ABSURD 65536

static bool all_zero(const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] != '\0')
            return false;
    return true;
}

int options_copy(void *ours, size_t size, const void *theirs, size_t given,
    const char *what)
{
    if (given < sizeof(size_t) || given > ABSURD)
        return why(-EINVAL,
            "the size of the %s is %zu: set it to sizeof the struct", what,
            given);
    if (given > size && !all_zero((const char *)theirs + size, given - size))
        return why(-E2BIG,
            "this version (%d) does not know all fields of the %s",
            enq_version(), what);
    memset(ours, 0, size);
    memcpy(ours, theirs, given < size ? given : size);
    return 0;
}
