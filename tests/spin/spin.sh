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
export LC_ALL=C SECONDS_MOST=${SECONDS_MOST:-1500}

runs() {
    cat <<-'END'
	holds latch -DTICK=1 -DDEATHS=2
	holds latch -DTICK=2 -DDEATHS=1 -DLATCHES=1
	holds latch -DTICK=0 -DDEATHS=0 -DLATCHES=1 -DEXCHANGE
	holds latch -DTICK=0 -DDEATHS=1 -DLATCHES=1 -DEXCHANGE -DLOOK_AGAIN -DP=2
	bug latch -DBUG_1
	bug latch -DBUG_2 -DDEATHS=1
	bug latch -DBUG_3 -DTICK=2
	bug latch -DBUG_4 -DTICK=0 -DDEATHS=0 -DLATCHES=1 -DEXCHANGE
	bug latch -DBUG_5 -DTICK=0 -DDEATHS=0 -DLATCHES=1 -DEXCHANGE
	bug latch -DBUG_6 -DTICK=2
	bug latch -DBUG_7
	bug latch -DBUG_8 -DTICK=0 -DDEATHS=1 -DLATCHES=1 -DEXCHANGE -DLOOK_AGAIN -DP=2
	bug latch -DBUG_9 -DTICK=0 -DDEATHS=0 -DEXCHANGE
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
	holds gate -DN=4 -DGENERIC=8 -DROUNDS=1 -DMORTAL=4
	holds gate -DOTHER=1
	bug gate -DBUG_1
	bug gate -DBUG_2
	bug gate -DBUG_3
	bug gate -DBUG_4 -DGENERIC=6
	bug gate -DBUG_5
	bug gate -DBUG_6 -DGENERIC=6
	bug gate -DBUG_7 -DROUNDS=1
	bug gate -DBUG_8
	bug gate -DBUG_9
	bug gate -DBUG_10 -DN=4 -DGENERIC=8 -DROUNDS=1 -DMORTAL=4
	bug gate -DBUG_11 -DGENERIC=6
	bug gate -DBUG_12 -DOTHER=1
	bug gate -DBUG_13 -DOTHER=1
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
    local expected=$1 model=$2 dir out states errors seen=fault fast=-O2
    shift 2
    # a bug is found long before it would pay
    [ "$expected" != bug ] || fast=-O0
    dir=$(mktemp -d) || exit 1
    cp ./*.pml "$dir" && cd "$dir" || exit 1
    if out=$({ spin -a "$@" "$model.pml" &&
        gcc "$fast" -w -DSAFETY -DMEMLIM=2000 -o pan pan.c &&
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
# A model that differs from the code proves nothing. So what the models rest on
# stands in the code: MODEL, FUNCTION, FILE below src/, a line of its body; and
# the bug of the model that it would be without.
shapes() {
    cat <<-'END'
	latch|free_dead_latches|recovery/recover.c|if (bit(r->shards, i))|BUG_1
	latch|latch_release|sync/latch.h|shm_swap(latch, 0);|BUG_5
	gate|may_skip|lock/scope.c|if (shm_load_fence(&bucket->latch) != 0|BUG_2
	gate|say_if_empty|lock/scope.c|shm_or(n_buckets, SHARD_EMPTY);|BUG_9
	gate|may_skip|lock/scope.c|return shm_load(&map->h->remade) == remade;|BUG_10
	gate|free_shard|recovery/recover.c|shm_and(&shard->n_buckets, ~SHARD_EMPTY);|BUG_11
	hand|blockers_end|wait/blockers.c|b->until = mono_min(b->deadline, mono_add_ns(b->until, AHEAD_NS));|AS_IS
	hand|scope_send_wakes|lock/scope.c|shm_fence(); /* our stores of states, before the loads of `asleep` */|BUG_1
	hand|entry_stirs|store/entry.h|while (!shm_cas(&e->asleep, &said, to))|BUG_2
	hand|sleep_on|wait/waiter.c|if (all_stir(w, looks, sleeps) && !blockers_changed(b, b->own)) {|BUG_4
	END
}
body() { # FUNCTION FILE
    sed -n "/^[a-zA-Z].*[ *]$1(.*[^;]\$/,/^}/p" "../../src/$2"
}
judge_shapes() {
    local model function file line bug
    while IFS='|' read -r model function file line bug; do
        if [ -z "$(body "$function" "$file")" ]; then
            echo "shape differs $model.pml: there is no $function() in $file"
        elif body "$function" "$file" | grep -qF -- "$line"; then
            echo "shape ok $model.pml: $function(): $line"
        else
            echo "shape differs $model.pml: $function() without $line ($bug)"
        fi
    done
}

runs | grep -E " $only" | xargs -P 2 -d '\n' -I{} bash -c 'verify {}' >"$log"
shapes | judge_shapes >>"$log"
cat "$log"
awk -v want="$(runs | grep -cE " $only")" -v shapes="$(shapes | wc -l)" '
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
        all = want + shapes
        if (passed + failed < all) failed += all - passed - failed
        for (m in models) n++
        printf "figure spin-models %d\n", n
        printf "figure spin-states %d\n", sum
        printf "figure spin-bugs-refuted %d\n", bugs
        printf "spin: %d passed, %d failed, 0 skipped\n", passed, failed
        exit failed > 0
    }' "$log"
