#!/bin/sh
# What nothing orders, and which orders would be missed: unordered.py says how.
cd "$(dirname "$0")/../.." || exit 1
exec tests/sim/unordered.py unordered "${BUILD:-build}/sim/sim-run" "$@"
