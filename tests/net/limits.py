"""limits.py - clients that ask too much, take too long, or do not read.

The bridge of these scenarios has small limits. Each ends with an error that
names it; the other clients do not notice.
"""
import fcntl
import socket
import struct
import termios
import time

from peer import A, KINDS, Ended, encode, new_id
from scenarios import add, within

REQUEST_S = 1
OUTPUT_BYTES = 16384
LISTS_BYTES = 1 << 20
CONNECTIONS = 40
WAITS = 5
SESSIONS = 10
KEEPALIVE_MS = 400
OPTIONS = ['--max-request', '4096', '--request-time', str(REQUEST_S),
           '--max-output', str(OUTPUT_BYTES), '--max-lists', str(LISTS_BYTES),
           '--max-connections', str(CONNECTIONS), '--max-waits', str(WAITS),
           '--max-sessions', str(SESSIONS), '--keepalive', str(KEEPALIVE_MS)]


def _peer(world, kind, transport):
    return world.peer(kind, transport,
                      **({'grace': 0} if kind == 'session' else {}))


# --- half a request ---

def _stall(peer, text):
    peer.socket.sendall(text[:-5])


def _drip(peer, text):
    """As slow as may be, and never silent."""
    end = time.monotonic() + 3 * REQUEST_S
    peer.socket.setblocking(False)
    for byte in text * 10:
        try:
            peer.socket.sendall(bytes([byte]))
            peer.bytes += peer.socket.recv(4096)
            return
        except BlockingIOError:
            time.sleep(0.02)
        assert time.monotonic() < end, 'nobody minds'


def late(world, manner, kind, transport):
    """From the first byte: later ones do not help."""
    peer = _peer(world, kind, transport)
    begin = time.monotonic()
    manner(peer, encode(peer.lock_request('x' * 1500)[1]))
    world.serves()
    reply = peer.reply()
    took = time.monotonic() - begin
    assert reply['RC'] == '4' and 'complete' in reply['MSG'], reply
    assert REQUEST_S * 0.9 < took < REQUEST_S + 1, 'after %g s' % took
    peer.ends()
    peer.close()


# --- too long, too many ---

def too_long(world, kind, transport):
    peer = _peer(world, kind, transport)
    _, request = peer.lock_request('x' * 5000)
    peer.socket.sendall(encode(request)[:4500])
    reply = peer.reply()
    assert reply['RC'] == '4' and '4096' in reply['MSG'], reply
    peer.ends()
    peer.close()


def too_many_waits(world, kind, transport):
    """The one too many is refused; the others are none the worse."""
    holder = world.peer()
    held = holder.lock('waits')
    peer = _peer(world, kind, transport)
    asked = [peer.ask('waits', 30000) for _ in range(WAITS)]
    peer.ask('waits', 30000)
    reply = peer.reply()
    assert reply['RC'] == '4' and 'wait' in reply['MSG'], reply
    holder.unlock(held.uuid)
    while asked:
        reply = peer.reply()
        uuid, = world.holders('waits')  # not always in their order (R7)
        asked.remove(uuid)
        assert peer.granted(uuid, reply) is not None, reply
        peer.unlock(uuid)
    peer.close()
    holder.close()


def too_many_connections(world, transport):
    """The one too many is told so; there is room again when one has gone."""
    all_of_them = [world.peer('legacy', transport)
                   for _ in range(CONNECTIONS)]
    all_of_them[0].unlock(all_of_them[0].lock('room').uuid)
    surplus = world.peer('legacy', transport)
    surplus.ask('room')
    reply = surplus.reply()
    assert reply['RC'] == '4' and 'connections' in reply['MSG'], reply
    surplus.ends()
    lister = world.peer('legacy', transport)
    assert lister.list() == []
    lister.ends()
    many = _turned_away(world, transport, 200)
    all_of_them[1].unlock(all_of_them[1].lock('room').uuid)
    for peer in many + all_of_them[2:] + [surplus, lister]:
        peer.close()
    within(5, lambda: _is_let_in(world, transport), 'there is room again')
    for peer in all_of_them[:2]:
        peer.unlock(peer.lock('room').uuid)
        peer.close()


def _turned_away(world, transport, n):
    """Of so many above the limit most are reset at once."""
    many = []
    for _ in range(n):
        try:
            many.append(world.peer('legacy', transport))
        except ConnectionError:
            continue
    return many


def _is_let_in(world, transport):
    try:
        peer = world.peer('legacy', transport)
        peer.ask('room')
        reply = peer.reply()
    except (Ended, ConnectionError):
        return False
    if reply['RC'] == '0':
        uuid = list(peer.asked)[0]
        peer.granted(uuid, reply)
        peer.unlock(uuid)
    peer.close()
    return reply['RC'] == '0'


def too_many_sessions(world, transport):
    joined = [world.peer('session', transport, grace=0)
              for _ in range(SESSIONS)]
    try:
        world.peer('session', transport)
    except AssertionError as refusal:
        assert 'sessions' in str(refusal), refusal
    else:
        raise AssertionError('one too many')
    for peer in joined:
        peer.close()
    within(5, lambda: _may_join(world, transport), 'there is room again')


def _may_join(world, transport):
    try:
        world.peer('session', transport, grace=0).close()
    except AssertionError:
        return False
    return True


# --- clients that do not read ---

def _fill(world, peer, text, most):
    """Sends until it is cut; how many bytes."""
    peer.socket.setblocking(False)
    sent, end = 0, time.monotonic() + 20
    while sent < most:
        try:
            sent += peer.socket.send(text)
        except BlockingIOError:
            world.serves()
        except ConnectionError:
            return sent
        assert time.monotonic() < end, 'neither cut nor read'
    return sent


def slow_reader(world, kind, transport):
    """It is cut at its cap, and the bridge's memory stays where it was."""
    before = world.status('VmRSS')
    peer = _peer(world, kind, transport)
    request = {'OP': 'nothing'}
    if kind != 'legacy':
        request['reqUUID'] = 'x' * 60
    many = encode(request) * 400
    assert _fill(world, peer, many, 1 << 27) < 1 << 27, 'never cut'
    grown = world.status('VmRSS') - before
    assert grown < 4096, 'by a slow reader it grew by %d KiB' % grown
    peer.close()


def _come(peer):
    """Bytes that have come, and that it has not read."""
    return struct.unpack('i', fcntl.ioctl(peer.socket, termios.FIONREAD,
                                          b'1234'))[0]


def _talk(world, peer, text):
    """Without reading, until no more answers come than there is room for, and
    beyond what the bridge keeps for it."""
    before, beyond = -1, 0
    while beyond < 2 * OUTPUT_BYTES:
        before = _come(peer)
        peer.socket.sendall(text)
        world.serves()
        beyond += len(text) if _come(peer) == before else -beyond


def talker(world, kind):
    """It is cut for that, and goes on talking, though nobody answers it any
    more: it is not kept for as long as one that reads slowly."""
    peer = _peer(world, kind, 'unix')
    request = {'OP': 'nothing'}
    if kind != 'legacy':
        request['reqUUID'] = 'x' * 60
    few = encode(request) * 20
    try:
        _talk(world, peer, few)
    except ConnectionError:
        pass
    assert _fill(world, peer, few * 200, 1 << 27) < 1 << 27, 'never cut'
    peer.close()


def many_locks(world, n, **more):
    """A session with many locks, in few segments."""
    holder = world.peer('session', 'unix', grace=0)
    asked = []
    for i in range(n):
        uuid, request = holder.lock_request('many%d' % i)
        request['eleLock'].update(more)
        asked.append((uuid, request))
    for at in range(0, n, 50):
        part = asked[at:at + 50]
        holder.socket.sendall(b''.join(encode(r) for _, r in part))
        for uuid, _ in part:
            assert holder.granted(uuid, holder.reply()) is not None
    return holder, asked


def give_back(world, holder, asked):
    for uuid, _ in asked:
        world.judge.ends(uuid)
    holder.close()
    within(5, lambda: not world.rows(), 'the locks go with their session')


def unread_lists(world, kind, transport):
    """Of all that is unread there is a limit, too: lists above it are
    refused."""
    holder, asked = many_locks(world, 1000)
    before = world.status('VmRSS')
    peer = _peer(world, kind, transport)
    text = b''.join(
        encode({'OP': '4'} if kind == 'legacy' else
               {'OP': '4', 'reqUUID': new_id()}) for _ in range(300))
    peer.socket.sendall(text)
    end, grown = time.monotonic() + 1, 0
    while time.monotonic() < end:
        grown = max(grown, world.status('VmRSS') - before)
        time.sleep(0.02)
    most = 16 * LISTS_BYTES >> 10
    assert grown < most, 'lists that nobody reads took %d KiB' % grown
    world.serves()
    peer.reset()
    give_back(world, holder, asked)


def behind_a_list(world, kind, transport):
    """A list may be longer than what may be unread; what is asked while it is
    on its way is answered behind it."""
    holder, asked = many_locks(world, 3000)
    peer = _peer(world, kind, transport)
    request = {'OP': '4'} if kind == 'legacy' else \
        {'OP': '4', 'reqUUID': new_id()}
    peer.send(request)
    within(5, lambda: peer.socket.recv(1, socket.MSG_PEEK), 'a list comes')
    uuid = peer.ask('behind')
    time.sleep(0.05)
    peer.bytes = b''
    tail = b'"RC":"0"' + (b'}' if kind == 'legacy' else b'')
    while not (tail in peer.bytes[-300:] and b'LOCKS' not in
               peer.bytes[-300:]):
        more = peer.receive()
        assert more, 'cut: %r' % peer.bytes[-200:]
        peer.bytes += more
    peer.bytes = peer.bytes[peer.bytes.rindex(b'{"RC"'):]
    reply = peer.reply()
    assert peer.granted(uuid, reply) is not None, reply
    peer.unlock(uuid)
    peer.close()
    give_back(world, holder, asked)


def lists_of_another(world, kind):
    """The client that asks for many lists is the one that waits for them."""
    holder, asked = many_locks(world, 3000)
    hog, peer = _peer(world, kind, 'unix'), _peer(world, 'legacy', 'unix')
    begin = time.monotonic()
    assert len(peer.list()) == 3000
    alone = time.monotonic() - begin
    hog.socket.sendall(b''.join(
        encode({'OP': '4', 'reqUUID': new_id()}) for _ in range(60)))
    within(5, lambda: hog.socket.recv(1, socket.MSG_PEEK), 'the first comes')
    begin = time.monotonic()
    peer.list()
    took = time.monotonic() - begin
    assert took < 8 * alone + 0.1, '%g s, alone %g s' % (took, alone)
    hog.reset()
    peer.close()
    give_back(world, holder, asked)


def _may_list(peer):
    peer.send({'OP': '4', 'reqUUID': new_id()})
    return peer.reply()['RC'] == '0'


def lists_of_many(world, kind):
    """Each of whom has left less unread than one may."""
    holder, asked = many_locks(world, 2000)
    peer, silent_ones = _peer(world, kind, 'unix'), []
    assert _may_list(peer)
    while len(silent_ones) < 40 and _may_list(peer):
        silent_ones.append(_peer(world, kind, 'unix'))
        silent_ones[-1].send({'OP': '4', 'reqUUID': new_id()})
        within(5, lambda: silent_ones[-1].socket.recv(1, socket.MSG_PEEK),
               'a list comes')
    n = len(silent_ones)
    assert 2 < n < 40, 'refused after %d' % n
    for one in silent_ones:
        one.reset()
    within(5, lambda: _may_list(peer), 'what nobody has read is over')
    peer.close()
    give_back(world, holder, asked)


def unread_events(world, transport):
    """What is pushed counts as well."""
    holder, asked = many_locks(world, 5000, timeout=2000)
    before = len(world.fds())
    for uuid, _ in asked:
        world.judge.ends(uuid)
    within(8, lambda: len(world.fds()) < before, 'it is cut')
    holder.close()


# --- sessions that say nothing ---

def silent(world, transport):
    """A client that says something now and then stays."""
    quiet = world.peer('session', transport, grace=100)
    alive = world.peer('session', transport, grace=100)
    gone, kept = quiet.lock('quiet'), alive.lock('alive')
    begin = time.monotonic()
    while world.holders('quiet'):
        alive.send({'OP': 'ping', 'reqUUID': new_id()})
        assert alive.reply()['RC'] == '0'
        time.sleep(KEEPALIVE_MS / 2000)
        assert time.monotonic() - begin < 10, 'still there'
        if not world.holders('quiet'):
            break
    took = (time.monotonic() - begin) * 1000
    assert took > 2 * KEEPALIVE_MS, 'after %d ms already' % took
    world.judge.ends(gone.uuid)
    assert quiet.ends() < 2000
    assert world.holders('alive') == [kept.uuid]
    alive.unlock(kept.uuid)
    quiet.close()
    alive.close()


for _transport in ('tcp', 'unix'):
    for _kind in KINDS:
        _where = '%s request over %s' % (A[_kind], _transport)
        add('half a %s has a second' % _where, late, _stall, _kind,
            _transport, world='limits')
        add('%s that comes by drops has a second' % _where, late, _drip,
            _kind, _transport, world='limits')
        add('%s that is too long is refused' % _where, too_long, _kind,
            _transport, world='limits')
        _who = '%s client over %s' % (A[_kind], _transport)
        add('one request too many that waits, of a %s' % _who, too_many_waits,
            _kind, _transport, world='limits')
        add('%s that does not read is cut' % _who, slow_reader, _kind,
            _transport, world='limits')
        add('%s that does not read lists is refused more' % _who,
            unread_lists, _kind, _transport, world='limits')
        add('%s asks for more while a long list comes' % _who,
            behind_a_list, _kind, _transport, world='limits')
    add('one connection too many over %s' % _transport, too_many_connections,
        _transport, world='limits')
    add('one session too many over %s' % _transport, too_many_sessions,
        _transport, world='limits')
    add('a session over %s that says nothing goes' % _transport, silent,
        _transport, world='limits')
for _kind in KINDS[:2]:  # a session that is not answered is silent soon
    add('%s client that goes on talking when it is cut goes' % A[_kind],
        talker, _kind, world='limits')
for _kind in KINDS[1:]:
    add('many lists of %s client hold up nobody else\'s' % A[_kind],
        lists_of_another, _kind, world='lists')
    add('unread lists of many are counted together, of %s clients' %
        _kind, lists_of_many, _kind, world='few-lists')
add('a session that does not read its events is cut', unread_events, 'unix',
    world='events')
