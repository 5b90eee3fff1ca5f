"""How drawings of a launch name what they show."""

from __future__ import annotations

NO_STEPS = "it made no access and met no barrier, or the run ended before it"
"""why a time line is empty"""


def letter(finding: int) -> str:
    """`A` for the first finding, `Z`, then `AA`."""
    text = ""
    number = finding + 1
    while number:
        number, rest = divmod(number - 1, 26)
        text = chr(ord("A") + rest) + text
    return text


GIVES, WAITS = ("arrive", "arrive_on"), ("sync", "await")
"""kinds of steps of a time line that let others go on; after which a warp goes on when others have come so far"""
