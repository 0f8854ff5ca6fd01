/*
 * check_channel_address.c - where a bridge is, as its user writes it.
 */
#include <errno.h>

#include "channel/address.h"
#include "unit.h"

static const struct {
    const char *text, *host, *port, *path;
    int64_t grace_ms;
} fine[] = {
    {"tcp://host", "host", "3721", "", -1},
    {"tcp://host/", "host", "3721", "", -1},
    {"tcp://host:1", "host", "1", "", -1},
    {"tcp://10.1.2.3:65535?grace=0", "10.1.2.3", "65535", "", 0},
    {"tcp://[::1]", "::1", "3721", "", -1},
    {"tcp://[fe80::1%eth0]:99?grace=500", "fe80::1%eth0", "99", "", 500},
    {"unix:/run/enq/bridge", "", "", "/run/enq/bridge", -1},
    {"unix:/a b?grace=86400000", "", "", "/a b", 86400000},
};

TEST(an_address_has_these_parts)
{
    struct address a;

    want(0, address_parse(fine[_i].text, &a));
    ck_assert(address_is_remote(fine[_i].text));
    ck_assert_int_eq(a.local, fine[_i].path[0] != '\0');
    ck_assert_str_eq(a.host, fine[_i].host);
    ck_assert_str_eq(a.port, fine[_i].port);
    ck_assert_str_eq(a.path, fine[_i].path);
    ck_assert_int_eq(a.grace_ms, fine[_i].grace_ms);
}

static const struct {
    const char *text;
    int rc;
    const char *words;
} wrong[] = {
    {"tcp://", -EINVAL, "give a host"},
    {"tcp://:3721", -EINVAL, "give a host"},
    {"tcp://[]", -EINVAL, "give a host"},
    {"tcp://[::1", -EINVAL, ""},
    {"tcp://host:", -EINVAL, "PORT"},
    {"tcp://host:0", -EINVAL, "PORT"},
    {"tcp://host:65536", -EINVAL, "PORT"},
    {"tcp://host:12x", -EINVAL, "PORT"},
    {"tcp://host:123456", -EINVAL, "PORT"},
    {"tcp://[::1]x", -EINVAL, "PORT"},
    {"tcp://host?grace=", -EINVAL, "grace"},
    {"tcp://host?grace=-1", -EINVAL, "grace"},
    {"tcp://host?grace=1s", -EINVAL, "grace"},
    {"tcp://host?grace=86400001", -EINVAL, "grace"},
    {"tcp://host?patience=1", -EINVAL, "unknown option"},
    {"unix:", -EINVAL, "path"},
    {"unix:relative", -EINVAL, "path"},
    {"unix:/0123456789012345678901234567890123456789012345678901234567890123456"
     "78901234567890123456789012345678901234567890",
        -ENAMETOOLONG, "107"},
    {"tls://host", -EOPNOTSUPP, "tls"},
};

TEST(what_is_wrong_with_an_address_is_said)
{
    struct address a;

    want_why(wrong[_i].rc, address_parse(wrong[_i].text, &a), wrong[_i].words);
}

TEST(a_space_of_this_host_is_no_bridge)
{
    ck_assert(!address_is_remote("shm:tcp"));
    ck_assert(!address_is_remote("/unix:/x"));
    ck_assert(!address_is_remote("tcp:host"));
}

int main(void)
{
    unit_begin("channel-address");
    ADD_LOOP(an_address_has_these_parts, LENGTH(fine));
    ADD_LOOP(what_is_wrong_with_an_address_is_said, LENGTH(wrong));
    ADD(a_space_of_this_host_is_no_bridge);
    return unit_end();
}
