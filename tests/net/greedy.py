"""greedy.py - many who do not read, none of them beyond a limit of his own.

Together they would take gigabytes. Meanwhile another client's requests are
timed; what is judged is how long the bridge worked before it answered, as the
rest is the machine's.
"""
import json
import socket
import time

from peer import new_id
from scenarios import add

CLIENTS = 400
BYTES = 900 << 10  # that each leaves unread: below his own limit
RSS_KIB = 160 << 10
WORK_MS = 10  # of the bridge, before it answers somebody else


def _reply_bytes(world):
    """Of a refusal with all that it tells."""
    peer = world.peer('extended', 'unix')
    peer.send(_request())
    n = len(peer.socket.recv(65536))
    peer.close()
    return n


def _request():
    return {'OP': '1', 'reqUUID': 'r' * 60, 'eleLock': {
        'name': 'greedy', 'argument': ['k'], 'mode': 'X', 'owner': 'x'}}


def _ping(world, peer):
    """How long it took, and how long the bridge worked meanwhile, in ms."""
    begin, work = time.monotonic(), world.cpu_ms()
    peer.send({'OP': 'ping', 'reqUUID': new_id()})
    peer.reply()
    return (time.monotonic() - begin) * 1000, world.cpu_ms() - work


def _tell(what, ms):
    ms.sort()
    print('another client: %s %.2f ms (median), %.2f ms (99 of 100), %.2f ms '
          'at most' % (what, ms[len(ms) // 2], ms[len(ms) * 99 // 100], ms[-1]))
    return ms[len(ms) * 99 // 100]


def unread_of_all(world):
    holder = world.peer('session', 'unix', grace=0, owner='O' * 100)
    held = holder.lock('greedy')
    holder.send({'OP': '1', 'reqUUID': new_id(), 'eleLock': {
        'name': 'greedy', 'argument': ['k'], 'mode': 'X'}})
    assert holder.reply()['RC'] == '0'
    before = world.status('VmRSS')
    n = BYTES // _reply_bytes(world)
    many = json.dumps(_request()).encode() * (n // 10)
    greedy, took, most = [], [], 0
    for i in range(CLIENTS):
        s = socket.socket(socket.AF_UNIX)
        s.connect(world.unix)
        s.settimeout(0.2)
        greedy.append(s)
        for _ in range(10):
            try:
                s.sendall(many)
            except OSError:
                break
        took.append(_ping(world, holder))
        if i % 20 == 0:
            most = max(most, world.status('VmRSS'))
    _tell('waits', [ms for ms, _ in took])
    late = _tell('the bridge works for', [ms for _, ms in took])
    print('%d KiB more' % (most - before))
    assert late <= WORK_MS, '%.2f ms' % late
    assert most - before <= RSS_KIB, '%d KiB' % (most - before)
    for s in greedy:
        s.close()
    holder.unlock(held.uuid)
    holder.close()


add('400 clients that leave 0.9 MiB unread each take a bounded memory',
    unread_of_all, world='greedy')
