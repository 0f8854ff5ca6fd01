# tally.bash - what a script counts of its checks, and the line that ends it.
# For any shell; $tmp/out has what a check said.
passed=0 failed=0 skipped=0

pass() { passed=$((passed + 1)); echo "ok      $1"; }
fail() { failed=$((failed + 1)); echo "FAILED  $1"; }
# shellcheck disable=SC2317 # not every script skips
skip() { skipped=$((skipped + 1)); echo "skipped $1"; }

report() { # STATUS NAME
    if [ "$1" = 0 ]; then
        pass "$2"
    else
        fail "$2"
        cat "$tmp/out"
    fi
}

sum_up() { # SUITE
    echo "$1: $passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ]
}
