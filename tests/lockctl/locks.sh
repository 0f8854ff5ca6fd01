#!/usr/bin/env bash
# locks.sh - lock, unlock, promote, renew, adopt, break on a real space: what
# they print, what they refuse and how.
. "$(dirname "$0")/lib.bash"

# lock ------------------------------------------------------------------------

exits 'lock' 0 lock -o A product/Computer
out_has 'lock prints id and token' '^[0-9a-f-]{36} [1-9][0-9]*$'
exits 'conflict' 75 lock -o B product/Computer
err_has 'conflict names the holder' 'product/Computer is locked by A \(mode E'
err_has 'conflict tells the ttl' '\(mode E, [0-9.]+ m?s, process gone, ttl 1[45] min [0-9]+ s left\)'
is 'conflict prints no id' 0 "$(wc -c <"$tmp/out")"
exits 'conflict, quiet' 75 -q lock -o B product/Computer
is 'quiet is quiet' 0 "$(wc -c <"$tmp/err")"
exits 'cumulation' 0 lock -o A product/Computer
exits 'another key' 0 lock -o B product/Printer
exits 'generic key' 75 lock -o B product/@
exits 'literal @' 0 lock -o B 'product/\@'
exits 'default owner' 0 lock mine/a
exits 'default owner is of one process' 75 lock mine/a
ENQ_OWNER=Env exits 'owner from the environment' 0 lock mine/b
ENQ_OWNER=Env exits 'owner from the environment cumulates' 0 lock mine/b
exits 'shared' 0 lock -m S shared
exits 'shared, again' 0 lock -m S shared
exits 'exclusive over shared' 75 lock -m X shared
exits 'lock is seen by the next' 0 list --only spec
out_has 'spec of a literal @' '^product/\\@$'

# Waiting ---------------------------------------------------------------------

begin=$(now_ms)
exits 'wait time over' 75 lock -o B -w 0.2 product/Computer
true_that 'never before its time' test $(($(now_ms) - begin)) -ge 200
err_has 'time over is said' 'timed out: product/Computer is locked by A'
exits 'no notice without a terminal' 75 lock -o B -w 0.4 product/Computer
is 'only the refusal' 1 "$(wc -l <"$tmp/err")"
exits 'notice, verbose' 75 lock -v -o B -w 0.5 product/Computer
err_has 'notice names the holder' 'waiting for product/Computer, locked by A'
if command -v script >/dev/null; then
    script -qec "'$LOCKCTL' lock -o B -w 0.5 product/Computer" /dev/null \
        >"$tmp/out" 2>"$tmp/err" </dev/null
    is 'exit code at a terminal' 75 $?
    out_has 'notice at a terminal' 'waiting for product/Computer, locked by A'
else
    skip 'notice at a terminal (no script(1))'
    skip 'exit code at a terminal'
fi
take -o A -t 30 queue
start lock -o B -w 30 queue
true_that 'the wait is seen' within 5 somebody_waits queue
"$LOCKCTL" unlock "$id"
ended 'granted when it is free' 0
out_has 'grant after a wait prints id and token' '^[0-9a-f-]{36} [0-9]+$'
start lock -o C -w forever queue
within 5 somebody_waits queue
kill -TERM "$pid"
ended 'TERM ends a wait' 143
true_that 'nothing waits after TERM' n_wait 0 queue
start lock -o C -w 30 queue
within 5 somebody_waits queue
kill -INT "$pid"
ended 'INT ends a wait' 130
start lock -o C -w 30 queue
within 5 somebody_waits queue
waiting=$("$LOCKCTL" list --json queue >"$tmp/j"
    json "$tmp/j" 'j["locks"][0]["waiters"][0]["id"]')
exits 'unlock of a waiting request' 0 unlock "$waiting"
ended 'its waiter is told' 75
err_has 'cancelled is said' '[Cc]ancel'

# Time ------------------------------------------------------------------------

take -t 0.1 short
true_that 'a ttl ends the lock' within 5 is_free short
exits 'unlock after the ttl' 79 unlock "$id"
take -t 0.4 renewed
exits 'renew' 0 renew -t 60 "$id"
"$LOCKCTL" list --json renewed >"$tmp/j"
true_that 'renew sets the ttl' \
    test "$(json "$tmp/j" 'j["locks"][0]["ttl_left_ms"]')" -gt 50000
exits 'renew to none' 0 renew -t none "$id"
"$LOCKCTL" list --json renewed >"$tmp/j"
is 'no ttl' null "$(json "$tmp/j" 'j["locks"][0]["ttl_left_ms"]')"
exits 'renew with another token' 79 renew --token 1 "$id"
exits 'renew of nothing' 79 renew 00000000-0000-4000-8000-000000000000

# unlock ----------------------------------------------------------------------

take -o A freed
exits 'unlock with another token' 79 unlock --token $((token + 1)) "$id"
exits 'it is held still' 75 who freed
exits 'unlock with its token' 0 unlock --token "$token" "$id"
true_that 'it is free' is_free freed
exits 'unlock twice' 79 unlock "$id"
exits 'unlock of nothing' 79 unlock nothing
exits 'unlock, verbose' 79 unlock -v nothing
true_that 'the id is named' grep -q nothing "$tmp/err"
old=$token
take -o A freed
true_that 'tokens grow' test "$token" -gt "$old"

# promote ---------------------------------------------------------------------

take -m O -o A opt/1
first=$id first_token=$token
take -m O -o B opt/1
exits 'promote' 0 promote "$first"
out_has 'promote prints id and token' "^$first [0-9]+\$"
true_that 'promote gives a new token' \
    test "$(cut -d' ' -f2 "$tmp/out")" -gt "$first_token"
exits 'the other has lost' 79 promote "$id"
exits 'unlock of a lost lock' 79 unlock "$id"
take -o A plain
exits 'promote of a lock that is not optimistic' 75 promote "$id"

# --keep, adopt, break --------------------------------------------------------

take --keep -o A kept
"$LOCKCTL" list --json kept >"$tmp/j"
is 'kept: no ttl' null "$(json "$tmp/j" 'j["locks"][0]["ttl_ms"]')"
is_orphaned() # as soon as lockctl, which has said all, has ended as well
{
    "$LOCKCTL" list --json kept >"$tmp/j"
    [ "$(json "$tmp/j" 'j["locks"][0]["state"]')" = orphaned ]
}
true_that 'kept: orphaned' within 5 is_orphaned
is 'kept: on_death' keep "$(json "$tmp/j" 'j["locks"][0]["on_death"]')"
take --keep -t 60 -o A kept/too
"$LOCKCTL" list --json kept/too >"$tmp/j"
is 'kept with a ttl' 60000 "$(json "$tmp/j" 'j["locks"][0]["ttl_ms"]')"
take --keep -o B kept/3
exits 'adopt' 0 adopt "$id"
out_has 'adopt prints id and token' "^$id [0-9]+\$"
true_that 'adopt gives a new token' test "$(cut -d' ' -f2 "$tmp/out")" -gt "$token"
exits 'the old token is void' 79 unlock --token "$token" "$id"
exits 'adopt of nothing' 79 adopt nothing
start run alive sleep 60
within 5 is_held alive
alive=$("$LOCKCTL" list --only id alive)
exits 'adopt of the living' 75 adopt "$alive"

exits 'break without confirmation' 64 break "$id"
out_has 'break shows the victim' "kept +3 +E +B .* $id"
err_has 'break asks for it' "confirm it with --confirm=$id"
exits 'break without confirmation, as JSON' 64 --json break "$id"
is 'a program that reads JSON gets no table' 0 "$(wc -c <"$tmp/out")"
exits 'break with another id' 64 break "$id" --confirm=x
exits 'it is not broken' 75 who kept/3
exits 'break' 0 break "$id" --confirm="$id"
true_that 'it is broken' is_free kept/3
exits 'break of nothing' 79 break nothing --confirm=nothing
exits 'break of nothing, unconfirmed' 79 break nothing

# JSON ------------------------------------------------------------------------

if has_json_reader; then
    exits 'lock --json' 0 lock --json -o J -t 60 json/1
    is 'lock --json: result' ENQ_OK "$(json "$tmp/out" 'j["result"]')"
    is 'lock --json: owner' J "$(json "$tmp/out" 'j["lock"]["owner"]')"
    id=$(json "$tmp/out" 'j["id"]')
    is 'lock --json: same id' "$id" "$(json "$tmp/out" 'j["lock"]["id"]')"
    exits 'refusal --json' 75 lock --json -o K json/1
    is 'refusal --json: result' ENQ_BUSY "$(json "$tmp/out" 'j["result"]')"
    is 'refusal --json: blocker' J "$(json "$tmp/out" 'j["blocker"]["owner"]')"
    is 'refusal --json: its id' "$id" "$(json "$tmp/out" 'j["blocker"]["id"]')"
    exits 'unlock --json' 0 unlock --json "$id"
    is 'unlock --json: id' "$id" "$(json "$tmp/out" 'j["id"]')"
    exits 'unlock --json of nothing' 79 unlock --json "$id"
    true_that 'fault --json is JSON' json "$tmp/out" 'j["message"]' >/dev/null
else
    skip 'JSON of lock, unlock and refusals (no python3)'
fi
finish
