"""scenarios.py - what a scenario is, and how they are run.

A scenario is a function of a world: a bridge, its space, and what has been
seen of the locks. It brings about one fault in one phase of a request and
states what becomes of it. Then these hold, after each of them:

- no lock was granted to two at a time, and tokens grow (judge.py);
- a client that was told it holds a lock does hold it, as lockctl sees it: a
  process of its own, which knows nothing of the bridge;
- nothing is left: no lock that nobody was told of, no request that waits;
- nobody hangs: each call of a client has an end, and so has each scenario;
- a fresh client is served within 100 ms, while the fault lasts.
"""
import os
import signal
import sys
import time
import traceback

SECONDS_MAX = 60  # for one scenario

_all = []


class Skip(Exception):
    """What this machine does not allow."""


class Hung(Exception):
    """It took longer than a scenario may."""


def add(name, function, *args, world='shared'):
    """world: whose bridge it is played against; each of that name has one,
    which stays for all its scenarios."""
    _all.append((name, function, args, world))


def within(seconds, condition, what):
    """Waits for the event; what it returned."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError('%s: not within %g s' % (what, seconds))
        time.sleep(0.005)


def never(seconds, condition, what):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        assert not condition(), what
        time.sleep(0.01)


def figure(name, value):
    print('figure %s %d' % (name, value))


def _hung(_signal, _frame):
    raise Hung('the scenario took more than %d s' % SECONDS_MAX)


def _play(name, function, args, world):
    signal.signal(signal.SIGALRM, _hung)
    signal.alarm(SECONDS_MAX)
    begin = time.monotonic()
    try:
        function(world, *args)
        world.settle()
        verdict, why = 'ok', ''
    except Skip as skip:  # root may do all of it: then something is broken
        verdict = 'FAILED' if os.geteuid() == 0 else 'skipped'
        why = ': %s' % skip
    except Exception as fault:  # any: the other scenarios go on
        verdict, why = 'FAILED', ': %s: %.300s' % (type(fault).__name__, fault)
        traceback.print_exc(file=sys.stdout)
    finally:
        signal.alarm(0)
    print('%-7s %5.2f s  %s%s' % (verdict, time.monotonic() - begin, name,
                                  why), flush=True)
    return verdict


def _play_all(of, make_world, wanted):
    counts = {'ok': 0, 'FAILED': 0, 'skipped': 0, 'again': 0}
    world = make_world(wanted)
    try:
        for name, function, args, _ in of:
            verdict = _play(name, function, args, world)
            if verdict == 'FAILED':  # what it left is nobody else's trouble
                world.give_up()
                world = make_world(wanted)
                counts['again'] += 1
                verdict = _play(name, function, args, world)
            if verdict == 'FAILED':
                world.give_up()
                world = make_world(wanted)
            counts[verdict] += 1
        counts[world.finish()] += 1
    finally:
        world.give_up()
    return counts


def _of(texts):
    return [s for s in _all if any(text in s[0] for text in texts)]


def worlds(texts):
    """The names of those of which a scenario is wanted, as they come."""
    names = [name for name, _, _, _ in _all]
    assert len(set(names)) == len(names), 'two scenarios have one name'
    return list(dict.fromkeys(s[3] for s in _of(texts)))


def run(texts, make_world, wanted):
    """Those of a world whose name contains one of @texts; how many of each
    verdict.

    They have bounds in time, and a machine may be busy: one that failed is
    played again, once. How many were is counted, and must be few.
    """
    return _play_all([s for s in _of(texts) if s[3] == wanted], make_world,
                     wanted)


def names(texts):
    return [name for name, _, _, _ in _of(texts)]
