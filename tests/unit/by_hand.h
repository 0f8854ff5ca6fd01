/*
 * by_hand.h - a client of a fake bridge whose time is turned by hand: what its
 * tests share.
 */
#ifndef UNIT_BY_HAND_H
#define UNIT_BY_HAND_H

#include <errno.h>
#include <sys/syscall.h>
#include <time.h>

#include "fake.h"
#include "remote/client.h"
#include "sync/sys.h"

#define OURS DONE ",\"TOKEN\":\"1001\",\"MODE\":\"E\""

#define A_LOCK                                                                 \
    ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 600000)
#define A_LEASE                                                                \
    ENQ_REQ(.name = "n", .key = {"l"}, .mode = ENQ_MODE_E, .ttl_ms = 600000,   \
        .on_death = ENQ_DEATH_LEASE)

static struct fake fake;

/* --- time, turned by hand: it stands still but for that --- */

static int64_t now_ns;

static inline mono_t now_by_hand(void)
{
    return (mono_t){__atomic_load_n(&now_ns, 5)};
}

static inline void pass_ms(int64_t ms)
{
    __atomic_add_fetch(&now_ns, ms * NS_PER_MS, 5);
}

/* --- what the tests share --- */

/* Of which some tests let nothing pass, and others all. The client's thread
   sleeps by the kernel's clock, and looks whether it is time for a ping. */
#define GRACE_MS 400
#define PING_MS (GRACE_MS / 4)

static inline struct enq *begin(int grace_ms)
{
    struct enq *e;

    now_ns = sys.now().ns;
    sys.now = now_by_hand;
    fake_begin(&fake);
    fake.keepalive_ms = 4000; /* the session needs more pings than that */
    fake.grace_ms = grace_ms;
    e = fake_open(&fake);
    ck_assert_int_ge(enq_fd(e), 0);
    return e;
}

/* Pings are not what is looked for: they are answered, or not. */
static inline void hear(const char *words, bool answer_pings)
{
    for (;;) {
        ck_assert_msg(fake_hear_within(&fake, 10000), "no %s", words);
        if (strstr(fake.line, words) != NULL)
            return;
        ck_assert_msg(strstr(fake.line, "\"ping\"") != NULL, "%s", fake.line);
        if (answer_pings)
            fake_answer(&fake, DONE);
    }
}

static inline void granted(struct enq *e, const struct enq_req *req,
    const char *answer)
{
    struct asker a = {0};

    asker_begin(&a, e, req);
    hear("\"eleLock\"", true);
    fake_answer(&fake, answer);
    asker_end(&a, ENQ_OK);
}

static inline void answer_ping(void)
{
    fake_hear(&fake, "\"ping\"");
    fake_answer(&fake, DONE);
}

/* And the client has taken notice: its session is sure for longer. */
static inline void answer_ping_of(struct enq *e)
{
    int64_t *until_ns = &unit_remote(e)->sure.until_ns,
            before = shm_load(until_ns);

    answer_ping();
    eventually(shm_load(until_ns) > before);
}

/* Of the connection the last event is told. */
static inline void session_is(struct enq *e, int result)
{
    struct enq_event event = {.result = 1};

    do
        eventually(enq_next(e, &event) == ENQ_OK);
    while (event.kind == ENQ_EVENT_SESSION && event.result != result);
    ck_assert_int_eq(event.kind, ENQ_EVENT_SESSION);
}

static inline void no_event(struct enq *e)
{
    struct enq_event event;

    want(ENQ_PENDING, enq_next(e, &event));
}

#endif
