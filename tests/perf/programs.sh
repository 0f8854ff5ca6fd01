#!/bin/sh
# enq-bench and enq-demo as programs: they say what is wrong with a command
# line, their output has its form, and nothing of them is left in /dev/shm,
# whatever they die of.
# usage: programs.sh [directory of enq-bench, enq-demo and lockctl]
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=${1:-${BUILD:-$here/../../build}/release}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); echo "ok      $1"; }
fail() { failed=$((failed + 1)); echo "FAILED  $1"; }
verdict() { # name, 0 if well
    if [ "$2" -eq 0 ]; then
        pass "$1"
    else
        fail "$1: $(tail -qn 3 "$tmp/out" "$tmp/err")"
    fi
}

# Of one run, by its process: the space it made, and what goes with it.
left_by() { # program, pid
    find /dev/shm -name "*$1-$2*" | grep .
}

refuses() { # program, words that the message has to hold, arguments...
    program=$1 words=$2
    shift 2
    "$bin/$program" "$@" >"$tmp/out" 2>"$tmp/err"
    rc=$?
    grep -q -e "$words" "$tmp/err" && [ $rc -eq 64 ] && [ ! -s "$tmp/out" ]
    verdict "$program $* is refused with 64" $?
}

# Started with the default action of ^C, which sh takes from its background.
start() { # program, arguments...
    program=$1
    shift
    env --default-signal=INT "$bin/$program" "$@" >"$tmp/out" 2>"$tmp/err" &
    pid=$!
}

await() { # command...: until it succeeds, 10 s at most
    n=0
    until "$@" >/dev/null 2>&1; do
        n=$((n + 1))
        [ $n -lt 500 ] || return 1
        sleep 0.02
    done
}

ends_without_trace() { # program, signal, wanted exit, arguments...
    program=$1 sig=$2 want=$3
    shift 3
    start "$program" "$@"
    await left_by "$program" $pid
    kill -"$sig" $pid
    wait $pid 2>/dev/null
    rc=$?
    [ $rc -eq "$want" ] && await gone "$program" $pid
    verdict "$program ends by SIG$sig with $want and leaves nothing" $?
}

gone() { ! left_by "$1" "$2"; }

bench_runs() {
    start enq-bench --json --rounds 1 --seconds 0.02 --procs 1,2,16 --held 1000
    wait $pid
    verdict "enq-bench measures every scenario" $?
    bad=$(grep -cv '^{"bench":"[a-z]*",.*}$' "$tmp/out")
    verdict "each line of --json is an object" "$bad"
    rows=$(grep -c '"subject":"enq"' "$tmp/out")
    [ "$rows" -eq 15 ]
    verdict "enq has a line in each of 15 trials ($rows)" $?
    gone enq-bench $pid
    verdict "enq-bench leaves nothing" $?
}

demo_runs() {
    start enq-demo --seconds 0.5
    wait $pid
    verdict "enq-demo: every invariant holds" $?
    grep -q 'The product Computer is now locked by A' "$tmp/out"
    verdict "enq-demo: B is told that A holds it" $?
    grep -q 'has the lock .* after the kill' "$tmp/out"
    verdict "enq-demo: a waiter gets the lock of the killed" $?
    gone enq-demo $pid
    verdict "enq-demo leaves nothing" $?
}

for program in enq-bench enq-demo lockctl; do
    if [ ! -x "$bin/$program" ]; then
        fail "$bin/$program is missing: make builds it"
        echo "perf-programs: $passed passed, $failed failed, $skipped skipped"
        exit 1
    fi
done
refuses enq-bench 'rounds.*from 1 to 99' --rounds 0
refuses enq-bench 'procs.*from 1 to 64' --procs 1,65
refuses enq-bench 'held.*list' --held 10,,20
refuses enq-bench 'seconds.*0.01 to 60' --seconds nan
refuses enq-bench 'scenario.*--list' --scenario nonesuch
refuses enq-bench 'unrecognized' --nonesuch
refuses enq-bench 'options only' extra
refuses enq-demo 'workers.*2 to 16' --workers 17
refuses enq-demo 'seconds.*0.2 to 600' --seconds 1x
refuses enq-demo 'lockctl.*not a program' --lockctl "$tmp/nonesuch"
refuses enq-demo 'unrecognized' --nonesuch
bench_runs
demo_runs
ends_without_trace enq-bench INT 130 --scenario one --seconds 5
ends_without_trace enq-bench TERM 143 --scenario one --seconds 5
ends_without_trace enq-demo INT 130
ends_without_trace enq-demo TERM 143
ends_without_trace enq-demo KILL 137
echo "perf-programs: $passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
