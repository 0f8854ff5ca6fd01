/*
 * check_spawn.c - the library's own threads in a program that has much
 * thread-local storage: glibc takes it from each thread's stack.
 */
#include "fake.h"

static __thread volatile char local[16 << 20];
static struct fake fake;

TEST(a_program_with_much_thread_local_storage_opens_a_space)
{
    struct enq_grant g;
    struct enq *e;

    local[sizeof(local) - 1] = 1;
    e = unit_open();
    want(ENQ_OK, unit_lock(e, "n", "f", ENQ_MODE_X, &g));
    enq_close(e);
}

TEST(a_program_with_much_thread_local_storage_comes_through_a_bridge)
{
    fake_begin(&fake);
    fake_close(&fake, fake_open(&fake));
}

int main(void)
{
    unit_begin("spawn");
    ADD(a_program_with_much_thread_local_storage_opens_a_space);
    ADD(a_program_with_much_thread_local_storage_comes_through_a_bridge);
    return unit_end();
}
