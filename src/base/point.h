/*
 * point.h - floor 0: crash points.
 *
 * ENQ_POINT("grant.stored") stands after a store that another process can
 * see. In the crash profile a process whose environment says
 * ENQ_CRASH=grant.stored:3 kills itself with SIGKILL the third time that it
 * passes; elsewhere the macro is nothing.
 */
#ifndef BASE_POINT_H
#define BASE_POINT_H

#ifdef ENQ_POINTS
void point_pass(const char *name);
#define ENQ_POINT(name) point_pass(name)
#else
#define ENQ_POINT(name) ((void)0)
#endif

#endif
