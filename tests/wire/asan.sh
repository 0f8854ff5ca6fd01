#!/bin/sh
# The same transcripts, against the bridge with the address and undefined
# sanitizers.
export ENQ_WIRE_PATIENCE=3
exec "$(dirname "$0")/play.py" wire-asan \
    "${BUILD:-$(dirname "$0")/../../build}/asan/enq-bridge" "$@"
