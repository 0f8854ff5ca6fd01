#!/usr/bin/env bash
# wait.sh - lockctl wait: it is told when an object is free, takes nothing that
# stays, stands in nobody's way for longer than a moment, and can be ended.
. "$(dirname "$0")/lib.bash"

counter()
{
    "$LOCKCTL" stats --json >"$tmp/stats" && json "$tmp/stats" "j['$1']"
}

# The free --------------------------------------------------------------------

exits 'no space' 69 wait a
err_has 'no space is said' 'makes it'
"$LOCKCTL" run made true
grants=$(counter grants)
exits 'free' 0 wait a
is 'free: nothing is printed' 0 "$(cat "$tmp/out" "$tmp/err" | wc -c)"
exits 'free, verbose' 0 wait -v a/b
err_has 'free is said' 'a/b can be granted'
exits 'free, --json' 0 wait --json a/b
is 'free: json' '{"result":"ENQ_OK","spec":"a/b"}' "$(cat "$tmp/out")"
if has_json_reader; then
    is 'the free was not even taken' "$grants" "$(counter grants)"
else
    skip 'the free was not even taken (no python3)'
fi

# The held --------------------------------------------------------------------

take -t none -o A busy
exits 'time over' 124 wait -w 0.1 busy
err_has 'time over is said' 'timed out: busy is locked by A'
begin=$(now_ms)
exits 'never before its time' 124 -q wait -w 0.2 busy
true_that 'never before its time: clock' test $(($(now_ms) - begin)) -ge 200
exits 'asked only' 124 wait -w 0 busy
err_has 'asked only: who holds it' 'busy is locked by A'
exits 'time over, --json' 124 wait --json -w 0.05 busy
is 'time over: result' ENQ_TIMEDOUT "$(json "$tmp/out" 'j["result"]')"
exits 'time over before the first look' 124 wait --json -w 0.001 busy
is 'time over before the first look: result' ENQ_TIMEDOUT \
    "$(json "$tmp/out" 'j["result"]')"
true_that 'nobody waits any more' n_wait 0 busy

start wait busy
true_that 'it stands in the queue' within 5 somebody_waits busy
"$LOCKCTL" unlock "$id"
ended 'freed' 0
true_that 'and left nothing' is_free busy

begin=$(now_ms)
take -t 0.4 -o A soon
exits 'freed by its ttl' 0 wait soon
true_that 'not before its ttl' test $(($(now_ms) - begin)) -ge 400

start run dies sleep 60
within 5 is_held dies
holder=$pid
start wait dies
within 5 somebody_waits dies
kill -KILL "$holder"
ended 'freed by a death' 0

# It waits in turn, and the next behind it is served at once.
take -t none -o A turn
start wait turn
within 5 somebody_waits turn
waiter=$pid
"$LOCKCTL" run -w 30 turn echo served >"$tmp/next" 2>&1 &
next=$!
pids+=("$next")
within 5 n_wait 2 turn
"$LOCKCTL" unlock "$id"
wait "$waiter"
is 'served in turn' 0 $?
wait "$next"
is 'the next is served' 0 $?
is 'the next has run' served "$(cat "$tmp/next")"

# A stopped one gives way all the same: its moment has an end.
take -t none -o A stopped
start wait stopped
within 5 somebody_waits stopped
kill -STOP "$pid"
"$LOCKCTL" unlock "$id"
true_that 'stopped in its moment, it holds up nobody' \
    "$LOCKCTL" run -w 5 stopped true
kill -CONT "$pid"
ended 'it was free, once' 0

# Modes and owners ------------------------------------------------------------

take -t none -m S -o A read
exits 'readers are in the way of X' 124 -q wait -w 0.05 read
exits 'readers are not in the way of S' 0 wait -m S -w 0 read
take -t none -o A mine
exits 'its owner could have it' 0 wait -m E -o A -w 0 mine
exits 'another could not' 124 -q wait -m E -o B -w 0 mine
exits 'X: nobody at all holds it' 124 -q wait -o A -w 0 mine
exits 'other keys are free' 0 wait -w 0 mine/other

# Several ---------------------------------------------------------------------

exits 'all free' 0 wait --json a b c
is 'a line for each' 3 "$(wc -l <"$tmp/out")"
exits 'one of them is held' 124 -q wait -w 0.1 a mine
exits 'a wrong one is said before the wait' 64 wait mine ''
take -t none -o A two/1
first=$id
take -t none -o A two/2
start wait two/1 two/2
within 5 somebody_waits two/1
"$LOCKCTL" unlock "$id"
"$LOCKCTL" unlock "$first"
ended 'each was free' 0

# The end of it ---------------------------------------------------------------

for signal in HUP:1 INT:2 TERM:15; do
    start wait -w forever mine
    within 5 somebody_waits mine
    kill -"${signal%:*}" "$pid"
    ended "${signal%:*} ends it" $((128 + ${signal#*:}))
    true_that "${signal%:*}: nobody waits any more" n_wait 0 mine
done
start wait -v mine
within 5 somebody_waits mine
within 5 grep -q 'waiting for' "$tmp/bg.err"
kill -INT "$pid"
ended 'INT, verbose' 130
err_has 'it has said for what' 'waiting for mine, locked by A'
err_has 'and that it gave up' 'gave up mine: Interrupt'
start wait mine
within 5 somebody_waits mine
kill -KILL "$pid"
wait "$pid" 2>/dev/null
true_that 'a killed one waits no longer' within 5 n_wait 0 mine
start wait mine
within 5 somebody_waits mine
"$LOCKCTL" list --json mine >"$tmp/j"
request=$(json "$tmp/j" 'j["locks"][0]["waiters"][0]["id"]')
"$LOCKCTL" break "$request" --confirm="$request"
ended 'broken while it waits' 75
err_has 'broken is said' 'the request for mine was cancelled'
start wait mine
within 5 somebody_waits mine
rm "/dev/shm/$space_name"
"$LOCKCTL" list mine >/dev/null 2>&1
kill -TERM "$pid"
ended 'its space removed, it still can be ended' 143

# Typing errors ---------------------------------------------------------------

exits 'no object' 64 wait
err_has 'no object shows the form' 'wait OBJ'
exits 'a mode that is none' 64 wait -m Q a
exits 'a time that is none' 64 wait -w soon a
err_has 'a time that is none is named' '"soon" is not a time'
exits 'an option of lock' 64 wait --ttl 5 a
err_has 'an option of lock is named' 'wait: unknown option --ttl'
exits 'nearly wait' 64 waitt a
err_has 'nearly wait is guessed' 'did you mean wait'
finish
