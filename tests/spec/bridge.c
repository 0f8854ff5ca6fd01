/*
 * bridge.c - the same scenarios with every process at the other end of a
 * socket: the scene's segment is served by an enq-bridge of its own, and the
 * processes are given its address. The runner goes on looking at the segment
 * itself.
 *
 * What a scenario tells of a process then holds for a session: it dies with its
 * connection, as the grace period is none.
 */
#include "spec.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/mark.h"

/* So that it is of the scene's kind, which a bridge cannot say. */
static bool make_segment(struct scene *scene)
{
    struct enq *e = NULL;

    if (enq_open(&e, scene->address, &scene->opts) != ENQ_OK)
        return fail(scene, "enq_open: %s", enq_why());
    enq_close(e);
    return true;
}

bool bridge_start(struct scene *scene)
{
    char listen[200] = "tcp:127.0.0.1:0";
    struct bridge *b = &scene->bridge;

    if (scene->over == NULL || b->pid != 0)
        return true;
    if (!make_segment(scene))
        return false;
    if (strcmp(scene->over, "unix") == 0) {
        snprintf(listen, sizeof(listen), "unix:%s/%s", test_tmp(),
            scene->address + 4);
        snprintf(scene->served, sizeof(scene->served), "%s?grace=0", listen);
    }
    if (!bridge_launch(b, scene->address, listen))
        return fail(scene, "enq-bridge: %s", strerror(errno));
    if (bridge_wait(b, PATIENCE_MS) != BRIDGE_READY)
        return fail(scene, "enq-bridge is not ready: %s", b->text);
    if (bridge_port(b) != 0)
        snprintf(scene->served, sizeof(scene->served),
            "tcp://127.0.0.1:%u?grace=0", bridge_port(b));
    return true;
}

/* It gives up what is its clients' before it ends. */
bool bridge_stop(struct scene *scene)
{
    int status;

    if (scene->bridge.pid == 0)
        return true;
    kill(scene->bridge.pid, SIGTERM);
    status = bridge_reap(&scene->bridge);
    return status == 0 ||
        fail(scene, "the bridge ended with status %x", (unsigned)status);
}

/* However the scene has ended. */
void bridge_end(struct scene *scene)
{
    if (scene->bridge.pid > 0) {
        kill(scene->bridge.pid, SIGKILL);
        bridge_reap(&scene->bridge);
    }
    if (strncmp(scene->served, "unix:", 5) == 0) {
        *strchr(scene->served, '?') = 0;
        unlink(scene->served + 5);
    }
}

/* Where the processes of the scene find its space. */
const char *bridge_address(const struct scene *scene)
{
    return scene->over == NULL ? scene->address : scene->served;
}
