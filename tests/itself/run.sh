#!/bin/bash
# run.sh - tests/run itself: what it must see, and what is none of its
# business. It is played on a tree of its own, with suites made for it.
set -u
cd "$(dirname "$0")/../.." || exit 1
tmp=$(mktemp -d) || exit 1
others=/dev/shm/enq-itself-of-another-$$
trap 'rm -rf "$tmp" "$others" "$others-b"' EXIT
trap 'exit 1' INT TERM
passed=0 failed=0

begin() {
    rm -rf "$tmp/tree"
    mkdir -p "$tmp/tree/tests/fake" "$tmp/tree/build"
    cp tests/run "$tmp/tree/tests"
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
        unset ENQ_TEST_MARK PARTS
        cd "$tmp/tree" && PARTS='' tests/run >"$tmp/out" 2>&1
    )
    local status=$?
    if [ "$status" = "$1" ] && grep -qF -- "$3" "$tmp/out"; then
        passed=$((passed + 1))
        echo "ok      $2"
    else
        failed=$((failed + 1))
        echo "FAILED  $2 (status $status)"
        cat "$tmp/out"
    fi
}

begin
suite_is good </dev/null
ends 0 'a suite that passes passes' '3 passed, 0 failed, 0 skipped'

begin
suite_is good <<<": >$others; sleep 300 & disown; echo \$! >$tmp/pid"
sleep 300 &
other=$!
ends 1 'a process that outlives the run is seen' 'FAIL leaves no process'
lives() { grep -qs '^State:[[:space:]]*[^Z]' "/proc/$(cat "$tmp/pid")/status"; }
for _ in {1..100}; do
    ! lives || sleep 0.1
done
if lives; then
    failed=$((failed + 1))
    echo 'FAILED  it is ended'
else
    passed=$((passed + 1))
fi

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
    suite_is good <<<": >\"$place\""
    ends 1 "a file that is left is seen: $place" 'FAIL leaves no file'
done
for file in "/dev/shm/enq-r"*"-itself-1" "/tmp/enq-r"*"-itself"; do
    [ ! -e "$file" ] || {
        failed=$((failed + 1))
        echo "FAILED  $file is still there"
    }
done

# A race, or a double grant, that shows once is a fault.
begin
suite_is once <<<"if [ ! -e '$tmp/seen' ]; then
    : >'$tmp/seen'
    echo 'once: 0 passed, 1 failed, 0 skipped'
    exit 1
fi"
ends 1 'a suite that fails once has failed' 'FAIL fake/once: 1 failed'

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
suite_is seeded <<<'echo "seed 4711"'
ends 0 'a seed is told' 'seed 4711'
begin
suite_is counts <<<'echo "figure apples 5"'
echo 'apples 6 eaten' >"$tmp/tree/tests/figures"
ends 1 'a figure that is too low fails' 'FAIL apples: 5 counted (eaten)'
echo "itself: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
