"""lost.py - a session whose connection breaks before it has its reply.

It resumes and sends again what was not answered: what was done is not done
twice, and nothing of it is lost (P10).
"""
from judge import Grant
from peer import new_id
from scenarios import add, within

GRACE_MS = 30000
ENDS = {
    'is reset': lambda peer: peer.reset(),
    'is closed': lambda peer: peer.close(),
    'is still there': lambda peer: None,
}


def _resume(world, peer, transport):
    again = world.peer('session', transport, session=peer.session)
    assert again.resumed, 'the session is not known any more'
    again.asked = peer.asked
    return again


def lock(world, peer, cut):
    uuid = peer.ask('lost')
    within(2, lambda: world.holders('lost') == [uuid], 'it is granted')
    again = cut()
    again.unlock(again.lock('lost', uuid=uuid).uuid)
    return again


def wait(world, peer, cut):
    """It keeps its place: a later one comes later."""
    holder, later = world.peer(), world.peer()
    held = holder.lock('place')
    uuid = peer.ask('place', 60000)
    world.wait_for_waiters(1)
    last = later.ask('place', 60000)
    world.wait_for_waiters(2)
    again = cut()
    again.ask('place', uuid=uuid)
    world.serves()
    holder.unlock(held.uuid)
    assert again.granted(uuid, again.reply()) is not None
    again.unlock(uuid)
    assert later.granted(last, later.reply()) is not None
    later.unlock(last)
    return again


def granted_meanwhile(world, peer, cut):
    """While it has no connection."""
    holder = world.peer()
    held = holder.lock('away')
    uuid = peer.ask('away', 60000)
    world.wait_for_waiters(1)
    if cut.ends:
        cut.end()
    holder.unlock(held.uuid)
    within(2, lambda: world.holders('away') == [uuid], 'it is granted')
    again = cut()
    again.unlock(again.lock('away', uuid=uuid).uuid)
    return again


def unlock(world, peer, cut):
    """The holder by then keeps the lock."""
    grant = peer.lock('back')
    world.judge.ends(grant.uuid)
    request = peer.unlock_request(grant.uuid)
    peer.send(request)
    within(2, lambda: not world.holders('back'), 'it is given back')
    other = world.peer()
    theirs = other.lock('back')
    again = cut()
    again.send(request)
    assert again.reply()['RC'] == '0'
    assert world.holders('back') == [theirs.uuid]
    other.unlock(theirs.uuid)
    return again


def lock_set(world, peer, cut):
    keys = ['set%d' % i for i in range(5)]
    request = {'OP': 'set', 'reqUUID': new_id(), 'locks': [
        {'name': 'net', 'argument': [key], 'mode': 'X', 'owner': 'O',
         'uuid': new_id()} for key in keys]}
    peer.send(request)
    within(2, lambda: len(world.rows()) == len(keys), 'all are granted')
    again = cut()
    again.send(request)
    reply = again.reply()
    assert reply['RC'] == '0', reply
    for asked, told in zip(request['locks'], reply['GRANTS']):
        world.judge.granted(Grant(
            'net/' + asked['argument'][0], asked['uuid'], 'O',
            int(told['TOKEN']), told['HANDLE']))
    world.judge.compare(world.rows())
    for asked in request['locks']:
        again.unlock(asked['uuid'])
    return again


REQUESTS = {
    'a lock': lock,
    'a lock that it waits for': wait,
    'a lock that comes meanwhile': granted_meanwhile,
    'an unlock': unlock,
    'a lock set': lock_set,
}


class Cut:
    """Ends the connection, once, and makes the next one."""

    def __init__(self, world, peer, how, transport):
        self.world, self.peer, self.transport = world, peer, transport
        self.ends = how != 'is still there'
        self.how, self.is_done = ENDS[how], False

    def end(self):
        if not self.is_done:
            self.how(self.peer)
        self.is_done = True

    def __call__(self):
        self.end()
        return _resume(self.world, self.peer, self.transport)


def play(world, request, how, transport):
    peer = world.peer('session', transport, grace=GRACE_MS)
    again = REQUESTS[request](world, peer, Cut(world, peer, how, transport))
    again.send({'OP': 'goodbye', 'reqUUID': new_id()})
    assert again.reply()['RC'] == '0'
    again.ends()
    if peer.socket.fileno() >= 0:  # two cannot have one session
        peer.ends()
        peer.close()


for _transport in ('tcp', 'unix'):
    for _how in ENDS:
        if _transport == 'unix' and _how == 'is reset':
            continue
        for _request in REQUESTS:
            add('a session gets %s once, whose connection over %s %s' % (
                _request, _transport, _how), play, _request, _how, _transport)
