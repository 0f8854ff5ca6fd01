#!/usr/bin/env bash
# graph.sh - who waits for whom, as text, dot and JSON; cycles are marked in
# all three, and refused where they would come about.
. "$(dirname "$0")/lib.bash"

base=$ENQ_SPACE

# scene NAME: a space of its own.
scene()
{
    ENQ_SPACE=$base.$1
}

# holds OWNER OBJECT [MODE]
holds()
{
    "$LOCKCTL" lock -t none -o "$1" -m "${3:-E}" "$2" >"$tmp/out" 2>"$tmp/err" ||
        fail "$1 gets $2"
}

# waits OWNER OBJECT [MODE]: until it stands in the queue.
waits()
{
    local before
    before=$("$LOCKCTL" list --only state "$2" | grep -c waiting)
    start lock --no-deadlock -w 900 -o "$1" -m "${3:-E}" "$2"
    within 5 n_wait $((before + 1)) "$2" || fail "$1 waits for $2"
}

# The lines without what no two runs have in common.
plain()
{
    sed -E 's/, for ([0-9]+m)?[0-9]+m?s \((pid [0-9]+ lockctl(-guard)?|process gone)\)$//' "$tmp/out"
}

# Nothing ---------------------------------------------------------------------

exits 'graph without a space' 69 graph
scene empty
holds A x/1
exits 'nobody waits' 0 graph --fail
is 'nobody waits is said' 'nobody waits' "$(cat "$tmp/out")"
exits 'nobody waits, dot' 0 graph --dot
is 'a dot without nodes' 'digraph lockctl {|  label="nobody waits";|}' \
    "$(paste -sd '|' "$tmp/out")"
exits 'nobody waits, JSON' 0 graph --json --fail
is 'JSON of nobody' '{"deadlock":false,"cycles":[],"edges":[]}' \
    "$(cat "$tmp/out")"

# A queue ---------------------------------------------------------------------

scene queue
holds A x/1
waits B x/1
waits C x/1 X
exits 'a queue is no cycle' 0 graph --fail
is 'who has it, and who waits before' '  B waits for E x/1
    A has it: E x/1
  C waits for X x/1
    A has it: E x/1
    B waits ahead: E x/1' "$(plain)"
out_has 'since when, and which process' \
    "^  C waits for X x/1, for ([0-9]+m)?[0-9]+m?s \(pid $pid lockctl\)$"
out_has 'a holder that is gone' 'A has it: E x/1, for ([0-9]+m)?[0-9]+m?s \(process gone\)'
exits 'by name' 0 graph -n x
is 'by name, all of it' 5 "$(wc -l <"$tmp/out")"
exits 'by key' 0 graph -n 'x/@'
is 'by key, all of it' 5 "$(wc -l <"$tmp/out")"
exits 'by another key' 0 graph -n x/2
is 'by another key, nothing' 'nobody waits' "$(cat "$tmp/out")"
exits 'by another name' 0 graph --name y
is 'by another name, nothing' 'nobody waits' "$(cat "$tmp/out")"
holds A 'free/@'
waits D free/2
exits 'a generic key is in the way' 0 graph -n free
is 'a generic key' '  D waits for E free/2|    A has it: E free/@' \
    "$(plain | paste -sd '|')"

# Cycles ---------------------------------------------------------------------

scene two
holds A x/1
holds B x/2
waits A x/2
exits 'a deadlock is refused' 76 lock -w 30 -o B x/1
err_has 'the cycle is told' 'B waits for x/1; A has that and waits for x/2'
err_has 'what to do is told' 'unlock what others wait for'
is 'and no id' 0 "$(wc -c <"$tmp/out")"
exits 'it is refused quietly' 76 -q lock -w 30 -o B x/1
is 'quiet is quiet' 0 "$(wc -c <"$tmp/err")"
exits 'without waiting there is none' 75 lock -o B x/1
exits 'run is refused' 76 run -E 3 -w 30 -o B x/1 touch "$tmp/ran"
true_that 'run did not run' test ! -e "$tmp/ran"
exits 'wait is refused' 76 wait -w 30 -o B x/1
exits 'not in a cycle yet' 0 graph --fail
is 'nothing is marked' 0 "$(grep -c '[*]' "$tmp/out")"
waits B x/1
waits C x/1
exits 'a cycle, without --fail' 0 graph
is 'its edges are marked, others not' '* A waits for E x/2
  * B has it: E x/2
* B waits for E x/1
  * A has it: E x/1
  C waits for E x/1
    A has it: E x/1
    B waits ahead: E x/1
deadlock (*): these wait for each other in a cycle: A, B' "$(plain)"
for form in '' --dot --json; do
    # shellcheck disable=SC2086
    exits "a cycle, --fail $form" 76 graph --fail $form
done
exits 'a cycle of another name' 0 graph --fail -n y

scene run
holds A x/1
holds B x/2
waits A x/2
start run --no-deadlock -w 900 -o B x/1 true
true_that 'run --no-deadlock waits' within 5 n_wait 1 x/1
"$LOCKCTL" list x/2 --only id | head -n 1 | xargs "$LOCKCTL" unlock
true_that 'the cycle is open again' within 5 n_wait 0 x/2
exits 'who is left is in no cycle' 0 graph --fail
is 'who is left' '  B waits for E x/1' "$(plain | head -n 1)"

# A cycle over two names, and one beside it of three owners.
scene more
for edge in A:a B:b P:p Q:q R:r; do holds "${edge%:*}" "${edge#*:}/1"; done
for edge in A:b B:a P:q Q:r R:p; do waits "${edge%:*}" "${edge#*:}/1"; done
exits 'two cycles' 76 graph --fail
is 'they are told apart' ': A, B|: P, Q, R' \
    "$(sed -n 's/^deadlock .*cycle//p' "$tmp/out" | paste -sd '|')"
exits 'one name of a cycle' 76 graph --fail -n q
is 'the cycle of one name is whole' 'p/1 q/1 r/1' \
    "$(plain | sed -n 's/^[*].* E //p' | sort | xargs)"
out_has 'no other is shown' '^deadlock .* in a cycle: P, Q, R$'
is 'that is all' 7 "$(wc -l <"$tmp/out")"

# C is behind the request of B, B behind the lock of H, H behind that of C.
scene behind
holds H x/1 S
holds C y/1
waits B x/1 X
waits C x/1 S
waits H y/1
exits 'a cycle through a request' 76 graph --fail
is 'its edges' '* B waits for X x/1
  * H has it: S x/1
* C waits for S x/1
  * B waits ahead: X x/1
* H waits for E y/1
  * C has it: E y/1' "$(plain | grep -v '^deadlock')"

# D is behind one request of B, that waits for H alone; that B waits for D with
# another one is no cycle: the first goes on without it.
scene beside
holds H x/1 S
holds D z/1
waits B x/1 X
waits D x/1 S
waits B z/1
exits 'another request of that owner is no cycle' 0 graph --fail
is 'nothing is marked there' 0 "$(grep -c '[*]' "$tmp/out")"

# Hundreds --------------------------------------------------------------------

scene many
holds A m/1
for i in {1..40}; do start lock -w 900 -m X -o "W$i" m/1; done
true_that '40 wait' within 10 n_wait 40 m/1
exits 'hundreds of edges' 0 graph --dot
is 'all edges, dot' $((40 + 40 * 39 / 2)) "$(grep -c -e '->' "$tmp/out")"
is 'all nodes, dot' 41 "$(grep -c '^  n[0-9]* \[' "$tmp/out")"
exits 'hundreds of edges, text' 0 graph
is 'a long queue is cut short' $((40 + 1 + 2 + 3 + 4 + 5 + 35 * 6)) \
    "$(wc -l <"$tmp/out")"
out_has 'and says so' '^    and 35 more in its way$'
if has_json_reader; then
    exits 'hundreds of edges, JSON' 0 graph --json
    is 'all edges, JSON' $((40 + 40 * 39 / 2)) \
        "$(json "$tmp/out" 'len(j["edges"])')"
fi

# Odd names -------------------------------------------------------------------

scene odd
odd=$'q"u\\o&lt;te\n\033[31m\xe9 ü ->'
holds "$odd" 'k"e\\y'/$'\t]'
waits $'\u202e;' 'k"e\\y'/$'\t]'
exits 'odd names' 0 graph
is 'odd names, a line each' 2 "$(wc -l <"$tmp/out")"
is 'odd names, no control characters' 0 \
    "$(tr -d '\n' <"$tmp/out" | grep -c '[[:cntrl:]]')"
out_has 'odd names are shown' \
    '^ +"q\\"u\\\\o&lt;te\\x0a\\x1b\[31m\\xe9 ü ->" has it: E k"e'
holds '' nobody/1
holds '' nobody/2
waits '' nobody/1
exits 'nobody is in no cycle' 0 graph --fail -n nobody

# A reader of the dot that is printed: an id and quoted attributes, in which a
# backslash takes the next character and \n is a line.
dot_reader='
import re, sys
text = r"\"((?:[^\"\\\n]|\\.)*)\""
attr = r"[a-z]+=(?:[a-z0-9]+|" + text.replace("(", "(?:", 1) + ")"
attrs = r" \[" + attr + r"(?:, " + attr + r")*\];"
def plain(s):
    s = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], s)
    assert not re.search(r"&(?!amp;)", s), s
    return s.replace("&amp;", "&")
lines = open(sys.argv[1], encoding="utf-8").read().split("\n")
assert lines[0] == "digraph lockctl {" and lines[-2:] == ["}", ""]
names, edges = {}, []
for line in lines[1:-2]:
    label = plain(re.search("label=" + text, line)[1])
    if m := re.fullmatch(r"  n(\d+)" + attrs, line):
        assert m[1] not in names
        names[m[1]] = label
    elif m := re.fullmatch(r"  n(\d+) -> n(\d+)" + attrs, line):
        edges.append((names[m[1]], names[m[2]], label, "color=red" in line,
                      "style=dashed" in line))
    else:
        assert re.fullmatch("  label=" + text + ";", line), line
j = {"names": list(names.values()), "edges": edges}
'
dot()
{
    python3 -c "$dot_reader"'
print(eval(sys.argv[2]))' "$tmp/out" "$1" 2>&1
}

if has_json_reader; then
    exits 'odd names, dot' 0 graph --dot
    is 'odd names, dot: nodes' 4 "$(dot 'len(j["names"])')"
    is 'odd names, dot: labels' \
        '"q\"u\\o&lt;te\x0a\x1b[31m\xe9 ü ->"|"\xe2\x80\xae;"|an unnamed owner|an unnamed owner' \
        "$(dot '"|".join(sorted(j["names"], key=lambda n: (n[1] != "q", n)))')"
    is 'odd names, dot: nobody is not himself' 1 \
        "$(dot 'sum(e[0] == "an unnamed owner" for e in j["edges"])')"
    exits 'odd names, JSON' 0 graph --json
    is 'odd names, JSON: owner' "$(printf '%s' "$odd" | iconv -f utf-8 -t utf-8 \
        2>/dev/null | head -c 4)" "$(json "$tmp/out" '[e for e in j["edges"]
if e["waiter"]["owner"]][0]["blocker"]["owner"][:4]')"
    is 'odd names, JSON: key' '["\t]"]' "$(json "$tmp/out" '[e for e in j["edges"]
if e["waiter"]["owner"]][0]["waiter"]["argument"]')"

    scene two
    exits 'a cycle, dot' 0 graph --dot
    is 'a cycle, dot: red' 'A>B B>A' "$(dot \
        '" ".join(sorted({e[0] + ">" + e[1] for e in j["edges"] if e[3]}))')"
    is 'a cycle, dot: dashed is behind a request' True \
        "$(dot 'all(e[4] == ("\nbehind " in e[2]) for e in j["edges"])')"
    exits 'a cycle, JSON' 0 graph --json
    is 'a cycle, JSON: deadlock' true "$(json "$tmp/out" 'j["deadlock"]')"
    is 'a cycle, JSON: owners' '[{"cycle": 1, "owners": ["A", "B"]}]' \
        "$(json "$tmp/out" 'j["cycles"]')"
    is 'a cycle, JSON: edges' '[["A", "B"], ["B", "A"]]' \
        "$(json "$tmp/out" 'sorted([e["waiter"]["owner"], e["blocker"]["owner"]]
for e in j["edges"] if e["cycle"] == 1)')"
    is 'JSON: why' '["before", "has"]' \
        "$(json "$tmp/out" 'sorted({e["because"] for e in j["edges"]})')"
    is 'JSON: a waiter waits' '["waiting"]' \
        "$(json "$tmp/out" 'sorted({e["waiter"]["state"] for e in j["edges"]})')"
    is 'JSON: a token is a string' true "$(json "$tmp/out" \
        'all(e["blocker"]["token"].isdigit() for e in j["edges"])')"
    scene more
    exits 'a refused deadlock, JSON' 76 lock --json -w 30 -o B -m X a/1
    is 'a refused deadlock, JSON: result' ENQ_DEADLOCK \
        "$(json "$tmp/out" 'j["result"]')"
else
    skip 'dot and JSON (no python3)'
fi

# Usage -----------------------------------------------------------------------

exits 'two forms' 64 graph --dot --json
err_has 'two forms are named' 'give --dot or --json, not both'
exits 'an object without a name' 64 graph -n /x
exits 'a word too many' 64 graph x
scene empty
"$LOCKCTL" graph >/dev/full 2>"$tmp/err"
is 'graph into a full file' 1 $?
finish
