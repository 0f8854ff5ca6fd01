"""suites.py - the suites that judge mutants: how they are played, and how
they tell.
"""
import os
import re
import sys

import reach
from table import (ABOUT, DEAR, LAST, LOOPED, MORE, OF, PAIRED, QUICK,
                   RACES, STILL, WITH_BRIDGE)

WITHOUT_TICKS = '-without-ticks'
SANITIZED = ('-asan', '-tsan')
SIM_SECONDS = 6
SIM_ALONE_SECONDS = 15  # where nobody else could see the mutant
SEEN = re.compile(r'^FAIL(ED)?\b', re.M)
SEEN_BY_SIM = re.compile(r'^seed \d+ \(.*\): FAIL: ', re.M)

REACHED = reach.read(os.path.join(reach.HERE, 'reached'))


class Suite:
    """One that is played: programs it needs, a command, a verdict."""

    def __init__(self, name, sim_seconds=SIM_SECONDS):
        self.name = name
        self.seconds = sim_seconds
        self.env = {}
        self.profile = 'debug'
        if name.endswith(WITHOUT_TICKS):
            name = name[:-len(WITHOUT_TICKS)]
            self.env['ENQ_TICK_MS'] = '60000'
        if name.endswith(SANITIZED):
            self.env['ENQ_WIRE_PATIENCE'] = '3'
            if name not in MORE:
                self.profile, name = name[-4:], name[:-5]
        if name in MORE:
            self.programs, self.arguments = MORE[name]
        else:
            self.programs = [self.profile + '/tests/unit/check_' + name]
            self.arguments = []
            if name in WITH_BRIDGE:
                self.programs.append('debug/enq-bridge')

    def command(self, to):
        program = os.path.join(to, self.programs[0])
        first = self.arguments[0] if self.arguments else ''
        if self.name == 'sim':
            return [program, *self.arguments, str(self.seconds)]
        if first.endswith('.py'):
            return [sys.executable, '-B', *self.arguments, program]
        if first.endswith('.sh'):
            return self.arguments
        return [program, *self.arguments]

    def has_seen(self, output):
        """It has not ended: has it said already that something is wrong?"""
        words = SEEN_BY_SIM if self.name == 'sim' else SEEN
        return words.search(output) is not None

    def failed(self, status, output):
        """Did it see something? The simulation also counts what it came to
        see: in seconds it does not see all, and that is no fault."""
        if self.name == 'sim' and 0 <= status < 124:
            return SEEN_BY_SIM.search(output) is not None
        return status != 0


def is_about(unit, stem):
    return unit == stem or unit.startswith(stem + '_')


def named_after(path, units):
    """The units that are about just this source."""
    directory, stem = os.path.split(path[:-2])
    folder = os.path.basename(directory)
    if folder in ('channel', 'remote', 'bridge'):
        return [u for u in units if is_about(u, f'{folder}_{stem}')]
    return [u for u in units if is_about(u, stem)] + \
        ABOUT.get(stem, '').split()


def names_for(path, units, extent):
    """The names of the suites for a source, in the order of their play: of all
    if that is 'wide', and 'quick' those only that take seconds."""
    directory, stem = os.path.split(path[:-2])
    names = named_after(path, units) + REACHED.get(path, []) + \
        OF[directory].split()
    if directory == 'tools/bridge':
        names += ['pair', 'adopted'] * (stem in PAIRED)
        names += ['wire-loops'] * (stem in LOOPED)
    if extent == 'wide':
        names += sorted({*units, *MORE} - set(names))
    for name in names:
        assert name in MORE or name in units, name
    names += [n + WITHOUT_TICKS for n in names if n in STILL]
    names += [n + '-asan' for n in named_after(path, units)]
    names += RACES.get(directory, '').split()
    if extent == 'quick':
        names = filter(is_cheap, names)
    return sorted(dict.fromkeys(names), key=cost)


def is_cheap(name):
    """Of these a mutant is played with in seconds."""
    return name in QUICK or cost(name) < 2


def cost(name):
    """The same for those of about the same cost: they stay in order."""
    if name.endswith(WITHOUT_TICKS):
        return 0.5 + cost(name[:-len(WITHOUT_TICKS)])
    if name.endswith(SANITIZED):
        return 3
    if name in LAST:
        return 4
    return 2 if name in MORE else 1 if name in DEAR else 0
