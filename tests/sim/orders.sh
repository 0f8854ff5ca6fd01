#!/bin/bash
# orders.sh - takes the order away from one access to memory at a time, in the
# library's own code as the simulation runs it, and looks whether any schedule
# notices. What must be noticed is in tests/sim/orders, a line each:
#
#	FILE | FUNCTION | KIND | TEXT
#
# where the first line of FUNCTION with TEXT is meant; and KIND is the kind of
# schedules that shows it, as sim-run's --kind takes it.
#
# usage: tests/sim/orders.sh          what must be noticed is noticed
#        tests/sim/orders.sh --all    tries all there are, and tells of each
#
# A release store may then be seen before all that was stored before it, and so
# may an access that reads and writes in one; what comes after such a one, or
# after a load that acquires, may have been loaded before it; a fence does
# nothing. (weaken.c)
#
# Of an order that has a second barrier beside it (the word's own, the kernel's
# at a sleep or a death) nothing shows here.
set -u
cd "$(dirname "$0")/../.." || exit 1
sim=${BUILD:-build}/sim/sim-run
seconds=${SECONDS_EACH:-20} plays=3
passed=0 failed=0

# PLACE FILE LINE of each call that makes an atomic access; PLACE is
# the instruction behind it, as its return address is.
places() {
    local calls
    calls=$(objdump -d --no-show-raw-insn "$sim" | awk '
        behind { print call, substr($1, 1, length($1) - 1); behind = 0 }
        $2 == "call" && /<__tsan_atomic/ {
            call = substr($1, 1, length($1) - 1); behind = 1 }')
    paste -d ' ' <(awk '{ print $2 }' <<<"$calls") \
        <(awk '{ print $1 }' <<<"$calls" | addr2line -e "$sim" |
            sed -n 's:^.*/\(src/.*\)\:\([0-9]*\).*$:\1 \2:p; t
                s/.*/- 0/p')
}

# try PLACES KIND FIRST - true: it is noticed
try() {
    local options=() place
    for place in $1; do options+=(--weaken "$place"); done
    [ -z "$2" ] || options+=(--kind "$2")
    "$sim" --plain --first "$3" --seconds "$seconds" "${options[@]}" |
        grep -q '^FAIL'
}

# line_of FILE FUNCTION TEXT
line_of() {
    awk -v function_="$2(" -v text="$3" '
        /^[a-zA-Z]/ { inside = index($0, function_) > 0 }
        inside && index($0, text) > 0 { print NR; exit }' "$1"
}

# must_be_noticed FILE FUNCTION KIND TEXT
must_be_noticed() {
    local line at play out
    line=$(line_of "$1" "$2" "$4")
    at=$(awk -v file="$1" -v line="$line" '$2 == file && $3 == line {
        print $1 }' <<<"$all")
    if [ -z "$line" ] || [ -z "$at" ]; then
        out='is in no line of it that is run'
    else
        for ((play = 1; play <= plays; play++)); do
            if out=$(try "$at" "$3" $((play * 1000000))); then
                passed=$((passed + 1))
                echo "ok   $1:$line $2: $4"
                return
            fi
        done
        out='is noticed by no schedule'
    fi
    failed=$((failed + 1))
    echo "FAIL $1: $2: \"$4\" $out"
}

tell_all() {
    local file line at
    awk '{ print $2, $3 }' <<<"$all" | sort -u -k 1,1 -k 2,2n |
        while read -r file line; do
            [ "$file" != - ] || continue
            at=$(awk -v f="$file" -v l="$line" '$2 == f && $3 == l {
                print $1 }' <<<"$all")
            if try "$at" '' 1 >/dev/null; then printf 'noticed '
            else printf -- '-       '; fi
            printf '%s:%s %s\n' "$file" "$line" "$(sed -n "$line{s/^ *//;p}" \
                "$file")"
        done
}

all=$(places)
if [ "${1-}" = --all ]; then
    tell_all
    exit
fi
while IFS='|' read -r file function kind text; do
    case $file in '' | '#'*) continue ;; esac
    read -r file <<<"$file"
    read -r function <<<"$function"
    read -r kind <<<"$kind"
    read -r text <<<"$text"
    must_be_noticed "$file" "$function" "$kind" "$text"
done <tests/sim/orders
echo "figure sim-orders $passed"
echo "orders: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
