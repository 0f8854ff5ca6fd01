#!/bin/sh
# Faults of the network against enq-bridge: a scenario is a test (scenarios.py
# says what that is). What a scenario makes goes with this process: its network
# is in namespaces without a name, its files in one directory.
# usage: net.sh [--list] [--seed N] [TEXT]...: those whose name contains one of them
set -u
here=$(cd "$(dirname "$0")" && pwd)
if ! command -v python3 >/dev/null 2>&1; then
    echo 'skipped: no python3 (apt-get install python3)'
    echo 'net: 0 passed, 0 failed, 1 skipped'
    exit 0
fi
exec python3 -B "$here/main.py" "$@"
