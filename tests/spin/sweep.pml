/*
 * sweep.pml - the reaping of a dead session by several processes at once,
 * while its entries are adopted, and its page and slot used anew
 * (src/recovery/reap.c: reap, erase, uncache; hold_end.c: end_one, end_pinned;
 * pin.c: pin_take; hold.c: hold_adopt; slab.c: harvest_one; session.c: claim).
 *
 * The dead session has a page of three entries: two held locks and one that
 * lay in a magazine. BURIERS processes reap it; one adopts the second lock
 * if it is quick enough; one claims the page for a session of its own, which
 * takes the dead one's slot as soon as that is free, and holds a lock in each
 * entry it can have. Reapers die at any step, DEATHS times.
 *
 * BUG_1  end_pinned() does not look whose the entry is
 * BUG_2  erase() does not look whether the slot is still the dead one's
 * BUG_3  a session's reference has no generation
 * BUG_4  the recovery latch is not taken over from the dead
 * BUG_5  the slot is freed, the pages are not
 */
#ifndef BURIERS
#define BURIERS 2
#endif
#ifndef DEATHS
#define DEATHS 1
#endif
#define E 3
#define FREE 0
#define CACHED 1
#define HELD 2
#define GONE 3
#define PHASE(s) ((s) & 3)
#define GEN(s) ((s) >> 2)
#define STATE(gen, phase) ((gen) << 2 | (phase))

#define DEAD_ONE 1
#define ADOPTER 2
#ifdef BUG_3
#define NEW_ONE DEAD_ONE
#else
#define NEW_ONE 3
#endif

byte latch, recovery;  /* process + 1 */
byte state[E], whose[E];
byte owner = DEAD_ONE; /* of the page */
byte slot = DEAD_ONE;
bit dead[BURIERS], kill[BURIERS];
byte left = DEATHS, reaped, adopted;
bit claimed, took;

inline lock(w)
{
    do
    :: atomic { w == 0 -> w = me + 1; break }
#ifdef BUG_4
    :: atomic { w != 0 && w <= BURIERS && dead[w - 1] && me == 200 -> break }
#else
    :: atomic { w != 0 && w <= BURIERS && dead[w - 1] -> w = me + 1; break }
#endif
    od
}

/* a swap of `from` for `to` */
inline swap(e, from, to, done)
{
    atomic {
        if
        :: state[e] == from -> state[e] = to; done = 1
        :: else -> done = 0
        fi
    }
}

/* hold_end.c: end_one() */
inline end_one(e)
{
    s = state[e];
    if
    :: PHASE(s) == HELD && whose[e] == DEAD_ONE ->
        lock(latch);
        now = state[e];
        if
        :: GEN(now) == GEN(s) && PHASE(now) == HELD ->
            if
#ifdef BUG_1
            :: true ->
#else
            :: whose[e] == DEAD_ONE ->
#endif
                state[e] = STATE(GEN(now), GONE) /* slab_reap() */
            :: else /* adopted meanwhile */
            fi
        :: else
        fi;
        latch = 0
    :: else
    fi;
    s = 0;
    now = 0
}

inline uncache(e)
{
    s = state[e];
    if
    :: PHASE(s) == CACHED ->
        swap(e, s, STATE(GEN(s) + 1, FREE), ok)
    :: else
    fi;
    s = 0;
    ok = 0
}

inline erase()
{
    lock(recovery);
    if
#ifdef BUG_2
    :: true ->
#else
    :: slot == DEAD_ONE ->
#endif
        /* slab_each_of(): pages of its own */
        if
        :: owner == DEAD_ONE -> uncache(0)
        :: else
        fi;
        if
        :: owner == DEAD_ONE -> uncache(1)
        :: else
        fi;
        if
        :: owner == DEAD_ONE -> uncache(2)
        :: else
        fi;
#ifndef BUG_5
        if
        :: owner == DEAD_ONE -> owner = 0 /* page_orphan_all() */
        :: else
        fi;
#endif
        slot = 0
    :: else
    fi;
    recovery = 0
}

proctype Reaper(byte me)
{
    byte s, now;
    bit ok;

    {
        /* reap_dead(): slot named, dead, still named */
        if
        :: slot == DEAD_ONE ->
            /* hold_release_all(): slab_each_of() */
            if
            :: owner == DEAD_ONE -> end_one(0); end_one(1); end_one(2)
            :: else
            fi;
            erase()
        :: else
        fi;
        reaped++;
    end_done:
        false
    } unless {
        atomic { kill[me] -> dead[me] = 1; s = 0; now = 0; ok = 0 }
    }
}

/* hold.c: hold_adopt() of the second, by its id */
proctype Adopter(byte me)
{
    byte s;

    s = state[1];
    if
    :: PHASE(s) == HELD && whose[1] == DEAD_ONE ->
        lock(latch);
        if
        :: state[1] == s && whose[1] == DEAD_ONE ->
            whose[1] = ADOPTER;
            adopted = 1;
            latch = 0;
            assert(state[1] == s);
            lock(latch);
            assert(state[1] == s && whose[1] == ADOPTER);
            state[1] = STATE(GEN(s) + 1, FREE);
            latch = 0
        :: else -> latch = 0
        fi
    :: else
    fi
}

/* harvest_one(); then a lock in it, and back */
inline use(e)
{
    s = state[e];
    if
    :: PHASE(s) == FREE || PHASE(s) == GONE ->
        mine = STATE(GEN(s) + 1, CACHED);
        swap(e, s, mine, ok);
        if
        :: ok ->
            assert(state[e] == mine);
            lock(latch);
            whose[e] = NEW_ONE;
            assert(state[e] == mine);
            mine = STATE(GEN(mine), HELD);
            state[e] = mine;
            latch = 0;
            lock(latch);
            assert(state[e] == mine && whose[e] == NEW_ONE);
            state[e] = STATE(GEN(mine) + 1, CACHED);
            latch = 0;
            ok = 0
        :: else
        fi
    :: else
    fi;
    s = 0;
    mine = 0
}

proctype Claimer(byte me)
{
    byte s, mine;
    bit ok;

    if
    :: atomic { slot == 0 -> slot = NEW_ONE; took = 1 }
    :: slot == DEAD_ONE /* another slot */
    fi;
    if
    :: atomic { owner == 0 -> owner = NEW_ONE };
        claimed = 1;
        use(0);
        use(1);
        use(2);
        assert(owner == NEW_ONE);
        assert(!took || slot == NEW_ONE)
    :: reaped == BURIERS && owner != 0
    fi
}

#define MAY_DIE(p) (left > 0 && !kill[p])

proctype Killer()
{
end_killer:
    do
    :: atomic { MAY_DIE(0) -> left--; kill[0] = 1 }
    :: atomic { MAY_DIE(1) -> left--; kill[1] = 1 }
#if BURIERS > 2
    :: atomic { MAY_DIE(2) -> left--; kill[2] = 1 }
#endif
    od
}

/* At rest, one reaper having lived: nothing live is the dead one's. */
proctype Rest()
{
    timeout ->
    assert(slot != DEAD_ONE || NEW_ONE == DEAD_ONE);
    assert(owner != DEAD_ONE || NEW_ONE == DEAD_ONE);
    assert(PHASE(state[0]) != HELD && PHASE(state[1]) != HELD)
}

init
{
    atomic {
        state[0] = HELD; whose[0] = DEAD_ONE;
        state[1] = HELD; whose[1] = DEAD_ONE;
        state[2] = CACHED; whose[2] = DEAD_ONE;
        run Reaper(0);
        run Reaper(1);
#if BURIERS > 2
        run Reaper(2);
#endif
        run Adopter(100);
        run Claimer(101);
        run Killer();
        run Rest()
    }
}
