#!/usr/bin/env python3
"""reach.py - writes tests/mutate/reached anew: for each source of src the units
that run its lines, so that a mutant is judged by who could notice it.

usage: tests/mutate/reach.py

To be played after units or sources were added: some minutes, as each unit is
played twice, once for its time and once for its coverage. Each line of a source
is run by ENOUGH of the units that are chosen for it, cheap ones before dear, as
far as there are so many.
"""
import concurrent.futures
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

from build import goal, without_make  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
BUILD = os.path.abspath(os.environ.get('BUILD', os.path.join(ROOT, 'build')))
ENOUGH = 4
CHEAP_SECONDS = 2
LIMIT = 120  # what takes longer is chosen for no source
HEAD = '''\
# reached - SOURCE: the units that run its lines, cheap ones first
# (tests/mutate/reach.py writes it)
'''


def play(profile, unit, **env):
    """The seconds that it took; LIMIT or more if it did not end."""
    begin = time.monotonic()
    try:
        subprocess.run(
            [os.path.join(BUILD, profile, 'tests/unit/check_' + unit)],
            env=dict(os.environ, BUILD=BUILD, CK_TIMEOUT_MULTIPLIER='9',
                     LOCKCTL=os.path.join(BUILD, 'debug/lockctl'), **env),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return LIMIT
    return time.monotonic() - begin


def lines_run(place):
    """(source, line) of all that a unit has run."""
    counts = []
    for path, _, files in os.walk(place):
        for name in files:
            if name.endswith('.gcda'):
                file = os.path.join(path, name)
                notes = os.path.relpath(file, place)[:-4] + 'gcno'
                os.symlink(os.path.join(BUILD, 'cov', notes),
                           file[:-4] + 'gcno')
                counts.append(file)
    out = subprocess.run(['gcov', '--json-format', '--stdout', *counts],
                         capture_output=True, text=True, check=True).stdout
    return {(file['file'], line['line_number'])
            for said in out.splitlines() if said.startswith('{')
            for file in json.loads(said)['files']
            if file['file'].startswith('src/') and file['file'].endswith('.c')
            for line in file['lines'] if line['count']}


def reach(unit):
    """(its seconds, the lines that it runs)"""
    seconds = play('debug', unit)
    # in memory: each test of a unit writes all counts anew
    with tempfile.TemporaryDirectory(dir='/dev/shm') as place:
        play('cov', unit, GCOV_PREFIX=place,
             GCOV_PREFIX_STRIP=str((BUILD + '/cov').count('/')))
        return seconds, lines_run(place)


def cover(need, chosen, seconds, lines):
    """Chooses of `lines`, by unit, the best for what they cost, until each line
    has as many as it needs."""
    while True:
        gain, unit = max(((sum(need.get(line, 0) > 0 for line in mine) /
                           seconds[unit], unit)
                          for unit, mine in lines.items()
                          if unit not in chosen), default=(0, ''))
        if not gain:
            return
        chosen.append(unit)
        for line in lines[unit]:
            need[line] = need.get(line, 0) - 1


def choose(seconds, lines):
    """Of units, whose `lines` of one source are given, as many as it needs: a
    dear one only for lines that no cheap one runs."""
    cheap = {unit: mine for unit, mine in lines.items()
             if seconds[unit] < CHEAP_SECONDS}
    of_cheap = set().union(*cheap.values())
    chosen = []
    cover(dict.fromkeys(of_cheap, ENOUGH), chosen, seconds, cheap)
    cover(dict.fromkeys(set().union(*lines.values()) - of_cheap, 1), chosen,
          seconds, {unit: mine for unit, mine in lines.items()
                    if seconds[unit] < LIMIT})
    return sorted(chosen, key=lambda unit: seconds[unit])


def write(path, seconds, lines):
    """`lines` of each unit, of all sources."""
    of = {}
    for unit, mine in lines.items():
        for source, line in mine:
            of.setdefault(source, {}).setdefault(unit, set()).add(line)
    with open(path, 'w', encoding='utf-8') as file:
        file.write(HEAD)
        for source in sorted(of):
            print('%s: %s' % (source, ' '.join(choose(seconds, of[source]))),
                  file=file)


def read(path):
    """SOURCE: units"""
    with open(path, encoding='utf-8') as file:
        rows = [line.split() for line in file if not line.startswith('#')]
    return {row[0].rstrip(':'): row[1:] for row in rows}


def main():
    os.chdir(ROOT)
    units = sorted(os.path.basename(f)[6:-2]
                   for f in glob.glob('tests/unit/check_*.c'))
    subprocess.run(goal(BUILD, [profile + '/tests/unit/check_' + unit
                                for profile in ('debug', 'cov')
                                for unit in units]),
                   check=True, stdout=subprocess.DEVNULL,
                   env=without_make(os.environ))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(units, pool.map(reach, units)))
    write(os.path.join(HERE, 'reached'),
          {unit: seconds for unit, (seconds, _) in found.items()},
          {unit: lines for unit, (_, lines) in found.items()})


if __name__ == '__main__':
    main()
