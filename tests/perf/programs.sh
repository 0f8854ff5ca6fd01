#!/bin/sh
# enq-bench and enq-demo as programs: they say what is wrong with a command
# line, their output has its form, and nothing of them is left in /dev/shm,
# whatever they die of.
# usage: programs.sh [directory of enq-bench, enq-demo and lockctl]
set -u
here=$(cd "$(dirname "$0")" && pwd)
bin=$(realpath "${1:-${BUILD:-$here/../../build}/release}") || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
. "$here/../lib/tally.bash"

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
    start enq-bench --json --rounds 1 --seconds 0.01 --procs 1,2,16 \
        --held 1000 --count 10 --plot "$tmp/run.svg" --readme "$tmp/run.md"
    wait $pid
    verdict "enq-bench measures every scenario" $?
    python3 -c 'import json, sys; [json.loads(l) for l in sys.stdin]' \
        <"$tmp/out" 2>"$tmp/err"
    verdict "each line of --json is an object" $?
    rows=$(grep -c '"subject":"enq",' "$tmp/out")
    [ "$rows" -eq 67 ]
    verdict "enq has a line in each of 67 trials and scales ($rows)" $?
    "$bin/enq-bench" --list | sed '/^$/,$d; s/ .*//' >"$tmp/names"
    while read -r name; do
        grep -q "\"subject\":\"enq\",\"scenario\":\"$name\"" "$tmp/out"
        verdict "scenario $name has its line" $?
    done <"$tmp/names"
    grep -q '"subject":"robust-mutex"' "$tmp/out" &&
        grep -q '"times":{.*"robust-mutex":' "$tmp/out"
    verdict "the floor is measured in the same run, with the ratio to it" $?
    grep -q '"subject":"enqueue-server".*"claimed":true' "$tmp/out"
    verdict "a claim is shown as one" $?
    grep -q '"bench":"goal","scenario":"pair".*"met":' "$tmp/out"
    verdict "the goals are judged" $?
    python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' \
        "$tmp/run.svg" 2>"$tmp/err" && grep -q '<polyline' "$tmp/run.svg"
    verdict "--plot writes an SVG with bars and curves" $?
    grep -q '^| 1 process, one key.*ns' "$tmp/run.md"
    verdict "--readme writes a table" $?
    gone enq-bench $pid
    verdict "enq-bench leaves nothing" $?
}

# Without a PATH there is no redis-server, whatever it was built with.
bench_misses() {
    env PATH="$tmp" "$bin/enq-bench" --scenario pair --rounds 1 \
        --seconds 0.01 --save "$tmp/saved" >"$tmp/out" 2>"$tmp/err"
    verdict "enq-bench runs without a peer" $?
    [ "$(grep -c '^skipped redis: ' "$tmp/out")" -eq 1 ] &&
        [ "$(grep -c '"bench":"skipped","subject":"redis"' "$tmp/saved")" = 1 ]
    verdict "a peer that is missing is named once, in table and --save" $?
    grep -q 'goals met$' "$tmp/out"
    verdict "the table ends with the goals" $?
    env PATH="$tmp" "$bin/enq-bench" --scenario remote-npm --rounds 1 \
        --seconds 0.01 --save "$tmp/saved" >"$tmp/out" 2>"$tmp/err" &&
        grep -q 'enq .* not measured: node is not installed' "$tmp/out" &&
        grep -q '"bench":"declined","subject":"enq","scenario":"remote-npm"' \
            "$tmp/saved"
    verdict "without node its row says that it was not measured, and why" $?
    "$bin/enq-bench" --scenario pair --rounds 1 --seconds 0.01 \
        --save "$tmp/no/such" >"$tmp/out" 2>"$tmp/err"
    [ $? -eq 1 ] && grep -q 'no/such: No such file' "$tmp/err"
    verdict "--save says why it cannot write" $?
    "$bin/enq-bench" --pairs 1000 --scenario busy >"$tmp/out" 2>"$tmp/err" &&
        grep -q '^1000 pairs' "$tmp/out"
    verdict "--pairs makes the operations of a scenario" $?
}

# A tree of its own, in which a stand-in for enq-bench writes its files.
tree_make() {
    mkdir -p "$tmp/tree/bench/results" "$tmp/tree/build/release" &&
        cp "$here/../../bench/run" "$here/../../bench/compare" \
            "$tmp/tree/bench/" && cd "$tmp/tree" || return 1
    printf '%s\n' above '<!-- bench:begin -->' old '<!-- bench:end -->' below \
        >bench/RESULTS.md
    printf '%s\n' above '<!-- compare:begin -->' old '<!-- compare:end -->' \
        below >README.md
    echo build >.gitignore
    touch bench/results/keep
    cat >build/release/enq-bench <<'END'
#!/bin/sh
cat build/figures >"$2"
echo svg >"$4"
echo new >"$6"
END
    chmod +x build/release/enq-bench
    echo '{"bench":"pair"}' >build/figures
    git init -q . && git add -A &&
        git -c user.name=n -c user.email=e commit -q -m tree
}

tree_bench() {
    BUILD=build bench/run "$@" >"$tmp/out" 2>"$tmp/err"
}

bench_keeps() {
    tree_make >"$tmp/out" 2>"$tmp/err"
    verdict "a tree to keep figures in" $?
    echo '{"bench":"skipped","subject":"bdb"}' >build/figures
    tree_bench && grep -q 'peers are missing' "$tmp/out" &&
        [ -z "$(git status --porcelain)" ]
    verdict "make bench keeps nothing when peers are missing" $?
    echo '{"bench":"pair"}' >build/figures
    touch stranger
    tree_bench && grep -q 'the tree has changes' "$tmp/out" &&
        grep -q '^old$' README.md && grep -q '^old$' bench/RESULTS.md &&
        [ -e build/bench/run.json ]
    verdict "make bench keeps nothing of a tree with changes" $?
    rm stranger
    echo '{"bench":"pair","subject":"enq","scenario":"pair","ns_per_pair":61.88}' \
        >build/figures
    tree_bench && grep -q '^new$' bench/RESULTS.md &&
        grep -q 'libenq.* | 61\.9 ns | not measured |' README.md &&
        ! grep -q '^old$' README.md bench/RESULTS.md &&
        [ "$(grep -c -e '^above$' -e '^below$' README.md)" -eq 2 ] &&
        [ "$(grep -c -e '^above$' -e '^below$' bench/RESULTS.md)" -eq 2 ] &&
        [ -n "$(find bench/results -name "*-$(git rev-parse --short HEAD).svg")" ]
    verdict "make bench writes results and both tables of a clean tree" $?
    git checkout -q . && git clean -qfd
    echo above >README.md && git add README.md &&
        git -c user.name=n -c user.email=e commit -q -m 'no marks'
    tree_bench
    [ $? -ne 0 ] && [ "$(cat README.md)" = above ]
    verdict "make bench fails where a table has lost its marks" $?
    cd "$here" || exit 1
}

# The clients of a bridge, and the bridge itself, are processes of the run.
bridge_rows() {
    start enq-bench --json --rounds 1 --seconds 0.05 --count 4 \
        --scenario remote --scenario remote-deep --scenario remote-session \
        --scenario remote-unix --scenario remote-client
    wait $pid
    verdict "enq-bench measures a bridge of its own" $?
    [ "$(grep -c '"subject":"enq".*"connections":4,"depth":1,"transport":"tcp",.*"pairs_per_s":[1-9].*"p99_ns"' \
        "$tmp/out")" -eq 1 ] &&
        [ "$(grep -c '"subject":"enq".*"depth":1,"transport":"unix",.*"pairs_per_s":[1-9]' \
            "$tmp/out")" -eq 1 ] &&
        [ "$(grep -c '"subject":"enq".*"connections":4,"depth":16,.*"server_cpu_ns_per_pair":[1-9]' \
            "$tmp/out")" -eq 2 ]
    verdict "with connections, depth, times and what a pair costs it" $?
    gone enq-bench $pid && ! pgrep -f "space shm:enq-bench-$pid " >/dev/null
    verdict "its bridge goes with it" $?
    [ ! -e "/tmp/enq-bench-$pid.socket" ]
    verdict "and so does its socket" $?
    start enq-bench --scenario remote --subject enq --seconds 5
    await pgrep -f "space shm:enq-bench-$pid "
    kill -KILL $pid
    wait $pid 2>/dev/null
    await no_bridge $pid
    verdict "also when it is killed" $?
    rm -f "/dev/shm/enq-bench-$pid" "/tmp/enq-bench-$pid.socket"
}

# Each has an owner of its own, and looks for cycles when it begins to wait: a
# look at what was, and is not any more, once took the square of the queue. The
# bound is five times what it takes beside other suites.
long_queue() {
    start enq-bench --json --rounds 1 --seconds 0.2 --subject enq \
        --scenario scale-waiters --count 600
    wait $pid
    verdict "600 wait for one lock" $?
    ns=$(sed -n 's/.*"waiters":600.*"ns_per_handover":\([0-9]*\).*/\1/p' "$tmp/out")
    [ -n "$ns" ] && [ "$ns" -lt 5000000 ]
    verdict "and it goes from one to the next within 5 ms (${ns:-none} ns)" $?
}

# A server of a peer, in a directory of its own, which it writes into.
peer_server() { # subject, the name of its directory, its program
    if "$bin/enq-bench" --list | grep -q "^$1 .*not installed"; then
        skip "a queue of $1: not installed (make bench-peers)"
        return
    fi
    start enq-bench --json --rounds 1 --seconds 0.05 --subject "$1" \
        --scenario scale-waiters --count 4
    wait $pid
    grep -q "\"subject\":\"$1\".*\"waiters\":4.*\"ns_per_handover\":[1-9]" \
        "$tmp/out"
    verdict "$1 hands a lock from one to the next of 4 that wait" $?
    start enq-bench --scenario scale-waiters --subject "$1" --count 4 --seconds 9
    await pgrep -f "^$3.*enq-bench-$pid-$2-"
    kill -KILL $pid
    wait $pid 2>/dev/null
    await no_trace_of "$pid-$2"
    verdict "its server and its directory go also when we are killed" $?
}

no_trace_of() {
    ! pgrep -f "enq-bench-$1-" >/dev/null &&
        [ -z "$(find /tmp -maxdepth 1 -name "enq-bench-$1-*")" ]
}

# The exponent is 0 where nothing grows, and 1 where all of it does.
growth() {
    start enq-bench --growth --json --rounds 1 --seconds 0.01 --subject enq \
        --procs 2,8 --held 1000 --count 10
    wait $pid
    sed -n 's/.*"scenario":"\([a-z-]*\)","procs".*/\1/p' "$tmp/out" | sort -u \
        >"$tmp/measured"
    "$bin/enq-bench" --list | sed -n 's/^\(scale-[a-z-]*\) .*/\1/p' | sort |
        cmp -s - "$tmp/measured"
    verdict "--growth measures the scales, all and no others" $?
    start enq-bench --json --rounds 5 --seconds 0.05 --subject enq \
        --scenario scale-holders --scenario scale-wide --held 1000,100000
    wait $pid
    verdict "two scales are measured" $?
    python3 - "$tmp/out" <<'END'
import json, sys
rows = [json.loads(line) for line in open(sys.argv[1])]
grow = {r['scenario']: r['exponent'] for r in rows if r['bench'] == 'growth'}
sys.exit(not (sorted(grow) == ['scale-holders', 'scale-wide'] and
              grow['scale-holders'] < 0.5 < grow['scale-wide']))
END
    verdict "an S pair grows with no holders, an '@' lock with its name" $?
}

# Each of so many waits for its turn on a processor, also to die: they are killed
# together, and not each when the one before is dead. The calls of the parent
# show it; it is slow to fork, so that the signal comes in between.
traced() { # US that each fork takes, the call after which the signal comes
    : >"$tmp/calls"
    env --default-signal=INT strace -D -qq -e signal=none -o "$tmp/calls" \
        -e trace=kill,wait4,clock_nanosleep,clone \
        -e "inject=clone:delay_exit=$1" \
        "$bin/enq-bench" --scenario scale-procs --procs 100 --subject enq \
        --rounds 1 --seconds 60 >"$tmp/out" 2>"$tmp/err" &
    pid=$!
    await grep -q "$2" "$tmp/calls"
    kill -INT $pid
    wait $pid
    [ $? -eq 130 ] && gone enq-bench $pid
}

crowd() {
    if ! strace -qq -o /dev/null true 2>/dev/null; then
        skip "a crowd that is interrupted: no strace (apt-get install strace)"
        return
    fi
    traced 1 clock_nanosleep
    verdict "SIGINT ends 100 processes in the middle of a round" $?
    awk '/^kill/ { kills++; late += dead > 0 }
        /^wait4.*WIFSIGNALED.* = [1-9]/ { dead++ }
        END { exit !(kills == 100 && dead == 100 && late == 0) }' "$tmp/calls"
    verdict "all are killed before one is waited for" $?
    traced 20000 '^clone('
    verdict "SIGINT ends them while they are started" $?
    [ "$(grep -c '^clone(' "$tmp/calls")" -lt 100 ]
    verdict "and no more are started then" $?
}

no_bridge() { ! pgrep -f "space shm:enq-bench-$1 "; }

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
        sum_up perf-programs
        exit 1
    fi
done
refuses enq-bench 'rounds.*from 1 to 99' --rounds 0
refuses enq-bench 'procs.*from 1 to 2048' --procs 1,2049
refuses enq-bench 'held.*list' --held 10,,20
refuses enq-bench 'seconds.*0.01 to 60' --seconds nan
refuses enq-bench 'waits.*from 10 to' --mixed --waits 9
refuses enq-bench 'scenario.*--list' --scenario nonesuch
refuses enq-bench 'subject.*--list' --subject nonesuch
refuses enq-bench 'count.*list' --count 100001
refuses enq-bench 'plot.*svg' --plot picture.png
refuses enq-bench 'scenario.*alone' --pairs 5 --scenario pair --scenario busy
refuses enq-bench 'scenario.*alone' --pairs 5 --scenario list
refuses enq-bench 'unrecognized' --nonesuch
refuses enq-bench 'options only' extra
refuses enq-demo 'workers.*2 to 16' --workers 17
refuses enq-demo 'seconds.*0.2 to 600' --seconds 1x
refuses enq-demo 'lockctl.*not a program' --lockctl "$tmp/nonesuch"
refuses enq-demo 'unrecognized' --nonesuch
bench_runs
bench_misses
bridge_rows
long_queue
peer_server redis redis redis-server
peer_server postgresql pg postgres
growth
bench_keeps
demo_runs
crowd
ends_without_trace enq-bench INT 130 --scenario one --seconds 5
ends_without_trace enq-bench TERM 143 --scenario one --seconds 5
ends_without_trace enq-demo INT 130
ends_without_trace enq-demo TERM 143
ends_without_trace enq-demo KILL 137
sum_up perf-programs
