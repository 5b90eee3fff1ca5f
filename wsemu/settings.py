"""What holds for every launch unless the call says otherwise: set by the command line, read by `check`."""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterator

Engine = Literal["vm", "reference"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Defaults of a launch."""

    arch: str = "sm_90"
    """whose limits and memory cost model hold; a key of `limits.LIMITS`"""
    fma: bool = True
    """contract a * b + c as the compiler does"""
    budget: int = 1_000_000_000
    """warp instructions after which a launch ends as `incomplete`"""
    engine: Engine = "vm"
    lockstep: bool = False
    """the lanes of a warp run together, as before sm_70: no `intra-warp-race` between instructions"""


_current: ContextVar[Settings] = ContextVar("wsemu_settings")
_DEFAULT = Settings()


def current() -> Settings:
    """The settings in force here."""
    return _current.get(_DEFAULT)


@contextmanager
def using(settings: Settings) -> Iterator[Settings]:
    """`settings` hold inside the `with` block."""
    token = _current.set(settings)
    try:
        yield settings
    finally:
        _current.reset(token)
