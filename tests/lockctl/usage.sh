#!/usr/bin/env bash
# usage.sh - wrong command lines: each has one line that names the mistake, and
# exit code 64; help and version; the forms of options and values.
. "$(dirname "$0")/lib.bash"

one_line()
{
    is "$1: one line" 1 "$(wc -l <"$tmp/err")"
}

exits 'no command' 64
err_has 'no command is said' 'give a command'
one_line 'no command'
exits 'unknown command' 64 lokc a
err_has 'unknown command is named' 'unknown command "lokc"; did you mean lock\?'
one_line 'unknown command'
exits 'unlike any command' 64 frobnicate
is 'nothing is guessed for it' 0 "$(grep -c mean "$tmp/err")"
exits 'beginning of a command' 64 doct
err_has 'a beginning finds its command' 'did you mean doctor'
exits 'unknown long option' 64 lock --mde E a
err_has 'unknown long option is named' 'lock: unknown option --mde; did you mean --mode'
exits 'unknown global option' 64 --jsn list
err_has 'unknown global option is named' 'unknown option --jsn; did you mean --json'
exits 'unknown letter' 64 lock -Z a
err_has 'unknown letter is named' 'unknown option -Z'
exits 'option of another command' 64 unlock --keep x
err_has 'option of another command is named' 'unlock: unknown option --keep'
exits 'value missing' 64 lock a --mode
err_has 'value missing is said' 'option --mode needs a value: MODE'
exits 'value not wanted' 64 list --json=yes
err_has 'value not wanted is said' '--json takes no value'
exits 'too few words' 64 lock
err_has 'too few words shows the form' 'lock OBJ'
exits 'too many words' 64 lock a b
err_has 'too many words names the first' '"b" is one argument too many'
exits 'run without a program' 64 run a
exits 'bad mode' 64 lock -m Q a
err_has 'bad mode is named' '"Q" is not a mode: S, E, X or O'
exits 'empty mode' 64 lock -m '' a
exits 'two modes' 64 lock -m SX a
for wait in '' -1 x 1x 1.s . 1e3 0x10 inf 99999999999999999999; do
    exits "wait '$wait'" 64 lock --wait="$wait" a
done
err_has 'bad wait is named' '"99999999999999999999" is not a time'
exits 'ttl 0' 64 lock -t 0 a
err_has 'ttl 0 is named' '"0" is not a time above 0'
exits 'ttl forever is for waits' 64 lock -t forever a
exits 'wait none is for ttls' 64 lock -w none a
exits 'token 0' 64 unlock --token 0 x
exits 'token beyond 64 bits' 64 unlock --token 18446744073709551616 x
exits 'pid no number' 64 list -p me
exits 'exit code beyond 255' 64 run -E 256 a true
exits 'bad colour' 64 --color=red list
exits 'unknown column' 64 list --sort ownr
err_has 'unknown column is named' 'unknown column "ownr"; did you mean owner'
exits 'unknown column of --only' 64 list --only x
exits 'interval 0' 64 stats -i 0
exits 'empty object' 64 lock ''
exits 'object without a name' 64 lock /a
# shellcheck disable=SC1003
exits 'lone backslash' 64 lock 'a\'
exits 'too many fields' 64 lock a/1/2/3/4/5/6/7/8/9/10/11/12/13/14/15/16/17
exits 'option after the object of run' 64 run a -w 5 true
err_has 'option after the object is named' 'option -w must come before'
exits 'address of another kind' 64 -S http://localhost:3721 list
exits 'address of no kind' 64 -S nowhere list
is 'nothing was made' 0 "$(find /dev/shm -name "*$space_name*" | wc -l)"
long=$(printf '%0128d' 0)
exits 'name of 128 bytes' 64 lock "$long"
exits 'owner of 128 bytes' 64 lock -o "$long" a
exits 'key of 512 bytes' 64 lock "a/$(printf '%0512d' 0)"

# Help and version ------------------------------------------------------------

for command in lock unlock promote renew run list who wait watch graph stats doctor \
    dump adopt break; do
    exits "$command --help" 0 "$command" --help
    out_has "$command --help has its usage" "^usage: lockctl $command"
    exits "help $command" 0 help "$command"
done
exits '--help' 0 --help
out_has '--help lists the commands' '^  promote +ID'
exits 'help' 0 help
exits '-h' 0 -h
exits '--version' 0 --version
out_has '--version prints numbers' '^lockctl [0-9]+\.[0-9]+\.[0-9]+ '
exits '-V after a command' 0 list -V
exits '--help of a program' 0 run a printf '%s\n' --help
out_has '--help of a program is its own' '^--help$'
"$LOCKCTL" --help >/dev/full 2>"$tmp/err"
is 'full output' 1 $?
err_has 'full output is said' 'cannot write the output: No space left'

# Forms of options ------------------------------------------------------------

for form in '-mS' '-m S' '--mode S' '--mode=S' '-vm S' '-m s'; do
    # shellcheck disable=SC2086
    exits "form $form" 0 lock -t 1 $form forms/a
done
exits 'options after the object' 0 lock forms/b -m S -t 0.2
exits 'space before the command' 0 -S "$ENQ_SPACE" list
exits 'space after the command' 0 list -S "$ENQ_SPACE"
exits 'space after the object' 0 list forms --space="$ENQ_SPACE"
exits '-- ends the options' 0 lock -t 1 -- -v
exits 'a dash alone is a word' 0 lock -t 1 -

# Each option of every command is a variable as well --------------------------

LOCKCTL_JSON=1 exits 'JSON by the environment' 0 list
out_has 'JSON by the environment' '"locks":'
for off in '' 0; do
    LOCKCTL_JSON=$off exits 'no JSON by the environment' 0 list
    out_has 'no JSON by the environment' '^no locks|^OBJECT|^$'
done
LOCKCTL_JSON=yes exits 'neither 0 nor 1' 64 list
err_has 'the variable is named' 'LOCKCTL_JSON: "yes" is neither 0 nor 1'
LOCKCTL_COLOR=always exits 'colour by the environment' 0 list
LOCKCTL_COLOR=red exits 'no such colour' 64 list
err_has 'the variable of colour is named' 'LOCKCTL_COLOR: "red" is not auto'
LOCKCTL_COLOR=always exits 'an option comes after' 0 list --color never
LOCKCTL_QUIET=1 exits 'quiet by the environment' 79 unlock none
is 'nothing is explained' '' "$(cat "$tmp/err")"
LOCKCTL_VERBOSE=1 exits 'what is done by the environment' 0 lock -t 1 forms/v
for option in $("$LOCKCTL" list --help | sed -n '/every command/,$p' |
    grep -oE -- '--[a-z]+' | grep -vE -- '--(space|help|version)$'); do
    name=LOCKCTL_${option#--}
    declare -x "${name^^}=none"
    exits "$option is a variable" 64 list
    err_has "${name^^} is named" "${name^^}: "
    unset "${name^^}"
done

for time in 0 0.001 0.5 5 500ms 1s 1m 1h 1d forever; do
    exits "wait $time" 0 lock -t 1 -w "$time" "times/$time"
done
for ttl in 0.0001 0.5 90 500ms 10s 15m 2h 1d none; do
    exits "ttl $ttl" 0 lock -t "$ttl" "ttls/$ttl"
done
finish
