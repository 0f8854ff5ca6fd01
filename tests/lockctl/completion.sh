#!/usr/bin/env bash
# completion.sh - the completion of bash, with live names; the manual page.
. "$(dirname "$0")/lib.bash"

# Completes the line; lockctl is found by PATH, as a user's is.
mkdir "$tmp/bin"
ln -s "$LOCKCTL" "$tmp/bin/lockctl"
PATH=$tmp/bin:$PATH
# shellcheck source=../../tools/lockctl/lockctl.bash
. "$top/tools/lockctl/lockctl.bash"
complete_line()
{
    COMP_LINE=$1
    COMP_POINT=${#1}
    COMPREPLY=()
    _lockctl
    printf '%s\n' "${COMPREPLY[@]}" | sort | paste -sd ' '
}

is 'completion is installed' 'complete -F _lockctl lockctl' "$(complete -p lockctl)"
is 'nothing locked, no space' '' "$(complete_line 'lockctl lock ')"
"$LOCKCTL" lock -o A product/Computer >/dev/null
"$LOCKCTL" lock -o 'B C' product/Printer >/dev/null
"$LOCKCTL" lock -o D 'order/@' >/dev/null
id=$("$LOCKCTL" list order --only id)

is 'commands' 'lock' "$(complete_line 'lockctl lo')"
is 'all commands' \
    'adopt break doctor dump graph list lock promote renew run stats unlock wait watch who' \
    "$(complete_line 'lockctl ')"
is 'commands after an option' 'wait watch who' "$(complete_line 'lockctl --json w')"
is 'options' '--keep' "$(complete_line 'lockctl lock --k')"
is 'options of run' '--heartbeat' "$(complete_line 'lockctl run --hea')"
is 'options of wait' '--wait' "$(complete_line 'lockctl wait --w')"
is 'options of watch' '--interval' "$(complete_line 'lockctl watch --i')"
is 'options of graph' '--dot' "$(complete_line 'lockctl graph --d')"
is 'objects of graph' 'product/Computer' \
    "$(complete_line 'lockctl graph -n product/C')"
is 'global options' '--version' "$(complete_line 'lockctl --vers')"
is 'options of each command' '' "$(complete_line 'lockctl unlock --k')"
is 'modes' 'E O S X' "$(complete_line 'lockctl lock -m ')"
is 'columns' 'token ttl' "$(complete_line 'lockctl list --sort t' |
    xargs -n 1 | sort -r | tail -n 2 | sort | xargs)"
is 'live objects' 'order/@ product/Computer product/Printer' \
    "$(complete_line 'lockctl who ')"
is 'live objects by beginning' 'product/Computer' \
    "$(complete_line 'lockctl lock -w 5 product/C')"
is 'live objects of run' 'product/Printer' \
    "$(complete_line 'lockctl run -E 3 product/P')"
is 'live objects of wait' 'product/Printer' \
    "$(complete_line 'lockctl wait -w 5 order/@ product/P')"
is 'live objects of watch' 'order/@' "$(complete_line 'lockctl watch --json o')"
is 'live objects after a heartbeat' 'order/@' \
    "$(complete_line 'lockctl lock --heartbeat 5s o')"
is 'past an at sign' '' "$(complete_line 'lockctl who order/@x')"
is 'live ids' "$id" "$(complete_line "lockctl unlock ${id:0:12}")"
is 'confirmation' "$id" "$(complete_line "lockctl break $id --confirm ")"
is 'confirmation, one word' "$id" "$(complete_line "lockctl break $id --confirm=")"
is 'live owners, quoted' 'A B\ C D' "$(complete_line 'lockctl list -o ')"
is 'programs of run' yes \
    "$(complete_line 'lockctl run a tru' | grep -qw true && echo yes)"
is 'the space of the line' '' \
    "$(complete_line "lockctl -S shm:$space_name-none who ")"
is 'the space of the line, one word' 'order/@' \
    "$(space=$ENQ_SPACE
        ENQ_SPACE=shm:none
        complete_line "lockctl --space=$space who o")"

# The manual ------------------------------------------------------------------

page=$top/tools/lockctl/lockctl.1
if command -v mandoc >/dev/null; then
    is 'mandoc finds nothing' '' "$(mandoc -T lint "$page" 2>/dev/null |
        grep -v 'referenced manual not found: Xr enq-bridge')"
    mandoc -T utf8 "$page" 2>/dev/null | col -b >"$tmp/page"
    for command in lock run unlock promote renew adopt break list who wait \
        watch graph stats doctor dump; do
        true_that "the page has $command" grep -q "^     $command" "$tmp/page"
    done
    options=$(for command in lock run unlock renew list wait watch graph stats doctor \
        break; do
        "$LOCKCTL" help "$command" | sed -n 's/^ .*\(--[a-z-]*\) .*/\1/p'
    done | sort -u)
    for option in $options; do
        true_that "the page has $option" grep -q -e "$option" "$tmp/page"
    done
else
    skip 'the manual (no mandoc)'
fi
true_that 'the page has examples' grep -q '^.Sh EXAMPLES' "$page"
finish
