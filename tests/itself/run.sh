#!/bin/bash
# run.sh - tests/run itself: what it must see, and what is none of its
# business. It is played on a tree of its own, with suites made for it.
set -u
cd "$(dirname "$0")/../.." || exit 1
tmp=$(mktemp -d) || exit 1
others=/dev/shm/enq-itself-of-another-$$
trap 'rm -rf "$tmp" "$others" "$others-b"' EXIT
trap 'exit 1' INT TERM
. tests/lib/tally.bash

begin() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/tests/fake" "$tmp/tree/tests/lib" "$tmp/tree/build"
    cp tests/run "$tmp/tree/tests"
    cp tests/lib/percent.bash "$tmp/tree/tests/lib"
}

suite_is() { # NAME; its commands from stdin
    {
        printf '#!/bin/bash\n'
        cat
        # shellcheck disable=SC2016 # the suite expands it
        echo 'echo "$(basename "$0" .sh): 1 passed, 0 failed, 0 skipped"'
    } >"$tmp/tree/tests/fake/$1.sh"
    chmod +x "$tmp/tree/tests/fake/$1.sh"
}

# ends STATUS WHAT TEXT - runs it; the output has the text.
ends() {
    (
        unset ENQ_TEST_MARK PARTS ENQ_TEST_PERCENT
        [ -z "${percent-}" ] || export ENQ_TEST_PERCENT=$percent
        cd "$tmp/tree" && PARTS='' tests/run "${what-}" >"$tmp/out" 2>&1
    )
    local status=$?
    if [ "$status" = "$1" ] && grep -qF -- "$3" "$tmp/out"; then
        pass "$2"
    else
        fail "$2 (status $status)"
        cat "$tmp/out"
    fi
}

begin
suite_is good </dev/null
ends 0 'a suite that passes passes' '3 passed, 0 failed, 0 skipped'

begin
suite_is good <<<'echo "STARVED a.spec: no processor for 201 ms; it had failed"'
ends 0 'a play that was repeated for want of a processor is counted' \
    'played again for want of a processor: 1'
ends 0 '... and shown' 'STARVED a.spec'

begin
suite_is good <<<": >$others; sleep 300 & disown; echo \$! >$tmp/pid"
sleep 300 &
other=$!
ends 1 'a process that outlives the run is seen' 'FAIL leaves no process'
lives() { grep -qs '^State:[[:space:]]*[^Z]' "/proc/$(cat "$tmp/pid")/status"; }
for _ in {1..100}; do
    ! lives || sleep 0.1
done
if lives; then fail 'it is ended'; else pass 'it is ended'; fi

begin
suite_is good <<<": >$others-b" # as another run's
: >"$others"
ends 0 "what others have in /dev/shm, and their processes, are theirs" \
    '3 passed, 0 failed, 0 skipped'
kill "$other"

# shellcheck disable=SC2016 # the suite expands it
for place in '/dev/shm/enq-${ENQ_TEST_MARK}itself-1' '$TMPDIR/x' \
    '$TMPDIR/.x' '/tmp/enq-${ENQ_TEST_MARK}itself'; do
    begin
    suite_is good <<<": >\"$place\"; echo \"$place\" >>'$tmp/places'"
    ends 1 "a file that is left is seen: $place" 'FAIL leaves no file'
done
[ "$(wc -l <"$tmp/places")" = 4 ] || failed=$((failed + 1))
while read -r file; do
    [ ! -e "$file" ] || fail "$file is still there"
done <"$tmp/places"

# --- several at a time, and what is left to `prove` ---

begin
for i in 1 2 3; do
    # Each waits for another to be there: a run of one at a time would not end.
    suite_is "meets-$i" <<<"mkdir -p '$tmp/met' && : >'$tmp/met/$i'
for _ in {1..600}; do
    [ \$(ls '$tmp/met' | wc -l) -lt 2 ] || break
    sleep 0.1
done
[ \$(ls '$tmp/met' | wc -l) -ge 2 ] || exit 1"
done
JOBS=2 ends 0 'suites run beside each other, and all are counted' \
    '5 passed, 0 failed, 0 skipped'

begin
for i in 1 2 3; do
    suite_is "alone-$i" <<<"mkdir '$tmp/alone' || exit 1
sleep 0.2
rmdir '$tmp/alone'"
    echo "check alone fake/alone-$i" >>"$tmp/tree/tests/suites"
done
JOBS=3 ends 0 'who measures runs alone' '5 passed, 0 failed, 0 skipped'

begin
suite_is quick </dev/null
suite_is long </dev/null
{
    echo 'prove beside fake/long'
    # shellcheck disable=SC2016 # tests/run expands it
    echo 'check beside short/long $BUILD/../tests/fake/long.sh'
} >"$tmp/tree/tests/suites"
what=check ends 0 'what is for prove has a short dose in check' 'ok   short/long'
! grep -q fake/long "$tmp/out" || fail 'and nothing but that'
what=prove ends 0 'prove plays what check leaves' '3 passed, 0 failed, 0 skipped'
ends 0 'a run that is told neither plays both' '4 passed, 0 failed, 0 skipped'

begin
suite_is interrupts <<<'kill -INT $$; sleep 1; exit 0'
ends 1 'a test may be interrupted' 'FAIL fake/interrupts'

# A race, or a double grant, that shows once is a fault.
begin
suite_is once <<<"if [ ! -e '$tmp/seen' ]; then
    : >'$tmp/seen'
    echo 'once: 0 passed, 1 failed, 0 skipped'
    exit 1
fi"
ends 1 'a suite that fails once has failed' 'FAIL fake/once: 1 failed'

begin
suite_is two <<<"echo 'FAIL the second of them'; seq 200
echo 'two: 1 passed, 1 failed, 0 skipped'
exit 1"
ends 1 'a suite that fails is told of with what has failed' 'two: 1 failed'
if tail -n 4 "$tmp/out" | grep -qx '    FAIL the second of them'; then
    pass '... at the end, too'
else
    fail '... at the end, too'
fi

begin
suite_is silent <<<'exit 0'
ends 1 'a suite without a count has failed' 'without a count'
begin
suite_is liar <<<'trap "exit 3" EXIT'
ends 1 'a suite whose status contradicts its count has failed' \
    'ended with status 3 though nothing failed'
begin
suite_is idle <<<'echo "idle: 0 passed, 0 failed, 0 skipped"; exit 0'
ends 1 'a suite that tests nothing has failed' 'tested nothing'
begin
suite_is hangs <<<'sleep 300'
ENQ_TEST_PATIENCE=1 ends 1 'a suite that hangs is ended, and told of' \
    'FAIL fake/hangs: killed after 1 s'
begin
suite_is seeded <<<'echo "seed 4711"'
ends 0 'a seed is told' 'seed 4711'
begin
suite_is counts <<<'echo "figure apples 5"'
echo 'apples 6 eaten' >"$tmp/tree/tests/figures"
ends 1 'a figure that is too low fails' 'FAIL apples: 5 counted (eaten)'

# --- a slow machine ---

begin
printf '%s\n' 'apples 1000% eaten' 'pears 40 left' >"$tmp/tree/tests/figures"
counts() { suite_is counts <<<"echo figure apples $1; echo figure pears 40"; }
counts 377
percent=50 ends 0 'half of it may be counted, less a fifth and its root' \
    'of what is counted, 50 % (ENQ_TEST_PERCENT)'
counts 376
percent=50 ends 1 '... and no less' 'FAIL apples: 376 counted (eaten), at least 377'
counts 999
percent=100 ends 1 'all of it is no fifth less' \
    'FAIL apples: 999 counted (eaten), at least 1000'
echo 'pears 50 left' >"$tmp/tree/tests/figures"
percent=10 ends 1 'what is not counted in proportion is all there' \
    'FAIL pears: 40 counted (left), at least 50'
for percent in 0 101 x 5x -1 ' 5' 1e1; do
    ends 2 "no percent: \"$percent\"" "ENQ_TEST_PERCENT=$percent: a number from 1 to 100"
done
unset percent
sum_up itself
