#!/bin/bash
# npm.sh - npm's enqueue-client as it is, against the bridge: npm.js says what.
#
# It is installed into a directory that is removed, by npm as it is configured.
# Where that is not possible root's run fails; others' is skipped.
set -u
cd "$(dirname "$0")/../.." || exit 1
bridge=${BUILD:-build}/release/enq-bridge
tmp=$(mktemp -d) || exit 1
export ENQ_SPACE=shm:enq-${ENQ_TEST_MARK-}wire-npm-$$
pid=
# shellcheck disable=SC2317 # called by the trap
cleanup() {
    if [ -n "$pid" ]; then kill -KILL "$pid" && wait "$pid"; fi 2>/dev/null
    rm -rf "$tmp" "/dev/shm/${ENQ_SPACE#shm:}"
}
trap cleanup EXIT
trap 'exit 1' INT TERM

without() { # why
    if [ "$(id -u)" = 0 ]; then
        echo "FAILED  $1"
        echo 'npm: 0 passed, 1 failed, 0 skipped'
        exit 1
    fi
    echo "skip: $1"
    echo 'npm: 0 passed, 0 failed, 1 skipped'
    exit 0
}

command -v node >/dev/null || without 'node is not installed (.ci/setup check)'
command -v npm >/dev/null || without 'npm is not installed (.ci/setup check)'
if ! npm install --prefix "$tmp" --cache "$tmp/cache" --no-audit --no-fund \
    --fetch-retries 2 --fetch-timeout 30000 enqueue-client@1.0.0 \
    >"$tmp/log" 2>&1; then
    cat "$tmp/log"
    without 'npm cannot install enqueue-client@1.0.0: is a registry reachable?'
fi

"$bridge" -l tcp:127.0.0.1:0 2>"$tmp/said" &
pid=$!
for _ in $(seq 500); do
    grep -q ready "$tmp/said" && break
    sleep 0.02
done
port=$(sed -n 's/.*listening on tcp:.*:\([0-9]*\)$/\1/p' "$tmp/said")
if ! NODE_PATH=$tmp/node_modules timeout -k 5 120 \
    node tests/wire/npm.js "${port:?the bridge does not listen}"; then
    cat "$tmp/said"
    exit 1
fi
