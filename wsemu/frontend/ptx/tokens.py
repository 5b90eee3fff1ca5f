"""Split PTX text into tokens (PTX ISA, chapter 4), by one regular expression for the whole text."""

from __future__ import annotations

import re

from wsemu.frontend.ptx.source import Source
from wsemu.model.data import NamedTuple

_PATTERN = re.compile(
    r"""
      (?P<blank>(?:\s|//[^\n]*|/\*[\s\S]*?\*/)+)
    | (?P<section>\.section\s++[\w.$]++\s*+\{
        (?:[\s,:+-]++|\d++(?![\w.])|\.[A-Za-z_]\w*+|[A-Za-z_$%][\w$]*+|0[xX][0-9a-fA-F]++(?!\w))*+\})
    | (?P<name>[A-Za-z_$%][\w$]*(?:\.\w+(?:::\w+)*)*)
    | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
    | (?P<number>0[fF][0-9a-fA-F]{8}\b|0[dD][0-9a-fA-F]{16}\b|0[xX][0-9a-fA-F]+U?\b|0[bB][01]+U?\b
        |\d+\.\d*(?:[eE][+-]?\d+)?|\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+\b|\d+U?\b)
    | (?P<string>"[^"\n]*")
    | (?P<mark><<|>>|[<>=!]=|&&|\|\||[{}()\[\],;:|!<>@=+*~?&^-]|/(?!\*))
    """,
    re.VERBOSE | re.ASCII,
)
NAME, DIRECTIVE, NUMBER, STRING, MARK, END = "name", "directive", "number", "string", "mark", "end"


class Tokens(NamedTuple):
    """Parallel lists with the tokens of a text; the last token is the end of the text."""

    kinds: list[str]
    texts: list[str]
    starts: list[int]


def tokens(source: Source) -> Tokens:
    """Return all tokens of a text; raise KernelError at a character that begins none."""
    kinds: list[str] = []
    texts: list[str] = []
    starts: list[int] = []
    text = source.text
    at = 0
    for match in _PATTERN.finditer(text):
        start = match.start()
        if start != at:
            raise _invalid_token(source, at)
        at = match.end()
        kind = match.lastgroup
        if kind == "section":  # the parser skips its contents, which may be half of a text: debug information
            kinds += (DIRECTIVE, MARK, MARK)
            texts += (".section", "{", "}")
            starts += (start, text.index("{", start), at - 1)
        elif kind != "blank":
            assert kind is not None
            kinds.append(kind)
            texts.append(match[0])
            starts.append(start)
    if at != len(text):
        raise _invalid_token(source, at)
    kinds.append(END)
    texts.append("")
    starts.append(len(text))
    return Tokens(kinds, texts, starts)


def _invalid_token(source: Source, at: int) -> Exception:
    """Return the error at an offset where no token begins."""
    text = source.text
    if text.startswith("/*", at):
        return source.error(at, "this comment does not end", "close it with `*/`", at + 2)
    if text[at] == '"':
        return source.error(at, "this string does not end on its line", 'close it with `"`')
    if text[at].isdigit():
        word = re.compile(r"\w+").match(text, at)
        assert word is not None
        return source.error(
            at, f"`{word[0]}` is no number", "write 12, 0xC, 0f41400000 or 0d4028000000000000", word.end()
        )
    return source.error(at, f"{text[at]!r} does not belong in PTX", "is this the text that a compiler wrote?", at + 1)
