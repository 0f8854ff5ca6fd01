"""death.py - the bridge itself ends: killed, told to stop, or stopped.

No lock ends with it. Waiters are cut off and ask the next bridge again.
"""
import os
import random
import signal
import time

from many import Clients, Turns
from peer import KINDS, encode, new_id
from scenarios import add

MANY = 1000
KEYS = 20


def _hold(world):
    """Locks of clients with a session and without one."""
    held = []
    for i in range(KEYS):
        peer = world.peer(KINDS[i % 3], 'tcp' if i % 2 == 0 else 'unix',
                          **({'grace': 60000} if i % 3 == 2 else {}))
        held.append((peer, peer.lock('d%d' % i)))
    return held


def _give_back(world, held):
    """By connections to the next bridge: each id is known there."""
    for i, (peer, grant) in enumerate(held):
        again = world.peer(peer.kind, 'tcp' if i % 2 == 0 else 'unix',
                           session=peer.session)
        again.asked = peer.asked
        if peer.kind == 'session':
            assert again.resumed, 'its session is not known'
            same = again.lock('d%d' % i, uuid=grant.uuid)
            assert same is not None and same.token == grant.token
        again.unlock(grant.uuid)
        if peer.kind == 'session':
            again.send({'OP': 'goodbye', 'reqUUID': new_id()})
        again.close()
        peer.close()


def _wait(world, turns, kind, n, asked=None):
    """@asked: what the same ones have asked before."""
    for i in range(n):
        peer = world.peer(kind, 'tcp' if i % 4 else 'unix',
                          **({'grace': 1000} if kind == 'session' else {}))
        uuid = None
        if asked is not None:
            uuid, peer.asked = asked[i]
        turns.join(peer, 'd%d' % (i % KEYS), uuid)


def killed_with_waiters(world, kind):
    held = _hold(world)
    turns = Turns(world)
    _wait(world, turns, kind, MANY)
    asked = [(uuid, peer.asked) for peer, uuid in turns.wants.items()]
    world.wait_for_waiters(MANY)
    world.kill()
    turns.clients.run(5, lambda: len(turns.cut) == MANY, 'all are cut off')
    assert len(world.rows()) == KEYS, 'locks ended with the bridge'
    world.start()
    world.wait_for_waiters(0)
    again = Turns(world)
    _wait(world, again, kind, MANY, asked)
    world.serves()
    world.wait_for_waiters(MANY)
    _give_back(world, held)
    again.finish(30)


def stops_with_waiters(world, kind):
    """Clients without a session are told; all are cut off; new ones are not
    let hang."""
    held = _hold(world)
    told, ended = [], []

    def heard(peer, value):
        if value is None:
            ended.append(peer)
        else:
            assert value['RC'] == '4' and 'stopping' in value['MSG'], value
            told.append(peer)

    clients = Clients(heard)
    for i in range(200):
        peer = world.peer(kind, 'tcp' if i % 2 else 'unix',
                          **({'grace': 1000} if kind == 'session' else {}))
        peer.ask('d%d' % (i % KEYS), 120000)
        clients.add(peer)
    world.wait_for_waiters(200)
    begin = time.monotonic()
    world.process.terminate()
    clients.run(5, lambda: len(ended) == 200, 'all are cut off')
    assert len(told) == (0 if kind == 'session' else 200), len(told)
    for peer, _ in held:
        peer.ends(5)
    assert world.process.wait(10) == 0
    assert time.monotonic() - begin < 4
    try:
        world.peer()
    except ConnectionError:
        pass
    else:
        raise AssertionError('somebody listens')
    world.start()
    _give_back(world, held)
    clients.close()


def stops_with_unread(world):
    """A client that does not read holds nobody up."""
    peer = world.peer('legacy', 'unix')
    half = world.peer()
    half.socket.sendall(b'{"OP":')
    peer.socket.setblocking(False)
    try:
        while True:
            peer.socket.sendall(encode({'OP': '9'}) * 50)
    except BlockingIOError:
        pass
    begin = time.monotonic()
    assert world.terminate() == 0
    assert time.monotonic() - begin < 4
    world.start()


def stood_still(world, kind):
    """All that asked it meanwhile have an answer then."""
    peer, other = world.peer(kind), world.peer(kind, 'unix')
    os.kill(world.process.pid, signal.SIGSTOP)
    try:
        uuid = peer.ask('still')
        behind = other.ask('still', 60000)
        time.sleep(0.5)
    finally:
        os.kill(world.process.pid, signal.SIGCONT)
    for each, its in ((peer, uuid), (other, behind)):
        assert each.granted(its, each.reply()) is not None
        each.unlock(its)
        each.close()


# --- killed again and again, while all are busy ---

class Busy:
    """Clients that lock and unlock, and ask again what was not answered."""

    def __init__(self, world, kind, n):
        self.world, self.kind, self.turns, self.n_turns = world, kind, {}, 0
        self.clients, self.keep_on = Clients(self.heard), True
        self.cut = [self.Turn() for _ in range(n)]

    class Turn:
        peer, uuid, asked, is_held, session = None, None, None, False, None

    def connect(self):
        """All that were cut off."""
        for turn in self.cut:
            more = {}
            if self.kind == 'session':
                more = {'grace': 20000, 'session': turn.session}
            peer = self.world.peer(self.kind, random.choice(('tcp', 'unix'))
                                   if self.kind == 'session' else 'tcp', **more)
            turn.peer, turn.session = peer, peer.session
            peer.asked = turn.asked if turn.asked is not None else {}
            self.turns[peer] = turn
            self.clients.add(peer)
            self.next(turn)
        self.cut = []

    def next(self, turn):
        """What was not answered, or else another lock."""
        if turn.uuid is None and not self.keep_on:
            self.turns.pop(turn.peer)
            self.clients.drop(turn.peer)
        elif turn.is_held:
            self.send(turn, turn.peer.unlock_request(turn.uuid))
        else:
            key = 'busy%d' % random.randrange(8)
            turn.uuid, request = turn.peer.lock_request(key, 20000, turn.uuid)
            turn.asked = {turn.uuid: request}
            self.send(turn, request)

    @staticmethod
    def send(turn, request):
        try:
            turn.peer.send(request)
        except ConnectionError:
            pass  # that it is cut off is heard

    def heard(self, peer, value):
        turn = self.turns[peer]
        if value is None:
            self.turns.pop(peer)
            self.cut.append(turn)
            return
        if turn.is_held:  # unlocked, now or by the request before
            assert value['RC'] in '04', value
            turn.uuid, turn.is_held = None, False
            self.n_turns += 1
        else:
            self.got(turn, value)
            self.world.judge.ends(turn.uuid)
            turn.is_held = True
        self.next(turn)

    def got(self, turn, value):
        """By the request before, maybe, whose reply was lost."""
        if value['RC'] == '4' and 'exists' in value['MSG']:
            assert self.kind != 'session', value
            assert turn.uuid in [row['id'].rpartition('/')[2]
                                 for row in self.world.rows()]
            value = {'RC': '0'}
        assert turn.peer.granted(turn.uuid, value) is not None, value


def killed_when_busy(world, kind):
    busy = Busy(world, kind, 40)
    for _ in range(8):
        busy.connect()
        until = time.monotonic() + random.uniform(0.02, 0.2)
        busy.clients.run(5, lambda end=until: time.monotonic() > end, 'time')
        world.kill()
        busy.clients.run(5, lambda: len(busy.cut) == 40, 'all are cut off')
        world.start()
    busy.connect()
    busy.clients.run(5, lambda: busy.n_turns > 400, 'they have turns')
    busy.keep_on = False
    busy.clients.run(20, lambda: not busy.turns, 'none hangs')
    busy.clients.close()


for _kind in KINDS:
    add('a bridge is killed with a thousand %s requests that wait' % _kind,
        killed_with_waiters, _kind, world='death')
    add('a bridge is told to stop while %s clients wait' % _kind,
        stops_with_waiters, _kind, world='death')
    add('a bridge is killed again and again while %s clients are busy' % _kind,
        killed_when_busy, _kind, world='death')
    add('a bridge that stood still answers its %s clients' % _kind,
        stood_still, _kind, world='death')
add('a bridge is told to stop while somebody does not read', stops_with_unread,
    world='death')
