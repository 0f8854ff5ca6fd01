/*
 * point.h - base: crash points.
 *
 * A process may be killed after any store that others can see. Where it means
 * something, the moment has a name: ENQ_POINT("grant.stored"). In the crash
 * profile each store by a shm_ macro is a point as well, called after its
 * place: "transition.c:187". All points are listed in one section of the
 * program, so that a test can tell which ones it never reached.
 *
 * With ENQ_CRASH=grant.stored:3 in its environment a process kills itself with
 * SIGKILL the third time that it passes the named point there; with ENQ_STOP it
 * stops itself, until a SIGCONT, for what others may do meanwhile. A process
 * that is running already is armed by point_arm(). A test that wants all points
 * sets point_hook. In the released library there is nothing of this.
 */
#ifndef BASE_POINT_H
#define BASE_POINT_H

#ifdef ENQ_POINTS

struct point {
    const char *name;
};

extern struct point __start_enq_points[], __stop_enq_points[];

/* Called at each point that is passed, after the store; NULL at first. */
extern void (*point_hook)(const struct point *);

void point_pass(const struct point *p);

/* As ENQ_CRASH=`at` would have, from now on. Not setenv(): other threads pass
   points meanwhile, and getenv() beside it may read freed memory. Visible, as
   programs that see enq.h only are armed so, too. */
__attribute__((visibility("default"))) void point_arm(const char *at);

#define POINT_LISTED(text)                                                     \
    static struct point point_here __attribute__((section("enq_points"),       \
        aligned(sizeof(void *)))) = {text}

#define ENQ_POINT(text)                                                        \
    do {                                                                       \
        POINT_LISTED(text);                                                    \
        point_pass(&point_here);                                               \
    } while (0)

#else
#define ENQ_POINT(text) ((void)0)
#define point_arm(at) ((void)(at))
#endif

#if defined(ENQ_POINTS) && defined(ENQ_STORE_POINTS)
#define POINT_TEXT_OF(x) #x
#define POINT_TEXT(x) POINT_TEXT_OF(x)
#define STORE_POINT()                                                          \
    do {                                                                       \
        POINT_LISTED(__FILE_NAME__ ":" POINT_TEXT(__LINE__));                  \
        if (point_hook != 0)                                                   \
            point_hook(&point_here);                                           \
    } while (0)
#else
#define STORE_POINT() ((void)0)
#endif

#endif
