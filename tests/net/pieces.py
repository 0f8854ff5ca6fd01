"""pieces.py - requests cut and joined: a stream has no segments."""
import time

from peer import KINDS, encode
from scenarios import add


def _granted(peer, uuid):
    assert peer.granted(uuid, peer.reply()) is not None
    return uuid


def one_byte_a_segment(world, peer):
    uuid, request = peer.lock_request('bytes')
    for byte in encode(request):
        peer.socket.sendall(bytes([byte]))
        time.sleep(0.0002)  # a segment each, and a read each
    peer.unlock(_granted(peer, uuid))


def two_in_one_segment(world, peer):
    uuid, lock = peer.lock_request('two')
    peer.socket.sendall(encode(lock) + encode(peer.unlock_request(uuid)))
    _granted(peer, uuid)
    peer.judge.ends(uuid)
    assert peer.reply()['RC'] == '0'


def many_in_one_segment(world, peer):
    """More than one read takes."""
    asked = [peer.lock_request('many%d' % i) for i in range(300)]
    peer.socket.sendall(b''.join(encode(request) for _, request in asked))
    for uuid, _ in asked:
        _granted(peer, uuid)
    back = [peer.unlock_request(uuid) for uuid, _ in asked]
    for uuid, _ in asked:
        peer.judge.ends(uuid)
    peer.socket.sendall(b'\n'.join(encode(request) for request in back))
    for _ in back:
        assert peer.reply()['RC'] == '0'


def one_and_a_half(world, peer):
    first, one = peer.lock_request('one')
    second, two = peer.lock_request('half')
    two = encode(two)
    peer.socket.sendall(encode(one) + two[:40])
    _granted(peer, first)
    peer.socket.sendall(two[40:])
    _granted(peer, second)
    peer.unlock(first)
    peer.unlock(second)


def in_the_middle_of_a_letter(world, peer):
    """Of two bytes; and the half that came waits for the other."""
    uuid, request = peer.lock_request('letter')
    request['eleLock']['owner'] = 'Jürgen'
    text = encode(request)
    at = text.index('ü'.encode()) + 1
    peer.socket.sendall(text[:at])
    time.sleep(0.02)
    peer.socket.sendall(text[at:])
    peer.unlock(_granted(peer, uuid))


def a_wait_in_front(world, peer):
    """What waits holds up nothing that came behind it."""
    holder = world.peer()
    held = holder.lock('front')
    first, one = peer.lock_request('front', 30000)
    second, two = peer.lock_request('behind')
    peer.socket.sendall(encode(one) + encode(two))
    _granted(peer, second)
    holder.unlock(held.uuid)
    _granted(peer, first)
    peer.unlock(first)
    peer.unlock(second)
    holder.close()


MANNERS = {
    'come one byte a segment': one_byte_a_segment,
    'come two in one segment': two_in_one_segment,
    'come 300 in a few segments': many_in_one_segment,
    'come one and a half in a segment': one_and_a_half,
    'are cut in the middle of a letter': in_the_middle_of_a_letter,
    'come in one segment, the first of them waits': a_wait_in_front,
}


def play(world, manner, kind, transport):
    peer = world.peer(kind, transport)
    try:
        MANNERS[manner](world, peer)
    finally:
        peer.close()


for _transport in ('tcp', 'unix'):
    for _kind in KINDS:
        for _manner in MANNERS:
            add('%s requests over %s %s' % (_kind, _transport, _manner), play,
                _manner, _kind, _transport)
