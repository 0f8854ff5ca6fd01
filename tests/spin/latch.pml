/*
 * latch.pml - the latch: wait, death, recover (src/sync/latch.[ch], life.c,
 * src/recovery/recover.c).
 *
 * P threads take one of two latches, ROUNDS times each. Any of them may be
 * killed between any two steps, DEATHS times in all, also while it recovers; its
 * slot may be taken again by a new thread. What a latch guards is `dirty` while
 * its holder is at it: the next holder must find it whole.
 *
 * TICK 0: no sleep ends by time. 1: any may, at any moment. 2: only when
 * nothing else in the system can move, and each is counted: a thread that
 * wakes up again and again for nothing sleeps for ever.
 *
 * LOOK_AGAIN: sleep_on() returns if the holder has died meanwhile. As it is,
 * it sleeps on the latch alone then, which nobody may wake: for a tick.
 *
 * EXCHANGE: latch_release() by exchange alone. The plain store may wipe out
 * WAITERS, which only a tick mends; with the exchange no tick is needed.
 *
 * BUG_1  free_dead_latches() asks again which threads are dead
 * BUG_2  latches are freed before what they guard is whole
 * BUG_3  the recovery latch is not taken over from a dead recovering thread
 * BUG_4  a thread that has slept takes the latch without WAITERS
 * BUG_5  wake first, then store
 * BUG_6  is_dead() looks at the liveness word only, not at the slot's reference
 * BUG_7  the recovery latch is taken over by a store and not a swap
 * BUG_8  the holder's liveness word is not watched
 * BUG_9  a sleeper does not compare the latch (no futex)
 */
#ifndef P
#define P 3
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#ifndef ROUNDS
#define ROUNDS 1
#endif
#ifndef TICK
#define TICK 1
#endif
#ifndef LATCHES
#define LATCHES 2
#endif

#define WAITERS 16
#define OWNER(v) ((v) & 15)
#define SLOT(r) (((r) - 1) % P)
#define RECOVERY LATCHES
#define IS_LATCH(w) ((w) < LATCHES)

byte latch[LATCHES + 1]; /* the last: recovery_latch */
bit dirty[LATCHES];     /* what it guards is half made */
byte in[LATCHES];       /* ghost: the living thread inside, + 1 */
byte slot[P];         /* thread_slot.ref */
byte life[P];         /* 0 nobody's, 1 alive, 2 died: FUTEX_OWNER_DIED */
bit kill[P], fin[P];
byte on[P], watched[P]; /* sleeps on this latch, this life (+ 1) */
byte ticks[P];
byte deaths = DEATHS;

#define ASLEEP(p) (on[p] != 0)

/* FUTEX_WAKE of a latch: one sleeper, or all; of a liveness word: one */
inline wake_one(w)
{
    if
    :: on[0] == w + 1 -> on[0] = 0; watched[0] = 0
    :: on[1] == w + 1 -> on[1] = 0; watched[1] = 0
#if P > 2
    :: on[2] == w + 1 -> on[2] = 0; watched[2] = 0
#endif
#if P > 3
    :: on[3] == w + 1 -> on[3] = 0; watched[3] = 0
#endif
    :: else
    fi
}

inline wake_all(w)
{
    i = 0;
    do
    :: i < P ->
        if
        :: on[i] == w + 1 -> on[i] = 0; watched[i] = 0
        :: else
        fi;
        i++
    :: else -> break
    od;
    i = 0
}

inline kernel_wakes_watcher(s)
{
    if
    :: watched[0] == s + 1 -> on[0] = 0; watched[0] = 0
    :: watched[1] == s + 1 -> on[1] = 0; watched[1] = 0
#if P > 2
    :: watched[2] == s + 1 -> on[2] = 0; watched[2] = 0
#endif
#if P > 3
    :: watched[3] == s + 1 -> on[3] = 0; watched[3] = 0
#endif
    :: else
    fi
}

/* life.c: is_dead(). Its loads one by one. */
inline is_dead(ref)
{
#ifdef BUG_6
    dead = (life[SLOT(ref)] == 2)
#else
    dead = 1;
    if
    :: slot[SLOT(ref)] != ref
    :: slot[SLOT(ref)] == ref ->
        dead = (life[SLOT(ref)] == 2);
        if
        :: slot[SLOT(ref)] != ref -> dead = 1
        :: else
        fi
    fi
#endif
}

/* sys_wait(): the kernel compares both latches and puts to sleep in one step */
inline sys_wait(w, value, s)
{
    atomic {
        if
#ifdef BUG_9
        :: true -> on[me] = w + 1; watched[me] = s
#else
        :: latch[w] == value && (s == 0 || life[s - 1] == 1) ->
            on[me] = w + 1;
            watched[me] = s
#endif
        :: else
        fi
    };
    if
    :: !ASLEEP(me)
#if TICK == 1
    :: ASLEEP(me) -> atomic { on[me] = 0; watched[me] = 0 }
#elif TICK == 2
    :: timeout -> atomic {
        on[me] = 0;
        watched[me] = 0;
        ticks[me]++;
        assert(ticks[me] < 8)
    }
#endif
    fi
}

/* recover.c: recover_lock() */
inline recover_lock()
{
    do
    :: v = latch[RECOVERY];
        if
        :: v == 0 -> dead = 1
        :: else -> is_dead(OWNER(v))
        fi;
#ifdef BUG_3
        dead = (v == 0);
#endif
        if
        :: dead -> atomic {
#ifdef BUG_7
            latch[RECOVERY] = ref + WAITERS;
            v = 0;
            break
#else
            if
            :: latch[RECOVERY] == v ->
                latch[RECOVERY] = ref + WAITERS;
                v = 0;
                break
            :: else
            fi
#endif
        }
        :: else -> sys_wait(RECOVERY, v, 0)
        fi
    od
}

/* noted.c: dead_holds() */
inline dead_holds(w)
{
    v = latch[w];
    if
    :: v == 0 -> dead = 0
    :: else -> is_dead(OWNER(v))
    fi
}

inline free_latch(w)
{
    latch[w] = 0;
    d_step { wake_all(w) }
}

inline free_dead_latches()
{
    k = 0;
    do
    :: k < LATCHES ->
        dead_holds(k);
#ifndef BUG_1
        dead = dead && (noted >> k & 1);
#endif
        if
        :: dead -> free_latch(k)
        :: else
        fi;
        k++
    :: else -> k = 0; break
    od
}

/* reclaim.c: reclaim_threads() */
inline free_dead_threads()
{
    k = 0;
    do
    :: k < P ->
        v = slot[k];
        if
        :: v == 0 -> dead = 0
        :: else -> is_dead(v)
        fi;
        if
        :: dead ->
            life[k] = 0; /* life_clear() */
            slot[k] = 0
        :: else
        fi;
        k++
    :: else -> k = 0; break
    od
}

/* recover.c: repair() */
inline recover()
{
    recover_lock();
    /* note_dead_latches() */
    noted = 0;
    k = 0;
    do
    :: k < LATCHES ->
        dead_holds(k);
        if
        :: dead -> noted = noted | (1 << k)
        :: else
        fi;
        k++
    :: else -> k = 0; break
    od;
#ifdef BUG_2
    free_dead_latches();
#endif
    /* rebuild(): clear_derived(), relink() */
    do
    :: k < LATCHES ->
        if
        :: noted >> k & 1 ->
            assert(in[k] == 0);
            dirty[k] = 1;
            dirty[k] = 0
        :: else
        fi;
        k++
    :: else -> k = 0; break
    od;
#ifndef BUG_2
    free_dead_latches();
#endif
    free_dead_threads();
    noted = 0;
    v = 0;
    /* recover_unlock() */
    latch[RECOVERY] = 0;
    d_step { wake_all(RECOVERY) }
}

/* latch.c: sleep_on(), mine */
inline sleep_on(w)
{
    s = SLOT(OWNER(v)) + 1;
    if
    :: life[s - 1] != 1 -> s = 0 /* dead: one watch; of nobody: as good */
    :: else
    fi;
    dead = 1;
    if
#ifdef LOOK_AGAIN
    :: s == 0 -> dead = 0
    :: s != 0 && v & WAITERS
#else
    :: v & WAITERS
#endif
    :: else -> atomic {
        if
        :: latch[w] == v -> latch[w] = v | WAITERS
        :: else -> dead = 0 /* return */
        fi
    }
    fi;
    if
#ifdef BUG_8
    :: dead -> sys_wait(w, (v | WAITERS), 0)
#else
    :: dead -> sys_wait(w, (v | WAITERS), s)
#endif
    :: else
    fi;
    dead = 0;
    s = 0;
#ifndef BUG_4
    mine = ref + WAITERS
#endif
}

/* latch.h: latch_acquire(); latch.c: latch_acquire_slow() */
inline latch_acquire(w)
{
    mine = ref;
    v = 1;
    do
    :: v == 0 -> break
    :: else ->
        v = latch[w];
        if
        :: v == 0 -> atomic {
            if
            :: latch[w] == 0 -> latch[w] = mine; assert(in[w] == 0); in[w] = me + 1
            :: else -> v = 1
            fi
        }
        :: v != 0 ->
            is_dead(OWNER(v));
            if
            :: dead ->
                if
                :: latch[w] == v -> recover()
                :: else
                fi
            :: else -> sleep_on(w)
            fi;
            v = 1
        fi
    od
}

/* latch.h: latch_release() */
inline latch_release(w)
{
#ifdef BUG_5
    atomic { wake_one(w) };
    latch[w] = 0
#else
    if
#ifndef EXCHANGE
    :: latch[w] == ref -> latch[w] = 0 /* between the two WAITERS may come */
    :: latch[w] != ref ->
#else
    :: atomic { latch[w] == ref -> latch[w] = 0 }
    :: atomic { latch[w] != ref -> latch[w] = 0 }
#endif
#ifndef EXCHANGE
        latch[w] = 0;
#endif
        atomic { wake_one(w) }
    fi
#endif
}

proctype Thread(byte me)
{
    byte ref, mine, v, k, i, s, noted, w, rounds, born;
    bit dead;

    do
    :: true ->
        {
            atomic {
                born++;
                ref = 1 + me + P * (born - 1);
                kill[me] = 0;
                life[me] = 1; /* thread.c: slot_claim(): life, then ref */
            }
            slot[me] = ref;
            rounds = 0;
            do
            :: rounds < ROUNDS ->
                if
                :: w = 0
                :: w = 1 % LATCHES
                fi;
                latch_acquire(w);
                ticks[me] = 0;
                assert(dirty[w] == 0);
                dirty[w] = 1;
                dirty[w] = 0;
                atomic { assert(in[w] == me + 1); in[w] = 0 };
                latch_release(w);
                rounds++
            :: else -> break
            od;
            atomic { rounds = 0; w = 0; v = 0; dead = 0; mine = 0; fin[me] = 1 };
        end_done:
            false
        } unless {
            atomic {
                kill[me] ->
                on[me] = 0;
                watched[me] = 0;
                ticks[me] = 0;
                i = 0;
                do
                :: i < LATCHES ->
                    if
                    :: in[i] == me + 1 -> in[i] = 0
                    :: else
                    fi;
                    i++
                :: else -> i = 0; break
                od;
                rounds = 0; w = 0; v = 0; dead = 0; mine = 0; k = 0; s = 0;
                noted = 0;
                life[me] = 2;
                kernel_wakes_watcher(me)
            }
        };
        if
        :: true -> break
        :: born < 2 && slot[me] == 0
        fi
    od
}

#define MAY_DIE(p) (life[p] == 1 && !kill[p] && !fin[p])

proctype Killer()
{
end_killer:
    do
    :: atomic { deaths > 0 && MAY_DIE(0) -> deaths--; kill[0] = 1 }
    :: atomic { deaths > 0 && MAY_DIE(1) -> deaths--; kill[1] = 1 }
#if P > 2
    :: atomic { deaths > 0 && MAY_DIE(2) -> deaths--; kill[2] = 1 }
#endif
#if P > 3
    :: atomic { deaths > 0 && MAY_DIE(3) -> deaths--; kill[3] = 1 }
#endif
    od
}

init
{
    atomic {
        run Thread(0);
        run Thread(1);
#if P > 2
        run Thread(2);
#endif
#if P > 3
        run Thread(3);
#endif
#if DEATHS > 0
        run Killer()
#endif
    }
}
