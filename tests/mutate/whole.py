"""whole.py - plays the whole of `make check` with a mutant.

It has a tree of its own: copies of the sources, the mutant's among them, and
links to the objects that are not made of it. make builds what is missing.
"""
import glob
import os
import re
import subprocess
import time

from build import Failed, must, without_make
from play import AGAIN, Running

TREE = ('Makefile', '.ci', 'include', 'src', 'tools', 'tests', 'bench')
NOT_OURS = ('mutate', 'bugs')  # of the build directory
# One needs a registry, and tells of that; the others are not about the library.
ASIDE = ('wire/npm', 'itself/run', 'itself/mutate')
SOUND_SECONDS = 7200  # tests/run itself ends a suite that hangs
# What tests/run says when a suite has ended; suites say other things.
SAID = re.compile(r'^FAIL (?:(\w+/[\w-]+)(?: +\d+ passed|: (?:killed|ended|'
                  r'tested) )|(leaves no \w+): )', re.M)


class Check:
    """`make check`, or its suites of that name: what Running plays."""
    env = {}

    def __init__(self, only='', aside=(), to_the_end=False):
        self.only, self.to_the_end = only, to_the_end
        self.aside = ASIDE + tuple(aside)

    def command(self, tree):
        return ['env', '-u', 'BUILD', '-u', 'LOCKCTL', '-u', 'MAKELEVEL',
                'make', '-C', tree, 'check-run', 'ARGS=' + self.only]

    def failing(self, output):
        """The suites that have failed."""
        names = [m.group(1) or m.group(2) for m in SAID.finditer(output)]
        return [n for n in dict.fromkeys(names) if n not in self.aside]

    def has_seen(self, output):
        return not self.to_the_end and self.failing(output) != []

    def failed(self, status, output):
        return status != 0 and self.failing(output) != []

    def unended(self, files):
        """The suites that tests/run still waits for."""
        begun, ended = ({os.path.basename(f) for f in glob.glob(
            os.path.join(files, 'enq-run.*', part, '*'))}
            for part in ('logs', 'ended'))
        return [name.replace('.', '/', 1) for name in sorted(begun - ended)]


def is_of(file, path):
    """Is that object made of the source?"""
    try:
        with open(file[:-2] + '.d', encoding='utf-8') as deps:
            return path in deps.read().split()
    except FileNotFoundError:
        return True  # it is joined of others


def link_objects(build, path, to):
    """What need not be compiled again."""
    os.makedirs(to)
    if os.path.exists(os.path.join(build, 'peers')):
        os.link(os.path.join(build, 'peers'), os.path.join(to, 'peers'))
    for place, below, files in os.walk(build):
        if place == build:
            below[:] = [name for name in below if name not in NOT_OURS]
        there = os.path.join(to, os.path.relpath(place, build))
        for name in files:
            file = os.path.join(place, name)
            if name.endswith('.o') and not is_of(file, path):
                os.makedirs(there, exist_ok=True)
                os.link(file, os.path.join(there, name))


def plant(build, to, path='', text=''):
    """A tree with that source, as a checkout that has been built."""
    os.makedirs(to)
    must(['cp', '-a', *(p for p in TREE if os.path.exists(p)), to])
    link_objects(build, path, os.path.join(to, 'build'))
    if path:
        with open(os.path.join(to, path), 'w', encoding='utf-8') as file:
            file.write(text)
    done = subprocess.run(
        ['make', '-C', to, 'check-made', 'WERROR='], capture_output=True,
        text=True, errors='replace', env=without_make(os.environ), check=False)
    if done.returncode != 0:
        raise Failed(done.stderr[-2000:])


class Whole:
    """The check as it is, and with mutants, one at a time."""

    def __init__(self, player):
        self.build, self.alone = player.recipes.build, player.alone
        self.ours = os.path.join(player.ours, 'whole')
        self.limit = SOUND_SECONDS
        self.unsound = []

    def look(self, tree, check):
        """(word, suites): what the check saw, and which suites did."""
        one = Running(check, tree, self.limit, self.alone)
        try:
            word = one.ended()
            if word == 'hangs':
                return word, check.unended(one.files)
            return word, check.failing(one.output())
        finally:
            one.stop()
            one.out.close()

    def again(self, tree, suite):
        """Was it that suite, or only the machine, which was busy just then?"""
        check = Check(suite if '/' in suite else '')
        return suite in self.look(tree, check)[1]

    def prove_sound(self):
        """It passes without a mutant, once; or else it proves nothing."""
        tree = os.path.join(self.ours, 'sound')
        plant(self.build, tree)
        begin = time.monotonic()
        seen = self.look(tree, Check(to_the_end=True))[1]
        seconds = time.monotonic() - begin
        self.unsound = [name for name in seen if self.again(tree, name)]
        self.limit = 60 + 4 * seconds
        print('%-8s %5.1f s  make check' % (
            'unsound' if self.unsound else 'sound', seconds), flush=True)
        for name in self.unsound:
            print('UNSOUND %s fails without a mutant' % name, flush=True)

    def judge(self, tree):
        """What it saw, and saw again; nothing if nobody did."""
        for _ in range(AGAIN):
            word, suites = self.look(tree, Check(aside=self.unsound))
            if word == 'hangs':
                return ' '.join(suites) + ' hangs'
            if not suites:
                return ''
            if self.again(tree, suites[0]):
                return suites[0] + ' fails'
        return ''

    def play(self, number, mutant, source):
        """(what became of it, by whom): broken, killed, survived"""
        tree = os.path.join(self.ours, str(number))
        try:
            plant(self.build, tree, mutant.path, mutant.text(source))
            who = self.judge(tree)
        except Failed as fault:
            return 'broken', str(fault)
        finally:
            must(['rm', '-rf', tree])
        return ('killed', 'make check: ' + who) if who else ('survived', '')
