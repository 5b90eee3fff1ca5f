"""Run an object's `__post_init__` on trial if only the launch knows some of its fields.

It runs on the host, with an open number instead of each unknown field.  A test of an open number is tried with both
results.  An error that is raised on every path occurs for all numbers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from wsemu.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

MOST_WAYS = 64
"""maximum number of paths that are tried; beyond it, nothing is reported"""
_OPEN = "(known at run time)"
_UNARY = "neg pos abs invert".split()
_BINARY = "add sub mul floordiv truediv mod pow lshift rshift and or xor".split()
_COMPARED = "lt le gt ge eq ne".split()


class _Way:
    """The results of the tests of open numbers on one path: first the given ones, then false."""

    def __init__(self, answers: tuple[bool, ...]) -> None:
        self.answers = list(answers)
        self.asked = 0

    def answer(self) -> bool:
        if self.asked == len(self.answers):
            self.answers.append(False)
        self.asked += 1
        return self.answers[self.asked - 1]


class _Open(int):
    """An unknown integer, or a number computed from one."""

    way: _Way

    @classmethod
    def on(cls, way: _Way) -> _Open:
        made = cls()
        made.way = way
        return made

    def __bool__(self) -> bool:
        return self.way.answer()

    def __str__(self) -> str:
        return _OPEN

    def __format__(self, _: str) -> str:
        return _OPEN

    __repr__ = __str__
    __hash__ = int.__hash__


def _open_result(self: _Open, *_: Any) -> _Open:
    return _Open.on(self.way)


for _name in (*_UNARY, *_BINARY, *(f"r{name}" for name in _BINARY), *_COMPARED):
    setattr(_Open, f"__{_name}__", _open_result)


def refusal(cls: type, known: Mapping[str, Any], unknown: tuple[str, ...]) -> UsageError | None:
    """Return the error that `cls` raises for these fields whatever integers the `unknown` ones are; None if it may
    accept them."""
    check: Callable[[Any], None] | None = getattr(cls, "__post_init__", None)
    if check is None:
        return None
    ways: list[tuple[bool, ...]] = [()]
    found: UsageError | None = None
    for _ in range(MOST_WAYS):
        if not ways:
            return found
        answers = ways.pop()
        way = _Way(answers)
        made: Any = object.__new__(cls)
        for name, value in (*known.items(), *((name, _Open.on(way)) for name in unknown)):
            object.__setattr__(made, name, value)
        try:
            check(made)
        except UsageError as error:
            if _OPEN not in str(error):
                found = found or error
        except Exception:  # it uses a number for more than tests
            return None
        else:
            return None
        ways += [(*way.answers[:n], True) for n in range(len(answers), len(way.answers))]
    return None
