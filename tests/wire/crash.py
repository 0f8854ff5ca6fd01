#!/usr/bin/env python3
"""crash.py - a bridge that is killed at each crash point that it passes.

usage: crash.py BRIDGE LIBRARY [TEXT]     TEXT: only points with it in their name

BRIDGE is of the crash profile: with ENQ_CRASH=POINT:N it kills itself the N-th
time that it passes there. One session plays the same script each time (locks of
each kind, a set, promote, demote, renew, adopt, waits, unlock, goodbye), and a process
of this host uses the same space. Where the bridge dies, in the script or when
it takes over from one before, the next one is started, the session resumes and
sends again what was not answered, and at each death must hold:

- each lock of the session is there once; what was not answered is done, or not,
  but never half;
- nobody else gets what it holds;
- the process of this host goes on, and the doctor finds nothing.
"""
import ctypes
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

PATIENCE = 20.0 * float(os.environ.get("ENQ_WIRE_PATIENCE", "1"))
HERE = os.path.dirname(os.path.abspath(__file__))
OK, BUSY, TIMEDOUT, PENDING, NOTHELD, REFUSED = 0, 1, 2, 3, 5, 8
PASSES = 40  # of one point in one script, at most


class Fault(Exception):
    """What should not be."""


class Died(Exception):
    """The bridge did."""


# --- the process of this host ------------------------------------------------


class Local:
    def __init__(self, library, space):
        self.lib = ctypes.CDLL(library)
        self.lib.enq_why.restype = ctypes.c_char_p
        self.at = ctypes.c_void_p()
        self.grant = ctypes.create_string_buffer(4096)
        if self.lib.enq_open(ctypes.byref(self.at), space.encode(), None):
            raise Fault("cannot open: " + self.why())

    def why(self):
        return self.lib.enq_why().decode()

    def lock(self, field, wait_ms=0, mode="X", name="k"):
        return self.lib.enq_lock_spec(
            self.at, f"{name}/{field}".encode(), mode.encode(), b"L",
            ctypes.c_int64(wait_ms), ctypes.c_int64(0), self.grant)

    def take(self, field, mode="X"):
        """-> the grant. Nobody else has it."""
        rc = self.lock(field, 5000, mode)
        if rc != OK:
            raise Fault(f"the local process gets no lock: {rc}, {self.why()}")
        return (ctypes.c_uint64 * 2).from_buffer_copy(self.grant)

    def give_last(self):
        self.give((ctypes.c_uint64 * 2).from_buffer_copy(self.grant))

    def give(self, grant):
        rc = self.lib.enq_unlock(self.at, ctypes.c_uint64(grant[0]),
                                 ctypes.c_uint64(grant[1]))
        if rc != OK:
            raise Fault(f"the local process lost its lock: {self.why()}")

    def findings(self):
        """Of the doctor, but that the dead are not reaped yet."""
        report = ctypes.create_string_buffer(65536)
        self.lib.enq_doctor(self.at, 0, report, len(report))
        return [line for line in report.value.decode().splitlines()
                if line and "dead" not in line]

    def close(self):
        self.lib.enq_close(self.at)


# --- a bridge ----------------------------------------------------------------


class Bridge:
    def __init__(self, program, tmp, space, crash=None):
        env = dict(os.environ)
        env.pop("ENQ_CRASH", None)
        if crash:
            env["ENQ_CRASH"] = crash
        self.said = b""
        self.process = subprocess.Popen(
            [program, "-S", space, "-l", f"unix:{tmp}/sock"], env=env,
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE)

    def wait_ready(self):
        """Died if it did not get so far."""
        end = time.monotonic() + PATIENCE
        while b"enq-bridge: ready\n" not in self.said:
            left = end - time.monotonic()
            if not select.select([self.process.stderr], [], [], left)[0]:
                raise Fault("it is not ready: " + self.said.decode())
            got = os.read(self.process.stderr.fileno(), 4096)
            if not got:
                raise Died()
            self.said += got

    def kill(self):
        self.process.send_signal(signal.SIGKILL)

    def end(self):
        status = self.process.wait(PATIENCE)
        self.process.stderr.close()
        if status != -signal.SIGKILL:
            raise Fault(f"it ended with {status}: " + self.said.decode())


class Connection:
    def __init__(self, tmp):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(PATIENCE)
        self.bytes, self.asked = b"", 0
        try:
            self.socket.connect(tmp + "/sock")
        except OSError:
            self.socket.close()
            raise Died() from None

    def send(self, request):
        try:
            self.socket.sendall(json.dumps(request).encode() + b"\n")
        except OSError:
            raise Died() from None

    def line(self):
        while b"\n" not in self.bytes:
            try:
                got = self.socket.recv(1 << 16)
            except TimeoutError:
                raise Fault("no reply") from None
            except OSError:
                got = b""
            if not got:
                raise Died()
            self.bytes += got
        text, self.bytes = self.bytes.split(b"\n", 1)
        return json.loads(text)

    def reply(self, name):
        while True:
            got = self.line()
            if got.get("reqUUID") == name:
                return got

    def ask(self, **request):
        self.send(request)
        return self.reply(request["reqUUID"])


# --- the script --------------------------------------------------------------


def lock(field, mode, **more):
    wait = more.pop("waitTime", 0)
    start = {"start": True} if more.pop("start", False) else {}
    return dict(OP="1", eleLock={"name": "k", "argument": [field],
                                 "mode": mode, "waitTime": wait,
                                 "timeout": 600000, **more}, **start)


class Step:
    """A request; what is held after it; and what may be answered, if it is
    asked again after it was done."""

    def __init__(self, request, change=None, again=(OK,), first=OK):
        self.request, self.change = request, change or {}
        self.singly = False  # each for itself: some may be done, and some not
        self.again, self.first = set(again) | {first}, first
        # by the local process: before, while it waits or after
        self.holds = self.gives = self.loses = None
        self.adopts = None  # by one that is gone

    def during(self, holds, gives):
        self.holds, self.gives = holds, gives
        return self

    def against(self, field):
        """A rival's optimistic lock is lost to it."""
        self.loses = field
        return self

    def of_the_dead(self, field):
        """What somebody has left, for us to adopt."""
        self.adopts = field
        return self

    def one_by_one(self):
        self.singly = True
        return self


GONE = None


def script():
    """Each a function of what has been granted: field -> (handle, token)."""

    def about(op, field, **more):
        return lambda held: dict(OP=op, HANDLE=held[field][0],
                                 TOKEN=held[field][1], **more)

    def unset(*fields):
        return lambda held: dict(OP="unset", GRANTS=[
            {"HANDLE": held[f][0], "TOKEN": held[f][1]} for f in fields])

    def plain(request):
        return lambda held: request

    pair = dict(OP="set", locks=[lock("set1", "X")["eleLock"],
                                 lock("set2", "E")["eleLock"]])
    late = dict(OP="set", locks=[lock("set3", "X", waitTime=60000)["eleLock"],
                                 lock("set4", "X")["eleLock"]])
    return [
        Step(plain(lock("release", "X")), {"release": "X"}),
        Step(plain(lock("lease", "X", onDeath="lease")), {"lease": "X"}),
        Step(plain(lock("keep", "E", onDeath="keep")), {"keep": "E"}),
        Step(plain(lock("keep2", "S", onDeath="keep", delay=5)),
             {"keep2": "S"}),
        Step(plain(pair), {"set1": "X", "set2": "E"}),
        Step(plain(lock("o", "O")), {"o": "O"}),
        Step(about("3", "o"), {"o": "E"}, (OK, NOTHELD, REFUSED))
        .against("o"),
        Step(lambda held: dict(OP="adopt", lockUUID=held["adopted"]),
             {"adopted": "O"}).of_the_dead("adopted"),
        Step(about("demote", "set2"), {"set2": "S"}, (OK, REFUSED)),
        Step(about("renew", "release", timeout=700000)),
        Step(plain(lock("wait", "X", waitTime=60000)), {"wait": "X"})
        .during("wait", "wait"),
        Step(plain(late), {"set3": "X", "set4": "X"}).during("set4", "set4"),
        Step(plain(lock("late", "X", waitTime=60000, start=True)),
             first=PENDING).during("late", None),
        Step(plain(dict(OP="cancel", ticket="13")), {}, (OK, NOTHELD))
        .during(None, "late"),
        Step(about("3", "adopted"), {"adopted": "E"}, (OK, NOTHELD, REFUSED)),
        Step(plain(lock("@", "X", name="g")), {"@": "X"}),
        Step(plain(lock("under", "S", name="g", waitTime=1)), first=TIMEDOUT),
        Step(about("demote", "@"), {"@": "S"}, (OK, REFUSED)),
        Step(plain(lock("under", "S", name="g")), {"under": "S"}),
        Step(about("2", "@"), {"@": GONE}, (OK, NOTHELD)),
        Step(plain(lock("delayed", "X", delay=5)), {"delayed": "X"}),
        Step(about("2", "wait"), {"wait": GONE}, (OK, NOTHELD)),
        Step(unset("set1", "set3"), {"set1": GONE, "set3": GONE},
             (OK, NOTHELD)).one_by_one(),
        Step(about("2", "o"), {"o": GONE}, (OK, NOTHELD)),
    ]


STAYS = {"lease": "X", "keep": "E", "keep2": "S", "adopted": "E"}  # beyond its session


class Play:
    def __init__(self, program, library, crash, second):
        """@second: the bridge that is armed takes over from another."""
        self.program, self.library = program, library
        self.crash, self.second = crash, second
        self.tmp = tempfile.mkdtemp(prefix="enq-crash-")
        self.space = "shm:enq-%swire-%s" % (
            os.environ.get("ENQ_TEST_MARK", ""), os.path.basename(self.tmp))
        self.bridge = self.local = self.c = self.session = None
        self.died = False
        self.modes, self.held, self.taken = {}, {}, {}
        self.unclaimed = None  # what it is about to adopt

    # bridges

    def start(self, crash=None):
        self.bridge = Bridge(self.program, self.tmp, self.space, crash)
        try:
            self.bridge.wait_ready()
        except Died:
            self.bridge.end()
            if crash is None or self.died:
                raise Fault("it dies though it is not armed") from None
            self.died = True
            self.start()
        if self.local is None:
            self.local = Local(self.library, self.space)

    def hello(self):
        self.c = Connection(self.tmp)
        more = {"session": self.session} if self.session else {}
        got = self.c.ask(OP="hello", version=1, grace=60000, owner="A",
                         reqUUID="h", **more)
        if self.modes and not got["RESUMED"]:
            raise Fault("the session was forgotten, with its locks")
        self.session = got["SESSION"]

    def replace(self):
        if self.c is not None:  # it was not dead before the first came
            self.c.socket.close()
        self.bridge.end()
        if self.died:
            raise Fault("it died a second time")
        self.died = True
        self.start()

    def again(self, *after):
        """The bridge is dead: another; and the session goes on."""
        self.replace()
        self.look([self.modes, *after], True)
        self.hello()
        self.look([self.modes, *after])

    # what must be so

    def rows(self):
        c = Connection(self.tmp)
        rows = c.ask(OP="4", reqUUID="l")["LOCKS"]
        c.socket.close()
        return [r for r in rows if r["owner"] == "A"]

    def held_now(self):
        rows = [r for r in self.rows() if not r["waiting"]]
        return rows, {r["argument"][0]: r["mode"] for r in rows}

    def gets(self, row):
        """Another, what is told as held? It is given back."""
        rc = self.local.lock(row["argument"][0], 0, "X", row["name"])
        if rc == OK:
            self.local.give_last()
        return rc == OK

    def look(self, right, orphaned=False):
        rows, there = self.held_now()
        # A list copies what there is: what a bridge left in the middle of a set
        # stands there until somebody undoes it, be it all of the set. The next
        # to want one of its locks does.
        gone = [r for r in rows if orphaned and self.gets(r)]
        if gone:
            rows, there = self.held_now()
        if any(r["id"] in [g["id"] for g in gone] for r in rows):
            raise Fault(f"another got what is held: {gone}")
        end = time.monotonic() + 10
        while orphaned and there not in right and time.monotonic() < end:
            time.sleep(0.02)
            rows, there = self.held_now()
        if len(there) != len(rows):
            raise Fault(f"a lock is there twice: {rows}")
        if there not in right:
            raise Fault(f"held is {there}, but should be one of {right}")
        for r in rows:
            if bool(r["orphaned"]) != orphaned and \
                    r["argument"][0] != self.unclaimed:
                raise Fault(f"whose is it? {r}")
            rc = self.local.lock(r["argument"][0], 0, "X", r["name"])
            if rc != BUSY:
                raise Fault(f"another that wants what is held: {rc}, {r}")
        self.local.give(self.local.take("other"))
        if self.local.findings():
            raise Fault(f"the doctor says {self.local.findings()}")

    # the steps

    def give_late(self, field):
        if field in self.taken:
            self.local.give(self.taken.pop(field))

    def leave(self, field, mode):
        """By a process that is gone."""
        program = os.path.dirname(self.library) + "/lockctl"
        told = subprocess.run(
            [program, "-S", self.space, "lock", "-o", "A", "-t", "600",
             "--mode", mode, "k/" + field],
            check=True, stdout=subprocess.PIPE, timeout=PATIENCE).stdout
        self.held[field] = told.split()[0].decode()
        self.modes[field] = mode
        self.unclaimed = field

    def promoted(self, field, got):
        """Half done, it has a new token only, which the bridge tells."""
        handle, name = self.held[field][0], "p" + field
        if got["RESULT"] != OK:
            got = self.c.ask(OP="valid", HANDLE=handle, reqUUID="v" + name)
            if got.get("MODE") == "O":
                got = self.c.ask(OP="3", HANDLE=handle, TOKEN=got["TOKEN"],
                                 reqUUID=name)
        if got["RESULT"] != OK:
            raise Fault(f"{field} is not promoted: {got}")
        self.held[field] = handle, got["TOKEN"]

    def note(self, step, request, got):
        fields = [l["argument"][0] for l in request.get("locks", [])] or [
            f for f in step.change if request["OP"] in ("1", "adopt")]
        grants = got.get("GRANTS") or ([got] if "HANDLE" in got else [])
        for field, grant in zip(fields, grants):
            self.held[field] = grant["HANDLE"], grant["TOKEN"]
        if request["OP"] == "3":
            self.promoted(next(iter(step.change)), got)

    def once(self, step, request):
        self.c.send(request)
        if step.gives is not None and step.gives == step.holds:
            time.sleep(0.005)  # it may begin to wait, or not
            self.give_late(step.gives)
        return self.c.reply(request["reqUUID"])

    def changed(self, change):
        return {f: m for f, m in {**self.modes, **change}.items() if m}

    def do(self, step, number):
        if step.adopts is not None:
            self.leave(step.adopts, step.change[step.adopts])
        request = dict(step.request(self.held), reqUUID=str(number))
        if step.holds is not None:
            self.taken[step.holds] = self.local.take(step.holds)
        if step.loses is not None:
            self.local.take(step.loses, "O")
        after = self.changed(step.change)
        try:
            got, may = self.once(step, request), {step.first}
        except Died:
            self.again(after, *([self.changed({f: m}) for f, m in
                                 step.change.items()] if step.singly else []))
            got, may = self.once(step, request), step.again
        if got["RESULT"] not in may:
            raise Fault(f"{request} is answered by {got}, not {may}")
        self.note(step, request, got)
        self.modes, self.unclaimed = after, None
        if step.gives is not None:
            self.give_late(step.gives)

    def begin(self):
        self.start(None if self.second else self.crash)
        try:
            self.hello()
        except Died:
            self.again()

    def change_bridges(self):
        """The first one is killed; the armed one takes over."""
        self.c.socket.close()
        self.bridge.kill()
        self.bridge.end()
        self.start(self.crash)
        try:
            self.hello()
        except Died:
            self.again()

    def goodbye(self):
        try:
            self.c.ask(OP="goodbye", reqUUID="g")
        except Died:
            self.replace()
            self.modes = {}  # it may be over
            self.hello()
            self.c.ask(OP="goodbye", reqUUID="g")

    def rest(self):
        """What stays is nobody's, and nothing else is there."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end and len(self.rows()) > len(STAYS):
            time.sleep(0.01)  # a lock delay
        self.look([STAYS], True)
        if any(r["waiting"] for r in self.rows()):
            raise Fault("somebody waits still")
        self.c.socket.close()
        self.bridge.kill()
        self.bridge.end()
        self.start()  # a client that said goodbye does not come back with it
        self.look([STAYS], True)

    def run(self):
        steps = script()
        self.begin()
        for i, step in enumerate(steps, 1):
            self.do(step, i)
            if self.second and i == 12:
                self.change_bridges()
        self.goodbye()
        try:
            self.rest()
        except Died:
            self.replace()
            self.modes = {}
            self.hello()
            self.c.ask(OP="goodbye", reqUUID="g")
            self.rest()

    def end(self):
        if self.c is not None:
            self.c.socket.close()
        if self.local is not None:
            self.local.close()
        if self.bridge is not None and self.bridge.process.poll() is None:
            self.bridge.kill()
            self.bridge.end()
        shutil.rmtree(self.tmp, ignore_errors=True)
        if os.path.exists("/dev/shm/" + self.space[4:]):
            os.unlink("/dev/shm/" + self.space[4:])


# --- all points --------------------------------------------------------------


def points():
    names = set()
    for directory, _, files in os.walk(HERE + "/../../src"):
        for file in files:
            with open(os.path.join(directory, file), encoding="utf-8") as f:
                names.update(re.findall(r'ENQ_POINT\("([a-z._]+)"\)', f.read()))
    return sorted(names)


def try_point(program, library, name, second):
    """-> how often it was killed there, and what was wrong."""
    for n in range(1, PASSES + 1):
        play = Play(program, library, f"{name}:{n}", second)
        try:
            play.run()
        except Exception as fault:  # pylint: disable=broad-except
            said = play.bridge.said.decode() if play.bridge else ""
            return n, f"{type(fault).__name__} {fault}\n{said}"
        finally:
            play.end()
        if not play.died:
            return n - 1, None
    return PASSES, None


def main():
    program, library = map(os.path.abspath, sys.argv[1:3])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    kinds = [(name, second) for name in points() if only in name
             for second in (False, True)]
    reached, kills, failed = set(), 0, 0

    def play(kind):
        return kind, try_point(program, library, *kind)

    with ThreadPoolExecutor(4) as pool:
        for (name, second), (n, fault) in pool.map(play, kinds):
            where = f"{name}{', of the second bridge' if second else ''}"
            kills += n
            if n > 0:
                reached.add(name)
            if fault:
                failed += 1
                print(f"FAILED  {where}:{n}\n        " +
                      fault.replace("\n", "\n        "), flush=True)
            else:
                print(f"ok      {n:3} x {where}", flush=True)
    print(f"figure bridge-crash-points {len(reached)}")
    print(f"figure bridge-crash-kills {kills}")
    print(f"bridge-crash: {len(kinds) - failed} passed, {failed} failed, "
          "0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
