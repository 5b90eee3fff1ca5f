"""Find the mbarriers of a PTX kernel, and the instructions that initialize them, arrive, expect bytes, wait, or copy.

Mbarriers that one statement initializes are a ring.  An instruction belongs to the ring that contains its address.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from wsemu.evidence import cuda_calls
from wsemu.model.data import NamedTuple, dataclass

if TYPE_CHECKING:
    from collections.abc import Iterator

    from wsemu.model.program import Span
    from wsemu.repair.ptx_text import Address, Place, Registers, Text

What = Literal["init", "arrive", "expect", "wait", "copy"]

PHASES = frozenset(
    "deadlock phase-alias phase-unobserved tx-mismatch uncovered-expectation over-arrival dangling-phase race "
    "async-outlives-cta lane-lag mbarrier-uninitialized mbarrier-range proxy-war uninitialized-read".split()
)
"""codes of findings that a mistake with an mbarrier may cause"""
UNINITIALIZED = "mbarrier-uninitialized"
SYNCHRONIZES = re.compile(r"(?:bar|barrier|mbarrier|fence|membar)\b|cp\.async\.(?:bulk\.)?(?:wait|commit)_")
"""instructions that order threads or copies"""
_BYTES = 8
"""size of an mbarrier, in bytes"""
_FARTHEST = 1 << 40
_INDEX = re.compile(r"\[[^\[\]]*\]$")
_OPERATIONS: tuple[tuple[What, re.Pattern[str]], ...] = (
    ("init", re.compile(r"mbarrier\.init\S*\s+\[(?P<at>[^\]]+)\],\s*(?P<value>[^;,]+);")),
    ("expect", re.compile(r"mbarrier\.\S*expect_tx\S*\s+(?:[%\w]+,\s*)?\[(?P<at>[^\]]+)\],\s*(?P<value>[^;,]+);")),
    ("arrive", re.compile(r"mbarrier\.arrive\S*\s+(?:[%\w]+,\s*)?\[(?P<at>[^\]]+)\](?:,\s*(?P<value>[^;,]+))?;")),
    ("arrive", re.compile(r"cp\.async\.mbarrier\.arrive\S*\s+\[(?P<at>[^\]]+)\](?P<value>);")),
    (
        "wait",
        re.compile(r"mbarrier\.(?:try|test)_wait\S*\s+[%\w]+,\s*\[(?P<at>[^\]]+)\],\s*(?P<value>[^;,]+)(?:,[^;]*)?;"),
    ),
    (
        "copy",
        re.compile(r"cp\.(?:reduce\.)?async\.bulk\S*mbarrier::complete_tx\S*\s.*\[(?P<at>[^\]{]+)\](?P<value>)[^\[]*;"),
    ),
    ("arrive", re.compile(r"tcgen05\.commit\S*\s+\[(?P<at>[^\]]+)\](?P<value>)[^;]*;")),
)


@dataclass(frozen=True)
class Ring:
    """Mbarriers that one statement initializes."""

    symbol: str
    first: int
    """offset of the first mbarrier, in bytes"""
    end: int
    """offset of the byte after the last mbarrier, as far as it is known"""
    count: int | None
    """arrivals of a phase; None if it is not a constant"""
    inits: tuple[Place, ...]

    @property
    def stages(self) -> int:
        """The number of mbarriers; 0 if it is unknown."""
        return (self.end - self.first) // _BYTES if self.end < _FARTHEST else 0

    def holds(self, address: Address) -> bool:
        """Return whether the ring contains an address."""
        return address.symbol == self.symbol and self.first <= address.offset < self.end


@dataclass(frozen=True)
class Operation:
    """A statement that uses mbarriers: equal instructions of one source line."""

    what: What
    ring: Ring | None
    """None if its address is unknown"""
    places: tuple[Place, ...]
    """copies of an unrolled loop"""
    operands: tuple[tuple[str, str], ...]
    """for each copy, its address, and its count, bytes or parity"""

    @property
    def place(self) -> Place:
        return self.places[0]

    @property
    def is_of_thread(self) -> bool:
        """True if a thread arrives, not an asynchronous operation."""
        return self.place.text.startswith("mbarrier")

    @property
    def is_local_arrive(self) -> bool:
        """True if a thread arrives on an mbarrier of its own CTA."""
        return self.place.text.startswith("mbarrier.arrive.shared::cta")


class _Use(NamedTuple):
    what: What
    place: Place
    at: str
    value: str


class Rings:
    """The rings of a kernel, and their operations."""

    def __init__(self, text: Text, registers: Registers) -> None:
        self.registers = registers
        uses = [*_uses(text)]
        self.known = _rings(uses, registers)
        grouped: dict[object, list[tuple[Address, _Use]]] = {}
        for use in uses:
            address, name = registers.address(use.at, use.place.at), use.place.text.split()[0]
            statement = _statement(use) if use.what == "init" else use.place.spot
            grouped.setdefault((statement, name, use.what, address.symbol), []).append((address, use))
        self.operations = [
            Operation(alike[0][1].what, self._ring(alike), tuple(u.place for _, u in alike),
                      tuple((u.at, u.value) for _, u in alike))
            for alike in grouped.values()
        ]  # fmt: skip

    def _ring(self, alike: list[tuple[Address, _Use]]) -> Ring | None:
        """Return the ring of a statement: that of its lowest address, since copies of a loop may add the length of a
        ring."""
        lowest = min((address for address, _ in alike), key=lambda address: address.offset)
        return next((ring for ring in self.known if ring.holds(lowest)), None)

    def select(self, ring: Ring | None, *what: What) -> list[Operation]:
        """Return the operations of these kinds on a ring."""
        return [op for op in self.operations if op.what in what and op.ring is ring]

    def all(self, *what: What) -> list[Operation]:
        """Return the operations of these kinds."""
        return [op for op in self.operations if op.what in what]


def _uses(text: Text) -> Iterator[_Use]:
    for place in text.places:
        for what, pattern in _OPERATIONS:
            if match := pattern.match(place.text):
                yield _Use(what, place, match["at"], (match["value"] or "").strip())
                break


def _statement(use: _Use) -> object:
    """Return a key that identifies the statement that initializes an mbarrier, inside of the functions that are
    inlined."""
    return use.place.frames or use.place.spot


def _rings(uses: list[_Use], registers: Registers) -> list[Ring]:
    """Return the rings, by the statements that initialize them."""
    grouped: dict[object, list[tuple[Address, _Use]]] = {}
    for use in uses:
        if use.what == "init":
            address = registers.address(use.at)
            key = _statement(use), address.symbol, registers.number(use.value)
            grouped.setdefault(key, []).append((address, use))
    runs = [run for group in grouped.values() for run in _contiguous(sorted(group, key=lambda e: e[0].offset))]
    varying = {(a.symbol, a.offset) for use in uses if use.what != "init" if (a := registers.address(use.at)).varies}
    runs = _join_runs(sorted(runs, key=lambda run: (run[0][0].symbol, run[0][0].offset)), varying, registers)
    found = []
    for run in runs:
        first, last = run[0][0], run[-1][0]
        later = [r[0][0].offset for r in runs if r[0][0].symbol == first.symbol and r[0][0].offset > first.offset]
        end = (min(later) if later else _FARTHEST) if any(a.varies for a, _ in run) else last.offset + _BYTES
        count = registers.number(run[0][1].value)
        found.append(Ring(first.symbol, first.offset, end, count, tuple(use.place for _, use in run)))
    return found


def _join_runs(
    runs: list[list[tuple[Address, _Use]]], varying: set[tuple[str, int]], registers: Registers
) -> list[list[tuple[Address, _Use]]]:
    """Merge neighboring mbarriers that separate statements initialize in the same form and that are used by an
    index."""
    found: list[list[tuple[Address, _Use]]] = []
    for run in runs:
        before = found[-1] if found else []
        if before and len(run) == 1 and not run[0][0].varies:
            (first, one), (last, _), (address, other) = before[0], before[-1], run[0]
            near = address.symbol == last.symbol and address.offset == last.offset + _BYTES
            alike = registers.number(one.value) == registers.number(other.value)
            indexed = (first.symbol, first.offset) in varying
            if near and alike and indexed and (address.symbol, address.offset) not in varying:
                before.append(run[0])
                continue
        found.append([*run])
    return found


def _contiguous(group: list[tuple[Address, _Use]]) -> Iterator[list[tuple[Address, _Use]]]:
    """Yield the parts of a group whose mbarriers are contiguous."""
    run: list[tuple[Address, _Use]] = []
    for entry in group:
        if run and entry[0].offset > run[-1][0].offset + _BYTES:
            yield run
            run = []
        run.append(entry)
    if run:
        yield run


def find_named_frame(place: Place) -> Span | None:
    """Return the call that names the mbarrier of an instruction; None if it is unknown."""
    found = cuda_calls.find_object(place.frames, "mbarrier", None) if place.frames else None
    return place.frames[found.depth] if found else None


def ring_words(ring: Ring, known: list[Ring]) -> str:
    """Return the words for a ring: its name in the source, or the line that initializes it."""
    init = ring.inits[0]
    found = cuda_calls.find_object(init.frames, "mbarrier", ring.symbol) if init.frames else None
    word = _INDEX.sub("", found.text) if found else re.sub(r"^_ZZ?\w*?E(\d+)(?=\D)", "", ring.symbol)
    if found or word != ring.symbol or len({other.symbol for other in known}) == len(known):
        return f"`{word}`"
    return f"the mbarrier{'s' * (ring.stages != 1)} that line {init.line} initializes"


# -- instructions that edits write -------------------------------------------------------------------------------------
def arrive_instruction(operand: str, like: str) -> str:
    """Return an arrive of one thread on the mbarrier of an operand, in the state space of an existing one."""
    space = "" if like.startswith("%rd") else ".shared::cta"
    return f"mbarrier.arrive{space}.b64 _, [{operand}];"


def remote_arrive_instruction(operand: str) -> str:
    """Return an arrive on an mbarrier of another CTA of the cluster."""
    return f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [{operand}];"


def wait_instructions(operand: str, parity: str, done: str, label: str) -> list[str]:
    """Return a wait for a parity: a loop that polls."""
    return [
        f"{label}:",
        f"mbarrier.try_wait.parity.shared::cta.b64 {done}, [{operand}], {parity};",
        f"@!{done} bra {label};",
    ]
