"""table.py - which suites judge a mutant of which source.

Not all of them: as many as end in half a minute. Those that are named after
the source come first, then those of its directory, cheap ones before dear.
"""
# Of a unit suite: what it is about, by the source's name, where that is not
# plain from its own (check_NAME and check_NAME_*).
ABOUT = {
    'attempt': 'lock open threads slab',
    'audit': 'header',
    'away': 'with fork remote',
    'beat': 'event',
    'graph': 'circle cycle',
    'helper': 'desk event start_threads thread',
    'life': 'token',
    'open': 'file stranger',
    'options': 'open lock',
    'map': 'attach file ended',
    'tie': 'host attach',
    'ended': 'life process',
    'sys': 'time word lag',
    'bypass': 'lag start',
    'serve': 'start lag',
    'change': 'convert token',
    'check': 'heal header',
    'entry': 'token ring peer',
    'grip': 'inherit',
    'judge': 'lock',
    'journal': 'set_faults',
    'notice': 'event told',
    'page': 'slab hoard index',
    'slab': 'hoard',
    'start': 'desk',
    'request': 'pending',
    'session': 'life fork orphan',
    'survey': 'look header',
    'tell': 'told',
    'watch': 'event',
    'blockers': 'circle told',
    'plain': 'scan',
    'user': 'process stranger',
}

# These take seconds: they come after what does not.
DEAR = frozenset('index hold remote remote_suspect pending call lease told '
                 'cycle event desk spec_form inherit'.split())

# These are played once more with nothing looked at by the clock, as tests/run
# does: a wake-up that is missing shows.
STILL = frozenset('lock start set set_wait desk event lease inherit delay threads '
                  'scenarios'.split())

# What of the bridge is about others at the same space: they take a minute.
PAIRED = frozenset('peer left roll session tag'.split())

# By the directory: units, then what takes longer.
OF = {
    'src/base': 'key id why heap process start_threads spec_form',
    'src/rules': 'key mode spec lock quoted look model',
    'src/wire': 'scan text value frame peer remote_start wire model-tcp',
    'src/segment': 'attach file header heirs host open stranger abandon '
                   'look scenarios model',
    'src/sync': 'life thread word reclaim time lag process abandon lock start '
                'threads fork orphan sim scenarios',
    **dict.fromkeys(
        ('src/store', 'src/lock', 'src/wait', 'src/recovery'),
        'lock set_wait look heal threads set_threads circle token '
        'convert scope set orphan set_faults start '
        'sim scenarios model'),
    'src/remote': 'peer remote_start remote_held remote_address remote_link '
                  'remote_threads remote_baton_threads scenarios-unix '
                  'model-tcp remote remote_suspect lockctl/remote',
    'src/api': 'lock open look start set threads set_wait with hoard moment '
               'quoted orphan host convert abandon delay scenarios model sim',
    'tools/bridge': 'wire scenarios-unix model-tcp threads-wire '
                    'lockctl/remote net',
}

# A race of threads, and memory of the bridge: what the sanitizers see. The units
# that are about a source are played with the address sanitizer as well.
RACES = {
    'src/segment': 'threads-tsan',
    'src/sync': 'threads-tsan start_threads-tsan',
    **dict.fromkeys(
        ('src/store', 'src/lock', 'src/wait', 'src/recovery'),
        'threads-tsan set_threads-tsan hoard_threads-tsan'),
    'src/api': 'threads-tsan start_threads-tsan set_threads-tsan',
    'src/remote': 'remote_threads-tsan remote_baton_threads-tsan',
    'tools/bridge': 'wire-asan',
}

# A suite that is not a unit: its program, what that is given, what stands
# beside it. `%s` is the directory of the programs.
MORE = {
    'scenarios': (['debug/spec-run'], ['-j', '3']),
    'scenarios-unix': (['debug/spec-run', 'debug/enq-bridge'],
                  ['--over', 'unix', '-j', '3']),
    'model': (['debug/model-run'], ['--ops', '100']),
    'model-tcp': (['debug/model-run', 'debug/enq-bridge'],
                  ['--over', 'tcp', '--ops', '150']),
    'sim': (['sim/sim-run'],
            ['--plain', '--workers', '1', '--first', '1', '--seconds']),
    'wire': (['debug/enq-bridge', 'debug/lockctl'],
             ['tests/wire/play.py', 'wire']),
    'pair': (['debug/enq-bridge', 'debug/lockctl', 'release/libenq.so'],
             ['tests/wire/pair.py', 'pair']),
    'threads-wire': (['debug/enq-bridge', 'debug/lockctl'],
                     ['tests/wire/threads.py', 'threads']),
    'lockctl/remote': (['debug/lockctl', 'debug/enq-bridge'],
                       ['tests/lockctl/remote.sh']),
    'wire-asan': (['asan/enq-bridge', 'asan/lockctl'],
                  ['tests/wire/play.py', 'wire-asan']),
    'net': (['debug/enq-bridge', 'debug/lockctl'],
            ['tests/net/net.sh', 'that nobody uses']),
}
WITH_BRIDGE = ('remote_threads',)  # units that start one
