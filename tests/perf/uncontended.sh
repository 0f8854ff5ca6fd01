#!/bin/sh
# The uncontended pair makes no system call and allocates nothing: a thousand
# pairs and a million look the same to strace and to a counting allocator.
# usage: uncontended.sh [enq-bench]
set -u
here=$(cd "$(dirname "$0")" && pwd)
bench=${1:-${BUILD:-$here/../../build}/release/enq-bench}
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
. "$here/../lib/tally.bash"
few=1000 many=1000000


expect() { # name, wanted, got
    if [ "$2" = "$3" ]; then pass "$1 ($3)"; else fail "$1: $3, not $2"; fi
}

# Of a trace, what stands between the two lines of output: "main" the calls of
# the thread that makes the pairs, "others" those of the rest.
between() { # log, main|others
    awk -v want="$2" '
        / resumed>/ { next }
        NR == 1 { main = $1 }
        $1 == main && /write\(1, "warm/ { inside = 1; next }
        $1 == main && /write\(1, "/ { inside = 0 }
        inside && (($1 == main) == (want == "main")) { n++ }
        END { print n + 0 }' "$1"
}

calls_of_main() { # log
    awk '/ resumed>/ { next } NR == 1 { main = $1 } $1 == main { n++ }
        END { print n + 0 }' "$1"
}

trace() { # pairs, log
    strace -f -qq -o "$2" "$bench" --pairs "$1" >"$tmp/out" 2>"$tmp/err"
}

syscalls() {
    if ! command -v strace >/dev/null 2>&1; then
        skip "system calls of the pair: no strace (apt-get install strace)"
        return
    fi
    if ! strace -qq -o /dev/null true 2>"$tmp/err"; then
        skip "system calls of the pair: $(head -n 1 "$tmp/err")"
        return
    fi
    if ! trace $few "$tmp/few" || ! trace $many "$tmp/many"; then
        fail "traced run of enq-bench: $(cat "$tmp/err")"
        return
    fi
    before=$(calls_of_main "$tmp/many")
    if [ "$before" -gt 20 ]; then
        pass "the trace sees the set-up ($before calls)"
    else
        fail "the trace sees only $before calls of the whole run"
    fi
    expect "system calls of $few pairs" 0 "$(between "$tmp/few" main)"
    expect "system calls of $many pairs" 0 "$(between "$tmp/many" main)"
    others=$(between "$tmp/many" others)
    if [ "$others" -le 20 ]; then # it may tick, but not once for each pair
        pass "system calls of the other threads meanwhile ($others)"
    else
        fail "the other threads made $others system calls meanwhile"
    fi
}

allocations() { # pairs
    rm -f "$tmp/count"
    MALLOC_COUNT=$tmp/count LD_PRELOAD=$tmp/malloc_count.so \
        "$bench" --pairs "$1" >/dev/null 2>"$tmp/err" || return 1
    cat "$tmp/count"
}

mallocs() {
    if ! ${CC:-cc} -O1 -fPIC -shared -fno-builtin -o "$tmp/malloc_count.so" \
        "$here/malloc_count.c" 2>"$tmp/err"; then
        fail "malloc_count.c does not compile: $(head -n 3 "$tmp/err")"
        return
    fi
    if ! a=$(allocations $few) || ! b=$(allocations $many); then
        fail "counted run of enq-bench: $(cat "$tmp/err")"
        return
    fi
    if [ "$a" -gt 0 ]; then
        pass "the counter sees the set-up ($a allocations)"
    else
        fail "the counter sees no allocation at all"
    fi
    expect "allocations with $many pairs as with $few" "$a" "$b"
}

if [ -x "$bench" ]; then
    syscalls
    mallocs
else
    fail "$bench is missing: make builds it"
fi
sum_up perf-uncontended
