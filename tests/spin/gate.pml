/*
 * gate.pml - generic and concrete requests of one name (src/lock/scope.[ch],
 * links.c: links_add_generic, links_remove_generic; recover.c: set_gates).
 *
 * Two shards of one bucket, with a key each; a generic request overlaps both. N
 * threads, each concrete (in bucket HOME(i)) or generic (GENERIC, a bit each),
 * ROUNDS times: ask, hold if nothing is in the way, give back. The gate's latch,
 * the shards' and the buckets', SHARD_EMPTY, `raised`, `remade`, and what
 * recover() makes of them are as in the code; so is the order in which a scan
 * and a request load and store them, each sequentially consistent. What is
 * linked is what can be seen: an entry is in `ring[bucket]` or in `generic`
 * until it is unlinked, and true is `held` alone. DEATHS times a thread dies at
 * any step; the next that wants its latch recovers (latch.pml proves that one
 * does), in the order of rebuild(); MORTAL says which may. OTHER generic entries
 * are of other names of the gate: they overlap nothing, and keep it raised.
 *
 * BUG_1  raised after the visit of the buckets
 * BUG_2  a scan looks at what is in a bucket, and not at its latch
 * BUG_3  enter_concrete() reads the gate before it takes the bucket's latch
 * BUG_4  the gate's latch is freed before `raised` is set
 * BUG_5  a wide scope does not keep the gate raised for itself
 * BUG_6  set_gates() lowers the gate to zero first
 * BUG_7  recover() leaves `raised` as it is
 * BUG_8  a request does not look under its latch whether the shard is empty
 * BUG_9  a shard is said to be empty after the look, not before
 * BUG_10 a bucket may be made anew while a scan looks at it
 * BUG_11 recover() leaves a shard empty whose scan died
 * BUG_12 beside what does not overlap a request lets go of the gate before it has
 *        its bucket's latch
 * BUG_13 a request passes the gate without a look whether anything overlaps
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

#ifndef OTHER
#define OTHER 0
#endif
#ifndef MORTAL
#define MORTAL 15 /* which may die, a bit each */
#endif

#define HAS(set, i) ((set) >> (i) & 1)
#define BIT(i) (1 << (i))
#define IS_GENERIC HAS(GENERIC, me)
#define HOME(i) ((i) & 1)
#define IN(s) (BIT(0) << (s))
/* concrete threads of bucket s */
#define OF(s) ((s) == 0 -> 5 & ~GENERIC : 10 & ~GENERIC)

byte gate, shard[2], bucket[2]; /* latches: thread + 1, or NOBODY */
bit vacant[2];                  /* SHARD_EMPTY */
byte remade;
short raised = OTHER;
byte ring[2], generic; /* derived: which are linked */
byte held;             /* true: state is HELD */
byte kill, dead;
byte left = DEATHS;

#define NOBODY 9
#define DEAD(latch)                                                            \
    ((latch) == NOBODY || ((latch) != 0 && HAS(dead, (latch) - 1)))

/* recover.c: rebuild() for those latches that a dead thread holds. In the order of
   the code, as a holder of other latches goes on beside it; atomic but for
   the gate, which the narrow look at without its latch */
inline recover()
{
    atomic {
        recovery == 0 -> recovery = 1;
        noted = 0;
        i = 0;
        do
        :: i < 2 ->
            if
            :: DEAD(bucket[i]) -> bucket[i] = NOBODY; noted = noted | IN(i)
            :: else
            fi;
            i++
        :: else -> break
        od;
        freed = DEAD(shard[0]) | DEAD(shard[1]) << 1;
        i = 0;
        gated = DEAD(gate);
        if
        :: gated -> generic = held & GENERIC
        :: else
        fi;
        if
        :: noted -> remade++
        :: else
        fi
    };
    /* clear_derived(), of which a scan sees what it sees */
    atomic {
        if
        :: HAS(noted, 0) -> ring[0] = 0
        :: else
        fi;
        if
        :: HAS(noted, 1) -> ring[1] = 0
        :: else
        fi
    };
    atomic {
        if
        :: HAS(noted, 0) -> ring[0] = held & OF(0)
        :: else
        fi;
        if
        :: HAS(noted, 1) -> ring[1] = held & OF(1)
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
        raised = OTHER + HAS(generic, 0) + HAS(generic, 1) +
            HAS(generic, 2) + HAS(generic, 3)
    }
    :: else
    fi;
#endif
    /* free_dead_latches(): buckets and shards, then the gate */
    atomic {
        if
        :: HAS(noted, 0) -> bucket[0] = 0
        :: else
        fi;
        if
        :: HAS(noted, 1) -> bucket[1] = 0
        :: else
        fi
    };
    atomic {
        i = 0;
        do
        :: i < 2 ->
            if
            :: HAS(freed, i) ->
#ifndef BUG_11
                vacant[i] = 0;
#endif
                shard[i] = 0
            :: else
            fi;
            i++
        :: else -> break
        od
    };
    if
    :: gated && DEAD(gate) -> gate = 0
    :: else
    fi;
    atomic { gated = 0; noted = 0; freed = 0; recovery = 0 }
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

/* spot_latch(): the shard is looked at before its bucket is latched, and again
   under the latch, before `raised` is read */
inline spot_latch(b)
{
    do
    :: true ->
        vacant[b] = 0;
        latch_acquire(bucket[b]);
#ifndef BUG_8
        if
        :: vacant[b] -> latch_release(bucket[b])
        :: else -> break
        fi
#else
        break
#endif
    od
}

inline enter_wide()
{
    latch_acquire(gate);
    wide = 1;
#if !defined(BUG_1) && !defined(BUG_5)
    raised++
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

/* enter_if_raised() within, and scope_pass() */
inline enter_concrete()
{
    do
    :: true ->
#ifdef BUG_3
        down = (raised == 0);
        spot_latch(HOME(me));
#else
        spot_latch(HOME(me));
        down = (raised == 0);
#endif
        if
        :: down -> break
        :: else
        fi;
        latch_release(bucket[HOME(me)]);
        latch_acquire(gate);
        if
        :: raised == 0 -> latch_release(gate)
#ifdef BUG_13
        :: raised != 0 ->
#else
        :: raised != 0 && generic == 0 ->
#endif
            /* enter_beside() */
#ifdef BUG_12
            latch_release(gate);
            spot_latch(HOME(me));
#else
            spot_latch(HOME(me));
            latch_release(gate);
#endif
            break
        :: else ->
            wide = 1;
            raised++;
            spot_latch(HOME(me));
            latch_release(bucket[HOME(me)]);
            break
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
    :: else -> latch_release(bucket[HOME(me)])
    fi
}

/* may_skip(), see_bucket() */
inline scan_bucket(b)
{
#ifdef BUG_2
    some = ring[b] != 0;
#else
    some = bucket[b] != 0;
    if
    :: !some -> some = ring[b] != 0
    :: else
    fi;
#ifndef BUG_10
    if
    :: !some -> some = (remade != version)
    :: else
    fi;
#endif
#endif
    if
    :: some ->
        latch_acquire(bucket[b]);
        seen = seen | ring[b];
        latch_release(bucket[b])
    :: else
    fi
}

/* say_if_empty() */
inline say_if_empty(b)
{
#ifdef BUG_9
    if
    :: bucket[b] == 0 ->
        if
        :: ring[b] == 0 -> vacant[b] = 1
        :: else
        fi
    :: else
    fi
#else
    vacant[b] = 1;
    if
    :: bucket[b] != 0 -> vacant[b] = 0
    :: else ->
        if
        :: ring[b] != 0 -> vacant[b] = 0
        :: else
        fi
    fi
#endif
}

inline see_shard(b)
{
    latch_acquire(shard[b]);
    if
    :: vacant[b] -> skip
    :: else ->
        scan_bucket(b);
        if
        :: !some -> say_if_empty(b)
        :: else
        fi;
        some = 0
    fi;
    latch_release(shard[b])
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
            spot_latch(HOME(me));
            seen = seen | ring[HOME(me)];
            latch_release(bucket[HOME(me)])
        :: else ->
            version = remade;
            see_shard(0);
            see_shard(1)
        fi
    fi;
#ifdef BUG_1
    if
    :: IS_GENERIC -> raised++
    :: else
    fi;
#endif
    /* entry_over(): of the dead nothing is in the way */
    atomic { busy = (seen & held & ~dead) != 0; seen = 0; version = 0 }
}

/* links.h: guard_enter(), guard_leave() */
inline guard_enter()
{
    if
    :: wide && !IS_GENERIC -> spot_latch(HOME(me))
    :: else
    fi
}

inline guard_leave()
{
    if
    :: wide && !IS_GENERIC -> latch_release(bucket[HOME(me)])
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
    byte i, rounds, seen, copy, noted, freed, version;
    bit wide, down, busy, gated, some;

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
#ifdef BUG_1
                if
                :: IS_GENERIC -> raised++
                :: else
                fi;
#endif
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
            HAS(kill, me) && !gated && !noted && !freed ->
            dead = dead | BIT(me);
            i = 0; rounds = 0; seen = 0; wide = 0; down = 0; busy = 0;
            copy = 0; some = 0; version = 0
        }
    }
}

#define MAY_DIE(p) (left > 0 && !HAS(kill, p) && HAS(MORTAL, p))

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

/* At rest only others keep the gate raised, and nothing of the living is linked. */
proctype Rest()
{
    timeout ->
    if
    :: gate == 0 && shard[0] == 0 && shard[1] == 0 && bucket[0] == 0 &&
        bucket[1] == 0 ->
        assert((held & ~dead) == 0 && (ring[0] & ~dead) == 0 &&
            (ring[1] & ~dead) == 0 && (generic & ~dead) == 0);
        assert(raised == OTHER + HAS(generic, 0) + HAS(generic, 1) +
            HAS(generic, 2) + HAS(generic, 3))
    :: else ->
        assert(DEAD(gate) || DEAD(shard[0]) || DEAD(shard[1]) ||
            DEAD(bucket[0]) || DEAD(bucket[1]))
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
