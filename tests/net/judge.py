"""judge.py - what clients were told of locks, and whether it can be true.

All clients are in one process. What it sees of a hold, from the reply that
grants it to the request that gives it back, lies within the true one: two that
overlap here have overlapped.
"""


class Grant:
    def __init__(self, key, uuid, owner, token, handle):
        self.key, self.uuid, self.owner = key, uuid, owner
        self.token, self.handle = token, handle


class Judge:
    """All locks are exclusive; a key is one object."""

    n_grants = 0  # of all

    def __init__(self):
        self.open = {}  # by uuid
        self.tokens = {}  # by key: the last
        self.holders = {}  # by key: the uuid

    def granted(self, grant):
        before = self.open.get(grant.uuid)
        if before is not None:  # the same answer again
            assert before.token == grant.token, \
                '%s was granted twice: tokens %s and %s' % (
                    grant.uuid, before.token, grant.token)
            return
        other = self.holders.get(grant.key)
        assert other is None, 'double grant: %s to %s while %s holds it' % (
            grant.key, grant.uuid, other)
        if grant.token is not None:
            last = self.tokens.get(grant.key, 0)
            assert grant.token > last, 'the token of %s fell from %d to %d' % (
                grant.key, last, grant.token)
            self.tokens[grant.key] = grant.token
        self.open[grant.uuid] = grant
        self.holders[grant.key] = grant.uuid
        Judge.n_grants += 1

    def ends(self, uuid):
        """It is about to be given back, or may be taken away from now."""
        grant = self.open.pop(uuid, None)
        if grant is not None:
            del self.holders[grant.key]

    def compare(self, rows):
        """@rows: what lockctl lists."""
        held = {row['id'].rpartition('/')[2]: row for row in rows}
        assert len(held) == len(rows), 'an id is held twice'
        keys = [row['spec'] for row in rows]
        assert len(set(keys)) == len(keys), 'a key is held twice: %s' % keys
        for uuid, grant in self.open.items():
            assert uuid in held, 'lost: %s of %s' % (uuid, grant.key)
            token = int(held[uuid]['token'])
            assert grant.token in (None, token), \
                '%s has the token %d, and was told %s' % (
                    uuid, token, grant.token)
        left = [uuid for uuid in held if uuid not in self.open]
        assert not left, 'held, and nobody was told: %s' % left
        waiting = [w for row in rows for w in row['waiters']]
        assert not waiting, 'still waiting: %s' % waiting
