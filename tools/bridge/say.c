/*
 * say.c - what an operator is told (see say.h).
 */
#include "say.h"

#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

bool say_verbose;

/* In one write, so that lines of several processes do not mix. */
static void say_line(const char *format, va_list args)
{
    char line[1024];
    int n = snprintf(line, sizeof(line), "enq-bridge: ");

    n += vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, args);
    if (n > (int)sizeof(line) - 2)
        n = (int)sizeof(line) - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, (size_t)n) < 0)
        return; /* nobody listens */
}

void say(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
}

void say_more(const char *format, ...)
{
    va_list args;

    if (!say_verbose)
        return;
    va_start(args, format);
    say_line(format, args);
    va_end(args);
}

void say_die(int status, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    say_line(format, args);
    va_end(args);
    exit(status);
}

/* A datagram to $NOTIFY_SOCKET; '@' stands for the zero of an abstract name. */
void say_notify(const char *state)
{
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path == NULL ? 0 : strlen(path);
    int fd;

    if (n == 0 || n >= sizeof(to.sun_path))
        return;
    memcpy(to.sun_path, path, n);
    if (path[0] == '@')
        to.sun_path[0] = '\0';
    fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return;
    if (sendto(fd, state, strlen(state), MSG_NOSIGNAL, (struct sockaddr *)&to,
            (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0)
        say("cannot notify %s: %s", path, strerror(errno));
    close(fd);
}
