#!/bin/sh
# A space that is not what was asked for: asked.py says how.
exec "$(dirname "$0")/asked.py" asked \
    "${BUILD:-$(dirname "$0")/../../build}/release/enq-bridge" "$@"
