"""build.py - makes mutants' programs: only what differs is compiled.

The commands are make's own, as it would print them. The mutant's source lies
alone in a tree beside the real one; its object takes the place of the real
one when a program is linked.
"""
import glob
import os
import shlex
import subprocess
import threading


class Failed(Exception):
    """It does not compile."""


def must(command):
    done = subprocess.run(command, capture_output=True, text=True,
                          errors='replace', timeout=600)
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])


def without_make(env):
    """What a make that is started anew may see of the one that started us."""
    return {k: v for k, v in env.items()
            if k not in ('MAKEFLAGS', 'MAKELEVEL', 'MFLAGS')}


def goal(build, programs):
    """The make that builds these."""
    return ['make', 'played', 'BUILD=' + build, 'PLAYED=' + ' '.join(
        os.path.join(build, p) for p in programs)]


def ask_make(build, programs):
    """What make would do for these, were nothing there: NAME: arguments"""
    out = subprocess.run([*goal(build, programs), '-nB', 'V=1'],
                         check=True, capture_output=True, text=True,
                         env=without_make(os.environ)).stdout
    made = {}
    for line in out.replace('\\\n', ' ').splitlines():
        words = shlex.split(line, posix=True) if ' -o ' in line else []
        if words and words[0] != 'ld' and '-o' in words:
            made[os.path.relpath(words[words.index('-o') + 1], build)] = words
    return made


def tells_lines(name):
    """What the thread sanitizer is not to report is named by functions, and
    one that is inlined only the line tables know."""
    return name.startswith('tsan/')


def debug(name):
    return ['-g1' if tells_lines(name) else '-g0']


class Recipes:
    """How each object and each program is made, and of what."""

    def __init__(self, build, programs):
        self.root = os.getcwd()
        self.build = build
        self.made = ask_make(build, programs)
        self.lock = threading.Lock()
        self.plain = {}

    def objects_of(self, path):
        """The objects that a source is in, by their profile."""
        found = {}
        for name in self.made:
            if name.endswith('.o') and name.endswith(path[:-2] + '.o'):
                found[name.split('/')[0]] = name
        for deps in glob.glob(os.path.join(self.build, 'sim/tests/sim/*.d')):
            with open(deps, encoding='utf-8') as file:
                if ' ' + path in file.read().replace('\n', ' '):
                    found['sim'] = os.path.relpath(
                        deps[:-2] + '.o', self.build)
        return found

    def compile(self, name, path, tree, to):
        """Object NAME into the file `to`, where `path` is as in `tree`."""
        words, keep = list(self.made[name]), []
        source = words[words.index('-c') + 1]
        at = words.index('-o')
        del words[at:at + 2]
        for word in words:
            if word in ('-g', '-MMD', '-MP', '-Werror', '-c', source):
                continue
            if word.startswith('-I') and not os.path.isabs(word[2:]):
                word = '-I' + os.path.join(self.root, word[2:])
            keep.append(word)
        here = tree if source == path else self.root
        mine = ['-I' + os.path.join(tree, 'src')] if here != tree else []
        command = [keep[0], *mine, *keep[1:], '-w', *debug(name), '-iquote',
                   os.path.join(self.root, os.path.dirname(source)),
                   '-c', source, '-o', to]
        os.makedirs(os.path.dirname(to), exist_ok=True)
        done = subprocess.run(command, cwd=here, capture_output=True,
                              text=True, errors='replace', timeout=120)
        if done.returncode != 0:
            raise Failed(done.stderr)
        with open(to, 'rb') as file:
            return file.read()

    def unchanged(self, name, path):
        """The object of the source as it is."""
        with self.lock:
            if (name, path) not in self.plain:
                to = os.path.join(self.build, 'mutate/plain', name)
                self.plain[name, path] = self.compile(
                    name, path, self.root, to)
            return self.plain[name, path]

    def library(self, profile):
        """The objects of the library, as a program is linked with."""
        return [name for name in self.made
                if name.startswith(profile + '/src/') and name.endswith('.o')]

    def joined(self, profile, changed, to):
        """The library as users link to it: nobody meets its inner names."""
        out = os.path.join(to, profile, 'static/enq.o')
        if not os.path.exists(out):
            os.makedirs(os.path.dirname(out), exist_ok=True)
            bare = [] if tells_lines(profile + '/') else ['-S']
            must(['ld', '-r', *bare, '-o', out,
                  *(changed.get(o, os.path.join(self.build, o))
                    for o in self.library(profile))])
            must(['objcopy', '--localize-hidden', out])
        return out

    def parts(self, program, changed, to):
        """What a program is linked of; of what changed, the changed one."""
        words = []
        for word in self.made[program]:
            name = os.path.relpath(word, self.build) if '/' in word else word
            objects = self.library(name.split('/')[0])
            if not name.endswith('/libenq.a') or not any(
                    o in changed for o in objects):
                words.append(changed.get(name, word))
            elif '/static/' in name:
                words.append(self.joined(name.split('/')[0], changed, to))
            else:
                words += [changed.get(o, os.path.join(self.build, o))
                          for o in objects]
        return words

    def link(self, program, changed, to):
        """Into to/PROGRAM; as it is where nothing of it has changed."""
        words = self.parts(program, changed, to)
        out = os.path.join(to, program)
        os.makedirs(os.path.dirname(out), exist_ok=True)
        if words == self.made[program]:
            os.symlink(os.path.join(self.build, program), out)
            return
        words[words.index('-o') + 1] = out
        must(words if tells_lines(program) else [*words, '-Wl,-S'])
