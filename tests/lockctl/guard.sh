#!/usr/bin/env bash
# guard.sh - lockctl run: the lock ends with the last process of its command,
# whichever is killed, and nothing is left behind. A witness counts: no second
# command has the lock while a process of the first lives.
# shellcheck disable=SC2016 # the programs' own variables
. "$(dirname "$0")/lib.bash"

# tree DIR SHAPE: a program with a leaf, a process that it has started: of its
# own group, its own session, a daemon ... DIR/end ends the program with 7,
# DIR/go the leaf.
cat >"$tmp/tree" <<'END'
#!/bin/bash
dir=$1 shape=$2
trap "exit 130" INT # bash looks at how its own child ended, else
until_there() { until [ -e "$dir/$1" ]; do sleep 0.02; done; }
close_all() {
    for fd in /proc/self/fd/*; do
        fd=${fd##*/}
        [ "$fd" -lt 3 ] || eval "exec $fd>&-" 2>/dev/null
    done
}
case $shape in
leaf | deaf)
    [ $shape = leaf ] || trap '' TERM HUP INT
    echo $$ >"$dir/leaf.new" && mv "$dir/leaf.new" "$dir/leaf"
    until_there go
    exit
    ;;
closed-leaf)
    close_all
    exec "$0" "$dir" leaf >/dev/null 2>&1
    ;;
plain) "$0" "$dir" leaf & ;;
deaf-child) "$0" "$dir" deaf & ;;
group) set -m; "$0" "$dir" leaf & set +m ;;
setsid) setsid "$0" "$dir" leaf & ;;
nohup) nohup "$0" "$dir" leaf >/dev/null 2>&1 & ;;
daemon) setsid bash -c '"$0" "$1" leaf & exit' "$0" "$dir" ;;
closed) setsid bash -c '"$0" "$1" closed-leaf & exit' "$0" "$dir" ;;
deaf-daemon) setsid bash -c '"$0" "$1" deaf & exit' "$0" "$dir" ;;
exec) "$0" "$dir" leaf & until_there leaf; exec "$0" "$dir" exec-end ;;
esac
[ "$shape" = exec-end ] || until_there leaf
echo $$ >"$dir/child.new" && mv "$dir/child.new" "$dir/child"
until_there end
exit 7
END
# How many processes of a case live? A process that is over has no environment.
cat >"$tmp/witness" <<'END'
#!/bin/bash
grep -lsz "^ENQ_TEST_CASE=$1\$" /proc/[0-9]*/environ | wc -l
END
chmod +x "$tmp/tree" "$tmp/witness"
shapes='plain group setsid nohup daemon closed exec'
inheriting='plain group setsid nohup daemon exec' # the life descriptor, too

n_case=0 bridge_pid=

# runs SHAPE OPTION...: the command of a case, with lockctl's two processes in
# $front and $guardian, its own in $child and $leaf.
runs()
{
    local shape=$1

    shift
    n_case=$((n_case + 1))
    object=case/$n_case
    dir=$tmp/case-$n_case
    mkdir "$dir"
    start run "$@" "$object" env ENQ_TEST_CASE="$space_name-$n_case" \
        "$tmp/tree" "$dir" "$shape"
    front=$pid
    within 10 has_line "$dir/child" || fail "case $n_case ($shape): no start"
    child=$(cat "$dir/child")
    leaf=$(cat "$dir/leaf")
    guardian=$("$LOCKCTL" list --only pid "$object" | head -n 1)
    pids+=("$child" "$leaf" "$guardian")
}

# stays NAME: somebody lives, and nobody else gets the lock.
stays()
{
    local i code

    for i in 1 2 3; do
        "$LOCKCTL" run -n -q "$object" true 2>>"$tmp/err"
        code=$?
        [ $code = 75 ] || break
        sleep 0.03
    done
    is "$1: the lock stays" 75 $code
}

# passes NAME: it ends, and then no process of the case lives.
passes()
{
    local n

    n=$("$LOCKCTL" run -w 30 "$object" "$tmp/witness" "$space_name-$n_case" \
        2>"$tmp/err")
    is "$1: who has the lock next sees nobody" 0 "$n"
    true_that "$1: nothing is left behind" within 10 nothing_left
}

nothing_left()
{
    local found

    found=$(env -u ENQ_SPACE -u ENQ_TEST_SPACE grep -lsz "$space_name" /proc/[0-9]*/environ)
    [ "$found" = "${bridge_pid:+/proc/$bridge_pid/environ}" ]
}

# Not of lockctl's: also what the leaf has started, and has no descriptors either.
nobody_lives()
{
    [ "$("$tmp/witness" "$space_name-$n_case")" = 0 ]
}

# front_ended NAME CODE
front_ended()
{
    pid=$front
    ended "$1" "$2"
}

is_stopped()
{
    grep -q '^State:.T' "/proc/$1/status"
}

slay()
{
    kill -KILL "$@"
    wait "$front" 2>/dev/null
}

# The program ends --------------------------------------------------------------

for shape in $shapes; do
    runs "$shape"
    kill -0 "$guardian" 2>/dev/null || fail "$shape: no guardian"
    touch "$dir/end"
    true_that "$shape, the program ends" within 5 is_gone "$child"
    stays "$shape, the program has ended"
    true_that "$shape, the program has ended: lockctl waits" kill -0 "$front"
    touch "$dir/go"
    front_ended "$shape, its status is kept" 7
    passes "$shape, the program has ended"
done
runs daemon -v
touch "$dir/end"
within 5 grep -q 'ended with 7; what it started runs on, under' \
    "$tmp/bg.err"
is 'what is left is told, once' 1 "$(grep -c 'runs on, under' "$tmp/bg.err")"
kill -HUP "$front"
kill -INT "$front"
front_ended 'INT ends what the program has left' 7
true_that 'and it is gone' is_gone "$leaf"
passes 'INT ends what the program has left'
runs daemon
touch "$dir/end"
true_that 'only a daemon is left' within 5 is_gone "$child"
kill -HUP "$front"
stays 'a hang-up does not end it'
kill -TERM "$front"
front_ended 'TERM does' 7
passes 'TERM does'

# One of them is killed -----------------------------------------------------------

for shape in $shapes; do
    runs "$shape"
    slay "$front"
    true_that "$shape, front killed: the program dies" within 5 is_gone "$child"
    stays "$shape, front killed"
    true_that "$shape, front killed: the leaf works on" kill -0 "$leaf"
    touch "$dir/go"
    passes "$shape, front killed"

    runs "$shape"
    kill -KILL "$guardian"
    front_ended "$shape, guardian killed" 125
    err_has "$shape, guardian killed: it is said" 'signal 9 ended the guardian \(pid [0-9]+\); ending '
    true_that "$shape, guardian killed: all are gone" is_gone "$leaf"
    passes "$shape, guardian killed"

    runs "$shape"
    kill -KILL "$child"
    stays "$shape, program killed"
    touch "$dir/go"
    front_ended "$shape, program killed" 137
    passes "$shape, program killed"
done
for shape in $inheriting; do
    runs "$shape"
    slay "$front" "$guardian"
    stays "$shape, both killed"
    true_that "$shape, both killed: the leaf works on" kill -0 "$leaf"
    touch "$dir/go"
    passes "$shape, both killed"

done
runs daemon
slay "$front"
stays 'one after the other'
kill -KILL "$guardian"
stays 'one after the other, guardian too'
touch "$dir/go"
passes 'one after the other'
runs plain
kill -KILL "$leaf"
touch "$dir/end"
front_ended 'leaf killed' 7
passes 'leaf killed'
runs daemon
slay "$front" "$guardian" "$child" "$leaf"
passes 'all killed'
runs closed
# (those first, whom nothing but the other two speaks for)
kill -KILL "$leaf" "$child"
true_that 'all killed, closed descriptors: the leaf ends' within 10 nobody_lives
slay "$front" "$guardian" 2>/dev/null # unless they have seen it
passes 'all killed, closed descriptors'

# Whoever waits gets it, without asking again.
runs daemon
slay "$front" "$guardian"
"$LOCKCTL" run -w 30 "$object" "$tmp/witness" "$space_name-$n_case" \
    >"$tmp/waiter" 2>&1 &
waiter=$!
within 5 somebody_waits "$object"
stays 'somebody waits'
touch "$dir/go"
wait "$waiter"
is 'who waits gets it when nobody lives' 0 "$(cat "$tmp/waiter")"

# Signals that can be caught ----------------------------------------------------

for signal in HUP:1 INT:2 TERM:15; do
    runs daemon
    kill -"${signal%:*}" "$front"
    true_that "${signal%:*} ends the program" within 5 is_gone "$child"
    stays "${signal%:*}, a daemon is left"
    touch "$dir/go"
    front_ended "${signal%:*}, a daemon is left" $((128 + ${signal#*:}))
    passes "${signal%:*}, a daemon is left"
    runs plain
    kill -"${signal%:*}" "$guardian"
    touch "$dir/go"
    front_ended "${signal%:*} to the guardian" $((128 + ${signal#*:}))
    passes "${signal%:*} to the guardian"
done

# --kill ------------------------------------------------------------------------

for shape in setsid closed deaf-daemon deaf-child; do
    runs "$shape" --kill -g 0.3
    touch "$dir/end"
    front_ended "--kill, $shape, the program ends" 7
    true_that "--kill, $shape: the leaf is gone" is_gone "$leaf"
    passes "--kill, $shape, the program ends"
    runs "$shape" -k -g 0.3
    slay "$front"
    passes "--kill, $shape, front killed"
    true_that "--kill, $shape, front killed: the leaf is gone" is_gone "$leaf"
    runs "$shape" -k
    kill -KILL "$guardian"
    front_ended "--kill, $shape, guardian killed" 125
    passes "--kill, $shape, guardian killed"
done

# Loss --------------------------------------------------------------------------

for shape in setsid daemon closed deaf-daemon; do
    runs "$shape" -g 0.3
    id=$("$LOCKCTL" list --only id "$object")
    "$LOCKCTL" break "$id" --confirm="$id"
    front_ended "$shape, lock broken" 79
    true_that "$shape, lock broken: the program is gone" is_gone "$child"
    true_that "$shape, lock broken: the leaf is gone" is_gone "$leaf"
    passes "$shape, lock broken"
done
runs daemon -g 0.3
touch "$dir/end"
within 5 is_gone "$child"
id=$("$LOCKCTL" list --only id "$object")
"$LOCKCTL" break "$id" --confirm="$id"
front_ended 'lock broken when only a daemon is left' 79
true_that 'lock broken when only a daemon is left: it is gone' is_gone "$leaf"
passes 'lock broken when only a daemon is left'

# Times, sets, stops --------------------------------------------------------------

runs daemon -t 2
slay "$front"
sleep 2.2
stays 'a ttl is renewed when the front is dead'
touch "$dir/go"
passes 'a ttl is renewed when the front is dead'
runs daemon --heartbeat 0.7
touch "$dir/end"
sleep 2.3 # its ttl is three times that
stays 'a heartbeat, with a daemon left'
touch "$dir/go"
front_ended 'a heartbeat, with a daemon left' 7
passes 'a heartbeat, with a daemon left'
runs daemon -a set/other
slay "$front" "$guardian"
first=$object
object=set/other
stays 'the others of a set'
object=$first
stays 'a set'
touch "$dir/go"
passes 'a set'
object=set/other
passes 'the others of a set'
runs plain
kill -STOP "$guardian"
within 5 is_stopped "$guardian"
slay "$front"
stays 'guardian stopped, front killed'
# (a group that nobody is left to wake is sent HUP and CONT by the kernel, so
# that the guardian may go on by itself, and end the program)
kill -CONT "$guardian"
true_that 'guardian goes on: the program dies' within 5 is_gone "$child"
touch "$dir/go"
passes 'guardian stopped, front killed'
runs plain
kill -STOP "$front"
touch "$dir/go" "$dir/end"
true_that 'front stopped: all goes on' within 10 is_free "$object"
kill -CONT "$front"
front_ended 'front stopped: the status is told later' 7
passes 'front stopped'
runs plain
kill -STOP "$child" "$leaf"
slay "$front"
stays 'the command is stopped, front killed'
kill -CONT "$leaf"
touch "$dir/go"
passes 'the command is stopped, front killed'

# Before there is a program -------------------------------------------------------

take -t none -o A wait/1
object=wait/1
n_case=$((n_case + 1))
start run -w forever wait/1 true
front=$pid
within 5 somebody_waits wait/1
slay "$front"
true_that 'waiting, front killed: nobody waits' within 5 n_wait 0 wait/1
true_that 'waiting, front killed: nothing is left' within 5 nothing_left
start run -w forever wait/1 true
front=$pid
within 5 somebody_waits wait/1
kill -KILL "$("$LOCKCTL" list --waiting --only pid wait/1 | tail -n 1)"
front_ended 'waiting, guardian killed' 125
true_that 'waiting, guardian killed: nobody waits' within 5 n_wait 0 wait/1
"$LOCKCTL" unlock "$id"

# Groups, sessions, terminals -------------------------------------------------------

# A kill of the front's whole group, which has the program as well.
runs_in_group()
{
    set -m
    runs "$@"
    set +m
}
runs_in_group daemon -F
is 'front and program are one group' "$(ps -o pgid= "$front")" \
    "$(ps -o pgid= "$child")"
kill -KILL -"$front"
wait "$front" 2>/dev/null
true_that 'the whole group killed: the program dies' within 5 is_gone "$child"
stays 'the whole group killed'
touch "$dir/go"
passes 'the whole group killed'
runs_in_group plain -F
kill -KILL -"$front"
wait "$front" 2>/dev/null
passes 'the whole group killed, leaf and all'
runs_in_group setsid -F --kill
kill -KILL -"$front"
wait "$front" 2>/dev/null
passes 'the whole group killed, --kill'
runs_in_group plain -F
kill -TERM -"$front"
touch "$dir/go"
front_ended 'TERM to the whole group' 143
passes 'TERM to the whole group'

if has_json_reader && command -v bash >/dev/null; then
    mkdir "$tmp/tty"
    timeout 400 python3 "$top/tests/lockctl/jobs.py" "$LOCKCTL" "$tmp/tty" \
        >"$tmp/out" 2>"$tmp/err" || fail 'a terminal: the tests end'
    n_passed=$((n_passed + $(grep -c '^ok' "$tmp/out")))
    while read -r _ name; do
        fail "a terminal: $name"
    done < <(grep '^FAILED' "$tmp/out")
    is 'a terminal: all were tried' 18 "$(grep -c '^ok\|^FAILED' "$tmp/out")"
    true_that 'a terminal: nothing is left behind' within 10 nothing_left
else
    skip 'a terminal (no python3)'
fi

# A container whose first process takes no notice of its children. There the
# numbers are others, so that processes are found by what they have written.
cat >"$tmp/contained" <<'END'
#!/bin/bash
mount -t proc proc /proc || exit 77
cd "$1" && mkdir c || exit
setsid bash -c '"$0" run box env ENQ_TEST_CASE=box ./tree c daemon &
    echo $! >front; wait' "$2" &
until [ -s c/child ]; do sleep 0.02; done
kill -KILL "$(cat front)"
sleep 0.2
"$2" run -n -q box true; echo "held $?"
touch c/go
"$2" run -w 30 box ./witness box
echo "guardians $("$2" list --only pid box | wc -l)"
kill -KILL 1
END
chmod +x "$tmp/contained"
if [ "$(id -u)" = 0 ] && unshare -pfm true 2>/dev/null; then
    # The first process is no shell: it sleeps, and reaps nobody.
    unshare -pfm --kill-child bash -c '"$0" "$1" "$2" >"$1/box" 2>&1 &
        exec sleep 60' "$tmp/contained" "$tmp" "$LOCKCTL" &
    box=$!
    true_that 'no reaping: the second has had it' within 30 \
        grep -qs guardians "$tmp/box"
    kill -KILL "$(pgrep -P "$box")" 2>/dev/null
    wait "$box" 2>/dev/null
    is 'no reaping: held, then nobody there' 'held 75 0 guardians 0' \
        "$(grep -v Killed "$tmp/box" | paste -sd' ')"
else
    skip 'no reaping (not root, or no namespaces)'
fi

# flock(1) beside it: whatever it keeps, lockctl keeps too ------------------------

for shape in plain setsid daemon closed; do
    runs "$shape"
    mkdir "$tmp/flock-$n_case"
    env ENQ_TEST_CASE=flock flock "$tmp/flock-$n_case/lock" "$tmp/tree" \
        "$tmp/flock-$n_case" "$shape" &
    flocker=$!
    within 10 has_line "$tmp/flock-$n_case/child"
    kill -KILL "$flocker"
    wait "$flocker" 2>/dev/null
    slay "$front"
    kill -KILL "$(cat "$tmp/flock-$n_case/child")"
    if [ "$shape" = closed ]; then # here flock(1) lets go
        true_that 'flock(1) forgets who has closed its descriptor' \
            within 10 flock -n "$tmp/flock-$n_case/lock" true
    else
        flock -n "$tmp/flock-$n_case/lock" true
        is "flock(1) keeps it too: $shape" 1 $?
    fi
    stays "beside flock(1), $shape"
    touch "$dir/go" "$tmp/flock-$n_case/go" "$tmp/flock-$n_case/end"
    passes "beside flock(1), $shape"
done

# Two at a time -------------------------------------------------------------------

# Each command takes the witness at once, or says that somebody else has it; what
# it starts has it too. Meanwhile any of their processes is killed.
cat >"$tmp/worker" <<'END'
#!/bin/bash
exec 9>>"$1/alone"
flock -n 9 || echo overlap >>"$1/overlaps"
echo $$ >>"$1/numbers"
echo . >>"$1/count"
setsid bash -c 'echo $$ >>"$1/numbers"; sleep 0.0$((RANDOM % 5 + 1))' - "$1" &
sleep 0.0$((RANDOM % 5 + 1))
END
chmod +x "$tmp/worker"
touch "$tmp/numbers" "$tmp/count"
contend()
{
    local i

    for i in {1..25}; do
        "$LOCKCTL" run -w 60 rush "$tmp/worker" "$tmp" 2>/dev/null
    done
}
contend & one=$!
contend & two=$!
contend & three=$!
while kill -0 "$one" 2>/dev/null || kill -0 "$two" 2>/dev/null ||
    kill -0 "$three" 2>/dev/null; do
    victim=$({ "$LOCKCTL" list --only pid rush; tail -n 2 "$tmp/numbers"
        pgrep -P "$one,$two,$three"; } 2>/dev/null | shuf -n 1)
    if grep -qsz "$space_name" "/proc/$victim/environ"; then
        kill -KILL "$victim" 2>/dev/null
    fi
    sleep 0.02
done
wait "$one" "$two" "$three" 2>/dev/null
true_that 'many had it' test "$(wc -l <"$tmp/count")" -ge 25
is 'no two at a time' '' "$(cat "$tmp/overlaps" 2>/dev/null)"
object=rush
true_that 'and it is free at the end' within 10 is_free rush
true_that 'and nobody is left' within 10 nothing_left

# Nested --------------------------------------------------------------------------

# nests: the inner lockctl's command is the case's.
nests()
{
    n_case=$((n_case + 1))
    object=inner/$n_case outer=outer/$n_case
    dir=$tmp/case-$n_case
    mkdir "$dir"
    start run "$outer" "$LOCKCTL" run "$object" env \
        ENQ_TEST_CASE="$space_name-$n_case" "$tmp/tree" "$dir" "$1"
    front=$pid
    within 10 has_line "$dir/child"
    leaf=$(cat "$dir/leaf")
    guardian=$("$LOCKCTL" list --only pid "$outer")
    inner=$(ps -o ppid= "$("$LOCKCTL" list --only pid "$object")")
    pids+=("$leaf" "$guardian")
}
nests daemon
slay "$front"
stays 'nested, outer front killed'
object=$outer
stays 'nested, outer front killed: the outer lock'
touch "$dir/go"
passes 'nested, outer front killed'
nests daemon
kill -KILL "${inner// /}"
stays 'nested, inner front killed'
object=$outer
stays 'nested, inner front killed: the outer lock'
touch "$dir/go"
front_ended 'nested, inner front killed' 137
passes 'nested, inner front killed'
nests closed
kill -KILL "$guardian"
front_ended 'nested, outer guardian killed' 125
passes 'nested, outer guardian killed'

# A bridge's locks ------------------------------------------------------------------

bridge=$(dirname "$LOCKCTL")/enq-bridge
if [ -x "$bridge" ]; then
    here=$ENQ_SPACE
    "$bridge" -S "$here" -l "unix:$tmp/socket" -l tcp:127.0.0.1:0 \
        >"$tmp/bridge" 2>&1 &
    bridge_pid=$!
    within 5 grep -q 'bridge: ready' "$tmp/bridge"
    port=$(sed -n 's/.*on tcp:127.0.0.1:\([0-9]*\)$/\1/p' "$tmp/bridge")
    export ENQ_TEST_SPACE=$space_name
    for at in "unix:$tmp/socket" "tcp://127.0.0.1:$port?grace=2000"; do
        export ENQ_SPACE=$at
        by="a bridge by ${at%%:*}"
        for shape in daemon closed; do
            runs "$shape"
            guardian=$(pgrep -P "$front")
            touch "$dir/end"
            within 5 is_gone "$child"
            stays "$by, $shape, the program has ended"
            touch "$dir/go"
            front_ended "$by, $shape, the program has ended" 7
            passes "$by, $shape, the program has ended"
            runs "$shape"
            slay "$front"
            stays "$by, $shape, front killed"
            touch "$dir/go"
            passes "$by, $shape, front killed"
            runs "$shape"
            guardian=$(pgrep -P "$front")
            kill -KILL "$guardian"
            front_ended "$by, $shape, guardian killed" 125
            passes "$by, $shape, guardian killed"
        done
    done
    # both at once: nobody is left to tell the bridge, nor to end the program,
    # and the lock is the session's until its grace is over
    runs plain
    guardian=$(pgrep -P "$front")
    slay "$guardian" "$front"
    stays "$by, both killed"
    exits "$by, both killed: its grace is over" 0 \
        run -w 30 "$object" true
    kill -KILL "$child" "$leaf" 2>/dev/null
    true_that "$by, both killed: nothing is left" within 10 nothing_left
    export ENQ_SPACE=$here
    unset ENQ_TEST_SPACE
    kill "$bridge_pid"
    wait "$bridge_pid" 2>/dev/null
    bridge_pid=
else
    skip 'a bridge (not built)'
fi
finish
