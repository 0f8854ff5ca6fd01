"""outage.py - hosts that vanish: no packet says that they are gone.

Each fault has a host of its own, on which a client of each kind is in each
phase; all vanish at once, so that four seconds are waited for once. What came
of each of them is then stated one by one.
"""
import socket
import time

from nets import Host
from peer import KINDS, Ended, Peer
from scenarios import Skip, add, figure, within

NOTICED_MS = 4000
GRACE_MS = 300
FREED_MS = 500  # and with it, seen by us

FAULTS = {
    'whose cable is pulled':
        (lambda host: host.pull(), lambda host: host.plug_in()),
    'that nothing reaches':
        (lambda host: host.lose_ours(), lambda host: host.find_ours()),
    'that nothing comes from':
        (lambda host: host.lose_its(), lambda host: host.find_its()),
    'that swallows its answers':
        (lambda host: host.swallow(), lambda host: host.spit_out()),
}
PHASES = ('is idle', 'has sent half a request', 'waits', 'is answered',
          'is answered and asks again', 'holds a lock')


class Case:
    """A client in a phase, and what became of it."""

    def __init__(self, world, host, fault, phase, kind, number):
        self.world, self.fault, self.phase, self.kind = \
            world, fault, phase, kind
        self.key = 'k%d' % number
        hello = {'grace': GRACE_MS} if kind == 'session' else {}
        with host.inside():
            self.peer = Peer(world.judge, (host.ours, world.port), kind,
                             **hello)
        self.port = self.peer.socket.getsockname()[1]
        self.noticed_ms, self.freed_ms = None, None
        self.holder, self.held, self.uuid = None, None, None
        self.since = None  # what the bridge could notice

    def begin(self):
        """What it does before its host vanishes."""
        if self.phase == 'has sent half a request':
            self.peer.socket.sendall(b'{"OP":"1","eleLock":{"na')
        elif self.phase == 'waits' or self.is_answered():
            self.holder = self.world.peer()
            self.held = self.holder.lock(self.key)
            self.uuid = self.peer.ask(self.key, 60000)
        elif self.phase == 'holds a lock':
            self.uuid = self.peer.lock(self.key).uuid

    def answer(self):
        """The host is gone: now it is granted what it waits for."""
        self.since = time.monotonic()
        if self.is_answered():
            self.holder.unlock(self.held.uuid)
        if self.phase == 'is answered and asks again':
            self.peer.socket.sendall(b' ')  # and again, as nobody answers

    def look(self, now, ports, rows):
        """@ports of connections that there are; @rows of the table."""
        ms = (now - self.since) * 1000
        if self.noticed_ms is None and self.port not in ports:
            self.noticed_ms = ms
        mine = [w['id'] for row in rows for w in row['waiters']]
        mine += [row['id'] for row in rows]
        mine = [uuid.rpartition('/')[2] for uuid in mine]
        if self.uuid is not None and self.freed_ms is None and \
                self.uuid not in mine:
            self.freed_ms = ms

    def is_answered(self):
        return self.phase.startswith('is answered')

    def stays(self):
        """A lock without a session is its host's, connected or not."""
        return self.kind != 'session' and \
            (self.is_answered() or self.phase == 'holds a lock')

    def is_over(self):
        return self.noticed_ms is not None and (
            self.uuid is None or self.freed_ms is not None or self.stays())

    def judge(self):
        """When its host is there again."""
        assert self.noticed_ms is not None, 'not noticed at all'
        assert self.noticed_ms <= NOTICED_MS, \
            'noticed after %d ms' % self.noticed_ms
        if self.stays():
            assert self.freed_ms is None, 'its lock went with its host'
            assert self.world.holders(self.key) == [self.uuid]
        elif self.uuid is not None:
            most = NOTICED_MS + FREED_MS
            most += GRACE_MS if self.kind == 'session' else 0
            assert self.freed_ms is not None, 'its request or lock stays'
            assert self.freed_ms <= most, 'free after %d ms' % self.freed_ms

    def clean(self, host):
        """It learns that it is cut off, and gives back what it holds."""
        try:
            self.peer.socket.settimeout(5)
            self.peer.socket.sendall(b' ')
            self.peer.ends(5)
        except (Ended, ConnectionError):
            pass
        self.peer.close()
        if self.phase == 'waits':
            self.holder.unlock(self.held.uuid)
        if self.holder is not None:
            self.holder.close()
        if self.stays():
            with host.inside():
                again = Peer(self.world.judge, self.peer.address, self.kind)
            again.unlock(self.uuid)
            again.close()
        self.world.judge.ends(self.uuid)


def _ports(host):
    """Of its connections that are there, from /proc/net/tcp."""
    its = '%08X' % int.from_bytes(socket.inet_aton(host.its), 'little')
    with open('/proc/self/net/tcp', encoding='ascii') as tcp:
        fields = [line.split() for line in tcp][1:]
    return {int(f[2].partition(':')[2], 16) for f in fields
            if f[2].startswith(its) and f[3] != '06'}


class Round:
    """All of them, once."""

    def __init__(self, world):
        self.world, self.cases, self.hosts = world, {}, {}
        for n, fault in enumerate(FAULTS):
            self.hosts[fault] = _make_host(50 + n)
            for phase in PHASES:
                for kind in KINDS:
                    self.cases[fault, phase, kind] = Case(
                        world, self.hosts[fault], fault, phase, kind,
                        len(self.cases))
        for case in self.cases.values():
            case.begin()
        self.vanish()
        self.come_back()

    def vanish(self):
        n = sum((c.phase == 'waits' or c.is_answered())
                for c in self.cases.values())
        self.world.wait_for_waiters(n)
        time.sleep(1.1)  # all is quiet: they are asked whether they live
        for fault, (begins, _) in FAULTS.items():
            begins(self.hosts[fault])
        since = time.monotonic()
        for case in self.cases.values():
            case.answer()
        while not all(c.is_over() for c in self.cases.values()) and \
                time.monotonic() - since < 8:
            self.look()

    def look(self):
        self.world.serves()
        rows = self.world.rows()
        now = time.monotonic()
        ports = {fault: _ports(host) for fault, host in self.hosts.items()}
        for case in self.cases.values():
            case.look(now, ports[case.fault], rows)
        time.sleep(0.02)

    def come_back(self):
        for fault, (_, ends) in FAULTS.items():
            ends(self.hosts[fault])
        self.faults = {}
        for which, case in self.cases.items():
            try:
                case.judge()
            except AssertionError as fault:
                self.faults[which] = fault
            case.clean(self.hosts[case.fault])
        for host in self.hosts.values():
            host.close()
        for phase in PHASES:
            took = [c.noticed_ms or 60000 for c in self.cases.values()
                    if c.phase == phase]
            print('noticed while its client %s: after %d to %d ms' % (
                phase, min(took), max(took)))
        figure('net-dead-peer-ms',
               max(c.noticed_ms or 60000 for c in self.cases.values()))


_round = []


def vanished(world, fault, phase, kind):
    if not _round:
        _round.append(None)
        _round[0] = Round(world)
    if _round[0] is None:
        raise Skip('no round of hosts that vanish')
    if (fault, phase, kind) in _round[0].faults:  # if again, then all again
        raise _round.pop().faults[fault, phase, kind]


# --- it comes back ---

class Together:
    """A play for each fault and kind, in three acts: before all faults, during
    them, after them. What went wrong is kept for its scenario."""

    def __init__(self, world, play, kinds, first, seconds):
        self.world, self.acts, self.faults = world, {}, {}
        hosts = {fault: _make_host(first + n)
                 for n, fault in enumerate(FAULTS)}
        for fault in FAULTS:
            for kind in kinds:
                self.acts[fault, kind] = play(
                    world, hosts[fault], kind, '%d-%s' % (len(self.acts), kind))
        self.act()
        for fault, (begins, _) in FAULTS.items():
            begins(hosts[fault])
        until = time.monotonic() + seconds
        self.act()
        while time.monotonic() < until:
            world.serves()
            time.sleep(0.05)
        for fault, (_, ends) in FAULTS.items():
            ends(hosts[fault])
        self.act()
        for host in hosts.values():
            host.close()

    def act(self):
        for which, acts in self.acts.items():
            try:
                next(acts, None)
            except Exception as fault:  # any: the other plays go on
                self.faults[which] = fault


def _make_host(number):
    try:
        return Host(number)
    except OSError as error:
        raise Skip('no hosts of our own: %s' % error) from error


def in_time(world, host, kind, key):
    """A reply that is sent meanwhile arrives later; nobody is taken for
    gone."""
    holder = world.peer()
    held = holder.lock(key)
    with host.inside():
        peer = Peer(world.judge, (host.ours, world.port), kind)
        idle = Peer(world.judge, (host.ours, world.port), kind)
    uuid = peer.ask(key, 60000)
    within(5, lambda: _waits(world, uuid), 'it waits')
    yield
    holder.unlock(held.uuid)
    yield
    assert peer.granted(uuid, peer.reply()) is not None
    peer.unlock(uuid)
    idle.unlock(idle.lock(key).uuid)
    for each in (holder, peer, idle):
        each.close()


def _waits(world, uuid):
    return uuid in [w['id'].rpartition('/')[2]
                    for row in world.rows() for w in row['waiters']]


def too_late(world, host, kind, key):
    """What was granted to nobody's ears is told when the session is there
    again: the same lock, once."""
    holder = world.peer()
    held = holder.lock(key)
    with host.inside():
        peer = Peer(world.judge, (host.ours, world.port), kind, grace=30000)
    kept = peer.lock('kept' + key)
    uuid = peer.ask(key, 60000)
    within(5, lambda: _waits(world, uuid), 'it waits')
    yield
    holder.unlock(held.uuid)
    port = peer.socket.getsockname()[1]
    within(6, lambda: port not in _ports(host), 'it is noticed')
    yield
    with host.inside():
        again = Peer(world.judge, (host.ours, world.port), kind,
                     session=peer.session)
    assert again.resumed
    again.asked = peer.asked
    assert again.lock(key, uuid=uuid) is not None
    assert again.lock('kept' + key, uuid=kept.uuid).token == kept.token
    again.unlock(uuid)
    again.unlock(kept.uuid)
    for each in (holder, peer, again):
        each.close()


_rounds = {}


def comes_back(world, play, kinds, first, seconds, fault, kind):
    if play not in _rounds:
        _rounds[play] = None
        _rounds[play] = Together(world, play, kinds, first, seconds)
    if _rounds[play] is None:
        raise Skip('no round of hosts that come back')
    if (fault, kind) in _rounds[play].faults:
        raise _rounds.pop(play).faults[fault, kind]


OUTAGE_S = 1

for _fault in FAULTS:
    for _kind in KINDS:
        add('a host %s for a second has lost nothing of its %s client' % (
            _fault, _kind), comes_back, in_time, KINDS, 60, OUTAGE_S, _fault,
            _kind, world='hosts')
for _fault in FAULTS:
    add('a session of a host %s goes on when it is back' % _fault, comes_back,
        too_late, ('session',), 70, 0, _fault, 'session', world='hosts')
for _fault in FAULTS:
    for _phase in PHASES:
        for _kind in KINDS:
            add('a host %s is noticed while its %s client %s' % (
                _fault, _kind, _phase), vanished, _fault, _phase, _kind,
                world='hosts')
