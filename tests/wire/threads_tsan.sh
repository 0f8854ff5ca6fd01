#!/bin/sh
# What only several loops can get wrong, with the thread sanitizer, which does
# not start where addresses are too random (clang 14).
here=$(cd "$(dirname "$0")" && pwd)
export ENQ_WIRE_PATIENCE=5
export TSAN_OPTIONS="${TSAN_OPTIONS-} suppressions=$here/tsan.supp"
wrap=
if setarch -R true 2>/dev/null; then wrap='setarch -R'; fi
# shellcheck disable=SC2086 # nothing, or two words
exec $wrap "$here/threads.py" threads-tsan \
    "${BUILD:-$here/../../build}/tsan/enq-bridge" "$@"
