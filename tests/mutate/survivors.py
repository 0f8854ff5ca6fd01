"""survivors.py - the list of those that survive and cannot matter."""
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
