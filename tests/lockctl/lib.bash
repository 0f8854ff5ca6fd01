# lib.bash - what the tests of lockctl share: a space and a directory of their
# own, checks, waiting for an event, the line that ends a suite.
#
# LOCKCTL is the program to test. Every process that is started here is ended
# here, by its number, if it is still the same: all of them have the space's
# name in their environment.
set -u
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LOCKCTL=${LOCKCTL:-$top/build/release/lockctl}
suite=lockctl-$(basename "$0" .sh)
if ! LOCKCTL=$(realpath -e "$LOCKCTL"); then
    echo "$suite: 0 passed, 1 failed, 0 skipped"
    exit 1
fi
tmp=$(mktemp -d)
touch "$tmp/out" "$tmp/err"
space_name=enq-${ENQ_TEST_MARK-}lockctl-$$
export ENQ_SPACE=shm:$space_name
unset ENQ_OWNER NO_COLOR ENQ_LOG "${!LOCKCTL_@}"
n_passed=0 n_failed=0 n_skipped=0
pids=()

cleanup()
{
    local pid

    [ "$BASHPID" = $$ ] || return # a subshell that is killed comes here too
    for pid in "${pids[@]}"; do
        if grep -qs "$space_name" "/proc/$pid/environ"; then
            kill -KILL "$pid"
        fi
    done
    wait 2>/dev/null
    rm -rf "$tmp" /dev/shm/*"$space_name"*
}
trap cleanup EXIT

# The count is the last line: bash reports killed children before it.
finish()
{
    trap - EXIT
    cleanup 2>/dev/null
    echo "$suite: $n_passed passed, $n_failed failed, $n_skipped skipped"
    exit $((n_failed > 0))
}

# Checks ----------------------------------------------------------------------

pass()
{
    n_passed=$((n_passed + 1))
}

fail()
{
    n_failed=$((n_failed + 1))
    echo "FAILED: $1"
    shift
    printf '    %s\n' "$@"
    sed 's/^/    stdout: /' "$tmp/out" | head -n 20
    sed 's/^/    stderr: /' "$tmp/err" | head -n 20
}

skip()
{
    n_skipped=$((n_skipped + 1))
    echo "skipped: $1"
}

# is NAME EXPECTED ACTUAL
is()
{
    if [ "$2" = "$3" ]; then pass; else fail "$1" "expected $2" "got $3"; fi
}

# exits NAME CODE ARGUMENT...: runs lockctl; out and err keep what it printed.
exits()
{
    local name=$1 code=$2

    shift 2
    "$LOCKCTL" "$@" >"$tmp/out" 2>"$tmp/err"
    is "$name" "$code" $?
}

out_has()
{
    if grep -Eq -e "$2" "$tmp/out"; then pass; else fail "$1" "no $2"; fi
}

err_has()
{
    if grep -Eq -e "$2" "$tmp/err"; then pass; else fail "$1" "no $2"; fi
}

# true_that NAME COMMAND...
true_that()
{
    local name=$1

    shift
    if "$@"; then pass; else fail "$name" "false: $*"; fi
}

# Events ----------------------------------------------------------------------

# How many times slower than usual this machine starts a program: a millisecond
# each, up to two, is usual. All that a script waits for takes some of them.
slow=${EPOCHREALTIME/./}
for _ in {1..20}; do /bin/true; done
slow=$((1 + (${EPOCHREALTIME/./} - slow) / 20 / 2000))

# within SECONDS COMMAND...: true as soon as the command is, false after that.
within()
{
    local end=$((${EPOCHREALTIME/./} + $1 * slow * 1000000))

    shift
    until "$@"; do
        [ "${EPOCHREALTIME/./}" -lt "$end" ] || return 1
        sleep 0.01
    done
}

has_line()
{
    [ -s "$1" ]
}

is_gone()
{
    ! [ -d "/proc/$1" ] || grep -q '^State:.Z' "/proc/$1/status" 2>/dev/null
}

# n_wait N OBJECT: so many wait for it.
n_wait()
{
    [ "$("$LOCKCTL" list --only state "$2" 2>/dev/null | grep -c waiting)" = "$1" ]
}

somebody_waits()
{
    ! n_wait 0 "$1"
}

is_held()
{
    "$LOCKCTL" list --only state "$1" 2>/dev/null | grep -q held
}

is_free()
{
    "$LOCKCTL" who -q "$1" >/dev/null 2>&1
}

# start ARGUMENT...: lockctl in the background, its number in $pid. SIGINT and
# SIGQUIT, that bash ignores there, are as a terminal's shell leaves them.
start()
{
    rm -f "$tmp/bg.out" "$tmp/bg.err"
    env --default-signal=INT,QUIT "$LOCKCTL" "$@" \
        >"$tmp/bg.out" 2>"$tmp/bg.err" </dev/null &
    pid=$!
    pids+=("$pid")
}

# ended NAME CODE: of what was started last.
ended()
{
    wait "$pid"
    is "$1" "$2" $?
    cp "$tmp/bg.out" "$tmp/out"
    cp "$tmp/bg.err" "$tmp/err"
}

# Takes a lock and sets id and token.
take()
{
    read -r id token < <("$LOCKCTL" lock "$@" 2>"$tmp/err")
    wait $! # has it said all, it has a moment to live yet
    [ -n "$id" ]
}

now_ms()
{
    echo $((${EPOCHREALTIME/./} / 1000))
}

# json FILE EXPRESSION: a value out of JSON, by whatever reads it here.
json()
{
    if command -v python3 >/dev/null 2>&1; then
        python3 -c '
import json, sys
with open(sys.argv[1], "rb") as f:
    j = json.load(f)
v = eval(sys.argv[2])
print(json.dumps(v) if not isinstance(v, str) else v)' "$1" "$2" 2>/dev/null
    else
        return 1
    fi
}

has_json_reader()
{
    command -v python3 >/dev/null 2>&1
}
