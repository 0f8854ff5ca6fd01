#!/usr/bin/env bash
# sets.sh - lockctl lock --also and run --also: several locks as one set.
. "$(dirname "$0")/lib.bash"

# lock ------------------------------------------------------------------------

exits 'three are had as one' 0 lock -o A a/1 --also a/2 -a b
is 'a line for each' 3 "$(wc -l <"$tmp/out")"
mapfile -t ids < <(cut -d ' ' -f 1 "$tmp/out")
is 'in the order of the command line' 'a/2' "$("$LOCKCTL" list | grep "${ids[1]}" |
    awk '{ print $1 "/" $2 }')"
exits 'one of them taken: none is had' 75 lock -o B c/1 -a a/2
err_has 'the one in the way is named' 'a/2 is locked by A'
true_that 'nothing of it is held' is_free c/1
exits 'each is unlocked by itself' 0 unlock "${ids[1]}"
true_that 'and is free' is_free a/2
is 'the others are held' held "$("$LOCKCTL" list --only state a/1 |
    sed 's/orphaned/held/')"
exits 'JSON is a list' 0 lock --json d/1 -a d/2
is 'JSON: so many' 2 "$(json "$tmp/out" 'len(j["locks"])')"
is 'JSON: of each what a single one has' d/2 \
    "$(json "$tmp/out" 'j["locks"][1]["lock"]["spec"]')"
exits 'one lock: JSON as ever' 0 lock --json d/3
is 'JSON: its id' 36 "$(json "$tmp/out" 'len(j["id"])')"

"$LOCKCTL" lock f/1 -a f/2 >/dev/full 2>"$tmp/err"
is 'output that cannot be written' 1 $?
err_has 'is said' 'released f/1 and 1 more: cannot write its id'
true_that 'and nothing is left held' is_free f/2

# what cannot be --------------------------------------------------------------

exits 'at odds with itself' 64 lock -m X q/1 -a q/@
err_has 'says which two' 'locks 1 and 2 of the set conflict with each other'
exits 'a bad one among them' 64 lock q/1 -a /x
exits 'no object for --also' 64 lock q/1 --also
err_has 'says so' 'also'
exits 'two operands are no set' 64 lock q/1 q/2

# shellcheck disable=SC2046 # words of numbers
exits 'sixty-four are most' 64 lock s/0 $(seq -f '-a s/%g' 64)
err_has 'says how many' '64 locks'
# shellcheck disable=SC2046
exits 'and can be had' 0 lock s/0 $(seq -f '-a s/%g' 63)

# waiting ---------------------------------------------------------------------

take -t none -o A w/2
start lock -o B -w 10 w/1 -a w/2 -a w/3
true_that 'it waits for all as one' within 5 n_wait 1 w/3
exits 'others do not pass it' 75 lock -o C w/1
"$LOCKCTL" unlock "$id"
ended 'it has them when the last is free' 0
is 'all of them' 3 "$(wc -l <"$tmp/bg.out")"
exits 'a wait ends in time' 75 lock -o C -w 0.1 v -a w/3
err_has 'and says what it was for' 'w/3 is locked by B'
true_that 'nothing is left in the queue' n_wait 0 v
start lock -o D -w forever v -a w/3
true_that 'one that waits' within 5 n_wait 1 v
"$LOCKCTL" unlock "$("$LOCKCTL" list --only id v)"
ended 'is cancelled through any of its locks' 75
true_that 'as a whole' n_wait 0 w/3
start lock -o D -w forever v -a w/3
within 5 n_wait 1 v
kill -INT "$pid"
ended 'a signal gives up' 130
true_that 'and leaves nothing' is_free v

# --heartbeat -----------------------------------------------------------------

start lock -o A --heartbeat 5s h/1 -a h/2
within 5 has_line "$tmp/bg.out"
"$LOCKCTL" break "$("$LOCKCTL" list --only id h/2)" \
    --confirm="$("$LOCKCTL" list --only id h/2)"
ended 'one of them broken' 79
err_has 'it is said which' 'lost h/2'
true_that 'the rest is given back' is_free h/1

# run -------------------------------------------------------------------------

# shellcheck disable=SC2016 # for the program's shell
exits 'a program under several' 0 run -a r/2 r/1 -- \
    sh -c 'echo "$ENQ_OBJECT"; echo "$ENQ_TOKEN" | wc -l
        echo "$ENQ_LOCK_ID" | wc -l'
is 'it is told which' 'r/1 r/2 2 2' "$(xargs <"$tmp/out")"
true_that 'afterwards both are free' is_free r/2
# shellcheck disable=SC2016
exits 'while it runs both are held' 75 run -a r/2 r/1 -- \
    "$LOCKCTL" -S "$ENQ_SPACE" lock -o other r/2
start run -o A -a r/2 r/1 -- sleep 60
within 5 is_held r/2
"$LOCKCTL" break "$("$LOCKCTL" list --only id r/2)" \
    --confirm="$("$LOCKCTL" list --only id r/2)"
ended 'when one is lost the program ends' 79
err_has 'it is said which' 'lost r/2: .*; ending sleep'
true_that 'the other is given back' is_free r/1
finish
