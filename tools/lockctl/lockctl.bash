# lockctl.bash - completion for lockctl(1), in bash: commands, options, and
# the objects and ids that are locked at this moment.
#
# It needs nothing but bash. The words are read from the line itself, as bash
# splits "product/Computer/@" and "shm:enq" at '@' and ':'.

# Options that take a value, and how to complete it.
_lockctl_value()
{
    case $1 in
    -m | --mode) echo 'S E X O' ;;
    --color) echo 'auto always never' ;;
    --sort | --only)
        echo 'object argument mode owner pid command state age ttl token id' \
            'spec peer'
        ;;
    *) return 1 ;;
    esac
}

_lockctl_options()
{
    local global='--space --json --color --quiet --verbose --help --version'
    local take='--also --mode --owner --no-wait --wait --no-deadlock --ttl'

    case $1 in
    lock) echo "$take --heartbeat --keep $global" ;;
    run)
        echo "$take --heartbeat --exit-code --grace --foreground --kill $global"
        ;;
    wait) echo "--mode --owner --wait $global" ;;
    watch) echo "--owner --interval --wait $global" ;;
    unlock | promote) echo "--token $global" ;;
    renew) echo "--ttl --token $global" ;;
    break) echo "--confirm $global" ;;
    list) echo "--owner --mode --pid --waiting --sort --only $global" ;;
    graph) echo "--name --dot --fail $global" ;;
    stats) echo "--interval $global" ;;
    doctor) echo "--fix $global" ;;
    *) echo "$global" ;;
    esac
}

# The table as it is now, in the space that the line names. @1: a column;
# the rest: the space's option, then how lockctl was called.
_lockctl_live()
{
    local column=$1 space=$2 program=$3

    "$program" ${space:+-S "$space"} list --only "$column" 2>/dev/null | sort -u
}

# Sets, from the words before the one at the cursor: command, space, program,
# and last, the option whose value is due.
_lockctl_scan()
{
    local i

    command='' space='' last=''
    program=${words[0]/#\~\//$HOME/}
    for ((i = 1; i < ${#words[@]} - 1; i++)); do
        if [[ -n $last ]]; then
            [[ $last == -S || $last == --space ]] && space=${words[i]}
            last=''
            continue
        fi
        case ${words[i]} in
        --space=*) space=${words[i]#*=} ;;
        -S?*) space=${words[i]#-S} ;;
        -[SamowtEgpi]) last=${words[i]} ;;
        -n) [[ $command != graph ]] || last=--name ;;
        --space | --color | --also | --mode | --owner | --wait | --ttl | \
            --heartbeat | --exit-code | --grace | --pid | --token | --sort | \
            --only | --interval | --confirm | --name) last=${words[i]} ;;
        -*) ;;
        *)
            operands+=("${words[i]}")
            : "${command:=${words[i]}}"
            ;;
        esac
    done
}

# Adds those candidates (a line each) that go on from the current word, quoted
# for the shell, without the part that bash takes for words of their own.
_lockctl_reply()
{
    local line cut=''

    [[ $current == *[@:=]* ]] && cut=${current%"${current##*[@:=]}"}
    while IFS= read -r line; do
        [[ -n $line && $line == "$current"* ]] || continue
        line=${line#"$cut"}
        COMPREPLY+=("$(printf '%q' "$line")")
    done
}

_lockctl()
{
    local line=${COMP_LINE:0:COMP_POINT}
    local -a words operands=()
    local command space last program current

    COMPREPLY=()
    read -ra words <<<"$line"
    [[ $line == *[[:space:]] ]] && words+=('')
    current=${words[-1]}
    _lockctl_scan
    if [[ $last == -o || $last == --owner ]]; then
        _lockctl_reply < <(_lockctl_live owner "$space" "$program")
    elif [[ $last == --name || $last == -a || $last == --also ]]; then
        _lockctl_reply < <(_lockctl_live spec "$space" "$program")
    elif [[ $last == --confirm ]]; then
        _lockctl_reply <<<"${operands[1]}"
    elif [[ -n $last ]]; then
        _lockctl_reply < <(_lockctl_value "$last" | tr ' ' '\n')
    elif [[ $command == run && ${#operands[@]} -ge 2 ]]; then
        _lockctl_program
    elif [[ $current == --confirm=* ]]; then
        _lockctl_reply <<<"--confirm=${operands[1]}"
    elif [[ $current == -* ]]; then
        _lockctl_reply < <(_lockctl_options "$command" | tr ' ' '\n')
    else
        _lockctl_operand
    fi
}

_lockctl_operand()
{
    case $command in
    '')
        _lockctl_reply < <(printf '%s\n' lock unlock promote renew run list \
            who wait watch graph stats doctor dump adopt break)
        ;;
    lock | run | list | who | wait | watch)
        _lockctl_reply < <(_lockctl_live spec "$space" "$program")
        ;;
    unlock | promote | renew | adopt | break)
        _lockctl_reply < <(_lockctl_live id "$space" "$program")
        ;;
    esac
}

# The program of "run", and then its files.
_lockctl_program()
{
    if ((${#operands[@]} == 2)); then
        mapfile -t COMPREPLY < <(compgen -c -- "$current")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

complete -F _lockctl lockctl
