"""suspect.py - a client in C that is cut off, stopped or left alone: at no time
it takes for its own what the table has given to another.

A holder (a process, holder.py) has RELEASE locks of each kind, and a LEASE, and
asks all the time whether they are its own. For each RELEASE lock somebody waits
in the table itself, and notes when it was granted. A fault lasts until the
locks have gone to others, or ends in time; what is said of each lock is then
compared with the truth of the table.
"""
import ctypes
import json
import os
import signal
import subprocess
import sys
import threading
import time

from holder import ELEASE, OK, SESSION, Library, Req, Grant, now
from nets import Host
from proxy import Proxy
from scenarios import Skip, add, never, within
from world import BUILD, prepare_child

LIBRARY = os.path.join(BUILD, 'release/libenq.so')
HERE = os.path.dirname(os.path.abspath(__file__))
GRACE_S = 1.0
# Of the bridge: a client that is silent for three times this is taken for gone.
KEEPALIVE_MS = 300
OPTIONS = ['--keepalive', str(KEEPALIVE_MS)]
MANY_S = 30  # nothing is judged by it
OWNERDIED = 12

_libc = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH = 0x4206, 0x4207, 17
WALL = 0x40000000


_violations = []


class Other(threading.Thread):
    """Waits for a lock, in the table, and notes when it had it: when it knew
    so, a moment after it was granted."""

    def __init__(self, world, key):
        super().__init__(daemon=True)
        self.key, self.at = key, None
        self.library = Library(LIBRARY, world.space)
        self.grant = Grant()
        self.start()

    def run(self):
        rc = self.library.enq.enq_lock(
            self.library.e, ctypes.byref(Req(self.key, b'other', 60000)),
            ctypes.byref(self.grant))
        if rc == OK:
            self.at = now()

    def end(self):
        self.join(MANY_S)
        assert self.at is not None, '%s was not granted' % self.key
        assert self.library.unlock(self.grant) == OK
        self.library.enq.enq_close(self.library.e)


class Holder:
    def __init__(self, address, keys, enter=None):
        def prepare():
            prepare_child(None)()
            if enter is not None:
                enter()

        self.process = subprocess.Popen(
            [sys.executable, '-B', os.path.join(HERE, 'holder.py'), LIBRARY,
             address, *keys], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, preexec_fn=prepare)
        self.threads = self.read()['threads']

    def read(self):
        return json.loads(self.process.stdout.readline())

    def ask(self, word='tell'):
        self.process.stdin.write(word + '\n')
        self.process.stdin.flush()
        return self.read()

    def says(self, result):
        """Of each RELEASE lock, lately; n: how often it was asked."""
        told = list(self.ask()['locks'].values())[:-1]
        return all(lock['said'] and lock['said'][-1][1] == result
                   for lock in told)

    def signal(self, number):
        self.process.send_signal(number)

    def end(self):
        self.process.stdin.close()
        assert self.process.wait(MANY_S) == 0


class Case:
    """@address: of the holder's bridge, without its grace period."""

    count = 0

    def __init__(self, world, address, grace_s=GRACE_S, enter=None):
        Case.count += 1
        self.world = world
        self.keys = ['s%d-%d' % (Case.count, i) for i in range(5)]
        self.holder = Holder('%s?grace=%d' % (address, grace_s * 1000),
                             self.keys, enter)
        self.others = [Other(world, key) for key in self.keys[:-1]]
        within(MANY_S, lambda: world.n_waiting() == len(self.others),
               'the others wait')
        within(MANY_S, lambda: self.holder.says(OK), 'each has been asked')

    def is_granted(self):
        return all(other.at is not None for other in self.others)

    def none_is_granted(self):
        return all(other.at is None for other in self.others)

    def wait_for_suspicion(self):
        """And what it is told when it is not stopped itself."""
        within(MANY_S, lambda: self.holder.says(ELEASE), 'they are suspect')
        within(MANY_S, lambda: [SESSION, ELEASE] in
               self.holder.ask()['events'], 'it is told so')

    def wait_for_others(self):
        within(MANY_S, self.is_granted, 'the locks go to others')

    def judge(self, told):
        """All that was said is compared with the truth."""
        assert not _violations, _violations  # once is enough: not again
        for other in self.others:
            lock = told['locks'][other.key]
            assert lock['n'] > 5, 'it was hardly asked: %s' % lock
            if other.at is not None and lock['last_ok'] >= other.at:
                _violations.append(
                    '%s was ours %.1f ms after it had gone to another' % (
                        other.key, (lock['last_ok'] - other.at) * 1000))
        assert not _violations, _violations
        lease = told['locks'][self.keys[-1]]
        assert [rc for _, rc in lease['said']] == [OK], \
            'a LEASE is not suspect: %s' % lease

    def end_lost(self):
        """They have gone to others, and it knows."""
        self.wait_for_others()
        within(MANY_S, lambda: self.holder.says(OWNERDIED), 'they are lost')
        self.judge(self.holder.ask('unlock'))
        self.end()

    def end_ours(self):
        """It has them still, or again."""
        within(MANY_S, lambda: self.holder.says(OK), 'they are ours')
        assert self.none_is_granted(), 'granted to two'
        assert [SESSION, OWNERDIED] not in self.holder.ask()['events']
        self.judge(self.holder.ask('unlock'))
        self.wait_for_others()
        self.end()

    def end_as_decided(self):
        """The bridge has said whose they are."""
        within(MANY_S, lambda: self.holder.says(OK) or
               self.holder.says(OWNERDIED), 'it is decided')
        if self.none_is_granted():
            self.end_ours()
        else:
            self.end_lost()

    def end(self):
        for other in self.others:
            other.end()
        self.holder.end()


# --- the network ---


def cut(proxy):
    proxy.cut()


def held(*ways):
    return lambda proxy: proxy.hold(*ways)


def late(proxy):
    proxy.delay = {'up': 0, 'down': 2 * GRACE_S}


FAULTS = {
    'is reset': cut,
    'goes dead': held('up', 'down'),
    'takes nothing to the bridge': held('up'),
}


def _at_bridge(world):
    return Case(world, 'tcp://127.0.0.1:%d' % world.port)


def _behind(world, play):
    proxy = Proxy(world.address('tcp'))
    try:
        case = Case(world, 'tcp://127.0.0.1:%d' % proxy.port)
        play(case, proxy)
    finally:
        proxy.close()


def too_late(world, fault):
    def play(case, proxy):
        FAULTS[fault](proxy)
        case.wait_for_suspicion()
        case.wait_for_others()
        proxy.recover()
        case.end_lost()
    _behind(world, play)


def in_time(world, fault):
    """In half of the grace period, by its clock; if not, as this machine stood
    still, it is judged as what it was."""
    def play(case, proxy):
        begin = now()
        FAULTS[fault](proxy)
        time.sleep(GRACE_S / 2)
        proxy.recover()
        if now() - begin > GRACE_S * 0.8:
            raise Skip('this machine stood still')
        case.end_ours()
    _behind(world, play)


def answers_lost(world):
    """The bridge hears of it, and so its session goes on: suspect, and ours."""
    def play(case, proxy):
        proxy.hold('down')
        case.wait_for_suspicion()
        proxy.recover()
        case.end_as_decided()
    _behind(world, play)


def answers_late(world):
    def play(case, proxy):
        late(proxy)
        case.wait_for_suspicion()
        time.sleep(3 * GRACE_S)
        proxy.recover()
        case.end_as_decided()
    _behind(world, play)


def again_and_again(world):
    """In time or not, as it comes: what is said is true."""
    def play(case, proxy):
        for i in range(6):
            proxy.cut() if i % 2 else proxy.hold('up', 'down')
            time.sleep(GRACE_S * (0.3 + 0.2 * i))
            proxy.recover()
            time.sleep(0.05 * i)
        case.end_as_decided()
    _behind(world, play)


def _host(number):
    try:
        return Host(number)
    except OSError as error:
        raise Skip('no hosts of our own: %s' % error) from error


def cable(world):
    """A host of its own, whose cable is pulled."""
    host = _host(90)
    try:
        with host.inside():
            case = Case(world, 'tcp://%s:%d' % (host.ours, world.port))
        host.pull()
        case.wait_for_suspicion()
        case.wait_for_others()
        host.plug_in()
        case.end_lost()
    finally:
        host.close()


# --- the client stands still ---


def client_stopped(world):
    case = _at_bridge(world)
    case.holder.signal(signal.SIGSTOP)
    case.wait_for_others()
    case.holder.signal(signal.SIGCONT)
    case.end_lost()


def client_stopped_in_time(world):
    """Beyond its grace period, and before it is taken for gone: the bridge
    begins to count when it has missed it."""
    case = _at_bridge(world)
    case.holder.signal(signal.SIGSTOP)
    time.sleep(GRACE_S * 1.2)
    case.holder.signal(signal.SIGCONT)
    case.end_as_decided()


def _ptrace(request, tid):
    _libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p,
                             ctypes.c_void_p]
    if _libc.ptrace(request, tid, None, None) != 0:
        raise Skip('no ptrace: %s' % os.strerror(ctypes.get_errno()))


def reader_stopped(world):
    """The library's own thread alone: the application's go on."""
    case = _at_bridge(world)
    for tid in case.holder.threads:
        _ptrace(PTRACE_SEIZE, tid)
        _ptrace(PTRACE_INTERRUPT, tid)
        os.waitpid(tid, WALL)
    within(MANY_S, lambda: case.holder.says(ELEASE), 'they are suspect')
    case.wait_for_others()
    for tid in case.holder.threads:
        _ptrace(PTRACE_DETACH, tid)
    case.end_lost()


# --- the bridge stands still ---


def bridge_stopped(world):
    case = _at_bridge(world)
    world.process.send_signal(signal.SIGSTOP)
    case.wait_for_suspicion()
    time.sleep(GRACE_S)
    world.process.send_signal(signal.SIGCONT)
    case.end_as_decided()


def bridge_killed(world):
    """And started again when the client had given up hope: the session goes
    on, as no other bridge has ended it."""
    case = _at_bridge(world)
    world.kill()
    case.wait_for_suspicion()
    never(GRACE_S, lambda: not case.none_is_granted(),
          'without a bridge it is nobody\'s')
    world.start()
    case.end_as_decided()


# --- another grace period than was asked for ---


def bridge_knows_better(world):
    proxy = Proxy(world.address('tcp'))
    try:
        case = Case(world, 'tcp://127.0.0.1:%d' % proxy.port, grace_s=60)
        begin = now()
        proxy.cut()
        case.wait_for_suspicion()
        assert now() - begin < 30, 'it believed what it had asked for'
        case.wait_for_others()
        proxy.recover()
        case.end_lost()
    finally:
        proxy.close()


SHORT = dict(world='suspect')
for _fault in FAULTS:
    add('a client in C whose connection %s until its locks are gone' % _fault,
        too_late, _fault, **SHORT)
    add('a client in C whose connection %s for half a grace period' % _fault,
        in_time, _fault, **SHORT)
add('a client in C whose answers are lost', answers_lost, **SHORT)
add('a client in C whose answers are late by two grace periods', answers_late,
    **SHORT)
add('a client in C that is cut off again and again', again_and_again, **SHORT)
add('a client in C that is stopped until its locks are gone', client_stopped,
    **SHORT)
add('a client in C that is stopped for a little more than its grace period',
    client_stopped_in_time, **SHORT)
add('a client in C whose reader is stopped', reader_stopped, **SHORT)
add('a client in C whose bridge is stopped', bridge_stopped, **SHORT)
add('a client in C whose bridge is killed, and started again late',
    bridge_killed, **SHORT)
add('a client in C whose bridge allows less grace than it asked for',
    bridge_knows_better, world='max-grace')
add('a client in C on a host whose cable is pulled', cable,
    world='suspect-hosts')
