#!/bin/sh
# What `make install` puts somewhere is whole: a ten-line program builds with
# pkg-config's flags and runs, and `make uninstall` leaves nothing.
set -u
cd "$(dirname "$0")/../.." || exit 1
build=${BUILD:-build}
tmp=$(mktemp -d) || exit 1
space=enq-${ENQ_TEST_MARK-}install-$$
trap 'rm -rf "$tmp" "/dev/shm/$space"' EXIT
trap 'exit 1' INT TERM
unset DESTDIR PREFIX LIBDIR INCLUDEDIR MANDIR CFLAGS LDFLAGS
. tests/lib/tally.bash

run_make() {
    ${MAKE:-make} -s BUILD="$build" "$@"
}

expect() { # name, command...
    name=$1
    shift
    "$@" >"$tmp/out" 2>&1
    report $? "$name"
}

cat >"$tmp/ten.c" <<'END'
#include <enq.h>
#include <stdio.h>
int main(void)
{
    struct enq *e;
    struct enq_grant g;
    if (enq_open(&e, NULL, NULL) != ENQ_OK)
        return fprintf(stderr, "%s\n", enq_why()), 1;
    int rc = enq_lock(e, ENQ_REQ(.name = "product", .key = {"Computer"},
        .mode = ENQ_MODE_E, .owner = "B"), &g);
    if (rc == ENQ_OK)
        rc = enq_unlock(e, g.handle, g.token);
    enq_close(e);
    return rc != ENQ_OK;
}
END

# A C++ program has no ENQ_REQ, but everything else.
cat >"$tmp/ten.cc" <<'END'
#include <enq.h>
int main()
{
    struct enq *e;
    struct enq_grant g;
    if (enq_open(&e, nullptr, nullptr) != ENQ_OK)
        return 1;
    int rc = enq_lock_spec(e, "product/Computer", "E", "B", 0, 0, &g);
    enq_close(e);
    return rc;
}
END

files() { # DIRECTORY: files and links in it
    (cd "$1" 2>/dev/null && find . ! -type d | sort)
}

same() {
    printf '%s\n' "$1" >"$tmp/a"
    printf '%s\n' "$2" >"$tmp/b"
    diff "$tmp/a" "$tmp/b"
}

real=$(sed -n 's/^#define ENQ_VERSION_[MP][A-Z]* //p' include/enq.h |
    paste -sd.)
wanted=$({
    echo ./include/enq.h
    echo ./include/enq_types.h
    echo ./lib/libenq.a
    echo ./lib/libenq.so
    echo "./lib/libenq.so.${real%%.*}"
    echo "./lib/libenq.so.$real"
    echo ./lib/pkgconfig/enq.pc
    [ ! -e tools/lockctl/lockctl.c ] && [ ! -e tools/lockctl/main.c ] ||
        echo ./bin/lockctl
    for page in tools/*/*.1; do
        [ ! -e "$page" ] || echo "./share/man/man1/${page##*/}"
    done
    echo ./bin/enq-bridge
    echo ./share/man/man8/enq-bridge.8
    echo ./lib/systemd/system/enq-bridge.service
    echo ./lib/systemd/system/enq-bridge.socket
    echo ./lib/systemd/system/enq-space.service
    echo ./lib/sysusers.d/enq-bridge.conf
    [ ! -e tools/lockctl/lockctl.bash ] ||
        echo ./share/bash-completion/completions/lockctl
} | sort)

# In a prefix of its own, used from there.
prefix=$tmp/usr
expect 'install into a prefix' run_make install PREFIX="$prefix"
expect 'all files, and no others' same "$wanted" "$(files "$prefix")"
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig" ENQ_SPACE="shm:$space"
unset PKG_CONFIG_LIBDIR
expect 'a ten-line program builds' sh -c \
    "cc $tmp/ten.c \$(pkg-config --cflags --libs enq) -o $tmp/ten"
expect 'it runs' env LD_LIBRARY_PATH="$prefix/lib" "$tmp/ten"
expect 'it needs the soname' sh -c \
    "LC_ALL=C readelf -d $tmp/ten | grep -qF '[libenq.so.${real%%.*}]'"
expect 'a static one builds' sh -c "cc $tmp/ten.c -o $tmp/static \
    \$(pkg-config --cflags enq) $prefix/lib/libenq.a \
    \$(pkg-config --static --libs-only-l enq | sed 's/-lenq//')"
expect 'it runs as well' "$tmp/static"
expect 'a C++ one builds' sh -c \
    "c++ $tmp/ten.cc \$(pkg-config --cflags --libs enq) -o $tmp/cxx"
expect 'and runs' env LD_LIBRARY_PATH="$prefix/lib" "$tmp/cxx"
expect 'the version is the header'"'"'s' same "$real" \
    "$(pkg-config --modversion enq)"
if [ -x "$prefix/bin/lockctl" ]; then
    expect 'the installed lockctl runs' "$prefix/bin/lockctl" --version
fi
expect 'the installed enq-bridge runs' "$prefix/bin/enq-bridge" --version
expect 'the unit does not hide what the library reads in /proc' sh -c \
    "! grep -E '^Pro(cSubset|tectProc)=' \
    $prefix/lib/systemd/system/enq-bridge.service"
expect 'a space is made for a group, and that is all' sh -c \
    "$prefix/bin/enq-bridge -S shm:$space-made --make-space \
    --space-mode 0660 && [ \"\$(stat -c %a /dev/shm/$space-made)\" = 660 ]; \
    rc=\$?; rm -f /dev/shm/$space-made; exit \$rc"
expect 'uninstall' run_make uninstall PREFIX="$prefix"
expect 'nothing is left of it' same '' "$(files "$prefix")"

# Staged, with every directory elsewhere.
dirs="PREFIX=/opt/e LIBDIR=/opt/e/l64 INCLUDEDIR=/opt/e/h MANDIR=/opt/e/m"
# shellcheck disable=SC2086 # a list of assignments
expect 'install into a DESTDIR' run_make install DESTDIR="$tmp/dest" $dirs
moved=$(echo "$wanted" | sed -e '/systemd\|sysusers/!s|/lib/|/l64/|' \
    -e 's|/include/|/h/|' -e 's|/share/man/|/m/|' | sort)
expect 'LIBDIR, INCLUDEDIR and MANDIR count' same "$moved" \
    "$(files "$tmp/dest/opt/e")"
expect 'nothing outside of PREFIX' same ./e "$(cd "$tmp/dest/opt" && find . \
    -mindepth 1 -maxdepth 1)"
expect 'enq.pc does not know DESTDIR' sh -c \
    "! grep -F '$tmp' $tmp/dest/opt/e/l64/pkgconfig/enq.pc"
expect 'enq.pc knows LIBDIR' grep -qx libdir=/opt/e/l64 \
    "$tmp/dest/opt/e/l64/pkgconfig/enq.pc"
# shellcheck disable=SC2086
expect 'uninstall from a DESTDIR' run_make uninstall DESTDIR="$tmp/dest" $dirs
expect 'nothing is left there' same '' "$(files "$tmp/dest")"

sum_up install
