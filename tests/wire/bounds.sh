#!/bin/sh
# Where limits end: bounds.py says how.
exec "$(dirname "$0")/bounds.py" bounds \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
