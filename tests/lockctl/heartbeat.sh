#!/usr/bin/env bash
# heartbeat.sh - lockctl lock --heartbeat and run --heartbeat: a ttl that is
# renewed while somebody is there to do it, and what is told of the lock.
. "$(dirname "$0")/lib.bash"

ttl_of()
{
    "$LOCKCTL" list --json "$1" >"$tmp/j" &&
        json "$tmp/j" 'j["locks"][0]["ttl_ms"]'
}

break_lock()
{
    "$LOCKCTL" break "$1" --confirm="$1"
}

# hold ARGUMENT...: lockctl lock in the background; its lock in id and token.
hold()
{
    start lock "$@"
    within 5 has_line "$tmp/bg.out"
    read -r id token <"$tmp/bg.out"
}

# lock ------------------------------------------------------------------------

hold -o A -t 0.8 --heartbeat 0.1 h/1
is 'it prints id and token' "$id" "$("$LOCKCTL" list --only id h/1)"
sleep 0.9
is 'it is held beyond its ttl' "$token" "$("$LOCKCTL" list --only token h/1)"
is 'its process is there' held "$("$LOCKCTL" list --only state h/1)"
kill -INT "$pid"
ended 'INT ends it' 130
true_that 'INT gives it back' is_free h/1

hold -t 0.4 --heartbeat 0.1 h/2
kill -STOP "$pid"
true_that 'stopped, it loses the lock' within 5 is_free h/2
kill -CONT "$pid"
ended 'stopped, it says so afterwards' 79
err_has 'the loss is said' 'lost h/2: the lock reached its ttl'

hold -t 0.6 --heartbeat 0.2 h/3
kill -KILL "$pid"
wait "$pid" 2>/dev/null
exits 'killed, it leaves the lock to its ttl' 75 who h/3
true_that 'and the ttl ends it' within 5 is_free h/3

hold --heartbeat 5s h/4
break_lock "$id"
ended 'broken by an operator' 79
err_has 'broken is said' 'lost h/4: the lock was broken by an operator'
hold --heartbeat 5s h/5
"$LOCKCTL" unlock "$id"
true_that 'unlocked by another: it is told' within 3 is_gone "$pid"
is_gone "$pid" || kill -TERM "$pid"
ended 'unlocked by another: that is its end' 0
hold -m O -o A --heartbeat 5s h/6
take -m O -o B -t none h/6
"$LOCKCTL" promote "$id" >/dev/null
ended 'promoted away' 79
err_has 'promoted away: to whom' 'lost h/6: .*promotion of B'

for signal in HUP:1 TERM:15; do
    hold --heartbeat 5s h/7
    kill -"${signal%:*}" "$pid"
    ended "${signal%:*} ends it" $((128 + ${signal#*:}))
    true_that "${signal%:*} gives it back" is_free h/7
done
take -t none -o A h/8
start lock -w forever --heartbeat 5s h/8
within 5 somebody_waits h/8
kill -INT "$pid"
ended 'INT while it waits' 130
start lock -w forever --heartbeat 0.2 h/8
within 5 somebody_waits h/8
"$LOCKCTL" unlock "$id"
within 5 has_line "$tmp/bg.out"
read -r id token <"$tmp/bg.out"
sleep 0.9
is 'renewed after a wait, too' "$token" "$("$LOCKCTL" list --only token h/8)"
kill -TERM "$pid"
ended 'TERM after a wait' 143

# What is told ----------------------------------------------------------------

hold -v -o A --heartbeat 5s told/1
"$LOCKCTL" lock -q -o B -w 0.3 told/1
kill -TERM "$pid"
ended 'told' 143
err_has 'who waits is told' 'B waits for told/1'
err_has 'the end is told' 'released told/1: Terminated'
hold -o A --heartbeat 5s told/2
"$LOCKCTL" lock -q -o B -w 0.3 told/2
kill -TERM "$pid"
ended 'not told' 143
is 'nothing is told without -v' 0 "$(wc -c <"$tmp/err")"
hold -v -t 0.8 --heartbeat 0.7 told/3
within 5 grep -q 'nearly over' "$tmp/bg.err"
kill -TERM "$pid"
ended 'nearly over' 143
err_has 'a ttl that is nearly over is told' \
    "the ttl of told/3 is nearly over: \"lockctl renew $id\""
if has_json_reader; then
    start lock --json -o A --heartbeat 5s told/4
    within 5 has_line "$tmp/bg.out"
    "$LOCKCTL" lock -q -o B -w 0.3 told/4
    head -n 1 "$tmp/bg.out" >"$tmp/j"
    id=$(json "$tmp/j" 'j["id"]')
    break_lock "$id"
    ended '--json' 79
    is '--json: a line each' 3 "$(wc -l <"$tmp/out")"
    sed -n 2p "$tmp/out" >"$tmp/j"
    is '--json: who waits' 'blocking B' \
        "$(json "$tmp/j" 'j["event"] + " " + j["owner"]')"
    sed -n 3p "$tmp/out" >"$tmp/j"
    is '--json: the end' "lost ENQ_FORCED $id" \
        "$(json "$tmp/j" '" ".join([j["event"], j["result"], j["id"]])')"
else
    skip '--json (no python3)'
fi

# Its ttl ---------------------------------------------------------------------

if has_json_reader; then
    hold --heartbeat 2s ttl/1
    is 'the ttl is three times it' 6000 "$(ttl_of ttl/1)"
    kill -TERM "$pid"
    ended 'end of ttl/1' 143
    hold --keep --heartbeat 2s ttl/2
    is 'kept: too' 6000 "$(ttl_of ttl/2)"
    kill -TERM "$pid"
    ended 'end of ttl/2' 143
    exits 'run: the ttl is three times it' 0 run --heartbeat 2s ttl/3 \
        "$LOCKCTL" list --json ttl/3
    is 'run: ttl' 6000 "$(json "$tmp/out" 'j["locks"][0]["ttl_ms"]')"
else
    skip 'the ttl (no python3)'
fi
exits 'none is as if not given' 0 lock --heartbeat none -t none ttl/4
for wrong in '--heartbeat 0' '--heartbeat x' '--heartbeat -1' '--heartbeat='; do
    # shellcheck disable=SC2086
    exits "lock $wrong" 64 lock $wrong ttl/5
done
exits 'longer than the ttl' 64 lock -t 2s --heartbeat 2s ttl/5
err_has 'longer than the ttl is said' \
    'a heartbeat of 2 s comes too late for a ttl of 2 s'
exits 'no ttl to renew' 64 run -t none --heartbeat 2s ttl/5 true
err_has 'no ttl to renew is said' 'a heartbeat renews a ttl'
exits 'nearly heartbeat' 64 lock --hartbeat 2s ttl/5
err_has 'nearly heartbeat is guessed' 'did you mean --heartbeat'
exits 'of another command' 64 wait --heartbeat 2s ttl/5
true_that 'nothing was locked' is_free ttl/5

# run -------------------------------------------------------------------------

exits 'run: held beyond its ttl' 0 run -t 0.8 --heartbeat 0.1 r/1 sleep 1.1
exits 'run: by itself, too' 0 run -t 0.8 r/2 sleep 1.1
begin=$(now_ms)
exits 'run: a ttl that runs out' 79 run -t 0.4 --heartbeat none r/3 sleep 20
true_that 'run: not before its time' test $(($(now_ms) - begin)) -ge 400
true_that 'run: at once then' test $(($(now_ms) - begin)) -lt 3000
err_has 'run: that is said' 'lost r/3: the lock reached its ttl; ending sleep'
exits 'run: done before its ttl' 4 run -t 30 --heartbeat none r/4 sh -c 'exit 4'
start run -v -o A r/5 sh -c 'echo up; sleep 20'
within 5 has_line "$tmp/bg.out"
"$LOCKCTL" lock -q -o B -w 0.3 r/5
kill -TERM "$pid"
ended 'run: told' 143
err_has 'run: who waits is told' 'B waits for r/5'
is 'run: only once' 1 "$(grep -c 'waits for' "$tmp/err")"
start run -v -t 0.4 --heartbeat none r/6 sh -c 'trap "" TERM; sleep 0.6'
ended 'run: told in time' 79
err_has 'run: nearly over is told' 'the ttl of r/6 is nearly over'
true_that 'run: nearly over comes first' \
    test "$(grep -n nearly "$tmp/err" | cut -d: -f1)" -lt \
    "$(grep -n lost "$tmp/err" | cut -d: -f1)"
finish
