/*
 * check_remote_held.c - what the client of a bridge remembers of its locks.
 */
#include "fake.h"

#define DONE "\"RC\":\"0\",\"RESULT\":0"
#define A_LOCK                                                                 \
    ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = 600000)

static struct fake fake;

#define GONE_KEPT 4096u
#define GONE (GONE_KEPT + 100)

static void *ask_for_many(void *arg)
{
    struct asker *a = arg;

    for (unsigned i = 0; i < GONE && a->rc == ENQ_OK; i++)
        a->rc = enq_lock(a->e, A_LOCK, &a->grant);
    return NULL;
}

static void has_run_out(struct enq *e, unsigned handle)
{
    fake_say(&fake,
        "{\"EVENT\":\"expired\",\"RESULT\":6,\"HANDLE\":\"%u\","
        "\"TOKEN\":\"1001\"}\n",
        handle);
    if (e != NULL)
        eventually(enq_valid(e, handle) == ENQ_EXPIRED);
}

static void is_asked_about(struct enq *e, unsigned handle)
{
    struct asker a = {0};

    asker_begin_valid(&a, e, handle);
    do
        ck_assert(fake_hear_within(&fake, 10000));
    while (strstr(fake.line, "ping") != NULL);
    ck_assert_ptr_nonnull(strstr(fake.line, "\"OP\":\"valid\""));
    fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"gone\"");
    asker_end(&a, ENQ_NOTHELD);
}

/* Handles 1 to GONE. With _i somebody listens, and reads it late. */
TEST(of_what_is_gone_so_many_are_remembered)
{
    struct asker a = {0};
    struct enq_event event;
    struct enq *e;
    char members[100];

    fake_begin(&fake);
    fake.keepalive_ms = fake.grace_ms = 3600000; /* no pings */
    a.e = e = fake_open(&fake);
    if (_i == 1)
        ck_assert_int_ge(enq_fd(e), 0);
    ck_assert_int_eq(pthread_create(&a.thread, NULL, ask_for_many, &a), 0);
    for (unsigned i = 1; i <= GONE; i++) {
        do
            ck_assert(fake_hear_within(&fake, 10000));
        while (strstr(fake.line, "ping") != NULL);
        snprintf(members, sizeof(members),
            DONE ",\"HANDLE\":\"%u\",\"TOKEN\":\"1001\"", i);
        fake_answer(&fake, members);
    }
    asker_end(&a, ENQ_OK);
    for (unsigned i = 1; i < GONE; i++)
        has_run_out(i % 100 == 0 ? e : NULL, i);
    if (_i == 1)
        for (unsigned i = 1; i < GONE; i++)
            eventually(enq_next(e, &event) == ENQ_OK);
    has_run_out(e, GONE);
    want(ENQ_EXPIRED, enq_valid(e, GONE - GONE_KEPT + 1));
    is_asked_about(e, GONE - GONE_KEPT);
    is_asked_about(e, 1);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote_held");
    ADD_LOOP(of_what_is_gone_so_many_are_remembered, 2);
    return unit_end();
}
