"""holder.py - a program that holds locks through a bridge, and asks all the
time whether they are its own: the client in C, by ctypes, in a process of its
own, so that it can be stopped.

usage: holder.py LIBRARY ADDRESS KEY...; it answers each line on stdin.
"""
import ctypes
import json
import os
import sys
import threading
import time

OK, PENDING, ELEASE = 0, 3, -5007
RESULT, SESSION = 1, 6
RELEASE, LEASE = 0, 1
TEXT = ctypes.c_char_p


class Req(ctypes.Structure):
    _fields_ = [
        ('size', ctypes.c_size_t), ('name', TEXT), ('key', TEXT * 16),
        ('literal', ctypes.c_uint32), ('flags', ctypes.c_uint32),
        ('mode', ctypes.c_int), ('on_death', ctypes.c_int), ('owner', TEXT),
        ('id', TEXT), ('wait_ms', ctypes.c_int64), ('ttl_ms', ctypes.c_int64),
        ('heartbeat_ms', ctypes.c_int64), ('delay_ms', ctypes.c_int64),
        ('retries', ctypes.c_uint32), ('retry_ms', ctypes.c_int64),
        ('peer', TEXT)]

    def __init__(self, key, owner, wait_ms=0, on_death=RELEASE):
        super().__init__(size=ctypes.sizeof(Req), name=b'net', mode=3,
                         on_death=on_death, owner=owner, wait_ms=wait_ms)
        self.key[0] = key.encode()


class Grant(ctypes.Structure):
    _fields_ = [
        ('handle', ctypes.c_uint64), ('token', ctypes.c_uint64),
        ('owner', ctypes.c_char * 128), ('id', ctypes.c_char * 128),
        ('pid', ctypes.c_int32), ('mode', ctypes.c_uint8),
        ('waiting', ctypes.c_uint8), ('age_ms', ctypes.c_int64),
        ('ttl_left_ms', ctypes.c_int64), ('queue', ctypes.c_uint32)]


class Event(ctypes.Structure):
    _fields_ = [('kind', ctypes.c_int), ('result', ctypes.c_int),
                ('ticket', ctypes.c_uint64), ('grant', Grant)]


def now():
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Library:
    def __init__(self, path, address):
        self.enq = ctypes.CDLL(path)
        self.e = ctypes.c_void_p()
        self.want(self.enq.enq_open(ctypes.byref(self.e), address.encode(),
                                    None))

    def want(self, rc, *wanted):
        self.enq.enq_why.restype = TEXT
        assert rc in (wanted or (OK,)), '%d: %s' % (
            rc, self.enq.enq_why().decode())
        return rc

    def lock(self, *args, **more):
        grant = Grant()
        self.want(self.enq.enq_lock(self.e, ctypes.byref(Req(*args, **more)),
                                    ctypes.byref(grant)))
        return grant

    def lock_set(self, keys, owner):
        reqs = [Req(key, owner) for key in keys]
        pointers = (ctypes.POINTER(Req) * len(reqs))(
            *[ctypes.pointer(req) for req in reqs])
        grants = (Grant * len(reqs))()
        self.want(self.enq.enq_lock_set(
            self.e, pointers, ctypes.c_size_t(len(reqs)), grants))
        return list(grants)

    def start(self, *args, **more):
        """Its grant; at once, or as an event."""
        grant, ticket = Grant(), ctypes.c_uint64()
        rc = self.enq.enq_start(
            self.e, ctypes.byref(Req(*args, **more)), ctypes.byref(grant),
            ctypes.byref(ticket))
        if self.want(rc, OK, PENDING) == OK:
            return grant
        while True:
            event = self.next()
            if event is not None and event.kind == RESULT:
                self.want(event.result)
                return event.grant
            time.sleep(0.001)

    def next(self):
        event = Event()
        if self.enq.enq_next(self.e, ctypes.byref(event)) != OK:
            return None
        return event

    def valid(self, handle):
        return self.enq.enq_valid(self.e, ctypes.c_uint64(handle))

    def unlock(self, grant):
        return self.enq.enq_unlock(self.e, ctypes.c_uint64(grant.handle),
                                   ctypes.c_uint64(grant.token))


class Sampler(threading.Thread):
    """Of one lock: when it was last asked for and still ours, and what has been
    said since it was asked for first."""

    def __init__(self, library, handle):
        super().__init__(daemon=True)
        self.library, self.handle = library, handle
        self.last_ok, self.said, self.n = 0, [], 0
        self.over = False
        self.start()

    def run(self):
        while not self.over:
            begin = now()
            rc = self.library.valid(self.handle)
            if rc == OK:
                self.last_ok = begin
            if not self.said or self.said[-1][1] != rc:
                self.said.append((begin, rc))
            self.n += 1
            time.sleep(0.001)

    def end(self):
        self.over = True
        self.join()


def take_all(library, keys):
    """A lock of each kind; the last key is that of a LEASE."""
    owner = b'holder'
    grants = [library.lock(keys[0], owner)]
    grants += library.lock_set(keys[1:3], owner)
    grants += [library.start(keys[3], owner, wait_ms=60000),
               library.lock(keys[4], owner, on_death=LEASE)]
    return dict(zip(keys, grants))


def main():
    path, address, *keys = sys.argv[1:]
    before = set(os.listdir('/proc/self/task'))
    library = Library(path, address)
    threads = sorted(set(os.listdir('/proc/self/task')) - before)
    library.enq.enq_fd(library.e)
    grants = take_all(library, keys)
    samplers = {key: Sampler(library, g.handle) for key, g in grants.items()}
    print(json.dumps({'threads': [int(t) for t in threads]}), flush=True)
    events = []
    for line in sys.stdin:
        if line.strip() == 'unlock':
            for sampler in samplers.values():
                sampler.end()
            for grant in grants.values():
                library.unlock(grant)
        while (event := library.next()) is not None:
            events.append([event.kind, event.result])
        print(json.dumps({
            'events': events,
            'locks': {key: {'last_ok': s.last_ok, 'said': s.said, 'n': s.n}
                      for key, s in samplers.items()}}), flush=True)
    library.enq.enq_close(library.e)


if __name__ == '__main__':
    main()
