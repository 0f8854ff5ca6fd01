"""survivors.py - the list of those that survive and cannot matter.

FILE:FUNCTION:* in it is all of a function. Be sparing: of one of its mutants it
is not said any more when a test begins to notice it.
"""
import os
import sys


def read(path):
    """NAME: why. Lines of names, then indented lines that say why of all of
    them; `#` begins a comment."""
    why, names, words = {}, [], []
    if not os.path.exists(path):
        return why

    def take():
        if names and not words:
            sys.exit('survivors: nothing is said of ' + names[0])
        for name in names:
            if name in why:
                sys.exit('survivors: %s is there twice' % name)
            why[name] = ' '.join(words)

    with open(path, encoding='utf-8') as file:
        for line in file:
            if not line.strip() or line.startswith('#'):
                continue
            if line[0].isspace():
                words.append(line.strip())
                continue
            if words:
                take()
                names, words = [], []
            names.append(line.strip())
    take()
    return why


def whole(name):
    """The name that the list has for all of its function."""
    return name.rsplit(':', 2)[0] + ':*'


class List:
    """Which are explained, by their own name or by their function's."""

    def __init__(self, path, found):
        self.why, self.found = read(path), found

    def has(self, name):
        return name in self.why or whole(name) in self.why

    def stale(self, name):
        """It need not be there if it was noticed; a function may be."""
        return name in self.why

    def gone(self):
        """Those that are no mutants."""
        return sorted({*self.why} - {*self.found} - {*map(whole, self.found)})
