"""ends.py - a client ends its connection, in every phase of a request.

Without a session a lock stays, and a request that waits goes. With one, both
last as long as its grace, which is short here.
"""
from peer import A, KINDS, encode
from scenarios import add, within

GRACE_MS = 200
NOTICED_S = 2  # to notice, with the grace, on a busy machine

ENDS = {
    'resets the connection': lambda peer: peer.reset(),
    'closes the connection': lambda peer: peer.close(),
    'says that it has said all': lambda peer: peer.half_close(),
}


def _victim(world, kind, transport):
    hello = {'grace': GRACE_MS} if kind == 'session' else {}
    return world.peer(kind, transport, **hello)


def _is_told(peer):
    """A client that has closed only its half is not left waiting for ever."""
    if peer.socket.fileno() >= 0:
        assert peer.ends() < 1000 * NOTICED_S
        peer.close()


def before_a_request(world, end, kind, transport):
    peer = _victim(world, kind, transport)
    end(peer)
    world.serves()
    _is_told(peer)


def in_the_middle_of_a_request(world, end, kind, transport):
    """Which is not done, in part or as a whole."""
    peer = _victim(world, kind, transport)
    _, request = peer.lock_request('half')
    peer.socket.sendall(encode(request)[:-3])
    end(peer)
    world.serves()
    if peer.socket.fileno() >= 0:
        assert peer.reply()['RC'] == '4'
    _is_told(peer)
    assert not world.holders('half')


def while_it_waits(world, end, kind, transport):
    """Nobody is granted the lock for it, and it is in nobody's way."""
    holder, next_one = world.peer(), world.peer()
    held = holder.lock('wait')
    peer = _victim(world, kind, transport)
    peer.ask('wait', 60000)
    world.wait_for_waiters(1)
    end(peer)
    world.serves()
    world.wait_for_waiters(0, NOTICED_S)
    _is_told(peer)
    holder.unlock(held.uuid)
    grant = next_one.lock('wait')
    assert grant is not None, 'the lock went to nobody'
    next_one.unlock(grant.uuid)


def before_it_reads_the_reply(world, end, kind, transport):
    """Granted or not: the table and all that ask it later agree."""
    peer = _victim(world, kind, transport)
    uuid = peer.ask('reply')
    end(peer)
    world.serves()
    _is_told(peer)
    if kind == 'session':
        within(NOTICED_S, lambda: not world.holders('reply'),
               'the lock of a session that is over is given back')
        return
    again = world.peer(kind, transport)
    _, request = again.lock_request('reply', uuid=uuid)
    again.send(request)
    reply = again.reply()
    assert reply['RC'] == '0' or 'exists' in reply['MSG'], reply
    again.unlock(uuid)


def while_it_holds(world, end, kind, transport):
    """Without a session its lock is given back by another connection; a
    session's goes to the next when its grace is over."""
    peer, next_one = _victim(world, kind, transport), world.peer()
    grant = peer.lock('hold')
    end(peer)
    world.serves()
    _is_told(peer)
    if kind == 'session':
        world.judge.ends(grant.uuid)
        after = next_one.lock('hold', 1000 * NOTICED_S)
        assert after is not None, 'still held'
        next_one.unlock(after.uuid)
        return
    assert next_one.lock('hold') is None, 'its lock went with it'
    assert world.holders('hold') == [grant.uuid]
    world.peer(kind, transport).unlock(grant.uuid)


PHASES = {
    'before a request': before_a_request,
    'in the middle of a request': in_the_middle_of_a_request,
    'while it waits': while_it_waits,
    'before it reads the reply': before_it_reads_the_reply,
    'while it holds a lock': while_it_holds,
}


def play(world, end, phase, kind, transport):
    PHASES[phase](world, ENDS[end], kind, transport)


for _transport in ('tcp', 'unix'):
    for _kind in KINDS:
        for _end in ENDS:
            if _transport == 'unix' and 'resets' in _end:
                continue  # there is no such thing
            for _phase in PHASES:
                add('%s client over %s %s %s' % (A[_kind], _transport, _end,
                                                   _phase),
                    play, _end, _phase, _kind, _transport)
