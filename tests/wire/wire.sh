#!/bin/sh
# The transcripts of this directory, against the bridge as it is released.
exec "$(dirname "$0")/play.py" wire \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
