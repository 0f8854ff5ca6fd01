"""main.py - the faults of the network, one scenario of a world after the other.

They wait most of the time: two worlds at once, each worker in a network
namespace of its own.
"""
import argparse
import collections
import functools
import multiprocessing
import os
import random
import resource
import signal
import sys

import nets
import scenarios
from judge import Judge
from world import BRIDGE, LOCKCTL, SLOWNESS, World, end_with_parent

import pieces  # noqa: F401 - each adds its scenarios
import ends  # noqa: F401
import lost  # noqa: F401
import limits  # noqa: F401
import short  # noqa: F401
import slow
import greedy
import leave
import many  # noqa: F401
import death  # noqa: F401
import outage  # noqa: F401
import suspect

WORKERS = 2 * (os.cpu_count() or 1)  # they wait most of the time

# What the bridges of some scenarios are told; others take them as they are.
WORLDS = {
    'short-tcp': {'nofile': short.NOFILE},
    'short-unix': {'nofile': short.NOFILE},
    'limits': {'options': limits.OPTIONS},
    'lists': {},
    'few-lists': {'options': ['--max-lists', str(limits.LISTS_BYTES)]},
    'slow': {'options': ['--read-time', str(slow.READ_S)]},
    'pipeline': {'options': greedy.OPTIONS},
    'gulps': {'options': greedy.GULPS},
    'leave': {'options': leave.OPTIONS},
    'events': {'options': ['--max-output', str(limits.OUTPUT_BYTES)]},
    'suspect': {'options': suspect.OPTIONS},
    'max-grace': {'options': suspect.OPTIONS + ['--max-grace', '1']},
    'suspect-hosts': {'host': '0.0.0.0',
                      'options': suspect.OPTIONS + ['--insecure']},
    'hosts': {'host': '0.0.0.0', 'options': ['--insecure']},
}


def make_world(name):
    return World(name, **WORLDS.get(name, {}))


def allow_descriptors():
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def begin():
    """A worker. It clears up and ends when it is told to, or we are gone."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    end_with_parent(signal.SIGTERM)
    nets.begin()


def play(seed, texts, world):
    """In a worker. How many of each verdict, and how many grants."""
    random.seed('%d %s' % (seed, world))
    before = Judge.n_grants
    counts = scenarios.run(texts, make_world, world)
    return dict(counts, grants=Judge.n_grants - before)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--seed', type=int,
                        default=random.SystemRandom().getrandbits(31))
    parser.add_argument('text', nargs='*', default=[''])
    args = parser.parse_args()
    if args.list:
        print('\n'.join(scenarios.names(args.text)))
        return 0
    for program in (BRIDGE, LOCKCTL):
        if not os.access(program, os.X_OK):
            print('FAILED: there is no %s' % program)
            print('net: 0 passed, 1 failed, 0 skipped')
            return 1
    print('seed %d' % args.seed, flush=True)
    print('the kernel takes %.1f times as long as usual' % SLOWNESS)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_descriptors()
    wanted = scenarios.worlds(args.text)
    if not wanted:
        print('FAILED: no scenario contains "%s": see --list' %
              '" or "'.join(args.text))
        print('net: 0 passed, 1 failed, 0 skipped')
        return 1
    counts = collections.Counter(ok=0, again=0, FAILED=0, skipped=0)
    with multiprocessing.Pool(WORKERS, begin) as pool:
        for of_world in pool.imap_unordered(
                functools.partial(play, args.seed, args.text), wanted):
            counts.update(of_world)
        pool.close()  # or a worker may be killed while it holds the other's
        pool.join()   # lock: once in a thousand times all hung
    scenarios.figure('net-scenarios', counts['ok'])
    scenarios.figure('net-grants', counts['grants'])
    scenarios.figure('net-again', counts['again'])
    print('net: %(ok)d passed, %(FAILED)d failed, %(skipped)d skipped' % counts)
    return 1 if counts['FAILED'] else 0


if __name__ == '__main__':
    sys.exit(main())
