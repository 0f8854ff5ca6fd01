/*
 * address.c - channel: where a bridge is (see address.h).
 */
#include "channel/address.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/why.h"

#define GRACE_MOST_MS (24 * 3600 * 1000)

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

bool address_is_remote(const char *text)
{
    return begins(text, "tcp://") || begins(text, "tls://") ||
        begins(text, "unix:");
}

/* What is behind '?'. @rest: from there; NULL: nothing. */
static int parse_options(const char *text, const char *rest,
    struct address *out)
{
    char *end;
    long long ms;

    out->grace_ms = -1;
    if (rest == NULL)
        return 0;
    if (!begins(rest, "?grace="))
        return why(-EINVAL, "\"%.*s%s\": unknown option \"%.*s\": ?grace=MS",
            WHY_ADDRESS(text), WHY_OPTION(rest));
    rest += strlen("?grace=");
    errno = 0;
    ms = strtoll(rest, &end, 10);
    if (rest[0] < '0' || rest[0] > '9' || *end != '\0' || errno != 0 ||
        ms > GRACE_MOST_MS)
        return why(-EINVAL, "\"%.*s%s\": the grace period must be 0 to %d ms",
            WHY_ADDRESS(text), GRACE_MOST_MS);
    out->grace_ms = ms;
    return 0;
}

/* @n bytes from @from, and a zero. False: more than there is room for. */
static bool take(char *to, size_t room, const char *from, size_t n)
{
    if (n >= room)
        return false;
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static int parse_unix(const char *text, size_t n, struct address *out)
{
    const char *path = text + strlen("unix:");

    n -= strlen("unix:");
    out->local = true;
    if (n == 0 || path[0] != '/')
        return why(-EINVAL, "\"%.*s%s\": after unix: give an absolute path",
            WHY_ADDRESS(text));
    if (!take(out->path, sizeof(out->path), path, n))
        return why(-ENAMETOOLONG,
            "the path of \"%.120s...\" is longer than %zu bytes", text,
            sizeof(out->path) - 1);
    return 0;
}

static bool port_is_fine(const char *port)
{
    return port[0] != '\0' && port[strspn(port, "0123456789")] == '\0' &&
        atoi(port) >= 1 && atoi(port) <= 65535;
}

/* Where its host ends: an IPv6 address is in brackets, as it has colons. */
static size_t host_bytes(const char *host, size_t n)
{
    size_t at = 0;

    if (n > 0 && host[0] == '[') {
        while (at < n && host[at] != ']')
            at++;
        return at < n ? at + 1 : 0;
    }
    while (at < n && host[at] != ':')
        at++;
    return at;
}

static int parse_tcp(const char *text, size_t n, struct address *out)
{
    const char *host = text + strlen("tcp://"), *port;
    size_t bytes;
    bool bracketed;

    n -= strlen("tcp://");
    if (n > 0 && host[n - 1] == '/') /* as many write it */
        n--;
    bytes = host_bytes(host, n);
    bracketed = bytes > 0 && host[0] == '[';
    port = host + bytes;
    memcpy(out->port, ADDRESS_PORT, sizeof(ADDRESS_PORT));
    if (bytes < n &&
        (port[0] != ':' ||
            !take(out->port, sizeof(out->port), port + 1, n - bytes - 1) ||
            !port_is_fine(out->port)))
        return why(-EINVAL, "\"%.*s%s\": after the host give :PORT",
            WHY_ADDRESS(text));
    if (bracketed) {
        host++;
        bytes -= 2;
    }
    if (bytes == 0)
        return why(-EINVAL, "\"%.*s%s\": give a host: tcp://HOST:PORT",
            WHY_ADDRESS(text));
    if (!take(out->host, sizeof(out->host), host, bytes))
        return why(-ENAMETOOLONG,
            "the host of \"%.100s...\" is longer than %d bytes", text,
            ADDRESS_HOST_BYTES - 1);
    return 0;
}

int address_parse(const char *text, struct address *out)
{
    const char *rest = strchr(text, '?');
    size_t n = rest == NULL ? strlen(text) : (size_t)(rest - text);
    int rc;

    memset(out, 0, sizeof(*out));
    if (begins(text, "tls://"))
        return why(-EOPNOTSUPP,
            "\"%.*s%s\": this version knows only tcp:// and unix:",
            WHY_ADDRESS(text));
    rc = parse_options(text, rest, out);
    if (rc != 0)
        return rc;
    return begins(text, "unix:") ? parse_unix(text, n, out)
                                 : parse_tcp(text, n, out);
}
