/*
 * check_remote_link.c - how a connection to a bridge's host comes about. What
 * the host's name stands for is told by this program.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fake.h"

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
    want_why(-EMFILE, enq_open(&e, fake.address, NULL), "no descriptor");
    ck_assert_ptr_null(e);
    fake_end(&fake);
}

int main(void)
{
    unit_begin("remote-link");
    ADD_LOOP(each_address_of_a_host_is_tried, 2);
    ADD(a_connection_may_have_descriptor_0);
    ADD(a_process_out_of_descriptors_is_told_so);
    return unit_end();
}
