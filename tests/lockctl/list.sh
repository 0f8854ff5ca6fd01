#!/usr/bin/env bash
# list.sh - looking at a space: list, who, stats, doctor, dump; names that
# would act upon a terminal; JSON that any reader takes.
. "$(dirname "$0")/lib.bash"

"$LOCKCTL" lock -t none -o A -m E product/Computer >/dev/null
"$LOCKCTL" lock -t 900 -o B -m S product/Printer/A4 >/dev/null
"$LOCKCTL" lock -t 1800 -o C -m X customer/4711 >/dev/null
start run -o D order/1 sleep 900
within 5 is_held order/1
holder=$("$LOCKCTL" list --only pid order/1) # the guardian's
start lock -o W1 -w 900 order/1
waiter=$pid
within 5 somebody_waits order/1
start lock -o W2 -m S -w 900 'order/@'
within 5 n_wait 2 order

# The table -------------------------------------------------------------------

exits 'list' 0 list
is 'a title and a line each' 7 "$(wc -l <"$tmp/out")"
out_has 'columns' \
    '^OBJECT +ARGUMENT +MODE +OWNER +PID +COMMAND +STATE +AGE +TTL +TOKEN +ID$'
out_has 'a row' \
    '^product +Computer +E +A +- +- +orphaned +([0-9]+m)?[0-9]+m?s +none +[0-9]+ +[0-9a-f-]{36}$'
out_has 'a living holder' "^order +1 +E +D +$holder +lockctl-guard +held +"
out_has 'a waiter is indented and marked' \
    "^  order +1 +E\* +W1 +$waiter +lockctl +waiting +([0-9]+m)?[0-9]+m?s +- +- +"
is 'waiters are below their holder, in order' 'D W1 W2' \
    "$(grep -A2 '^order' "$tmp/out" | awk '{print $4}' | xargs)"
is 'columns are aligned' 1 "$(awk 'NR > 1 {print index($0, $NF)}' \
    "$tmp/out" | sort -u | wc -l)"
is 'no colour in a file' 0 "$(grep -c $'\033' "$tmp/out")"

# Filters ---------------------------------------------------------------------

rows()
{
    "$LOCKCTL" list "$@" --only owner 2>"$tmp/err" | xargs
}

is 'by object' 'A B' "$(rows product)"
is 'by key' 'A' "$(rows product/Computer)"
is 'by overlapping key' 'A' "$(rows product/@)"
is 'by key, number of fields' 'B' "$(rows product/@/@)"
is 'by object without locks' '' "$(rows nothing)"
is 'by owner' 'B' "$(rows -o B)"
is 'by mode' 'C' "$(rows -m X)"
is 'by mode, waiting too' 'B W2' "$(rows -m S)"
is 'by pid' 'D' "$(rows -p "$holder")"
is 'by pid of a waiter' 'W1' "$(rows -p "$waiter")"
is 'waiting' 'D W1 W2' "$(rows --waiting)"
is 'in order of arrival' 'A B C D W1 W2' "$(rows)"
is 'sorted by object' 'C D W1 W2 A B' "$(rows --sort object)"
is 'sorted by ttl' 'B C A D W1 W2' "$(rows --sort ttl)"
is 'sorted by ttl, largest first' 'A D W1 W2 C B' "$(rows --sort -ttl)"
is 'sorted by token' '' "$("$LOCKCTL" list --sort TOKEN --only token |
    grep '^[0-9]' | sort -nc 2>&1)"
is 'sorted by mode' 'A D W1 W2 B C' "$(rows --sort mode)"
is 'one column' 'customer/4711' "$("$LOCKCTL" list customer --only spec)"

# A waiter stands under the first of several that it overlaps.
ENQ_SPACE=$ENQ_SPACE.tree
for i in 1 2 3; do
    "$LOCKCTL" lock -t 900 -o "T$i" "tree/$i" >/dev/null
done
"$LOCKCTL" lock -t 900 -m S -o T4 'tree/@/x' >/dev/null
"$LOCKCTL" lock -t 900 -m S -o T5 'tree/y/@' >/dev/null
start lock -o W1 -w 900 'tree/@'
within 5 n_wait 1 tree
start lock -o W2 -w 900 'tree/z/x'
within 5 n_wait 2 tree
start lock -o W3 -w 900 'tree/@/z'
within 5 n_wait 3 tree
is 'waiters of generic keys' 'T1 W1 T2 T3 T4 W2 T5 W3' "$(rows tree)"
ENQ_SPACE=${ENQ_SPACE%.tree}

# who -------------------------------------------------------------------------

exits 'who, held' 75 who product/Computer
out_has 'who names the holder' '^product +Computer +E +A '
exits 'who, overlapping' 75 who product/@/A4
out_has 'who finds by a generic key' '^product +Printer/A4 +S +B '
exits 'who, waiters' 75 who order/1
out_has 'who shows waiters' '^  order +1 +E\* +W1 '
exits 'who, free' 0 who product/Mouse
err_has 'who says that it is free' 'product/Mouse is free; other keys'
exits 'who, other number of fields' 0 who product
exits 'who, free and quiet' 0 who -q product/Mouse
is 'quiet is quiet' 0 "$(cat "$tmp/out" "$tmp/err" | wc -c)"

# Colour ----------------------------------------------------------------------

exits 'colour always' 0 list --color=always
out_has 'titles in colour' $'^\033\\[1mOBJECT'
out_has 'waiters in colour' $'^\033\\[33m  order'
on_terminal()
{
    script -qec "$*" /dev/null </dev/null | grep -c $'\033\\[1m'
}
if command -v script >/dev/null; then
    is 'colour at a terminal' 1 "$(TERM=xterm on_terminal "$LOCKCTL" list)"
    is 'NO_COLOR' 0 "$(NO_COLOR=1 TERM=xterm on_terminal "$LOCKCTL" list)"
    is 'NO_COLOR, empty' 1 "$(NO_COLOR='' TERM=xterm on_terminal "$LOCKCTL" list)"
    is 'TERM=dumb' 0 "$(TERM=dumb on_terminal "$LOCKCTL" list)"
    is 'colour never' 0 \
        "$(TERM=xterm on_terminal "$LOCKCTL" list --color=never)"
else
    skip 'colour at a terminal (no script(1))'
fi

# Names of all bytes ----------------------------------------------------------

evil=$'a\033[31mred\nnew\ttab\x7f'
latin=$'caf\xe9'
"$LOCKCTL" lock -t 900 -o "$evil" "evil/$latin/a\\/b/ü/\"q\"/"$'\u202e' >/dev/null
exits 'list of evil names' 0 list evil
is 'evil names are one line' 2 "$(wc -l <"$tmp/out")"
is 'no control characters' 0 "$(tr -d '\n' <"$tmp/out" | grep -c '[[:cntrl:]]')"
out_has 'they are shown' 'a\\x1b\[31mred\\x0anew\\x09tab\\x7f'
out_has 'bytes that are not UTF-8 are shown' 'caf\\xe9/'
out_has 'UTF-8 is left alone' '/ü/'
out_has 'a slash within a field is escaped' '/a\\/b/'
out_has 'marks of direction are shown' '\\xe2\\x80\\xae'
exits 'refusal by an evil name' 75 lock "evil/@/@/@/@/@"
is 'no control characters in a refusal' 0 \
    "$(tr -d '\n' <"$tmp/err" | grep -c '[[:cntrl:]]')"

# JSON ------------------------------------------------------------------------

if has_json_reader; then
    exits 'list --json' 0 list --json
    is 'list --json: locks' 5 "$(json "$tmp/out" 'len(j["locks"])')"
    order='[l for l in j["locks"] if l["object"] == "order"][0]'
    is 'list --json: waiters' W1,W2 \
        "$(json "$tmp/out" "','.join(w['owner'] for w in ${order}['waiters'])")"
    is 'list --json: pid' "$holder" "$(json "$tmp/out" "${order}['pid']")"
    is 'list --json: command' lockctl-guard "$(json "$tmp/out" "${order}['command']")"
    is 'list --json: state' held "$(json "$tmp/out" "${order}['state']")"
    is 'list --json: a waiter' waiting \
        "$(json "$tmp/out" "${order}['waiters'][0]['state']")"
    is 'list --json: its grant' null \
        "$(json "$tmp/out" "${order}['waiters'][0]['granted_at']")"
    is 'list --json: argument' '["Printer", "A4"]' \
        "$(json "$tmp/out" 'j["locks"][1]["argument"]')"
    is 'list --json: granted_at' 24 \
        "$(json "$tmp/out" 'len(j["locks"][0]["granted_at"])')"
    is 'list --json: token is exact' "$("$LOCKCTL" list product --only token |
        head -n 1)" "$(json "$tmp/out" 'j["locks"][0]["token"]')"
    true_that 'list --json: token is a string' \
        grep -Eq '"token":"[1-9][0-9]*"' "$tmp/out"
    exits 'evil names --json' 0 list --json evil
    is 'evil owner survives' "$(printf '%s' "$evil" | od -An -c)" \
        "$(json "$tmp/out" 'j["locks"][0]["owner"]' | head -c -1 | od -An -c)"
    is 'a byte that is not UTF-8' "'caf\\udce9'" \
        "$(json "$tmp/out" 'ascii(j["locks"][0]["argument"][0])')"
    is 'a quote' '"q"' "$(json "$tmp/out" 'j["locks"][0]["argument"][3]')"
    exits 'list --json of nothing' 0 list --json nothing
    is 'an empty list' 0 "$(json "$tmp/out" 'len(j["locks"])')"
    exits 'who --json' 75 who --json product/Computer
    is 'who --json: free' false "$(json "$tmp/out" 'j["free"]')"
    exits 'who --json, free' 0 who --json product/Mouse
    is 'who --json, free: free' true "$(json "$tmp/out" 'j["free"]')"
    exits 'stats --json' 0 stats --json
    is 'stats --json: held' 5 "$(json "$tmp/out" 'j["held"]')"
    is 'stats --json: waiting' 2 "$(json "$tmp/out" 'j["waiting"]')"
    is 'stats --json: unlinked' false "$(json "$tmp/out" 'j["unlinked"]')"
    exits 'doctor --json' 0 doctor --json
    is 'doctor --json: healthy' true "$(json "$tmp/out" 'j["healthy"]')"
else
    skip 'JSON (no python3)'
fi

# stats, doctor, dump ---------------------------------------------------------

exits 'stats' 0 stats
out_has 'stats: held' '^held +5$'
out_has 'stats: its file' "^space +/dev/shm/.*$space_name"
# goes_on ARGUMENT... -- N PATTERN: until so many lines are like that.
goes_on()
{
    local arguments=()

    while [ "$1" != -- ]; do
        arguments+=("$1")
        shift
    done
    start "${arguments[@]}"
    within 5 has_lines "$2" "$3"
    kill -INT "$pid"
    wait "$pid"
    is "${arguments[*]} goes on until ^C" 130 $?
    cp "$tmp/bg.out" "$tmp/out"
    true_that "${arguments[*]}: lines" has_lines "$2" "$3"
}
has_lines()
{
    [ "$(grep -c "$2" "$tmp/bg.out")" -ge "$1" ]
}
goes_on stats -i 0.05 -- 5 '^ *5 '
out_has 'stats -i: title' '^ +HELD +WAITING +GRANTS/s'
goes_on stats --json -i 0.05 -- 3 '^{.*}$'
exits 'doctor' 0 doctor
out_has 'doctor says so' '^healthy$'
exits 'doctor --fix' 0 doctor --fix
exits 'dump' 0 dump
true_that 'dump prints' test "$(wc -c <"$tmp/out")" -gt 20
"$LOCKCTL" list >/dev/full 2>"$tmp/err"
is 'list into a full file' 1 $?
finish
