#!/bin/bash
# fuzz.sh - runs the fuzz targets, each for a fixed number of executions, from
# the corpus that is kept; counts them. What is found is a failure, and its
# input is kept in $BUILD/fuzz/.
#
# usage: tests/fuzz/fuzz.sh [--seed N] [--count N] [--seconds S] [--keep DIR]
#                           [TARGET...]
#   --seed     of the first part; printed, and replays
#   --count    so many executions of each part instead of its number (or of
#              ENQ_TEST_PERCENT of it)
#   --seconds  each target for so long, instead of its number (soak)
#   --keep     new inputs that reach something new are written there
#
# An input is replayed by: $BUILD/fuzz/TARGET FILE
set -u
cd "$(dirname "$0")/../.." || exit 1
. tests/lib/percent.bash
build=${BUILD:-build}
build=${build#"$PWD"/} # as make names it
seed=$((RANDOM * 32768 + RANDOM + 1))
seconds=0
count=
keep=
while [ $# -gt 0 ]; do
    case $1 in
    --seed) seed=$2 ;;
    --count) count=$2 ;;
    --seconds) seconds=$2 ;;
    --keep) keep=$2 ;;
    -*) echo "unknown option $1" && exit 2 ;;
    *) break ;;
    esac
    shift 2
done

# target, executions of a part, parts, options: the deep ones get most of the
# time. In all a little more than tests/figures asks for. With thousands of
# features, libFuzzer's books of how rare each is take half of the time; runs of
# this length reach as much without them.
parts='
hostile 41000 2 -entropic=0
look 29000 2 -entropic=0
history 42000 1 -entropic=0
attach 52000 1
texts 4700000 1
scan 2650000 2
json 560000 1
'
targets='attach look hostile history texts scan json'
for t; do
    case " $targets " in *" $t "*) ;; *) echo "no target $t" && exit 2 ;; esac
done
targets=${*:-$targets}

make -s BUILD="$build" "$build/fuzz/fuzz" "$build/fuzz/wire-fuzz" || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
for t in $targets; do
    case $t in
    scan | json) ln -sf wire-fuzz "$build/fuzz/$t" ;;
    *) ln -sf fuzz "$build/fuzz/$t" ;;
    esac
done
echo "seed $seed"

export ASAN_OPTIONS=malloc_context_size=0:quarantine_size_mb=4
export ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=1
export UBSAN_OPTIONS=print_stacktrace=1

# part TARGET RUNS SEED [OPTION] - its log says how many executions there were.
part() {
    local new=${keep:-$tmp}/$1 limit=(-runs="$2" ${4:+"$4"})
    [ "$seconds" = 0 ] || limit=(-max_total_time="$seconds")
    mkdir -p "$new"
    "$build/fuzz/$1" "${limit[@]}" -seed="$3" -max_len=200 -timeout=300 -reload=0 \
        -rss_limit_mb=1024 -print_final_stats=1 -verbosity=0 \
        -artifact_prefix="$build/fuzz/$1-$3-" "$new" "tests/fuzz/corpus/$1" \
        >"$tmp/$1-$3.log" 2>&1 &
    local pid=$!
    wait "$pid"
    echo $? >"$tmp/$1-$3.status"
    rm -f "/dev/shm/enq-${ENQ_TEST_MARK-}fuzz-attach-$pid" # of one that crashed
}
export -f part
export build tmp seconds keep

echo "$parts" | while read -r t runs n option; do
    case " $targets " in *" ${t:-no} "*) ;; *) continue ;; esac
    [ "$seconds" = 0 ] || n=1
    percent "$runs"
    for i in $(seq "$n"); do
        echo "$t ${count:-$counted} $((seed + i))${option:+ $option}"
    done
done | xargs -P "$(nproc)" -L 1 bash -c 'part "$@"' part

passed=0 failed=0 all=0
for t in $targets; do
    sum=0 bad=0
    for log in "$tmp/$t"-*.log; do
        n=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
        sum=$((sum + ${n:-0}))
        if [ "$(cat "${log%.log}.status")" != 0 ] || [ -z "$n" ]; then
            bad=1
            grep -vE '^#[0-9]+[[:space:]]' "$log" | head -n 60
        fi
    done
    passed=$((passed + 1 - bad)) failed=$((failed + bad))
    all=$((all + sum))
    echo "figure fuzz-$t $sum"
done
echo "figure fuzz-execs $all"
echo "fuzz: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
