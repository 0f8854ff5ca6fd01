#!/bin/sh
# What only several loops can get wrong, with the address and undefined
# sanitizers.
export ENQ_WIRE_PATIENCE=3
exec "$(dirname "$0")/threads.py" threads-asan \
    "${BUILD:-$(dirname "$0")/../../build}/asan/enq-bridge" "$@"
