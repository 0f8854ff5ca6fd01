/*
 * check_copy_out_rows.c - what a list tells of a lock, to the last field.
 */
#include <unistd.h>

#include "used.h"

static struct enq_info looked_at(struct enq *e, enq_handle handle)
{
    struct enq_info info;

    memset(&info, USED, sizeof(info));
    want(ENQ_OK, enq_look(e, handle, &info));
    return info;
}

TEST(a_list_tells_all_of_a_lock)
{
    struct enq_req req = {.size = sizeof(req),
        .name = "n",
        .key = {"a", "", "@"},
        .literal = 1u << 2,
        .mode = ENQ_MODE_E,
        .on_death = ENQ_DEATH_KEEP,
        .owner = "B",
        .id = "of B",
        .ttl_ms = 60000,
        .peer = "far"};
    struct enq *e = begin();
    struct enq_grant g = has(e, &req);
    struct enq_info info;

    pass_ms(1500);
    info = looked_at(e, g.handle);
    ck_assert_uint_eq(info.handle, g.handle);
    ck_assert_uint_eq(info.token, g.token);
    ck_assert_int_eq(info.age_ms, 1500);
    ck_assert_int_eq(info.ttl_ms, 60000);
    ck_assert_int_eq(info.ttl_left_ms, 58500);
    ck_assert_int_eq(info.pid, getpid());
    ck_assert_uint_eq(info.mode, ENQ_MODE_E);
    ck_assert_uint_eq(info.waiting, 0);
    ck_assert_uint_eq(info.orphaned, 0);
    ck_assert_uint_eq(info.on_death, ENQ_DEATH_KEEP);
    ck_assert_uint_eq(info.fields, 3);
    ck_assert_uint_eq(info.dying, 0);
    ck_assert_uint_eq(info.literal, 1u << 2);
    ck_assert_str_eq(info.owner, "B");
    ck_assert_str_eq(info.name, "n");
    ck_assert_mem_eq(info.key, "a\0\0@", 5);
    ck_assert_str_eq(info.id, "of B");
    ck_assert_str_eq(info.peer, "far");
    ck_assert_uint_eq(info.heir, 0);
    end(e);
}

/* Never less than there is, and never below 0. */
TEST(what_is_left_of_a_ttl_is_told_to_the_last_ms)
{
    struct enq_req req = request("a", ENQ_MODE_X);
    struct enq *e = begin();
    struct enq_grant g;

    req.ttl_ms = 60000;
    g = has(e, &req);
    ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, 60000);
    pass_ms(59998);
    ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, 2);
    pass_ms(1);
    ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, 1);
    want(ENQ_OK, enq_renew(e, g.handle, g.token, ENQ_FOREVER));
    ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, ENQ_FOREVER);
    ck_assert_int_eq(looked_at(e, g.handle).ttl_ms, 60000);
    end(e);
}

/* By a clock that is behind by up to so much it ends later by as much: of which
   the holder is told nothing. */
TEST(what_a_deadline_has_more_for_the_clock_is_not_told)
{
    struct enq_req req = request("a", ENQ_MODE_X);
    struct enq *e = begin();
    struct enq_grant g;

    sys_coarse_lag_ns = 100 * NS_PER_MS;
    req.ttl_ms = 60000;
    g = has(e, &req);
    for (int64_t passed = 0; passed <= 100; passed += 50) {
        ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, 60000);
        pass_ms(50);
    }
    ck_assert_int_eq(looked_at(e, g.handle).ttl_left_ms, 59950);
    want(ENQ_OK, enq_renew(e, g.handle, g.token, 120000));
    ck_assert_int_ge(looked_at(e, g.handle).ttl_left_ms, 120000);
    end(e);
}

TEST(a_list_tells_all_of_a_request)
{
    struct enq_info infos[3];
    struct enq *e = begin();
    size_t n = 0;

    has_x(e, "a");
    pass_ms(300);
    waits(e, "a", ENQ_MODE_S, "C");
    pass_ms(200);
    memset(infos, USED, sizeof(infos));
    want(ENQ_OK, enq_list(e, NULL, "C", infos, LENGTH(infos), &n));
    ck_assert_uint_eq(n, 1);
    ck_assert_uint_eq(infos[0].token, 0);
    ck_assert_int_eq(infos[0].granted_ms, 0);
    ck_assert_int_eq(infos[0].age_ms, 200);
    ck_assert_int_eq(infos[0].ttl_left_ms, ENQ_FOREVER);
    ck_assert_uint_eq(infos[0].waiting, 1);
    ck_assert_uint_eq(infos[0].orphaned, 0);
    ck_assert_uint_eq(infos[0].mode, ENQ_MODE_S);
    ck_assert_uint_eq(infos[0].heir, 0);
    ck_assert_str_eq(infos[0].peer, "");
    ck_assert_uint_eq(infos[0].fields, 1);
    ck_assert_uint_eq(infos[0].literal, 0);
    ck_assert_uint_eq((unsigned char)infos[1].owner[0], USED);
    end(e);
}

int main(void)
{
    unit_begin("copy-out-rows");
    ADD(a_list_tells_all_of_a_lock);
    ADD(what_is_left_of_a_ttl_is_told_to_the_last_ms);
    ADD(what_a_deadline_has_more_for_the_clock_is_not_told);
    ADD(a_list_tells_all_of_a_request);
    return unit_end();
}
