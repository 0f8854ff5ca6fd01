"""short.py - no descriptors are left, nothing is to be done, nobody listens.

The bridge of the first ones may open so few files that some clients are too
many for it.
"""
import os
import socket
import time

from peer import Ended
from scenarios import add, within
from world import World

NOFILE = 40


def _until_full(world, transport):
    """Clients, the last of which are not let in; those that are."""
    served, waiting = [], []
    for _ in range(2 * NOFILE):
        try:
            peer = world.peer('legacy', transport)
            peer.send({'OP': '9'})
        except ConnectionError:
            continue
        waiting.append(peer)
    time.sleep(0.3)
    for peer in list(waiting):
        try:
            peer.reply(0.05)
        except TimeoutError:
            continue
        except Ended:
            pass
        else:
            served.append(peer)
        waiting.remove(peer)
    assert 10 < len(served) < NOFILE, len(served)
    return served, waiting


def full(world, transport):
    """Clients that are in stay served; the others come in when there is room;
    and the bridge does not run in cycles meanwhile."""
    served, waiting = _until_full(world, transport)
    begin, cpu = time.monotonic(), world.cpu_ms()
    while time.monotonic() - begin < 1:
        for peer in served[:5]:
            peer.unlock(peer.lock('full').uuid)
        time.sleep(0.1)
    cpu = world.cpu_ms() - cpu
    assert cpu < 300, '%d ms of CPU in a second' % cpu
    lines = world.said().count('no descriptor')
    assert lines == 1, 'told %d times' % lines
    for peer in served:
        peer.close()
    for peer in waiting:
        try:
            assert peer.reply(5)['RC'] == '4'  # what it asked before
        except Ended:  # one at a time was told that there is no room
            pass
        peer.close()


def idle(world):
    """It is not awake when nobody is there: not even after it had to count
    the time for somebody. In a world of its own: sessions of other scenarios
    may have some of their grace left."""
    with_session = world.peer('session', grace=50)
    with_session.close()
    half = world.peer()
    half.socket.sendall(b'{"OP"')
    half.close()
    within(5, lambda: len(world.fds()) == world.n_fds, 'all have gone')
    time.sleep(0.3)
    before = world.status('voluntary_ctxt_switches')
    time.sleep(1)
    woken = world.status('voluntary_ctxt_switches') - before
    assert woken <= 2, 'woken %d times in a second' % woken


def watchdog(_world, loops):
    """systemd hears of an idle bridge."""
    notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    notify.bind('\0enq-net-%d' % os.getpid())
    notify.settimeout(10)
    world = World('watched', ['--threads', str(loops)], env={
        'NOTIFY_SOCKET': '@enq-net-%d' % os.getpid(),
        'WATCHDOG_USEC': '400000'})
    try:
        told = [notify.recv(100)]
        while told[-1] != b'READY=1':
            told.append(notify.recv(100))
        begin, n = time.monotonic(), 0
        while n < 5:
            n += notify.recv(100) == b'WATCHDOG=1'
        assert time.monotonic() - begin < 5 * 0.4 + 1
        assert world.terminate() == 0
    finally:
        world.give_up()
        notify.close()


for _transport in ('tcp', 'unix'):
    add('no descriptor is left for one more over %s' % _transport, full,
        _transport, world='short-' + _transport)
add('a bridge that nobody uses sleeps', idle, world='idle')
for _loops in (1, 3):
    add('a bridge of %d loops that nobody uses feeds its watchdog' % _loops,
        watchdog, _loops)
