"""nets.py - networks of our own, which end with this process.

The namespaces have no names: file descriptors hold them, so that nothing
outlives us, whatever we die of. A client lives in a namespace by being made
there; the thread goes in, opens its socket, and comes back.
"""
import contextlib
import ctypes
import os
import subprocess

CLONE_NEWNET = 0x40000000

_libc = ctypes.CDLL(None, use_errno=True)


def ip(*args):
    subprocess.run(['ip'] + list(args), check=True, timeout=30)


def _unshare():
    if _libc.unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')
    ip('link', 'set', 'lo', 'up')


def _open_own():
    return os.open('/proc/self/ns/net', os.O_RDONLY | os.O_CLOEXEC)


def _enter(fd):
    if _libc.setns(fd, CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'setns')


def begin():
    """A loopback of our own, whose ports nobody else uses. Without the right
    to it the host's will do; only hosts that vanish need more."""
    try:
        _unshare()
    except OSError:
        print('no network namespace: on the loopback of this host')


class Host:
    """A host on a cable of its own: 10.N.0.2 here, we are 10.N.0.1."""

    def __init__(self, n):
        self.ours, self.its = '10.%d.0.1' % n, '10.%d.0.2' % n
        self.near, self.far = 'near%d' % n, 'far%d' % n
        self.home = _open_own()
        try:
            _unshare()
            self.fd = _open_own()
            self.plug()
        finally:
            _enter(self.home)
        ip('address', 'add', self.ours + '/24', 'dev', self.near)
        ip('link', 'set', self.near, 'up')

    def plug(self):
        """In its namespace."""
        ip('link', 'add', self.far, 'type', 'veth', 'peer', 'name', self.near,
           'netns', '/proc/%d/fd/%d' % (os.getpid(), self.home))
        ip('address', 'add', self.its + '/24', 'dev', self.far)
        ip('link', 'set', self.far, 'up')

    @contextlib.contextmanager
    def inside(self):
        _enter(self.fd)
        try:
            yield
        finally:
            _enter(self.home)

    # --- faults: as long as they last, nothing says no ---

    def pull(self):
        """The cable, at its end."""
        with self.inside():
            ip('link', 'set', self.far, 'down')

    def plug_in(self):
        with self.inside():
            ip('link', 'set', self.far, 'up')

    def lose_ours(self):
        """What we send arrives nowhere: it is addressed to no card there is."""
        ip('neigh', 'replace', self.its, 'lladdr', '02:00:00:00:00:fe', 'dev',
           self.near)

    def lose_its(self):
        """And so what it sends."""
        with self.inside():
            ip('neigh', 'replace', self.ours, 'lladdr', '02:00:00:00:00:fe',
               'dev', self.far)

    def find_ours(self):
        ip('neigh', 'del', self.its, 'dev', self.near)

    def find_its(self):
        with self.inside():
            ip('neigh', 'del', self.ours, 'dev', self.far)

    def swallow(self):
        """A blackhole in its routes: it hears, and cannot answer."""
        with self.inside():
            ip('route', 'add', 'blackhole', self.ours + '/32')

    def spit_out(self):
        with self.inside():
            ip('route', 'del', 'blackhole', self.ours + '/32')

    def close(self):
        ip('link', 'del', self.near)
        os.close(self.fd)
        os.close(self.home)
