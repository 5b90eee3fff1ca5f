"""Names of things in drawings of a launch."""

from __future__ import annotations

from typing import Literal

NO_STEPS = "it made no access and met no barrier, or the run ended before it"
"""why a time line is empty"""


def letter(finding: int) -> str:
    """Return `A` for the first finding, and so on to `Z`, then `AA`."""
    text = ""
    number = finding + 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


GIVES, WAITS = ("arrive", "arrive_on"), ("sync", "await")
"""kinds of steps on a time line that release others, and kinds after which a warp continues only when others have
arrived"""

Group = Literal[
    "load", "store", "atomic", "fence", "warp", "matrix", "copy", "group", "object", "arrive", "wait", "stop"
]  # fmt: skip
"""groups of operations in drawings"""
GROUPS: dict[Group, str] = {
    "load": "load",
    "store": "store",
    "atomic": "atomic",
    "fence": "fence",
    "warp": "warp-wide operation",
    "matrix": "matrix multiply",
    "copy": "issue of asynchronous copies",
    "group": "commit of, or wait for, a group of them",
    "object": "initialization, expect-tx",
    "arrive": "arrive",
    "wait": "sync, or wait for a phase",
    "stop": "the run stops here",
}
"""the meaning of each group in a legend, in the order of the legend"""
