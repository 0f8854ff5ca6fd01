#!/usr/bin/env python3
"""untold.py - what is told to nobody, and what is told to be seen by nobody.

usage: untold.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

Knowing a session's id is enough to have the session: it is planted in all that
goes on, and looked for in all that is told. And what clients say, whatever
bytes it has, makes no lines of its own in the log.
"""
import os
import re
import socket
import subprocess
import sys
import time

from pair import LOCKCTL, main, stories
from threads import Client

TOKEN = "planted-token-0123456789"
NO_SESSION = "planted-SESSION0"  # as long as one is
HOSTILE = ("a\nenq-bridge: ready\r\x1b[31mred\x1b[0m\x07\x00\x7f\x85\u202eevil"
           "\u2066\u200b\ufeff\u2028")


class Told:
    """All that has been said, by what said it."""

    def __init__(self, pair):
        self.pair, self.texts = pair, {}

    def lockctl(self, *words, ends=True):
        command = [LOCKCTL, "-S", "shm:" + self.pair.space, *words]
        got = subprocess.run(command, stdin=subprocess.DEVNULL, timeout=30,
                             check=False, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT)
        assert not ends or got.returncode in (0, 1, 70, 75, 79), got
        self.texts[" ".join(words)] = got.stdout

    def by_socket(self, address, what):
        """Bytes for bytes, as a stranger gets them."""
        with socket.create_connection(address) as s:
            s.settimeout(30)
            s.sendall(what)
            s.shutdown(socket.SHUT_WR)
            got = b""
            while more := s.recv(65536):
                got += more
        self.texts[what.decode("latin-1")[:60]] = got

    def all_of_lockctl(self):
        for words in (("list",), ("list", "--json"), ("-v", "list"),
                      ("list", "--only", "spec"), ("who", "t/held"),
                      ("who", "--json", "t/held"), ("graph",),
                      ("graph", "--json"), ("graph", "--dot"), ("stats",),
                      ("stats", "--json"), ("doctor",), ("-v", "doctor"),
                      ("doctor", "--json"), ("dump",), ("lock", "t/held"),
                      ("-v", "lock", "--json", "t/held")):
            self.lockctl(*words, ends=words[0] not in ("list", "graph"))

    def all_of_the_bridge(self, address):
        for op in ('{"OP":"4"}', '{"OP":"4","reqUUID":"a"}',
                   '{"OP":"graph","reqUUID":"a"}',
                   '{"OP":"stat","reqUUID":"a"}',
                   '{"OP":"doctor","reqUUID":"a"}',
                   '{"OP":"1","eleLock":{"name":"t","argument":["held"]}}',
                   '{"OP":"1","reqUUID":"b","eleLock":{"name":"t",'
                   '"argument":["held"],"mode":"X"}}'):
            self.by_socket(address, op.encode())

    def all_that_a_client_hears(self, name, client):
        """But for its own session, which it is told when it says hello."""
        self.texts[name] = client.told.replace(client.session.encode(), b"")

    def holds(self, secrets):
        return sorted({where for where, text in self.texts.items()
                       for secret in secrets if secret.encode() in text})


def _watch(pair):
    return subprocess.Popen(
        [LOCKCTL, "-S", "shm:" + pair.space, "watch", "--json"],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL)


def _told_meanwhile(watch):
    time.sleep(0.5)
    watch.terminate()
    return watch.communicate(timeout=30)[0]


def no_id_of_a_session_is_told_to_anybody_else(pair):
    """Held, waiting, adopted, left by one bridge and taken over by another."""
    told = Told(pair)
    pair.start("A", "B", options=("-v",))
    clients = [pair.client("A") for _ in range(3)]
    held = clients[0].lock("held", "X")
    assert held["RESULT"] == 0, held
    clients[0].lock("set", "X", onDeath="keep")
    watch = _watch(pair)
    wait = {"OP": "1", "eleLock": {"name": "t", "argument": ["held"],
                                   "mode": "X", "waitTime": 60000}}
    wait["reqUUID"] = clients[1].send(**wait)
    clients[0].event("blocking")
    checked = clients[2].ask("check", name="t", argument=["held"],
                             TOKEN=held["TOKEN"])
    assert checked["RESULT"] == 0, checked
    gone = pair.client("B")
    gone.lock("orphan", "E", onDeath="keep")
    gone.ask("goodbye")
    lock_id = pair.rows("orphan")[0]["id"]
    assert clients[2].ask("adopt", lockUUID=lock_id)["RESULT"] == 0
    secrets = [c.session for c in clients + [gone]] + [NO_SESSION, TOKEN]
    at = ("127.0.0.1", pair.bridges["A"].port)
    for member in ("session", "token"):
        told.by_socket(at, (
            '{"OP":"hello","reqUUID":"h","version":1,"session":"%s","%s":"%s"}'
            % (NO_SESSION, member, TOKEN)).encode())
    told.all_of_lockctl()
    told.all_of_the_bridge(at)
    pair.kill_and_notice("A", "B")
    told.all_of_lockctl()
    again = [pair.client("B", c.session) for c in clients]
    assert all(c.greeting["RESUMED"] for c in again[:1] + again[2:])
    told.all_of_the_bridge(("127.0.0.1", pair.bridges["B"].port))
    lock_id = pair.rows("held")[0]["id"]
    told.lockctl("break", "--confirm=" + lock_id, lock_id)
    assert again[0].event("lost")["RESULT"] != 0
    again[1].send(**wait)
    assert again[1].reply(wait["reqUUID"])["RESULT"] == 0
    for n, client in enumerate(clients + again + [gone]):
        told.all_that_a_client_hears("client %d" % n, client)
    told.texts["watch"] = _told_meanwhile(watch)
    for client in clients:
        client.cut()
    for name, bridge in pair.bridges.items():
        bridge.send_signal(15)
        told.texts["log of " + name] = bridge.log.encode()
        assert "session" in bridge.log, "what is said with -v"
    with open("/dev/shm/" + pair.space, "rb") as space:
        told.texts["the space"] = space.read()
    assert b"t" in told.texts["list"] and len(told.texts) > 25
    found = told.holds(secrets)
    assert not found, found
    # that it is looked for at all: its name is in most of them
    assert b"planted" not in told.texts["list --json"]


def _log_is_plain(log):
    for line in log.split("\n")[:-1]:
        assert re.fullmatch(r"enq-bridge: [ -~]*", line), repr(line[:200])
    assert log.endswith("\n")
    return log.count("\nenq-bridge: ready\n") + \
        log.startswith("enq-bridge: ready\n")


def what_clients_say_makes_no_line_of_the_log(pair):
    pair.start("A", options=("-v",))
    for text in (HOSTILE, HOSTILE * 200, "n" * 10240, "\u202e" * 3000):
        for member in ("owner", "session", "token", "reqUUID", "OP"):
            client = Client(pair.bridges["A"])
            client.send(**{"OP": "hello", "reqUUID": "h", member: text})
            client.socket.shutdown(socket.SHUT_WR)
            while client.socket.recv(65536):
                pass
        client = pair.client("A")
        for member in ("name", "owner", "uuid", "mode", "onDeath"):
            client.ask("1", eleLock={"name": "t", "argument": [text],
                                     member: text})
        for op in ("2", "3", "adopt", "break", "find"):
            client.ask(op, lockUUID=text)
        client.cut()
    with socket.create_connection(
            ("127.0.0.1", pair.bridges["A"].port)) as s:
        s.sendall(b"\x1b[2J\nenq-bridge: ready\n\xff\xfe")
        s.settimeout(30)
        while s.recv(65536):
            pass
    assert _log_is_plain(pair.bridges["A"].log) == 1


def what_an_operator_says_is_one_line_as_well(pair):
    """Paths and values, which may come from others."""
    name = f"{pair.tmp}/so\nenq-bridge: ready\x1b[31m\u202e"
    pair.start("A", options=("-v", "-l", "tcp:127.0.0.1:0", "-l",
                             "unix:" + name))
    assert os.path.exists(name)
    client = pair.client("A")
    client.lock("k")
    client.cut()
    assert _log_is_plain(pair.bridges["A"].log) == 1
    for words in (["--max-locks", HOSTILE.replace("\0", "")],
                  ["--" + "x\n" * 5000], ["-S", "shm:a/\x1b[31m\n\u202e"],
                  ["-l", "tcp:\nenq-bridge: ready:99999"]):
        got = subprocess.run(
            [pair.program, *words], stdin=subprocess.DEVNULL, timeout=30,
            env=dict(os.environ, ENQ_SPACE="shm:" + pair.space),
            check=False, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        assert got.returncode != 0, words
        assert _log_is_plain(got.stderr.decode()) == 0, words


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
