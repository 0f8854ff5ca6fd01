#!/bin/bash
# promises.sh - every promise has a test of that name (the file promises).
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
    grep -qF -e "{\"$2\"," -e "CASE($2)," -e "ALONE($2)," tests/"$1"/*.c
}

speaks_of() { # PROMISE NAME
    [[ ${2%%:*} =~ (^|_)$1(_|$) ]]
}

while IFS='|' read -r promise suite names; do
    case $promise in '' | '#'*) continue ;; esac
    promise=$(trim "$promise") suite=$(trim "$suite")
    while IFS= read -r name; do
        name=$(trim "$name")
        is_test "$suite" "$name" && speaks_of "$promise" "$name"
        verdict "$promise: no test of it in $suite is called \"$name\""
    done < <(tr '|' '\n' <<<"$names")
    kept+=" $promise "
done <"$list"

for promise in P1 P2 P3 P4 P5 P6 P7 P8 P11 P12; do
    [[ ${kept-} == *" $promise "* ]]
    verdict "$promise has no test"
done
echo "env/promises: $passed passed, $failed failed, 0 skipped"
[ "$failed" -eq 0 ]
