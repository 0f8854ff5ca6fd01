#!/bin/sh
# Locks that a session has adopted, when its bridge ends: adopted.py says how.
exec "$(dirname "$0")/adopted.py" adopted \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
