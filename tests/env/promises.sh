#!/bin/bash
# promises.sh - every promise has a test of that name (the file promises), and it
# has passed in this run of tests/run ($ENQ_TEST_LOGS has what the suites said).
set -u
cd "$(dirname "$0")/../.." || exit 1
list=tests/env/promises
passed=0 failed=0

verdict() { # TEXT; by the status of what came before
    local status=$?
    if [ "$status" -eq 0 ]; then passed=$((passed + 1)); else
        failed=$((failed + 1))
        echo "FAIL $1"
    fi
}

trim() {
    sed 's/^ *//; s/ *$//' <<<"$1"
}

# As an entry of a table of tests, not in a comment or a text.
is_test() { # SUITE NAME
    case $1 in
    wire) [ -e "tests/wire/$2.wire" ] ;;
    net) python3 -B tests/net/main.py --list | grep -xF -e "$2" >/dev/null ;;
    *)
        tr -d '\n' <<<"$(sed 's/^ *//' tests/"$1"/*.c)" |
            grep -qF -e "{\"$2\"," -e "CASE($2)," -e "ALONE($2),"
        ;;
    esac
}

# Those of the bridge are named for what they do.
speaks_of() { # PROMISE NAME
    [[ ${2%%:*} =~ (^|_)$1(_|$) ]] || [ "$1" = P9 ] || [ "$1" = P10 ]
}

# The log of that suite, if it has been played.
said_by() { # SUITE
    local log
    case $1 in
    env | exhaust) log=crash.$1-run ;;
    *) log=$1.$1 ;;
    esac
    [ -n "${ENQ_TEST_LOGS-}" ] && [ -e "$ENQ_TEST_LOGS/$log" ] &&
        echo "$ENQ_TEST_LOGS/$log"
}

has_passed() { # LOG NAME
    awk -v name="$2" '
        /^ok / {
            line = $0
            sub(/^ok +([0-9.]+ s +)?/, "", line)
            sub(/ \([0-9.]+ s\)$/, "", line)
            found = found || line == name
        }
        END { exit !found }' "$1"
}

while IFS='|' read -r promise suite names; do
    case $promise in '' | '#'*) continue ;; esac
    promise=$(trim "$promise") suite=$(trim "$suite")
    while IFS= read -r name; do
        name=$(trim "$name")
        is_test "$suite" "$name" && speaks_of "$promise" "$name"
        verdict "$promise: no test of it in $suite is called \"$name\""
        log=$(said_by "$suite") || continue
        has_passed "$log" "$name"
        verdict "$promise: $suite has not said of \"$name\" that it passed"
    done < <(tr '|' '\n' <<<"$names")
    kept+=" $promise "
done <"$list"

for promise in P1 P2 P3 P4 P5 P6 P7 P8 P9 P10 P11 P12 P14; do
    [[ ${kept-} == *" $promise "* ]]
    verdict "$promise has no test"
done
echo "env/promises: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
