"""plays.py - plays that fail, with a processor and without one."""
import contextlib
import io
import os
import subprocess
import sys
import time
from types import SimpleNamespace

from again import PLAYS_MAX, STARVED_MS, has_crashed, played, starved_ms

ME = "/proc/self/task/*"


def outcome(*results):
    """The last fault, and how many plays it took."""
    plays = iter(results)
    left = len(results)

    def play():
        nonlocal left
        left -= 1
        return next(plays)

    with contextlib.redirect_stdout(io.StringIO()):
        fault = played("it", play)
    return fault, len(results) - left


def one_that_succeeds_is_played_once():
    assert outcome((None, 0)) == (None, 1)


def one_that_fails_with_a_processor_has_failed():
    assert outcome(("late", STARVED_MS - 1)) == ("late", 1)


def one_that_had_none_is_played_again():
    assert outcome(("late", STARVED_MS), (None, 0)) == (None, 2)


def one_that_is_wrong_fails_in_the_end():
    assert outcome(*[("wrong", 5000)] * PLAYS_MAX) == ("wrong", PLAYS_MAX)


def what_a_sanitizer_has_found_is_found():
    for text in ("ERROR: AddressSanitizer: heap", "x.c: runtime error: shift"):
        assert outcome((text, 5000)) == (text, 1)


def one_that_crashes_is_told_from_one_that_is_killed():
    for sign, wanted in (("SEGV", True), ("ABRT", True), ("KILL", False)):
        with subprocess.Popen(["bash", "-c", f"ulimit -c 0; kill -{sign} $$"]
                              ) as process:
            process.wait()
            assert has_crashed(SimpleNamespace(process=process)) == wanted
    assert not has_crashed(SimpleNamespace(process=None))


def who_waits_for_a_processor_is_seen_to_wait():
    all_of_them = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(all_of_them)})
    begin, before = time.monotonic(), starved_ms(ME)
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as other:
        # until both are seen to wait; each should, for half of the time
        while starved_ms(ME) - before < STARVED_MS or \
                starved_ms(f"/proc/{other.pid}/task/*") < STARVED_MS:
            assert time.monotonic() - begin < 60, starved_ms(ME) - before
        other.kill()
    os.sched_setaffinity(0, all_of_them)


def who_sleeps_does_not_wait():
    before = starved_ms(ME)
    time.sleep(0.5)
    assert starved_ms(ME) - before < STARVED_MS


def main():
    tests = [v for k, v in globals().items()
             if k.startswith(("one_", "what_", "who_"))]
    failed = 0
    for test in tests:
        try:
            test()
            print("ok     ", test.__name__)
        except AssertionError as fault:
            failed += 1
            print("FAILED ", test.__name__, repr(fault))
    print(f"again: {len(tests) - failed} passed, {failed} failed, 0 skipped")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
