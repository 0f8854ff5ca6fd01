#!/usr/bin/env python3
"""Job control: lockctl run at a terminal, below a shell that has jobs.

usage: jobs.py LOCKCTL DIRECTORY; prints "ok NAME" or "FAILED NAME" for each.
"""
import os
import pty
import re
import select
import signal
import subprocess
import sys
import time

LOCKCTL, DIRECTORY = sys.argv[1:3]
PATIENCE = 60


class Terminal:
    def __init__(self):
        self.seen = b""
        self.shell, self.fd = pty.fork()
        if self.shell == 0:
            # ignored where the tests run in the background
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            signal.signal(signal.SIGQUIT, signal.SIG_DFL)
            os.environ.update(PS1="ready> ", LOCKCTL=LOCKCTL, TERM="dumb")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.wait_for(rb"ready> ")

    def wait_for(self, pattern):
        end = time.monotonic() + PATIENCE
        while True:
            found = re.search(pattern, self.seen)
            if found:
                self.seen = self.seen[found.end():]
                return found
            if time.monotonic() > end:
                return None
            if select.select([self.fd], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.fd, 4096)
                except OSError:
                    return None

    def type(self, text):
        os.write(self.fd, text.encode())


def state(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]
    except OSError:
        return "Z"


def eventually(condition):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


def is_free(thing):
    return subprocess.run([LOCKCTL, "who", "-q", thing],
                          stdout=subprocess.DEVNULL).returncode == 0


def tell(name, holds):
    print("ok" if holds else "FAILED", name, flush=True)


def job(terminal, thing, options=""):
    """A program that says its number and waits; its number."""
    path = f"{DIRECTORY}/{thing}"
    with open(path, "w") as f:
        f.write("trap 'echo int' INT\necho program-$$\n"
                "while [ ! -e $0.end ]; do sleep 0.05; done\nexit 4\n")
    terminal.type(f'"$LOCKCTL" run {options} {thing} bash {path}\r')
    found = terminal.wait_for(rb"program-(\d+)")
    return int(found.group(1)) if found else 0


def finish(thing):
    open(f"{DIRECTORY}/{thing}.end", "w").close()


def stop_and_go_on():
    t = Terminal()
    program = job(t, "tty1")
    t.type("\x1a")
    tell("Ctrl-Z: the shell has its prompt",
         t.wait_for(rb"Stopped") and t.wait_for(rb"ready> "))
    tell("Ctrl-Z: the program is stopped",
         eventually(lambda: state(program) == "T"))
    tell("Ctrl-Z: the lock is held", not is_free("tty1"))
    t.type("fg\r")
    tell("fg: the program goes on",
         eventually(lambda: state(program) not in "TZ"))
    t.type("\x03")
    tell("Ctrl-C comes once", t.wait_for(rb"int\r?\n"))
    t.type("\x1a")
    t.wait_for(rb"ready> ")
    # The shell's prompt follows lockctl's stop. A program that forks meanwhile
    # can have a child that is born with the stop after SIGCONT has passed: the
    # kernel drops a SIGCONT that nobody handles before it looks at forks.
    eventually(lambda: state(program) == "T")
    t.type("bg\r")
    tell("bg: the program goes on",
         eventually(lambda: state(program) not in "TZ"))
    t.type("fg\r")
    time.sleep(0.1)
    finish("tty1")
    t.wait_for(rb"ready> ")
    t.type("echo status-$?\r")
    tell("the status is kept", t.wait_for(rb"status-4"))
    tell("the lock is free then", eventually(lambda: is_free("tty1")))
    t.type("exit\r")


def interrupt():
    t = Terminal()
    # No shell: dash loses an interrupt that comes before it has forked.
    t.type('"$LOCKCTL" run tty2 cat\r')
    t.wait_for(rb"cat\r?\n")
    t.type("on\r")
    t.wait_for(rb"on\r?\non\r?\n")  # the terminal's, and the program's
    t.type("\x03")
    t.wait_for(rb"ready> ")
    t.type("echo status-$?\r")
    tell("Ctrl-C ends the program", t.wait_for(rb"status-130"))
    tell("Ctrl-C: the lock is free", eventually(lambda: is_free("tty2")))
    t.type("exit\r")


def wait_and_stop():
    subprocess.run([LOCKCTL, "lock", "-t", "none", "-o", "A", "tty3"],
                   stdout=subprocess.DEVNULL)
    t = Terminal()
    t.type('"$LOCKCTL" run -w forever tty3 echo is-run\r')
    tell("waiting is told", t.wait_for(rb"waiting for tty3"))
    t.type("\x1a")
    tell("Ctrl-Z while it waits", t.wait_for(rb"Stopped"))
    t.type("fg\r")
    time.sleep(0.2)
    t.type("\x03")
    t.wait_for(rb"ready> ")
    t.type("echo status-$?\r")
    tell("Ctrl-C gives up", t.wait_for(rb"status-130"))
    t.type("exit\r")


def hang_up():
    """The terminal is gone: the program, that is at it, too; a daemon stays."""
    t = Terminal()
    path = f"{DIRECTORY}/leaf"
    t.type('"$LOCKCTL" run tty4 sh -c "setsid sh -c \'echo \\$\\$ >' + path +
           f'; while [ ! -e {path}.go ]; do sleep 0.05; done\' & '
           'echo program-\\$\\$; cat"\r')
    program = int(t.wait_for(rb"program-(\d+)").group(1))
    eventually(lambda: os.path.exists(path) and os.path.getsize(path) > 0)
    os.close(t.fd)
    tell("hang-up: the program ends", eventually(lambda: state(program) == "Z"))
    tell("hang-up: the lock stays for a daemon", not is_free("tty4"))
    open(path + ".go", "w").close()
    tell("hang-up: it ends with it", eventually(lambda: is_free("tty4")))


def kill_leader():
    """The session's leader is killed."""
    t = Terminal()
    program = job(t, "tty5")
    os.kill(t.shell, signal.SIGKILL)
    finish("tty5")
    tell("session leader killed: the program ends",
         eventually(lambda: state(program) == "Z"))
    tell("session leader killed: the lock is free",
         eventually(lambda: is_free("tty5")))
    os.close(t.fd)


def main():
    stop_and_go_on()
    interrupt()
    wait_and_stop()
    hang_up()
    kill_leader()


main()
