"""mutants.py - the mutants of a source: what one slip of the pen would make.

A mutant is named FILE:FUNCTION:OPERATOR:N, the N-th place in that function
where that operator applies: a name outlives edits elsewhere in the file.
No mutant adds or removes a line.
"""
import re

from tokens import functions, pairs, tokens

# OPERATOR: what becomes of a binary operator (or of what stands for one).
BINARY = {
    'rel': {'<': '<=', '<=': '<', '>': '>=', '>=': '>', '==': '!=',
            '!=': '=='},
    'logic': {'&&': '||', '||': '&&'},
    'arith': {'+': '-', '-': '+', '/': '*', '%': '*', '+=': '-=', '-=': '+=',
              '++': '--', '--': '++'},
    'bit': {'&': '|', '|': '&', '<<': '>>', '>>': '<<', '|=': '&=',
            '&=': '|='},
}
OF_TEXT = {text: (name, new) for name, table in BINARY.items()
           for text, new in table.items()}
# These are something else where no operand stands before them.
ALSO_UNARY = frozenset('+-&')

ORDERS = {
    'shm_store_release': 'shm_store',
    'shm_store_fence': 'shm_store',
    'shm_load_acquire': 'shm_load',
    '__ATOMIC_RELEASE': '__ATOMIC_RELAXED',
    '__ATOMIC_ACQUIRE': '__ATOMIC_RELAXED',
    '__ATOMIC_ACQ_REL': '__ATOMIC_RELAXED',
    '__ATOMIC_SEQ_CST': '__ATOMIC_RELAXED',
}
FENCES = frozenset(('shm_fence', '__atomic_thread_fence',
                    'atomic_thread_fence', '__sync_synchronize', 'cmm_smp_mb'))
STORES = re.compile(r'shm_(store\w*|swap|add|and|or|cas)$')
# No code of the product: assertions, places with a name for the tests.
NOT_CALLS = frozenset(('enq_assert', 'assert', '_Static_assert', 'ENQ_POINT',
                       'STORE_POINT', 'va_start', 'va_end', '__asm__'))
# Of words that a statement may begin with: what follows is declared.
TYPES = frozenset('''
auto char const double float int long register short signed static struct union
unsigned void volatile _Bool
'''.split())
ENDS_OPERAND = frozenset('= += -= , ; { } ? : && || return'.split())
NUMBER = re.compile(r'(0[xX][0-9a-fA-F]+|[0-9]+)([uUlL]*)$')


class Mutant:
    """A source with one change: text[begin:end] of it is `new` instead."""

    def __init__(self, path, function, operator, change):
        self.path, self.function, self.operator = path, function, operator
        self.begin, self.end, self.new = change
        self.name = None

    def text(self, source):
        return source[:self.begin] + self.new + source[self.end:]

    def shown(self, source):
        """LINE: OLD -> NEW, for a reader"""
        def short(text):
            return ' '.join(text.split())[:70]
        line = source.count('\n', 0, self.begin) + 1
        return '%d: "%s" -> "%s"' % (
            line, short(source[self.begin:self.end]), short(self.new))


class Finder:
    """Finds the changes of one function."""

    def __init__(self, source, all_tokens, partner):
        self.source, self.t, self.partner = source, all_tokens, partner

    def text(self, i, j):
        return self.source[self.t[i].begin:self.t[j].end]

    def change(self, i, j, new):
        """Tokens i to j become `new`, with as many lines as they had."""
        lines = self.text(i, j).count('\n') - new.count('\n')
        return self.t[i].begin, self.t[j].end, new + '\n' * lines

    def is_operand(self, i):
        token = self.t[i]
        return token.kind in ('id', 'num', 'str') or token.text in (')', ']')

    def begins_statement(self, i):
        before = self.t[i - 1]
        if before.text in (';', '{', '}', 'else', 'do', ':'):
            return before.text != ':' or self.is_label(i - 1)
        if before.text != ')':
            return False
        word = self.t[self.partner[i - 1] - 1].text
        return word in ('if', 'for', 'while', 'switch')

    def is_label(self, i):
        """Of a colon: that of a case, not of a ?:"""
        j = i - 1
        while self.t[j].text not in (';', '{', '}', '?'):
            if self.t[j].text in ('case', 'default'):
                return True
            j -= 1
        return False

    def end_of(self, i):
        """The semicolon of a statement without braces, or None."""
        while self.t[i].text != ';':
            if self.t[i].text in '({[' and self.t[i].kind == 'op':
                i = self.partner[i]
            elif self.t[i].text in ('}', ')', ']'):
                return None
            i += 1
        return i

    # --- what can never matter: it has a number, and is no mutant ---

    def words(self, i, j):
        return [token.text for token in self.t[i:j]]

    def end_right(self, i, ends):
        """The first of these from i on, outside of brackets."""
        while self.t[i].text not in ends and self.t[i].text not in (
                ';', ')', ']', '}'):
            i = self.partner[i] + 1 if self.t[i].text in '([{' else i + 1
        return i

    def begin_left(self, i):
        """Where the operand begins that ends before i."""
        while self.t[i - 1].text not in ENDS_OPERAND and \
                self.t[i - 1].text not in ('(', '['):
            i = self.partner[i - 1] if self.t[i - 1].text in (')', ']') \
                else i - 1
        return i

    def chosen_of(self, begin, end):
        """`if (A < B) A = B;`, `A < B ? A : B`: what is taken, and else."""
        if self.t[begin - 1].text == '(' and self.t[begin - 2].text == 'if' \
                and self.partner[begin - 1] == end:
            equal = self.end_right(end + 1, ('=', '{'))
            after = self.end_right(equal + 1, (',',))
            if self.t[equal].text != '=' or self.t[after].text != ';' or \
                    self.t[after + 1].text == 'else':
                return [], []
            return self.words(end + 1, equal), self.words(equal + 1, after)
        if self.t[end].text != '?':
            return [], []
        colon = self.end_right(end + 1, (':',))
        return (self.words(end + 1, colon),
                self.words(colon + 1, self.end_right(colon + 1, (',', ':'))))

    def is_choice(self, i):
        """Of two numbers the smaller, or the greater: of equals it is the
        same whichever is taken."""
        if self.t[i].text not in ('<', '<=', '>', '>='):
            return False
        begin = self.begin_left(i)
        end = self.end_right(i + 1, ('?', '&&', '||', ','))
        one, other = self.words(begin, i), self.words(i + 1, end)
        return not {'(', '++', '--'} & {*one, *other} and \
            self.chosen_of(begin, end) in ((one, other), (other, one))

    def is_mere_room(self, i):
        """How long an array of this function is, whose size nobody asks: with
        one element more it is used as it was."""
        if self.t[i - 1].text != '[' or self.t[i + 1].text != ']':
            return False
        at = i - 1
        while self.t[at - 1].text == ']':
            at = self.partner[at - 1]
        begin = name = at - 1
        while self.t[begin - 1].text not in (';', '{', '}'):
            if self.t[begin - 1].text in ('=', '(', '?', 'return'):
                return False
            begin -= 1
        if self.t[begin].text not in TYPES and not (
                self.t[begin].kind == self.t[begin + 1].kind == 'id'):
            return False
        return not self.size_is_asked(self.t[name].text)

    def size_is_asked(self, name):
        """By sizeof, or by a macro."""
        return any(
            self.t[j].text == '(' and (self.t[j - 1].text == 'sizeof' or
                                       self.t[j - 1].text.isupper()) and
            name in self.words(j, self.partner[j])
            for j in range(self.of, self.partner[self.of]))

    # --- the operators ---

    def operators(self, i):
        token = self.t[i]
        if token.kind != 'op' or token.text not in OF_TEXT:
            return
        if token.text in ALSO_UNARY and not self.is_operand(i - 1):
            return
        name, new = OF_TEXT[token.text]
        yield name, None if self.is_choice(i) else self.change(i, i, new)

    def negations(self, i):
        if self.t[i].text == '!' and self.t[i].kind == 'op':
            yield 'not', self.change(i, i, ' ')
        if self.t[i].text in ('if', 'while') and self.t[i + 1].text == '(':
            end = self.partner[i + 1]
            inner = self.source[self.t[i + 1].end:self.t[end].begin]
            yield 'negate', (self.t[i + 1].end, self.t[end].begin,
                             '!(' + inner + ')')

    def constants(self, i):
        token = self.t[i]
        if token.text in ('true', 'false'):
            yield 'bool', self.change(
                i, i, 'false' if token.text == 'true' else 'true')
        match = token.kind == 'num' and NUMBER.match(token.text)
        if match:
            value = int(match.group(1), 0 if match.group(1)[:2].lower() == '0x'
                        else 10)
            value += -1 if value > 0 and self.is_negative(i) else 1
            yield 'const', None if self.is_mere_room(i) else self.change(
                i, i, '%d%s' % (value, match.group(2)))

    def is_negative(self, i):
        """Mostly a mark, -1 for "none": one further from 0 is the same mark."""
        return self.t[i - 1].text == '-' and not self.is_operand(i - 2)

    def orders(self, i):
        token = self.t[i]
        if token.text in ORDERS:
            yield 'order', self.change(i, i, ORDERS[token.text])

    def removals(self, i):
        if not self.begins_statement(i):
            return
        token, end = self.t[i], self.end_of(i)
        if end is None:
            return
        if token.text == 'return':
            if self.t[end + 1].text != '}' or self.partner[end + 1] != self.of:
                yield 'return', self.change(i, end, ';')
        elif token.text in ('break', 'continue', 'goto'):
            yield 'jump', self.change(i, end, ';')
        elif self.is_call(i, end):
            kind = 'fence' if token.text in FENCES else 'call'
            yield kind, self.change(i, end, ';')
        elif self.is_assignment(i, end):
            yield 'store', self.change(i, end, ';')

    def is_call(self, i, end):
        if self.t[i].text == '(' and self.text(i, i + 2) == '(void)':
            i += 3
        return (self.t[i].kind == 'id' and self.t[i].text not in NOT_CALLS and
                self.t[i + 1].text == '(' and self.partner[i + 1] == end - 1)

    def is_assignment(self, i, end):
        """To what was declared before: it begins with no type."""
        if self.t[i].kind != 'id' and self.t[i].text != '*':
            return False
        for j in range(i, end):
            if self.t[j].text == '=' and self.t[j].kind == 'op':
                return True
            if (self.t[j].text not in ('.', '->', '*', '(', ')', '[', ']') and
                    self.t[j].kind not in ('id', 'num')):
                return False
            if j > i and self.t[j].kind == 'id' and (
                    self.t[j - 1].kind == 'id' or
                    self.t[j - 1].text == '*' and j - 1 > i):
                return False
        return False

    def swaps(self, i):
        """Two statements side by side, of which others see at least one."""
        if not self.begins_statement(i) or self.t[i - 1].text == ')':
            return
        first = self.end_of(i)
        if first is None or not self.is_store(i, first):
            return
        j = first + 1
        second = self.end_of(j)
        if second is None or not self.is_store(j, second):
            return
        if STORES.match(self.t[i].text) or STORES.match(self.t[j].text):
            between = self.source[self.t[first].end:self.t[j].begin]
            yield 'swap', (self.t[i].begin, self.t[second].end,
                           self.text(j, second) + between +
                           self.text(i, first))

    def is_store(self, i, end):
        if self.is_call(i, end):
            return bool(STORES.match(self.t[i].text))
        return '->' in self.text(i, end) and self.is_assignment(i, end)

    def all(self, begin, end):
        self.of = begin
        i = begin + 1
        while i < end:
            if self.t[i].text in NOT_CALLS and self.t[i + 1].text == '(':
                i = self.partner[i + 1] + 1
                continue
            for rule in (self.operators, self.negations, self.constants,
                         self.orders, self.removals, self.swaps):
                yield from rule(i)
            i += 1


def mutants(path, source):
    """All of them, each with its name."""
    all_tokens = tokens(source)
    partner = pairs(all_tokens)
    finder = Finder(source, all_tokens, partner)
    counts, found = {}, []
    for function, begin, end in functions(all_tokens, partner):
        for operator, change in finder.all(begin, end):
            key = function, operator
            counts[key] = counts.get(key, 0) + 1
            if change is None:
                continue
            mutant = Mutant(path, function, operator, change)
            mutant.name = '%s:%s:%s:%d' % (path, *key, counts[key])
            found.append(mutant)
    return found
