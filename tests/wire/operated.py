#!/usr/bin/env python3
"""operated.py - what an operator is told, and systemd: all of it, and no more.

usage: operated.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

A log is compared line by line. Who only reads the lines that he looks for does
not see that others have come.
"""
import os
import re
import signal
import socket
import subprocess
import sys
import time

from pair import main, stories, within
from play import PATIENCE
from threads import Client, name_of

BEGIN = ("listening on tcp:127.0.0.1:…", "listening on unix:…/sock", "ready")
PATH_MOST = 107  # bytes, of a unix socket


def _name(client):
    return name_of(client.session).decode()


def _says(pair, *lines, name="A"):
    """All that it has said, once it has said as much."""
    bridge = pair.bridges[name]
    within(lambda: bridge.log.count("\n") >= len(lines) or
           not bridge.listens.is_alive(), f"{len(lines)} lines")
    said = bridge.log.split("\n")[:-1]
    for line, got in zip(lines, said):
        line = re.escape("enq-bridge: " + line).replace("…", ".*")
        assert re.fullmatch(line, got), (got, line)
    assert len(said) == len(lines), said


def _ends(pair, how=signal.SIGTERM):
    bridge = pair.bridges["A"]
    bridge.send_signal(how)
    assert bridge.wait_end() == 0
    bridge.listens.join(PATIENCE)


def _come_and_go(pair):
    """Of the one with a session it is gone before it comes back."""
    client = pair.client("A")
    client.lock("k")
    client.cut()
    bridge = pair.bridges["A"]
    bridge.rest()
    client = pair.client("A", client.session)
    client.ask("goodbye")
    client.cut()
    return _name(client)


# --- the log -------------------------------------------------------------------


def of_clients_nothing_is_said_unless_it_is_asked_for(pair):
    """Whatever else is."""
    pair.start("A", options=(
        "--insecure", "--shared-ids", "--unix-mode", "0600", "--space-mode",
        "0600", "--unix-group", "daemon", "--max-locks", "10"))
    _come_and_go(pair)
    _ends(pair)
    _says(pair, *BEGIN, "stopping: Terminated")


def who_comes_and_goes_is_told_in_a_line_each(pair):
    pair.start("A", options=("-v", "--max-grace", "1"))
    name = _come_and_go(pair)
    come = "127.0.0.1 connected (connection %d)"
    gone = "127.0.0.1 disconnected (connection %d)"
    _says(pair, *BEGIN, come % 1, f"127.0.0.1 has begun session {name}",
          gone % 1, come % 2, f"127.0.0.1 has resumed session {name}",
          f"session {name} of 127.0.0.1 has ended", gone % 2)
    client = pair.client("A", grace=0)
    client.cut()
    other = _name(client)
    _says(pair, *["…"] * 10, come % 3, f"127.0.0.1 has begun session {other}",
          gone % 3, f"session {other} of 127.0.0.1 has ended")
    with socket.socket(socket.AF_UNIX) as s:
        s.connect(pair.bridges["A"].tmp + "/sock")
        _says(pair, *["…"] * 14, f"uid{os.getuid()} connected (connection 4)")
        _ends(pair, signal.SIGINT)
    _says(pair, *["…"] * 15, "stopping: Interrupt",
          f"uid{os.getuid()} disconnected (connection 4)")


def who_says_nothing_for_too_long_is_told_and_why(pair):
    pair.start("A", options=("-v", "--idle-time", "1", "--keepalive", "100"))
    silent = pair.client("A", grace=0)
    gone = "127.0.0.1 disconnected (connection %d)"
    name = _name(silent)
    _says(pair, *["…"] * 5, "127.0.0.1 has been silent for too long", gone % 1,
          f"session {name} of 127.0.0.1 has ended")
    idle = Client(pair.bridges["A"])
    idle.ask("ping")
    _says(pair, *["…"] * 9, "127.0.0.1 has been idle for too long", gone % 2)


def what_other_bridges_have_left_is_counted(pair):
    pair.start("A")
    clients = [pair.client("A") for _ in range(3)]
    for client in clients:
        for i in range(2):
            client.lock(f"{id(client)}-{i}")
    pair.kill("A")
    pair.start("B", options=("-v",))
    again = pair.client("B", clients[0].session)
    name = _name(again)
    _says(pair, "other bridges left 6 locks of 3 sessions, which can be "
          "resumed", *BEGIN, "127.0.0.1 connected (connection 1)",
          f"resumed session {name} of another bridge, with 2 locks",
          f"127.0.0.1 has resumed session {name}", name="B")


# --- descriptors ---------------------------------------------------------------


def _allowed(pair, soft, hard):
    """How many it may have in the end that has begun with these."""
    program, pair.program = pair.program, f"{pair.tmp}/limited"
    with open(pair.program, "w", encoding="ascii") as file:
        file.write(f"#!/bin/sh\nexec prlimit --nofile={soft}:{hard} "
                   f"{program} \"$@\"\n")
    os.chmod(pair.program, 0o755)
    pair.start("A", options=("--max-connections", "100", "--threads", "2"))
    pair.program = program
    pid = pair.bridges["A"].process.pid
    got = subprocess.run(
        ["prlimit", "--pid", str(pid), "--nofile", "--noheadings", "-o",
         "SOFT"], check=True, stdout=subprocess.PIPE, timeout=30).stdout
    _ends(pair)
    return int(got)


def it_takes_a_descriptor_for_each_client_if_it_may(pair):
    end = "stopping: Terminated"
    assert _allowed(pair, 80, 4000) == 168
    _says(pair, *BEGIN, end)
    assert _allowed(pair, 80, 168) == 168
    _says(pair, *BEGIN, end)
    assert _allowed(pair, 500, 4000) == 500
    _says(pair, *BEGIN, end)
    assert _allowed(pair, 80, 167) == 167
    _says(pair, "only 167 descriptors are allowed: there can be no more "
          "clients", *BEGIN, end)


# --- systemd -------------------------------------------------------------------


def _notes(pair, seconds=PATIENCE):
    """What systemd is told, and when."""
    notify = pair.bridges["A"].notify
    notify.settimeout(seconds)
    while True:
        try:
            yield notify.recv(4096).decode(), time.monotonic()
        except TimeoutError:
            return


def the_watchdog_is_fed_twice_in_its_time_though_nothing_happens(pair):
    """Each second it is awake for something else, in the middle of that."""
    pair.start("A", env={"WATCHDOG_USEC": "1200000"})
    notes = _notes(pair)
    assert next(notes)[0] == "READY=1"
    fed = [next(notes) for _ in range(5)]
    assert {text for text, _ in fed} == {"WATCHDOG=1"}, fed
    took = fed[-1][1] - fed[0][1]
    assert 2.3 < took < 3.2, took


def loops_that_all_come_round_feed_the_watchdog(pair):
    pair.start("A", options=("--threads", "3"),
               env={"WATCHDOG_USEC": "400000"})
    notes = _notes(pair)
    assert [next(notes)[0] for _ in range(4)] == ["READY=1"] + \
        ["WATCHDOG=1"] * 3


def without_a_watchdog_none_is_fed(pair):
    for env in {}, {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": "-9"}:
        pair.start("A", env=env)
        assert [text for text, _ in _notes(pair, 1.2)] == ["READY=1"], env
        _ends(pair)


def _told_at(pair, path):
    """What is told there, of a begin and an end."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
        notify.bind(path.replace("@", "\0") if path[0] == "@" else path)
        notify.settimeout(PATIENCE)
        pair.start("A", env={"NOTIFY_SOCKET": path})
        _ends(pair)
        return [notify.recv(4096).decode() for _ in range(2)]


def systemd_is_told_where_it_says(pair):
    told = ["READY=1", "STOPPING=1"]
    assert _told_at(pair, f"@{pair.space}") == told
    longest = f"{pair.tmp}/".ljust(PATH_MOST, "n")
    assert _told_at(pair, longest) == told
    _says(pair, *BEGIN, "stopping: Terminated")


def a_place_that_cannot_be_told_is_told_to_the_operator(pair):
    for path, why in (
            (f"{pair.tmp}/none", "No such file or directory"),
            ("/".ljust(PATH_MOST + 1, "n"),
             "the path is longer than 107 bytes")):
        pair.start("A", env={"NOTIFY_SOCKET": path})
        _ends(pair)
        why = f"cannot notify {path}: {why}"
        _says(pair, *BEGIN, why, "stopping: Terminated", why)
    pair.start("A", env={"NOTIFY_SOCKET": ""})
    _ends(pair)
    _says(pair, *BEGIN, "stopping: Terminated")


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
