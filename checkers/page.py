"""The page of each finding code: a Markdown file in `pages`, beside its checker.

Its two blocks of Python are programs, which tests run.
"""

from __future__ import annotations

import difflib
import functools
import re
from typing import NamedTuple

from wsemu.checkers.registry import page_text
from wsemu.model.codes import CODES
from wsemu.model.errors import UsageError

_BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SECTIONS = ("The bug", "A kernel that has it", "The same kernel without it", "What the hardware does")
"""the headings of every page, in their order"""


class Page(NamedTuple):
    """What there is to know about a finding code."""

    code: str
    text: str
    """Markdown"""
    bad: str
    """a program in which the finding is found"""
    good: str
    """the same program, repaired: verified"""


@functools.cache
def page(code: str) -> Page:
    """The page of a finding code; UsageError names those that are like it."""
    if code not in CODES:
        near = difflib.get_close_matches(code.replace("_", "-"), CODES, 1, 0.5)
        remedy = f"did you mean `{near[0]}`?" if near else f"one of {', '.join(CODES)}"
        raise UsageError(f"no finding code {code!a}: {remedy}")
    text = page_text(code)
    bad, good = _BLOCK.findall(text)
    return Page(code, text, bad, good)
