#!/bin/sh
# What an operator is told, and systemd: operated.py says how.
exec "$(dirname "$0")/operated.py" operator \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
