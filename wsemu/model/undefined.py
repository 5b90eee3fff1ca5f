"""The undefined values of a launch: their origins, and what they reached.  This module contains only data."""

from __future__ import annotations

from typing import Literal, get_args

from wsemu.model.data import NamedTuple

Sink = Literal[
    "store",
    "branch",
    "exit",
    "guard",
    "address",
    "member mask",
    "barrier operand",
    "operand",
    "atomic",
    "copy",
    "print",
]
SINKS: tuple[Sink, ...] = get_args(Sink)


class Source(NamedTuple):
    """The origin of undefined values: an instruction, or a register that no instruction writes."""

    kind: Literal["load", "shuffle", "register"]
    place: int
    """the instruction, or the row of the register"""


ORIGINS: dict[str, Literal["load", "shuffle"]] = {"uninitialized-read": "load", "undefined-shuffle": "shuffle"}
"""code of an engine's finding for the origin of undefined values -> kind of the source"""


class Arisen(NamedTuple):
    """The first lane that received an undefined value from a source."""

    cta: int
    warp: int
    lane: int
    address: int = -1
    """address and number of the loaded bytes; the address is -1 if the source is not a load"""
    size: int = 0


class Reach(NamedTuple):
    """The first use of an undefined value through which its bits can be observed."""

    sink: Sink
    pc: int
    cta: int
    warp: int
    lane: int


class Followed(NamedTuple):
    """The results of following the undefined values of a launch, or of its first part, by source."""

    arisen: dict[Source, Arisen]
    reached: dict[Source, Reach]
    copied: dict[Source, int]
    """first instruction that stored the value of a source to shared or local memory"""
    cut: bool = False
    """true if only the beginning of the launch was followed"""
    complete: bool = False
    """true if the launch was followed to its normal end; in a launch that stops early, a value might still have reached
    something later"""
    steered: int = -1
    """first instruction that an undefined register may influence, in a launch that is too long to follow; -1: none"""
    compared: bool = False
    """true if runs with other contents of undefined registers showed an effect, but not its location"""
    most: int = 0
    """maximum number of warp instructions that were followed"""
