"""Sources of code that no file contains: texts that `exec`, `eval` and `compile` received while a program ran.

A kernel defined by `exec` has only a code object.  `remembering` keeps the text for each code object, under a file name
of its own from which `linecache` returns its lines.
"""

from __future__ import annotations

import builtins
import contextlib
import functools
import itertools
import linecache
import os
import sys
import weakref
from collections.abc import Iterator
from types import CodeType
from typing import Any

_FUTURES = 0x1FF0000
"""flags of a code object that `from __future__ import ...` sets, and that `exec` inherits from its caller"""


_OF_CLASSES = ("dataclasses", "collections", "wsemu.model.data")
"""modules that generate many methods from text, but no kernels"""


class Text:
    """A source text, and the file name under which `linecache` returns it after the first request."""

    def __init__(self, text: str, name: str) -> None:
        self.text = text
        self._name = name
        self._file = ""

    @property
    def file(self) -> str:
        if not self._file:
            made = self._file = f"<{self._name} {next(_numbers)}>"
            linecache.cache[made] = (len(self.text), None, self.text.splitlines(keepends=True), made)
            weakref.finalize(self, linecache.cache.pop, made, None)
        return self._file


_texts: weakref.WeakKeyDictionary[CodeType, Text] = weakref.WeakKeyDictionary()
_numbers = itertools.count(1)


def text_of(code: CodeType) -> Text | None:
    """Return the source of a code object if it was remembered, or if it belongs to `python -c`."""
    found = _texts.get(code)
    if found is None and code.co_filename == "<string>" and "-c" in sys.orig_argv[:-1]:
        text = sys.orig_argv[sys.orig_argv.index("-c") + 1]
        with contextlib.suppress(SyntaxError, ValueError):
            if code in _inside(compile(text, "<string>", "exec", dont_inherit=True)):
                found = remember(code, text)
    return found


def _inside(code: CodeType) -> list[CodeType]:
    """Return a code object and all code objects in it."""
    inner = [one for one in code.co_consts if isinstance(one, CodeType)]
    return [code, *(one for part in inner for one in _inside(part))]


def remember(code: CodeType, text: str) -> Text:
    """Keep the source of a code object, and of all code objects in it."""
    kept = Text(text, code.co_filename.strip("<>") or "exec")
    _texts.update(dict.fromkeys(_inside(code), kept))
    return kept


def _as_text(source: Any) -> str | None:
    """Return the text of an argument of `compile`, or None for a code object or a syntax tree."""
    if isinstance(source, str):
        return source
    if isinstance(source, (bytes, bytearray)):
        return bytes(source).decode("utf-8", "replace")
    return None


def _is_file(name: Any) -> bool:
    return isinstance(name, (str, bytes, os.PathLike)) and os.path.exists(name)


def _has_functions(code: CodeType) -> bool:
    return any(isinstance(inner, CodeType) for inner in code.co_consts)


def _compiling(real: Any) -> Any:
    @functools.wraps(real)
    def compile_(
        source: Any, filename: Any, mode: str, flags: int = 0, dont_inherit: bool = False, **named: Any
    ) -> Any:
        if not dont_inherit:
            flags |= sys._getframe(1).f_code.co_flags & _FUTURES
        made = real(source, filename, mode, flags, True, **named)
        text = _as_text(source)
        if text is not None and isinstance(made, CodeType) and _has_functions(made) and not _is_file(filename):
            remember(made, text)
        return made

    return compile_


def _executing(real: Any, plain: Any, compile_: Any) -> Any:
    @functools.wraps(real)
    def exec_(source: Any, *spaces: Any, **named: Any) -> None:
        frame = sys._getframe(1)
        if _as_text(source) is not None:
            made = plain if frame.f_globals.get("__name__") in _OF_CLASSES else compile_
            source = made(source, "<string>", "exec", frame.f_code.co_flags & _FUTURES, dont_inherit=True)
        space, own = (*spaces, None, None)[:2]
        space, own = named.pop("globals", space), named.pop("locals", own)
        if space is None:
            space, own = frame.f_globals, frame.f_locals if own is None else own
        real(source, space, own, **named)

    return exec_


def _evaluating(real: Any, plain: Any, compile_: Any) -> Any:
    @functools.wraps(real)
    def eval_(source: Any, *spaces: Any, **named: Any) -> Any:
        frame = sys._getframe(1)
        text = _as_text(source)
        if text is not None:
            made = plain if frame.f_globals.get("__name__") in _OF_CLASSES else compile_
            source = made(text.lstrip(" \t"), "<string>", "eval", frame.f_code.co_flags & _FUTURES, dont_inherit=True)
        space, own = (*spaces, None, None)[:2]
        space, own = named.pop("globals", space), named.pop("locals", own)
        if space is None:
            space, own = frame.f_globals, frame.f_locals if own is None else own
        return real(source, space, own, **named)

    return eval_


@contextlib.contextmanager
def remembering() -> Iterator[None]:
    """Keep the texts that `exec`, `eval` and `compile` receive inside the `with` block."""
    kept = builtins.exec, builtins.compile, builtins.eval
    builtins.compile = _compiling(kept[1])
    builtins.exec = _executing(kept[0], kept[1], builtins.compile)
    builtins.eval = _evaluating(kept[2], kept[1], builtins.compile)
    try:
        yield
    finally:
        builtins.exec, builtins.compile, builtins.eval = kept
