#!/bin/sh
# What nobody is told, and what is told in one line: untold.py says how.
exec "$(dirname "$0")/untold.py" untold \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
