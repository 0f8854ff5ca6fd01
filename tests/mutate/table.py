"""table.py - which suites judge a mutant of which source.

Not all of them: as many as end in half a minute. Those that are named after
the source come first, then the units that run its lines (`reached`, written by
reach.py), then those of its directory, cheap ones before dear.
"""
# Of a unit suite: what it is about, by the source's name, where that is not
# plain from its own (check_NAME and check_NAME_*).
ABOUT = {
    'acquisition': 'lock answers open threads slab',
    'audit': 'header',
    'lock': 'answers',
    'set': 'answers',
    'await': 'remote remote_leader_threads channel_link',
    'forward': 'with fork remote',
    'heartbeat': 'event',
    'bell': 'event heartbeat start',
    'graph': 'cycle deadlock',
    'wait_graph': 'cycle deadlock',
    'greet': 'remote_suspect remote',
    'helper': 'async event start_threads thread',
    'life': 'token',
    'look': 'one dump',
    'open': 'file stranger',
    'options': 'open lock',
    'map': 'attach file ended',
    'tie': 'host attach',
    'ended': 'life process',
    'sys': 'time latch lag',
    'bypass': 'lag start',
    'grant_scan': 'start lag',
    'transition': 'guard convert token',
    'links': 'guard',
    'check': 'recover header damage',
    'wait': 'answers damage',
    'reap': 'slab told orphan',
    'entry': 'token ring peer',
    'pin': 'inherit',
    'conflict': 'lock witness',
    'journal': 'set_faults',
    'lock_event': 'event told',
    'page': 'slab hoard index',
    'slab': 'hoard',
    'start': 'async answers',
    'started': 'start async pending',
    'next': 'event told',
    'attachment': 'fork open remote',
    'request': 'pending ids',
    'session': 'life fork orphan',
    'table_scan': 'look header',
    'moment': 'listing look',
    'copy_out': 'answers told',
    'watch': 'event',
    'blockers': 'cycle deadlock told',
    'plain': 'scan',
    'user': 'process stranger',
}

# These take seconds: they come after what does not.
DEAR = frozenset('index hold remote remote_suspect remote_held pending notify lease '
                 'told cycle deadlock event async spec_form inherit thread '
                 'neighbours set_faults closing'.split())

# These are played once more with nothing looked at by the clock, as tests/run
# does: a wake-up that is missing shows.
STILL = frozenset('lock start set set_wait async event lease inherit delay threads '
                  'scenarios'.split())

# What of the bridge is about others at the same space: they take a minute. And
# what of it several loops may do otherwise than one: the transcripts once more.
PAIRED = frozenset('peer left registry session tag serve'.split())
LOOPED = frozenset('handoff listen loop mailbox registry route session'.split())

# By the directory: units, then what takes longer.
OF = {
    'src/base': 'key id why heap process start_threads spec_form',
    'src/rules': 'key mode spec lock quoted look model',
    'src/wire': 'scan text value frame peer remote_start corpus wire model-tcp',
    'src/segment': 'attach file header heirs host open stranger abandon '
                   'look corpus scenarios model',
    'src/sync': 'life thread latch tick reclaim time lag process abandon lock start '
                'threads fork orphan spawn sim scenarios without-waitv',
    **dict.fromkeys(
        ('src/store', 'src/lock', 'src/wait', 'src/recovery'),
        'lock set_wait look recover threads set_threads cycle deadlock '
        'token convert scope set orphan set_faults start '
        'corpus sim scenarios model growth crash'),
    **dict.fromkeys(('src/channel', 'src/remote'),
        'peer remote_start remote_held channel_address channel_link '
        'remote_threads remote_leader_threads scenarios-unix '
        'model-tcp remote remote_suspect lockctl/remote'),
    'src/async': 'async event heartbeat start set threads thread with hoard '
                 'neighbours scenarios sim growth crash',
    'src/api': 'lock answers open look start set threads set_wait with hoard '
               'moment quoted orphan host convert abandon delay corpus '
               'scenarios model sim',
    'tools/bridge': 'wire memory operator bounds untold asked scenarios-unix '
                    'model-tcp threads-wire lockctl/remote net',
}

# A race of threads, and memory of the bridge: what the sanitizers see. The units
# that are about a source are played with the address sanitizer as well.
RACES = {
    'src/segment': 'threads-tsan',
    'src/sync': 'threads-tsan start_threads-tsan',
    **dict.fromkeys(
        ('src/store', 'src/lock', 'src/wait', 'src/recovery'),
        'threads-tsan set_threads-tsan hoard_threads-tsan'),
    'src/async': 'heartbeat-asan start-asan told-asan '
                 'threads-tsan start_threads-tsan set_threads-tsan',
    'src/api': 'threads-tsan start_threads-tsan set_threads-tsan',
    **dict.fromkeys(('src/channel', 'src/remote'),
        'remote_threads-tsan remote_leader_threads-tsan'),
    'tools/bridge': 'wire-asan threads-wire-tsan',
}

# Of those in MORE, what takes seconds.
QUICK = frozenset(('corpus', 'without-waitv'))

# For what no other has seen: deaths at each point, and visits that are counted.
# They take most of a minute.
LAST = ('growth', 'crash')

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
    'corpus': (['release/fuzz-run'], []),
    'without-waitv': (['crash/env-run'], ['without_futex_waitv']),
    'growth': (['crash/growth-run'], []),
    'crash': (['crash/crash-run'], ['--points']),
    'wire': (['debug/enq-bridge', 'debug/lockctl'],
             ['tests/wire/play.py', 'wire']),
    'pair': (['debug/enq-bridge', 'debug/lockctl', 'release/libenq.so'],
             ['tests/wire/pair.py', 'pair']),
    'adopted': (['debug/enq-bridge', 'debug/lockctl', 'release/libenq.so'],
                ['tests/wire/adopted.py', 'adopted']),
    'asked': (['debug/enq-bridge', 'release/libenq.so'],
              ['tests/wire/asked.py', 'asked']),
    'bounds': (['debug/enq-bridge'], ['tests/wire/bounds.py', 'bounds']),
    'operator': (['debug/enq-bridge'],
                 ['tests/wire/operated.py', 'operator']),
    'untold': (['debug/enq-bridge', 'debug/lockctl'],
               ['tests/wire/untold.py', 'untold']),
    'wire-loops': (['debug/enq-bridge', 'debug/lockctl'],
                   ['tests/wire/loops.sh']),
    'threads-wire': (['debug/enq-bridge', 'debug/lockctl'],
                     ['tests/wire/threads.py', 'threads']),
    'threads-wire-tsan': (['tsan/enq-bridge'],
                          ['tests/wire/threads_tsan.sh']),
    'memory': (['debug/enq-bridge', 'debug/lockctl'],
               ['tests/wire/memory.py', 'memory']),
    'lockctl/remote': (['debug/lockctl', 'debug/enq-bridge'],
                       ['tests/lockctl/remote.sh']),
    'wire-asan': (['asan/enq-bridge', 'asan/lockctl'],
                  ['tests/wire/play.py', 'wire-asan']),
    'net': (['debug/enq-bridge', 'debug/lockctl'],
            ['tests/net/net.sh', 'that nobody uses',
             '300 clients that pipeline']),
}
WITH_BRIDGE = ('remote_threads',)  # units that start one
