#!/bin/sh
# The instruction budget of the hot paths: what one pair, one refusal, ... of
# the optimised library may cost, as callgrind counts it. A count is the same
# on a noisy machine, where a time is not: (instructions of a run with many
# operations - those of one with few) / the operations between, so that
# start-up and end cancel out. What is added by chance does not, so that each is
# the least of a few: a helper's tick is rare, but of the eight keys of a set two
# share a shard in some 40 % of the runs, and then the set costs a fifth more.
# The limits stand in the file budget.
# usage: instructions.sh [enq-bench [budget]]
set -u
here=$(cd "$(dirname "$0")" && pwd)
bench=${1:-${BUILD:-$here/../../build}/release/enq-bench}
budget=${2:-$here/budget}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
. "$here/../lib/tally.bash"
few='' many='' # enough for a helper thread's tick not to show
plays=''       # enough for the dear ones not to be all

# The total of one whole run, on standard output.
total() { # scenario, operations
    valgrind --tool=callgrind --callgrind-out-file=/dev/null \
        "$bench" --scenario "$1" --pairs "$2" >"$tmp/out.$2" 2>"$tmp/err.$2" ||
        return 1
    awk '/ Collected : / { n = $NF } END { print n; exit n == "" }' \
        "$tmp/err.$2"
}

# A set is eight locks: an eighth of them is as long a run.
choose_counts() { # scenario
    few=10000 many=110000 plays=3
    case $1 in set*) few=1250 many=13750 plays=9 ;; esac
}

totals() { # scenario, operations
    play=0
    while [ $((play += 1)) -le $plays ]; do
        total "$1" "$2" || return 1
    done
}

# Instructions of one operation, with one decimal, on standard output.
measure() { # scenario
    choose_counts "$1"
    totals "$1" $few >"$tmp/few" &
    totals "$1" $many >"$tmp/many" || { wait; return 1; }
    wait $! || return 1
    sort -n "$tmp/few" | head -n 1 >"$tmp/least"
    sort -n "$tmp/many" | head -n 1 >>"$tmp/least"
    awk -v operations=$((many - few)) '
        NR == 1 { few = $1 }
        NR == 2 { printf "%.1f\n", ($1 - few) / operations }' "$tmp/least"
}

verdict() { # figure, limit
    awk -v figure="$1" -v limit="$2" 'BEGIN {
        if (figure <= 0) print "none"
        else if (limit + 0 <= 0) print "bad"
        else if (figure > limit) print "over"
        else if (figure < limit * 0.9) print "far"
        else print "well"
    }'
}

check() { # scenario, limit, date
    if ! figure=$(measure "$1"); then
        fail "$1: no count: $(sed '/^==/d' "$tmp"/err.* | head -n 1)"
        return
    fi
    next=$(awk -v figure="$figure" 'BEGIN { print int(figure * 1.03 + 1) }')
    case $(verdict "$figure" "$2") in
    none) fail "$1: $figure instructions: nothing was measured" ;;
    over) fail "$1: $figure instructions, over the budget of $2 ($3)" ;;
    far) pass "$1: $figure instructions, budget $2 ($3): lower it to $next" ;;
    well) pass "$1: $figure instructions, budget $2 ($3)" ;;
    *) fail "$1: the budget \"$2\" is not a number" ;;
    esac
}

check_all() {
    while read -r name limit date; do
        case $name in '' | '#'*) continue ;; esac
        check "$name" "$limit" "$date" </dev/null
    done <"$budget"
    [ $((passed + failed)) -gt 0 ] || fail "$budget names no scenario"
}

# What this file is for: it must refuse what costs too much.
refuses_too_much() {
    echo 'pair 1 never' >"$tmp/budget"
    if "$0" "$bench" "$tmp/budget" >"$tmp/self"; then
        fail "a pair passes with a budget of 1 instruction"
    elif grep -q 'over the budget of 1 ' "$tmp/self"; then
        pass "a budget of 1 instruction is refused"
    else
        fail "a budget of 1 instruction: $(head -n 1 "$tmp/self")"
    fi
}

if [ ! -x "$bench" ]; then
    fail "$bench is missing: make builds it"
elif ! command -v valgrind >/dev/null 2>&1; then
    skip "instruction counts: no valgrind (apt-get install valgrind)"
else
    check_all
    [ $# -ge 2 ] || refuses_too_much
fi
sum_up perf-instructions
