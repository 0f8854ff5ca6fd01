"""peer.py - a client of enq-bridge: one connection, byte for byte.

Three kinds: 'legacy' as npm's enqueue-client speaks, 'extended' with reqUUID
and without a session, 'session' after hello.
"""
import itertools
import json
import socket
import struct
import time

from judge import Grant

KINDS = ('legacy', 'extended', 'session')
A = {'legacy': 'a legacy', 'extended': 'an extended', 'session': 'a session'}
CALL_S = 10  # no call of a client takes longer

_numbers = itertools.count(1)
_decoder = json.JSONDecoder()


class Ended(Exception):
    """The bridge has closed the connection."""


def new_id():
    return 'n%d' % next(_numbers)


def encode(request):
    return json.dumps(request, separators=(',', ':'),
                      ensure_ascii=False).encode()


class Peer:
    def __init__(self, judge, address, kind='legacy', source=None,
                 room=None, **hello):
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self.judge, self.kind, self.address = judge, kind, address
        self.socket = socket.socket(family, socket.SOCK_STREAM)
        self.socket.settimeout(CALL_S)
        if room is not None:  # for what it has not read
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, room)
        if source is not None:
            self.socket.bind((source, 0))
        self.socket.connect(address)
        if family == socket.AF_INET:
            self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.bytes = b''
        self.owner = 'o' + new_id()
        self.asked = {}  # uuid: the request
        self.events = []
        self.session, self.resumed = None, False
        self.greeting = None
        if kind == 'session':
            self.say_hello(hello)

    def say_hello(self, hello):
        request = {'OP': 'hello', 'reqUUID': new_id(), 'owner': self.owner}
        request.update(hello)
        self.send(request)
        self.greeting = self.reply()
        assert self.greeting['RC'] == '0', self.greeting
        self.session = self.greeting['SESSION']
        self.resumed = self.greeting['RESUMED']

    # --- bytes ---

    def send(self, request):
        self.socket.sendall(encode(request))

    def receive(self, most=65536):
        """Some bytes; b'' at the end."""
        try:
            return self.socket.recv(most)
        except ConnectionError:
            return b''

    def take(self):
        """An object that has come, or None."""
        self.bytes = self.bytes.lstrip()
        if not self.bytes:
            return None
        try:
            text = self.bytes.decode()
            value, n = _decoder.raw_decode(text)
        except (UnicodeDecodeError, json.JSONDecodeError):
            return None  # not all of it yet
        self.bytes = text[n:].encode()
        return value

    def reply(self, seconds=CALL_S):
        """The next; events that come before it are put by."""
        self.socket.settimeout(seconds)
        while True:
            value = self.take()
            if value is not None and 'EVENT' in value:
                self.events.append(value)
                continue
            if value is not None:
                return value
            more = self.receive()
            if not more:
                raise Ended('closed, with %r unread' % self.bytes[:200])
            self.bytes += more

    def list(self):
        """As enqueue-server does: four bytes of length, then an array."""
        self.send({'OP': '4'})
        while len(self.bytes) < 4:
            self.bytes += self.receive() or self.fail()
        n, = struct.unpack('<I', self.bytes[:4])
        while len(self.bytes) < 4 + n:
            self.bytes += self.receive() or self.fail()
        rows = json.loads(self.bytes[4:4 + n])
        self.bytes = self.bytes[4 + n:]
        return rows

    def fail(self):
        raise Ended('closed in a list')

    def ends(self, seconds=CALL_S):
        """Closed by the bridge, whatever comes before; in ms."""
        begin = time.monotonic()
        self.socket.settimeout(seconds)
        while self.receive():
            pass
        return (time.monotonic() - begin) * 1000

    # --- requests ---

    def lock_request(self, key, wait_ms=0, uuid=None, **more):
        """Of one that is known it is the same again."""
        uuid = uuid or new_id()
        if uuid not in self.asked:
            lock = {'name': 'net', 'argument': [key], 'mode': 'X',
                    'owner': self.owner, 'waitTime': wait_ms, 'timeout': 0,
                    'uuid': uuid}
            self.asked[uuid] = {'OP': '1', 'eleLock': lock}
            if self.kind != 'legacy':
                self.asked[uuid]['reqUUID'] = 'q' + uuid
            self.asked[uuid].update(more)
        return uuid, self.asked[uuid]

    def ask(self, key, wait_ms=0, uuid=None, **more):
        uuid, request = self.lock_request(key, wait_ms, uuid, **more)
        self.send(request)
        return uuid

    def granted(self, uuid, reply):
        """The judge hears of it; the grant, or None."""
        if reply['RC'] != '0' or reply.get('RESULT') == 3:
            return None
        lock = self.asked[uuid]['eleLock']
        grant = Grant('net/' + lock['argument'][0], uuid, lock['owner'],
                      int(reply['TOKEN']) if 'TOKEN' in reply else None,
                      reply.get('HANDLE'))
        self.judge.granted(grant)
        return grant

    def lock(self, key, wait_ms=0, uuid=None, **more):
        """A grant; None: refused."""
        uuid = self.ask(key, wait_ms, uuid, **more)
        return self.granted(uuid, self.reply())

    def unlock_request(self, uuid):
        request = {'OP': '2', 'lockUUID': uuid}
        if self.kind != 'legacy':
            request['reqUUID'] = 'u' + uuid
        return request

    def unlock(self, uuid):
        self.judge.ends(uuid)
        self.send(self.unlock_request(uuid))
        reply = self.reply()
        assert reply['RC'] == '0', 'unlock of %s: %s' % (uuid, reply)

    # --- ends ---

    def reset(self):
        """RST on TCP."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack('ii', 1, 0))
        self.socket.close()

    def close(self):
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)
