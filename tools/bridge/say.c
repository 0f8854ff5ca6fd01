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

#include "wire/text.h"

bool say_verbose;

static void say_text(const char *line)
{
    struct text out = {0};

    TEXT_PUT(&out, "enq-bridge: ");
    text_line(&out, line);
    TEXT_PUT(&out, "\n");
    if (!out.failed && write(STDERR_FILENO, out.bytes, out.n) < 0)
        errno = 0; /* nobody listens */
    text_free(&out);
}

/* In one write, so that lines of several processes do not mix; and one line,
   whatever a client has sent. */
static void say_line(const char *format, va_list args)
{
    char *line;

    if (vasprintf(&line, format, args) < 0)
        return say_text("out of memory for a message");
    say_text(line);
    free(line);
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

    if (n == 0)
        return;
    if (n >= sizeof(to.sun_path)) {
        say("cannot notify %s: the path is longer than %zu bytes", path,
            sizeof(to.sun_path) - 1);
        return;
    }
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
