#!/bin/sh
# What only several loops can get wrong: threads.py says how.
exec "$(dirname "$0")/threads.py" threads \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
