#!/usr/bin/env python3
"""memory.py - a bridge that gets no more memory, and whom it serves.

usage: memory.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

What a session is told to have it has. Its bridge has to note each lock, or it
would not come back with the session, nor end with it: where it cannot, it says
so before it asks for the lock, or gives it back and tells that.
"""
import re
import resource
import subprocess
import sys

from pair import ENQ_EFULL, LOCKCTL, main, same, stories, within

ENOMEM = 12
MANY = 5000  # more than there can be memory for


def _lockctl(pair, *words):
    return subprocess.run([LOCKCTL, "-S", "shm:" + pair.space, *words],
                          check=True, stdout=subprocess.PIPE,
                          timeout=30).stdout.decode()


class _NoMemory:
    """Of the bridge A: what it has already is used up by locks of a client."""

    def __init__(self, pair, client):
        self.pid, self.granted = pair.bridges["A"].process.pid, []
        with open(f"/proc/{self.pid}/status", encoding="ascii") as f:
            now = int(re.search(r"VmSize:\s+(\d+)", f.read())[1]) * 1024
        self.before = resource.prlimit(self.pid, resource.RLIMIT_AS)
        resource.prlimit(self.pid, resource.RLIMIT_AS, (now, self.before[1]))
        for i in range(MANY):
            self.last = client.lock(f"k{i}")
            if self.last["RESULT"] != 0:
                break
            self.granted.append(self.last)

    def ends(self):
        resource.prlimit(self.pid, resource.RLIMIT_AS, self.before)


def _starts(pair):
    pair.start("A")
    return pair.client("A")


def a_lock_that_it_cannot_note_is_refused_and_not_taken(pair):
    client = _starts(pair)
    none = _NoMemory(pair, client)
    assert none.last["RESULT"] == ENQ_EFULL, none.last
    assert "memory" in none.last["MSG"], none.last
    assert {r["token"] for r in pair.rows()} == \
        {g["TOKEN"] for g in none.granted}
    none.ends()
    got = client.lock("more")
    assert got["RESULT"] == 0, got
    same(client, [none.granted[0], none.granted[-1], got])


def one_that_it_cannot_adopt_stays_an_orphan(pair):
    lock_id = _lockctl(pair, "lock", "--keep", "t/w").split()[0]
    client = _starts(pair)
    none = _NoMemory(pair, client)
    got = client.ask("adopt", lockUUID=lock_id)
    assert got["RESULT"] == ENQ_EFULL and "memory" in got["MSG"], got
    assert pair.rows("w")[0]["state"] == "orphaned"
    none.ends()
    got = client.ask("adopt", lockUUID=lock_id)
    assert got["RESULT"] == 0, got
    same(client, [got])


def one_that_was_waited_for_is_given_back(pair):
    lock_id = _lockctl(pair, "lock", "--keep", "t/w").split()[0]
    client, waiter = _starts(pair), pair.client("A")
    request = waiter.send(OP="1", eleLock={
        "name": "t", "argument": ["w"], "mode": "X", "waitTime": 60000})
    within(lambda: pair.rows("w")[0]["waiters"], "it waits")
    none = _NoMemory(pair, client)
    _lockctl(pair, "break", lock_id, "--confirm=" + lock_id)
    got = waiter.reply(request)
    assert got["RESULT"] == -ENOMEM, got
    assert not pair.rows("w")
    none.ends()
    same(waiter, [waiter.lock("w")])


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
