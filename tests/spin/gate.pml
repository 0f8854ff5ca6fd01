/*
 * gate.pml - generic and concrete requests of one name (src/lock/scope.[ch],
 * links.c: links_add_generic, links_remove_generic; recover.c: set_gates).
 *
 * Two shards with a key each; a generic request overlaps both. N threads, each
 * concrete (in shard HOME(i)) or generic (GENERIC, a bit each), ROUNDS times:
 * ask, hold if nothing is in the way, give back. The gate's latch, the shards'
 * latches, `raised`, and what recover() makes of them are as in the code; so is
 * each load and store of `raised`. What is linked is what can be seen: an
 * entry is in `ring[shard]` or in `generic` until it is unlinked, and true is
 * `held` alone. DEATHS times a thread dies at any step; the next that wants its
 * latch recovers (latch.pml proves that one does), in the order of rebuild().
 *
 * BUG_1  raised after the visit of the shards
 * BUG_2  the shards are not drained
 * BUG_3  enter_concrete() reads the gate before it takes the shard's latch
 * BUG_4  the gate's latch is freed before `raised` is set
 * BUG_5  a wide scope does not keep the gate raised for itself
 * BUG_6  set_gates() lowers the gate to zero first
 * BUG_7  recover() leaves `raised` as it is
 */
#ifndef N
#define N 3
#endif
#ifndef GENERIC
#define GENERIC 4
#endif
#ifndef ROUNDS
#define ROUNDS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif

#define HAS(set, i) ((set) >> (i) & 1)
#define BIT(i) (1 << (i))
#define IS_GENERIC HAS(GENERIC, me)
#define HOME(i) ((i) & 1)
#define IN(s) (BIT(0) << (s))
/* concrete threads of shard s */
#define OF(s) ((s) == 0 -> 5 & ~GENERIC : 10 & ~GENERIC)

byte gate, shard[2];   /* latches: thread + 1 */
short raised;
byte ring[2], generic; /* derived: which are linked */
byte n_objects[2];
byte held;             /* true: state is HELD */
byte kill, dead;
byte left = DEATHS;

#define DEAD(latch) ((latch) != 0 && HAS(dead, (latch) - 1))

/* recover.c: rebuild() for those latches that a dead thread holds. In the order of
   the code, as a holder of other latches goes on beside it; atomic but for
   the gate, which the narrow look at without its latch */
inline recover()
{
    atomic {
        recovery == 0 -> recovery = 1;
        i = 0;
        do
        :: i < 2 ->
            if
            :: DEAD(shard[i]) ->
                ring[i] = held & OF(i);
                n_objects[i] = (ring[i] != 0)
            :: else
            fi;
            i++
        :: else -> break
        od;
        i = 0;
        gated = DEAD(gate);
        if
        :: gated -> generic = held & GENERIC
        :: else
        fi
    };
#ifdef BUG_4
    if
    :: gated -> gate = 0
    :: else
    fi;
#endif
#ifdef BUG_6
    if
    :: gated -> raised = 0
    :: else
    fi;
#endif
#ifndef BUG_7
    if
    :: gated -> atomic {
        raised = HAS(generic, 0) + HAS(generic, 1) + HAS(generic, 2) +
            HAS(generic, 3)
    }
    :: else
    fi;
#endif
    /* free_dead_latches(): shards, then the gate */
    if
    :: DEAD(shard[0]) -> shard[0] = 0
    :: else
    fi;
    if
    :: DEAD(shard[1]) -> shard[1] = 0
    :: else
    fi;
    if
    :: gated && DEAD(gate) -> gate = 0
    :: else
    fi;
    atomic { gated = 0; recovery = 0 }
}

bit recovery;

inline latch_acquire(w)
{
    do
    :: atomic { w == 0 -> w = me + 1; break }
    :: DEAD(w) -> recover()
    od
}

inline latch_release(w)
{
    w = 0
}

/* --- scope.c --- */

inline drain_shards()
{
#ifndef BUG_2
    latch_acquire(shard[0]);
    latch_release(shard[0]);
    latch_acquire(shard[1]);
    latch_release(shard[1])
#else
    skip
#endif
}

inline enter_wide()
{
    latch_acquire(gate);
    wide = 1;
#ifdef BUG_1
    drain_shards();
    raised++
#elif defined(BUG_5)
    drain_shards()
#else
    raised++;
    if
    :: raised == 1 -> drain_shards()
    :: else
    fi
#endif
}

inline leave_wide()
{
#ifndef BUG_5
    raised--;
#endif
    wide = 0;
    latch_release(gate)
}

/* enter_if_raised() within */
inline enter_concrete()
{
    do
    :: true ->
#ifdef BUG_3
        down = (raised == 0);
        latch_acquire(shard[HOME(me)]);
#else
        latch_acquire(shard[HOME(me)]);
        down = (raised == 0);
#endif
        if
        :: down -> break
        :: else
        fi;
        latch_release(shard[HOME(me)]);
        latch_acquire(gate);
        if
        :: raised == 0 -> latch_release(gate)
        :: else -> wide = 1; raised++; break
        fi
    od
}

inline enter()
{
    if
    :: IS_GENERIC -> enter_wide()
    :: else -> enter_concrete()
    fi
}

inline leave()
{
    if
    :: wide -> leave_wide()
    :: else -> latch_release(shard[HOME(me)])
    fi
}

/* scope_visit(): visit_wide(), or the object's own ring */
inline visit()
{
    if
    :: !wide -> seen = ring[HOME(me)]
    :: else ->
        seen = generic;
        if
        :: !IS_GENERIC ->
            latch_acquire(shard[HOME(me)]);
            seen = seen | ring[HOME(me)];
            latch_release(shard[HOME(me)])
        :: else ->
            /* n_objects is read without the latch */
            if
            :: n_objects[0] > 0 ->
                latch_acquire(shard[0]);
                seen = seen | ring[0];
                latch_release(shard[0])
            :: else
            fi;
            if
            :: n_objects[1] > 0 ->
                latch_acquire(shard[1]);
                seen = seen | ring[1];
                latch_release(shard[1])
            :: else
            fi
        fi
    fi;
    /* entry_over(): of the dead nothing is in the way */
    atomic { busy = (seen & held & ~dead) != 0; seen = 0 }
}

/* links.h: guard_enter(), guard_leave() */
inline guard_enter()
{
    if
    :: wide && !IS_GENERIC -> latch_acquire(shard[HOME(me)])
    :: else
    fi
}

inline guard_leave()
{
    if
    :: wide && !IS_GENERIC -> latch_release(shard[HOME(me)])
    :: else
    fi
}

/* the ring is read, and then written: two that do so at once lose one */
inline link()
{
    if
    :: IS_GENERIC -> generic = generic | BIT(me); raised++
    :: else ->
        copy = ring[HOME(me)];
        ring[HOME(me)] = copy | BIT(me);
        n_objects[HOME(me)] = 1;
        copy = 0
    fi
}

inline unlink()
{
    if
    :: IS_GENERIC -> generic = generic & ~BIT(me); raised--
    :: else ->
        copy = ring[HOME(me)];
        ring[HOME(me)] = copy & ~BIT(me);
        n_objects[HOME(me)] = (ring[HOME(me)] != 0);
        copy = 0
    fi
}

#define OVERLAPS(i, j) (HAS(GENERIC, i) || HAS(GENERIC, j) || HOME(i) == HOME(j))
#define CLASH(i, j)                                                            \
    ((i) != (j) && HAS(held & ~dead, i) && HAS(held & ~dead, j) && OVERLAPS(i, j))

inline no_two()
{
    assert(!CLASH(me, 0) && !CLASH(me, 1) && !CLASH(me, 2) && !CLASH(me, 3))
}

proctype Thread(byte me)
{
    byte i, rounds, seen, copy;
    bit wide, down, busy, gated;

    {
        do
        :: rounds < ROUNDS ->
            enter();
            visit();
            if
            :: !busy ->
                guard_enter();
                link();
                atomic { held = held | BIT(me); no_two() }; /* set_state() */
                guard_leave();
                leave();
                enter();
                guard_enter();
                unlink();
                held = held & ~BIT(me);
                guard_leave();
                leave()
            :: else -> busy = 0; leave()
            fi;
            rounds++
        :: else -> break
        od;
    end_done:
        false
    } unless {
        atomic {
            HAS(kill, me) && !gated ->
            dead = dead | BIT(me);
            i = 0; rounds = 0; seen = 0; wide = 0; down = 0; busy = 0;
            copy = 0
        }
    }
}

#define MAY_DIE(p) (left > 0 && !HAS(kill, p))

proctype Killer()
{
end_killer:
    do
    :: atomic { MAY_DIE(0) -> left--; kill = kill | 1 }
    :: atomic { MAY_DIE(1) -> left--; kill = kill | 2 }
    :: atomic { MAY_DIE(2) -> left--; kill = kill | 4 }
#if N > 3
    :: atomic { MAY_DIE(3) -> left--; kill = kill | 8 }
#endif
    od
}

/* At rest the gate is down, and nothing of the living is linked. */
proctype Rest()
{
    timeout ->
    if
    :: gate == 0 && shard[0] == 0 && shard[1] == 0 ->
        assert((held & ~dead) == 0 && (ring[0] & ~dead) == 0 &&
            (ring[1] & ~dead) == 0 && (generic & ~dead) == 0);
        assert(raised == HAS(generic, 0) + HAS(generic, 1) +
            HAS(generic, 2) + HAS(generic, 3))
    :: else -> assert(DEAD(gate) || DEAD(shard[0]) || DEAD(shard[1]))
    fi
}

init
{
    atomic {
        run Thread(0);
        run Thread(1);
        run Thread(2);
#if N > 3
        run Thread(3);
#endif
        run Killer();
        run Rest()
    }
}
