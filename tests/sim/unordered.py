#!/usr/bin/env python3
"""unordered.py - what nothing orders, and which orders would be missed.

usage: unordered.py SUITE SIM-RUN          what must be so is so
       unordered.py SUITE SIM-RUN all      takes each order away, and tells
       unordered.py SUITE SIM-RUN new      with schedules that are new
       unordered.py SUITE SIM-RUN intact   as it is: nothing is taken away

sim-run --unordered tells of pairs of accesses that nothing orders (before.c): of
two processes to the same bytes, without a release, acquire or lock between them
(kind p if one of the two is a plain access, else a); and of one process, a
store and a later load without a full barrier (b). tests/sim/unordered says what
may be in one of kind p, and which pairs must appear as soon as the order is
taken away from one line of the library (--weaken): so the line orders
something, and without it somebody notices.

A few of a kind in 150 million steps are told and fail nothing (RARE). Who reads
without a latch, and looks again, does so between two steps of another once in
as many; and each change of the library makes other schedules of the same seeds.
An order that is lost shows nine times in the rarest case that is known, and hundreds
in most: a row wants more without its order than there are with it.

Of two processes the accesses of the line itself do not count: that a load which
acquires nothing reads a flag without order says nothing. What must show is that
of something else.
"""
import collections
import os
import re
import subprocess
import sys
import time

LIST = 'tests/sim/unordered'
INTACT, WEAKENED = 150_000_000, (10_000_000, 100_000_000, 300_000_000)  # steps
RARE = 2
ORDERS = re.compile('acquire|release|fence|swap|shm_(add|and|or|cas)')


def output(*command):
    return subprocess.run(command, capture_output=True, text=True,
                          check=True).stdout


class Program:
    """Which function, file and line an address of it belongs to."""

    def __init__(self, path):
        self.path, self.known = path, {}

    def ask(self, addresses):
        new = [a for a in addresses if a not in self.known]
        # the call, not what comes behind it
        told = output('addr2line', '-a', '-i', '-f', '-e', self.path,
                      *(hex(a - 1) for a in new)) if new else ''
        for a, frames in zip(new, re.split(r'^0x[0-9a-f]+\n', told,
                                           flags=re.M)[1:]):
            self.known[a] = self.ours(frames.split('\n'))

    @staticmethod
    def ours(frames):
        """The innermost of ours: not the compiler's header for vectors."""
        places = [(frames[i], *re.sub(r'^.*/(?=src/)| \(.*', '',
                                      frames[i + 1]).rpartition(':')[::2])
                  for i in range(0, len(frames) - 1, 2)]
        return next((p for p in places if p[1].startswith('src/')), places[0])

    def atomics(self):
        """(FILE, LINE): the addresses behind its calls of atomic accesses."""
        behind, calls = False, []
        for line in output('objdump', '-d', '--no-show-raw-insn',
                           self.path).split('\n'):
            if behind:
                calls.append(int(line.split(':')[0], 16))
            behind = 'call ' in line and '<__tsan_atomic' in line
        self.ask(calls)
        lines = collections.defaultdict(list)
        for a in calls:
            lines[self.known[a][1:]].append(a)
        return lines

    def pairs(self, steps, first, weakened=()):
        """(KIND, FILE:FUNCTION, FILE:FUNCTION): how often."""
        options = ['--unordered', '--workers', '1', '--first', str(first),
                   '--count', str(steps)]
        for a in weakened:
            options += ['--weaken', hex(a)]
        found = collections.Counter()
        for line in output(self.path, *options).split('\n'):
            if line.startswith('FAIL'):
                found['fails', line, ''] += 1
            if line.startswith('pair '):
                _, kind, a, b, n = line.split()
                found[kind, int(a, 16), int(b, 16)] += int(n)
        self.ask({a for _, *ab in found for a in ab if isinstance(a, int)})
        named = collections.Counter()
        for (kind, a, b), n in found.items():
            if kind == 'fails':
                named[kind, a, b] += n
            elif kind == 'b' or not {a, b} & set(weakened):
                named[kind, self.name(a), self.name(b)] += n
        return named

    def name(self, address):
        function, file, _ = self.known[address]
        return os.path.basename(file) + ':' + function


def read_list():
    """{function: why} of those that may read, or write, what others do; and
    [(file, function, text, first, second)]."""
    free, rows = {}, []
    with open(LIST, encoding='utf-8') as file:
        for line in file:
            cells = [c.strip() for c in line.split(' | ')]
            if not line.strip() or line.startswith('#'):
                continue
            if cells[0] == 'free':
                free[cells[1]] = cells[2]
            else:
                rows.append((*cells[:3], *cells[3].split()))
    return free, rows


def line_of(file, function, text):
    """The first line of the function that has this text."""
    inside = False
    with open(file, encoding='utf-8') as source:
        for n, line in enumerate(source, 1):
            if line[:1].isalpha():
                inside = function + '(' in line
            if inside and text in line:
                return str(n)
    return None


class Suite:
    def __init__(self):
        self.passed = self.failed = 0

    def tell(self, good, text):
        print('ok  ' if good else 'FAIL', text, flush=True)
        self.passed += good
        self.failed += not good


def count(found, first, second):
    return sum(found[kind, first, second] for kind in 'apb')


def judge_intact(suite, program, free, rows, first):
    """{row: how often its pair is there with all orders}"""
    found = program.pairs(INTACT, first)
    before = suite.failed
    for (kind, a, b), n in found.items():
        if kind == 'fails':
            suite.tell(False, a)
        elif kind == 'p' and not {a, b} & free.keys():
            said = 'nothing orders %s and %s (%d times)' % (a, b, n)
            if n > RARE:
                suite.tell(False, said)
            else:
                print('rarely:', said)
    times = {row: count(found, *row[3:]) for row in rows}
    for (*what, a, b), n in times.items():
        if n > RARE:
            suite.tell(False, '%s: nothing orders %s and %s (%d times)' %
                       (': '.join(what), a, b, n))
    if suite.failed == before:
        suite.tell(True, 'no plain access is unordered but those that may be')
    return times


def judge_row(suite, program, lines, row, intact):
    file, function, text, a, b = row
    line = line_of(file, function, text)
    places = lines.get((file, line), ())
    what = '%s: %s: %s' % (file, function, text)
    if not places:
        return suite.tell(False, what + ': in no line of it that is run')
    for steps in WEAKENED:
        if count(program.pairs(steps, 1, places), a, b) > intact:
            return suite.tell(True, what)
    return suite.tell(False, '%s: without its order %s and %s are ordered' %
                      (what, a, b))


def tell_all(program, lines):
    intact = program.pairs(INTACT, 1)
    for (file, line), places in sorted(lines.items()):
        if not file.startswith('src/'):
            continue
        with open(file, encoding='utf-8') as source:
            text = source.read().split('\n')[int(line) - 1].strip()
        if not ORDERS.search(text):
            continue
        found = program.pairs(WEAKENED[0], 1, places)
        new = [(n, k) for k, n in found.items() if k not in intact]
        print('%s:%s: %s' % (file, line, text))
        for n, (kind, a, b) in sorted(new, reverse=True)[:8]:
            print('    %s %s %s, %d times' % (kind, a, b, n), flush=True)


def main():
    name, path, mode = (sys.argv[1:] + [''])[:3]
    program = Program(path)
    lines = program.atomics()
    if mode == 'all':
        tell_all(program, lines)
        return 0
    free, rows = read_list()
    suite = Suite()
    first = 1
    if mode == 'new':
        first = time.time_ns() % (1 << 60)
        print('seed', first)
    times = judge_intact(suite, program, free, rows, first)
    for row in rows if mode != 'intact' else ():
        judge_row(suite, program, lines, row, times[row])
    print('figure sim-unordered', suite.passed - 1)
    print('%s: %d passed, %d failed, 0 skipped' %
          (name, suite.passed, suite.failed))
    return suite.failed > 0


if __name__ == '__main__':
    os.environ['LC_ALL'] = 'C'
    sys.exit(main())
