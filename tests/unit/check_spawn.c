/*
 * check_spawn.c - the library's own threads in a program that has much
 * thread-local storage: glibc takes it from each thread's stack.
 */
#include <signal.h>

#include "base/spawn.h"
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

static void *note_blocked(void *blocked)
{
    pthread_sigmask(SIG_BLOCK, NULL, blocked);
    return NULL;
}

static bool can_be_blocked(int signal)
{
    static const int never[] = {
        SIGBUS, SIGSEGV, SIGFPE, SIGILL, SIGTRAP, SIGSYS, SIGKILL, SIGSTOP};

    for (size_t i = 0; i < LENGTH(never); i++)
        if (signal == never[i])
            return false;
    return true;
}

/* One of the program's own may be blocked already. Faults of the thread itself
   cannot wait. */
TEST(no_signal_comes_to_a_thread_of_ours_and_the_program_blocks_what_it_did)
{
    pthread_t thread;
    sigset_t mine, before, after, blocked;

    sigemptyset(&mine);
    sigaddset(&mine, SIGUSR1);
    pthread_sigmask(SIG_BLOCK, &mine, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &before);
    want(0, spawn_thread(&thread, 1 << 16, note_blocked, &blocked));
    pthread_join(thread, NULL);
    pthread_sigmask(SIG_BLOCK, NULL, &after);
    for (int signal = 1; signal < SIGSYS; signal++) {
        ck_assert_int_eq(sigismember(&after, signal),
            sigismember(&before, signal));
        ck_assert_int_eq(sigismember(&blocked, signal), can_be_blocked(signal));
    }
}

int main(void)
{
    unit_begin("spawn");
    ADD(no_signal_comes_to_a_thread_of_ours_and_the_program_blocks_what_it_did);
    ADD(a_program_with_much_thread_local_storage_opens_a_space);
    ADD(a_program_with_much_thread_local_storage_comes_through_a_bridge);
    return unit_end();
}
