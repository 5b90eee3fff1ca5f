"""Results for the undefined values of a launch: their origins, and what they reached.  Data only."""

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


class Arisen(NamedTuple):
    """The first lane that got an undefined value of a source."""

    cta: int
    warp: int
    lane: int
    address: int = -1
    """address and number of the bytes that it loads; -1: it loads none"""
    size: int = 0


class Reach(NamedTuple):
    """The first use of an undefined value by which its bits can be observed."""

    sink: Sink
    pc: int
    cta: int
    warp: int
    lane: int


class Followed(NamedTuple):
    """The undefined values of a launch, or of its beginning, by source."""

    arisen: dict[Source, Arisen]
    reached: dict[Source, Reach]
    copied: dict[Source, int]
    """-> the first instruction that stored one to shared or local memory"""
    cut: bool = False
    """the launch goes on after what was followed of it"""
    complete: bool = False
    """the launch was followed to its end, which it reached: a value of one that stops may still be on its way"""
    steered: int = -1
    """the first instruction that an undefined register may steer in a launch too long to be followed; -1: none"""
    compared: bool = False
    """two contents of undefined registers show that they reach something, not where"""
    most: int = 0
    """maximum number of warp instructions that were followed"""
