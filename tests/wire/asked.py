#!/usr/bin/env python3
"""asked.py - a space that is not what was asked for, by a bridge as locally.

usage: asked.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

What is asked for explicitly, and is otherwise, is refused in words that name
both, wherever the space is.
"""
import ctypes
import sys

from pair import BUILD, main, stories

ENQ_EDIFFERS = -5008
STRICT, NOT_STRICT = 1, 2


class Wish(ctypes.Structure):
    """struct enq_open_opts, as far as it matters here."""

    _fields_ = [("size", ctypes.c_size_t), ("slots", ctypes.c_uint32),
                ("mode", ctypes.c_uint32), ("compat", ctypes.c_char_p),
                ("strict", ctypes.c_uint32), ("owner", ctypes.c_char_p)]


LIB = ctypes.CDLL(BUILD + "/release/libenq.so")
LIB.enq_why.restype = ctypes.c_char_p


def _open(address, **wish):
    """-> the result, and why"""
    at = ctypes.c_void_p()
    wish = Wish(size=ctypes.sizeof(Wish), **wish)
    rc = LIB.enq_open(ctypes.byref(at), address.encode(), ctypes.byref(wish))
    why = LIB.enq_why().decode()
    if rc == 0:
        LIB.enq_close(at)
    return rc, why if rc != 0 else ""


# The space is of "sap", strict and for 42 locks. What is asked, and the words.
ASKED = [
    ({}, ()),
    ({"compat": b"sap", "strict": STRICT, "slots": 42}, ()),
    ({"compat": b"enqueue"}, ('"sap"', '"enqueue"')),
    ({"strict": NOT_STRICT}, ("is strict", "one that is not")),
    ({"strict": STRICT, "compat": b"enqueue"}, ('"sap"', '"enqueue"')),
    ({"slots": 1000000}, ("room for", "1000000")),
]


def what_differs_is_refused_by_a_bridge_as_it_is_locally(pair):
    local = "shm:" + pair.space
    assert _open(local, compat=b"sap", strict=STRICT, slots=42)[0] == 0
    pair.start("A")
    bridge = pair.bridges["A"]
    ways = [local, f"tcp://127.0.0.1:{bridge.port}",
            f"unix:{bridge.tmp}/sock"]
    for wish, words in ASKED:
        for way in ways:
            rc, why = _open(way, **wish)
            assert rc == (ENQ_EDIFFERS if words else 0), (way, wish, rc, why)
            assert all(word in why for word in words), (way, wish, why)


def nobody_stays_who_was_refused(pair):
    """Two may not have gone yet when the next one comes."""
    assert _open("shm:" + pair.space, compat=b"sap")[0] == 0
    pair.start("A", options=("-v", "--max-sessions", "3"))
    for _ in range(20):
        rc, why = _open(f"tcp://127.0.0.1:{pair.bridges['A'].port}",
                        compat=b"enqueue")
        assert rc == ENQ_EDIFFERS, (rc, why)
    pair.client("A")


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
