/*
 * check_remote_window.c - the client of a bridge, and requests of many bytes:
 * more than the bridge takes, or reads.
 */
#include <errno.h>
#include <poll.h>

#include "fake.h"

#define ASKERS 60

static struct fake fake;

/* For a set, with two fields of such characters in each of its keys. */
static void ask_for_much(struct asker *a, char c)
{
    struct enq_req req = {.size = sizeof(req), .name = "n", .mode = ENQ_MODE_S};
    const struct enq_req *reqs[ENQ_SET_MAX];
    struct enq_grant grants[ENQ_SET_MAX];
    char field[250] = {0};

    memset(field, c, sizeof(field) - 1);
    req.key[0] = req.key[1] = field;
    for (int i = 0; i < ENQ_SET_MAX; i++)
        reqs[i] = &req;
    a->rc = enq_lock_set(a->e, reqs, ENQ_SET_MAX, grants);
    snprintf(a->why, sizeof(a->why), "%s", enq_why());
}

static void *ask_for_a_part(void *arg)
{
    ask_for_much(arg, 'k');
    return NULL;
}

static void *ask_for_too_much(void *arg)
{
    ask_for_much(arg, '"'); /* of which each is told as two */
    return NULL;
}

/* More than the socket has room for, and then all of it is read. */
TEST(a_bridge_that_does_not_read_for_a_while_gets_each_byte_once)
{
    static struct asker a[ASKERS];
    struct enq *e = fake_start(&fake);
    size_t bytes = 0;

    for (int i = 0; i < ASKERS; i++)
        asker_run(&a[i], e, ask_for_a_part);
    poll(NULL, 0, 200);
    for (int i = 0; i < ASKERS; i++) {
        fake_hear_past_pings(&fake, "\"OP\":\"set\"");
        bytes = i == 0 ? strlen(fake.line) : bytes;
        ck_assert_uint_lt(strlen(fake.line) - bytes, 3); /* of its number */
        fake_answer(&fake, "\"RC\":\"4\",\"RESULT\":5,\"MSG\":\"gone\"");
    }
    for (int i = 0; i < ASKERS; i++)
        asker_end(&a[i], ENQ_NOTHELD);
    fake_close(&fake, e);
}

TEST(more_than_the_bridge_takes_is_refused_and_not_sent)
{
    struct asker a = {0};
    struct enq *e = fake_start(&fake);

    asker_run(&a, e, ask_for_too_much);
    asker_end(&a, -EMSGSIZE);
    ck_assert_ptr_nonnull(strstr(a.why, "takes at most 65536 (--max-request)"));
    asker_begin_valid(&a, e, 77);
    fake_hear_past_pings(&fake, "\"OP\":\"valid\"");
    fake_answer(&fake, DONE);
    asker_end(&a, ENQ_OK);
    fake_close(&fake, e);
}

int main(void)
{
    unit_begin("remote_window");
    ADD(a_bridge_that_does_not_read_for_a_while_gets_each_byte_once);
    ADD(more_than_the_bridge_takes_is_refused_and_not_sent);
    return unit_end();
}
