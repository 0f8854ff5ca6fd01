/*
 * check_remote_leader_threads.c - callers that read for themselves, and for
 * others: each waiting caller is answered, no matter which one reads, and
 * events are heard of when none does. The bridge is a fake one, and wants no
 * pings that would help.
 */
#include <signal.h>
#include <unistd.h>

#include "base/atomic.h"
#include "fake.h"
#include "remote/await.h"
#include "remote/client.h"

#define LONG_MS 600000

#define A_WAIT                                                                 \
    ENQ_REQ(.name = "n", .key = {"k"}, .mode = ENQ_MODE_E, .ttl_ms = LONG_MS,  \
        .wait_ms = LONG_MS)

static struct fake fake;

static struct enq *begin(void)
{
    fake_begin(&fake);
    fake.keepalive_ms = LONG_MS;
    return fake_open(&fake);
}

/* It waits at the bridge: what it was asked is kept in @asked. */
static void wait_for_lock(struct asker *a, struct enq *e, struct fake *asked)
{
    asker_begin(a, e, A_WAIT);
    fake_hear_past_pings(&fake, "\"eleLock\"");
    memcpy(asked->line, fake.line, sizeof(fake.line));
    asked->fd = fake.fd;
}

/* Done at once. */
static void give_back(struct enq *e, enq_handle handle)
{
    struct asker a = {.grant.handle = handle};

    asker_begin(&a, e, NULL);
    fake_hear(&fake, "\"OP\":\"2\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
}

static void event_comes(struct enq *e)
{
    struct enq_event event;

    fake_say(&fake,
        "{\"EVENT\":\"blocking\",\"RESULT\":0,\"HANDLE\":\"77\",\"TOKEN\":"
        "\"1001\",\"OWNER\":\"you\"}\n");
    eventually(enq_next(e, &event) == ENQ_OK);
    ck_assert_int_eq(event.kind, ENQ_EVENT_BLOCKING);
}

/* While a caller reads: event of a lock that nobody knows, which the reader
   wakes for as well. It finds somebody reading, then and after its nap. */
static void let_reader_go_deaf(void)
{
    fake_say(&fake, "{\"EVENT\":\"expiring\",\"RESULT\":0,\"HANDLE\":\"1\"}\n");
    usleep(20000);
}

static struct fake asked[2];

TEST(an_event_is_received_after_calls)
{
    struct asker a = {0};
    struct enq *e = begin();

    ck_assert_int_ge(enq_fd(e), 0);
    wait_for_lock(&a, e, &asked[0]);
    fake_answer(&asked[0], GRANTED("77"));
    asker_end(&a, ENQ_OK);
    for (int i = 0; i < 20; i++) {
        for (int n = 0; n < i % 4; n++)
            give_back(e, 5);
        if (i % 5 == 0)
            usleep(5000); /* the reader naps no more */
        event_comes(e);
    }
    fake_close(&fake, e);
}

TEST(an_event_is_received_while_a_caller_waits)
{
    struct asker a = {0}, b = {0};
    struct enq *e = begin();

    ck_assert_int_ge(enq_fd(e), 0);
    wait_for_lock(&a, e, &asked[0]);
    fake_answer(&asked[0], GRANTED("77"));
    asker_end(&a, ENQ_OK);
    wait_for_lock(&b, e, &asked[1]);
    event_comes(e);
    usleep(300000); /* b polls */
    event_comes(e);
    let_reader_go_deaf();
    fake_answer(&asked[1], DONE ",\"HANDLE\":\"78\",\"TOKEN\":\"1002\"");
    asker_end(&b, ENQ_OK);
    event_comes(e); /* ... and was rung for */
    fake_close(&fake, e);
}

/* Whichever of the two reads. */
TEST(of_two_waiters_each_is_answered_when_its_answer_comes)
{
    struct asker a[2] = {{0}};
    struct enq *e = begin();
    int first = _i & 1;

    for (int i = 0; i < 2; i++) {
        wait_for_lock(&a[i], e, &asked[i]);
        if (_i & 2)
            let_reader_go_deaf();
    }
    fake_answer(&asked[first], GRANTED("77"));
    asker_end(&a[first], ENQ_OK);
    give_back(e, 77);
    fake_answer(&asked[!first], GRANTED("77"));
    asker_end(&a[!first], ENQ_OK);
    fake_close(&fake, e);
}

/* A caller that takes a lock out of an answer stands still at the first
   allocation, while that is wanted. */
static uint32_t stand_still, stands;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);

void *__wrap_calloc(size_t n, size_t size)
{
    while (size == sizeof(struct held) && shm_load_acquire(&stand_still)) {
        shm_store_release(&stands, 1);
        unit_nap();
    }
    return __real_calloc(n, size);
}

/* By another thread, until its own would have said that nobody answers. */
TEST(a_caller_being_answered_when_its_time_is_over_has_its_answer)
{
    struct asker a = {0}, b = {0};
    struct enq *e = begin();

    wait_for_lock(&a, e, &asked[0]);
    usleep(20000); /* a reads: if b did, it could not look at the clock */
    asker_begin(&b, e, ENQ_REQ(.name = "n", .key = {"l"}, .mode = ENQ_MODE_E));
    fake_hear_past_pings(&fake, "\"eleLock\"");
    shm_store_release(&stand_still, 1);
    fake_answer(&fake, GRANTED("77"));
    eventually(shm_load_acquire(&stands));
    usleep((SLACK_MS + 500) * 1000);
    shm_store_release(&stand_still, 0);
    asker_end(&b, ENQ_OK);
    ck_assert_uint_eq(b.grant.handle, 77);
    fake_answer(&asked[0], DONE ",\"HANDLE\":\"78\",\"TOKEN\":\"1002\"");
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

TEST(who_calls_is_answered_while_another_waits)
{
    struct asker a = {0};
    struct enq *e = begin();

    wait_for_lock(&a, e, &asked[0]);
    for (int i = 0; i < 50; i++)
        give_back(e, 5);
    fake_answer(&asked[0], GRANTED("77"));
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

TEST(who_waits_goes_on_at_the_next_connection)
{
    struct asker a[2] = {{0}};
    struct enq *e = begin();

    for (int i = 0; i < 2; i++)
        wait_for_lock(&a[i], e, &asked[i]);
    fake_resume(&fake);
    for (int i = 0; i < 2; i++) {
        fake_hear(&fake, "\"eleLock\"");
        fake_answer(&fake, GRANTED("77"));
        asker_end(&a[i], ENQ_OK);
    }
    fake_close(&fake, e);
}

/* The thread that finds it is not the one that reads. */
TEST(a_bridge_that_falls_silent_is_left_while_a_caller_reads)
{
    struct asker a = {0};
    struct enq *e;
    char c;

    fake_begin(&fake);
    fake.keepalive_ms = 200;
    e = fake_open(&fake);
    wait_for_lock(&a, e, &asked[0]);
    while (fake_hear_within(&fake, 10000)) /* until it hangs up */
        ck_assert_ptr_nonnull(strstr(fake.line, "\"ping\""));
    ck_assert_int_eq(recv(fake.fd, &c, 1, MSG_DONTWAIT), 0);
    fake_cut(&fake);
    fake.keepalive_ms = LONG_MS;
    fake_greet(&fake, "one", true);
    do
        ck_assert(fake_hear_within(&fake, 10000));
    while (strstr(fake.line, "\"eleLock\"") == NULL); /* pings */
    fake_answer(&fake, GRANTED("77"));
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

static uint32_t n_signals;

static void count(int sig)
{
    (void)sig;
    shm_add(&n_signals, 1);
}

TEST(signals_do_not_end_a_wait)
{
    struct sigaction action = {.sa_handler = count};
    struct asker a = {0};
    struct enq *e = begin();

    sigaction(SIGUSR1, &action, NULL);
    wait_for_lock(&a, e, &asked[0]);
    for (int i = 0; i < 30; i++) {
        pthread_kill(a.thread, SIGUSR1);
        usleep(i < 10 ? 100 : 20000); /* in recv(), later in poll() */
    }
    eventually(shm_load(&n_signals) > 0);
    fake_answer(&asked[0], GRANTED("77"));
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote-lead-threads");
    ADD(an_event_is_received_after_calls);
    ADD(an_event_is_received_while_a_caller_waits);
    ADD_LOOP(of_two_waiters_each_is_answered_when_its_answer_comes, 4);
    ADD(a_caller_being_answered_when_its_time_is_over_has_its_answer);
    ADD(who_calls_is_answered_while_another_waits);
    ADD(who_waits_goes_on_at_the_next_connection);
    ADD(a_bridge_that_falls_silent_is_left_while_a_caller_reads);
    ADD(signals_do_not_end_a_wait);
    return unit_end();
}
