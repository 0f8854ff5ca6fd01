#!/bin/bash
# bugs.sh - tests of the tests: bugs that are put into the library on purpose,
# one at a time, each of which a named test must catch.
#
# usage: tests/bugs/bugs.sh [--seed N]     50 of those that are not `soak` (or
#                                          ENQ_TEST_PERCENT of them), others each time
#        tests/bugs/bugs.sh NAME...        these
#        tests/bugs/bugs.sh --all          all, as a soak does
#        tests/bugs/bugs.sh --list
#        tests/bugs/bugs.sh --build NAME   a tree with that bug, to look at
#
# The bugs are in tests/bugs/*.bugs (see rules.bugs for how they are written).
# The shipped sources stay as they are: each bug has a tree of its own, of
# links but for the one file that differs, and a build directory that begins
# with links to the objects of $BUILD: make compiles what is missing there.
#
# First each test that is named is run without any bug, once, and has to pass.
# Of a unit suite it is the named test only that is run, here and there. The
# lines of all bugs must be in the sources, of those that are not tried, too.
#
# Some of the tests throw dice, or race: a bug is caught by one of $plays plays,
# and a test that fails without one is played once more. Both are said.
set -u
cd "$(dirname "$0")/../.." || exit 1
root=$PWD
mkdir -p "${BUILD:=build}" || exit 1
build=$(cd "$BUILD" && pwd) || exit 1
# For a test of what hangs; for another that does not say how long it may take.
# A slow one, on a busy machine, is waited for: without a bug for as long.
hang_seconds=60
patience=900
plays=3
. tests/lib/percent.bash
percent 50 # each is played in one of fifteen runs
drawn=$counted
jobs=$((3 * $(nproc))) # nearly all plays wait most of the time
unset MAKEFLAGS MAKELEVEL MFLAGS
ulimit -c 0

names=()
declare -A source why run caught says limit soak slow patch ticks

fail() {
    echo "bugs: $*" >&2
    exit 1
}

# --- the bugs ----------------------------------------------------------------

# begin NAME - of a bug that is described by the lines that follow
begin() {
    [[ $1 =~ ^[a-z0-9-]+$ ]] || fail "$file: \"$1\" is no name"
    [ -z "${patch[$1]-}" ] || fail "there are two bugs called $1"
    name=$1
    names+=("$name")
    patch[$name]=
}

take_line() {
    case $1 in
    '' | '#'*) ;;
    'bug '*) begin "${1#bug }" ;;
    'in '*) source[$name]=${1#in } ;;
    'why '*) why[$name]=${1#why } ;;
    'run '*) run[$name]=${1#run } ;;
    'seconds '*) limit[$name]=${1#seconds } ;;
    soak) soak[$name]=1 ;;
    slow) slow[$name]=1 ;;
    'ticks off') ticks[$name]=off ;;
    'fails '* | 'aborts '* | 'hangs '* | 'says '*)
        caught[$name]=${1%% *} says[$name]=${1#* }
        ;;
    [-+\ @]*) patch[$name]+=$1$'\n' ;;
    *) fail "$file: what is \"$1\"?" ;;
    esac
}

read_bugs() {
    local file line name
    for file in tests/bugs/*.bugs; do
        name=
        while IFS= read -r line; do take_line "$line"; done <"$file"
    done
    for name in "${names[@]}"; do
        [ -n "${source[$name]-}" ] && [ -n "${why[$name]-}" ] &&
            [ -n "${run[$name]-}" ] && [ -n "${caught[$name]-}" ] &&
            [ -n "${patch[$name]}" ] || fail "$name is not all there"
    done
}

# replace OLD NEW - whole lines of $text, which must be there exactly once. (From
# the front: "${text#*$1}" would try each beginning of the text, with each again.)
replace() {
    local before=${text%%$'\n'"$1"*} rest
    if [ "$before" = "$text" ]; then
        echo "its lines are not in the source any more"
        return 1
    fi
    rest=${text:${#before}+1+${#1}}
    if [[ $'\n'$rest == *$'\n'"$1"* ]]; then
        echo "its lines are in the source more than once"
        return 1
    fi
    text=$before$'\n'$2$rest
}

# patched NAME - the source with the bug in it, into $text
patched() {
    local line old='' new=''
    text=$'\n'$(<"${source[$1]}")$'\n'
    while IFS= read -r line; do
        case $line in
        @*)
            replace "$old" "$new" || return 1
            old='' new=''
            ;;
        -*) old+=${line#-}$'\n' ;;
        +*) new+=${line#+}$'\n' ;;
        *) old+=${line# }$'\n' new+=${line# }$'\n' ;;
        esac
    done <<<"${patch[$1]%$'\n'}"
    replace "$old" "$new"
}

# --- a tree with a bug -------------------------------------------------------

# Objects that are made of the source, or include it.
stale() { # PROFILE SOURCE
    local object=$build/$1/${2%.c}.o
    case $2 in
    *.c) [ -e "$object" ] && echo "$object" ;;
    *) grep -rlF --include='*.d' "$2" "$build/$1" | sed 's/\.d$/.o/' ;;
    esac
}

# link_objects PROFILE SOURCE TO - what of a profile need not be compiled
link_objects() {
    mkdir -p "$3" && cp -al "$build/$1/src" "$build/$1/tests" "$3" || return 1
    [ ! -d "$build/$1/tools" ] || cp -al "$build/$1/tools" "$3" || return 1
    find "$3" -type f ! -name '*.o' -delete
    cp -l "$build/$1/libtest.a" "$3" 2>/dev/null
    # of a tool the library is as it was: to link it takes 20 s of a processor
    case $2 in
    tools/*) cp -al "$build/$1"/{enq.o,*.a,static} "$3" 2>/dev/null ;;
    esac
    stale "$1" "$2" | while IFS= read -r object; do
        rm -f "$3${object#"$build/$1"}"
    done
}

# plant NAME TO - the tree in TO/tree
plant() {
    local file tree=$2/tree to text
    rm -rf "$2" && mkdir -p "$tree" || return 1
    patched "$1" || return 1
    cp -as "$root/src" "$root/include" "$root/tools" "$tree" || return 1
    for file in Makefile tests bench; do
        ln -s "$root/$file" "$tree/$file"
    done
    to=$tree/${source[$1]}
    rm "$to" && printf '%s' "${text:1}" >"$to"
}

# grow NAME TO TARGET... - builds in TO what is named as PROFILE/PROGRAM
grow() {
    local name=$1 to=$2 profile
    shift 2
    profile=${1%%/*}
    [ -d "$to/$profile" ] ||
        link_objects "$profile" "${source[$name]}" "$to/$profile" || return 1
    make -C "$to/tree" -j1 BUILD="$to" WERROR= "${@/#/$to/}" 2>&1
}

# --- tests -------------------------------------------------------------------

# alone COMMAND... - with a /dev/shm and processes of its own, all of which
# end with it: a library with a bug leaves things behind.
alone() { "$@"; }
if unshare -mpf --kill-child --mount-proc true 2>/dev/null; then
    alone() {
        # shellcheck disable=SC2016 # it expands what it is given
        unshare -mpf --kill-child --mount-proc /bin/sh -c \
            'mount -t tmpfs -o mode=1777 none /dev/shm && "$@"; exit $?' \
            sh "$@"
    }
fi

# only NAME - the test that it is about, if its suite can run just that one
only() {
    case ${caught[$1]} in
    fails | aborts)
        case ${run[$1]} in debug/tests/unit/*) echo "${says[$1]}" ;; esac
        ;;
    esac
}

# what NAME - the test of that bug, as a human reads it
what() {
    local only
    only=$(only "$1")
    echo "${run[$1]}${ticks[$1]:+ without ticks}${only:+: $only}"
}

seconds_of() { # NAME
    if [ "${caught[$1]}" = hangs ]; then echo $hang_seconds; else echo $patience; fi
}

# play BUILD NAME [SECONDS] - runs the test of that bug
play() {
    local limit=${3-${limit[$2]-$(seconds_of "$2")}} to=$1 UNIT_ONLY
    UNIT_ONLY=$(only "$2")
    if [ -n "$UNIT_ONLY" ]; then export UNIT_ONLY; else unset UNIT_ONLY; fi
    unset ENQ_TICK_MS
    [ -z "${ticks[$2]-}" ] || export ENQ_TICK_MS=60000
    # with a bug, hanging is no surprise
    [ "$1" = "$build" ] || export CK_TIMEOUT_MULTIPLIER=1
    eval "set -- ${run[$2]}" # words, some of them quoted
    case ${2-} in
    *.py) set -- "$limit" "$2" "$(basename "$2" .py)" "$to/$1" "${@:3}" ;;
    *.sh) set -- "$limit" env ENQ_BRIDGE="$to/$1" LOCKCTL="$to/$1" \
        "${@:2}" ;;
    *) set -- "$limit" "$to/$1" "${@:2}" ;;
    esac
    export -f alone
    BUILD=$build timeout -k 1 -s KILL "$1" bash -c 'alone "$@"' bash "${@:2}" \
        </dev/null 2>&1
}

# A test that says so; or whose library, or itself, noticed and aborted (the
# model makes a history that differs shorter and shorter, for some seconds: how
# far it comes, and whether the library then aborts, is the machine's affair).
# A signal that ends it is no less. But it is none if it was too slow.
is_a_verdict() { # STATUS
    [ "$1" -gt 0 ] && { [ "$1" -lt 124 ] || [ "$1" = 134 ] || [ "$1" = 139 ]; }
}

# judge NAME STATUS OUTPUT - is that how it must show?
judge() {
    local words=${says[$1]}
    case ${caught[$1]} in
    fails) grep -qE ":[FS]:[^:]*:$words:|:E:[^:]*:$words:.*timeout" "$3" ;;
    aborts) grep -qE "(:E:[^:]*:$words:|$words).*signal 6" "$3" ;;
    says) is_a_verdict "$2" && grep -qF -e "$words" "$3" ;;
    hangs) [ "$2" -ge 124 ] ;;
    esac
}

# --- without bugs ------------------------------------------------------------

sound() { # NAME OUTPUT
    local n
    [ -x "$build/${run[$1]%% *}" ] || {
        echo "there is no $build/${run[$1]%% *}" >"$2"
        return 1
    }
    for n in 1 2; do
        play "$build" "$1" "$patience" >"$2" && ! judge "$1" 0 "$2" && return
        tail -n 20 "$2" | cut -c 1-200 >&2
        echo "bugs: $(what "$1") fails without a bug, play $n" >&2
    done
    return 1
}

# Each test that is named, once. Those that fail are written to $tmp/unsound.
sound_all() {
    local name what
    declare -A seen
    for name in "${wanted[@]}"; do
        what=$(what "$name")
        [ -z "${seen[$what]-}" ] || continue
        seen[$what]=1
        room
        {
            sound "$name" "$tmp/$name.sound" || echo "$what" >>"$tmp/unsound"
        } &
    done
    wait
}

room() { while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done; }

# --- with them ---------------------------------------------------------------

# show NAME BUILD OUTPUT - plays until it is caught.
show() {
    local n status begin=$EPOCHREALTIME
    for ((n = 1; n <= plays; n++)); do
        play "$2" "$1" >"$3"
        status=$?
        if judge "$1" "$status" "$3"; then
            times >"$tmp/$1.times" # a bug has a shell of its own
            awk -v a="$begin" -v b="$EPOCHREALTIME" -v name="$1" \
                -v says="${says[$1]}" -F '[ms ]+' '
                { cpu += 60 * ($1 + $3) + $2 + $4 }
                END { printf "ok   %-48s %5.1f s, processor %.1f s  %s\n",
                    name, b - a, cpu, says }' "$tmp/$1.times"
            return
        fi
        tail -n 20 "$3" | cut -c 1-200
        echo "$1 survives play $n"
    done
    echo "FAIL $1: survives $(what "$1") (status $status)"
}

# try NAME - plants, builds, plays and judges; says what came of it.
try() {
    local to=$build/bugs/$1 out=$tmp/$1.out
    if ! plant "$1" "$to" >"$out" 2>&1; then
        echo "FAIL $1: not planted: $(tail -n 1 "$out")"
    elif ! grow "$1" "$to" "${run[$1]%% *}" >"$out" 2>&1; then
        tail -n 20 "$out"
        echo "FAIL $1: does not compile"
    else
        show "$1" "$to" "$out"
    fi
    rm -rf "$to"
}

try_all() {
    local name
    for name in "${wanted[@]}"; do
        if grep -qsxF -- "$(what "$name")" "$tmp/unsound"; then
            echo "FAIL $name: $(what "$name") fails without it" \
                >"$tmp/$name.said"
            tail -n 20 "$tmp/$name.sound" 2>/dev/null
            continue
        fi
        room
        try "$name" >"$tmp/$name.said" &
    done
    wait
}

# Those that wait for another day: may they be planted still, and are they looked
# for by a program that `make` has built without being asked for it?
check_others() {
    local name text said
    for name in "${names[@]}"; do
        [ ! -e "$tmp/$name.said" ] || continue
        if ! said=$(patched "$name"); then
            said="not planted: $said"
        elif [ ! -x "$build/${run[$name]%% *}" ]; then
            said="there is no $build/${run[$name]%% *}"
        else
            continue
        fi
        echo "FAIL $name: $said" >"$tmp/$name.said"
        wanted+=("$name")
    done
}

tell() {
    local name caught=0 failed=0
    for name in "${wanted[@]}"; do
        sed 's/^figure/its figure/' "$tmp/$name.said"
        if grep -q "^ok   $name " "$tmp/$name.said"; then
            caught=$((caught + 1))
        else
            failed=$((failed + 1))
        fi
    done
    grep -h '^FAIL' "$tmp"/*.said # again, where it is seen
    echo "figure bugs-caught $caught"
    echo "bugs: $caught passed, $failed failed, 0 skipped"
    [ "$failed" -eq 0 ]
}

# --- the command line --------------------------------------------------------

list() {
    local name
    for name in "${names[@]}"; do
        printf '%s (%s)%s\n  %s\n  caught by %s: %s\n' "$name" \
            "${source[$name]}" "${soak[$name]:+, in a soak}" "${why[$name]}" \
            "${run[$name]}" "${says[$name]}"
    done
}

# For a human: it stays.
build_one() {
    local name=$1 to=$build/bug-$1
    plant "$name" "$to" && grow "$name" "$to" "${run[$name]%% *}" || exit 1
    echo "$name: ${why[$name]}"
    echo "its source: $to/tree/${source[$name]}"
    echo "its test:   $to/${run[$name]}"
    exit 0
}

read_bugs
if [ "${1-}" = --list ]; then
    list
    exit
fi
# draw SEED - of those that are wanted
draw() {
    echo "seed $1"
    mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" |
        awk -v seed="$1" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' |
        sort | head -n "$drawn" | cut -f 2)
}

all=${ENQ_SOAK-} seed=$((RANDOM * 32768 + RANDOM))
case ${1-} in
--all) all=1 && shift ;;
--seed) seed=${2-} && shift 2 ;;
esac
wanted=()
for name in "${names[@]}"; do
    if [ -n "$all" ] || [ -z "${soak[$name]-}" ]; then wanted+=("$name"); fi
done
if [ "${1-}" = --build ]; then
    [ -n "${patch[${2-}]-}" ] || fail "there is no bug ${2-}: try --list"
    build_one "$2"
fi
# The others are played while one of these hangs.
slow_first() {
    local name first=() rest=()
    for name in "${wanted[@]}"; do
        if [ -n "${slow[$name]-}" ]; then first+=("$name"); else rest+=("$name"); fi
    done
    wanted=("${first[@]}" "${rest[@]}")
}

if [ $# -gt 0 ]; then
    wanted=("$@")
elif [ -z "$all" ]; then
    draw "$seed"
fi
slow_first
for name in "${wanted[@]}"; do
    [ -n "${patch[$name]-}" ] || fail "there is no bug $name: try --list"
done
tmp=$(mktemp -d) || exit 1
trap 'rm -rf "$tmp" "$build/bugs"' EXIT
trap 'exit 130' INT TERM
sound_all
try_all
check_others
tell
