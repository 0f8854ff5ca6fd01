#!/bin/bash
# ci.sh - .ci/run: what it asks of prove on a machine that is quick, and slow. The
# goals are played by a make of this test's own, by a clock that it sets.
set -u
cd "$(dirname "$0")/../.." || exit 1
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp"' EXIT
. tests/lib/tally.bash

mkdir -p "$tmp/tree/.ci" "$tmp/bin" && cp .ci/run "$tmp/tree/.ci" || exit 1
cat >"$tmp/bin/date" <<'E2'
#!/bin/sh
cat "$CLOCK"
E2
cat >"$tmp/bin/make" <<'E2'
#!/bin/sh
for goal; do
    case $goal in
    check-made) echo 5000 >"$CLOCK" ;;
    check) echo $((5000 + CHECK_S)) >"$CLOCK" ;;
    prove) echo "prove counts ${ENQ_TEST_PERCENT-all}" ;;
    esac
    case $goal in
    check | prove) echo "1 passed, 0 failed, 0 skipped" ;;
    lint) echo "lint: 1 passed, 0 failed, 0 skipped" ;;
    esac
    [ "$goal" != "$FAILS" ] || status=1
done
exit "${status-0}"
E2
chmod +x "$tmp/bin/date" "$tmp/bin/make"

# ends STATUS CHECK_S FAILS TEXT WHAT - a run whose check takes so long
ends() {
    local status
    echo 0 >"$tmp/clock"
    env -u ENQ_TEST_PERCENT PATH="$tmp/bin:$PATH" CLOCK="$tmp/clock" CHECK_S="$2" \
        FAILS="$3" "$tmp/tree/.ci/run" >"$tmp/out" 2>&1
    status=$?
    [ "$status" = "$1" ] && grep -qF -- "$4" "$tmp/out"
    report $? "$5"
}

ends 0 150 none 'prove counts all' 'a quick machine counts all'
ends 0 250 none 'prove counts all' '... one that is a little late, too'
ends 0 400 none 'prove counts 50' 'a machine of half the speed counts half'
ends 0 400 none 'check took 400 s: a slow machine, on which prove counts 50 %' \
    '... and it is said'
ends 0 9999 none 'prove counts 10' 'no machine counts less than a tenth'
ends 0 400 none '3 passed, 0 failed, 0 skipped' 'all three are in the sum'
ends 1 150 check 'prove counts all' 'a check that fails fails the run, and hides nothing'
ends 1 150 lint '3 passed' 'so does lint'
sum_up ci
