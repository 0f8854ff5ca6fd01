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
from threads import Client, name_of

ENQ_EFULL = -5003
LATE_S = 0.5  # two ticks, and what a machine takes that does something else


def _takes(name, least, action, faults):
    """A thread that measures when @action is over."""
    def measure():
        begin = time.monotonic()
        try:
            action()
        except Exception as fault:  # pylint: disable=broad-except
            faults.append((name, fault))
        took = time.monotonic() - begin
        if not least <= took < least + LATE_S:
            faults.append((name, least, took))
    return threading.Thread(target=measure)


def _is_over(client):
    """All comes to its end, whatever comes before."""
    client.socket.settimeout(PATIENCE)
    while client.socket.recv(65536):
        pass


def each_time_ends_when_it_is_over_and_not_sooner(pair):
    pair.start("A", options=("--keepalive", "600", "--idle-time", "2",
                             "--request-time", "1", "-v"))
    bridge = pair.bridges["A"]
    silent, away = pair.client("A"), pair.client("A", grace=1400)
    idle, half = Client(bridge), Client(bridge)
    away.lock("away")
    idle.ask("ping")
    half.socket.sendall(b'{"OP":')
    silent.ask("ping")
    away.cut()
    name = name_of(away.session).decode()
    faults = []
    threads = [
        _takes("keepalive", 1.8, lambda: _is_over(silent), faults),
        _takes("idle", 1.95, lambda: _is_over(idle), faults),
        _takes("request", 0.95, lambda: _is_over(half), faults),
        _takes("grace", 1.35, lambda: within(
            lambda: f"session {name} of" in bridge.log, "it ends"), faults)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not faults, faults


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
                   "exec strace -f -o /dev/null -e "
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
