#!/bin/bash
# systemd.sh - the units as they are installed, under a real systemd. It is the
# first process of namespaces of its own, in a control group of its own, on a
# root of tmpfs where it sees nothing of this machine but /usr, which it cannot
# write to, and has no network but its own loopback.
#
# It is this script, four times: outside, in a mount namespace (cage), making
# the root (new-root), and as a service of that systemd (in-there).
set -u

# --- in there: what is tested ------------------------------------------------

ok() { # NAME COMMAND...
    local name=$1
    shift
    if "$@" >/run/said 2>&1; then
        echo "ok      $name"
    else
        echo "FAILED  $name"
        tail -n 8 /run/said
        systemctl status enq-bridge enq-space --no-pager 2>&1 | head -n 24
    fi
}

within() { # SECONDS COMMAND...
    local end=$((SECONDS + $1))
    shift
    until "$@"; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.1
    done
}

is() { [ "$1" = "$2" ] || { echo "\"$2\" is not \"$1\""; false; }; }
fails() { ! "$@"; }
main() { systemctl show -P MainPID enq-bridge; }
active() { systemctl is-active -q "$1"; }
restarts() { systemctl show -P NRestarts enq-bridge; }
has_same_main() { active enq-bridge && is "$1" "$(main)"; }
has_new_main() {
    local now
    now=$(main)
    [ "$now" != 0 ] && [ "$now" != "$1" ] && active enq-bridge
}

lists() { # WHAT NAME [OPTION...]: one line
    is "$1" "$(lockctl "${@:3}" list --only spec "$2")"
}

member() { # COMMAND...: as one of the group enq
    setpriv --reuid=65534 --regid=65534 --groups="$(getent group enq |
        cut -d: -f3)" "$@"
}

stranger() { setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }
is_refused() { "$@" >/dev/null 2>&1; is 77 $?; }

# The first client is answered by a bridge that was not there before.
start_it() {
    ok 'sysusers made the group' getent group enq
    ok 'the units are well-formed' systemd-analyze verify --man=no \
        enq-bridge.service enq-bridge.socket enq-space.service
    ok 'the sockets listen' active enq-bridge.socket
    ok 'nobody has started the bridge yet' fails active enq-bridge
    ok 'a client starts it' lockctl -S tcp://127.0.0.1 lock a/1
    ok 'it has said that it is ready' active enq-bridge
    ok 'it runs as its user' is enq "$(ps -o user= "$(main)")"
}

share_it() {
    ok "the space is root's and the group's" is root:enq:660 \
        "$(stat -c %U:%G:%a /dev/shm/enq)"
    ok 'root of the host shares the space' lists a/1 a
    ok 'so does a member of the group' member lockctl lock b/2
    ok 'the bridge sees that' lists b/2 b -S unix:/run/enq/bridge
    ok 'a member of the group uses its socket' \
        member lockctl -S unix:/run/enq/bridge lock c/3
    ok 'nobody else uses the space' is_refused stranger lockctl list
    ok 'nor its socket' fails stranger lockctl -S unix:/run/enq/bridge list
}

# With a lock held by a client that must not notice.
restart_it() {
    local holder token old

    lockctl -S tcp://127.0.0.1 run d/4 sh -c \
        'until [ -e /run/done ]; do sleep 0.1; done' &
    holder=$!
    ok 'a client holds a lock' within 20 lists d/4 d
    token=$(lockctl list --only token d)
    same_lock() { is "$token" "$(lockctl list --only token d)"; }
    old=$(main)
    ok 'units are read anew' systemctl daemon-reload
    ok 'SIGHUP is sent' systemctl kill -s HUP enq-bridge
    ok 'it goes on' has_same_main "$old"
    ok 'it restarts' systemctl restart enq-bridge
    ok 'that is another process' has_new_main "$old"
    ok 'which holds the lock' same_lock
    old=$(main)
    kill -KILL "$old"
    ok 'killed, it is started again' within 20 has_new_main "$old"
    ok 'and holds the lock' same_lock
    old=$(main)
    ok 'it feeds the watchdog' eval "sleep 3; has_same_main $old"
    kill -STOP "$old"
    ok 'stopped, it is started again by the watchdog' \
        within 40 has_new_main "$old"
    ok 'and holds the lock still' same_lock
    ok 'its client holds it as well' kill -0 "$holder"
    touch /run/done
    ok 'and has never noticed' wait "$holder"
}

stop_it() {
    local score

    ok 'it stops' systemctl stop enq-bridge.service enq-bridge.socket
    ok 'nobody had to kill it for that' is success \
        "$(systemctl show -P Result enq-bridge)"
    ok 'the space outlives it, with what is held' lists a/1 a
    score=$(systemd-analyze security --no-pager enq-bridge.service 2>/dev/null |
        sed -n 's/.*exposure level.*: \([0-9]*\)\.\([0-9]\).*/\1\2/p')
    ok "its exposure is at most 1.7 ($score tenths)" [ "${score:-99}" -le 17 ]
}

# Would this test see it? Each makes a unit that cannot do its work.
break_it() {
    local there=/etc/systemd/system/enq-bridge.service.d/broken.conf line

    for line in Nice=0 ProcSubset=pid Group=nogroup \
        $'ReadWritePaths=\nReadOnlyPaths=/dev/shm'; do
        printf '[Service]\nRestart=no\n%s\n' "$line" >$there
        systemctl daemon-reload
        systemctl reset-failed enq-bridge
        if [ "$line" = Nice=0 ]; then
            ok 'it would start again' systemctl start enq-bridge.service
            systemctl stop enq-bridge.service 2>/dev/null
        else
            ok "with ${line##*$'\n'} it does not start" \
                fails systemctl start enq-bridge.service
        fi
    done
}

in_there() {
    start_it
    share_it
    restart_it
    stop_it
    break_it
    echo over
}

# --- around it ---------------------------------------------------------------

devices() {
    mount -t tmpfs -o mode=755 tmpfs dev && mkdir dev/shm dev/pts &&
        mount -t tmpfs -o mode=1777 tmpfs dev/shm &&
        mount -t devpts -o newinstance,ptmxmode=666 devpts dev/pts || exit
    ln -s pts/ptmx dev/ptmx # without it there is no PrivateDevices=
    for node in null zero full random urandom tty; do
        touch "dev/$node" && mount --bind "/dev/$node" "dev/$node" || exit
    done
    touch dev/console && mount --bind out/console dev/console || exit
}

# What is here is not seen from it, and is not there.
new_root() { # DIRECTORY
    mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs "$1/root" &&
        cd "$1/root" || exit
    mkdir usr etc proc sys dev run tmp var old root out
    mount --bind /usr usr && mount -o remount,bind,ro usr &&
        mount -t tmpfs -o mode=755 tmpfs usr/local &&
        cp -a "$1/dest/usr/local/." usr/local/ &&
        mount --bind "$1/out" out || exit
    for link in bin sbin lib lib64; do ln -s "usr/$link" "$link"; done
    for file in passwd group shadow gshadow nsswitch.conf ld.so.conf \
        ld.so.conf.d; do cp -a "/etc/$file" etc/; done
    mount -t tmpfs -o mode=755 tmpfs run && mount -t tmpfs tmpfs tmp || exit
    chmod 1777 tmp
    mkdir var/log var/lib var/tmp
    devices
    mount -t proc proc proc && mount --bind proc/sys proc/sys &&
        mount -o remount,bind,ro proc/sys && mount -t sysfs -o ro sysfs sys &&
        mount -t cgroup2 cgroup2 sys/fs/cgroup || exit
    pivot_root . old && cd / && umount -l /old || exit
    ip link set lo up
    hash -r
}

# No unit of the machine's but what ours depend on.
units() {
    local there=/etc/systemd/system unit

    mkdir -p $there/enq-bridge.service.d
    for unit in /usr/lib/systemd/system/*.target.wants/*; do
        ln -sf /dev/null "$there/${unit##*/}"
    done
    printf '[Service]\nWatchdogSec=2\n' >$there/enq-bridge.service.d/test.conf
    printf '[Unit]\nWants=enq-bridge.socket in-there.service\n' \
        >$there/in-there.target
    cat >$there/in-there.service <<'UNIT'
[Unit]
After=enq-bridge.socket
[Service]
Type=oneshot
Environment=PATH=/usr/local/bin:/usr/bin:/usr/sbin LC_ALL=C.UTF-8
ExecStart=/bin/bash -c '/out/script in-there >/out/result 2>&1'
ExecStopPost=/bin/systemctl --force --no-block exit 0
UNIT
    : >/etc/machine-id
    ldconfig
    systemd-sysusers
}

boot() { # DIRECTORY
    new_root "$1"
    units >/out/units 2>&1
    exec env -i container=enq-test setpriv --bounding-set \
        -sys_module,-sys_time,-sys_rawio,-syslog /lib/systemd/systemd \
        --system --unit=in-there.target --log-target=console
}

# A control group that goes with it: below ours, and the root of all that it
# sees.
cage() { # DIRECTORY
    local ours group

    ours=$(sed -n 's/^0:://p' /proc/self/cgroup)
    mount --make-rprivate / &&
        mount -t cgroup2 cgroup2 "$1/cgroup" || return 77
    group=$1/cgroup${ours%/}/enq-test-$$
    mkdir "$group" || return 77
    timeout -k 5 "${ENQ_TEST_SECONDS:-240}" bash -c 'echo 0 >"$1/cgroup.procs" &&
        exec unshare -mpnuiCf --kill-child "$2" new-root "$3"' \
        cage "$group" "$1/out/script" "$1" </dev/null
    for _ in 1 2 3 4 5 6 7 8 9 10; do
        find "$group" -depth -type d -exec rmdir {} + 2>/dev/null
        [ -e "$group" ] || return 0
        sleep 0.2
    done
    echo "it left $group"
    return 1
}

case ${1-} in
in-there) in_there; exit ;;
new-root) boot "$2" ;;
cage) cage "$2"; exit ;;
esac

cd "$(dirname "$0")/../.." || exit 1
skip() {
    echo "skipped: $1"
    echo 'systemd: 0 passed, 0 failed, 1 skipped'
    exit 0
}
[ "$(id -u)" = 0 ] || skip 'only root can make these namespaces'
[ -x /lib/systemd/systemd ] || skip 'there is no systemd'
unshare -mpnuiCf true 2>/dev/null || skip 'there may be no namespaces here'
tmp=$(mktemp -d) || exit 1
trap 'rm -rf --one-file-system "$tmp"' EXIT
trap 'exit 1' INT TERM
mkdir "$tmp/root" "$tmp/out" "$tmp/cgroup"
cp tests/install/systemd.sh "$tmp/out/script" || exit 1
: >"$tmp/out/console"
unset DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR
${MAKE:-make} -s BUILD="${BUILD:-build}" install DESTDIR="$tmp/dest" \
    >"$tmp/install" 2>&1
unshare -m "$tmp/out/script" cage "$tmp" >"$tmp/caged" 2>&1
status=$?
[ $status != 77 ] || skip "no control group can be made: $(tail -n 1 "$tmp/caged")"
result=$tmp/out/result
[ -e "$result" ] && grep -v '^over$' "$result"
passed=$(grep -c '^ok ' "$result" 2>/dev/null)
failed=$(grep -c '^FAILED' "$result" 2>/dev/null)
if [ $status != 0 ] || ! grep -q '^over$' "$result" 2>/dev/null; then
    echo "FAILED  it comes to its end (status $status)"
    failed=$((${failed:-0} + 1))
    tail -n 20 "$tmp/install" "$tmp/caged" "$tmp/out/units" "$tmp/out/console"
fi
echo "systemd: ${passed:-0} passed, ${failed:-0} failed, 0 skipped"
[ "${failed:-0}" = 0 ]
