/*
 * tree.h - a directory of a test's own is removed, with all that is in it.
 */
#ifndef LIB_TREE_H
#define LIB_TREE_H

#include <ftw.h>
#include <stdio.h>

static inline int tree_remove_one(const char *path, const struct stat *st,
    int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    remove(path);
    return 0;
}

/* Not what is mounted in it. */
static inline void tree_remove(const char *directory)
{
    nftw(directory, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

#endif
