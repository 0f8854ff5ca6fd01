/*
 * hand.pml - hand-over: unlock, grant scan, grant or retry wake-up; against
 * waiters that go to sleep, give up, die or are stopped (src/lock/grant_scan.c,
 * waiter.c, scope.c: scope_leave_slow, send_wakes; hold.c: hold_unlock).
 *
 * N threads, a session and an entry each, ROUNDS times: ask for the one
 * object, hold it, unlock. `phase` is what the holder of the shard's latch
 * sees. `mem` is what others see: a state that was stored stands in its
 * processor's store buffer (`pend`), first in first out, before the latch's
 * release (`rel`); so does `asleep` = 1 (`doze`). A fence waits for them.
 * Death inside the shard's latch: the next thread recovers (latch.pml).
 * Time: a waiter becomes due, a lock runs out, at any moment.
 *
 * SHARED   bit i: thread i asks for S, else X
 * STRICT   all are due at once
 * IMPATIENT bit i: gives up when it likes
 * DEATHS, STOPS: how many are killed, or stopped while they sleep
 * TTL      bit i: the lock of i runs out, and i never unlocks
 * AS_IS    a waiter leaves time to the one ahead of it (blockers_end)
 *
 * No tick: none that may have the lock sleeps for ever (end states). With
 * deaths, ticks come when nothing else can move (TICK), and are counted.
 *
 * BUG_1  no fence in send_wakes()
 * BUG_2  no fence in sleep_on()
 * BUG_3  wakes before the latch is let go and the state is out
 * BUG_4  sleep_on() without comparing the state
 * BUG_5  a waiter that gives up does not serve those behind it
 * BUG_6  a waiter that is woken by a death does not pass it on
 * BUG_7  the holders' sessions are not watched
 * BUG_8  grant_scan() passes over an earlier waiter that stays
 * BUG_9  a waiter that is granted is not woken
 */
#ifndef N
#define N 3
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef SHARED
#define SHARED 0
#endif
#ifndef IMPATIENT
#define IMPATIENT 0
#endif
#ifndef DEATHS
#define DEATHS 0
#endif
#ifndef STOPS
#define STOPS 0
#endif
#ifndef TTL
#define TTL 0
#endif

#define NOBODY N
#define ALL ((1 << N) - 1)
#define HAS(set, i) ((set) >> (i) & 1)
#define BIT(i) (1 << (i))
/* of those in `set`, any that excludes i */
#define BLOCKS(set, i) ((set) & ~BIT(i) & ~(HAS(SHARED, i) -> SHARED : 0))

#define FREE 0
#define WAITING 1
#define HELD 2
#define STATE(i) (phase[i] + 4 * HAS(retry, i) + 8 * round[i])
#define PHASE(state) ((state) & 3)

byte sh;                 /* the shard's latch: thread + 1 */
byte phase[N], round[N]; /* as the latch's holder sees them */
byte retry, due, expired, dead, stopped, asleep, fin; /* sets */
byte mem[N];             /* entry.state as others see it */
byte pend[N];            /* states in the store buffer of ... */
bit rel[N];              /* and then the release of the latch */
byte doze;               /* asleep = 1 in the store buffer */
byte q[N], nq;           /* the waiters, in order of arrival */
byte held;
byte futex;              /* asleep in the kernel */
byte watched[N];         /* whose liveness words */
byte alarm, own;         /* whose `until` is an expiry; its own being due */
byte kill;
byte left = DEATHS, stops = STOPS;

/* --- the latch --- */

inline lock()
{
    atomic {
        sh == 0 || (HAS(dead, sh - 1) && !rel[sh - 1] && pend[sh - 1] == 0) ->
        if
        :: sh != 0 -> futex = 0 /* recover.c: rouse() */
        :: else
        fi;
        sh = me + 1
    }
}

inline unlock()
{
#ifdef SC
    sh = 0
#else
    rel[me] = 1
#endif
}

#define FENCE (pend[me] == 0 && !rel[me] && !HAS(doze, me))

/* R8: no waiter that is due is left behind with nothing in its way. */
inline none_left_behind()
{
    d_step {
        e = 0;
        queued = 0;
        do
        :: e < nq ->
            if
            :: HAS(due & ~dead, q[e]) ->
                assert(BLOCKS(held | queued, q[e]) != 0);
                queued = queued | BIT(q[e])
            :: else
            fi;
            e++
        :: else -> break
        od;
        e = 0;
        queued = 0
    }
}

/* scope.c: scope_leave_slow(), send_wakes() */
inline leave()
{
#ifdef BUG_3
    atomic { futex = futex & ~(wakes & asleep); wakes = 0 };
#endif
    unlock();
    if
    :: wakes == 0
    :: wakes != 0 ->
#ifndef BUG_1
        FENCE;
#endif
        d = 0;
        do
        :: d < N && HAS(wakes, d) ->
            if
            :: HAS(asleep, d) -> futex = futex & ~BIT(d)
            :: else
            fi;
            d++
        :: d < N && !HAS(wakes, d) -> d++
        :: else -> break
        od;
        atomic { d = 0; wakes = 0 }
    fi
}

/* --- grant_scan.c: grant_narrow() --- */

#ifdef SC
#define STORED(i) mem[i] = STATE(i)
#define DOZE(i) asleep = asleep | BIT(i)
#else
#define STORED(i) pend[me] = pend[me] | BIT(i)
#define DOZE(i) doze = doze | BIT(i)
#endif

inline set_phase(i, what)
{
    phase[i] = what;
    STORED(i)
}

inline dequeue(i)
{
    d = 0;
    do
    :: q[d] == i -> break
    :: else -> d++
    od;
    nq--;
    do
    :: d < nq -> q[d] = q[d + 1]; d++
    :: else -> break
    od;
    q[nq] = 0;
    d = 0
}

inline take_out(i)
{
    if
    :: phase[i] == WAITING -> dequeue(i)
    :: phase[i] == HELD -> held = held & ~BIT(i)
    :: else
    fi;
    retry = retry & ~BIT(i);
    due = due & ~BIT(i);
    expired = expired & ~BIT(i);
    set_phase(i, FREE)
}

#define OVER(i)                                                                \
    (phase[i] == HELD && HAS(expired | dead, i) ||                             \
        phase[i] == WAITING && HAS(dead, i))

inline grant(i)
{
    dequeue(i);
    held = held | BIT(i);
    assert(BLOCKS(held, i) == 0);
    retry = retry & ~BIT(i);
    due = due & ~BIT(i);
    set_phase(i, HELD);
#ifndef BUG_9
    wakes = wakes | BIT(i)
#endif
}

/* grant_scan(self): take_stock(), each_waiter(grant_due), each_waiter(retry_within) */
inline serve(self)
{
    d_step {
        e = 0;
        do
        :: e < N ->
            if
            :: OVER(e) -> take_out(e)
            :: else
            fi;
            e++
        :: else -> break
        od;
        queued = 0;
        young = 0;
        looked = (self == NOBODY);
        e = 0;
        do
        :: e < nq ->
            i = q[e];
            looked = looked || i == self;
            if
            :: !HAS(due, i) && i != self ->
                young = 1;
                if
                :: looked -> break
                :: else -> e++
                fi
#ifdef BUG_8
            :: else -> if
            :: BLOCKS(held, i) -> queued = queued | BIT(i); e++
#else
            :: else -> if
            :: BLOCKS(held | queued, i) -> queued = queued | BIT(i); e++
#endif
            :: else ->
                assert(BLOCKS(queued, i) == 0); /* R7 */
                grant(i)
            fi fi
        :: else -> break
        od;
        e = 0;
        looked = 0; /* those that were told to retry */
        do
        :: young && e < nq ->
            i = q[e];
            if
            :: HAS(due, i) || i == self || BLOCKS(held | queued, i) ||
                    BLOCKS(looked, i) -> e++
            :: else ->
                if
                :: HAS(retry, i) /* once in vain is enough */
                :: else ->
                    retry = retry | BIT(i);
                    STORED(i);
                    wakes = wakes | BIT(i)
                fi;
                looked = looked | BIT(i);
                if
                :: HAS(SHARED, i) -> e++
                :: else -> break
                fi
            fi
        :: else -> break
        od;
        e = 0; i = 0; queued = 0; young = 0; looked = 0
    }
}

/* --- waiter.c --- */

/* blockers_add(), blockers_end(). `until` at once where a session is dead */
inline watch_blockers()
{
    d_step {
        watched[me] = 0;
        before = NOBODY;
        ahead = NOBODY;
        e = 0;
        do
        :: e < N ->
            if
#ifndef BUG_7
            :: phase[e] == HELD && BLOCKS(BIT(e), me) ->
                watched[me] = watched[me] | BIT(e)
#endif
            :: else
            fi;
            e++
        :: else -> break
        od;
        e = 0;
        do
        :: q[e] != me ->
            ahead = q[e];
            if
            :: BLOCKS(BIT(ahead), me) -> before = ahead
            :: else
            fi;
            e++
        :: else -> break
        od;
        if
        :: before != NOBODY -> watched[me] = watched[me] | BIT(before)
        :: else
        fi;
        alarm = alarm | BIT(me);
        own = own & ~BIT(me) | (BIT(me) & ~due);
        if
        :: ahead != NOBODY ->
            ahead_state = STATE(ahead);
#ifdef AS_IS
            alarm = alarm & ~BIT(me);
            own = own & ~BIT(me)
#else
            watched[me] = watched[me] | BIT(ahead)
#endif
        :: else -> ahead_state = 0
        fi;
        seen = STATE(me);
        e = 0;
        before = 0
    }
}

/* what the blockers' deadlines and its own being due come to */
#define TIME_HAS_COME                                                          \
    (HAS(own & due, me) || HAS(alarm, me) && (expired & watched[me]))

/* sleep_on() */
inline sleep_on()
{
    DOZE(me);
#ifndef BUG_2
    FENCE;
#endif
    if
#ifdef BUG_4
    :: true -> atomic { futex = futex | BIT(me) };
#else
    :: mem[me] == seen -> atomic {
        if
        :: mem[me] == seen && !(watched[me] & dead) ->
            futex = futex | BIT(me)
        :: else
        fi
    };
#endif
        if
        :: !HAS(futex, me)
        :: HAS(futex, me) && TIME_HAS_COME ->
            atomic { futex = futex & ~BIT(me) }
        :: HAS(IMPATIENT, me) -> atomic { futex = futex & ~BIT(me) }
#if STOPS > 0
        /* it is blocked by one that is stopped, rightly */
        :: timeout && BLOCKS(stopped & held, me) ->
        end_blocked:
            false
#endif
#ifdef TICK
        :: timeout -> atomic { futex = futex & ~BIT(me); ticks++;
            assert(ticks < 12) }
#endif
        fi
#ifndef BUG_4
    :: mem[me] != seen
#endif
    fi;
    atomic { !HAS(doze, me) -> asleep = asleep & ~BIT(me) }
}

/* may_sleep_on() */
#define MAY_SLEEP_ON                                                           \
    (ahead != NOBODY && mem[ahead] == ahead_state && !TIME_HAS_COME &&         \
        mem[me] == seen && !(watched[me] & dead) && !HAS(IMPATIENT, me))

/* pass_on_deaths() */
inline pass_on_deaths()
{
#ifndef BUG_6
    d_step {
        e = 0;
        do
        :: e < N ->
            if
            :: watched[e] & watched[me] & dead -> futex = futex & ~BIT(e)
            :: else
            fi;
            e++
        :: else -> break
        od;
        e = 0
    }
#endif
    skip
}

/* look_inside(); give_up() */
inline look()
{
    lock();
    serve(me);
    if
    :: phase[me] == HELD -> pending = 0
    :: phase[me] != HELD && HAS(IMPATIENT, me) ->
        d_step { take_out(me) };
#ifndef BUG_5
        serve(NOBODY);
#endif
#ifdef STRICT
        none_left_behind();
#endif
        pending = 0;
        gave_up = 1
    :: phase[me] != HELD -> watch_blockers()
    fi;
    leave()
}

inline wait_for_grant()
{
    pending = 1;
    do
    :: pending ->
        look();
        if
        :: pending ->
            do
            :: true ->
                sleep_on();
                if
                :: MAY_SLEEP_ON
                :: else -> break
                fi
            od;
            pass_on_deaths();
            if
            :: PHASE(mem[me]) == HELD -> pending = 0
            :: else
            fi
        :: else
        fi
    :: else -> break
    od;
    atomic { ahead = 0; ahead_state = 0; seen = 0; watched[me] = 0;
        alarm = alarm & ~BIT(me); own = own & ~BIT(me) }
}

/* --- a thread --- */

/* request.c: request_lock(). What has run out is served first (decide) */
inline request()
{
    lock();
    serve(NOBODY);
    d_step {
        e = 0;
        queued = 0;
        do
        :: e < nq ->
            if
            :: HAS(due, q[e]) -> queued = queued | BIT(q[e])
            :: else
            fi;
            e++
        :: else -> break
        od;
        if
        :: BLOCKS(held | queued, me) ->
            q[nq] = me;
            nq++;
            set_phase(me, WAITING);
#ifdef STRICT
            due = due | BIT(me);
#endif
        :: else ->
            held = held | BIT(me);
            set_phase(me, HELD)
        fi;
        e = 0;
        queued = 0
    };
    pending = (phase[me] == WAITING);
    leave()
}

proctype Thread(byte me)
{
    byte wakes, d, e, i, queued, before, ahead, ahead_state, seen, ticks;
    bit young, looked, pending, gave_up;

    {
        do
        :: round[me] < ROUNDS ->
            gave_up = 0;
            request();
            if
            :: pending -> wait_for_grant()
            :: else
            fi;
            if
            :: gave_up
            :: !gave_up && HAS(TTL, me) -> break
            :: !gave_up && !HAS(TTL, me) ->
                lock();
                d_step {
                    if
                    :: phase[me] == HELD -> take_out(me)
                    :: else
                    fi
                };
                serve(NOBODY);
#ifdef STRICT
                none_left_behind();
#endif
                leave()
            fi;
            atomic { round[me]++; ticks = 0 }
        :: else -> break
        od;
        fin = fin | BIT(me);
    end_done:
        false
    } unless {
        if
        :: HAS(kill, me) -> atomic {
            fin = fin | BIT(me);
            futex = futex & ~BIT(me);
            asleep = asleep & ~BIT(me);
            wakes = 0; d = 0; e = 0; i = 0; queued = 0; before = 0; ahead = 0;
            ahead_state = 0; seen = 0; young = 0; looked = 0; pending = 0;
            gave_up = 0; ticks = 0; watched[me] = 0;
            dead = dead | BIT(me);
            /* the kernel wakes one watcher of the liveness word */
            if
            :: HAS(watched[0], me) && HAS(futex, 0) -> futex = futex & ~BIT(0)
            :: HAS(watched[1], me) && HAS(futex, 1) -> futex = futex & ~BIT(1)
#if N > 2
            :: HAS(watched[2], me) && HAS(futex, 2) -> futex = futex & ~BIT(2)
#endif
#if N > 3
            :: HAS(watched[3], me) && HAS(futex, 3) -> futex = futex & ~BIT(3)
#endif
            :: else
            fi
        }
        :: HAS(stopped, me) ->
        end_stopped:
            false
        fi
    }
}

/* --- store buffers, time, death --- */

#define FLUSH(p)                                                               \
    :: atomic { pend[p] != 0 ->                                                \
        if                                                                     \
        :: HAS(pend[p], 0) -> mem[0] = STATE(0); pend[p] = pend[p] & ~1        \
        :: HAS(pend[p], 1) -> mem[1] = STATE(1); pend[p] = pend[p] & ~2        \
        :: HAS(pend[p] & ALL, 2) -> mem[N - 1] = STATE(N - 1);                 \
            pend[p] = pend[p] & ~4                                             \
        fi }                                                                   \
    :: atomic { pend[p] == 0 && rel[p] -> rel[p] = 0; sh = 0 }                 \
    :: atomic { HAS(doze, p) -> doze = doze & ~BIT(p); asleep = asleep | BIT(p) }

#ifndef SC
proctype Memory()
{
end_memory:
    do
    FLUSH(0)
    FLUSH(1)
#if N > 2
    FLUSH(2)
#endif
    od
}

#endif

#define MAY_STOP(p) (stops > 0 && HAS(futex, p) && !HAS(stopped | dead, p))
#define MAY_DIE(p) (left > 0 && !HAS(kill | fin | stopped, p))
#define EVENTS(p)                                                              \
    :: atomic { phase[p] == WAITING && !HAS(due, p) -> due = due | BIT(p) }    \
    :: atomic { HAS(TTL, p) && phase[p] == HELD && !HAS(expired, p) ->         \
        expired = expired | BIT(p) }                                           \
    :: atomic { MAY_DIE(p) -> left--; kill = kill | BIT(p) }                   \
    :: atomic { MAY_STOP(p) -> stops--; stopped = stopped | BIT(p);            \
        fin = fin | BIT(p) }

proctype World()
{
end_world:
    do
    EVENTS(0)
    EVENTS(1)
#if N > 2
    EVENTS(2)
#endif
    od
}

init
{
    atomic {
        run Thread(0);
        run Thread(1);
#if N > 2
        run Thread(2);
#endif
#ifndef SC
        run Memory();
#endif
        run World()
    }
}
