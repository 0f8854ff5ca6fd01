"""again.py - a play that failed for want of a processor is played again.

A play is a story in time, and searches for nothing. One that failed while its
processes were ready to run and had no processor, for STARVED_MS as the kernel
counts them, says nothing of the bridge; one that fails PLAYS_MAX times does.
"""
import glob
import signal
import traceback

STARVED_MS, PLAYS_MAX = 200, 6
CRASHES = [-s for s in (signal.SIGILL, signal.SIGABRT, signal.SIGBUS,
                        signal.SIGFPE, signal.SIGSEGV)]


def starved_ms(*threads):
    """Of these threads, so far: globs of /proc/PID/task/TID."""
    ns = 0
    for path in (p for t in threads for p in glob.glob(t + "/schedstat")):
        try:
            with open(path, encoding="ascii") as file:
                ns += int(file.read().split()[1])
        except OSError:
            pass  # it has ended
    return ns // 1000000


def threads_of(bridge):
    process = bridge.process
    return f"/proc/{process.pid if process else 0}/task/*"


def has_crashed(bridge):
    """By itself: that it is killed may belong to the story."""
    process = bridge.process
    return process is not None and process.poll() in CRASHES


def is_final(fault, ms):
    """A sanitizer's report is what it is, however late."""
    return fault is None or ms < STARVED_MS or "Sanitizer" in fault or \
        "runtime error" in fault


def lines_of(fault, file):
    """Where it came from, in this file."""
    return ", ".join(
        str(frame.lineno) for frame in
        traceback.extract_tb(fault.__traceback__) if frame.filename == file)


def tell(suite, plays):
    """Of each play its name and its fault, or None. The exit status."""
    counts = {True: 0, False: 0}
    for name, fault in plays:
        counts[fault is None] += 1
        print(f"{'FAILED' if fault else 'ok    '}  {name}", flush=True)
        if fault:
            print("        " + fault.replace("\n", "\n        "))
    print(f"{suite}: {counts[True]} passed, {counts[False]} failed, 0 skipped")
    return counts[False] != 0


def played(name, play):
    """The fault of a play, or None. @play returns that, and its starved_ms()."""
    for _ in range(PLAYS_MAX):
        fault, ms = play()
        if is_final(fault, ms):
            return fault
        print(f"STARVED {name}: no processor for {ms} ms; it had failed with\n"
              "        " + fault.replace("\n", "\n        "), flush=True)
    return fault
