"""main.py - the faults of the network, one scenario after the other."""
import argparse
import os
import random
import resource
import signal
import sys

import nets
import scenarios
from judge import Judge
from world import BRIDGE, LOCKCTL, World

import pieces  # noqa: F401 - each adds its scenarios
import ends  # noqa: F401
import lost  # noqa: F401
import limits  # noqa: F401
import short  # noqa: F401
import slow
import greedy
import many  # noqa: F401
import death  # noqa: F401
import outage  # noqa: F401
import suspect

# What the bridges of some scenarios are told; others take them as they are.
WORLDS = {
    'short-tcp': {'nofile': short.NOFILE},
    'short-unix': {'nofile': short.NOFILE},
    'limits': {'options': limits.OPTIONS},
    'lists': {},
    'few-lists': {'options': ['--max-lists', str(limits.LISTS_BYTES)]},
    'slow': {'options': ['--read-time', str(slow.READ_S)]},
    'pipeline': {'options': greedy.OPTIONS},
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


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument('--list', action='store_true')
    parser.add_argument('--seed', type=int,
                        default=random.SystemRandom().getrandbits(31))
    parser.add_argument('text', nargs='?', default='')
    args = parser.parse_args()
    if args.list:
        print('\n'.join(scenarios.names(args.text)))
        return 0
    for program in (BRIDGE, LOCKCTL):
        if not os.access(program, os.X_OK):
            print('FAILED: there is no %s' % program)
            print('net: 0 passed, 1 failed, 0 skipped')
            return 1
    print('seed %d' % args.seed)
    random.seed(args.seed)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    allow_descriptors()
    nets.begin()
    counts = scenarios.run(args.text, make_world)
    scenarios.figure('net-scenarios', counts['ok'])
    scenarios.figure('net-grants', Judge.n_grants)
    scenarios.figure('net-again', counts['again'])
    print('net: %(ok)d passed, %(FAILED)d failed, %(skipped)d skipped' % counts)
    return 1 if counts['FAILED'] else 0


if __name__ == '__main__':
    sys.exit(main())
