"""Compiled programs of long PTX texts, kept in the user's cache folder between processes.

A file is named after a digest of the text and its other inputs: the kernel, the kinds of the arguments, and the sources
that lines refer to.  It holds pickled objects, so it must be as trustworthy as the machine code in the same cache.
Therefore no other user may be able to write it, and it contains its own name, the state of the package, and a digest
(`machine.cache`).
"""

from __future__ import annotations

import copyreg
import functools
import hashlib
import io
import os
import pickle
from collections import Counter
from typing import TYPE_CHECKING, Any

from wsemu.machine import cache
from wsemu.model.program import REMEMBERED, Program

if TYPE_CHECKING:
    from collections.abc import Iterable

MIN_TEXT = 1 << 16
"""minimum length of a text that is kept, in characters; shorter texts compile in a tenth of a second"""
_KEPT_ANALYSES = frozenset(
    ("variables", "loops", "places", "shadowed", "shadowed_beside", "shadowed_of_paths", "synchronization",
     "live rows", "live bits", "rows", "sources, lanes", "sources, lockstep", "atomics branch", "loops wait",
     "possible accesses", "overwriting", "unwritten_reads", "stores_anywhere", REMEMBERED)
)  # fmt: skip
"""keys of `Program.derived` that depend on the code alone; others depend on earlier launches, except for
`stores_anywhere`, which only saves a run"""
_MAX_SAVES = 4
"""maximum number of times that a process saves a program, which it does again when there are more results"""


class ProgramStore:
    """The kept objects of one PTX text."""

    def __init__(self, text: str) -> None:
        self._digest = hashlib.sha256(text.encode(errors="surrogatepass"))
        self._known: dict[str, int] = {}
        """number of results in each file that was loaded or saved"""
        self._saves: Counter[str] = Counter()

    def load(self, *key: Any) -> Any:
        """Return the object that is stored under a key, or None."""
        name = self._name(key)
        data = cache.read_program(name)
        if data is None:
            return None
        try:
            value = pickle.loads(data)
        except Exception:
            value = None
        self._known[name] = _count_results(value)
        return value

    def save(self, value: Any, *key: Any) -> None:
        """Save an object under a key unless its file has all its results, or it cannot be pickled."""
        name, results = self._name(key), _count_results(value)
        if self._known.get(name, -1) >= results or self._saves[name] >= _MAX_SAVES:
            return
        self._known[name] = results
        self._saves[name] += 1
        try:
            data = _pickle(value)
        except (RecursionError, TypeError, AttributeError, pickle.PicklingError):
            return
        cache.write_program(name, data)

    def _name(self, key: tuple[Any, ...]) -> str:
        digest = self._digest.copy()
        digest.update(repr(key).encode(errors="surrogatepass"))
        return digest.hexdigest()[:40]


@functools.lru_cache(maxsize=4)
def open_store(text: str) -> ProgramStore | None:
    """Return the store of a text; None for a short text."""
    return ProgramStore(text) if len(text) >= MIN_TEXT else None


def file_states(paths: Iterable[str | None]) -> list[tuple[str, int, int]]:
    """Return the size and time of each file that exists."""
    found = []
    for path in paths:
        if path is not None and os.path.exists(path):
            state = os.stat(path)
            found.append((path, state.st_size, state.st_mtime_ns))
    return found


def _pickle(value: Any) -> bytes:
    """Pickle an object; programs are pickled without the analyses that count what launches did."""
    packed = io.BytesIO()
    pickler = pickle.Pickler(packed, pickle.HIGHEST_PROTOCOL)
    pickler.dispatch_table = copyreg.dispatch_table | {Program: _reduce_program}
    pickler.dump(value)
    return packed.getvalue()


def _reduce_program(program: Program) -> tuple[Any, ...]:
    fields = {name: getattr(program, name) for name in Program.__slots__}
    fields["derived"] = _kept_analyses(program)
    return copyreg.__newobj__, (Program,), (None, fields)  # type: ignore[attr-defined]


def _kept_analyses(program: Program) -> dict[str, Any]:
    return {key: value for key, value in program.derived.items() if key in _KEPT_ANALYSES}


def _count_results(value: Any) -> int:
    """Return the number of results of analyses that are kept with an object."""
    found = _kept_analyses(value) if isinstance(value, Program) else value
    return (
        sum(_count_results(one) if isinstance(one, dict) else 1 for one in found.values())
        if isinstance(found, dict)
        else 0
    )
