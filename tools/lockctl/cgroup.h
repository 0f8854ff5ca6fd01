/*
 * cgroup.h - what control groups let this process have.
 */
#ifndef CGROUP_H
#define CGROUP_H

#include <stdbool.h>
#include <stdint.h>

struct cgroup_memory {
    char path[512]; /* below the mount point */
    uint64_t limit, left;
};

/* Of this process's own group and all above it, the one whose memory limit is
   the nearest; what could be had back from files counts as left. False: there
   is no limit, or none that can be seen. */
bool cgroup_memory(struct cgroup_memory *out);

#endif
