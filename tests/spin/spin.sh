#!/bin/bash
# spin.sh - verifies the Spin models of this directory, and refutes their
# seeded bugs.
#
# usage: tests/spin/spin.sh [MODEL]
#
# A line of the list below is a run: what is expected, the model, its
# definitions. `holds`: searched to the end without an error. `bug`: an
# assertion is violated, or somebody sleeps for ever (an invalid end state).
# Two run at a time. Needs spin and gcc.
set -u
cd "$(dirname "$0")" || exit 1
only=${1-}
export LC_ALL=C SECONDS_MOST=${SECONDS_MOST:-250}

runs() {
    cat <<-'END'
	holds word -DTICK=1 -DDEATHS=2
	holds word -DTICK=2 -DDEATHS=1 -DWORDS=1
	holds word -DTICK=0 -DDEATHS=0 -DWORDS=1 -DEXCHANGE
	holds word -DTICK=0 -DDEATHS=1 -DWORDS=1 -DEXCHANGE -DLOOK_AGAIN -DP=2
	bug word -DBUG_1
	bug word -DBUG_2 -DDEATHS=1
	bug word -DBUG_3 -DTICK=2
	bug word -DBUG_4 -DTICK=0 -DDEATHS=0 -DWORDS=1 -DEXCHANGE
	bug word -DBUG_5 -DTICK=0 -DDEATHS=0 -DWORDS=1 -DEXCHANGE
	bug word -DBUG_6 -DTICK=2
	bug word -DBUG_7
	bug word -DBUG_8 -DTICK=0 -DDEATHS=1 -DWORDS=1 -DEXCHANGE -DLOOK_AGAIN -DP=2
	bug word -DBUG_9 -DTICK=0 -DDEATHS=0 -DEXCHANGE
	holds hand
	holds hand -DSTRICT -DSHARED=5 -DIMPATIENT=2
	holds hand -DSC -DSTRICT -DDEATHS=1
	holds hand -DSC -DSTRICT -DSHARED=6 -DTTL=1 -DSTOPS=1
	bug hand -DBUG_1
	bug hand -DBUG_2
	bug hand -DBUG_3
	bug hand -DBUG_4
	bug hand -DBUG_5 -DSTRICT -DSHARED=5 -DIMPATIENT=2
	bug hand -DBUG_6 -DSC -DSTRICT -DDEATHS=1
	bug hand -DBUG_7 -DSC -DSTRICT -DDEATHS=1
	bug hand -DBUG_8 -DSHARED=5
	bug hand -DBUG_9
	holds gate
	holds gate -DGENERIC=6
	bug gate -DBUG_1
	bug gate -DBUG_2
	bug gate -DBUG_3
	bug gate -DBUG_4 -DGENERIC=6
	bug gate -DBUG_5
	bug gate -DBUG_6 -DGENERIC=6
	bug gate -DBUG_7 -DROUNDS=1
	holds promote
	bug promote -DBUG_1
	bug promote -DBUG_2
	bug promote -DBUG_3
	bug promote -DBUG_4
	bug promote -DBUG_5
	bug promote -DBUG_6
	holds sweep -DDEATHS=0
	bug sweep -DBUG_1 -DDEATHS=0
	bug sweep -DBUG_2 -DDEATHS=0
	bug sweep -DBUG_3
	bug sweep -DBUG_4
	bug sweep -DBUG_5
	holds ttl -DWAITERS=1 -DRENEWALS=2
	bug ttl -DBUG_1
	bug ttl -DBUG_2
	bug ttl -DBUG_3
	bug ttl -DBUG_4
	bug ttl -DBUG_5
	bug ttl -DBUG_6
	bug hand -DAS_IS -DSC -DSTRICT -DSHARED=6 -DTTL=1 -DSTOPS=1
	END
}

# verify EXPECTED MODEL DEFINITION... - one line: verdict, states, what
verify() {
    local expected=$1 model=$2 dir out states errors seen=fault
    shift 2
    dir=$(mktemp -d) || exit 1
    cp ./*.pml "$dir" && cd "$dir" || exit 1
    if out=$({ spin -a "$@" "$model.pml" &&
        gcc -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=2000 -o pan pan.c &&
        timeout "$SECONDS_MOST" ./pan -m50000; } 2>&1); then :; fi
    states=$(sed -n 's/^ *\([0-9.e+]*\) states, stored.*/\1/p' <<<"$out")
    errors=$(sed -n 's/^State-vector .* errors: \([0-9]*\)$/\1/p' <<<"$out")
    states=$(awk -v n="${states:-0}" 'BEGIN { printf "%d", n }')
    case $out in
    *'max search depth too small'* | *'out of memory'* | *'MEMLIM bound'* | \
        *'pan: reached'* | *'syntax error'*) ;;
    *)
        if [ "$errors" = 0 ] && [ "$states" -gt 1000 ] &&
            ! grep -q 'Warning: Search not completed' <<<"$out"; then
            seen=holds
        elif [ "${errors:-0}" -gt 0 ] &&
            grep -qE '^pan:1: (assertion violated|invalid end)' <<<"$out"; then
            seen=bug
        fi
        ;;
    esac
    [ "$seen" = "$expected" ] && out=
    printf '%s %s %s %s\n' "$seen" "$expected" "$states" "$model $*"
    [ -z "$out" ] || tail -n 30 <<<"$out" | sed 's/^/    /'
    cd / && rm -rf "$dir"
}
export -f verify

log=$(mktemp) || exit 1
trap 'rm -f "$log"' EXIT
if ! command -v spin >/dev/null; then
    echo 'spin is not installed'
    echo 'spin: 0 passed, 1 failed, 0 skipped'
    exit 1
fi
# A model that differs from the code proves nothing. These two places were
# at fault when the models were written; AS_IS and BUG_1 say how.
body() { # FUNCTION FILE
    sed -n "/^[a-z].*[ *]$1(/,/^}/p" "../../src/table/$2"
}
shapes() {
    if body free_dead_words heal.c | grep -qF 'r->shards'; then
        echo 'shape ok word.pml: free_dead_words() frees what was noted'
    else
        echo 'shape differs word.pml: free_dead_words() asks again (BUG_1)'
    fi
    if body watch_ahead wait.c | grep -qF 'w->until = deadline;'; then
        echo 'shape differs hand.pml: watch_ahead() trusts who is ahead (AS_IS)'
    else
        echo 'shape ok hand.pml: watch_ahead() looks a little later'
    fi
}

runs | grep -E " $only" | xargs -P 2 -d '\n' -I{} bash -c 'verify {}' >"$log"
shapes >>"$log"
cat "$log"
awk -v want="$(runs | grep -cE " $only")" '
    /^shape / {
        if ($2 == "ok") passed++
        else failed++
    }
    /^(holds|bug|fault) / {
        if ($1 != $2) failed++
        else {
            passed++
            if ($1 == "holds") { sum += $3; models[$4] = 1 }
            else bugs++
        }
    }
    END {
        if (passed + failed < want + 2) failed += want + 2 - passed - failed
        for (m in models) n++
        printf "figure spin-models %d\n", n
        printf "figure spin-states %d\n", sum
        printf "figure spin-bugs-refuted %d\n", bugs
        printf "spin: %d passed, %d failed, 0 skipped\n", passed, failed
        exit failed > 0
    }' "$log"
