"""proxy.py - between a client and its bridge: what it is told to hold back it
holds back, and neither side is told.
"""
import os
import select
import socket
import struct
import threading
import time


class Pipe:
    """From one socket to the other."""

    def __init__(self, source, target, way):
        self.source, self.target, self.way = source, target, way
        self.queue = []  # (when, bytes)


class Proxy:
    """@delay: seconds, by way: 'up' to the bridge, 'down' to the client."""

    def __init__(self, bridge):
        self.bridge = bridge
        self.held, self.delay = set(), {'up': 0, 'down': 0}
        self.refuses, self.pipes = False, []
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.lock = threading.Lock()
        self.wake_in, self.wake_out = os.pipe()
        self.over = False
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    # --- faults ---

    def hold(self, *ways):
        self.held = set(ways)

    def cut(self):
        """A reset on both sides, and nobody gets in."""
        with self.lock:
            self.refuses = True
            for pipe in self.pipes:
                _reset(pipe.source)
            self.pipes = []

    def recover(self):
        self.held, self.refuses = set(), False
        self.delay = {'up': 0, 'down': 0}

    def close(self):
        self.over = True
        os.write(self.wake_out, b'x')
        self.thread.join()
        self.cut()
        self.listener.close()
        os.close(self.wake_in)
        os.close(self.wake_out)

    # --- the thread ---

    def run(self):
        while not self.over:
            with self.lock:
                sources = {pipe.source: pipe for pipe in self.pipes}
            try:
                ready = select.select(
                    [self.listener, self.wake_in] + list(sources), [], [],
                    0.005)[0]
            except (OSError, ValueError):
                continue  # cut meanwhile
            with self.lock:
                self.turn(ready, sources)

    def turn(self, ready, sources):
        if self.listener in ready:
            self.accept()
        for source, pipe in sources.items():
            if source in ready and pipe in self.pipes:
                self.take(pipe)
        for pipe in list(self.pipes):
            self.give(pipe)

    def accept(self):
        client = self.listener.accept()[0]
        try:
            bridge = None if self.refuses else socket.create_connection(
                self.bridge)
        except OSError:
            bridge = None
        if bridge is None:
            _reset(client)
            return
        for each in (client, bridge):
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pipes += [Pipe(client, bridge, 'up'), Pipe(bridge, client, 'down')]

    def take(self, pipe):
        try:
            data = pipe.source.recv(65536)
        except OSError:
            data = b''
        if data == b'' and pipe.way in self.held:
            return  # the end that has gone has not been seen to
        if data == b'':
            self.drop(pipe)
        else:
            pipe.queue.append((time.monotonic() + self.delay[pipe.way], data))

    def give(self, pipe):
        while pipe.queue and pipe.way not in self.held and \
                pipe.queue[0][0] <= time.monotonic():
            try:
                pipe.target.sendall(pipe.queue.pop(0)[1])
            except OSError:
                self.drop(pipe)
                return

    def drop(self, pipe):
        pair = {pipe.source, pipe.target}
        self.pipes = [p for p in self.pipes if p.source not in pair]
        for each in pair:
            each.close()


def _reset(each):
    try:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                        struct.pack('ii', 1, 0))
        each.close()
    except OSError:
        pass
