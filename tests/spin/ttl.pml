/*
 * ttl.pml - a lock that runs out, against renew, unlock and a waiter (src/
 * lock/hold.c: pin_take, pin_over, hold_renew, hold_unlock; transition.c:
 * start_clock, transition_deadline; grant_scan.c: take_stock; wait.c).
 *
 * The holder takes the lock for TTL, renews it RENEWALS times, gives it back;
 * the waiter sleeps until the deadline that it saw, and serves. Time passes at
 * any moment; the coarse clock is behind by LAG at most. `promise` is until
 * when the holder was told that it has the lock, by the exact time.
 *
 * BUG_1  the lag of the coarse clock is not added (start_clock)
 * BUG_2  renew without the latch
 * BUG_3  renew does not look whether the lock has run out
 * BUG_4  the waiter does not read the deadline again under the latch
 * BUG_5  unlock does not compare the generation
 * BUG_6  the waiter sleeps without an end
 */
#define TTL 2
#ifndef LAG
#define LAG 1
#endif
#ifndef RENEWALS
#define RENEWALS 3
#endif
#ifndef WAITERS
#define WAITERS 2
#endif
#ifndef TIME
#define TIME 12
#endif

byte now, coarse;
byte latch;
byte gen = 1, who;  /* the entry that is held: its generation, whose */
byte deadline;
byte promise;       /* ghost */
bit holds = 1;      /* ghost: the holder has not given it back, nor been told */
byte queue;         /* the waiters */
bit woken[WAITERS + 1];
bit over_seen;      /* enq_valid() has said that it is over */

inline lock()
{
    atomic { latch == 0 -> latch = me + 1 }
}

inline unlock()
{
    latch = 0
}

/* serve(): the first waiter has it next */
inline hand_over()
{
    d_step {
        gen++;
        if
        :: queue & 1 -> who = 1; queue = queue & ~1; woken[1] = 1;
            deadline = 255
        :: !(queue & 1) && queue & 2 -> who = 2; queue = queue & ~2;
            woken[WAITERS] = 1; deadline = 255
        :: else -> who = 255; deadline = 255
        fi
    }
}

proctype Holder(byte me)
{
    byte mine, from, n;

    mine = 1;
    do
    :: n < RENEWALS && now < TIME - TTL ->
        n++;
#ifndef BUG_2
        lock();
#endif
        if
#ifdef BUG_3
        :: gen == mine ->
#else
        :: atomic { gen == mine && deadline > coarse ->
            assert(now < deadline + LAG) };
#endif
            from = now;
            deadline = from + TTL;
#ifdef BUG_1
            deadline = deadline - LAG;
#endif
            /* until it returned the old promise stood */
            atomic {
                assert(who == 0);
                promise = (promise > deadline -> promise : deadline);
#ifdef BUG_1
                promise = from + TTL;
#endif
            }
#ifdef BUG_3
            assert(!over_seen)
#endif
        :: else ->
#ifndef BUG_2
            unlock();
#endif
            break
        fi;
#ifndef BUG_2
        unlock()
#endif
    :: break
    :: true ->
    end_keeps: /* and neither renews nor unlocks */
        false
    od;
    lock();
    holds = 0;
    if
#ifdef BUG_5
    :: true -> assert(who == 0 || gen == mine); hand_over()
#else
    :: gen == mine -> assert(who == 0); hand_over()
#endif
    :: else
    fi;
    unlock()
}

proctype Valid()
{
end_valid:
    if
    :: atomic { gen == 1 && deadline <= coarse -> over_seen = 1 }
    fi
}

proctype Waiter(byte me)
{
    byte until;
    bit done, over;

    lock();
    queue = queue | me;
    unlock();
    do
    :: done -> break
    :: else ->
        lock();
        /* serve(self): take_stock() by the exact time */
        if
        :: who == me -> done = 1
        :: who == 255 ->
            who = me; gen++; queue = queue & ~me; done = 1
        :: who != me && who != 255 ->
#ifdef BUG_4
            over = over || deadline <= now;
#else
            over = (deadline <= now);
#endif
            if
            :: over && who == 0 ->
                assert(!holds || now >= promise); /* never early */
                hand_over()
            :: else
            fi;
            over = 0;
            if
            :: who == me -> done = 1
            :: else -> until = deadline
            fi
        fi;
        unlock();
        if
        :: done
        :: !done && woken[me]
#ifndef BUG_6
        :: !done && now >= until && until != 255 ->
#ifdef BUG_4
            over = 1
#endif
            skip
#endif
        fi
    od;
    /* at it, and gives it back */
    lock();
    assert(who == me);
    hand_over();
    unlock()
}

proctype Clock()
{
end_clock:
    do
    :: atomic { (now < TIME || now < deadline && deadline != 255) &&
        now - coarse < LAG -> now++ }
    :: coarse < now -> coarse++
    od
}

init
{
    atomic {
        now = LAG; /* start_clock(): from the coarse clock */
        deadline = coarse + LAG + TTL;
#ifdef BUG_1
        deadline = coarse + TTL;
        promise = now + TTL;
#else
        promise = deadline;
#endif
        promise = now + TTL;
        run Holder(0);
        run Waiter(1);
#if WAITERS > 1
        run Waiter(2);
#endif
        run Valid();
        run Clock()
    }
}
