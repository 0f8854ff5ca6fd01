#!/usr/bin/env bash
# run.sh - lockctl run: the program's status is kept, signals reach it, it dies
# with lockctl, and it does not go on without its lock.
# shellcheck disable=SC2016 # the programs' own variables
. "$(dirname "$0")/lib.bash"

# A program that says its number in a file and then waits; @1: what to do on
# TERM ("" = die, "ignore", or an exit code).
cat >"$tmp/program" <<'END'
#!/bin/sh
case ${2-} in
'') ;;
ignore) trap '' TERM ;;
*) trap "exit $2" TERM ;;
esac
echo $$ >"$1"
while :; do sleep 0.02; done
END
chmod +x "$tmp/program"

# start_program ARGUMENT... -- [ON-TERM]: with lockctl's number in $pid and the
# program's in $child.
start_program()
{
    local options=()

    while [ "$1" != -- ]; do
        options+=("$1")
        shift
    done
    shift
    rm -f "$tmp/child"
    start run "${options[@]}" "$tmp/program" "$tmp/child" "$@"
    within 5 has_line "$tmp/child"
    child=$(cat "$tmp/child")
    pids+=("$child")
}

group_of()
{
    sed 's/.*) //' "/proc/$1/stat" | cut -d' ' -f3
}

break_lock()
{
    local id

    id=$("$LOCKCTL" list --only id "$1" | head -n 1)
    "$LOCKCTL" break "$id" --confirm="$id"
}

# The program's status --------------------------------------------------------

exits 'status 0' 0 run a true
exits 'status 7' 7 run a sh -c 'exit 7'
exits 'status 255' 255 run a sh -c 'exit 255'
exits 'ended by KILL' 137 run a sh -c 'kill -KILL $$'
exits 'ended by SEGV' 139 run a sh -c 'kill -SEGV $$'
exits 'not found' 127 run a "$tmp/nothing"
err_has 'not found names the program' 'cannot run .*/nothing: No such file'
PATH=/usr/bin:/bin exits 'not found by PATH' 127 run a lockctl-no-such-program
echo text >"$tmp/text"
exits 'not runnable' 126 run a "$tmp/text"
exits 'a directory' 126 run a "$tmp"
exits 'no shell' 0 run a printf '%s' '$HOME; *'
is 'no shell: words are kept' '$HOME; *' "$(cat "$tmp/out")"
exits 'options of the program' 0 run a printf '%s ' -w 5 --json -- x
is 'options of the program are kept' '-w 5 --json -- x ' "$(cat "$tmp/out")"
exits 'after --' 0 run -n a -- printf '%s' -q
is 'after -- too' '-q' "$(cat "$tmp/out")"
PATH=/usr/bin:/bin exits 'a program named by a dash' 127 run a -- -w
exits 'environment' 0 run a/b sh -c \
    'echo "$ENQ_LOCK_ID $ENQ_TOKEN $ENQ_OBJECT"'
out_has 'environment: id, token, object' '^[0-9a-f-]{36} [1-9][0-9]* a/b$'
exits 'environment: the id is the lock' 0 run a/b sh -c \
    '[ "$("$0" list --only id a/b)" = "$ENQ_LOCK_ID" ]' "$LOCKCTL"
exits 'standard input' 0 run a sh -c 'cat' <<<'through'
out_has 'standard input is the program'"'"'s' '^through$'
exits 'the lock ends with the program' 0 who -q a

# Obtaining -------------------------------------------------------------------

take -t none -o A busy
exits 'busy' 75 run busy echo ran
err_has 'busy names the holder' 'busy is locked by A'
is 'busy: the program did not run' '' "$(cat "$tmp/out")"
exits 'busy -E' 3 run -E 3 busy true
exits 'busy -E 0' 0 run -E 0 busy false
exits 'busy --json prints nothing' 75 run --json busy true
is 'standard output is the program'"'"'s' '' "$(cat "$tmp/out")"
exits 'wait time over' 75 run -w 0.1 busy true
exits 'wait time over -E' 9 run -w 0.1 -E 9 busy true
exits 'owner' 0 run -o A busy true
exits 'mode' 75 run -m X -o A busy true
start run -w 30 busy echo ran
within 5 somebody_waits busy
"$LOCKCTL" unlock "$id"
ended 'granted after a wait' 0
out_has 'and then it ran' '^ran$'

# Signals while waiting -------------------------------------------------------

take -t none -o A busy
for signal in HUP:1 INT:2 QUIT:3 USR1:10 USR2:12 TERM:15; do
    start run -w forever busy echo ran
    within 5 somebody_waits busy
    kill -"${signal%:*}" "$pid"
    ended "${signal%:*} ends the wait" $((128 + ${signal#*:}))
    is "${signal%:*}: the program did not run" '' "$(cat "$tmp/out")"
done
true_that 'nobody waits any more' n_wait 0 busy
start run -w forever busy true
within 5 somebody_waits busy
kill -CONT "$pid"
kill -WINCH "$pid"
exits 'CONT and WINCH do not end the wait' 75 who busy
true_that 'it waits still' somebody_waits busy
kill -KILL "$pid"
wait "$pid" 2>/dev/null
true_that 'a killed waiter is gone' within 5 n_wait 0 busy
(
    trap '' HUP
    exec "$LOCKCTL" run -w forever busy true >/dev/null 2>&1 </dev/null
) &
pid=$!
pids+=("$pid")
within 5 somebody_waits busy
kill -HUP "$pid"
true_that 'an ignored signal stays ignored' somebody_waits busy
kill -TERM "$pid"
wait "$pid"
is 'another ends it' 143 $?

# Signals while running -------------------------------------------------------

for signal in HUP:1 INT:2 QUIT:3 USR1:10 USR2:12 TERM:15; do
    start_program "sig/${signal%:*}" --
    kill -"${signal%:*}" "$pid"
    ended "${signal%:*} ends the program" $((128 + ${signal#*:}))
    true_that "${signal%:*} has ended it" is_gone "$child"
done
start_program sig/status -- 5
kill -TERM "$pid"
ended 'the program'"'"'s own status after TERM' 5
start run sig/winch sh -c \
    'trap "echo winch; exit 4" WINCH; echo $$; while :; do sleep 0.02; done'
within 5 has_line "$tmp/bg.out"
kill -WINCH "$pid"
ended 'WINCH is forwarded' 4
start run sig/group sh -c 'trap "wait; exit 6" TERM
    sh -c "trap \"echo two >&2; exit\" TERM; echo \$\$
        while :; do sleep 0.02; done" & wait'
within 5 has_line "$tmp/bg.out"
kill -TERM "$pid"
ended 'TERM reaches the whole group' 6
err_has 'the program'"'"'s own child had it' '^two$'
start_program -F sig/foreground --
is 'lockctl'"'"'s group' "$(group_of "$pid")" "$(group_of "$child")"
kill -TERM "$pid"
ended 'TERM is forwarded in the foreground' 143
start_program sig/stop --
is 'a group of its own' "$child" "$(group_of "$child")"
kill -STOP "$child"
kill -CONT "$pid"
kill -TERM "$pid"
ended 'CONT wakes a stopped program' 143
exits 'signals are not blocked in the program' 0 run mask \
    grep -E '^SigBlk:\s+0+$' /proc/self/status
if command -v script >/dev/null; then
    # At a terminal the program shares lockctl's group, and ^C reaches both.
    # lockctl is stopped meanwhile, so that a second INT would be its own.
    cat >"$tmp/counter" <<'END'
#!/bin/sh
trap 'echo int >>"$1.int"' INT
echo $PPID >"$1"
until [ -s "$1.go" ]; do sleep 0.02; done
sleep 0.1
exit 8
END
    chmod +x "$tmp/counter"
    {
        within 5 has_line "$tmp/tty"
        wrapper=$(cat "$tmp/tty")
        kill -STOP "$wrapper"
        printf '\003'
        within 5 has_line "$tmp/tty.int"
        kill -CONT "$wrapper"
        sleep 0.1
        echo go >"$tmp/tty.go"
    } | timeout $((20 * slow)) script -qec \
        "trap : INT; '$LOCKCTL' run tty '$tmp/counter' '$tmp/tty'; echo is-\$?" \
        /dev/null >"$tmp/out" 2>"$tmp/err"
    out_has 'a terminal: status' 'is-8'
    is 'a terminal: ^C comes once' 1 "$(wc -l <"$tmp/tty.int")"
    printf 'word\n' | timeout $((5 * slow)) script -qec \
        "'$LOCKCTL' run tty sh -c 'read w; echo got-\$w'" /dev/null \
        >"$tmp/out" 2>"$tmp/err"
    out_has 'a terminal: the program can read' 'got-word'
else
    skip 'a terminal (no script(1))'
fi

# Death -----------------------------------------------------------------------

start_program dead --
kill -KILL "$pid"
wait "$pid" 2>/dev/null
true_that 'the program dies with a killed lockctl' within 5 is_gone "$child"
true_that 'the lock of a killed lockctl is free' within 5 is_free dead

# Loss ------------------------------------------------------------------------

start_program lost/1 --
break_lock lost/1
begin=$(now_ms)
ended 'lock broken' 79
true_that 'lock broken: soon' test $(($(now_ms) - begin)) -lt $((2000 * slow))
true_that 'lock broken: the program is gone' is_gone "$child"
err_has 'lock broken is said' 'lost lost/1: .*; ending '
start_program lost/2 -- 0
break_lock lost/2
ended 'lock broken, the program ends well' 79
start_program -g 1 lost/3 -- ignore
begin=$(now_ms)
break_lock lost/3
ended 'lock broken, the program ignores TERM' 79
true_that 'not killed before the grace time' \
    test $(($(now_ms) - begin)) -ge 950
true_that 'killed after the grace time' is_gone "$child"
start_program -g 0 lost/4 -- ignore
break_lock lost/4
ended 'lock broken, no grace' 79
start run -g 0.2 lost/5 sh -c 'sh -c "trap \"\" TERM; echo \$\$
    while :; do sleep 0.02; done" & wait'
within 5 has_line "$tmp/bg.out"
pids+=("$(cat "$tmp/bg.out")")
break_lock lost/5
ended 'lock broken, the group' 79
true_that 'the whole group is gone' is_gone "$(cat "$tmp/out")"
start_program lost/6 --
"$LOCKCTL" unlock "$("$LOCKCTL" list --only id lost/6)"
true_that 'unlocked by another: the program is ended' within 3 is_gone "$child"
is_gone "$child" || kill -KILL "$child"
ended 'unlocked by another' 79
err_has 'unlocked by another is said' 'lost lost/6: somebody else unlocked it'
start_program lost/7 --
kill -STOP "$child"
break_lock lost/7
begin=$(now_ms)
ended 'lock broken, the program is stopped' 79
true_that 'a stopped program is woken to end' \
    test $(($(now_ms) - begin)) -lt $((2000 * slow))
start run lost/9 sh -c 'trap exit TERM
    sh -c "trap \"sleep 0.2; echo cleaned; exit\" TERM; echo \$\$
        while :; do sleep 0.02; done" & wait'
within 5 has_line "$tmp/bg.out"
break_lock lost/9
ended 'lock broken, the group outlives the program' 79
out_has 'the group has its grace time too' '^cleaned$'
exits 'lost at the very end' 79 run lost/10 sh -c \
    'exec "$0" break "$ENQ_LOCK_ID" --confirm="$ENQ_LOCK_ID"' "$LOCKCTL"
start_program -m O lost/8 --
take -m O -o B lost/8
"$LOCKCTL" promote "$id" >/dev/null
ended 'lost to a promotion' 79

# Both at once: the operator breaks the lock, and a person presses Ctrl-C.
start_program -g 0.5 lost/11 -- ignore
break_lock lost/11
kill -INT "$pid"
ended 'lost, and INT in its grace time' 79
true_that 'INT in its grace time: the program is gone' is_gone "$child"

# What it does meanwhile is nothing: it sleeps until there is an event.
switches()
{
    cat "/proc/$1"/task/*/status | awk '/^voluntary/ { n += $2 } END { print n }'
}
start_program asleep --
sleeps() # since a little while, at least
{
    before=$(switches "$pid")
    sleep 0.2
    [ "$(switches "$pid")" = "$before" ]
}
true_that 'lockctl comes to rest' within 5 sleeps
before=$(switches "$pid")
sleep 0.6
true_that 'lockctl looks at nothing while nothing happens' \
    test $(($(switches "$pid") - before)) -le 4
begin=$(now_ms)
break_lock asleep
true_that 'and it hears of the loss' within 2 is_gone "$child"
true_that 'at once' test $(($(now_ms) - begin)) -lt $((1000 * slow))
ended 'asleep' 79

# Time ------------------------------------------------------------------------

start_program -t 2 ttl/1 --
token=$("$LOCKCTL" list --only token ttl/1)
sleep 2.2
is 'the ttl is renewed' "$token" "$("$LOCKCTL" list --only token ttl/1)"
guardian=$("$LOCKCTL" list --only pid ttl/1)
kill -STOP "$guardian"
true_that 'a stopped guardian loses the lock' within 5 is_free ttl/1
kill -CONT "$guardian"
ended 'and says so when it goes on' 79
true_that 'its program is gone' is_gone "$child"
start_program ttl/2 --
"$LOCKCTL" list --json ttl/2 >"$tmp/j"
is 'no ttl by default' null "$(json "$tmp/j" 'j["locks"][0]["ttl_ms"]')"
kill -TERM "$pid"
ended 'end' 143
finish
