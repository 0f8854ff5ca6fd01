/*
 * promote.pml - of several O one becomes E (src/lock/convert.c:
 * promote_pinned, remove_losers; pin.c: pin_take; hold.c: forget_gone;
 * transition.c: transition_take_away, next_token, transition_mode).
 *
 * N threads hold O on one object, and each promotes; the winner gives back.
 * Any of them dies at any step, DEATHS times; a thread that wants the latch of a
 * dead one recovers it: what is true (the states) stays as it was.
 *
 * BUG_1  the winner first, then the losers
 * BUG_2  the state is not read again under the latch (pin_check)
 * BUG_3  the entry's token is stored before the shard's newest
 * BUG_4  the loser's entry is free at once: the loser is not told
 * BUG_5  the latch of a dead one is not taken over
 * BUG_6  remove_losers() stops after the first
 */
#ifndef N
#define N 4
#endif
#ifndef DEATHS
#define DEATHS 2
#endif
#define MODE_O 1
#define MODE_E 2
#define FREE 0
#define HELD 1
#define LOST 2

byte latch;
byte phase[N], mode[N], token[N];
byte newest, last; /* last: ghost, the token of the last winner */
bit dead[N], kill[N];
byte left = DEATHS, won, told;
byte finished;

/* the lock of the first outlives it: KEEP */
#define LIVE(i) (phase[i] == HELD && (!dead[i] || (i) == 0))
#define RIVAL(i) ((i) != me && LIVE(i) && mode[i] == MODE_O)

#if N > 3
#define ANY (LIVE(0) || LIVE(1) || LIVE(2) || LIVE(3))
#else
#define ANY (LIVE(0) || LIVE(1) || LIVE(2))
#endif

/* the latch's holder finds: one living E at most, and no O beside it */
inline consistent()
{
    d_step {
        i = 0;
        n = 0;
        o = 0;
        do
        :: i < N ->
            n = n + (LIVE(i) && mode[i] == MODE_E);
            o = o + (LIVE(i) && mode[i] == MODE_O);
            i++
        :: else -> break
        od;
        assert(n <= 1);
        assert(n == 0 || o == 0);
        i = 0; n = 0; o = 0
    }
}

inline lock()
{
    do
    :: atomic { latch == 0 -> latch = me + 1; break }
#ifndef BUG_5
    :: atomic { latch != 0 && dead[latch - 1] -> latch = me + 1; break }
#endif
    od;
    consistent()
}

/* see_rivals(): an E is in the way */
#define IN_THE_WAY(i) ((i) != me && LIVE(i) && mode[i] == MODE_E)
#if N > 3
#define BLOCKED                                                                \
    (IN_THE_WAY(0) || IN_THE_WAY(1) || IN_THE_WAY(2) || IN_THE_WAY(3))
#else
#define BLOCKED (IN_THE_WAY(0) || IN_THE_WAY(1) || IN_THE_WAY(2))
#endif

/* remove_losers(): transition_take_away(), one after the other */
inline remove_losers()
{
    i = 0;
    do
    :: i < N && RIVAL(i) ->
        assert(phase[i] == HELD);
#ifdef BUG_4
        phase[i] = FREE;
#else
        phase[i] = LOST;
#endif
#ifdef BUG_6
        break
#else
        i++
#endif
    :: i < N && !RIVAL(i) -> i++
    :: else -> break
    od;
    i = 0
}

/* next_token(): the newest first, so that a number is left out, and not given
   twice, when its taker dies */
inline next_token()
{
#ifdef BUG_3
    token[me] = newest + 1
#else
    newest++;
    token[me] = newest
#endif
}

inline transition_mode()
{
    next_token();
    mode[me] = MODE_E;
    atomic { assert(token[me] > last); last = token[me] };
#ifdef BUG_3
    newest = token[me]
#endif
}

proctype Thread(byte me)
{
    byte i, n, o;
    bit mine;

    {
        mine = 1; /* entry_of_handle() saw it live */
#ifdef BUG_2
        mine = (phase[me] == HELD);
        lock();
#else
        lock();
        mine = (phase[me] == HELD);
#endif
        if
        :: mine && BLOCKED -> latch = 0 /* refused */
        :: mine && !BLOCKED ->
#ifdef BUG_1
            transition_mode();
            remove_losers();
#else
            remove_losers();
            transition_mode();
#endif
            latch = 0;
            won++;
            /* the application is at it */
            assert(phase[me] == HELD && mode[me] == MODE_E);
            lock();
            assert(phase[me] == HELD && mode[me] == MODE_E);
            phase[me] = FREE;
            latch = 0
        :: else ->
            /* told why, by the state that its entry was left in */
            assert(phase[me] == LOST);
            latch = 0;
            phase[me] = FREE; /* forget_gone() */
            told++;
            lock();
            if
            :: !ANY -> /* and takes it anew: transition_hold() */
                next_token();
                atomic { assert(token[me] > last); last = token[me] }
#ifdef BUG_3
                newest = token[me]
#endif
            :: ANY
            fi;
            latch = 0
        fi;
        finished++;
    end_done:
        false
    } unless {
        atomic { kill[me] -> dead[me] = 1; finished++; i = 0; n = 0; o = 0;
            mine = 0 }
    }
}

#define MAY_DIE(p) (left > 0 && !kill[p] && phase[p] != FREE)

proctype Killer()
{
end_killer:
    do
    :: atomic { MAY_DIE(0) -> left--; kill[0] = 1 }
    :: atomic { MAY_DIE(1) -> left--; kill[1] = 1 }
    :: atomic { MAY_DIE(2) -> left--; kill[2] = 1 }
#if N > 3
    :: atomic { MAY_DIE(3) -> left--; kill[3] = 1 }
#endif
    od
}

/* Nobody loses to nobody: with no death one has won, and all others know. */
proctype End()
{
end_wait:
    finished == N -> assert(left < DEATHS || won == 1 && told == N - 1)
}

init
{
    byte p;

    atomic {
        do
        :: p < N ->
            phase[p] = HELD;
            mode[p] = MODE_O;
            newest++;
            token[p] = newest;
            run Thread(p);
            p++
        :: else -> break
        od;
        last = newest;
        run Killer();
        run End()
    }
}
