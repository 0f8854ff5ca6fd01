"""world.py - a bridge with its space, and its observers.

It is the program that is installed, started as an operator would; what is in
its space is asked of lockctl, which opens it by itself.
"""
import atexit
import ctypes
import json
import math
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time

from judge import Judge
from peer import Peer
from scenarios import within

BUILD = os.path.join(os.path.dirname(os.path.abspath(__file__)), '../..',
                     os.environ.get('BUILD', 'build'))
BRIDGE = os.environ.get('ENQ_BRIDGE', os.path.join(BUILD, 'release/enq-bridge'))
LOCKCTL = os.path.join(BUILD, 'release/lockctl')
FRESH_MS = 100


def slowness():
    """What the kernel takes for a byte through a pair of sockets, against the 2 us
    of processor time that are usual; 1 at least. The best of some rounds, so that
    what is busy beside us does not count."""
    a, b = socket.socketpair()
    best = math.inf
    for _ in range(5):
        begin = time.process_time()
        for _ in range(1000):
            a.send(b'x')
            b.recv(1)
        best = min(best, (time.process_time() - begin) * 1000)
    a.close()
    b.close()
    return max(1, best / 2)


SLOWNESS = slowness()
_libc = ctypes.CDLL(None, use_errno=True)
PR_SET_PDEATHSIG = 1


def end_with_parent(by):
    """@by: the signal that comes when it is gone, whatever it dies of."""
    _libc.prctl(PR_SET_PDEATHSIG, by)


def prepare_child(nofile):
    """In the child."""
    def prepare():
        end_with_parent(signal.SIGKILL)
        if nofile is not None:
            resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))
    return prepare


class World:
    """@options: of the bridge. @nofile: its RLIMIT_NOFILE."""

    def __init__(self, name, options=(), nofile=None, host='127.0.0.1',
                 env=None):
        self.name, self.options, self.nofile = name, list(options), nofile
        self.env = dict(os.environ, **(env or {}))
        self.directory = tempfile.mkdtemp(prefix='enq-%snet-' % os.environ.get('ENQ_TEST_MARK', ''), dir='/dev/shm')
        self.space = os.path.join(self.directory, 'space')
        self.log = os.path.join(self.directory, 'log')
        self.judge = Judge()
        self.unix = os.path.join(self.directory, 'socket')
        self.host, self.port = host, 0
        self.process = None
        atexit.register(self.give_up)  # also when we are ended
        try:
            self.start()
            self.n_fds = len(self.fds())
        except BaseException:
            self.give_up()
            raise

    # --- the bridge ---

    def start(self):
        """As the one before it, at the same addresses."""
        begin = os.path.getsize(self.log) if os.path.exists(self.log) else 0
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen(
                [BRIDGE, '-S', self.space, '-l', 'unix:' + self.unix, '-l',
                 'tcp:%s:%d' % (self.host, self.port)] + self.options,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=self.env, preexec_fn=prepare_child(self.nofile))
        within(20, lambda: self.says('ready', begin), 'a bridge is ready')
        if self.port == 0:
            lines = self.said().split('\n')
            told = [line for line in lines if ' on tcp:' in line]
            self.port = int(told[0].rpartition(':')[2])

    def said(self, begin=0):
        with open(self.log, encoding='utf-8', errors='replace') as log:
            log.seek(begin)
            return log.read()

    def says(self, word, begin=0):
        assert self.process.poll() is None, 'the bridge ended: %s' % self.said()
        return word in self.said(begin)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def terminate(self, seconds=10):
        """SIGTERM; its exit status."""
        self.process.terminate()
        return self.process.wait(seconds)

    def is_alive(self):
        return self.process.poll() is None

    def fds(self):
        return os.listdir('/proc/%d/fd' % self.process.pid)

    def status(self, field):
        """KiB, or a count, from /proc/PID/status."""
        with open('/proc/%d/status' % self.process.pid,
                  encoding='ascii') as status:
            for line in status:
                if line.startswith(field + ':'):
                    return int(line.split()[1])
        raise KeyError(field)

    def cpu_ms(self):
        """Of all its threads: the clock of another process, as
        clock_getcpuclockid(3) makes it of the pid. A bridge works for the kernel
        most of the time: where that is slower, it is of as much slower a machine."""
        clock = ~self.process.pid << 3 | 2
        return time.clock_gettime(clock) * 1000 / SLOWNESS

    # --- clients ---

    def address(self, transport):
        return self.unix if transport == 'unix' else (self.host, self.port)

    def peer(self, kind='legacy', transport='tcp', **more):
        return Peer(self.judge, self.address(transport), kind, **more)

    def fresh_ms(self):
        """How long a client takes that comes, locks, unlocks, and goes."""
        begin = time.monotonic()
        peer = self.peer()
        grant = peer.lock('fresh')
        assert grant is not None
        peer.unlock(grant.uuid)
        peer.close()
        return (time.monotonic() - begin) * 1000

    def serves(self):
        """The best of some: this machine may be busy, the bridge may not."""
        took = []
        while len(took) < 10 and (not took or min(took) > FRESH_MS):
            took.append(self.fresh_ms())
        assert min(took) <= FRESH_MS, \
            'a fresh client has to wait for %g ms' % min(took)

    # --- lockctl ---

    def lockctl(self, *args):
        return subprocess.run([LOCKCTL, '-S', self.space] + list(args),
                              check=True, timeout=30,
                              stdout=subprocess.PIPE).stdout

    def rows(self):
        return json.loads(self.lockctl('list', '--json'))['locks']

    def holders(self, key):
        return [row['id'].rpartition('/')[2] for row in self.rows()
                if row['spec'] == 'net/' + key]

    def n_waiting(self):
        return json.loads(self.lockctl('stats', '--json'))['waiting']

    def wait_for_waiters(self, n, seconds=5):
        within(seconds, lambda: self.n_waiting() == n,
               '%d waiters in the table' % n)

    # --- the end of a scenario ---

    def settle(self):
        """What must hold after each; then all is given back."""
        assert self.is_alive(), 'the bridge has ended: %s' % self.said()
        self.serves()
        self.wait_for_waiters(0)
        self.judge.compare(self.rows())
        for uuid in list(self.judge.open):
            self.judge.ends(uuid)
            row = [r for r in self.rows()
                   if r['id'].rpartition('/')[2] == uuid][0]
            self.lockctl('unlock', row['id'])
        assert not self.rows(), 'left: %s' % self.rows()

    def finish(self):
        """A test of its own: it is told to stop, and has leaked nothing."""
        verdict = 'ok'
        try:
            within(10, lambda: len(self.fds()) == self.n_fds,
                   'every descriptor but %d is closed' % self.n_fds)
            assert self.terminate() == 0, self.process.returncode
        except Exception as fault:
            verdict = 'FAILED'
            print('the bridge "%s" ends badly: %s' % (self.name, fault))
        self.give_up()
        print('%-7s         the bridge of these scenarios (%s) has leaked '
              'nothing' % (verdict, self.name), flush=True)
        return verdict

    def give_up(self):
        if self.process is not None and self.process.poll() is None:
            self.kill()
        shutil.rmtree(self.directory, ignore_errors=True)
