#!/usr/bin/env bash
# spaces.sh - bad spaces: none, removed, garbage, truncated, of somebody else,
# read-only, full. Each is said; nobody crashes, nothing is made by looking.
. "$(dirname "$0")/lib.bash"

# None ------------------------------------------------------------------------

for command in list 'who a' stats doctor 'doctor --fix' dump 'unlock x' \
    'promote x' 'renew x' 'adopt x' 'break x' 'break x --confirm=x'; do
    # shellcheck disable=SC2086
    exits "no space: $command" 69 $command
done
err_has 'no space: how one comes into being' 'there is no lock space .*lockctl lock'
exits 'no directory' 69 -S "$tmp/none/space" lock a
is 'no directory: making a space is not the advice' 0 \
    "$(grep -c 'there is no lock space' "$tmp/err")"
is 'looking makes no space' 0 "$(find /dev/shm -name "*$space_name*" | wc -l)"
if has_json_reader; then
    exits 'no space --json' 69 list --json
    is 'no space --json: result' ENOENT "$(json "$tmp/out" 'j["result"]')"
else
    skip 'no space --json (no python3)'
fi

# Two of them, a path ---------------------------------------------------------

exits 'lock makes a space' 0 lock a
exits 'a list of it' 0 list
file=$("$LOCKCTL" stats | awk '$1 == "space" {print $2}')
true_that 'its file' test -f "$file"
is 'its permissions' 600 "$(stat -c %a "$file")"
exits 'another space' 0 -S "$ENQ_SPACE.other" run a true
exits 'by option' 0 -S "$ENQ_SPACE.other" who -q a
exits 'by environment' 75 who a
exits 'by path' 75 -S "$file" who a
rm -f "$file.other"

# Removed ---------------------------------------------------------------------

take -t none removed
start run -w 30 removed true
within 5 somebody_waits removed
"$LOCKCTL" stats -i 0.05 >"$tmp/bg2.out" 2>"$tmp/bg2.err" &
watcher=$!
pids+=("$watcher")
within 5 has_line "$tmp/bg2.out"
rm -f "$file"
wait "$watcher"
is 'stats -i ends with the space' 69 $?
exits 'a removed space' 69 list
kill -TERM "$pid"
ended 'a wait in a removed space can be ended' 143

# Damaged ---------------------------------------------------------------------

"$LOCKCTL" lock a >/dev/null
file_bytes=$(stat -c %s "$file")
damaged()
{
    local what=$1 command

    for command in list doctor stats dump 'lock b' 'run b true' 'unlock x'; do
        # shellcheck disable=SC2086
        exits "$what: $command" 70 $command
        [ -s "$tmp/err" ] || fail "$what: $command says nothing"
    done
    true_that "$what: the file is named" grep -q "$space_name" "$tmp/err"
}
head -c 65536 /dev/urandom >"$file"
damaged 'garbage'
: >"$tmp/empty"
printf 'no segment\n' >"$file"
damaged 'a short text'
rm -f "$file"
"$LOCKCTL" lock a >/dev/null
is 'as large as before' "$file_bytes" "$(stat -c %s "$file")"
dd if=/dev/urandom of="$file" bs=64 count=1 conv=notrunc 2>/dev/null
damaged 'a header of garbage'
rm -f "$file"
"$LOCKCTL" lock a >/dev/null
truncate -s 4096 "$file"
damaged 'truncated'
rm -f "$file"

# Permission ------------------------------------------------------------------

as_nobody()
{
    setpriv --reuid=65534 --regid=65534 --clear-groups "$LOCKCTL" "$@" \
        >"$tmp/out" 2>"$tmp/err"
}
if [ "$(id -u)" = 0 ] && command -v setpriv >/dev/null; then
    LOCKCTL_WAS=$LOCKCTL
    cp "$LOCKCTL" "$tmp/lockctl" # nobody may not reach the build
    chmod 755 "$tmp" "$tmp/lockctl"
    LOCKCTL=$tmp/lockctl
    "$LOCKCTL" lock a >/dev/null
    chmod 600 "$file"
    for command in list 'lock a' 'who a' 'run a true' doctor stats; do
        # shellcheck disable=SC2086
        as_nobody $command
        is "no permission: $command" 77 $?
    done
    true_that 'no permission: the file is named' grep -q "$space_name" "$tmp/err"
    chmod 644 "$file"
    as_nobody list
    is 'readable: list' 0 $?
    as_nobody who a
    is 'readable: who' 75 $?
    as_nobody lock b
    is 'readable: lock' 77 $?
    rm -f "$file"
    as_nobody lock a
    is 'a stranger makes the space' 65534 "$(stat -c %u "$file")"
    for command in list 'lock a' 'who a' 'run a true' doctor stats; do
        # shellcheck disable=SC2086
        exits "a stranger's space: $command" 77 $command
    done
    err_has 'whose it is, and what to say' \
        "$space_name belongs to user nobody \(65534\), .*\?owner=nobody"
    exits 'a strangers space, named' 75 -S "$ENQ_SPACE?owner=nobody" who a
    exits 'by number' 75 -S "$ENQ_SPACE?owner=65534" lock a
    ENQ_SPACE="$ENQ_SPACE?owner=nobody" exits 'by environment' 75 who a
    exits 'a typo there' 64 -S "$ENQ_SPACE?onwer=nobody" who a
    err_has 'a typo there is said' 'unknown option ".onwer"'
    exits 'of an unknown user' 64 -S "$ENQ_SPACE?owner=no-such" who a
    rm -f "$file"
    exits 'not there yet' 69 -S "$ENQ_SPACE?owner=nobody" lock a
    true_that 'not made for that user' test ! -e "$file"
    err_has 'not there yet: who makes it' 'only its owner, user nobody .* can make it'
    mkdir -m 755 "$tmp/closed"
    as_nobody -S "$tmp/closed/space" lock a
    true_that 'a closed directory' test $? -ne 0
    true_that 'a closed directory is said' test -s "$tmp/err"
    LOCKCTL=$LOCKCTL_WAS
else
    skip 'permissions (not root)'
fi

# A full table ----------------------------------------------------------------

cat >"$tmp/small.c" <<'END'
#include <enq.h>
int main(void)
{
    struct enq_open_opts opts = {.size = sizeof(opts), .slots = 4};
    struct enq *e;
    int rc = enq_open(&e, NULL, &opts);
    if (rc == 0)
        enq_close(e);
    return rc != 0;
}
END
archive=$(dirname "$LOCKCTL")/libenq.a
if cc -I "$top/include" -o "$tmp/small" "$tmp/small.c" "$archive" -luuid \
    -lpthread 2>"$tmp/err" && "$tmp/small"; then
    n=0
    while "$LOCKCTL" lock "full/$n" >"$tmp/out" 2>"$tmp/err"; do
        n=$((n + 1))
        [ "$n" -lt 2000 ] || break
    done
    true_that 'a full table takes what it should' test "$n" -ge 4
    exits 'a full table' 1 lock full/more
    err_has 'a full table is said' '[Oo]verflow|full'
    exits 'a full table: run' 125 run full/more true
    exits 'a full table can be read' 75 who full/0
    exits 'a full table: overflows are counted' 0 stats
    out_has 'a full table: overflows' '^overflows +[1-9]'
    exits 'a full table: unlock' 0 unlock "$("$LOCKCTL" list --only id full/0)"
    exits 'one more fits then' 0 lock full/more
    rm -f "$file"
else
    skip 'a full table (no compiler, or no libenq.a beside lockctl)'
fi

# Full, read-only, somebody who may log out ------------------------------------

in_mounts()
{
    unshare --mount sh -e -c "$1" sh "$LOCKCTL" "$tmp" >"$tmp/out" 2>"$tmp/err"
}
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    mkdir "$tmp/fs"
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs -o size=64k none "$2/fs"
        exec "$1" -S "$2/fs/space" lock a'
    is 'no room for a space' 1 $?
    true_that 'no room is said' grep -Eqi 'space|room|full' "$tmp/err"
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs -o size=16m none "$2/fs"
        export ENQ_SPACE="$2/fs/space"
        "$1" lock a >/dev/null
        head -c 64m /dev/zero >"$2/fs/zero" 2>/dev/null || true
        "$1" doctor; "$1" who -q a >/dev/null || echo "still $?"'
    is 'a full file system' 0 $?
    out_has 'doctor warns of it' '^warning: the file system of .* KiB left'
    out_has 'the lock is there still' '^still 75$'
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs none "$2/fs"; mount -o remount,ro "$2/fs"
        exec "$1" -S "$2/fs/space" lock a'
    is 'a read-only directory' 77 $?
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs none /run; mkdir -p /run/systemd/system
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \
            "$2/lockctl" lock a'
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs none /run; mkdir -p /run/systemd/system
        exec setpriv --reuid=65534 --regid=65534 --clear-groups \
            "$2/lockctl" doctor'
    is 'a warning is no finding' 0 $?
    out_has 'doctor warns of RemoveIPC' '^warning: .*uid 65534: logind removes'
    # shellcheck disable=SC2016
    in_mounts 'mount -t tmpfs none /run; mkdir -p /run/systemd/system
        "$1" -S "$ENQ_SPACE.root" lock a; exec "$1" -S "$ENQ_SPACE.root" doctor'
    is 'a system user, no warning' 0 "$(grep -c '^warning' "$tmp/out")"
    # shellcheck disable=SC2016
    in_mounts 'exec setpriv --reuid=65534 --regid=65534 --clear-groups \
            "$2/lockctl" doctor'
    is 'no logind, no warning' 0 "$(grep -c '^warning' "$tmp/out")"
else
    skip 'full, read-only, RemoveIPC (no mount namespace)'
fi

# memory cgroups --------------------------------------------------------------

# Of either version, one of our own: which may be refused to root as well.
make_cgroup() { # its limit in bytes
    local at
    for at in /sys/fs/cgroup/memory /sys/fs/cgroup /sys/fs/cgroup/unified; do
        group=$at/enq-${ENQ_TEST_MARK:-}$$
        [ -e "$at/cgroup.procs" ] && mkdir "$group" 2>/dev/null || continue
        for limit in memory.limit_in_bytes memory.max; do
            [ -w "$group/$limit" ] && echo "$1" >"$group/$limit" && return
        done
        rmdir "$group"
    done 2>/dev/null
    return 1
}
in_cgroup() { # command...
    # shellcheck disable=SC2016
    ENQ_SPACE=$ENQ_SPACE.cgroup \
        sh -c 'echo $$ >"$1/cgroup.procs" && shift && exec "$@"' sh \
        "$group" "$@" >"$tmp/out" 2>"$tmp/err"
}
if make_cgroup 12M; then
    in_cgroup "$LOCKCTL" lock cgroup
    in_cgroup "$LOCKCTL" doctor
    is 'a memory limit that is near is no finding' 0 $?
    out_has 'doctor warns of it' \
        "^warning: the memory cgroup .*${group##*/} has .* of 12288 KiB left"
    in_cgroup "$LOCKCTL" doctor --json
    out_has 'in JSON, too' '"warnings":.*of 12288 KiB left'
    mkdir "$group/below"
    group=$group/below
    in_cgroup "$LOCKCTL" doctor
    out_has 'a limit above counts as well' 'cgroup .* of 12288 KiB left'
    rmdir "$group"
    group=${group%/below}
    echo 4G >"$group/$limit"
    in_cgroup "$LOCKCTL" doctor
    is 'a memory limit that is far, no warning' 0 \
        "$(grep -c 'memory cgroup .* of 4194304 KiB' "$tmp/out")"
    rmdir "$group"
else
    skip 'memory cgroups (none can be made)'
fi

# What a host of the other version says, by files of our own: $tmp/groups is
# what is mounted, and the two files of this process are covered by others.
tell_groups() { # mountinfo (G for the directory), cgroup
    rm -rf "$tmp/groups"
    mkdir -p "$tmp/groups/a/b"
    echo "${1//G/$tmp/groups}" >"$tmp/mountinfo"
    echo "$2" >"$tmp/cgroup"
}
set_group() { # directory, max, current, inactive files; all in MiB
    local files=(memory.max memory.current)
    [ -e "$tmp/groups/v1" ] &&
        files=(memory.limit_in_bytes memory.usage_in_bytes)
    case $2 in
    max) echo max ;;
    *) echo $(($2 << 20)) ;;
    esac >"$tmp/groups/$1/${files[0]}"
    echo $(($3 << 20)) >"$tmp/groups/$1/${files[1]}"
    printf 'anon 1\ninactive_file %d\ntotal_inactive_file %d\nfile 5\n' \
        $(($4 << 20)) $(($4 << 20)) >"$tmp/groups/$1/memory.stat"
}
told() { # what the warning says of it, empty where there is none
    # shellcheck disable=SC2016
    ENQ_SPACE=$ENQ_SPACE.cgroup unshare --mount sh -e -c '
        mount --bind "$2/mountinfo" /proc/$$/mountinfo
        mount --bind "$2/cgroup" /proc/$$/cgroup
        exec "$1" doctor' sh "$LOCKCTL" "$tmp" >"$tmp/out" 2>"$tmp/err"
    sed -n 's/^warning: the memory cgroup \([^:]*\) left: .*/\1/p' "$tmp/out"
}
v2='30 23 0:26 / G rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate'
v1='31 23 0:27 / G rw,nosuid shared:5 - cgroup cgroup rw,cpu,memory'
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    ENQ_SPACE=$ENQ_SPACE.cgroup "$LOCKCTL" lock groups >"$tmp/id"
    tell_groups "$v2" '0::/a/b'
    set_group a/b 100 90 0
    is 'a group of version 2 that is nearly full' \
        '/a/b has 10240 KiB of 102400 KiB' "$(told)"
    set_group a/b 100 98 88
    is 'what files take can make way, so it is not full' '' "$(told)"
    set_group a/b max 500 0
    is 'a group without a limit' '' "$(told)"
    set_group a 100 99 0
    is 'the limit of a group above' '/a has 1024 KiB of 102400 KiB' "$(told)"
    set_group a/b 50 49 49
    set_group . 64 63 0
    is 'the nearest limit of all of them' '/a has 1024 KiB of 102400 KiB' \
        "$(told)"
    set_group a 100 101 0
    is 'a group that is over its limit' '/a has 0 KiB of 102400 KiB' "$(told)"

    tell_groups "${v2/ \/ / /kube/pod }" '0::/kube/pod/a'
    set_group a 100 99 0
    is 'a container sees its own part of the groups' \
        '/a has 1024 KiB of 102400 KiB' "$(told)"
    tell_groups "${v2/ \/ / /kube/pod }" '0::/'
    set_group . 100 99 0
    is 'a container that is told of no group but the root' \
        '/ has 1024 KiB of 102400 KiB' "$(told)"

    tell_groups "$v1" '4:cpu,memory:/a'
    touch "$tmp/groups/v1"
    set_group a 100 99 0
    is 'a group of version 1' '/a has 1024 KiB of 102400 KiB' "$(told)"
    set_group a 100 99 90
    is 'files make way there as well' '' "$(told)"
    echo 9223372036854771712 >"$tmp/groups/a/memory.limit_in_bytes"
    set_group . 100 10 0
    is 'version 1 says no limit by a large number' '' "$(told)"
    tell_groups "$v1" '4:cpu:/a'
    touch "$tmp/groups/v1"
    set_group a 100 99 0
    is 'a group of another controller' '' "$(told)"

    tell_groups 'nothing of this is a line' ':::'
    is 'what cannot be read warns of nothing' '' "$(told)"
    is 'and is no error' '' "$(cat "$tmp/err")"
else
    skip 'cgroups of both versions (no mount namespace)'
fi
finish
