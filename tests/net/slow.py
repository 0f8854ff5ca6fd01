"""slow.py - a slow reader is served, a client that does not read is cut off.

A list is asked for that no buffer of the kernel takes: the window closes, and
the bridge cannot write for as long as its client does something else.
"""
import struct
import threading
import time

from limits import give_back, many_locks
from peer import KINDS, new_id
from scenarios import add

READ_S = 5
LOCKS = 20000


class Reader:
    """Of one list, with little room for it."""

    def __init__(self, world, kind, transport, shut=False):
        more = {'grace': 0} if kind == 'session' else {}
        self.peer = world.peer(kind, transport, room=16384, **more)
        self.legacy, self.bytes, self.over = kind == 'legacy', b'', False
        self.peer.send({'OP': '4'} if self.legacy else
                       {'OP': '4', 'reqUUID': new_id()})
        if shut:  # it has said all
            self.peer.half_close()

    def read(self, n=65536):
        more = self.peer.receive(n)
        self.over = not more
        self.bytes += more
        return bool(more)

    def whole(self):
        if not self.legacy:
            return self.bytes.endswith(b'\n')
        return len(self.bytes) > 3 and \
            len(self.bytes) == 4 + struct.unpack('<I', self.bytes[:4])[0]

    def slowly(self):
        """It pauses for less than it may, goes on by bits, pauses again."""
        begin = time.monotonic()
        while len(self.bytes) < 200000 and self.read(2000):
            time.sleep(0.01)
        for _ in range(2):
            time.sleep(READ_S - 1.2)
            for _ in range(20):
                self.read(10000)
        while not self.whole() and self.read():
            pass
        self.took = time.monotonic() - begin


def _at_once(readers):
    threads = [threading.Thread(target=r.slowly) for r in readers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def slow(world, transport):
    """All kinds at once, and one that has half-closed; for longer than the
    time in which something is to be read."""
    holder, asked = many_locks(world, LOCKS)
    readers = [Reader(world, kind, transport) for kind in KINDS]
    readers.append(Reader(world, 'legacy', transport, True))
    _at_once(readers)
    for reader in readers:
        assert reader.whole(), 'cut after %d bytes' % len(reader.bytes)
        assert reader.took > READ_S, reader.took
        assert len(reader.bytes) > 100 * LOCKS
        reader.peer.close()
    give_back(world, holder, asked)


def unread(world, transport):
    """Nobody else notices, and its memory is given back."""
    holder, asked = many_locks(world, LOCKS)
    before = len(world.fds())
    readers = [Reader(world, kind, transport) for kind in KINDS]
    readers.append(Reader(world, 'legacy', transport, True))
    begin = time.monotonic()
    for reader in readers:
        reader.read(1000)
    while len(world.fds()) > before:
        assert time.monotonic() - begin < READ_S + 3, 'not cut'
        if time.monotonic() - begin < READ_S - 0.5:
            assert len(world.fds()) == before + len(readers), 'too early'
            holder.send({'OP': 'ping', 'reqUUID': new_id()})
            holder.reply()
        time.sleep(0.1)
    for reader in readers:
        while reader.read():
            pass
        assert not reader.whole()
        reader.peer.close()
    give_back(world, holder, asked)


for _transport in ('tcp', 'unix'):
    add('a list over %s is read slowly' % _transport, slow, _transport,
        world='slow')
    add('a list over %s is left unread' % _transport, unread, _transport,
        world='slow')
