/*
 * check_lag.c - the coarse clock stands still: the CPU that counts the
 * kernel's ticks does not run, and ours does.
 */
#include <unistd.h>

#include "sync/sys.h"
#include "unit.h"

static mono_t stopped;

static mono_t coarse_stopped(void)
{
    return stopped;
}

/* For so long already. */
static struct enq *open_with_a_lag_of(int64_t ms)
{
    struct enq *e = unit_open();

    stopped = mono_add_ns(sys.now(), -ms * NS_PER_MS);
    sys.coarse = coarse_stopped;
    return e;
}

static int64_t left_of(struct enq *e, enq_handle handle)
{
    struct enq_info info[8];
    size_t total;

    want(ENQ_OK, enq_list(e, NULL, NULL, info, LENGTH(info), &total));
    for (size_t i = 0; i < total && i < LENGTH(info); i++)
        if (info[i].handle == handle)
            return info[i].ttl_left_ms;
    return 0;
}

static const int64_t ttls[] = {30, 1000, 59999, 60000, 900000};

TEST(no_ttl_ends_early)
{
    struct enq *e = open_with_a_lag_of(900);
    int64_t before = sys.now().ns;
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e,
            ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = ttls[_i]), &g));
    ck_assert_int_ge(left_of(e, g.handle),
        ttls[_i] - (sys.now().ns - before) / NS_PER_MS - 1);
    want(ENQ_OK, enq_unlock(e, g.handle, g.token));
    enq_close(e);
}

TEST(no_ttl_of_a_set_ends_early)
{
    struct enq *e = open_with_a_lag_of(900);
    int64_t before = sys.now().ns;
    struct enq_grant g[2];
    const struct enq_req *const set[] = {
        ENQ_REQ(.name = "n", .key = {"a"}, .mode = ENQ_MODE_X,
            .ttl_ms = ttls[_i]),
        ENQ_REQ(.name = "n", .key = {"b"}, .mode = ENQ_MODE_X,
            .ttl_ms = ttls[_i]),
    };

    want(ENQ_OK, enq_lock_set(e, set, 2, g));
    for (int i = 0; i < 2; i++)
        ck_assert_int_ge(left_of(e, g[i].handle),
            ttls[_i] - (sys.now().ns - before) / NS_PER_MS - 1);
    enq_close(e);
}

static struct enq_grant hold_till_it_has_run_out(struct enq *e)
{
    struct enq_grant g;

    want(ENQ_OK,
        enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X, .ttl_ms = 20),
            &g));
    usleep(25000);
    return g;
}

/* Nobody else has taken it; but its time is over (R15). */
TEST(what_has_run_out_is_not_renewed)
{
    struct enq *e = open_with_a_lag_of(0);
    struct enq_grant g;

    g = hold_till_it_has_run_out(e);
    want(ENQ_EXPIRED, enq_renew(e, g.handle, g.token, 1000));
    enq_close(e);
}

TEST(what_has_run_out_is_not_valid)
{
    struct enq *e = open_with_a_lag_of(0);
    struct enq_grant g;

    g = hold_till_it_has_run_out(e);
    eventually(enq_valid(e, g.handle) == ENQ_EXPIRED);
    enq_close(e);
}

TEST(what_has_run_out_is_in_nobodys_way)
{
    struct enq *e = open_with_a_lag_of(0);
    struct enq_grant h;

    hold_till_it_has_run_out(e);
    want(ENQ_OK, enq_lock(e, ENQ_REQ(.name = "n", .mode = ENQ_MODE_X), &h));
    enq_close(e);
}

int main(void)
{
    unit_begin("lag");
    ADD_LOOP(no_ttl_ends_early, LENGTH(ttls));
    ADD_LOOP(no_ttl_of_a_set_ends_early, LENGTH(ttls));
    ADD(what_has_run_out_is_not_renewed);
    ADD(what_has_run_out_is_not_valid);
    ADD(what_has_run_out_is_in_nobodys_way);
    return unit_end();
}
