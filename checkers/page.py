"""The page of each finding code: a Markdown file in `pages`, next to its checker.

Its two blocks of Python are programs, which tests run.
"""

from __future__ import annotations

import difflib
import functools
import re

from wsemu.checkers.registry import page_text
from wsemu.model.codes import CODES
from wsemu.model.data import NamedTuple
from wsemu.model.errors import UsageError
from wsemu.model.version import DOCS

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = ("What is wrong", "Example", "Fixed", "On hardware")
"""the headings of every page, in their order"""


class Page(NamedTuple):
    """The explanation of a finding code."""

    code: str
    text: str
    """Markdown"""
    bad: str
    """a program in which the finding is found"""
    good: str
    """the repaired program, which is verified"""


_RULE = re.compile(r"[A-Za-z]{1,2}[0-9]{1,2}")
"""the number of a rule, as notes have it: `M21`"""
_ALIKE, _MOST = 0.7, 4
"""minimum similarity of a suggested code, from 0 to 1; maximum number of suggestions"""


def _like(word: str) -> list[str]:
    """Return the codes that a word may mean: codes with a similar spelling, or codes that contain the word."""
    near = difflib.get_close_matches(word, CODES, 1, _ALIKE)
    parts = sorted({part for code in CODES for part in code.split("-")})
    meant = difflib.get_close_matches(word, parts, 1, _ALIKE)
    return near or [code for code in CODES if meant and meant[0] in code.split("-")][:_MOST]


def _rule_text(rule: str) -> str:
    """Return where a rule is described: the page of all rules, and the codes whose pages name it."""
    named = [f"`wsemu explain {code}`" for code in CODES if re.search(rf"\b{rule}\b", page_text(code))]
    if named:
        return f"`{rule}` is the number of a rule: see {', '.join(named[:_MOST])}, and {DOCS}semantics.html"
    return f"no finding code {rule!a}: {DOCS}semantics.html describes the rules that have numbers"


@functools.cache
def page(code: str) -> Page:
    """Return the page of a finding code; UsageError names similar codes."""
    if code not in CODES:
        if _RULE.fullmatch(code):
            raise UsageError(_rule_text(code.upper()))
        near = _like(code.lower().replace("_", "-"))
        remedy = f"did you mean `{'` or `'.join(near)}`?" if near else "`wsemu explain` lists them all"
        raise UsageError(f"no finding code {code!a}: {remedy}")
    text = page_text(code)
    bad, good = _BLOCK.findall(text)
    return Page(code, text, bad, good)
