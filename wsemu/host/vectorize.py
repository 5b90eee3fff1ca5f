"""`@vectorize` and `@guvectorize` with `target="cuda"`: not modelled."""

from __future__ import annotations

from typing import Any

from wsemu.model.errors import UnsupportedError
from wsemu.model.program import Span


def refuse_vectorize(function: Any = None, *_: Any, **__: Any) -> Any:
    """What `@vectorize(target="cuda")` and `@guvectorize` come to."""
    code = getattr(function, "__code__", None)
    if code is None:  # `cuda.vectorize(...)`, which gets its function later
        return refuse_vectorize
    first = code.co_firstlineno
    raise UnsupportedError(
        f'`@vectorize(target="cuda")` of `{function.__name__}` is not modelled',
        Span(code.co_filename, first, 0, first, 1),
        "write it as a kernel: `@cuda.jit`, with one thread for an element",
    )
