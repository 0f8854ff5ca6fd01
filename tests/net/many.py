"""many.py - a thousand clients at once, and ten thousand."""
import random
import select
import time

from peer import KINDS, encode, new_id
from scenarios import Skip, add, figure, within

MANY = 1000
TURNS = 300
CONNECTIONS = 10000
RSS_KIB = 64 << 10


class Clients:
    """Clients of which any may be spoken to next: heard(peer, value) is called
    for each object that comes, and with None when it is cut off."""

    def __init__(self, heard):
        self.poll, self.heard, self.peers = select.epoll(), heard, {}

    def add(self, peer):
        peer.socket.settimeout(5)
        self.peers[peer.socket.fileno()] = peer
        self.poll.register(peer.socket.fileno(), select.EPOLLIN)
        return peer

    def drop(self, peer):
        self.poll.unregister(peer.socket.fileno())
        del self.peers[peer.socket.fileno()]
        peer.close()

    def _listen(self, peer):
        more = peer.receive()
        if not more:
            self.drop(peer)
            self.heard(peer, None)
            return
        peer.bytes += more
        value = peer.take()
        while value is not None:
            if 'EVENT' not in value:
                self.heard(peer, value)
            value = peer.take()

    def round(self, seconds):
        for fd, _ in self.poll.poll(seconds):
            if fd in self.peers:
                self._listen(self.peers[fd])

    def run(self, seconds, until, what):
        end = time.monotonic() + seconds
        while not until():
            assert time.monotonic() < end, '%s: not within %g s' % (
                what, seconds)
            self.round(0.05)

    def close(self):
        for peer in list(self.peers.values()):
            self.drop(peer)
        self.poll.close()


class Turns:
    """Clients, each of which takes a lock, and gives it back at once."""

    def __init__(self, world):
        self.world, self.clients = world, Clients(self.heard)
        self.wants, self.done, self.cut = {}, [], []

    def join(self, peer, key, uuid=None):
        """It waits for @key; again, where it has the id."""
        self.clients.add(peer)
        self.wants[peer] = peer.ask(key, 120000, uuid)

    def heard(self, peer, value):
        uuid = self.wants[peer]
        if value is None:
            self.cut.append(peer)
        elif uuid in self.done:
            assert value['RC'] == '0', 'unlock: %s' % value
            del self.wants[peer]
            self.clients.drop(peer)
        else:
            assert peer.granted(uuid, value) is not None, value
            self.world.judge.ends(uuid)
            self.done.append(uuid)
            peer.send(peer.unlock_request(uuid))

    def finish(self, seconds):
        self.clients.run(seconds, lambda: not self.wants, 'each has its turn')
        self.clients.close()


def _peer(world, kind, transport, **more):
    hello = {'grace': 0} if kind == 'session' else {}
    hello.update(more)
    return world.peer(kind, transport, **hello)


# --- storms ---

def resets_at_once(world):
    for _ in range(2 * MANY):
        world.peer().reset()
    world.serves()


def resets_in_a_request(world, kind):
    text = encode(world.peer(kind).lock_request('half')[1])
    for _ in range(MANY):
        peer = _peer(world, kind, 'tcp')
        peer.socket.sendall(text[:random.randrange(1, len(text))])
        peer.reset()
    world.serves()


def waiters_reset(world, kind, transport):
    """Nobody is granted what they waited for, and nobody waits for them."""
    holder = world.peer()
    held = holder.lock('herd')
    herd = [_peer(world, kind, transport) for _ in range(MANY)]
    for peer in herd:
        peer.ask('herd', 120000)
    world.wait_for_waiters(MANY)
    for peer in herd[::2]:
        peer.reset()
    world.serves()
    last = world.peer()
    uuid = last.ask('herd', 120000)
    for peer in herd[1::2]:
        peer.reset()
    world.serves()
    world.wait_for_waiters(1)
    holder.unlock(held.uuid)
    assert last.granted(uuid, last.reply()) is not None
    last.unlock(uuid)
    last.close()
    holder.close()


def in_turn(world, kind, transport):
    """All wait for one lock: each gets it, in the order of arrival. One after
    the other, which is slow on a busy machine: fewer will do."""
    holder = world.peer()
    held = holder.lock('turn')
    turns = Turns(world)
    for _ in range(TURNS):
        turns.join(_peer(world, kind, transport), 'turn')
    arrived = list(turns.wants.values())
    world.wait_for_waiters(TURNS)
    holder.unlock(held.uuid)
    turns.finish(30)
    holder.close()
    behind = sum(a != b for a, b in zip(arrived, turns.done))
    assert behind == 0, '%d out of turn' % behind


def reconnect(world, kind, transport):
    """All are cut off, and all come back at once, for what they hold."""
    before = []
    for i in range(MANY):
        peer = _peer(world, kind, transport, grace=30000)
        before.append((peer, peer.lock('storm%d' % i)))
    for peer, _ in before:
        peer.reset()
    clients, left = Clients(lambda peer, value: left.remove(peer)), set()
    for peer, grant in before:
        again = world.peer(kind, transport, session=peer.session)
        assert kind != 'session' or again.resumed
        world.judge.ends(grant.uuid)
        again.send(again.unlock_request(grant.uuid))
        left.add(clients.add(again))
    world.serves()
    clients.run(10, lambda: not left, 'each is answered')
    for peer in list(clients.peers.values()):
        if kind == 'session':
            peer.send({'OP': 'goodbye', 'reqUUID': new_id()})
            peer.ends()
    clients.close()


# --- ten thousand ---

def ten_thousand(world):
    """Each has asked something; a fifth waits; one more is refused."""
    peers, holder = [], world.peer('session', 'unix', grace=0)
    owners = [[] for _ in range(8)]
    held = [holder.lock('t%d' % i) for i in range(20)]
    try:
        while len(peers) < CONNECTIONS - 1:
            n = len(peers)
            peers.append(world.peer(source='127.0.0.%d' % (2 + n % 8)))
            if n % 5 == 0:
                peers[-1].ask('t%d' % (n % 20), 600000)
            else:
                owners[n % 8].append(peers[-1].lock('own%d' % n).uuid)
    except OSError as error:
        raise Skip('only %d connections: %s' % (len(peers), error)) from error
    world.wait_for_waiters((len(peers) + 4) // 5)
    peers[1].unlock(owners[1].pop(0))
    rss = world.status('VmRSS')
    assert rss <= RSS_KIB, '%d KiB' % rss
    surplus = world.peer()
    surplus.ask('surplus')
    assert 'connections' in surplus.reply()['MSG']
    surplus.ends()
    figure('net-connections', len(peers) + 1)
    figure('net-rss-kib', rss)
    for peer in peers:
        peer.reset()
    within(20, lambda: len(world.fds()) <= world.n_fds + 1, 'all are gone')
    for grant in held:
        holder.unlock(grant.uuid)
    holder.close()
    for host in range(8):  # their locks stay: each host gives back its own
        peer = world.peer(source='127.0.0.%d' % (2 + host))
        for uuid in owners[host]:
            peer.unlock(uuid)
        peer.close()


add('two thousand connections are reset as they come', resets_at_once)
for _kind in KINDS:
    add('a thousand %s requests are reset in the middle' % _kind,
        resets_in_a_request, _kind)
    for _transport in ('tcp', 'unix') if _kind == 'legacy' else ('tcp',):
        _clients = 'a thousand %s clients over %s' % (_kind, _transport)
        add('%s that wait are reset' % _clients, waiters_reset, _kind,
            _transport)
        add('300 %s clients over %s get one lock in turn' % (
            _kind, _transport), in_turn, _kind, _transport)
        add('%s are cut off and come back' % _clients, reconnect, _kind,
            _transport)
add('ten thousand connections take 64 MiB at most', ten_thousand,
    world='many')
