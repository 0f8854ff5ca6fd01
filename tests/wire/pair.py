#!/usr/bin/env python3
"""pair.py - several bridges at one space, of which one ends.

usage: pair.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

What a bridge held whose process is gone goes on at whichever of the others its
client comes to; what nobody comes for ends after its grace.
"""
import ctypes
import itertools
import json
import os
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time

from again import has_crashed, lines_of, played, starved_ms, tell, threads_of
from play import HERE, PATIENCE, Bridge
from threads import Client

BUILD = os.environ.get("BUILD", HERE + "/../../build")
LOCKCTL = os.path.abspath(BUILD + "/release/lockctl")
ENQ_EFULL = -5003
NOTICED_S = 2.0  # that somebody is gone, on a busy machine as well


class Pair:
    """Bridges at one space, by their names."""

    def __init__(self, program):
        self.program = program
        self.armed = program.replace("/release/", "/crash/")  # with points
        self.tmp = tempfile.mkdtemp(prefix="enq-pair-")
        self.space = "enq-wire-" + os.path.basename(self.tmp)
        self.bridges, self.begun = {}, 0

    def start(self, *names, options=(), stop=None, env=()):
        """@stop: it stops itself where ENQ_STOP says so."""
        for name in names:
            self.begun += 1
            tmp = f"{self.tmp}/{name}{self.begun}"
            os.mkdir(tmp)
            bridge = Bridge(self.armed if stop else self.program, tmp,
                            "shm:" + self.space)
            bridge.env.update(env)
            if stop:
                bridge.env["ENQ_STOP"] = stop
            self.bridges[name] = bridge
            bridge.begin(list(options))
            bridge.wait_ready()

    def kill(self, name, how=signal.SIGKILL):
        self.bridges[name].send_signal(how)
        self.bridges[name].wait_end()

    def wait_stopped(self, name):
        pid, end = self.bridges[name].process.pid, time.monotonic() + PATIENCE
        while True:
            with open(f"/proc/{pid}/stat", encoding="ascii") as f:
                if f.read().rpartition(")")[2].split()[0] == "T":
                    return
            assert time.monotonic() < end, f"{name} does not come so far"
            time.sleep(0.005)

    def client(self, name, session=None, **more):
        client = Client(self.bridges[name])
        client.greeting = client.hello(session, **more)
        return client

    def resumed(self, name, client, *grants):
        """Its session goes on at this one, and these locks are its own still,
        with the same handles and tokens."""
        again = self.client(name, client.session)
        assert again.greeting["RESUMED"], f"at {name}"
        assert again.session == client.session
        same(again, grants)
        return again

    def kill_and_notice(self, name, by):
        """@by is the only other one, and has seen what is left: it has taken
        over what needs no session."""
        plain = Client(self.bridges[name])
        assert plain.lock("loose", uuid="l_1")["RESULT"] == 0
        self.kill(name)
        its = self.bridges[by].process.pid
        within(lambda: self.rows("loose")[0]["pid"] == its, "it is noticed")
        plain = Client(self.bridges[by])
        assert plain.ask("2", lockUUID="l_1")["RESULT"] == 0

    def rows(self, key=None):
        told = subprocess.run(
            [LOCKCTL, "-S", "shm:" + self.space, "list", "--json"],
            check=True, stdout=subprocess.PIPE, timeout=30).stdout
        return [r for r in json.loads(told)["locks"]
                if key in (None, r["spec"].partition("/")[2])]

    def gone(self, key, seconds):
        """How long it took."""
        begin = time.monotonic()
        while self.rows(key):
            assert time.monotonic() - begin < seconds, \
                f"{key} is there after {seconds} s: {self.rows(key)}"
            time.sleep(0.02)
        return time.monotonic() - begin

    def end(self):
        for bridge in self.bridges.values():
            bridge.end()
        shutil.rmtree(self.tmp, ignore_errors=True)
        if os.path.exists("/dev/shm/" + self.space):
            os.unlink("/dev/shm/" + self.space)


def within(condition, what, seconds=PATIENCE):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.02)


def same(client, grants):
    """They are its own still, with the same handles and tokens."""
    for grant in grants:
        got = client.ask("valid", HANDLE=grant["HANDLE"])
        assert got["RESULT"] == 0 and got["TOKEN"] == grant["TOKEN"], got
        got = client.ask("renew", HANDLE=grant["HANDLE"],
                         TOKEN=grant["TOKEN"], timeout=900000)
        assert got["RESULT"] == 0, got


# --- it comes back -------------------------------------------------------------


def _resumes(pair, end):
    pair.start("A", "B")
    client = pair.client("A")
    grants = [client.lock(f"k{i}", "EXSO"[i % 4], f"q{i}") for i in range(9)]
    grants.append(client.lock("lease", onDeath="lease"))
    grants.append(client.lock("keep", onDeath="keep", timeout=600000))
    before = {r["id"] for r in pair.rows()}
    end()
    again = pair.resumed("B", client, *grants)
    after = pair.rows()
    assert {r["id"] for r in after} == before
    assert not any(r["state"] == "orphaned" for r in after), after
    # what it asked before is known still
    got = again.lock("k0", "E", "q0")
    assert (got["HANDLE"], got["TOKEN"]) == (grants[0]["HANDLE"],
                                             grants[0]["TOKEN"])
    again.ask("goodbye")
    assert {r["spec"] for r in pair.rows()} == {"t/lease", "t/keep"}


def a_session_of_a_killed_bridge_resumes_at_once_at_one_that_lives(pair):
    _resumes(pair, lambda: pair.kill("A"))


def a_session_resumes_when_the_death_has_been_noticed_long_ago(pair):
    _resumes(pair, lambda: pair.kill_and_notice("A", "B"))


def a_session_of_a_bridge_that_was_stopped_resumes_at_one_that_lives(pair):
    _resumes(pair, lambda: pair.kill("A", signal.SIGTERM))


def it_resumes_at_whichever_of_many(pair):
    """Though each of them has noticed; and again when that one is killed."""
    pair.start("A", "B", "C", "D")
    client = pair.client("A")
    grants = [client.lock(f"k{i}") for i in range(20)]
    for at, to in ("AC", "CB", "BD"):
        pair.kill(at)
        time.sleep(1.2)
        client = pair.resumed(to, client, *grants)
    client.ask("goodbye")
    assert not pair.rows()


def sessions_of_several_loops_resume_at_several_loops(pair):
    pair.start("A", "B", options=("--threads", "3"))
    clients = [pair.client("A") for _ in range(12)]
    grants = [client.lock(f"k{i}") for i, client in enumerate(clients)]
    pair.kill("A")
    for i, (client, grant) in enumerate(zip(clients, grants)):
        if i == 6:
            time.sleep(NOTICED_S)
        again = pair.client("B", client.session)
        assert again.greeting["RESUMED"], i
        same(again, [grant])
        again.ask("goodbye")
    assert not pair.rows()


def sessions_that_come_to_two_bridges_go_on_at_one_of_them(pair):
    """None is served by both, and no lock is lost."""
    pair.start("A", "B", "C")
    clients = [pair.client("A") for _ in range(300)]
    grants = [[client.lock(f"k{i}.{j}") for j in range(3)]
              for i, client in enumerate(clients)]
    pair.kill("A")

    def resume(names, results):
        for i, client in enumerate(clients):
            got = pair.client(names[i % 2], client.session)
            results.append(got)

    both = [[], []]
    threads = [threading.Thread(target=resume, args=(names, results))
               for names, results in (("BC", both[0]), ("CB", both[1]))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for i in range(len(clients)):
        here, there = both[0][i], both[1][i]
        won = [c for c in (here, there) if c.greeting["RESUMED"]]
        assert len(won) == 1, f"session {i} is resumed {len(won)} times"
        same(won[0], grants[i])
    assert not any(r["state"] == "orphaned" for r in pair.rows())
    for client in both[0] + both[1]:
        client.ask("goodbye")
    assert not pair.rows()


# --- of two that take it over -------------------------------------------------


def _half_way(pair, **more):
    """A is gone. C has been asked for its session, and has stopped when it had
    taken over one of the three locks. -> who asked, its request; the locks"""
    pair.start("A", "B")
    pair.start("C", stop="inherit.taken")
    client = pair.client("A", **more)
    grants = [client.lock(f"k{i}", timeout="none") for i in range(3)]
    pair.kill("A")
    asker = Client(pair.bridges["C"])
    asker.session = client.session
    asked = asker.send(OP="hello", session=client.session, grace=30000)
    pair.wait_stopped("C")
    return asker, asked, grants


def a_session_that_one_bridge_is_taking_over_is_not_split(pair):
    asker, asked, grants = _half_way(pair)
    other = pair.client("B", asker.session)
    assert not other.greeting["RESUMED"], "both have it"
    assert other.lock("k2", "X")["RESULT"] == 1
    other.ask("goodbye")
    pair.bridges["C"].send_signal(signal.SIGCONT)
    got = asker.reply(asked)
    assert got["RESUMED"] and got["SESSION"] == asker.session, got
    same(asker, grants)
    assert not any(r["state"] == "orphaned" for r in pair.rows())
    asker.ask("goodbye")
    assert not pair.rows(), "nothing of the take-over itself stays either"


def who_is_killed_taking_a_session_over_leaves_it_whole(pair):
    asker, _, grants = _half_way(pair)
    pair.kill("C")
    other = pair.resumed("B", asker, *grants)
    other.ask("goodbye")
    assert not pair.rows()


def its_grace_ends_though_two_have_had_its_locks(pair):
    """And others come and go, so that what is left is looked at again."""
    _half_way(pair, grace=2000)
    pair.kill("C")
    begin = time.monotonic()
    for name in (f"D{n}" for n in itertools.count()):
        if not pair.rows("k0") or time.monotonic() - begin > 2 + 2 * NOTICED_S:
            break
        pair.start(name)
        Client(pair.bridges[name]).lock(name)
        pair.kill(name)
    assert time.monotonic() - begin > 1.9, "that was before its grace was over"
    assert not pair.rows("k0"), "its grace begins anew with each bridge's end"
    for i in range(3):
        pair.gone(f"k{i}", NOTICED_S)


def a_session_whose_end_has_begun_is_resumed_nowhere(pair):
    pair.start("A", "B")
    client = pair.client("A", grace=500)
    for i in range(3):
        client.lock(f"k{i}", timeout="none")
    pair.start("C", stop="inherit.taken")
    pair.bridges["B"].send_signal(signal.SIGSTOP)  # or it ends it
    pair.kill("A")
    pair.wait_stopped("C")
    pair.bridges["B"].send_signal(signal.SIGCONT)
    again = pair.client("B", client.session)
    assert not again.greeting["RESUMED"], "with what is left of it"
    pair.bridges["C"].send_signal(signal.SIGCONT)
    for i in range(3):
        pair.gone(f"k{i}", NOTICED_S)


def what_somebody_adopts_keeps_nobody_from_the_rest(pair):
    """B has seen all of them, and nothing is left since. In which order it goes
    through them is not said: nearly always one that is adopted comes first."""
    pair.start("A", "B")
    client = pair.client("A")
    grants = [client.lock(f"k{i}", timeout="none") for i in range(20)]
    rest = grants.pop(10)
    pair.kill_and_notice("A", "B")
    host = pair.client("B")
    ids = {str(row["token"]): row["id"] for row in pair.rows()}
    for grant in grants:
        got = host.ask("adopt", lockUUID=ids[grant["TOKEN"]])
        assert got["RESULT"] == 0, got
    pair.resumed("B", client, rest).ask("goodbye")
    assert len(pair.rows()) == len(grants)


class Small:
    """This process, in a space that has room for 42 locks, 21 a member's."""

    def __init__(self, space):
        size = 96  # of struct enq_open_opts: itself, and slots
        opts = struct.pack("@NI", size, 42).ljust(size, b"\0")
        self.lib = ctypes.CDLL(BUILD + "/release/libenq.so")
        self.at = ctypes.c_void_p()
        rc = self.lib.enq_open(ctypes.byref(self.at), space.encode(), opts)
        assert rc == 0, rc

    def fill(self):
        grant = ctypes.create_string_buffer(1024)
        for n in range(100):
            rc = self.lib.enq_lock_spec(
                self.at, f"full/{n}".encode(), b"X", b"L", ctypes.c_int64(0),
                ctypes.c_int64(0), grant)
            if rc != 0:
                return rc
        return 0

    def end(self):
        self.lib.enq_close(self.at)


def _full(host, client):
    """-> the locks that the client had room for"""
    client.lock("k0", timeout="none")  # a page of its bridge's
    assert host.fill() == ENQ_EFULL
    grants = []
    while True:
        got = client.lock(f"k{len(grants)}", timeout="none")
        if got["RESULT"] == ENQ_EFULL:
            return grants
        grants.append(got)


def who_comes_when_the_table_is_full_may_come_again(pair):
    """It is told so, and not that its session is over."""
    host = Small("shm:" + pair.space)
    pair.start("A", "B")
    client = pair.client("A")
    grants = _full(host, client)
    pair.kill("A")
    again = Client(pair.bridges["B"])
    for _ in range(3):
        got = again.ask("hello", session=client.session, grace=30000)
        assert (got["RC"], got["RESULT"]) == ("4", ENQ_EFULL), got
    host.end()
    got = again.ask("hello", session=client.session, grace=30000)
    assert got["RESULT"] == 0 and got["RESUMED"], got
    same(again, grants)


def what_nobody_comes_for_ends_also_where_the_table_is_full(pair):
    host = Small("shm:" + pair.space)
    pair.start("A", "B")
    client = pair.client("A", grace=500)
    grants = _full(host, client)
    pair.kill("A")
    for i in range(len(grants)):
        pair.gone(f"k{i}", 0.5 + NOTICED_S)
    host.end()


# --- it does not ---------------------------------------------------------------


def what_does_not_come_back_ends_after_its_grace(pair):
    pair.start("A", "B", "C")
    client = pair.client("A", grace=1500)
    client.lock("k", timeout="none")
    client.lock("delayed", delay=200)
    client.lock("lease", onDeath="lease")
    client.lock("keep", onDeath="keep")
    pair.kill("A")
    begin = time.monotonic()
    asker = pair.client("B")
    assert asker.lock("k")["RESULT"] == 1, "it is not free yet"
    time.sleep(1.2)
    assert pair.rows("k"), "it has its grace"
    pair.gone("k", 1.5 + NOTICED_S)
    assert time.monotonic() - begin > 1.4, "that was before its grace was over"
    pair.gone("delayed", NOTICED_S)
    stays = {r["spec"]: r["state"] == "orphaned" for r in pair.rows()}
    assert stays == {"t/lease": True, "t/keep": True}, stays
    time.sleep(NOTICED_S)  # and nobody inherits it any more
    assert all(r["state"] == "orphaned" for r in pair.rows())
    again = pair.client("C", client.session)
    assert not again.greeting["RESUMED"]


def who_waits_for_it_is_granted_then(pair):
    pair.start("A", "B")
    client = pair.client("A", grace=1000)
    client.lock("k", timeout="none")
    waiter = pair.client("B")
    asked = waiter.send(OP="1", eleLock={"name": "t", "argument": ["k"],
                                         "mode": "X", "waitTime": 60000})
    time.sleep(0.1)
    pair.kill("A")
    assert waiter.reply(asked)["RESULT"] == 0


def a_lock_without_a_session_stays(pair):
    """It is the bridge's then, as it would be the next one's."""
    pair.start("A", "B")
    plain = Client(pair.bridges["A"])
    assert plain.lock("k", uuid="7_1")["RESULT"] == 0
    pair.kill("A")
    within(lambda: pair.rows("k")[0]["state"] != "orphaned",
           "somebody has noticed", NOTICED_S)
    other = Client(pair.bridges["B"])
    assert other.ask("2", lockUUID="7_1")["RESULT"] == 0


# --- a living bridge keeps what it has ----------------------------------------


def a_living_bridge_loses_no_session_to_another(pair):
    """Cut off from A, and at B: a new session; the old one has its grace at A,
    where it may be resumed meanwhile."""
    pair.start("A", "B")
    client = pair.client("A", grace=3000)
    grant = client.lock("k")
    for how in (None, signal.SIGSTOP):
        if how is not None:
            pair.bridges["A"].send_signal(how)
        stranger = pair.client("B", client.session)
        assert not stranger.greeting["RESUMED"]
        assert stranger.session != client.session
        time.sleep(NOTICED_S)
        assert stranger.lock("k")["RESULT"] == 1
        stranger.ask("goodbye")
    pair.bridges["A"].send_signal(signal.SIGCONT)
    again = pair.resumed("A", client, grant)
    again.cut()
    pair.gone("k", 3 + NOTICED_S)


def a_session_that_went_on_elsewhere_is_not_ended_by_who_had_noticed(pair):
    """B has noticed that A is gone, and counts; C has the session, whose
    grace begins anew when C is gone, too."""
    pair.start("A", "B", "C")
    client = pair.client("A", grace=3000)
    grant = client.lock("k")
    pair.kill("A")
    time.sleep(1.5)
    client = pair.client("C", client.session)
    assert client.greeting["RESUMED"]
    time.sleep(2.5)  # beyond what B has counted
    same(client, [grant])
    client.cut()
    pair.kill("C")
    time.sleep(1.2)
    pair.resumed("B", client, grant)


def who_has_counted_to_the_end_looks_whether_it_went_on_meanwhile(pair):
    """C is killed just before B, which looks once a second, has counted."""
    pair.start("A", "B", "C")
    pair.bridges["C"].send_signal(signal.SIGSTOP)  # or it notices, and not B
    client = pair.client("A", grace=2500)
    grant = client.lock("k")
    pair.kill_and_notice("A", "B")
    begin = time.monotonic()
    pair.bridges["C"].send_signal(signal.SIGCONT)
    client = pair.resumed("C", client, grant)
    time.sleep(begin + 2.2 - time.monotonic())
    pair.kill("C")
    time.sleep(0.8)
    pair.resumed("B", client, grant)


def a_grace_counts_from_the_last_death(pair):
    pair.start("A", "B", "C")
    client = pair.client("A", grace=4000)
    client.lock("k")
    pair.kill("A")
    time.sleep(3)
    client = pair.client("C", client.session)
    pair.kill("C")
    time.sleep(2.8)  # 5.8 s after A's, which was noticed within one
    assert pair.rows("k"), "it has lost what was left of its grace"
    pair.gone("k", 4 + NOTICED_S)


def who_has_room_for_no_session_inherits_all_the_same(pair):
    pair.start("A", options=("--max-sessions", "10"))
    pair.start("B", options=("--max-sessions", "3"))
    clients = [pair.client("A", grace=1500) for _ in range(8)]
    for i, client in enumerate(clients):
        client.lock(f"k{i}", timeout="none")
    pair.kill_and_notice("A", "B")
    again = [pair.client("B", client.session) for client in clients[:5]]
    assert all(c.greeting["RESUMED"] for c in again)
    for i in range(5, 8):
        pair.gone(f"k{i}", 1.5 + NOTICED_S)
    assert len(pair.rows()) == 5


# --- all of them ---------------------------------------------------------------

def stories(of):
    """What a file tells, by its globals()."""
    return [v for k, v in list(of.items())
            if callable(v) and getattr(v, "__module__", "") == of["__name__"]
            and k == k.lower() and not k.startswith("_") and k not in HELP]


HELP = ("same", "within", "stories", "play", "main")
TESTS = stories(globals())


def play(test, program):
    pair, before = Pair(program), starved_ms("/proc/self/task/*")
    try:
        test(pair)
        return None, 0
    except Exception as fault:  # pylint: disable=broad-except
        ms = starved_ms("/proc/self/task/*",
                        *map(threads_of, pair.bridges.values())) - before
        if any(map(has_crashed, pair.bridges.values())):
            ms = 0  # that is no matter of time
        lines = lines_of(fault, test.__code__.co_filename)
        logs = "".join(f"--- {name} said\n{bridge.log[-3000:]}"
                       for name, bridge in pair.bridges.items())
        return f"line {lines}: {fault!r}\n{logs}", ms
    finally:
        pair.end()


def main(tests):
    suite, program = sys.argv[1], os.path.abspath(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    names = {t.__name__: t for t in tests if only in t.__name__}
    return tell(suite, (
        (name, played(name, lambda t=test: play(t, program)))
        for name, test in names.items()))


if __name__ == "__main__":
    sys.exit(main(TESTS))
