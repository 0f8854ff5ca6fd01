/*
 * check_leaving.c - a waiter that was told to try, and whose session is closed at
 * that moment: the next one is told.
 *
 * No helper looks meanwhile: the test has the mutex of each, and makes the look
 * of the one that is closed itself.
 */
#include "api/attachment.h"
#include "async/started.h"
#include "sync/sys.h"
#include "told.h"
#include "wait/wait.h"

static uint64_t waits(struct enq *e, const char *owner)
{
    return told_start(e, "k", ENQ_MODE_X, owner, ENQ_FOREVER);
}

/* Its helper does not look from now on, and its bypass window does not end: it is
   told to try, and not granted, however slow this test is. */
static struct started *request_of(struct enq *e, uint64_t ticket)
{
    struct started *r;

    pthread_mutex_lock(&e->async.mutex);
    r = started_find(&e->async, ticket);
    ck_assert_ptr_nonnull(r);
    shm_store(&r->place.e->since_ns, mono_add_ms(sys.now(), 60000).ns);
    return r;
}

static uint64_t state_of(const struct started *r)
{
    return shm_load_acquire(&r->place.e->state);
}

TEST(who_is_told_to_try_and_closed_then_leaves_the_turn_to_the_next)
{
    struct enq *e = unit_open(), *closed = unit_open(), *other = unit_open();
    struct enq_grant held = told_lock(e, "k", ENQ_MODE_X, ENQ_FOREVER);
    uint64_t first = waits(closed, "B"), second = waits(other, "C");
    struct started *told = request_of(closed, first);
    struct started *next = request_of(other, second);
    struct thread *t = thread_enter(closed->map);
    struct enq_blocker blocker;
    struct wait_plan plan;

    want(ENQ_OK, enq_unlock(e, held.handle, held.token));
    ck_assert((state_of(told) & STATE_RETRY) != 0);
    ck_assert((state_of(next) & STATE_RETRY) == 0);
    shm_store_release(&closed->session.slot->state, SESSION_ENDING);
    want(ENQ_CANCELLED,
        wait_look_started(&closed->session, t, &told->place, told->deadline,
            &blocker, &plan));
    ck_assert((state_of(next) & STATE_RETRY) != 0 ||
        STATE_PHASE(state_of(next)) == PHASE_HELD);
    pthread_mutex_unlock(&other->async.mutex);
    pthread_mutex_unlock(&closed->async.mutex);
    want(ENQ_OK, told_without_descriptor(other).result);
    enq_close(closed);
    unit_healthy(e);
    enq_close(other);
    enq_close(e);
}

int main(void)
{
    unit_begin("leaving");
    ADD(who_is_told_to_try_and_closed_then_leaves_the_turn_to_the_next);
    return unit_end();
}
