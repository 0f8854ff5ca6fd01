#!/bin/sh
# Several bridges at one space, of which one ends: pair.py says how.
exec "$(dirname "$0")/pair.py" pair \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
