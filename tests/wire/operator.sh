#!/bin/sh
# What an operator is told, and systemd: operator.py says how.
exec "$(dirname "$0")/operator.py" operator \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
