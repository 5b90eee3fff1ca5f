"""Transfers of your own: the synchronisation is there, the transfer is yours."""

from __future__ import annotations

from dataclasses import dataclass

from wsemu.patterns.base import CudaDMA


@dataclass(frozen=True)
class CudaDMACustom(CudaDMA):
    """The base class of your own pattern: subclass it as a frozen dataclass, and write `transfer(self, thread, src,
    dst)` as kernel code.

    `thread` is the rank among the DMA threads, from 0; `transfer` does not synchronize (the paper, section 3.2).  For
    `wsemu.check_transfer`, also write `moves()`, which returns a list of (offset in the source, offset in the
    destination, bytes).
    """
