#!/bin/sh
# A bridge that gets no more memory: memory.py says how.
exec "$(dirname "$0")/memory.py" memory \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
