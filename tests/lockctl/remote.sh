#!/usr/bin/env bash
# remote.sh - the same commands through a bridge: by a unix socket, by TCP.
. "$(dirname "$0")/lib.bash"

BRIDGE=${BRIDGE:-$top/build/release/enq-bridge}
local_space=$ENQ_SPACE

bridge_is_ready()
{
    grep -q 'bridge: ready' "$tmp/bridge.err" 2>/dev/null
}

six=()
grep -q '^0\{31\}1 ' /proc/net/if_inet6 2>/dev/null && six=(-l 'tcp:[::1]:0')
"$BRIDGE" -l "unix:$tmp/socket" -l tcp:127.0.0.1:0 "${six[@]}" \
    2>"$tmp/bridge.err" &
bridge=$!
pids+=("$bridge")
true_that 'the bridge is ready' within 10 bridge_is_ready
port_of() # ADDRESS, as the bridge writes it
{
    sed -n "s/.*listening on tcp:$1:\([0-9]*\)\$/\1/p" "$tmp/bridge.err"
}
port=$(port_of 127.0.0.1)
port_six=$(port_of '\[::1\]')
unset ENQ_SPACE

for space in "unix:$tmp/socket" "tcp://127.0.0.1:$port" \
    ${port_six:+"tcp://[::1]:$port_six"}; do
    case $space in
    unix:*) peer="uid$(id -u)" ;;
    *::1*) peer='::1' ;;
    *) peer=127\.0\.0\.1 ;;
    esac
    exits "lock by $space" 0 -S "$space" lock -o A product/Computer
    read -r id token <"$tmp/out"
    exits 'conflict' 75 -S "$space" lock -o B product/Computer
    err_has 'conflict names the holder' 'product/Computer is locked by A \(mode E'
    exits 'who' 75 -S "$space" who product/Computer
    out_has 'who tells the holder' 'A'
    exits 'list' 0 -S "$space" list product
    out_has 'list shows the lock' '^product +Computer +E +A '
    exits 'list of peers' 0 -S "$space" list --only peer product
    out_has 'for whom the bridge holds it' "^$peer\$"
    exits 'renew' 0 -S "$space" renew -t 10m "$id"
    exits 'wrong token' 79 -S "$space" unlock --token 1 "$id"
    exits 'a process of the host sees it' 75 -S "$local_space" \
        lock -o B product/Computer
    exits 'unlock' 0 -S "$space" unlock --token "$token" "$id"
    exits 'unlock, again' 79 -S "$space" unlock "$id"
    exits 'run' 7 -S "$space" run -o A product/Computer -- sh -c \
        "'$LOCKCTL' -S '$local_space' who -q product/Computer
        [ \$? = 75 ] && exit 7"
    exits 'list of programs' 0 -S "$space" run -o A product/Computer -- \
        "$LOCKCTL" -S "$space" list --only command product
    case $space in
    tcp:*) out_has "a pid of the bridge's host is no program of ours" '^-$' ;;
    *) out_has 'the program that holds it is on this host' '^enq-bridge$' ;;
    esac
    exits 'run has given it back' 0 -S "$space" who product/Computer
    exits 'keep' 0 -S "$space" lock --keep -o A product/Screen
    read -r id token <"$tmp/out"
    exits 'list of what is kept' 0 -S "$space" list --only state product
    out_has 'kept without a process' 'orphaned'
    exits 'break' 0 -S "$space" break --confirm="$id" "$id"
    exits 'stats' 0 -S "$space" stats
    exits 'doctor' 0 -S "$space" doctor
    exits 'graph' 0 -S "$space" graph
    ENQ_SPACE=$space exits "ENQ_SPACE=$space counts as well" 0 list
done

# Waiting ---------------------------------------------------------------------

export ENQ_SPACE="unix:$tmp/socket?grace=0"
take -o A -t 30 queue
start lock -o B -w 30 queue
true_that 'the wait is seen' within 5 somebody_waits queue
"$LOCKCTL" unlock "$id"
ended 'granted when it is free' 0
start lock -o C -w 30 queue
true_that 'the next wait is seen' within 5 n_wait 1 queue
kill -KILL "$pid"
true_that 'who is killed waits no more' within 5 n_wait 0 queue

# A bridge that does not answer any more ---------------------------------------

export ENQ_SPACE="unix:$tmp/socket?grace=500"
start run -v suspect -- sleep 1000
true_that 'the program runs' within 10 grep -q 'got suspect' "$tmp/bg.err"
kill -STOP "$bridge"
ended 'a program whose lock may be another'\''s is ended' 79
err_has 'and why' "lost suspect: .*has not answered .*another may have the lock; ending sleep"
kill -CONT "$bridge"
start run -v -t 60 hiccup -- sleep 1
true_that 'the next program runs' within 10 grep -q 'got hiccup' "$tmp/bg.err"
for _ in 1 2 3; do
    kill -STOP "$bridge"
    kill -CONT "$bridge"
done
ended 'one whose bridge has stood still for a moment is not' 0

# What cannot be --------------------------------------------------------------

exits 'nobody listens' 69 -S unix:/nowhere/at/all list
err_has 'the address is named' 'unix:/nowhere/at/all'
kill -TERM "$bridge"
wait "$bridge"
exits 'no bridge any more' 69 -S "tcp://127.0.0.1:$port" list
err_has 'why not' 'refused'
exits 'no such address' 64 -S 'tcp://' list
exits 'no encryption' 64 -S 'tls://host' list
finish
