#!/usr/bin/env python3
"""bounds.py - limits of a bridge: neither sooner nor later than they say.

usage: bounds.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

A transcript waits for what comes, however late. Here it is measured.
"""
import json
import os
import socket
import sys
import threading
import time

from pair import main, stories, within
from play import PATIENCE
from threads import Client

ENQ_EFULL = -5003
LATE_S = 0.5  # two ticks, and what a machine takes that does something else


class Measure:
    """What should be over so long after its begin, each at a bridge of its own,
    so that nothing else wakes that one but its look each second."""

    def __init__(self):
        self.threads, self.faults = [], []

    def begin(self, name, least, action, late=LATE_S):
        self.threads.append(threading.Thread(
            target=self._measure, args=(name, least, action, late)))
        self.threads[-1].start()

    def _measure(self, name, least, action, late):
        begin = time.monotonic()
        try:
            action()
        except Exception as fault:  # pylint: disable=broad-except
            self.faults.append((name, fault))
        took = time.monotonic() - begin
        if not least - 0.05 <= took < least + late:
            self.faults.append((name, least, took))

    def end(self):
        for thread in self.threads:
            thread.join()
        assert not self.faults, self.faults


def _is_over(client):
    """All comes to its end, whatever comes before."""
    client.socket.settimeout(PATIENCE)
    while client.socket.recv(65536):
        pass


def _says(pair, name, text):
    bridge = pair.bridges[name]
    within(lambda: text in bridge.log, f"{name} says {text}")


def each_time_ends_when_it_is_over_and_not_sooner(pair):
    m = Measure()
    pair.start("silent", options=("--keepalive", "400"))
    silent = pair.client("silent")
    m.begin("keepalive", 1.2, lambda: _is_over(silent))
    pair.start("away", options=("-v",))
    away = pair.client("away", grace=1200)
    away.cut()
    m.begin("grace", 1.2, lambda: _says(pair, "away", "has ended"))
    pair.start("half", options=("--request-time", "1"))
    half = Client(pair.bridges["half"])
    half.socket.sendall(b'{"OP":')
    m.begin("request", 1, lambda: _is_over(half))
    pair.start("wrong", options=("-v",))
    wrong = Client(pair.bridges["wrong"])
    wrong.socket.sendall(b"nonsense")
    m.begin("its end", 2, lambda: _says(pair, "wrong", "disconnected"))
    pair.start("idle", options=("--idle-time", "2"))
    idle = Client(pair.bridges["idle"])
    m.begin("idle", 2, lambda: _is_over(idle), 2 / 8 + LATE_S)
    late = Client(pair.bridges["idle"])
    time.sleep(0.6)
    late.ask("ping")
    m.begin("idle since a request", 2, lambda: _is_over(late), 2 / 8 + LATE_S)
    m.end()


def who_reads_nothing_is_cut_off_in_time(pair):
    m = Measure()
    pair.start("A", options=("--read-time", "1", "-v", "--max-grace", "60"))
    keeper = pair.client("A")
    for i in range(30):
        keeper.ask("set", locks=[
            {"name": "t", "argument": [f"{i}-{j}"], "mode": "X"}
            for j in range(64)])
    with socket.socket(socket.AF_UNIX) as reader:
        reader.connect(pair.bridges["A"].tmp + "/sock")
        reader.sendall(b'{"OP":"4"}')
        m.begin("unread", 1, lambda: _says(pair, "A", "read nothing"),
                0.3 + LATE_S)
        m.end()


def of_one_client_64_lists_are_asked_for_and_no_more(pair):
    """Of a table that takes a while to be listed. One is made in a round."""
    pair.start("A")
    client = pair.client("A")
    for i in range(50):
        got = client.ask("set", locks=[
            {"name": "t", "argument": [f"{i}-{j}"], "mode": "X"}
            for j in range(64)])
        assert got["RESULT"] == 0, got
    asked = b"".join(json.dumps({"OP": "4", "limit": 1, "reqUUID": i}).encode()
                     for i in range(300))
    client.socket.sendall(asked)
    got = {r["reqUUID"]: r for r in (client.next() for _ in range(300))}
    refused = [i for i in got if got[i]["RESULT"] != 0]
    assert all(got[i]["RESULT"] == ENQ_EFULL and got[i]["MSG"] ==
               "Too many lists are being made or read" for i in refused), got
    assert min(refused) >= 64 and len(refused) > 100, refused
    assert client.ask("4", limit=0)["TOTAL"] == 3200


def who_cannot_be_watched_is_let_go_and_not_counted(pair):
    """The sixth call is for the first client: epoll takes no more."""
    program, pair.program = pair.program, f"{pair.tmp}/traced"
    with open(pair.program, "w", encoding="ascii") as file:
        file.write("#!/bin/sh\nexport ASAN_OPTIONS=detect_leaks=0\n"
                   "exec strace -D -f -o /dev/null -e "
                   "inject=epoll_ctl:error=ENOSPC:when=6 "
                   f"{program} \"$@\"\n")
    os.chmod(pair.program, 0o755)
    pair.start("A", options=("-v", "--max-connections", "1",
                             "--peer-connections", "1"))
    bridge = pair.bridges["A"]
    with socket.create_connection(("127.0.0.1", bridge.port)) as s:
        s.settimeout(PATIENCE)
        assert s.recv(1) == b""
    bridge.wait_log("cannot serve 127.0.0.1: No space left on device\n")
    client = Client(bridge)
    assert client.ask("ping")["RESULT"] == 0
    assert "disconnected" not in bridge.log
    assert Client(bridge).ask("ping")["MSG"] == "Too many connections"


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
