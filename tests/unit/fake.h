/*
 * fake.h - a bridge of a test's own, in its process: it says exactly what the
 * test wants, when it wants it, or nothing.
 */
#ifndef UNIT_FAKE_H
#define UNIT_FAKE_H

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "unit.h"

/* Members of answers. */
#define DONE "\"RC\":\"0\",\"RESULT\":0"
#define GRANTED(handle) DONE ",\"HANDLE\":\"" handle "\",\"TOKEN\":\"1001\""

struct fake {
    int listener, fd;
    char address[200];
    char in[1 << 17];
    size_t n;
    char line[1 << 16];         /* the last request */
    int keepalive_ms, grace_ms; /* what it tells */
    bool is_leaving;            /* its client is */
};

static inline void fake_begin(struct fake *f)
{
    struct sockaddr_un a = {.sun_family = AF_UNIX};
    char path[256];

    memset(f, 0, sizeof(*f));
    f->keepalive_ms = 5000;
    f->grace_ms = 10000;
    unit_path("bridge", path);
    ck_assert_uint_lt(strlen(path), sizeof(a.sun_path));
    memcpy(a.sun_path, path, strlen(path) + 1);
    snprintf(f->address, sizeof(f->address), "unix:%s", a.sun_path);
    f->fd = -1;
    f->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_eq(bind(f->listener, (struct sockaddr *)&a, sizeof(a)), 0);
    ck_assert_int_eq(listen(f->listener, 8), 0);
}

static inline void fake_say(struct fake *f, const char *format, ...)
{
    char text[4096];
    va_list args;
    int n;

    va_start(args, format);
    n = vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    /* a client that says goodbye does not wait for the answer for ever */
    ck_assert(send(f->fd, text, (size_t)n, MSG_NOSIGNAL) == n || f->is_leaving);
}

/* The next request; false: none within this time, or the end. */
static inline bool fake_hear_within(struct fake *f, int ms)
{
    struct timeval t = {ms / 1000, ms % 1000 * 1000 + 1};
    char *end;

    setsockopt(f->fd, SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
    while ((end = memchr(f->in, '\n', f->n)) == NULL) {
        ssize_t n = recv(f->fd, f->in + f->n, sizeof(f->in) - f->n, 0);

        if (n <= 0)
            return false;
        f->n += (size_t)n;
    }
    *end = '\0';
    ck_assert_uint_lt((size_t)(end - f->in), sizeof(f->line));
    memcpy(f->line, f->in, (size_t)(end + 1 - f->in));
    f->n -= (size_t)(end + 1 - f->in);
    memmove(f->in, end + 1, f->n);
    return true;
}

/* A request that has these words in it. */
static inline void fake_hear(struct fake *f, const char *words)
{
    ck_assert_msg(fake_hear_within(f, 10000), "no request with %s", words);
    ck_assert_msg(strstr(f->line, words) != NULL, "%s without %s", f->line,
        words);
}

/* So has the next one that is no ping. */
static inline void fake_hear_past_pings(struct fake *f, const char *words)
{
    do
        ck_assert_msg(fake_hear_within(f, 10000), "no request with %s", words);
    while (strstr(f->line, "ping") != NULL);
    ck_assert_msg(strstr(f->line, words) != NULL, "%s without %s", f->line,
        words);
}

/* An unlock of this grant, be there pings before it or not. */
static inline void fake_hear_unlock(struct fake *f, const char *grant)
{
    fake_hear_past_pings(f, "\"OP\":\"2\"");
    ck_assert_msg(strstr(f->line, grant) != NULL, "%s is no unlock of %s",
        f->line, grant);
}

/* Of the last one. */
static inline unsigned long long fake_number(const struct fake *f)
{
    const char *at = strstr(f->line, "\"reqUUID\":\"");

    ck_assert_ptr_nonnull(at);
    return strtoull(at + strlen("\"reqUUID\":\""), NULL, 10);
}

/* An answer: the members before reqUUID. */
static inline void fake_answer_to(struct fake *f, unsigned long long number,
    const char *members)
{
    fake_say(f, "{%s,\"reqUUID\":\"%llu\"}\n", members, number);
}

/* To the last one. */
static inline void fake_answer(struct fake *f, const char *members)
{
    fake_answer_to(f, fake_number(f), members);
}

static inline void fake_hear_hello(struct fake *f)
{
    f->n = 0;
    f->fd = accept(f->listener, NULL, NULL);
    ck_assert_int_ge(f->fd, 0);
    fake_hear(f, "\"hello\"");
}

static inline void fake_greet(struct fake *f, const char *session, bool resumed)
{
    char members[400];

    fake_hear_hello(f);
    snprintf(members, sizeof(members),
        "\"RC\":\"0\",\"RESULT\":0,\"SESSION\":\"%s\",\"VERSION\":1,\"GRACE\":"
        "%d,\"KEEPALIVE\":%d,\"RESUMED\":%s,\"LIMITS\":{\"max-request\":"
        "65536,\"list-max\":1000}",
        session, f->grace_ms, f->keepalive_ms, resumed ? "true" : "false");
    fake_answer(f, members);
}

static inline void fake_cut(struct fake *f)
{
    close(f->fd);
    f->fd = -1;
}

/* The connection is lost, and the next one is of the same session. */
static inline void fake_resume(struct fake *f)
{
    fake_cut(f);
    fake_greet(f, "one", true);
}

static inline void fake_end(struct fake *f)
{
    if (f->fd >= 0)
        close(f->fd);
    close(f->listener);
}

/* --- askers --- */

struct asker {
    struct fake *f;
    struct enq *e;
    struct enq_open_opts opts;
    const struct enq_req *req; /* NULL: gives `grant` back */
    const struct enq_req *reqs[1];
    uint64_t ticket;
    struct enq_grant grant;
    int rc;
    char why[300];
    pthread_t thread;
};

/* Calls `f`, which leaves its result in the asker. */
static inline void asker_run(struct asker *a, struct enq *e, void *(*f)(void *))
{
    a->e = e;
    ck_assert_int_eq(pthread_create(&a->thread, NULL, f, a), 0);
}

static inline void *asker_main(void *arg)
{
    struct asker *a = arg;

    if (a->req != NULL)
        a->rc = enq_lock(a->e, a->req, &a->grant);
    else
        a->rc = enq_unlock(a->e, a->grant.handle, a->grant.token);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return NULL;
}

static inline void asker_begin(struct asker *a, struct enq *e,
    const struct enq_req *req)
{
    a->req = req;
    asker_run(a, e, asker_main);
}

static inline void *asker_valid(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_valid(a->e, a->grant.handle);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return NULL;
}

static inline void asker_begin_valid(struct asker *a, struct enq *e,
    enq_handle handle)
{
    a->grant.handle = handle;
    asker_run(a, e, asker_valid);
}

static inline void *asker_start_set(void *arg)
{
    struct asker *a = arg;

    a->rc = enq_start_set(a->e, a->reqs, 1, &a->grant, &a->ticket);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return NULL;
}

static inline void asker_begin_set(struct asker *a, struct enq *e)
{
    asker_run(a, e, asker_start_set);
}

static inline void asker_end(struct asker *a, int rc)
{
    pthread_join(a->thread, NULL);
    ck_assert_msg(a->rc == rc, "%s (%s), not %s", enq_result_name(a->rc),
        a->why, enq_result_name(rc));
}

static inline void *asker_open(void *arg)
{
    struct asker *a = arg;

    a->opts.size = sizeof(a->opts);
    a->opts.owner = "me";
    a->rc = enq_open(&a->e, a->f->address, &a->opts);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
    return NULL;
}

/* An attachment to it, of session "one". */
static inline struct enq *fake_open(struct fake *f)
{
    struct asker a = {.f = f};

    asker_run(&a, NULL, asker_open);
    fake_greet(f, "one", false);
    asker_end(&a, ENQ_OK);
    return a.e;
}

static inline struct enq *fake_start(struct fake *f)
{
    fake_begin(f);
    return fake_open(f);
}

/* It listens from the start. */
static inline struct enq *fake_listener(struct fake *f)
{
    struct enq *e = fake_start(f);

    ck_assert_int_ge(enq_fd(e), 0);
    return e;
}

static inline void *asker_close(void *arg)
{
    enq_close(((struct asker *)arg)->e);
    return NULL;
}

/* What else was asked is not answered any more. */
static inline void fake_close(struct fake *f, struct enq *e)
{
    struct asker a = {0};

    f->is_leaving = true;
    asker_run(&a, e, asker_close);
    while (fake_hear_within(f, 10000))
        if (strstr(f->line, "\"goodbye\"") != NULL)
            fake_answer(f, DONE);
    pthread_join(a.thread, NULL);
    fake_end(f);
}

/* --- what it is told --- */

static inline void event_is(struct enq *e, int kind, int result)
{
    struct enq_event event;

    eventually(enq_next(e, &event) == ENQ_OK);
    ck_assert_int_eq(event.kind, kind);
    ck_assert_msg(event.result == result, "%s, not %s",
        enq_result_name(event.result), enq_result_name(result));
}

#endif
