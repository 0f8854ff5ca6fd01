"""tokens.py - the tokens of a C source, as far as mutants need them.

Comments and lines of the preprocessor are no tokens; strings and characters
are, so that nobody takes what is in them for code.
"""
import re

KEYWORDS = frozenset('''
auto break case char const continue default do double else enum extern float
for goto if inline int long register restrict return short signed sizeof static
struct switch typedef union unsigned void volatile while _Atomic _Bool
'''.split())

PATTERN = re.compile(r'''
    (?P<skip> /\*.*?\*/ | //(?:\\\n|[^\n])*
            | ^[ \t]*\#(?:/\*.*?\*/|\\\n|[^\n])* | \s+)
  | (?P<str>  (?:u8|[LuU])?"(?:\\.|[^"\\])*" | [LuU]?'(?:\\.|[^'\\])*')
  | (?P<num>  \.?[0-9](?:[eEpP][+-]|[\w.])*)
  | (?P<id>   [A-Za-z_]\w*)
  | (?P<op>   <<=|>>=|\.\.\.|->|\+\+|--|<<|>>|<=|>=|==|!=|&&|\|\||
              [-+*/%&|^]=|[-+*/%&|^~!<>=?:;,.(){}\[\]])
  | (?P<odd>  .)
''', re.X | re.S | re.M)


class Token:
    """A token and where it is: text[begin:end] of the source."""
    __slots__ = ('kind', 'text', 'begin', 'end')

    def __init__(self, kind, text, begin):
        self.kind, self.text = kind, text
        self.begin, self.end = begin, begin + len(text)

    def __repr__(self):
        return self.text


def tokens(text):
    found = []
    for match in PATTERN.finditer(text):
        kind = match.lastgroup
        if kind == 'skip':
            continue
        if kind == 'id' and match.group() in KEYWORDS:
            kind = 'key'
        found.append(Token(kind, match.group(), match.start()))
    return found


def pairs(all_tokens):
    """Where each bracket has its partner: index to index, both ways."""
    partner, opened = {}, []
    for i, token in enumerate(all_tokens):
        if token.kind != 'op':
            continue
        if token.text in '([{':
            opened.append(i)
        elif token.text in ')]}' and opened:
            j = opened.pop()
            partner[i], partner[j] = j, i
    return partner


def functions(all_tokens, partner):
    """(name, index of its opening brace, of its closing one) of each."""
    i = 0
    while i < len(all_tokens):
        if all_tokens[i].text != '{' or all_tokens[i].kind != 'op':
            i += 1
            continue
        end = partner.get(i, len(all_tokens) - 1)
        before = all_tokens[i - 1] if i else None
        if before is not None and before.text == ')':
            name = all_tokens[partner[i - 1] - 1]
            if name.kind == 'id':
                yield name.text, i, end
        i = end + 1
