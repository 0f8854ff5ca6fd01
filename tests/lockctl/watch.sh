#!/usr/bin/env bash
# watch.sh - lockctl watch: what happens to locks, a line each, in order, while
# it is in nobody's way.
. "$(dirname "$0")/lib.bash"

# sees NAME WORDS: a line of the watcher in the background has them.
sees()
{
    if within 5 grep -Eq -e "$2" "$tmp/bg.out"; then
        pass
    else
        cp "$tmp/bg.out" "$tmp/out"
        cp "$tmp/bg.err" "$tmp/err"
        fail "$1" "no $2"
    fi
}

# watching ARGUMENT...: a watcher that has begun. What is there already tells
# when.
watching()
{
    start watch -i 0.02 "$@"
    watcher=$pid
    within 5 has_line "$tmp/bg.out"
}

stop_watching()
{
    pid=$watcher
    kill -INT "$pid"
    ended "$1" 130
}

exits 'no space' 69 watch
"$LOCKCTL" lock -o Zero -t none p/0 >/dev/null

# A life of locks -------------------------------------------------------------

watching
sees 'it begins with what is there' '^20[0-9-]+T[0-9:.]+Z +orphaned +E +p/0 +Zero '
take -o A -t none p/1
sees 'a grant' ' granted +E +p/1 +A '
start_waiter()
{
    "$LOCKCTL" lock -o B -t none -w 30 p/1 >"$tmp/got" 2>&1 &
    waiter=$!
    pids+=("$waiter")
}
start_waiter
sees 'a wait' ' waiting +E +p/1 +B +pid [0-9]+ lockctl'
"$LOCKCTL" unlock "$id"
sees 'a release' " released +E +p/1 +A .* $id\$"
sees 'a grant after a wait' ' granted +E +p/1 +B '
wait "$waiter"
read -r id token <"$tmp/got"
"$LOCKCTL" lock -q -o C -w 0.3 p/1
sees 'it has given up' ' left +E +p/1 +C '
take -o A -t 0.2 p/ttl
sees 'a ttl' " granted .* $id"
sees 'an end by its ttl' " (expired|released) +E +p/ttl +A .* $id"
take -m O -o A -t none p/opt
sees 'an optimistic one' ' granted +O +p/opt +A'
"$LOCKCTL" promote "$id" >/dev/null
sees 'a promotion' " promoted +E +p/opt +A .* $id"
take --keep -o A p/keep
sees 'a kept one' " granted +E +p/keep .* $id"
"$LOCKCTL" break "$id" --confirm="$id"
sees 'a break' " (broken|released) +E +p/keep .* $id"
"$LOCKCTL" lock -o R --heartbeat 5s p/dies >"$tmp/got" &
holder=$!
pids+=("$holder")
sees 'a lock that has its process' ' granted +E +p/dies +R +pid [0-9]+ lockctl'
kill -KILL "$holder"
wait "$holder" 2>/dev/null
sees 'its process is gone' ' orphaned +E +p/dies +R '
"$LOCKCTL" run -o R p/killed sleep 60 &
killed=$!
pids+=("$killed")
sees 'a lock of run' ' granted +E +p/killed +R +pid [0-9]+ lockctl'
kill -KILL "$killed"
wait "$killed" 2>/dev/null
"$LOCKCTL" lock -o S -w 5 -t none p/killed >/dev/null
sees 'an end by a death' ' (died|released|orphaned) +E +p/killed +R '
sees 'and the next' ' granted +E +p/killed +S '
stop_watching 'INT ends it'
is 'it was in nobody'"'"'s way' 0 "$(grep -c . "$tmp/err")"
for signal in HUP:1 TERM:15; do
    watching
    kill -"${signal%:*}" "$pid"
    ended "${signal%:*} ends it" $((128 + ${signal#*:}))
done

# What is selected ------------------------------------------------------------

watching p/0
"$LOCKCTL" lock -o A -t none p/other >/dev/null
"$LOCKCTL" lock -o Zero -t none p/0 >/dev/null
sees 'of one key' ' granted +E +p/0 '
is 'of no other key' 0 "$(grep -c p/other "$tmp/bg.out")"
stop_watching 'INT ends it, one key'
watching -o Zero
"$LOCKCTL" lock -o A -t none q/1 >/dev/null
"$LOCKCTL" lock -o Zero -t none q/2 >/dev/null
sees 'of one owner' ' granted +E +q/2 '
is 'of no other owner' 0 "$(grep -c q/1 "$tmp/bg.out")"
stop_watching 'INT ends it, one owner'

# For programs ----------------------------------------------------------------

if has_json_reader; then
    watching --json p/0
    take -o $'a\e"b' -t none -m S p/0/x
    take -o Zero -t none p/0
    sees 'json: a grant' "\"granted\".*$id"
    stop_watching 'INT ends it, --json'
    grep "\"granted\".*$id" "$tmp/out" >"$tmp/j"
    is 'json: event' granted "$(json "$tmp/j" 'j["event"]')"
    is 'json: the lock' "p/0 E $token" "$(json "$tmp/j" \
        '" ".join([j["lock"]["spec"], j["lock"]["mode"], j["lock"]["token"]])')"
    true_that 'json: time' grep -Eq '^\{"at":"20[0-9-]+T[0-9:.]+Z"' "$tmp/j"
    bad=0
    while read -r line; do
        echo "$line" >"$tmp/j"
        json "$tmp/j" 'j["at"]' >/dev/null || bad=$((bad + 1))
    done <"$tmp/out"
    is 'each line is JSON' 0 "$bad"
else
    skip 'JSON (no python3)'
fi

# Names that would act upon a terminal.
watching p/0
"$LOCKCTL" lock -o $'e\e[2J' -t none -m S p/@ >/dev/null 2>&1
"$LOCKCTL" lock -o Zero -t none $'p/\e[2J' >/dev/null
stop_watching 'INT ends it, odd names'
is 'no escape comes through' 0 "$(grep -c $'\e' "$tmp/out")"

# The end of it ---------------------------------------------------------------

begin=$(now_ms)
exits 'time over' 124 watch -w 0.3 p/0
true_that 'not before its time' test $(($(now_ms) - begin)) -ge 300
exits 'one look' 124 watch -w 0 p/0
out_has 'one look shows what is there' ' orphaned +E +p/0 '
"$LOCKCTL" watch -w 0 >/dev/full 2>"$tmp/err"
is 'output that cannot be written' 1 $?
(
    "$LOCKCTL" watch -i 0.02 2>/dev/null
    echo "ended $?" >"$tmp/reader"
) | head -n 1 >/dev/null &
pids+=($!)
# shellcheck disable=SC2317 # within calls it
something_happens()
{
    "$LOCKCTL" lock -t 1 -m S reader >/dev/null
    has_line "$tmp/reader"
}
true_that 'it ends with its reader' within 5 something_happens
watching
rm "/dev/shm/$space_name"
pid=$watcher
true_that 'it ends with the space' within 5 is_gone "$pid"
ended 'the space was removed' 69
err_has 'the space is named' "the space .*$space_name was removed"

# Typing errors ---------------------------------------------------------------

exits 'interval 0' 64 watch -i 0
err_has 'interval 0 is named' '"0" is not a time above 0'
exits 'two objects' 64 watch a b
err_has 'two objects: the second is named' '"b" is one argument too many'
exits 'nearly an option' 64 watch --intervall 1
err_has 'nearly an option is guessed' 'did you mean --interval'
finish
