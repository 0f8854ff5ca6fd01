#!/bin/sh
# run.sh - the simulation, as long as it takes to make its steps.
exec "${BUILD:-build}/sim/sim-run" "$@"
