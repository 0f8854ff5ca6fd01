#!/usr/bin/env python3
"""adopted.py - what a session has adopted goes on with it at another bridge.

usage: adopted.py SUITE BRIDGE [TEXT]   TEXT: only those that have it in their name

Such a lock was made by somebody else, and names no session. It has a number for
it (tools/bridge/tag.h), and nothing else is in the table for that.
"""
import signal
import subprocess
import sys
import time

from pair import LOCKCTL, NOTICED_S, PATIENCE, main, same, stories, within
from threads import Client


def _orphan(pair, key, *how):
    """Of a process that is gone. -> its id"""
    told = subprocess.run(
        [LOCKCTL, "-S", "shm:" + pair.space, "lock", *how, "t/" + key],
        check=True, stdout=subprocess.PIPE, timeout=30).stdout
    return told.split()[0].decode()


def _adopt(client, lock_id, request="a1"):
    got = client.ask("adopt", lockUUID=lock_id, reqUUID=request)
    assert got["RESULT"] == 0, got
    return got


def _adopted(pair, key="k", how=("--keep",), **more):
    client = pair.client("A", **more)
    return client, _adopt(client, _orphan(pair, key, *how))


def _only(pair, *keys):
    """Nothing of the bridges' own stands beside them."""
    assert sorted(r["spec"] for r in pair.rows()) == \
        [f"t/{key}" for key in keys], pair.rows()


def _goes_on(pair, how, end):
    pair.start("A", "B")
    client, grant = _adopted(pair, how=how)
    own = client.lock("own")
    end()
    again = pair.resumed("B", client, grant, own)
    assert not any(r["state"] == "orphaned" for r in pair.rows())
    got = again.ask("2", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
    assert got["RESULT"] == 0, got
    _only(pair, "own")
    again.ask("goodbye")
    assert not pair.rows()


def a_lock_that_is_kept_goes_on(pair):
    _goes_on(pair, ("--keep",), lambda: pair.kill("A"))


def a_lock_with_a_ttl_goes_on(pair):
    _goes_on(pair, ("-t", "600"), lambda: pair.kill("A"))


def a_lock_goes_on_when_its_bridge_is_stopped(pair):
    _goes_on(pair, ("--keep",), lambda: pair.kill("A", signal.SIGTERM))


def a_lock_goes_on_when_the_death_was_noticed_long_ago(pair):
    _goes_on(pair, ("--keep",), lambda: pair.kill_and_notice("A", "B"))


def a_session_that_has_nothing_else_is_found_by_it(pair):
    pair.start("A", "B", options=("--threads", "3"))
    had = [_adopted(pair, f"k{i}") for i in range(6)]
    pair.kill("A")
    for client, grant in had:
        pair.resumed("B", client, grant)


def it_goes_on_from_bridge_to_bridge(pair):
    pair.start("A", "B", "C", "D")
    client, grant = _adopted(pair)
    for at, to in ("AC", "CB", "BD"):
        pair.kill(at)
        client = pair.resumed(to, client, grant)
    _only(pair, "k")


def it_goes_on_at_the_bridge_that_is_started_after_it(pair):
    pair.start("A", options=("--threads", "3"))
    client, grant = _adopted(pair)
    pair.kill("A")
    pair.start("B", options=("--threads", "2"))
    pair.resumed("B", client, grant)


def a_promoted_one_goes_on_with_its_new_token(pair):
    """From bridge to bridge, wherever it was promoted."""
    pair.start("A", "B", "C", "D")
    client, grant = _adopted(pair, how=("--keep", "--mode", "O"))
    for at, to in ("AB", "BC", "CD"):
        if at == "B":
            got = client.ask("3", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
            assert got["RESULT"] == 0 and got["TOKEN"] != grant["TOKEN"], got
            grant["TOKEN"] = got["TOKEN"]
        pair.kill(at)
        client = pair.resumed(to, client, grant)


def a_promotion_that_was_not_answered_is_found_at_the_second_bridge(pair):
    pair.start("A", "C")
    client, grant = _adopted(pair, how=("--keep", "--mode", "O"))
    pair.start("B", stop="promote.stored")
    pair.kill("A")
    client = pair.client("B", client.session)
    client.send(OP="3", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
    pair.wait_stopped("B")
    pair.kill("B")
    client = pair.client("C", client.session)
    got = client.ask("valid", HANDLE=grant["HANDLE"])
    assert got["RESULT"] == 0 and got["MODE"] == "E", got
    assert got["TOKEN"] != grant["TOKEN"], got


def one_that_asks_again_to_adopt_is_told_the_same(pair):
    pair.start("A", "B")
    client = pair.client("A")
    lock_id = _orphan(pair, "k", "--keep")
    grant = _adopt(client, lock_id)
    pair.kill("A")
    again = pair.client("B", client.session)
    got = _adopt(again, lock_id)
    assert (got["HANDLE"], got["TOKEN"]) == (grant["HANDLE"], grant["TOKEN"])
    assert again.ask("valid", HANDLE=got["HANDLE"])["MODE"] == "E"
    got = again.ask("adopt", lockUUID=lock_id, reqUUID="a2")
    assert got["RESULT"] == 8, "it lives, as it knows"


def _is_killed_at(pair, point):
    """-> its client; and what was answered by the next bridge"""
    pair.start("B")
    pair.start("A", stop=point)
    lock_id = _orphan(pair, "k", "--keep")
    client = pair.client("A")
    client.send(OP="adopt", lockUUID=lock_id)
    pair.wait_stopped("A")
    pair.kill("A")
    again = pair.client("B", client.session)
    return again, _adopt(again, lock_id)


def a_bridge_that_is_killed_while_it_adopts_leaves_an_orphan_as_it_was(pair):
    again, grant = _is_killed_at(pair, "adopt.stored")
    assert not again.greeting["RESUMED"], "nothing was there of it"
    same(again, [grant])
    _only(pair, "k")


def one_that_is_killed_when_it_has_adopted_leaves_it_to_the_session(pair):
    again, grant = _is_killed_at(pair, "adopt.bequeathed")
    assert again.greeting["RESUMED"]
    same(again, [grant])
    _only(pair, "k")


def who_is_killed_when_it_has_taken_over_one_leaves_both_to_the_next(pair):
    pair.start("A", "B")
    client, grant = _adopted(pair)
    own = client.lock("own")
    pair.start("C", stop="inherit.taken")
    pair.kill("A")
    asker = Client(pair.bridges["C"])
    asker.send(OP="hello", session=client.session, grace=30000)
    pair.wait_stopped("C")
    pair.kill("C")
    again = pair.resumed("B", client, grant, own)
    _only(pair, "k", "own")


def one_that_another_adopts_meanwhile_does_not_come_back(pair):
    pair.start("A", "B", "C")
    client, grant = _adopted(pair)
    own = client.lock("own")
    lock_id = next(r["id"] for r in pair.rows("k"))
    pair.kill("A")
    host = pair.client("C")
    others = _adopt(host, lock_id)
    again = pair.resumed("B", client, own)
    pair.kill_and_notice("C", "B")
    got = again.ask("2", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
    assert got["RESULT"] != 0, "with the token that it had once"
    same(pair.client("B", host.session), [others])


def one_that_a_process_of_the_host_adopts_meanwhile_is_not_the_sessions(pair):
    pair.start("A", "B")
    client, grant = _adopted(pair)
    own = client.lock("own")
    pair.kill("A")
    subprocess.run([LOCKCTL, "-S", "shm:" + pair.space, "adopt",
                    pair.rows("k")[0]["id"]], check=True, timeout=30,
                   stdout=subprocess.DEVNULL)
    again = pair.resumed("B", client, own)
    assert again.ask("valid", HANDLE=grant["HANDLE"]).get("TOKEN") is None
    assert pair.rows("k")[0]["state"] == "orphaned", "as lockctl is gone"


# --- nobody comes --------------------------------------------------------------


def _state(pair, key, state):
    within(lambda: [r["state"] for r in pair.rows(key)] == [state],
           f"{key} is {state}")


def its_session_that_nobody_comes_for_leaves_it_as_an_orphan(pair):
    pair.start("A", "B")
    client, _ = _adopted(pair, grace=300)
    own = client.lock("own")
    pair.kill("A")
    pair.gone("own", PATIENCE)
    _only(pair, "k")
    _state(pair, "k", "orphaned")
    again = pair.client("B", client.session)
    assert not again.greeting["RESUMED"]
    assert again.ask("valid", HANDLE=own["HANDLE"])["RESULT"] != 0
    same(again, [_adopt(again, pair.rows("k")[0]["id"])])


def nothing_is_left_where_no_bridge_comes_any_more(pair):
    pair.start("A")
    _adopted(pair, "kept")
    _adopted(pair, "leased", how=("-t", "1"))
    pair.kill("A")
    pair.gone("leased", PATIENCE)
    _only(pair, "kept")
    pair.start("B")
    time.sleep(NOTICED_S)
    _only(pair, "kept")


def one_that_has_nothing_else_may_come_for_the_longest_grace(pair):
    """Its own the table does not tell."""
    pair.start("A", "B")
    client, grant = _adopted(pair, grace=100)
    pair.kill_and_notice("A", "B")
    time.sleep(0.5)  # beyond its own
    client = pair.client("B", client.session, grace=100)
    assert client.greeting["RESUMED"]
    same(client, [grant])
    pair.start("C", options=("--max-grace", "1"))
    pair.kill("B")
    time.sleep(1 + 2 * NOTICED_S)
    client = pair.client("C", client.session)
    assert not client.greeting["RESUMED"]
    same(client, [_adopt(client, pair.rows("k")[0]["id"])])


def nothing_is_left_of_one_that_is_gone(pair):
    pair.start("A", options=("--threads", "2"))
    for i in range(8):
        client, grant = _adopted(pair, f"k{i}")
        other = pair.client("A")
        how = i % 4
        if how == 0:
            client.ask("2", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
        elif how == 1:
            other.ask("2", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"])
        elif how == 2:
            other.ask("break", lockUUID=pair.rows(f"k{i}")[0]["id"])
        else:
            client.ask("renew", HANDLE=grant["HANDLE"], TOKEN=grant["TOKEN"],
                       timeout=1)
            pair.gone(f"k{i}", PATIENCE)
    _only(pair)


if __name__ == "__main__":
    sys.exit(main(stories(globals())))
