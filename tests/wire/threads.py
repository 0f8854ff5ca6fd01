#!/usr/bin/env python3
"""threads.py - a bridge of several loops, seen from outside: nobody can tell.

usage: threads.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

Which loop serves a connection is the bridge's affair. A session's id tells its
loop, by the hash that is made here as well; -v tells which connection moves.
"""
import base64
import hashlib
import itertools
import json
import os
import random
import select
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time

from again import lines_of, tell
from play import PATIENCE, Bridge

LOOPS = 3


class Client:
    """A connection that speaks objects."""

    def __init__(self, bridge):
        self.socket = socket.create_connection(("127.0.0.1", bridge.port))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.settimeout(PATIENCE)
        self.bytes, self.n, self.session, self.events = b"", 0, None, []
        self.told = b""

    def send(self, **members):
        self.n += 1
        members.setdefault("reqUUID", f"r{self.n}")
        self.socket.sendall(json.dumps(members).encode() + b"\n")
        return members["reqUUID"]

    def next(self):
        while b"\n" not in self.bytes:
            data = self.socket.recv(65536)
            assert data, "the connection is closed"
            self.bytes += data
            self.told += data
        line, _, self.bytes = self.bytes.partition(b"\n")
        return json.loads(line)

    def reply(self, request):
        """To that request; what else comes is kept, if it is an event."""
        while True:
            got = self.next()
            if "EVENT" in got:
                self.events.append(got)
            elif got["reqUUID"] == request:
                return got

    def event(self, kind):
        while not any(e["EVENT"] == kind for e in self.events):
            self.events.append(self.next())
        found = next(e for e in self.events if e["EVENT"] == kind)
        self.events.remove(found)
        return found

    def has_event(self, kind):
        """Of what has come."""
        while b"\n" in self.bytes or select.select([self.socket], [], [], 0)[0]:
            self.events.append(self.next())
        return any(e["EVENT"] == kind for e in self.events)

    def ask(self, op, **members):
        return self.reply(self.send(OP=op, **members))

    def hello(self, session=None, grace=30000):
        more = {} if session is None else {"session": session}
        got = self.ask("hello", grace=grace, owner=f"o{id(self)}",
                       reqUUID=f"hello{random.random()}", **more)
        assert got["RESULT"] == 0, got
        self.session = got["SESSION"]
        return got

    def lock(self, key, mode="E", request=None, **more):
        lock = {"name": "t", "argument": [key], "mode": mode, **more}
        named = {} if request is None else {"reqUUID": request}
        return self.ask("1", eleLock=lock, **named)

    def cut(self):
        self.socket.close()


def name_of(session):
    """What a bridge calls it (tag.h): of its SHA-1 all but bytes 6 and 8."""
    sha = hashlib.sha1(b"enq-bridge: ids\0" + session.encode()).digest()
    return base64.urlsafe_b64encode(sha[:6] + sha[7:8] + sha[9:14])


def loop_of(session, loops=LOOPS):
    """Of the first ten letters, as a number (tag_heir)."""
    bits = int.from_bytes(base64.urlsafe_b64decode(name_of(session)), "big")
    return (1 << 60 | bits >> 36) % loops


def on_each_loop(bridge, loops=LOOPS):
    """Sessions, one of each loop."""
    found, others = {}, []
    while len(found) < loops:
        client = Client(bridge)
        client.hello()
        if found.setdefault(loop_of(client.session, loops), client) != client:
            others.append(client)
        assert len(others) < 50, "there is no session of some loop"
    for client in others:
        client.ask("goodbye")
        client.cut()
    return [found[i] for i in range(loops)]


def first_with(kind, clients):
    """The first client that has such an event."""
    end = time.monotonic() + PATIENCE
    while True:
        for client in clients:
            if client.has_event(kind):
                return client
        assert time.monotonic() < end, f"nobody is told of a {kind}"
        select.select([c.socket for c in clients], [], [], 1)


def held(client):
    return client.ask("4", limit=1000)["TOTAL"]


# --- what is shown ------------------------------------------------------------


def a_session_that_is_cut_resumes_wherever_it_comes_in(bridge):
    bridge.start("-v")
    clients = on_each_loop(bridge)
    locks = [client.lock(f"k{i}") for i, client in enumerate(clients)]
    unmet, end = set(range(LOOPS)), time.monotonic() + PATIENCE
    for i in itertools.count():
        if not unmet:
            break
        assert time.monotonic() < end, f"nobody was taken to {unmet}"
        for client, lock in zip(list(clients), locks):
            session = client.session
            client.cut()
            # so that others are the emptiest
            idle = [Client(bridge) for _ in range(random.randrange(4))]
            clients.remove(client)
            client = Client(bridge)
            client.session = session
            clients.append(client)
            # hello, a whole request and the begin of one, in one piece
            client.socket.sendall(
                b'{"OP":"hello","reqUUID":"h","session":"%s"}{"OP":"valid",'
                b'"reqUUID":"v","HANDLE":"%s"}\n {"OP":"pi'
                % (session.encode(), lock["HANDLE"].encode()))
            assert client.reply("h")["RESUMED"], i
            assert client.reply("v")["TOKEN"] == lock["TOKEN"]
            client.socket.sendall(b'ng","reqUUID":"p"}')
            assert client.reply("p")["RESULT"] == 0
            assert client.ask("ping")["RESULT"] == 0
            for other in idle:
                other.cut()
        unmet = {n for n in unmet if f"moved to loop {n}" not in bridge.log}


def a_hello_that_comes_in_elsewhere_is_served_as_it_was_asked(bridge):
    """Of a session that has ended: another one begins."""
    bridge.start("-v")
    clients, end = on_each_loop(bridge), time.monotonic() + PATIENCE
    ended = [client.session for client in clients]
    for client in clients:
        assert client.ask("goodbye")["RESULT"] == 0
    while "moved to loop" not in bridge.log:
        assert time.monotonic() < end, "nobody was taken to another loop"
        for session in ended:
            client = Client(bridge)
            got = client.hello(session, grace=4321)
            assert got["GRACE"] == 4321 and not got["RESUMED"], got
            assert client.ask("goodbye")["RESULT"] == 0
            client.cut()


def a_session_is_resumed_while_its_old_connection_is_there(bridge):
    bridge.start()
    for first in on_each_loop(bridge):
        for _ in range(LOOPS + 1):
            second = Client(bridge)
            assert second.hello(first.session)["RESUMED"]
            assert first.socket.recv(1) == b"", "two have one session"
            first = second
        assert first.ask("ping")["RESULT"] == 0


def a_lock_without_a_session_is_anybodys_to_give_back(bridge):
    bridge.start()
    clients = [Client(bridge) for _ in range(2 * LOOPS)]
    for i in range(60):
        taker, second, giver = (clients[(i * n) % len(clients)]
                                for n in (1, 2, 3))
        named = {"uuid": f"id{i}"}
        assert taker.lock("k", "O", **named)["RESULT"] == 0
        assert second.lock("k", "O", **named)["RESULT"] == 4  # exists
        assert second.ask("3", lockUUID=f"id{i}")["RESULT"] == 0
        assert second.ask("renew", lockUUID=f"id{i}")["RESULT"] == 0
        assert second.ask("demote", lockUUID=f"id{i}")["RESULT"] == 0
        assert giver.ask("2", lockUUID=f"id{i}")["RESULT"] == 0
        assert taker.ask("2", lockUUID=f"id{i}")["RESULT"] == 5
    assert held(clients[0]) == 0


def what_others_do_to_a_lock_its_session_knows(bridge):
    bridge.start()
    clients = on_each_loop(bridge)
    for i, holder in enumerate(clients):
        for other in clients[i + 1:] + clients[:i]:
            lock = holder.lock("k", "O", request=f"again{other.session}")
            by = {"HANDLE": lock["HANDLE"]}
            for op in "2", "3", "demote", "renew":  # of another's: by its token
                assert other.ask(op, **by)["RESULT"] == 5
            token = other.ask("3", TOKEN=lock["TOKEN"], **by)["TOKEN"]
            assert token != lock["TOKEN"]
            for who in clients:
                got = who.ask("valid", **by)
                assert (got["TOKEN"], got["MODE"]) == (token, "E"), got
            assert other.ask("demote", TOKEN=token, **by)["RESULT"] == 0
            assert holder.ask("valid", **by)["MODE"] == "S"
            assert other.ask("2", TOKEN=token, **by)["RESULT"] == 0
            # the same request again: not granted a second time
            again = holder.lock("k", "O", request=f"again{other.session}")
            assert again["RESULT"] == 5, again
            assert holder.ask("valid", **by)["RESULT"] == 5
    assert held(clients[0]) == 0


def what_another_has_promoted_goes_with_its_session(bridge):
    bridge.start()
    clients = on_each_loop(bridge)
    locks = [c.lock(f"k{i}", "O") for i, c in enumerate(clients)]
    for i, lock in enumerate(locks):
        assert clients[i - 1].ask("3", HANDLE=lock["HANDLE"],
                                  TOKEN=lock["TOKEN"])["RESULT"] == 0
    for client in clients:
        client.ask("goodbye")
    assert held(Client(bridge)) == 0


def events_come_to_the_session_whose_lock_it_is(bridge):
    bridge.start()
    clients = on_each_loop(bridge)
    for i, holder in enumerate(clients):
        other = clients[i - 1]
        lock = holder.lock("k", "E")
        waiting = other.send(OP="1", start=True, eleLock={
            "name": "t", "argument": ["k"], "mode": "E", "waitTime": 5000})
        assert other.reply(waiting)["RESULT"] == 3
        assert holder.event("blocking")["HANDLE"] == lock["HANDLE"]
        name = holder.ask("id", HANDLE=lock["HANDLE"])["lockUUID"]
        assert other.ask("break", lockUUID=name)["RESULT"] == 0
        assert holder.event("lost")["HANDLE"] == lock["HANDLE"]
        got = other.event("result")
        assert got["RESULT"] == 0 and got["TICKET"] == waiting
        assert clients[i - 2].ask("2", HANDLE=got["HANDLE"],
                                  TOKEN=got["TOKEN"])["RESULT"] == 0
        short = holder.lock("s", "E", timeout=50)
        assert holder.event("expired")["HANDLE"] == short["HANDLE"]
    assert held(clients[0]) == 0


def events_of_a_lock_follow_its_grant_at_once(bridge):
    bridge.start()
    clients = on_each_loop(bridge)
    took = []
    for _ in range(10):
        begin = time.monotonic()
        first = clients[0].lock("k")["HANDLE"]
        for client in clients[1:]:
            lock = {"name": "t", "argument": ["k"], "mode": "E",
                    "waitTime": 60000}
            got = client.ask("1", start=True, eleLock=lock)
            assert got["RESULT"] == 3, got
        assert clients[0].event("blocking")["HANDLE"] == first
        assert clients[0].ask("2", HANDLE=first)["RESULT"] == 0
        waiting = clients[1:]
        while waiting:  # the last to come may pass one just before it (R7)
            client = first_with("result", waiting)
            waiting.remove(client)
            handle = client.event("result")["HANDLE"]
            if waiting:  # somebody waits for it
                assert client.event("blocking")["HANDLE"] == handle
            assert client.ask("2", HANDLE=handle)["RESULT"] == 0
        took.append(time.monotonic() - begin)
    assert min(took) < 0.1, took  # it was not put aside
    assert held(clients[0]) == 0


def another_number_of_loops_goes_on_with_the_same_sessions(bridge):
    bridge.start()
    sessions = {}
    for i in range(12):
        client = Client(bridge)
        client.hello()
        sessions[client.session] = client.lock(f"k{i}")
    for loops in (2, 1, 7, LOOPS):
        bridge.send_signal(signal.SIGKILL)
        bridge.wait_end()
        bridge.start("--threads", str(loops))
        bridge.wait_log("")
        assert "left 12 locks of 12 sessions" in bridge.log
        for session, lock in sessions.items():
            client = Client(bridge)
            assert client.hello(session)["RESUMED"]
            got = client.ask("valid", HANDLE=lock["HANDLE"])
            assert got["TOKEN"] == lock["TOKEN"], got
    for session in sessions:
        client = Client(bridge)
        assert client.hello(session)["RESUMED"]
        client.ask("goodbye")
    assert held(Client(bridge)) == 0


def limits_are_those_of_all_loops_together(bridge):
    bridge.start("--max-connections", "7", "--max-sessions", "4")
    clients = [Client(bridge) for _ in range(7)]
    assert all(c.ask("ping")["RESULT"] == 0 for c in clients)
    for _ in range(5):
        one_more = Client(bridge)
        assert "Too many connections" in str(one_more.ask("ping"))
        one_more.cut()
    for client in clients[:4]:
        client.hello()
    for client in clients[4:]:
        got = client.ask("hello")
        assert "too many sessions" in got["MSG"], got
    clients[0].ask("goodbye")
    clients[4].hello()
    # a connection that moves is counted once
    clients[5].hello(clients[1].session)
    clients.pop(1).cut()
    clients.pop(0).cut()
    end = time.monotonic() + PATIENCE
    while True:
        more = [Client(bridge) for _ in range(2)]
        if all(c.ask("ping")["RC"] == "0" for c in more):
            break
        assert time.monotonic() < end, "a client that has gone is counted still"
        for client in more:
            client.cut()
    assert "Too many connections" in str(Client(bridge).ask("ping"))


def who_waits_at_any_loop_is_told_when_the_bridge_is_stopped(bridge):
    bridge.start()
    holder = Client(bridge)
    holder.lock("k", uuid="a")
    clients = [Client(bridge) for _ in range(2 * LOOPS)]
    waits = [c.send(OP="1", eleLock={"name": "t", "argument": ["k"],
                                     "mode": "E", "waitTime": 60000})
             for c in clients]
    while held(holder) < 1 + len(clients):
        time.sleep(0.01)
    bridge.send_signal(signal.SIGTERM)
    for client, wait in zip(clients, waits):
        assert "stopping" in client.reply(wait)["MSG"]
        client.cut()
    holder.cut()
    assert bridge.wait_end() == 0


# --- a storm ------------------------------------------------------------------


class Storm:
    """Many at once, over few keys, in every way; two never have one key."""

    SECONDS = float(os.environ.get("ENQ_WIRE_STORM", "2"))

    def __init__(self, bridge):
        self.bridge, self.end = bridge, time.monotonic() + self.SECONDS
        self.owners, self.mutex = {}, threading.Lock()
        self.granted, self.resumed, self.faults = 0, 0, []

    def enter(self, key, who):
        with self.mutex:
            assert key not in self.owners, f"{who} and {self.owners[key]}"
            self.owners[key] = who
            self.granted += 1

    def leave(self, key):
        with self.mutex:
            del self.owners[key]

    def come_back(self, client):
        session = client.session
        client.cut()
        again = Client(self.bridge)
        again.n = client.n
        assert again.hello(session)["RESUMED"]
        self.resumed += 1
        return again

    def one_turn(self, client, others, who):
        key = f"k{random.randrange(4)}"
        wait = random.choice((0, 20, 200))
        got = client.lock(key, waitTime=wait, owner=who, timeout=60000)
        if got["RESULT"] != 0:
            assert got["RESULT"] in (1, 2, 9), got
            return client
        self.enter(key, who)
        if client.session and random.random() < 0.2:
            client = self.come_back(client)
        self.leave(key)
        giver = random.choice((client, others))
        by = {"HANDLE": got["HANDLE"], "TOKEN": got["TOKEN"]}
        assert giver.ask("2", **by)["RESULT"] == 0
        return client

    def run(self, number):
        who, client, others = f"w{number}", Client(self.bridge), None
        try:
            others = Client(self.bridge)
            if number % 2:
                client.hello()
            while time.monotonic() < self.end:
                client = self.one_turn(client, others, who)
                if random.random() < 0.05:
                    client.ask("4", limit=10)
            if client.session:
                client.ask("goodbye")
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append(f"{who}: {fault!r}")


def in_a_storm_nobody_has_what_another_has_and_nothing_stays(bridge):
    bridge.start()
    storm = Storm(bridge)
    workers = [threading.Thread(target=storm.run, args=(i,))
               for i in range(16)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert not storm.faults, storm.faults
    assert storm.granted > 20 and storm.resumed > 2, vars(storm)
    assert held(Client(bridge)) == 0
    print(f"        {storm.granted} grants, {storm.resumed} resumed")


TESTS = [
    a_session_that_is_cut_resumes_wherever_it_comes_in,
    a_hello_that_comes_in_elsewhere_is_served_as_it_was_asked,
    a_session_is_resumed_while_its_old_connection_is_there,
    a_lock_without_a_session_is_anybodys_to_give_back,
    what_others_do_to_a_lock_its_session_knows,
    what_another_has_promoted_goes_with_its_session,
    events_come_to_the_session_whose_lock_it_is,
    events_of_a_lock_follow_its_grant_at_once,
    another_number_of_loops_goes_on_with_the_same_sessions,
    limits_are_those_of_all_loops_together,
    who_waits_at_any_loop_is_told_when_the_bridge_is_stopped,
    in_a_storm_nobody_has_what_another_has_and_nothing_stays,
]


class Loops(Bridge):
    def start(self, *options):
        self.begin(["--threads", str(LOOPS), *options])
        self.wait_ready()


def play(test, program):
    tmp = tempfile.mkdtemp(prefix="enq-loops-")
    space = "enq-%sloops-%s" % (os.environ.get("ENQ_TEST_MARK", ""),
                                os.path.basename(tmp)[10:])
    bridge = Loops(program, tmp, "shm:" + space)
    try:
        test(bridge)
        if bridge.process.poll() is None:
            bridge.send_signal(signal.SIGTERM)
        assert bridge.wait_end() == 0
        assert "Sanitizer" not in bridge.log
        return None
    except Exception as fault:  # pylint: disable=broad-except
        bridge.listens.join(1)  # what it says of its own end takes a while
        return (f"line {lines_of(fault, __file__)}: {fault!r}\n--- the bridge (its end: "
                f"{bridge.process.poll()}) said\n" + bridge.log[-60000:])
    finally:
        bridge.end()
        shutil.rmtree(tmp, ignore_errors=True)
        if os.path.exists("/dev/shm/" + space):
            os.unlink("/dev/shm/" + space)


def main():
    suite, program = sys.argv[1], os.path.abspath(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    return tell(suite, ((t.__name__, play(t, program)) for t in TESTS
                        if only in t.__name__))


if __name__ == "__main__":
    sys.exit(main())
