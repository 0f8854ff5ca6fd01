#!/bin/sh
# The same transcripts, against a bridge of three loops: nobody can tell.
export ENQ_BRIDGE_THREADS=3
exec "$(dirname "$0")/play.py" wire-loops \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
