#!/bin/sh
# The bridge, killed at each crash point that it passes: crash.py says how.
build=${BUILD:-$(dirname "$0")/../../build}
exec "$(dirname "$0")/crash.py" "$build/crash/enq-bridge" \
    "$build/release/libenq.so" "$@"
