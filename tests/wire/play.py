#!/usr/bin/env python3
"""play.py - plays transcripts of the wire against a bridge of its own.

usage: play.py SUITE BRIDGE [TEXT]     TEXT: only those that have it in their name

A transcript is a file NAME.wire, its name a sentence: one test. It has a space,
a directory ($TMP) and bridges of its own. A line is one of

  bridge OPTION...     starts one, on a free port and on $TMP/sock, and waits
                       until it is ready. Again: on the same port.
  given KIND... -- OPTION...   the same, with listeners (tcp, unix) handed over
  env NAME=VALUE       for the bridges to come
  fails STATUS OPTION...       it does not even begin
  kill | term | stop | cont | hup    a signal, and for the first its end
  exits STATUS                 it has ended so
  told TEXT                    it says so, on stderr, from here on
  notified TEXT                it tells systemd so (NOTIFY_SOCKET), next
  @NAME [unix | from ADDRESS]  the connection that what follows is about
  > TEXT               is sent, in one write; >hex BYTES
  >? TEXT              is sent, as far as it is taken
  < PATTERN            comes next, if it is one reply in one piece; <hex BYTES
  <any PATTERN || ...  come next, in any order
  <+ PATTERN           comes next, in any number of pieces
  <list PATTERN        comes next: four bytes of length, and so many more
  <<list PATTERN       the same, in any number of pieces
  eof | cut            then it is closed; or closed or reset
  quiet MS             nothing comes for so long, and the bridge has no more to do
  fin | rst | close    of ours
  pause MS
  ! COMMAND            a shell's, with $BRIDGE, $LOCKCTL, $TMP, $ENQ_SPACE
  | PATTERN            a line that it has written, the next
  let NAME TEXT        a name for « »
  for NAME, ... EXPRESSION
  ...
  end
  # what this is about

In a TEXT «python» stands for its value, and the arrow down-left for a newline.
In a PATTERN an ellipsis is anything but a quotation mark, a raised one is
anything, $name is what it was where it stood first (in a TEXT as well).
"""
import glob
import itertools
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor

from again import has_crashed, played, starved_ms, tell, threads_of

BUILD = os.environ.get("BUILD", os.path.dirname(__file__) + "/../../build")


# No target builds these for the tests: one that lies there is an old one.
WITHOUT_LOCKCTL = ("debug", "crash", "tsan")


def lockctl_of(bridge):
    """The one beside it, or the released one."""
    place = os.path.dirname(bridge)
    return place + "/lockctl" \
        if os.path.basename(place) not in WITHOUT_LOCKCTL \
        else os.path.abspath(BUILD + "/release/lockctl")


PATIENCE = 10.0 * float(os.environ.get("ENQ_WIRE_PATIENCE", "1"))
HERE = os.path.dirname(os.path.abspath(__file__))


class Fault(Exception):
    """What did not come as it was written."""


# --- a bridge ---------------------------------------------------------------


class Bridge:
    def __init__(self, program, tmp, space):
        self.program, self.tmp, self.space = program, tmp, space
        self.env = {}
        self.process, self.port, self.log, self.heard = None, 0, "", 0
        self.more = threading.Condition()
        self.notify = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.notify.bind(tmp + "/notify")
        self.notify.settimeout(PATIENCE)

    def command(self, options, given):
        if given or any(o in ("-l", "--listen") for o in options):
            return [self.program, *options]
        return [self.program, "-l", f"tcp:127.0.0.1:{self.port}", "-l",
                f"unix:{self.tmp}/sock", *options]

    def begin(self, options, given=()):
        env = {**os.environ, "ENQ_SPACE": self.space,
               "NOTIFY_SOCKET": self.tmp + "/notify", **self.env}
        command, sockets = self.command(options, given), []
        if given:
            sockets = [self.listener(kind) for kind in given]
            env["LISTEN_FDS"] = str(len(given))
            moves = " ".join(f"{3 + i}<&{s.fileno()}"
                             for i, s in enumerate(sockets))
            command = ["bash", "-c", "LISTEN_PID=$$ exec \"$0\" \"$@\" " +
                       moves, *command]
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            pass_fds=[s.fileno() for s in sockets])
        self.listens = threading.Thread(
            target=self.listen, args=(self.process.stderr,), daemon=True)
        self.listens.start()
        for s in sockets:
            s.close()

    def rest(self):
        """Until it has dealt with all it has: on a busy machine it is later."""
        end = time.monotonic() + PATIENCE
        while self.is_busy() and time.monotonic() < end:
            time.sleep(0.002)

    def is_busy(self):
        if self.process is None or self.process.poll() is not None:
            return False
        for path in glob.glob(f"/proc/{self.process.pid}/task/*/stat"):
            try:
                with open(path, encoding="ascii", errors="replace") as file:
                    if file.read().rpartition(")")[2].split()[0] in "RD":
                        return True
            except OSError:
                pass  # a thread that has ended
        return False

    def listener(self, kind):
        s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
        # far from the clients' numbers: they are dup()ed to 3, 4 ...
        s = socket.socket(fileno=os.dup2(s.detach(), 100 + self.free_number()))
        s.bind(self.tmp + "/sock" if kind == "unix" else ("127.0.0.1", 0))
        s.listen(16)
        if kind != "unix":
            self.port = s.getsockname()[1]
        return s

    numbers, numbers_lock = 0, threading.Lock()

    @classmethod
    def free_number(cls):
        with cls.numbers_lock:
            cls.numbers += 1
            return cls.numbers

    def listen(self, stream):
        for line in stream:
            with self.more:
                self.log += line.decode(errors="replace")
                self.more.notify_all()

    def wait_log(self, text):
        end = time.monotonic() + PATIENCE
        with self.more:
            while True:
                at = self.log.find(text, self.heard)
                if at >= 0:
                    self.heard = at + len(text)
                    return
                if time.monotonic() > end:
                    raise Fault(f"it does not say \"{text}\", but\n{self.log}")
                if not self.listens.is_alive():  # it has ended, and said all
                    raise Fault(f"it ended with {self.process.wait()}"
                                f", without \"{text}\"\n{self.log}")
                self.more.wait(0.05)

    def wait_ready(self):
        begun = self.heard
        self.wait_log("enq-bridge: ready\n")
        ports = re.findall(r"listening on tcp:\S*:(\d+)", self.log[begun:])
        if ports:
            self.port = int(ports[0])

    def wait_end(self):
        try:
            return self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            raise Fault("it does not end\n" + self.log) from None

    def wait_notify(self, text):
        while True:
            got = self.notify.recv(4096).decode()
            if got == text:
                return
            if got != "WATCHDOG=1":
                raise Fault(f"systemd was told \"{got}\", not \"{text}\"")

    def send_signal(self, number):
        self.process.send_signal(number)

    def end(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.notify.close()


# --- a connection -----------------------------------------------------------


class Connection:
    def __init__(self, bridge, how):
        self.bytes, self.pieces = b"", []  # where each read ended
        self.over = None
        self.sent = 0
        if how[:1] == ["unix"]:
            self.socket = socket.socket(socket.AF_UNIX)
            self.socket.connect(bridge.tmp + "/sock")
            return
        self.socket = socket.socket()
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if how[:1] == ["from"]:
            self.socket.bind((how[1], 0))
        if how[:1] == ["narrow"]:  # takes in next to nothing
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket.connect(("127.0.0.1", bridge.port))

    def send(self, data):
        self.socket.settimeout(PATIENCE)
        try:
            self.socket.sendall(data)
        except (BrokenPipeError, ConnectionResetError) as fault:
            raise Fault(f"cannot send: {fault}") from None
        except TimeoutError:
            raise Fault("it does not take what is sent") from None

    def send_some(self, data):
        """Until nothing has been taken for a while, or it is over."""
        self.socket.settimeout(0.3)
        try:
            self.socket.sendall(data)
        except OSError:
            pass

    def read(self, seconds):
        """True: there was something, be it the end."""
        if self.over is not None:
            return False
        if not select.select([self.socket], [], [], max(seconds, 0))[0]:
            return False
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionResetError:
            self.over = "reset"
            return True
        if data == b"":
            self.over = "eof"
        self.bytes += data
        self.pieces.append(len(self.bytes))
        return True

    def take(self, n):
        data = self.bytes[:n]
        self.bytes = self.bytes[n:]
        self.pieces = [p - n for p in self.pieces if p > n]
        return data

    def shown(self):
        shown = self.bytes if len(self.bytes) < 2000 else (
            self.bytes[:1000] + b" ... " + self.bytes[-1000:])
        return repr(shown) + (f" and {self.over}" if self.over
                                          else "")

    def wait(self, there, wanted, seconds=PATIENCE):
        end = time.monotonic() + seconds
        while True:
            n = there()
            if n is not None:
                return n
            if not self.read(end - time.monotonic()):
                raise Fault(f"not {wanted[:3000]!r}\nbut {self.shown()}")

    def want(self, pattern, text, one_piece=True):
        def there():
            match = pattern.match(self.bytes)
            return match and (match.end(), match)

        n, match = self.wait(there, text)
        if one_piece and n > 0 and self.pieces[0] < n:
            raise Fault(f"in several pieces: {self.pieces} of {n}")
        self.take(n)
        return match

    def want_list(self, pattern, text, one_piece):
        def there():
            if len(self.bytes) < 4:
                return None
            n = struct.unpack("<I", self.bytes[:4])[0] + 4
            return n if len(self.bytes) >= n else None

        n = self.wait(there, text)
        if self.pieces[0] < (n if one_piece else 4):
            raise Fault(f"in several pieces: {self.pieces} of {n}")
        body = self.take(n)[4:]
        match = pattern.fullmatch(body)
        if match is None:
            raise Fault(f"not {text[:3000]!r}\nbut {body[:3000]!r}")
        return match

    def want_over(self, how):
        def there():
            return self.over if self.over is not None else None

        over = self.wait(there, "the end")
        if self.bytes:
            raise Fault(f"before the end came {self.shown()}")
        if how == "eof" and over != "eof":
            raise Fault("it was reset")

    def want_quiet(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.read(end - time.monotonic()) or self.bytes:
                raise Fault(f"it is not quiet: {self.shown()}")

    def cut(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER,
                               struct.pack("ii", 1, 0))
        self.socket.close()


# --- a transcript -----------------------------------------------------------


class Play:
    def __init__(self, path, program):
        self.path, self.names, self.known = path, {}, {}
        self.tmp = tempfile.mkdtemp(prefix="enq-wire-")
        self.space = "enq-%swire-%s" % (os.environ.get("ENQ_TEST_MARK", ""),
                                    os.path.basename(self.tmp)[9:])
        self.bridge = Bridge(program, self.tmp, "shm:" + self.space)
        self.connections, self.at = {}, None
        self.output, self.line = [], 0
        with open(path, encoding="utf-8") as file:
            self.lines = file.read().split("\n")

    # texts and patterns

    def filled(self, text):
        def value(match):
            return str(eval(match[1], {}, self.names))  # our own file

        text = text.replace("$TMP", self.tmp)
        text = re.sub("«(.*?)»", value, text)
        return text.replace("↵", "\n")

    def text(self, text):
        text = self.filled(text)
        for name in re.findall(r"\$([a-z]\w*)", text):
            text = text.replace("$" + name, self.known.get(name, "$" + name))
        return text.encode()

    def pattern(self, text):
        """And the names that it will tell."""
        parts, new = [], []
        for part in re.split(r"(…|⋯|\$[a-z]\w*)", self.filled(text)):
            name = part[1:]
            if part == "⋯":
                parts.append(".*?")
            elif part == "…":
                parts.append('[^"]*')
            elif part.startswith("$") and name in self.known:
                parts.append(re.escape(self.known[name]))
            elif part.startswith("$") and name in new:
                parts.append(f"(?P={name})")
            elif part.startswith("$"):
                parts.append(f'(?P<{name}>[^",}}\\]]+)')
                new.append(name)
            else:
                parts.append(re.escape(part))
        return re.compile("".join(parts).encode(), re.DOTALL)

    def note(self, match):
        for name, value in match.groupdict().items():
            self.known[name] = value.decode()

    # the lines

    def do_bridge(self, rest):
        self.bridge.begin(self.text(rest).decode().split())
        self.bridge.wait_ready()

    def do_given(self, rest):
        kinds, _, options = rest.partition("--")
        self.bridge.begin(options.split(), kinds.split())
        self.bridge.wait_ready()

    def do_fails(self, rest):
        status, *options = self.text(rest).decode().split()
        self.bridge.begin(options)
        self.do_exits(status)

    def do_env(self, rest):
        name, _, value = rest.partition("=")
        self.bridge.env[name] = value

    def do_exits(self, rest):
        status = self.bridge.wait_end()
        if status != int(rest):
            raise Fault(f"it ended with {status}\n{self.bridge.log}")

    def do_kill(self, _rest):
        self.bridge.send_signal(signal.SIGKILL)
        self.bridge.wait_end()

    def do_term(self, _rest):
        self.bridge.send_signal(signal.SIGTERM)

    def do_hup(self, _rest):
        self.bridge.send_signal(signal.SIGHUP)

    def do_stop(self, _rest):
        self.bridge.send_signal(signal.SIGSTOP)

    def do_cont(self, _rest):
        self.bridge.send_signal(signal.SIGCONT)

    def do_told(self, rest):
        self.bridge.wait_log(self.text(rest).decode())

    def do_notified(self, rest):
        try:
            self.bridge.wait_notify(rest)
        except TimeoutError:
            raise Fault("systemd is told nothing") from None

    def do_pause(self, rest):
        time.sleep(int(rest) / 1000)

    def do_let(self, rest):
        name, _, text = rest.partition(" ")
        self.names[name] = self.filled(text)

    def do_let_all(self, names, value):
        names = names.split(", ")
        self.names.update(zip(names, value if len(names) > 1 else [value]))

    def do_shell(self, rest):
        env = dict(os.environ, BRIDGE=self.bridge.program, TMP=self.tmp,
                   LOCKCTL=lockctl_of(self.bridge.program),
                   ENQ_SPACE="shm:" + self.space, PORT=str(self.bridge.port),
                   PID=str(self.bridge.process.pid
                           if self.bridge.process else 0))
        done = subprocess.run(["bash", "-c", self.text(rest)], env=env,
                              stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60, check=False)
        self.output = done.stdout.decode().splitlines()
        if done.returncode != 0:
            raise Fault(f"status {done.returncode}: {done.stderr.decode()}")

    def do_output(self, rest):
        if not self.output:
            raise Fault("no more lines were written")
        got = self.output.pop(0)
        match = self.pattern(rest).fullmatch(got.encode())
        if match is None:
            raise Fault(f"not {rest!r}\nbut {got!r}")
        self.note(match)

    def do_connection(self, word):
        name, *how = word.split()
        if name not in self.connections:
            self.connections[name] = Connection(self.bridge, how)
        self.at = self.connections[name]

    def close(self, how):
        {"close": self.at.socket.close, "rst": self.at.cut}[how]()
        self.at = None
        for name in [n for n, c in self.connections.items()
                     if c.socket.fileno() < 0]:
            del self.connections[name]

    def do_io(self, word, rest):
        if word == ">":
            self.at.send(self.text(rest))
        elif word == ">?":
            self.at.send_some(self.text(rest))
        elif word == ">hex":
            self.at.send(bytes.fromhex(self.filled(rest)))
        elif word == "<":
            one = re.search("}↵?{", rest) is None
            self.note(self.at.want(self.pattern(rest), self.filled(rest), one))
        elif word == "<+":
            self.note(self.at.want(self.pattern(rest), rest, False))
        elif word == "<any":
            self.want_any(rest.split(" || "))
        elif word == "<hex":
            data = bytes.fromhex(rest)
            self.at.want(re.compile(re.escape(data), re.DOTALL), data)
        elif word in ("<list", "<<list"):
            self.note(self.at.want_list(self.pattern(rest), self.filled(rest),
                                        word == "<list"))
        elif word in ("eof", "cut"):
            self.at.want_over(word)
            self.close("close")
        elif word == "quiet":
            self.at.want_quiet(int(rest) / 1000)
            self.bridge.rest()
        elif word == "fin":
            self.at.socket.shutdown(socket.SHUT_WR)
        elif word in ("rst", "close"):
            self.close(word)
        else:
            raise Fault("what is this?")

    def want_any(self, texts):
        orders = list(itertools.permutations(texts))
        patterns = [self.pattern("".join(order)) for order in orders]
        for order, pattern in zip(orders, patterns):
            try:
                self.at.wait(lambda p=pattern: p.match(self.at.bytes),
                             " or ".join(texts), 0.5)
            except Fault:
                continue
            self.note(self.at.want(pattern, "".join(order), False))
            return
        self.at.want(patterns[0], " or ".join(texts), False)

    def do_line(self, line):
        word, _, rest = line.partition(" ")
        if line.startswith("@"):
            self.do_connection(line[1:])
        elif word in ("!", "|"):
            (self.do_shell if word == "!" else self.do_output)(rest)
        elif hasattr(self, "do_" + word):
            getattr(self, "do_" + word)(rest)
        else:
            self.do_io(word, rest)

    def do_lines(self, begin, end):
        i = begin
        while i < end:
            self.line = i + 1
            line = self.lines[i]
            if line.startswith("for "):
                last = self.lines.index("end", i)
                name, values = re.match(r"for ([\w, ]+?) (\W.*|range.*)$",
                                        line).groups()
                for value in eval(values, {}, self.names):
                    self.do_let_all(name, value)
                    self.do_lines(i + 1, last)
                i = last
            elif line and not line.startswith("#"):
                self.do_line(line)
            i += 1

    def end_well(self):
        """All that it has it gives back, or a sanitizer says what it does not."""
        if self.bridge.process is None or self.bridge.process.poll() is not None:
            return
        self.do_cont("")
        self.do_term("")
        for c in self.connections.values():
            c.socket.close()
        self.do_exits("0")
        self.bridge.listens.join(PATIENCE)

    def finish(self):
        """Nothing else came, on any connection, and the bridge still lives."""
        for name, c in self.connections.items():
            c.read(0)
            if c.bytes:
                raise Fault(f"on @{name} came besides {c.shown()}")
        if self.output:
            raise Fault(f"there is another line: {self.output[0]}")
        process = self.bridge.process
        if process is not None and process.poll() not in (None, 0, -9, 64, 69):
            raise Fault(f"it ended with {process.poll()}\n{self.bridge.log}")
        self.end_well()
        for sign in ("Sanitizer", "runtime error"):
            if sign in self.bridge.log:
                raise Fault(self.bridge.log)

    def run(self):
        """What was wrong, if anything, and for how long it had no processor."""
        me = f"/proc/self/task/{threading.get_native_id()}"
        before = starved_ms(me)
        try:
            self.do_lines(0, len(self.lines))
            self.finish()
            return None, 0
        except Exception as fault:  # pylint: disable=broad-except
            ms = starved_ms(me, threads_of(self.bridge)) - before
            if has_crashed(self.bridge):
                ms = 0  # that is no matter of time
            log = self.bridge.log[-3000:]
            names = "".join(f" {n}={str(v)[:80]!r}"
                            for n, v in self.names.items())
            return (f"line {self.line}{names}: {fault}\n"
                    f"--- the bridge said\n{log}", ms)
        finally:
            for c in self.connections.values():
                c.socket.close()
            self.bridge.end()
            shutil.rmtree(self.tmp, ignore_errors=True)
            if os.path.exists("/dev/shm/" + self.space):
                os.unlink("/dev/shm/" + self.space)


def main():
    suite, program = sys.argv[1], os.path.abspath(sys.argv[2])
    only = sys.argv[3] if len(sys.argv) > 3 else ""
    names = sorted(n[:-5] for n in os.listdir(HERE)
                   if n.endswith(".wire") and only in n)

    def play(name):
        path = f"{HERE}/{name}.wire"
        return name, played(name, lambda: Play(path, program).run())

    with ThreadPoolExecutor(4) as pool:
        return tell(suite, pool.map(play, names))


if __name__ == "__main__":
    sys.exit(main())
