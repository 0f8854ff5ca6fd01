/*
 * check_channel_link.c - how a connection to a bridge's host comes about. What
 * the host's name stands for is told by this program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "channel/link.h"
#include "fake.h"
#include "sync/sys.h"

/* Both have the port of the fake bridge, which is at one of them. */
static struct sockaddr_in at[2];
static struct addrinfo found[2];
static bool no_input;

int getaddrinfo(const char *node, const char *service,
    const struct addrinfo *hints, struct addrinfo **out)
{
    (void)node;
    (void)service;
    for (int i = 0; i < 2; i++)
        found[i] = (struct addrinfo){.ai_family = AF_INET,
            .ai_socktype = hints->ai_socktype,
            .ai_addr = (struct sockaddr *)&at[i],
            .ai_addrlen = sizeof(at[i]),
            .ai_next = i == 0 ? &found[1] : NULL};
    *out = found;
    if (no_input)
        close(STDIN_FILENO); /* the next descriptor is 0 */
    return 0;
}

void freeaddrinfo(struct addrinfo *list)
{
    ck_assert_ptr_eq(list, found);
}

static struct fake fake;

/* At the first address of its host, or at the second. */
static struct enq *open_host(int which)
{
    socklen_t bytes = sizeof(at[0]);

    memset(&fake, 0, sizeof(fake));
    fake.keepalive_ms = fake.grace_ms = 3600000;
    fake.fd = -1;
    fake.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    for (in_addr_t i = 0; i < 2; i++) {
        at[i].sin_family = AF_INET;
        at[i].sin_addr.s_addr = htonl(INADDR_LOOPBACK + i);
    }
    ck_assert_int_eq(bind(fake.listener, (struct sockaddr *)&at[which], bytes),
        0);
    ck_assert_int_eq(listen(fake.listener, 8), 0);
    ck_assert_int_eq(getsockname(fake.listener, (struct sockaddr *)&at[which],
                         &bytes),
        0);
    at[!which].sin_port = at[which].sin_port;
    snprintf(fake.address, sizeof(fake.address), "tcp://host");
    return fake_open(&fake);
}

TEST(each_address_of_a_host_is_tried)
{
    fake_close(&fake, open_host(_i));
}

/* As of a daemon that has closed its standard input. */
TEST(a_connection_may_have_descriptor_0)
{
    struct stat st;
    struct enq *e;

    no_input = true;
    e = open_host(0);
    ck_assert_int_eq(fstat(STDIN_FILENO, &st), 0);
    ck_assert(S_ISSOCK(st.st_mode));
    fake_close(&fake, e);
}

static int option(int level, int name)
{
    socklen_t bytes = sizeof(int);
    int value = -1;

    ck_assert_int_eq(getsockopt(STDIN_FILENO, level, name, &value, &bytes), 0);
    return value;
}

/* By silence: asked after a second, and then each second. Or by what it does
   not acknowledge. */
TEST(a_host_that_is_gone_without_a_word_is_noticed_within_four_seconds)
{
    struct enq *e;

    no_input = true;
    e = open_host(0);
    ck_assert_int_eq(option(SOL_SOCKET, SO_KEEPALIVE), 1);
    ck_assert_int_eq(option(IPPROTO_TCP, TCP_KEEPIDLE), 1);
    ck_assert_int_eq(option(IPPROTO_TCP, TCP_KEEPINTVL), 1);
    ck_assert_int_eq(option(IPPROTO_TCP, TCP_KEEPCNT), 3);
    ck_assert_int_eq(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 4000);
    fake_close(&fake, e);
}

/* The queue of the listener is full, so that nobody answers: another address of
   the host is not tried any more, and it is not taken for a connection. */
TEST(a_connection_that_does_not_come_is_given_up_when_somebody_rings)
{
    struct address to = {.host = "host"};
    int bell = eventfd(1, EFD_CLOEXEC);
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), fills[4];
    socklen_t bytes = sizeof(at[0]);
    char says[160];

    at[0].sin_family = AF_INET;
    at[0].sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ck_assert_int_eq(bind(listener, (struct sockaddr *)&at[0], bytes), 0);
    ck_assert_int_eq(getsockname(listener, (struct sockaddr *)&at[0], &bytes),
        0);
    at[1] = at[0];
    ck_assert_int_eq(listen(listener, 0), 0);
    for (size_t i = 0; i < LENGTH(fills); i++) {
        fills[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        connect(fills[i], (struct sockaddr *)&at[0], bytes);
    }
    ck_assert_int_eq(link_connect(&to, bell, mono_add_ms(sys.now(), 600000),
                         says, sizeof(says)),
        -ECANCELED);
    for (size_t i = 0; i < LENGTH(fills); i++)
        close(fills[i]);
    close(listener);
    close(bell);
}

TEST(a_process_out_of_descriptors_is_told_so)
{
    struct rlimit none;
    struct enq *e = NULL;
    int next;

    fake_begin(&fake);
    next = dup(fake.listener);
    close(next);
    none = (struct rlimit){(rlim_t)next, (rlim_t)next};
    ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
    want_why(-EMFILE, enq_open(&e, fake.address, NULL), "no descriptor left");
    ck_assert_ptr_null(e);
    fake_end(&fake);
}

int main(void)
{
    unit_begin("channel-link");
    ADD_LOOP(each_address_of_a_host_is_tried, 2);
    ADD(a_connection_may_have_descriptor_0);
    ADD(a_host_that_is_gone_without_a_word_is_noticed_within_four_seconds);
    ADD(a_connection_that_does_not_come_is_given_up_when_somebody_rings);
    ADD(a_process_out_of_descriptors_is_told_so);
    return unit_end();
}
