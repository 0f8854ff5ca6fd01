"""play.py - plays a mutant: the suites of its source, until one fails.

Each suite has a /dev/shm, a network and processes of its own, all of which
end with it, where the system allows that.
"""
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import time

from build import Failed
from suites import SIM_ALONE_SECONDS, Suite, names_for

ALONE = ['unshare', '-mpnif', '--kill-child', '--mount-proc', '/bin/sh', '-c',
         'mount -t tmpfs -o mode=1777,size=2g none /dev/shm && '
         '{ ip link set lo up 2>/dev/null; "$@"; }; exit $?', 'sh']
SOUND_SECONDS = 120  # a suite as it is: on a machine that is busy, too
LOOK_SECONDS = 0.3  # what it has said so far is looked at so often
AGAIN = 3            # plays in which one that was seen must be seen again
TEST = re.compile(r':[FES]:[^:]*:(\w+):')
SAID = re.compile(r'^.*(?::[FES]:|FAIL).*(?:\n +.*)?', re.M)
WIDTH = 2            # suites of one mutant side by side: most of them sleep


def may_be_alone():
    return subprocess.run([*ALONE, 'true'], capture_output=True,
                          check=False).returncode == 0


all_running = set()


class Running:
    """A suite that is being played."""

    def __init__(self, suite, to, limit, alone, only=None):
        self.suite = suite
        self.out = tempfile.TemporaryFile()
        # a short name: sockets are in there
        self.files = tempfile.mkdtemp(prefix='enq-m')
        env = dict(os.environ, BUILD=to, CK_TIMEOUT_MULTIPLIER='3',
                   LOCKCTL=os.path.join(to, 'debug/lockctl'), TMPDIR=self.files)
        for name in ('ENQ_SPACE', 'ENQ_OWNER', 'ENQ_CRASH', 'ENQ_STOP',
                     'ENQ_TICK_MS', 'ENQ_TICK_FOUND', 'MAKEFLAGS'):
            env.pop(name, None)
        env.update(suite.env)
        if only:
            env['UNIT_ONLY'] = only
        self.begin = time.monotonic()
        self.look = self.begin + LOOK_SECONDS
        self.end = self.begin + limit
        self.process = subprocess.Popen(
            [*(ALONE if alone else []), *suite.command(to)],
            stdin=subprocess.DEVNULL, stdout=self.out,
            stderr=subprocess.STDOUT, env=env, start_new_session=True)
        all_running.add(self)

    def output(self):
        """So far: the suite goes on writing where it was."""
        size = os.fstat(self.out.fileno()).st_size
        return os.pread(self.out.fileno(), size, 0).decode(errors='replace')

    def verdict(self):
        """None while it runs; '' when it saw nothing; else what it saw."""
        status = self.process.poll()
        if status is None:
            now = time.monotonic()
            if now >= self.end:
                self.stop()
                return 'hangs'
            if now >= self.look:
                self.look = now + LOOK_SECONDS
                return self.suite.has_seen(self.output()) and 'fails' or None
            return None
        if self.suite.failed(status, self.output()):
            return 'fails'
        return ''

    def ended(self):
        """Its verdict, when there is one."""
        word = self.verdict()
        while word is None:
            time.sleep(0.02)
            word = self.verdict()
        return word

    def stop(self):
        if self.process.returncode is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        shutil.rmtree(self.files, ignore_errors=True)
        all_running.discard(self)


def play_suites(suites, to, limit_of, alone, prepare, done=None):
    """(suite, word, output) of the first that fails, or None."""
    waiting, running = list(suites), []
    try:
        while waiting or running:
            while waiting and len(running) < WIDTH:
                suite = waiting.pop(0)
                if not prepare(suite):
                    continue
                running.append(Running(suite, to, limit_of(suite), alone))
            time.sleep(0.01)
            for one in list(running):
                word = one.verdict()
                if word is None:
                    continue
                if word:
                    return one.suite, word, one.output()
                running.remove(one)
                one.stop()
                one.out.close()
                if done:
                    done(one.suite, time.monotonic() - one.begin)
        return None
    finally:
        for one in running:
            one.stop()
            one.out.close()


class Player:
    """Plays mutants; several threads may."""

    def __init__(self, recipes, units, extent):
        self.recipes, self.units, self.extent = recipes, units, extent
        self.ours = os.path.join(recipes.build, 'mutate/%d' % os.getpid())
        self.alone = may_be_alone()
        self.seconds = {}  # of each suite without a mutant
        self.lock = threading.Lock()
        self.locks = {}
        self.unsound = {}
        # of this build, what was sound is sound
        self.notes = os.path.join(recipes.build, 'mutate/sound.json')
        self.memory = self.recall()

    def limit(self, suite):
        return 10 + 4 * self.seconds[suite.name] + \
            suite.seconds * (suite.name == 'sim')

    def prove_sound(self, suite):
        """It passes without a mutant, once: else it would prove nothing."""
        with self.lock:
            lock = self.locks.setdefault(suite.name, threading.Lock())
        with lock:
            if suite.name in self.seconds or self.remembers(suite):
                return
            to = os.path.join(self.ours, 'sound', suite.name)
            for _ in range(2):
                self.room(to)
                for program in suite.programs:
                    self.recipes.link(program, {}, to)
                seen = play_suites([suite], to, lambda _: SOUND_SECONDS,
                                   self.alone, lambda _: True,
                                   lambda s, t: self.note(s.name, t))
                if seen is None:
                    self.remember(suite)
                    return
            self.note(suite.name, None)
            print('UNSOUND %s %s without a mutant\n%s' % (
                suite.name, seen[1], seen[2][-2000:]), flush=True)

    def end(self):
        """Nothing of this run goes on, or is left."""
        for one in list(all_running):
            one.stop()
        shutil.rmtree(self.ours, ignore_errors=True)

    def age(self, suite):
        """What tells these programs from those that are built tomorrow."""
        return [os.stat(os.path.join(self.recipes.build, p)).st_mtime_ns
                for p in suite.programs]

    def remembers(self, suite):
        seconds, age = self.memory.get(suite.name, (0, None))
        if age == self.age(suite):
            self.seconds[suite.name] = seconds
        return age == self.age(suite)

    def remember(self, suite):
        with self.lock:
            self.memory[suite.name] = self.seconds[suite.name], self.age(suite)
            with open(self.notes, 'w', encoding='utf-8') as file:
                json.dump(self.memory, file)

    def recall(self):
        try:
            with open(self.notes, encoding='utf-8') as file:
                return json.load(file)
        except (OSError, ValueError):
            return {}

    def note(self, name, seconds):
        self.seconds[name] = seconds or 0
        print('%-8s %5.1f s  %s' % ('sound' if seconds else 'unsound',
                                    seconds or 0, name), flush=True)
        if seconds is None:
            self.unsound[name] = True

    def room(self, to):
        """An empty directory of programs; the released are the debug ones."""
        shutil.rmtree(to, ignore_errors=True)
        os.makedirs(to + '/debug')
        os.symlink('debug', to + '/release')

    def objects(self, mutant, tree, to):
        """The mutant's objects that differ from the real ones, by name: those
        of the simulation only where others do not, as an order of stores."""
        changed = {}
        names = self.recipes.objects_of(mutant.path)
        for profile in ('debug', 'sim'):
            name = names.get(profile)
            if name is None or profile == 'sim' and changed:
                continue
            file = os.path.join(to, 'objects', name)
            new = self.recipes.compile(name, mutant.path, tree, file)
            if new != self.recipes.unchanged(name, mutant.path):
                changed[name] = file
        return changed

    def prepare(self, suite, mutant, tree, to, changed):
        """Its programs with the mutant; whether it may be played."""
        self.prove_sound(suite)
        if suite.name in self.unsound:
            return False
        for profile in {p.split('/')[0] for p in suite.programs}:
            name = self.recipes.objects_of(mutant.path).get(profile)
            if name and name not in changed:
                file = os.path.join(to, 'objects', name)
                self.recipes.compile(name, mutant.path, tree, file)
                changed[name] = file
        for program in suite.programs:
            if not os.path.lexists(os.path.join(to, program)):
                self.recipes.link(program, changed, to)
        return True

    def fails_again(self, suite, output, to):
        """Was it the mutant, or only the machine, which was busy just then?
        The simulation is the same each time; of a unit it is the one test."""
        if suite.name == 'sim':
            return True
        test = TEST.search(output)
        for _ in range(AGAIN):
            one = Running(suite, to, self.limit(suite), self.alone,
                          test and test.group(1))
            try:
                if one.ended():
                    return True
            finally:
                one.stop()
                one.out.close()
        return False

    def judge(self, suites, to, prepare):
        """The first that fails, and fails again."""
        left = list(suites)
        while True:
            seen = play_suites(left, to, self.limit, self.alone, prepare,
                               lambda s, _: left.remove(s))
            if seen is None or seen[1] == 'hangs':
                return seen
            if self.fails_again(seen[0], seen[2], to):
                return seen
            left.remove(seen[0])

    def play(self, mutant, source, to):
        """(what became of it, by whom): same, broken, killed, survived"""
        self.room(to)
        tree = os.path.join(to, 'tree')
        file = os.path.join(tree, mutant.path)
        os.makedirs(os.path.dirname(file))
        with open(file, 'w', encoding='utf-8') as out:
            out.write(mutant.text(source))
        try:
            changed = self.objects(mutant, tree, to)
            if not changed:
                return 'same', ''
            if self.extent != 'quick' and all(
                    name.startswith('sim/') for name in changed):
                suites = [Suite('sim', SIM_ALONE_SECONDS)]
            else:
                suites = [Suite(n) for n in names_for(
                    mutant.path, self.units, self.extent)]
                if 'sim' not in self.recipes.objects_of(mutant.path):
                    suites = [s for s in suites if s.name != 'sim']
            seen = self.judge(
                suites, to,
                lambda s: self.prepare(s, mutant, tree, to, changed))
        except (Failed, subprocess.TimeoutExpired) as fault:
            return 'broken', str(fault)
        finally:
            shutil.rmtree(to, ignore_errors=True)
        if seen is None:
            return 'survived', ''
        said = SAID.search(seen[2])
        return 'killed', '%s %s%s' % (seen[0].name, seen[1], ': ' + ' '.join(
            said.group().split())[:160] if said else '')
